use layercast_partial_order::{Order, OrderError, Sdu, Tspn, TspnError};
use proptest::prelude::*;

fn sdu(flow: usize, number: u64) -> Sdu {
    Sdu { flow, number }
}

/// Figure 1 of the paper: a logo, two images, and 48 pairs of frames of two videos, each pair before the next.
pub fn figure_1() -> Order {
    let mut edges = Vec::new();
    for pair in 0..47 {
        for (from, to) in [(2, 2), (2, 3), (3, 2), (3, 3)] {
            edges.push((sdu(from, pair), sdu(to, pair + 1)));
        }
    }
    Order::dag(&[1, 2, 48, 48], &edges).unwrap()
}

#[test]
fn figure_1_has_the_extensions_of_48_pairs_and_three_free_objects() {
    assert_eq!(figure_1().linear_extensions(), Some(941_094 << 48));
}

#[test]
fn figure_1_has_the_relations_of_the_paper() {
    let order = figure_1();
    assert!(!order.precedes(sdu(0, 0), sdu(1, 0)) && !order.precedes(sdu(1, 0), sdu(0, 0)));
    // SDU 6 after 4 in its flow, after 5 in the other.
    assert!(order.precedes(sdu(2, 0), sdu(2, 1)));
    assert!(order.precedes(sdu(3, 0), sdu(2, 1)));
    assert!(!order.precedes(sdu(3, 0), sdu(2, 0)));
    assert!(order.precedes(sdu(3, 0), sdu(2, 47)));
}

#[test]
fn blocks_of_two_and_one_have_three_extensions_each() {
    let blocks = Order::blocks(&[2, 1]).unwrap();
    assert_eq!(
        blocks.restricted(&[2, 1]).unwrap().linear_extensions(),
        Some(3)
    );
    assert_eq!(
        blocks.restricted(&[20, 10]).unwrap().linear_extensions(),
        Some(59_049)
    );
}

#[test]
fn needs_of_blocks_of_two_and_one() {
    let blocks = Order::blocks(&[2, 1]).unwrap();
    // In numbers from 1 for the flows, as the specification: SDU (1, 5) and SDU (2, 3).
    assert_eq!(
        (blocks.need(sdu(0, 5), 0), blocks.need(sdu(0, 5), 1)),
        (5, 2)
    );
    assert_eq!(
        (blocks.need(sdu(1, 3), 0), blocks.need(sdu(1, 3), 1)),
        (6, 3)
    );
}

#[test]
fn strength_reaches_from_one_to_the_factorial() {
    let five = |order: Order| order.restricted(&[5]).unwrap().linear_extensions();
    assert_eq!(five(Order::total()), Some(1));
    assert_eq!(five(Order::none(1).unwrap()), Some(120));
    let parallel = Order::blocks_with(&[3], &[true]).unwrap();
    assert_eq!(
        parallel.restricted(&[6]).unwrap().linear_extensions(),
        Some(36)
    );
}

#[test]
fn an_order_that_is_neither_series_nor_parallel_is_counted_over_down_sets() {
    // The N: a < c, b < c, b < d has 5 extensions.
    let edges = [
        (sdu(0, 0), sdu(1, 0)),
        (sdu(0, 1), sdu(1, 0)),
        (sdu(0, 1), sdu(1, 1)),
    ];
    assert_eq!(
        Order::dag(&[2, 2], &edges).unwrap().linear_extensions(),
        Some(5)
    );
}

#[test]
fn bad_orders_are_refused_with_their_nodes() {
    assert_eq!(
        Order::blocks(&[2, 0]),
        Err(OrderError::Count { flow: 1, count: 0 })
    );
    assert_eq!(Order::none(0), Err(OrderError::Flows(0)));
    assert_eq!(Order::none(65), Err(OrderError::Flows(65)));
    assert_eq!(Order::dag(&[5_000], &[]), Err(OrderError::Nodes(5_000)));
    let unknown = (sdu(0, 0), sdu(3, 0));
    assert_eq!(
        Order::dag(&[1], &[unknown]),
        Err(OrderError::Unknown {
            from: unknown.0,
            to: unknown.1
        })
    );
    let edges = [
        (sdu(0, 0), sdu(0, 1)),
        (sdu(0, 1), sdu(1, 0)),
        (sdu(1, 0), sdu(0, 1)),
        (sdu(1, 0), sdu(1, 1)),
    ];
    let error = Order::dag(&[2, 2], &edges).unwrap_err();
    let OrderError::Cycle(cycle) = &error else {
        panic!("{error}")
    };
    assert_eq!(cycle.len(), 3, "{error}");
    assert_eq!(cycle[0], cycle[2]);
    assert!(
        cycle.contains(&sdu(0, 1)) && cycle.contains(&sdu(1, 0)),
        "{error}"
    );
    assert!(Order::dag(&[1], &[(sdu(0, 0), sdu(0, 0))]).is_err());
}

const NET: &str = "
    # two pictures beside one block of sound
    place v0 video
    place a0 sound
    place v1 video
    place a1 sound
    transition t0: v0 [35,40,45], a0 -> v1, a1
";

#[test]
fn a_petri_net_gives_its_order_and_keeps_its_intervals() {
    let net = Tspn::parse(NET).unwrap();
    assert_eq!(net.flows, ["video", "sound"]);
    assert_eq!(
        net.transitions[0].inputs[0].interval_ms,
        Some([35.0, 40.0, 45.0])
    );
    assert_eq!(net.transitions[0].inputs[1].interval_ms, None);
    assert_eq!(
        net.order().unwrap(),
        Order::blocks(&[1, 1]).unwrap().restricted(&[2, 2]).unwrap()
    );
}

#[test]
fn faults_of_a_petri_net_name_their_line() {
    for (text, line, what) in [
        ("place v0", 1, "expected `place PLACE FLOW`"),
        ("place a f\nplace a f", 2, "declared twice"),
        ("place a f\ntransition t: a -> b", 2, "b is not declared"),
        (
            "place a f\ntransition t: a [1,2] ->",
            2,
            "[MIN,NOMINAL,MAX]",
        ),
        (
            "place a f\ntransition t: a [3,2,1] ->",
            2,
            "[MIN,NOMINAL,MAX]",
        ),
        (
            "place a f\ntransition t: a ->\ntransition u: a ->",
            3,
            "choice",
        ),
        ("hello", 1, "expected `place` or `transition`"),
    ] {
        let Err(TspnError::Line { line: at, problem }) = Tspn::parse(text) else {
            panic!("{text}")
        };
        assert!(
            at == line && problem.contains(what),
            "{text}: {at}: {problem}"
        );
    }
    let cycle = "place a f\nplace b f\ntransition t: a -> b\ntransition u: b -> a";
    assert!(matches!(
        Tspn::parse(cycle).unwrap().order(),
        Err(OrderError::Cycle(_))
    ));
}

/// Needs of a finite order are transitively closed, and say what the edges say.
fn check_closed(order: &Order, counts: &[u32], edges: &[(Sdu, Sdu)]) {
    for &(from, to) in edges {
        assert!(order.precedes(from, to));
    }
    for (flow, &count) in counts.iter().enumerate() {
        for number in 0..u64::from(count) {
            let of = sdu(flow, number);
            for chain in 0..order.chains() {
                for at in 0..order.need(of, chain) {
                    let before = sdu(order.flow_of(chain), order.number(chain, at).unwrap());
                    for other in 0..order.chains() {
                        assert!(order.need(before, other) <= order.need(of, other));
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn needs_are_closed(counts in prop::collection::vec(0_u32..6, 1..4), picks in prop::collection::vec((0_usize..18, 0_usize..18), 0..30)) {
        let all: Vec<Sdu> = counts.iter().enumerate().flat_map(|(flow, &n)| (0..u64::from(n)).map(move |k| sdu(flow, k))).collect();
        let edges: Vec<_> = picks.iter().filter(|(a, b)| a < b && *b < all.len()).map(|&(a, b)| (all[a], all[b])).collect();
        let order = Order::dag(&counts, &edges).unwrap();
        check_closed(&order, &counts, &edges);
    }
}
