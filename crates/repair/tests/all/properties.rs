use std::collections::BTreeSet;

use layercast_core::{FlowId, Layer, Machine, Off, Rate, Serial, Span, Stream, Time};
use layercast_repair::{
    Arrival, Carried, Codec, Feedback, Head, LayerRepairs, MAX_BLOCKS, MAX_GAPS, MAX_HISTORY,
    MAX_QUEUED, MAX_RANGES, Means, Missing, PARITY_HEAD, RepairConfig, Repairer, RepairerInput,
    Requester, RequesterInput, SHARED_HEAD, SPAN, Unit,
};
use proptest::prelude::*;

use crate::channel::{Impairment, OCTETS, SESSION, Setup, run};

/// Octets of a parity on the line.
const PARITY: u32 = OCTETS + (PARITY_HEAD - SHARED_HEAD) as u32 + 3;

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_secs(1) + Span::from_us(us)
}

fn repairer(rate: Option<Rate>) -> Repairer<u64> {
    repairer_by(rate, Means::Auto)
}

fn repairer_by(rate: Option<Rate>, means: Means) -> Repairer<u64> {
    Repairer::new(RepairConfig {
        name: "a-b".into(),
        session: SESSION,
        rate,
        measures: false,
        means,
        codec: numbers(),
    })
}

fn means() -> impl Strategy<Value = Means> {
    prop_oneof![
        Just(Means::Auto),
        Just(Means::Requests),
        Just(Means::Parities)
    ]
}

/// Numbers as contents.
fn numbers() -> Codec<u64> {
    Codec {
        encode: |number| number.to_be_bytes().to_vec().into(),
        len: |_| 8,
        decode: |octets| Some(u64::from_be_bytes(octets[..].try_into().ok()?)),
    }
}

fn unit(layer: Layer, stamp_us: u32) -> Unit {
    Unit {
        flow: FlowId(1),
        layer,
        stamp_us: Some(stamp_us),
        octets: OCTETS,
        last: true,
        repair: true,
        lasts: None,
    }
}

fn send(now: Time, layer: Layer, item: u64) -> RepairerInput<u64> {
    RepairerInput::Send {
        at: now,
        unit: unit(layer, now.as_us() as u32),
        item,
    }
}

/// Feedback that says that the `len` counters up to `hi` are lost.
fn all_lost(now: Time, hi: u64, len: u64) -> Feedback {
    Feedback {
        session: SESSION,
        tx_us: Serial(now.as_us() as u32),
        hi: Serial(hi as u32),
        known: len as u16,
        window_us: 1_000,
        budget_ms: Some(1_000),
        next_ms: 15,
        missing: vec![Missing {
            back: (len - 1) as u16,
            len: len as u16,
            requested: true,
        }],
        arrivals: Vec::new(),
    }
}

fn any_feedback() -> impl Strategy<Value = Feedback> {
    let range = (any::<u16>(), 1..0x7FFF_u16, any::<bool>());
    let ranges = prop::collection::vec(range, 0..MAX_RANGES);
    let arrivals = prop::collection::vec((any::<u16>(), 0..1_u32 << 24), 0..16);
    let fixed = (
        0..9_u16,
        any::<u32>(),
        0..3_000_u32,
        any::<u16>(),
        any::<u32>(),
    );
    (fixed, prop::option::of(any::<u16>()), ranges, arrivals).prop_map(
        |((session, tx, hi, known, window_us), budget_ms, ranges, arrivals)| Feedback {
            session,
            tx_us: Serial(tx),
            hi: Serial(hi),
            known,
            window_us,
            budget_ms,
            next_ms: window_us as u8,
            missing: ranges
                .into_iter()
                .map(|(back, len, requested)| Missing {
                    back,
                    len,
                    requested,
                })
                .collect(),
            arrivals: arrivals
                .into_iter()
                .map(|(back, ago_us)| Arrival { back, ago_us })
                .collect(),
        },
    )
}

fn any_head() -> impl Strategy<Value = Head> {
    let counter = prop_oneof![0..2_000_u32, any::<u32>()];
    (0..4_u8, 6..9_u8, counter, 1..=u16::MAX).prop_map(|(kind, session, counter, back)| {
        let layer = Layer::E1;
        let repair = |back| Head::Repair {
            session,
            counter: counter & 0xFF_FFFF,
            layer,
            back,
        };
        match kind {
            0 => Head::Data {
                session: session.into(),
                counter: Serial(counter),
                layer,
            },
            1 => repair(back % 100 + 1),
            2 => repair(back),
            _ => Head::Marker {
                session: session.into(),
                hi: Serial(counter),
                every_ms: back as u8,
                rtt_us: back.into(),
                asks: back % 2 == 1,
            },
        }
    })
}

/// What a neighbour says of datagrams that were sent: its clock advances by any time, and anything arrived any time ago.
#[derive(Clone, Debug)]
struct Claim {
    sent: u8,
    passed_us: u32,
    clock_us: u32,
    behind: u16,
    missing: Vec<(u16, u16)>,
    arrivals: Vec<(u16, u32)>,
}

fn claim() -> impl Strategy<Value = Claim> {
    let missing = prop::collection::vec((0..64_u16, 1..64_u16), 0..3);
    let arrivals = prop::collection::vec((0..64_u16, 0..200_000_u32), 0..16);
    let times = (0..60_000_u32, prop_oneof![0..100_000_u32, any::<u32>()]);
    let all = (0..40_u8, times, 0..3_u16, missing, arrivals);
    all.prop_map(
        |(sent, (passed_us, clock_us), behind, missing, arrivals)| Claim {
            sent,
            passed_us,
            clock_us,
            behind,
            missing,
            arrivals,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_claim_of_a_neighbour_drives_the_rate_or_the_drift_out_of_its_bounds(
        claims in prop::collection::vec(claim(), 1..60),
    ) {
        let mut repairer = Repairer::new(RepairConfig {
            name: "a-b".into(),
            session: SESSION,
            rate: None,
            measures: true,
            means: Means::Auto,
            codec: numbers(),
        });
        let bounds = Rate::from_bps(64_000)..=Rate::from_bps(100_000_000_000);
        let (mut us, mut clock, mut sent) = (0, 0_u32, 0_u64);
        for claim in claims {
            us += u64::from(claim.passed_us);
            clock = clock.wrapping_add(claim.clock_us);
            let now = at(us);
            for _ in 0..claim.sent {
                repairer.handle(now, send(now, Layer::Base, sent), &mut Off);
                while let Some(out) = repairer.poll_transmit(now, &mut Off) {
                    sent += u64::from(out.item.is_some());
                }
            }
            let feedback = Feedback {
                session: SESSION,
                tx_us: Serial(clock),
                hi: Serial(sent.saturating_sub(1 + u64::from(claim.behind)) as u32),
                known: 64,
                window_us: 1_000,
                budget_ms: Some(500),
                next_ms: 15,
                missing: claim
                    .missing
                    .iter()
                    .map(|&(back, len)| Missing { back, len, requested: true })
                    .collect(),
                arrivals: claim
                    .arrivals
                    .iter()
                    .map(|&(back, ago_us)| Arrival { back, ago_us })
                    .collect(),
            };
            repairer.handle(now, RepairerInput::Feedback(feedback), &mut Off);
            while repairer.poll_transmit(now, &mut Off).is_some() {
                sent += 1;
            }
            let estimate = repairer.estimate().unwrap();
            prop_assert!(estimate.rate.is_none_or(|rate| bounds.contains(&rate)), "{estimate:?}");
            let told = repairer.poll_event();
            prop_assert!(told.is_none_or(|rate| bounds.contains(&rate)), "{told:?}");
            prop_assert_eq!(repairer.poll_event(), None);
            for later in [now, now + Span::from_secs(1 << 20)] {
                let drift = repairer.clock(later).map_or(0, |it| it.drift_ppb);
                prop_assert!(drift.abs() <= 1_000_000, "{drift} ppb");
            }
        }
    }

    /// Over any channel a packet is handed over once, and each one that is missing has a cause, also if the ends of the hops
    /// start again from time to time.
    #[test]
    fn each_packet_once_or_missing_with_a_cause(
        loss in 0.0..0.4_f64,
        burst in prop_oneof![Just(1.0), 2.0..30.0_f64],
        duplicate in 0.0..0.2_f64,
        reorder in 0.0..0.2_f64,
        delay in 0..80_u64,
        rate in prop::option::of(4_u64..50),
        budget in 50..600_u64,
        hops in 1..3_usize,
        layered in any::<bool>(),
        restart_every in prop::option::of(2..60_u64),
        means in means(),
        seed in any::<u64>(),
    ) {
        let how = Impairment {
            loss,
            burst,
            duplicate,
            reorder,
            reorder_by: Span::from_ms(30),
            delay: Span::from_ms(delay),
            jitter: Span::from_ms(3),
        };
        let outcome = run(&Setup {
            hops,
            rate: rate.map(|rate| Rate::from_bps(rate * 1_000_000)),
            frames: 100,
            layered,
            restart_every,
            means,
            seed,
            ..Setup::of(how, budget)
        });
        prop_assert_eq!(outcome.twice, 0);
        let causes: u64 = outcome.hops.iter().map(|(sent, _)| {
            let layers = [sent.layers.base, sent.layers.e1];
            let of = |it: &LayerRepairs| it.too_late + it.over_grant + it.unsent + it.uncovered;
            layers.iter().map(of).sum::<u64>() + sent.forgotten + sent.unresolved
        }).sum();
        let duplicates: u64 = outcome.hops.iter().map(|(_, received)| received.duplicates).sum();
        let (sent, arrived) = outcome.packets;
        prop_assert!(
            sent - arrived <= causes + duplicates + outcome.cut,
            "{} of {} arrived, causes {}, cut {}: {:?}", arrived, sent, causes, outcome.cut, outcome.hops
        );
    }

    /// For any feedback the output fits the rate, strictly one datagram after the other.
    #[test]
    fn repairs_never_exceed_the_rate(
        rate in 1_u64..40,
        means in means(),
        budget_ms in 20..1_000_u16,
        steps in prop::collection::vec((0..3_usize, 0..4_000_u64, any::<bool>()), 50..400),
    ) {
        let rate = Rate::from_bps(rate * 1_000_000);
        let mut repairer = repairer_by(Some(rate), means);
        let (mut us, mut sent, mut free) = (0, 0, Time::ZERO);
        for (layer, wait, asks) in steps {
            us += wait;
            let now = at(us);
            repairer.handle(now, send(now, Layer::ALL[layer], sent), &mut Off);
            if asks && sent > 0 {
                let lost = Feedback {
                    budget_ms: Some(budget_ms),
                    ..all_lost(now, sent - 1, sent.min(2_000))
                };
                repairer.handle(now, RepairerInput::Feedback(lost), &mut Off);
            }
            while let Some(out) = repairer.poll_transmit(now, &mut Off) {
                if out.item.is_none() {
                    continue;
                }
                sent += 1;
                // A parity is longer by its header and the length of a content.
                let octets = match out.head {
                    Head::Parity(_) => PARITY,
                    _ => OCTETS,
                };
                let start = out.ready.saturating_sub(rate.time_for(octets.into()));
                prop_assert!(start >= free && start <= now);
                free = out.ready;
            }
        }
    }

    /// Without a rate, repairs take no more than the media and a burst.
    #[test]
    fn without_a_rate_repairs_are_bounded_by_the_media(
        seed in any::<u64>(),
        means in means(),
        budget_ms in 20..1_000_u16,
    ) {
        let mut repairer = repairer_by(None, means);
        let mut random = Stream::new(seed, "steps");
        let mut sent = 0;
        for step in 0..2_000_u64 {
            let now = at(step * 1_000);
            if random.chance(0.3) {
                repairer.handle(now, send(now, Layer::Base, step), &mut Off);
            }
            if sent > 0 {
                let lost = Feedback {
                    budget_ms: Some(budget_ms),
                    ..all_lost(now, sent - 1, sent.min(2_000))
                };
                repairer.handle(now, RepairerInput::Feedback(lost), &mut Off);
            }
            while let Some(out) = repairer.poll_transmit(now, &mut Off) {
                sent += u64::from(out.item.is_some());
            }
        }
        let base = repairer.stats().layers.base;
        prop_assert!(base.repair_octets <= base.octets + (64 << 10));
        prop_assert!(base.repairs > 0);
        if means == Means::Parities {
            // One for two contents, and one for the odd one of a block: it takes contents for half of the budget.
            let blocks = 2 * 2_000 / u64::from(budget_ms) + base.sent / 64 + 2;
            prop_assert!(base.ahead * 2 <= base.sent + blocks, "{base:?} {blocks}");
            prop_assert_eq!(base.repairs, base.ahead);
        }
    }

    /// Feedback from anybody moves no state beyond its bounds.
    #[test]
    fn forged_feedback_is_harmless(
        forged in prop::collection::vec(any_feedback(), 1..60),
        means in means(),
    ) {
        let mut repairer = repairer_by(Some(Rate::from_bps(10_000_000)), means);
        for (n, feedback) in forged.into_iter().enumerate() {
            let now = at(n as u64 * 5_000);
            for item in 0..40 {
                repairer.handle(now, send(now, Layer::Base, item), &mut Off);
            }
            repairer.handle(now, RepairerInput::Feedback(feedback), &mut Off);
            for _ in 0..20 {
                repairer.poll_transmit(now, &mut Off);
            }
            let (history, queued, blocks) = repairer.held();
            prop_assert!(history <= MAX_HISTORY && queued <= MAX_QUEUED && blocks <= MAX_BLOCKS);
        }
    }

    /// Headers from anybody: content is given once, and the gaps stay bounded.
    #[test]
    fn forged_headers_are_harmless(forged in prop::collection::vec(any_head(), 1..300)) {
        let mut requester = Requester::new("a-b", SESSION, numbers());
        let mut seen = BTreeSet::new();
        for (n, head) in forged.into_iter().enumerate() {
            let now = at(n as u64 * 1_000);
            let input = match &head {
                Head::Marker { .. } => RequesterInput::Marker(head),
                Head::Data { counter, .. } => RequesterInput::Datagram(head.clone(), Carried::Item(counter.0.into())),
                Head::Repair { counter, back, .. } => {
                    let content = counter.wrapping_sub((*back).into());
                    RequesterInput::Datagram(head.clone(), Carried::Item(content.into()))
                }
                _ => unreachable!("no other header is made"),
            };
            requester.handle(now, input, &mut Off);
            while let Some(content) = requester.poll_event() {
                prop_assert!(seen.insert(content), "{} twice", content);
            }
            if let Some(feedback) = requester.poll_transmit(now, &mut Off) {
                let mut wire = Vec::new();
                Head::Feedback(feedback.clone()).encode_into(&mut wire);
                let decoded = Head::decode(&wire);
                prop_assert_eq!(decoded, Ok((Head::Feedback(feedback), &[][..])));
            }
            prop_assert!(requester.missing() <= SPAN);
        }
    }
}

fn data(session: u16, counter: u32, item: u64) -> RequesterInput<u64> {
    let head = Head::Data {
        session,
        counter: Serial(counter),
        layer: Layer::Base,
    };
    RequesterInput::Datagram(head, Carried::Item(item))
}

#[test]
fn forged_counters_far_ahead_silence_no_sender() {
    let mut requester = Requester::new("a-b", SESSION, numbers());
    let mut given = 0;
    for n in 0..300_u32 {
        let mut counters = vec![n];
        if n == 100 || n == 200 {
            counters.extend([n + (1 << 30), n + (1 << 30) + 1]);
        }
        for counter in counters {
            let input = data(SESSION, counter, counter.into());
            requester.handle(at(u64::from(n) * 1_000), input, &mut Off);
        }
        given += std::iter::from_fn(|| requester.poll_event())
            .filter(|it| *it < 300)
            .count();
    }
    // In the millisecond since the datagram before, 2^30 of them cannot have been sent: even a second one is not believed.
    assert_eq!(given, 300, "{:?}", requester.stats());
    assert_eq!(requester.stats().strays, 4);
    assert!(requester.missing() < 100);
}

/// Datagrams of media each 20 ms, and requests each second: the latter come long after their counters are given up.
#[test]
fn forged_counters_within_the_window_hold_nothing_back() {
    for (forged, ms) in [(1, 20), (3, 20), (1, 1_000), (3, 1_000)] {
        let mut requester = Requester::new("a-b", SESSION, numbers());
        let mut given = Vec::new();
        let mut newest = 0;
        for n in 0..1_000_u32 {
            let now = at(u64::from(n) * ms * 1_000);
            requester.handle(now, data(SESSION, n, n.into()), &mut Off);
            if n == 100 {
                for k in 1..=forged {
                    requester.handle(now, data(SESSION, n + k * 4_000, 5_000), &mut Off);
                }
            }
            given.extend(std::iter::from_fn(|| requester.poll_event()).filter(|it| *it < 1_000));
            requester.on_timeout(now, &mut Off);
            while let Some(report) = requester.poll_transmit(now, &mut Off) {
                newest = report.hi.0;
            }
        }
        let all: Vec<u64> = (0..1_000).collect();
        assert_eq!(given, all, "{forged} in {ms} ms");
        // The reports are about what the sender sends again.
        assert!((900..1_000).contains(&newest), "{newest}");
        assert!(requester.missing() < 100);
    }
}

#[test]
fn nothing_of_a_former_session_is_believed() {
    let mut requester = Requester::new("a-b", SESSION, numbers());
    requester.handle(at(0), data(SESSION - 1, 70_000, 1), &mut Off);
    requester.handle(at(1), data(SESSION, 0, 2), &mut Off);
    assert_eq!(requester.poll_event(), Some(2));
    assert_eq!(requester.poll_event(), None);
    assert_eq!(requester.stats().strays, 1);
    let mut repairer = repairer(None);
    repairer.handle(at(0), send(at(0), Layer::Base, 0), &mut Off);
    assert!(repairer.poll_transmit(at(0), &mut Off).is_some());
    let old = Feedback {
        session: SESSION - 1,
        ..all_lost(at(1), 0, 1)
    };
    repairer.handle(at(1), RepairerInput::Feedback(old), &mut Off);
    assert_eq!(repairer.stats().feedback_ignored, 1);
    assert_eq!(repairer.poll_transmit(at(1), &mut Off), None);
}

#[test]
fn a_counter_is_handled_once_and_a_repair_has_a_new_one() {
    let mut repairer = repairer(None);
    repairer.handle(at(0), send(at(0), Layer::Base, 9), &mut Off);
    assert!(repairer.poll_transmit(at(0), &mut Off).is_some());
    for n in 1..5 {
        let lost = all_lost(at(n * 20_000), 0, 1);
        repairer.handle(at(n * 20_000), RepairerInput::Feedback(lost), &mut Off);
    }
    let out = repairer.poll_transmit(at(80_000), &mut Off).unwrap();
    assert_eq!(out.item, Some(Carried::Item(9)));
    let repair = Head::Repair {
        session: SESSION as u8,
        counter: 1,
        layer: Layer::Base,
        back: 1,
    };
    assert_eq!(out.head, repair);
    let markers_only = std::iter::from_fn(|| repairer.poll_transmit(at(81_000), &mut Off));
    assert!(markers_only.into_iter().all(|out| out.item.is_none()));
    assert_eq!(repairer.stats().layers.base.repairs, 1);
}

#[test]
fn feedback_that_is_late_itself_does_not_make_datagrams_late() {
    let mut end = repairer(None);
    let depart = |end: &mut Repairer<u64>, us: u64, item: u64| {
        end.handle(at(us), send(at(us), Layer::Base, item), &mut Off);
        while end.poll_transmit(at(us), &mut Off).is_some() {}
    };
    // The newest counter is `hi`, which arrived 1 ms after it was sent at `sent`.
    let report = |sent: u64, left: u64, hi: u64| {
        RepairerInput::Feedback(Feedback {
            tx_us: Serial(at(left).as_us() as u32),
            hi: Serial(hi as u32),
            known: hi as u16 + 1,
            missing: Vec::new(),
            arrivals: vec![Arrival {
                back: 0,
                ago_us: (left - sent - 1_000) as u32,
            }],
            ..all_lost(at(left), 0, 1)
        })
    };
    for item in 0..40 {
        let sent = item * 10_000;
        depart(&mut end, sent, item);
        let report = report(sent, sent + 1_000, item);
        end.handle(at(sent + 2_000), report, &mut Off);
    }
    // Four datagrams leave together. The node is busy for 50 ms when the reports on the first of them come.
    let sent = 400_000;
    for item in 40..44 {
        depart(&mut end, sent, item);
    }
    for left in [sent + 1_000, sent + 1_200] {
        end.handle(at(sent + 50_000), report(sent, left, 40), &mut Off);
    }
    assert_eq!(end.stats().layers.base.lost, 0);
    // A report that leaves 40 ms after the datagrams arrive, and knows of two.
    end.handle(at(sent + 51_000), report(sent, sent + 41_000, 41), &mut Off);
    assert_eq!(end.stats().layers.base.lost, 2);
}

#[test]
fn datagrams_that_a_stall_holds_back_are_not_lost() {
    let mut end = repairer(None);
    let report = |left: u64, hi: u64| {
        RepairerInput::Feedback(Feedback {
            tx_us: Serial(at(left).as_us() as u32),
            hi: Serial(hi as u32),
            known: hi as u16 + 1,
            missing: Vec::new(),
            arrivals: vec![Arrival { back: 0, ago_us: 0 }],
            ..all_lost(at(left), 0, 1)
        })
    };
    for item in 0..40 {
        let sent = item * 10_000;
        end.handle(at(sent), send(at(sent), Layer::Base, item), &mut Off);
        while end.poll_transmit(at(sent), &mut Off).is_some() {}
        end.handle(at(sent + 1_000), report(sent + 500, item), &mut Off);
    }
    // The node wakes 200 ms late, and sends what has been due since then.
    for item in 40..60 {
        let due = RepairerInput::Send {
            at: at(400_000),
            unit: unit(Layer::Base, at(400_000).as_us() as u32),
            item,
        };
        end.handle(at(600_000), due, &mut Off);
        while end.poll_transmit(at(600_000), &mut Off).is_some() {}
    }
    // The first one has arrived, the others arrive now.
    end.handle(at(601_000), report(600_500, 40), &mut Off);
    assert_eq!(end.stats().layers.base.lost, 0);
}

#[test]
fn feedback_after_a_long_pause_is_used_whatever_its_clock() {
    let mut end = repairer(None);
    // The 32-bit clock of feedback goes back after a pause of 36 to 71 minutes.
    for (hi, pause_s) in [0, 61, 40 * 60, 110 * 60].into_iter().enumerate() {
        let now = at(pause_s * 1_000_000);
        end.handle(now, send(now, Layer::Base, pause_s), &mut Off);
        while end.poll_transmit(now, &mut Off).is_some() {}
        let feedback = RepairerInput::Feedback(all_lost(now, hi as u64, 1));
        end.handle(now, feedback, &mut Off);
        assert_eq!(end.stats().feedback, hi as u64 + 1, "{pause_s} s");
    }
}

#[test]
fn one_forged_marker_hides_no_datagram() {
    for ahead in [4_000, 60_000, 1 << 30] {
        let mut end: Requester<u64> = Requester::new("link", SESSION, numbers());
        let mut given = Vec::new();
        for counter in 0..200 {
            let head = Head::Data {
                session: SESSION,
                counter: Serial(counter),
                layer: Layer::Base,
            };
            end.handle(
                at(0),
                RequesterInput::Datagram(head, Carried::Item(u64::from(counter))),
                &mut Off,
            );
            given.extend(end.poll_event());
            if counter == 100 {
                let marker = Head::Marker {
                    session: SESSION,
                    hi: Serial(counter + ahead),
                    every_ms: 0,
                    rtt_us: 0,
                    asks: true,
                };
                end.handle(at(0), RequesterInput::Marker(marker), &mut Off);
            }
        }
        assert_eq!(given.len(), 200, "{ahead}");
    }
}

#[test]
fn a_marker_that_asks_is_answered_by_one_report() {
    let mut end: Requester<u64> = Requester::new("link", SESSION, numbers());
    // A calm link, which reports rarely.
    let budget = RequesterInput::Budget(Some(Span::from_secs(1)));
    end.handle(at(0), budget, &mut Off);
    let mut last = None;
    for n in 0..200 {
        let head = Head::Data {
            session: SESSION,
            counter: Serial(n),
            layer: Layer::Base,
        };
        let now = at(u64::from(n) * 20_000);
        let input = RequesterInput::Datagram(head, Carried::Item(u64::from(n)));
        end.handle(now, input, &mut Off);
        while end.poll_transmit(now, &mut Off).is_some() {
            last = Some(now);
        }
    }
    let reported = last.expect("it reports");
    let mut reports = Vec::new();
    for us in 0..20_000 {
        let now = reported + Span::from_us(us);
        if us % 200 == 0 {
            let asks = Head::Marker {
                session: SESSION,
                hi: Serial(199),
                every_ms: 0,
                rtt_us: 40_000,
                asks: true,
            };
            end.handle(now, RequesterInput::Marker(asks), &mut Off);
        }
        for _ in 0..2 {
            reports.extend(end.poll_transmit(now, &mut Off).map(|_| us));
        }
    }
    // As many markers as these are answered by a report in 5 ms at most.
    let apart = reports.windows(2).all(|two| two[1] - two[0] >= 3_500);
    assert!(apart && (3..=5).contains(&reports.len()), "{reports:?}");
}

#[test]
fn the_base_layer_leaves_before_enhancement_layers() {
    let mut repairer = repairer(Some(Rate::from_bps(1_000_000)));
    for (item, layer) in [Layer::E2, Layer::E2, Layer::E1, Layer::Base]
        .into_iter()
        .enumerate()
    {
        repairer.handle(at(0), send(at(0), layer, item as u64), &mut Off);
    }
    let mut order = Vec::new();
    for ms in 0..100 {
        while let Some(out) = repairer.poll_transmit(at(ms * 1_000), &mut Off) {
            order.extend(out.item);
        }
    }
    assert_eq!(order, [3, 2, 0, 1].map(Carried::Item));
}

#[test]
fn more_gaps_than_are_remembered_are_given_up() {
    let mut requester = Requester::new("a-b", SESSION, numbers());
    let gaps = 2 * MAX_GAPS as u64;
    for n in 0..gaps {
        let head = Head::Data {
            session: SESSION,
            counter: Serial(2 * n as u32 + 1),
            layer: Layer::Base,
        };
        requester.handle(
            at(n),
            RequesterInput::Datagram(head, Carried::Item(n)),
            &mut Off,
        );
    }
    assert_eq!(requester.missing(), MAX_GAPS as u64);
    let stats = requester.stats();
    assert_eq!((stats.gaps, stats.given_up), (gaps, gaps - MAX_GAPS as u64));
}

#[test]
fn a_sending_end_is_idle_when_nothing_can_be_repaired_any_more() {
    for lost in [false, true] {
        let mut repairer = repairer(None);
        assert!(repairer.is_idle(at(0)));
        repairer.handle(at(0), send(at(0), Layer::Base, 0), &mut Off);
        assert!(!repairer.is_idle(at(0)), "it waits for the line");
        assert!(repairer.poll_transmit(at(0), &mut Off).is_some());
        assert!(!repairer.is_idle(at(40_000)), "it may be lost");
        let mut feedback = all_lost(at(40_000), 0, 1);
        if !lost {
            feedback.missing.clear();
        }
        repairer.handle(at(40_000), RepairerInput::Feedback(feedback), &mut Off);
        assert_eq!(repairer.is_idle(at(40_000)), !lost);
        while repairer.poll_transmit(at(40_000), &mut Off).is_some() {}
        assert_eq!(
            repairer.is_idle(at(900_000)),
            !lost,
            "the repair may be lost"
        );
        assert!(repairer.is_idle(at(1_000_000)), "the deadline is over");
    }
}

/// A receiver that leaves reports no more on what came last.
#[test]
fn what_the_other_end_takes_no_more_is_not_repeated_and_other_flows_are() {
    for leaves in [false, true] {
        let mut repairer = repairer(None);
        repairer.handle(at(0), send(at(0), Layer::Base, 0), &mut Off);
        while repairer.poll_transmit(at(0), &mut Off).is_some() {}
        let mut came = all_lost(at(30_000), 0, 1);
        came.missing.clear();
        repairer.handle(at(30_000), RepairerInput::Feedback(came), &mut Off);
        let now = at(40_000);
        for item in 1..=4 {
            let unit = Unit {
                flow: FlowId(item % 2),
                ..unit(Layer::E1, now.as_us() as u32)
            };
            let input = RepairerInput::Send {
                at: now,
                unit,
                item: item.into(),
            };
            repairer.handle(now, input, &mut Off);
            while repairer.poll_transmit(now, &mut Off).is_some() {}
        }
        if leaves {
            repairer.handle(at(50_000), RepairerInput::Unwanted(FlowId(1)), &mut Off);
        }
        let mut again = BTreeSet::new();
        for ms in 50..2_000 {
            repairer.on_timeout(at(ms * 1_000), &mut Off);
            while let Some(out) = repairer.poll_transmit(at(ms * 1_000), &mut Off) {
                again.extend(out.item.map(|item| match item {
                    Carried::Item(item) => item,
                    Carried::Parity(_) => panic!("nothing was lost"),
                }));
            }
        }
        let wanted: &[u64] = if leaves { &[2, 4] } else { &[1, 2, 3, 4] };
        assert!(again.iter().eq(wanted), "{again:?} of {wanted:?}");
        assert_eq!(
            repairer.stats().layers.e1.repairs,
            wanted.len() as u64,
            "{leaves}"
        );
    }
}

#[test]
fn a_datagram_that_leaves_after_its_deadline_asks_for_no_timer_in_the_past() {
    let mut repairer = repairer(None);
    let mut feedback = all_lost(at(0), 0, 1);
    feedback.missing.clear();
    feedback.budget_ms = Some(100);
    repairer.handle(at(0), send(at(0), Layer::Base, 0), &mut Off);
    assert!(repairer.poll_transmit(at(0), &mut Off).is_some());
    repairer.handle(at(30_000), RepairerInput::Feedback(feedback), &mut Off);
    // Earlier hops repaired it: it leaves 300 ms after its usual time, when it is of no use any more.
    let now = at(340_000);
    let late = RepairerInput::Send {
        at: now,
        unit: unit(Layer::Base, at(40_000).as_us() as u32),
        item: 1,
    };
    repairer.handle(now, late, &mut Off);
    while repairer.poll_transmit(now, &mut Off).is_some() {}
    let next = repairer.next_timeout();
    assert!(next.is_none_or(|next| next > now), "{next:?} at {now:?}");
}

/// The sending host is held up between the decision to send and the call of the kernel: feedback of that time does not know
/// the datagram, and it is not lost.
#[test]
fn what_left_late_because_the_host_was_held_up_is_not_taken_for_lost() {
    // Feedback of which all datagrams arrived 100 us after they were sent.
    let arrived = |sent: Time, tx: Time, hi: u64| Feedback {
        missing: Vec::new(),
        arrivals: vec![Arrival {
            back: 0,
            ago_us: tx.since(sent).as_us() as u32 - 100,
        }],
        ..all_lost(tx, hi, hi + 1)
    };
    let repairs = |is_told: bool| {
        let mut repairer = repairer(None);
        let mut sent = at(0);
        for n in 0..50 {
            sent = at(n * 20_000);
            repairer.handle(sent, send(sent, Layer::E1, n), &mut Off);
            assert!(repairer.poll_transmit(sent, &mut Off).is_some());
            let now = at(n * 20_000 + 1_000);
            let feedback = RepairerInput::Feedback(arrived(sent, now, n));
            repairer.handle(now, feedback, &mut Off);
        }
        let since = at(1_000_000);
        repairer.handle(since, send(since, Layer::E1, 50), &mut Off);
        assert!(repairer.poll_transmit(since, &mut Off).is_some());
        if is_told {
            repairer.handle(at(1_020_000), RepairerInput::HeldUp(since), &mut Off);
        }
        let silent = RepairerInput::Feedback(arrived(sent, at(1_015_000), 49));
        repairer.handle(at(1_021_000), silent, &mut Off);
        // When it left is not known, so that its arrival says nothing of the path.
        let now = at(1_040_000);
        let feedback = RepairerInput::Feedback(arrived(at(1_003_000), now, 50));
        repairer.handle(now, feedback, &mut Off);
        while repairer.poll_transmit(now, &mut Off).is_some() {}
        let stats = repairer.stats();
        let e1 = stats.layers.e1;
        (e1.lost, e1.repairs, stats.rtt_us)
    };
    let (lost, again, _) = repairs(false);
    assert_eq!((lost, again), (1, 1));
    let (lost, again, rtt) = repairs(true);
    assert_eq!((lost, again), (0, 0));
    assert!(rtt < 2_000, "{rtt}");
}

/// The receiving host is held up while it reads its socket: a datagram counts as received before it was sent. What is sent later
/// is not overdue for that, and is not sent again while it waits in the socket.
#[test]
fn what_was_read_late_lets_nothing_behind_it_look_overdue() {
    let lost = |is_told: bool| {
        let mut repairer = repairer(None);
        let mut requester: Requester<u64> = Requester::new("a-b", SESSION, numbers());
        let mut cross = |sent: Time, read: Time, n: u64, late: bool| {
            repairer.handle(sent, send(sent, Layer::E1, n), &mut Off);
            let mut heads = Vec::new();
            while let Some(out) = repairer.poll_transmit(sent, &mut Off) {
                heads.push(out.head);
            }
            for head in heads {
                requester.handle(
                    read,
                    RequesterInput::Datagram(head, Carried::Item(n)),
                    &mut Off,
                );
            }
            if late && is_told {
                requester.handle(read, RequesterInput::ReadLate, &mut Off);
            }
            while requester.poll_event().is_some() {}
            let report = read + Span::from_ms(16);
            while let Some(feedback) = requester.poll_transmit(report, &mut Off) {
                repairer.handle(report, RepairerInput::Feedback(feedback), &mut Off);
            }
            while repairer.poll_transmit(report, &mut Off).is_some() {}
            repairer.stats().layers.e1.lost
        };
        for n in 0..50 {
            let sent = at(n * 40_000);
            assert_eq!(cross(sent, sent + Span::from_us(100), n, false), 0);
        }
        // It is sent 9 ms after the time at which the host began to read.
        let sent = at(50 * 40_000);
        cross(sent, sent - Span::from_ms(9), 50, true);
        // Feedback that left just before this one arrived.
        let sent = at(51 * 40_000);
        repairer.handle(sent, send(sent, Layer::E1, 51), &mut Off);
        assert!(repairer.poll_transmit(sent, &mut Off).is_some());
        let silent = Feedback {
            missing: Vec::new(),
            ..all_lost(sent + Span::from_us(500), 50, 51)
        };
        repairer.handle(
            at(51 * 40_000 + 600),
            RepairerInput::Feedback(silent),
            &mut Off,
        );
        repairer.stats().layers.e1.lost
    };
    assert_eq!((lost(false), lost(true)), (1, 0));
}

/// A host that is held up sends and then reads feedback in one turn: the feedback left before the datagram did.
#[test]
fn feedback_that_is_read_in_the_turn_of_a_datagram_says_nothing_of_it() {
    let lost = |apart_us: u64| {
        let mut repairer = repairer(None);
        let mut sent = at(0);
        for n in 0..50 {
            sent = at(n * 20_000);
            repairer.handle(sent, send(sent, Layer::E1, n), &mut Off);
            assert!(repairer.poll_transmit(sent, &mut Off).is_some());
            let now = at(n * 20_000 + 1_000);
            let feedback = Feedback {
                missing: Vec::new(),
                arrivals: vec![Arrival {
                    back: 0,
                    ago_us: 900,
                }],
                ..all_lost(now, n, n + 1)
            };
            repairer.handle(now, RepairerInput::Feedback(feedback), &mut Off);
        }
        let turn = sent + Span::from_ms(20);
        repairer.handle(turn, send(turn, Layer::E1, 50), &mut Off);
        assert!(repairer.poll_transmit(turn, &mut Off).is_some());
        // The turn takes more than 15 ms.
        let silent = Feedback {
            missing: Vec::new(),
            ..all_lost(turn + Span::from_ms(15), 49, 50)
        };
        let read = turn + Span::from_us(apart_us);
        repairer.handle(read, RepairerInput::Feedback(silent), &mut Off);
        repairer.stats().layers.e1.lost
    };
    assert_eq!((lost(0), lost(16_000)), (0, 1));
}
