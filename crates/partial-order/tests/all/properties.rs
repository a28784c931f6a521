//! The invariants of the specification over random orders, tolerances, losses, duplicates and reordering.

use std::collections::BTreeSet;

use bytes::Bytes;
use layercast_core::{Span, Stream, Time};
use layercast_partial_order::{
    Config, FlowConfig, LossCause, Order, Policy, Receiver, ReceiverEvent, ReceiverOptions, Sdu,
    Sender, SenderEvent, SenderOptions, Tolerance,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    order: Order,
    /// SDUs of each flow.
    counts: Vec<u32>,
    tolerances: Vec<Tolerance>,
    group: bool,
    loss: f64,
    reorder: u64,
    seed: u64,
    opportunistic: bool,
    infer: bool,
    grace: u64,
}

/// Submits everything over a bad path, closes, and gives all events of the receiver with their times.
fn play(case: &Case) -> Vec<ReceiverEvent> {
    let flows = case.tolerances.iter().map(|&tolerance| FlowConfig {
        grace: Span::from_ms(case.grace),
        ..FlowConfig::new(Span::from_ms(10), tolerance)
    });
    let policy = if case.group {
        Policy::PerGroup
    } else {
        Policy::MediaPerMedia
    };
    let mut config = Config::new(1, flows.collect(), case.order.clone(), policy);
    (config.opportunistic, config.infer) = (case.opportunistic, case.infer);
    let options = SenderOptions {
        max_pdu: 1 << 16,
        ..SenderOptions::default()
    };
    let mut sender = Sender::new(config, options, Time::ZERO).unwrap();
    let mut receiver = Receiver::new(ReceiverOptions {
        max_pdu: 1 << 16,
        ..ReceiverOptions::default()
    });
    let mut random = Stream::new(case.seed, "path");
    let mut wires: [Vec<(Time, Bytes)>; 2] = Default::default();
    let (mut events, mut next) = (Vec::new(), vec![0_u64; case.counts.len()]);
    let (mut now, mut over, mut closing) = (Time::ZERO, false, false);
    while !over {
        assert!(
            now < Time::ZERO + Span::from_secs(600),
            "the connection does not end: {case:?}"
        );
        // Submissions in a sequence that the order permits: a flow waits for its predecessors in the others.
        if sender.is_open() {
            let all = (0..next.len()).all(|flow| next[flow] == u64::from(case.counts[flow]));
            for flow in 0..next.len() {
                let sdu = Sdu {
                    flow,
                    number: next[flow],
                };
                let ready = (0..next.len()).all(|other| {
                    case.order.horizon(sdu, other)
                        <= next[other].max(u64::from(other == flow) * next[flow])
                });
                if next[flow] < u64::from(case.counts[flow]) && ready {
                    next[flow] += u64::from(sender.submit(flow, Bytes::new(), now).is_ok());
                }
            }
            if all && !closing {
                closing = true;
                sender.close(now);
            }
        }
        for (wire, out) in [(0, true), (1, false)] {
            while let Some(it) = if out {
                sender.poll_transmit()
            } else {
                receiver.poll_transmit()
            } {
                let lossy = sender.is_open() || closing;
                let copies = if lossy && random.chance(case.loss) {
                    0
                } else {
                    1 + u32::from(random.chance(0.05))
                };
                for _ in 0..copies {
                    let delay = Span::from_ms(2 + random.below(case.reorder + 1));
                    wires[wire].push((now + delay, it.clone()));
                }
            }
        }
        while let Some(event) = receiver.poll_event() {
            events.push(event);
        }
        while let Some(event) = sender.poll_event() {
            over |= matches!(event, SenderEvent::Closed);
            assert!(event != SenderEvent::PeerDead, "{case:?}");
        }
        now += Span::from_ms(1);
        for (wire, forward) in [(0, true), (1, false)] {
            let (due, later) = std::mem::take(&mut wires[wire])
                .into_iter()
                .partition(|it| it.0 <= now);
            wires[wire] = later;
            for (_, it) in due as Vec<(Time, Bytes)> {
                if forward {
                    receiver.handle(now, it)
                } else {
                    sender.handle(now, it)
                }
            }
        }
        if sender.next_timeout().is_some_and(|at| at <= now) {
            sender.on_timeout(now);
        }
        if receiver.next_timeout().is_some_and(|at| at <= now) {
            receiver.on_timeout(now);
        }
    }
    while let Some(event) = receiver.poll_event() {
        events.push(event);
    }
    events
}

/// (I1) to (I5) over the events of a connection that closed.
fn check(case: &Case, events: &[ReceiverEvent]) {
    let mut settled: BTreeSet<Sdu> = BTreeSet::new();
    let mut outcomes: Vec<Vec<bool>> = vec![Vec::new(); case.counts.len()];
    let mut lost: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); case.counts.len()];
    let mut violated = BTreeSet::new();
    for event in events {
        match event {
            ReceiverEvent::Deliver { flow, number, .. } => {
                let sdu = Sdu {
                    flow: *flow,
                    number: *number,
                };
                // I1, I4: every predecessor was delivered or said to be lost before.
                for chain in 0..case.order.chains() {
                    for at in 0..case.order.need(sdu, chain) {
                        let number = case.order.number(chain, at).unwrap();
                        let before = Sdu {
                            flow: case.order.flow_of(chain),
                            number,
                        };
                        let sent = number < u64::from(case.counts[before.flow]);
                        assert!(
                            !sent || settled.contains(&before),
                            "{before} not before {sdu}: {case:?}"
                        );
                    }
                }
                assert!(settled.insert(sdu), "{sdu} twice: {case:?}");
                outcomes[*flow].push(false);
            }
            ReceiverEvent::Lost {
                flow,
                numbers,
                cause,
            } => {
                // I5.
                assert!(
                    case.group || !matches!(cause, LossCause::Group { .. }),
                    "{case:?}"
                );
                for &number in numbers {
                    let sdu = Sdu {
                        flow: *flow,
                        number,
                    };
                    assert!(settled.insert(sdu), "{sdu} twice: {case:?}");
                    outcomes[*flow].push(true);
                    lost[*flow].insert(number);
                }
                if *cause == LossCause::SenderGone {
                    violated.insert(*flow);
                }
            }
            _ => {}
        }
    }
    // I3.
    for (flow, &count) in case.counts.iter().enumerate() {
        for number in 0..u64::from(count) {
            assert!(
                settled.contains(&Sdu { flow, number }),
                "({flow}, {number}) is not settled: {case:?}"
            );
        }
        assert_eq!(outcomes[flow].len(), count as usize);
    }
    // I2.
    for flow in (0..case.counts.len()).filter(|flow| !violated.contains(flow)) {
        check_tolerance(case.tolerances[flow], &outcomes[flow], &lost[flow], case);
    }
}

fn check_tolerance(tolerance: Tolerance, outcomes: &[bool], lost: &BTreeSet<u64>, case: &Case) {
    let total = lost.len() as u64;
    match tolerance {
        Tolerance::Full => assert_eq!(total, 0, "{case:?}"),
        Tolerance::None => {}
        Tolerance::Consecutive(most) => {
            let long = lost
                .iter()
                .find(|&&at| (at..=at + u64::from(most)).all(|it| lost.contains(&it)));
            assert_eq!(long, None, "{case:?}");
        }
        Tolerance::Rate { ppm, window } => {
            let most = u64::from(ppm) * u64::from(window) / 1_000_000;
            for end in 1..=outcomes.len() {
                let recent = &outcomes[end.saturating_sub(window as usize)..end];
                assert!(
                    recent.iter().filter(|&&it| it).count() as u64 <= most,
                    "{case:?}"
                );
            }
        }
        Tolerance::Cumulative { ppm } => {
            let (mut lost, mut all) = (0_u64, 0_u64);
            for &outcome in outcomes {
                all += 1;
                lost += u64::from(outcome);
            }
            assert!(lost * 1_000_000 <= u64::from(ppm) * (all + 1), "{case:?}");
        }
    }
}

fn tolerance() -> impl Strategy<Value = Tolerance> {
    prop_oneof![
        Just(Tolerance::Full),
        Just(Tolerance::None),
        (0_u32..4).prop_map(Tolerance::Consecutive),
        (0_u32..500_000, 1_u32..30).prop_map(|(ppm, window)| Tolerance::Rate { ppm, window }),
        (0_u32..500_000).prop_map(|ppm| Tolerance::Cumulative { ppm }),
    ]
}

fn orders() -> impl Strategy<Value = (Order, Vec<u32>)> {
    let blocks = prop::collection::vec((1_u32..4, any::<bool>()), 1..4).prop_map(|flows| {
        let (counts, parallel): (Vec<_>, Vec<_>) = flows.into_iter().unzip();
        let sent = counts.iter().map(|&it| it * 8).collect();
        (Order::blocks_with(&counts, &parallel).unwrap(), sent)
    });
    let none = (1_usize..4).prop_map(|flows| (Order::none(flows).unwrap(), vec![15; flows]));
    let picks = prop::collection::vec((0_usize..30, 0_usize..30), 0..60);
    let dag = (prop::collection::vec(0_u32..10, 1..4), picks).prop_map(|(counts, picks)| {
        // Numbered along the rounds of the submission, so that each flow submits in a sequence the order permits.
        let mut all: Vec<Sdu> = Vec::new();
        for (flow, &count) in counts.iter().enumerate() {
            all.extend((0..u64::from(count)).map(|number| Sdu { flow, number }));
        }
        all.sort_by_key(|it| (it.number, it.flow));
        let edges: Vec<_> = picks
            .iter()
            .filter(|(a, b)| a < b && *b < all.len())
            .map(|&(a, b)| (all[a], all[b]))
            .collect();
        (Order::dag(&counts, &edges).unwrap(), counts)
    });
    prop_oneof![blocks, none, dag]
}

fn cases() -> impl Strategy<Value = Case> {
    (
        orders(),
        prop::collection::vec(tolerance(), 3),
        any::<[bool; 3]>(),
        0.0..0.4,
        0_u64..20,
        any::<u64>(),
        prop_oneof![Just(0_u64), 1_u64..40],
    )
        .prop_map(
            |(
                (order, counts),
                mut tolerances,
                [group, opportunistic, infer],
                loss,
                reorder,
                seed,
                grace,
            )| {
                tolerances.truncate(counts.len());
                Case {
                    order,
                    counts,
                    tolerances,
                    group,
                    loss,
                    reorder,
                    seed,
                    opportunistic,
                    infer,
                    grace,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn invariants_1_to_5_hold(case in cases()) {
        let events = play(&case);
        check(&case, &events);
    }

    /// I7: without tolerated loss both policies do the same.
    #[test]
    fn without_tolerance_both_policies_are_the_same(mut case in cases()) {
        case.tolerances.fill(Tolerance::Full);
        (case.group, case.opportunistic, case.grace) = (true, false, 0);
        let grouped = play(&case);
        case.group = false;
        prop_assert_eq!(grouped, play(&case));
    }

    /// I6: without loss and reordering nothing is lost, and the policies do the same if SDUs come in sequence.
    #[test]
    fn without_loss_everything_is_delivered(mut case in cases()) {
        (case.loss, case.reorder, case.opportunistic, case.grace) = (0.0, 0, false, 0);
        case.group = true;
        let grouped = play(&case);
        let lost = grouped.iter().any(|it| matches!(it, ReceiverEvent::Lost { .. }));
        prop_assert!(!lost);
        case.group = false;
        prop_assert_eq!(grouped, play(&case));
    }
}
