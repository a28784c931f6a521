use proptest::prelude::*;

use super::*;
use crate::policy::ConversationType;

#[derive(Clone, Debug)]
struct Wish {
    from: prop::sample::Index,
    to: prop::sample::Index,
    service: Service,
    /// Time since the previous request.
    pause: Span,
    /// Whether it is released before the next request, if it is set up by then.
    short: bool,
}

fn wish() -> impl Strategy<Value = Wish> {
    let service = prop_oneof![
        Just(Service::BestEffort),
        Just(Service::Priority(2)),
        Just(Service::Guaranteed(
            ConversationType::Audio.contract().unwrap()
        )),
    ];
    let pause = (0..400u64).prop_map(Span::from_ms);
    (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        service,
        pause,
        any::<bool>(),
    )
        .prop_map(|(from, to, service, pause, short)| Wish {
            from,
            to,
            service,
            pause,
            short,
        })
}

/// Trees of three to six nodes, given by the edge from each node to an earlier one.
fn tree() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec(any::<prop::sample::Index>(), 2..6).prop_map(|parents| {
        let edge = |(n, parent): (usize, &prop::sample::Index)| (parent.index(n + 1), n + 1);
        parents.iter().enumerate().map(edge).collect()
    })
}

proptest! {
    /// S6 and S7 of specs/insane-simulator.md 4.
    #[test]
    fn under_loss_every_call_ends_once_and_nothing_remains(
        edges in tree(),
        wishes in prop::collection::vec(wish(), 1..30),
        seed: u64,
    ) {
        let config = ControllerConfig { max_vcs: 8, ..ControllerConfig::default() };
        let mut net = Net::tree(&edges, Span::from_ms(5), config);
        net.loss = 0.3;
        net.stream = Stream::new(seed, "loss");
        let hosts: Vec<usize> = (0..net.nodes.len())
            .filter(|&node| net.peers.range((node, PortId(0))..=(node, PortId::LOCAL)).count() == 1)
            .collect();
        let mut calls = Vec::new();
        let mut open = Vec::new();
        for wish in wishes {
            let from = hosts[wish.from.index(hosts.len())];
            let to = hosts[wish.to.index(hosts.len())];
            let request = net.setup(from, to, wish.service);
            calls.push((from, to, request));
            net.run(net.now + wish.pause);
            match net.answer(from, request).map(|answer| answer.what) {
                Some(Ok(circuit)) if wish.short => net.release(from, circuit),
                _ => open.push((from, to, request)),
            }
        }
        net.settle();
        prop_assert_eq!(net.answers.len(), calls.len());
        for (from, to, request) in open {
            if let Ok(circuit) = net.answer(from, request).unwrap().what {
                prop_assert_eq!(net.follow(from, circuit), Some(to));
                net.release(from, circuit);
            }
        }
        net.settle();
        net.assert_empty();
        prop_assert!(net.lost.is_empty());
        for node in &net.nodes {
            let stats = node.stats();
            // Between honest neighbours messages do not even cross.
            let nonsense = stats.unknown_call + stats.wrong_port + stats.duplicate + stats.bad_vcid;
            prop_assert_eq!((nonsense, stats.unanswered, stats.timeouts), (0, 0, 0));
        }
    }
}
