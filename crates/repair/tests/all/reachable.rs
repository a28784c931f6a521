//! What repair on a hop reaches: 25 frames a second with key frames of 60 packets, a round trip of 40 to 50 ms.

use layercast_core::{FlowId, Layer, Machine, Off, Rate, Span, Time};
use layercast_repair::{Means, RequesterInput, Unit};

use crate::channel::{Hop, Impairment, OCTETS, Outcome, Packet, Setup, run, unit};

const FRAMES: u64 = 4_000;

fn case(how: Impairment, budget_ms: u64, hops: usize) -> Outcome {
    case_of(FRAMES, how, budget_ms, hops)
}

fn case_of(frames: u64, how: Impairment, budget_ms: u64, hops: usize) -> Outcome {
    let setup = Setup {
        hops,
        frames,
        ..Setup::of(how, budget_ms)
    };
    case_with(&setup)
}

fn case_with(setup: &Setup) -> Outcome {
    let Setup { how, hops, .. } = *setup;
    let budget_ms = setup.budget.as_ms();
    let outcome = run(setup);
    println!(
        "{how:?} B={budget_ms} hops={hops}: lost {:.2e}, overhead {:.2} %, spurious {:.2} %, feedback {} kbit/s\n  {:?}",
        outcome.share_lost(),
        outcome.overhead() * 100.0,
        outcome.spurious() * 100.0,
        outcome.feedback_rate / 1_000,
        outcome.hops,
    );
    assert_eq!(outcome.twice, 0);
    assert!(
        outcome.feedback_rate <= 170_000,
        "{}",
        outcome.feedback_rate
    );
    outcome
}

fn holds(outcome: &Outcome, lost: f64, overhead: f64) {
    assert!(
        outcome.share_lost() <= lost,
        "lost {}",
        outcome.share_lost()
    );
    assert!(
        outcome.overhead() <= overhead,
        "overhead {}",
        outcome.overhead()
    );
}

#[test]
fn without_loss_nothing_is_repaired() {
    for means in [Means::Auto, Means::Requests, Means::Parities] {
        let setup = Setup {
            means,
            ..Setup::of(Impairment::loss(0.0), 200)
        };
        let outcome = case_with(&setup);
        holds(&outcome, 0.0, 0.0);
        assert!(
            outcome.feedback_rate <= 100_000,
            "{}",
            outcome.feedback_rate
        );
    }
}

#[test]
fn large_datagrams_on_a_slow_line_are_not_lost() {
    let how = Impairment {
        jitter: Span::ZERO,
        ..Impairment::loss(0.0)
    };
    let mut hop = Hop::new(how, Some(Rate::from_bps(300_000)), 1, "slow", Means::Auto);
    let start = Time::ZERO + Span::from_secs(1);
    let mut packet = Packet {
        frame: 0,
        index: 0,
        of: 1,
    };
    // Ten small datagrams a second, and after a minute a large one behind each: 32 ms long.
    for ms in 0..120_000 {
        let now = start + Span::from_ms(ms);
        let small = (ms % 100 < 25 && ms % 5 == 0).then_some(80);
        let large = (ms % 100 == 20 && ms > 60_000).then_some(1_228);
        for octets in small.into_iter().chain(large) {
            let unit = Unit {
                flow: FlowId(1),
                layer: Layer::Base,
                stamp_us: Some(now.as_us() as u32),
                octets,
                last: true,
                repair: true,
                lasts: None,
            };
            hop.send(now, unit, packet);
            packet.frame += 1;
        }
        hop.run(now);
    }
    let base = hop.repairer.stats().layers.base;
    assert_eq!((base.sent, base.lost, base.repairs), (packet.frame, 0, 0));
}

#[test]
fn one_percent_at_200_ms_loses_no_frame() {
    holds(&case(Impairment::loss(0.01), 200, 1), 0.0, 0.03);
}

#[test]
fn three_percent_at_200_ms() {
    holds(&case(Impairment::loss(0.03), 200, 1), 2e-3, 0.06);
}

#[test]
fn five_percent() {
    holds(&case(Impairment::loss(0.05), 160, 1), 2.4e-3, 0.12);
    holds(&case(Impairment::loss(0.05), 250, 1), 1e-3, 0.08);
    holds(&case(Impairment::loss(0.05), 300, 1), 0.0, 0.08);
}

#[test]
fn ten_percent_at_300_ms() {
    holds(&case(Impairment::loss(0.1), 300, 1), 1e-3, 0.15);
}

#[test]
fn bursts() {
    let burst = |burst| Impairment {
        burst,
        ..Impairment::loss(0.05)
    };
    // Bursts are few: a longer run has enough of them.
    holds(&case_of(10_000, burst(5.0), 300, 1), 1e-3, 0.1);
    holds(&case_of(10_000, burst(20.0), 500, 1), 1e-3, 0.12);
}

#[test]
fn bursts_that_take_the_feedback_use_up_no_rate() {
    // Without a rate, as `serve` has none: what no feedback speaks of is repeated once, not in four copies.
    let (mut lost, mut frames) = (0, 0);
    for seed in 1..=6 {
        let how = Impairment {
            burst: 20.0,
            jitter: Span::ZERO,
            ..Impairment::loss(0.05)
        };
        let outcome = case_with(&Setup {
            rate: None,
            frames: 4_500,
            packets: (70, 5),
            seed,
            ..Setup::of(how, 520)
        });
        let base = outcome.hops[0].0.layers.base;
        assert_eq!(base.over_grant, 0);
        assert!(outcome.overhead() <= 0.09, "{}", outcome.overhead());
        (lost, frames) = (lost + outcome.lost, frames + outcome.frames);
    }
    assert!(lost * 5_000 <= frames, "{lost} of {frames}");
}

/// A round trip of 120 ms, and 80 ms from the usual arrival to the screen: every request comes too late.
fn too_far(means: Means, loss: f64, layered: bool) -> Outcome {
    let how = Impairment {
        delay: Span::from_ms(60),
        ..Impairment::loss(loss)
    };
    case_with(&Setup {
        means,
        layered,
        ..Setup::of(how, 140)
    })
}

#[test]
fn where_a_request_comes_too_late_parities_are_sent_ahead() {
    let requests = too_far(Means::Requests, 0.05, false);
    assert!(requests.share_lost() > 0.3, "{}", requests.share_lost());
    for means in [Means::Auto, Means::Parities] {
        let outcome = too_far(means, 0.05, false);
        holds(&outcome, 0.01, 0.5);
        let (sent, received) = outcome.hops[0];
        let base = sent.layers.base;
        assert!(base.ahead * 10 > base.repairs * 9, "{base:?}");
        assert!(received.parities.base > received.surplus.base);
    }
    // A tenth of the loss needs fewer.
    let requests = too_far(Means::Requests, 0.005, false);
    assert!(requests.share_lost() > 0.03, "{}", requests.share_lost());
    holds(&too_far(Means::Auto, 0.005, false), 0.01, 0.3);
}

#[test]
fn enhancement_layers_have_parities_ahead_too() {
    let outcome = too_far(Means::Auto, 0.05, true);
    holds(&outcome, 0.03, 0.5);
    let layers = outcome.hops[0].0.layers;
    assert!(
        layers.e1.ahead > 0 && layers.e1.ahead * 3 < layers.e1.sent,
        "{layers:?}"
    );
}

#[test]
fn parities_alone_follow_no_request() {
    let setup = Setup {
        means: Means::Parities,
        ..Setup::of(Impairment::loss(0.05), 300)
    };
    let outcome = case_with(&setup);
    holds(&outcome, 2e-3, 0.3);
    let base = outcome.hops[0].0.layers.base;
    assert!(base.repairs == base.ahead && base.uncovered > 0, "{base:?}");
}

#[test]
fn at_the_last_chance_parities_are_fewer_than_copies() {
    let of = |means| {
        run(&Setup {
            means,
            packets: (60, 30),
            ..Setup::of(Impairment::loss(0.1), 120)
        })
    };
    let (copies, parities) = (of(Means::Requests), of(Means::Auto));
    assert!(
        parities.overhead() < copies.overhead() * 0.95,
        "{} {}",
        parities.overhead(),
        copies.overhead()
    );
    assert!(
        parities.lost <= copies.lost.max(4),
        "{} {}",
        parities.lost,
        copies.lost
    );
}

#[test]
fn where_parities_are_too_long_for_the_path_copies_are_sent() {
    // A path that carries the media, and nothing that is longer by a parity's header.
    let of = |means, longest| {
        run(&Setup {
            means,
            longest,
            packets: (60, 30),
            ..Setup::of(Impairment::loss(0.1), 120)
        })
    };
    let short = of(Means::Auto, Some(OCTETS + 10));
    let copies = of(Means::Requests, None);
    let base = short.hops[0].0.layers.base;
    assert!(base.parities * 20 < base.repairs, "{base:?}");
    // A part of the first seconds, and of one in sixty, shows it.
    assert!(
        short.lost < copies.lost + 80,
        "{} {}",
        short.lost,
        copies.lost
    );
}

/// Contents of one frame of which some are short: a parity is as long as the longest, and does not pass where that of a short one does. They
/// are not gathered again and again.
#[test]
fn contents_whose_longest_has_no_parity_that_passes_end_as_copies() {
    let outcome = run(&Setup {
        longest: Some(OCTETS + 10),
        short: Some(400),
        packets: (60, 30),
        ..Setup::of(Impairment::loss(0.1), 120)
    });
    // Parities are tried in the first seconds, and once a minute.
    assert!(outcome.share_lost() < 0.01, "{}", outcome.share_lost());
    assert_eq!(outcome.twice, 0);
}

#[test]
fn reordering_causes_few_repairs() {
    let how = Impairment {
        reorder: 0.05,
        reorder_by: Span::from_ms(8),
        ..Impairment::loss(0.0)
    };
    let outcome = case(how, 200, 1);
    holds(&outcome, 0.0, 0.01);
    assert!(outcome.spurious() <= 0.01, "{}", outcome.spurious());
    let both = Impairment { loss: 0.05, ..how };
    let outcome = case(both, 200, 1);
    assert!(outcome.spurious() <= 0.01, "{}", outcome.spurious());
    holds(&outcome, 1e-3, 0.1);
}

#[test]
fn three_hops_of_five_percent_at_300_ms() {
    holds(&case(Impairment::loss(0.05), 300, 3), 1e-3, 0.07);
}

/// Frames of three packets, ten a second, over a link that was calm for six seconds. In the last frame, the third packet is
/// lost, and from then on this share of the feedback; gives how long after its departure it arrived, in milliseconds, and the
/// reports in the last second before.
fn lost_on_a_calm_link(budget_ms: u64, frames_follow: bool, back: f64) -> (Option<u64>, u64) {
    let how = Impairment {
        jitter: Span::ZERO,
        ..Impairment::loss(0.0)
    };
    let mut hop = Hop::new(how, None, 1, "calm", Means::Auto);
    let budget = RequesterInput::Budget(Some(Span::from_ms(budget_ms)));
    hop.requester.handle(Time::ZERO, budget, &mut Off);
    let start = Time::ZERO + Span::from_secs(1);
    let (mut before, mut reports) = (0, 0);
    for ms in 0..8_100 {
        let now = start + Span::from_ms(ms);
        let last = ms == 6_000;
        for index in 0..3 {
            if ms % 100 > 0 || ms > 6_000 && !frames_follow {
                continue;
            }
            let unit = Unit {
                flow: FlowId(1),
                layer: Layer::Base,
                stamp_us: Some(now.as_us() as u32),
                octets: 1_228,
                last: index == 2,
                repair: true,
                lasts: None,
            };
            let frame = ms / 100;
            let lost = last && index == 2;
            let back = if ms >= 6_000 { back } else { 0.0 };
            hop.lose(if lost { 1.0 } else { 0.0 }, back);
            hop.send(
                now,
                unit,
                Packet {
                    frame,
                    index,
                    of: 3,
                },
            );
            hop.lose(0.0, back);
        }
        if ms == 5_000 {
            before = hop.requester.stats().feedback;
        }
        if last {
            reports = hop.requester.stats().feedback - before;
        }
        let arrived = hop.run(now);
        let it = |packet: &Packet| packet.frame == 60 && packet.index == 2;
        if arrived.iter().any(|(_, packet)| it(packet)) {
            return (Some(ms - 6_000), reports);
        }
    }
    (None, reports)
}

#[test]
fn a_calm_link_reports_rarely_and_repairs_in_time() {
    for (budget, most) in [(120, 70), (300, 32), (500, 16), (2_000, 14)] {
        for frames_follow in [true, false] {
            for back in [0.0, 1.0] {
                let (arrived, reports) = lost_on_a_calm_link(budget, frames_follow, back);
                let case =
                    format!("{budget} ms, frames follow: {frames_follow}, feedback lost: {back}");
                // The path takes 20 ms; the budget counts from there.
                assert!(
                    arrived.is_some_and(|ms| ms <= budget + 20),
                    "{case}: {arrived:?}"
                );
                assert!(reports <= most, "{case}: {reports} reports a second");
            }
        }
    }
}

#[test]
fn feedback_that_is_overdue_is_asked_for() {
    let how = Impairment {
        jitter: Span::ZERO,
        ..Impairment::loss(0.0)
    };
    let mut hop = Hop::new(how, None, 1, "silent", Means::Auto);
    let budget = RequesterInput::Budget(Some(Span::from_secs(1)));
    hop.requester.handle(Time::ZERO, budget, &mut Off);
    let start = Time::ZERO + Span::from_secs(1);
    let mut arrived = None;
    // Frames of two packets until 400 ms. The last packet is lost, and so is all feedback until 600 ms; nothing follows.
    for ms in 0..2_000 {
        let now = start + Span::from_ms(ms);
        let silent = if (400..600).contains(&ms) { 1.0 } else { 0.0 };
        for index in 0..2 {
            if ms % 40 > 0 || ms > 400 {
                continue;
            }
            let lost = ms == 400 && index == 1;
            hop.lose(if lost { 1.0 } else { 0.0 }, silent);
            let frame = ms / 40;
            let unit = unit(Layer::Base, now.as_us() as u32, index == 1);
            hop.send(
                now,
                unit,
                Packet {
                    frame,
                    index,
                    of: 2,
                },
            );
        }
        hop.lose(0.0, silent);
        let last = |packet: &Packet| packet.frame == 10 && packet.index == 1;
        if hop.run(now).iter().any(|(_, packet)| last(packet)) {
            arrived = Some(ms);
            break;
        }
    }
    // A marker, a report, and the repair, 20 ms each.
    assert!(arrived.is_some_and(|ms| ms <= 650), "{arrived:?}");
    let markers = hop.repairer.stats().markers;
    assert!(markers <= 80, "{markers}");
}

/// A peer that does not answer any more, while something is sent each second: markers become rare.
#[test]
fn a_peer_that_is_gone_is_seldom_asked() {
    let mut hop = Hop::new(Impairment::loss(0.0), None, 1, "gone", Means::Auto);
    let budget = RequesterInput::Budget(Some(Span::from_ms(500)));
    hop.requester.handle(Time::ZERO, budget, &mut Off);
    let mut seconds = Vec::new();
    for ms in 0..60_000 {
        let now = Time::ZERO + Span::from_ms(ms);
        hop.lose(0.0, if ms < 5_000 { 0.0 } else { 1.0 });
        let every = if ms < 5_000 { 40 } else { 1_000 };
        if ms % every == 0 {
            let unit = unit(Layer::Base, now.as_us() as u32, true);
            let (frame, index, of) = (ms, 0, 1);
            hop.send(now, unit, Packet { frame, index, of });
        }
        hop.run(now);
        if ms % 1_000 == 999 {
            seconds.push(hop.repairer.stats().markers);
        }
    }
    let rates: Vec<u64> = seconds.windows(2).map(|it| it[1] - it[0]).collect();
    let first: u64 = rates[5..15].iter().sum();
    // As often as ever while a repair may be in time; then one a second, two behind each datagram, and two about the pace of reports.
    assert!(first <= 150, "{rates:?}");
    assert!(rates[15..].iter().all(|&rate| rate <= 6), "{rates:?}");
}

/// A path that carries 1,100 octets for eight seconds: the base layer is whole again within one second, at the rates of streams that are small and large.
#[test]
fn what_is_too_long_for_the_path_leaves_in_parts_until_it_passes_again() {
    for every in [10, 30] {
        let how = Impairment::loss(0.0);
        let mut hop = Hop::new(how, None, 1, "short", Means::Auto);
        let budget = RequesterInput::Budget(Some(Span::from_ms(500)));
        hop.requester.handle(Time::ZERO, budget, &mut Off);
        let mut seconds: Vec<u64> = Vec::new();
        let mut came = 0;
        for ms in 0..90_000u64 {
            let now = Time::ZERO + Span::from_ms(ms);
            hop.longest = (4_000..12_000).contains(&ms).then_some(1_100);
            if ms % every == 0 {
                for (index, octets) in [1_228, 300].into_iter().enumerate() {
                    let unit = Unit {
                        octets,
                        ..unit(Layer::Base, ms as u32 * 1_000, index == 1)
                    };
                    let packet = Packet {
                        frame: ms / every,
                        index: index as u32,
                        of: 2,
                    };
                    hop.send(now, unit, packet);
                }
            }
            came += hop.run(now).len() as u64;
            if ms % 1_000 == 999 {
                seconds.push(std::mem::take(&mut came));
            }
        }
        let all = 2_000 / every;
        println!("every {every} ms: {:?} of {all}", &seconds[..14]);
        assert!(seconds[5..].iter().all(|it| *it + 4 >= all), "{seconds:?}");
        // One that leaves whole after a minute shows that all pass again.
        assert!(!hop.in_parts && hop.parts_sent > 0);
    }
}
