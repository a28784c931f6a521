use layercast_core::{FlowSpec, Stream};

use super::*;

const FPS: FrameRate = FrameRate { num: 24, den: 1 };
const GOP: u64 = 12;
const MS: f64 = 1e9;

fn ms(ms: f64) -> Span {
    Span::from_ps((ms * MS) as u64)
}

/// One frame through the filter.
#[derive(Clone, Copy)]
struct Frame {
    gop_start: bool,
    arrival: Time,
    playout: SignedSpan,
    d: SignedSpan,
    deadline: Time,
    late: bool,
}

/// Plays `frames` frames at 24 fps whose one-way delay in ms `delay` gives by emission time in ms;
/// frames never overtake.
fn play(
    config: JitterConfig,
    frames: u64,
    mut delay: impl FnMut(f64) -> f64,
) -> (JitterFilter, Vec<Frame>) {
    let mut filter = JitterFilter::new(config);
    let mut arrival = Time::ZERO;
    let log = (0..frames)
        .map(|k| {
            let emission = Time::ZERO + Span::from_secs(1) + FPS.due(k);
            let at = emission.as_secs_f64() * 1e3;
            arrival = arrival.max(Time::from_ps(((at + delay(at)) * MS) as u64));
            let gop_start = k % GOP == 0;
            let played = filter.on_arrival(arrival, emission.into(), gop_start);
            Frame {
                gop_start,
                arrival,
                playout: filter.playout(),
                d: filter.estimate().0,
                deadline: played.deadline,
                late: played.late_by.is_some(),
            }
        })
        .collect();
    (filter, log)
}

fn late_share(log: &[Frame]) -> f64 {
    log.iter().filter(|frame| frame.late).count() as f64 / log.len() as f64
}

fn mean_playout_ms(log: &[Frame]) -> f64 {
    log.iter()
        .map(|frame| frame.playout.as_ms_f64())
        .sum::<f64>()
        / log.len() as f64
}

/// Independent Gaussian delays, 100 ms +- 5 ms: the claim of E4-5.
fn gaussian(config: JitterConfig, seed: u64) -> Vec<Frame> {
    let mut stream = Stream::new(seed, "delay");
    play(config, 100_000, |_| 100.0 + 5.0 * stream.normal()).1
}

/// The delays of E4 (specs/mets.md 4.7): five flows' queueing and two stalls, 60 s.
fn e4(config: JitterConfig, seed: u64) -> Vec<Frame> {
    let mut stream = Stream::new(seed, "delay");
    let delays = |at: f64| {
        let delay = 2.2 + stream.exponential(2.4) + stream.exponential(2.4);
        [(42_600.0, 180.0), (43_150.0, 250.0)]
            .into_iter()
            .find(|&(start, length)| (start..start + length).contains(&(at + delay)))
            .map_or(delay, |(start, length)| start + length - at)
    };
    play(config, 24 * 60, delays).1
}

fn between(log: &[Frame], from_ms: u64, to_ms: u64) -> Vec<Frame> {
    let window = Time::ZERO + Span::from_ms(from_ms)..Time::ZERO + Span::from_ms(to_ms);
    log.iter()
        .copied()
        .filter(|frame| window.contains(&frame.arrival))
        .collect()
}

#[test]
fn the_first_packet_sets_d_and_half_of_it_as_deviation() {
    let (filter, log) = play(JitterConfig::paper(FPS, 12), 1, |_| 10.0);
    assert_eq!(filter.estimate(), (ms(10.0).into(), ms(5.0)));
    assert_eq!(log[0].playout, ms(20.0).into());
    assert!(!log[0].late);
}

#[test]
fn the_estimator_uses_the_old_mean_in_both_lines() {
    let delays = [16.0, 32.0];
    let mut next = delays.into_iter();
    let (filter, _) = play(JitterConfig::paper(FPS, 12), 2, |_| next.next().unwrap());
    // err = 16: d = 16 + 2, s = 8 + (16 - 8)/16.
    let (d, s) = filter.estimate();
    assert!((d.as_ms_f64() - 18.0).abs() < 1e-6, "{d}");
    assert!((s.as_ms_f64() - 8.5).abs() < 1e-6, "{s}");
}

#[test]
fn e4_1_few_frames_are_late_before_the_first_stall() {
    let mut shares: Vec<_> = (0..20)
        .map(|seed| {
            let log = e4(JitterConfig::paper(FPS, 12), seed);
            late_share(&between(&log, 32_600, 42_600))
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    assert!(shares[10] <= 0.10 && shares[10] > 0.0, "{shares:?}");
}

#[test]
fn e4_2_both_stalls_lose_frames_the_second_more_and_a_group_arrives_at_once() {
    let mut totals = (0, 0);
    for seed in 0..20 {
        let log = e4(JitterConfig::paper(FPS, 12), seed);
        let late = |from, to| between(&log, from, to).iter().filter(|f| f.late).count();
        let (first, second) = (late(42_500, 43_000), late(43_000, 43_500));
        assert!(first > 0 && second > 0, "seed {seed}: {first}, {second}");
        totals = (totals.0 + first, totals.1 + second);
        let at_once = log
            .iter()
            .filter(|f| f.arrival == Time::ZERO + ms(43_400.0));
        assert!(at_once.count() >= 4, "seed {seed}");
    }
    assert!(totals.1 >= totals.0, "{totals:?}");
}

#[test]
fn e4_3_the_playout_delay_is_constant_within_each_gop() {
    for seed in 0..20 {
        for config in [JitterConfig::paper(FPS, 12), JitterConfig::new(FPS, 12)] {
            let log = e4(config, seed);
            for pair in log.windows(2) {
                assert!(pair[1].gop_start || pair[0].playout == pair[1].playout);
            }
        }
    }
}

#[test]
fn e4_3_the_playout_delay_is_back_within_six_seconds() {
    let mut ratios: Vec<_> = (0..20)
        .map(|seed| {
            let log = e4(JitterConfig::paper(FPS, 12), seed);
            let before = mean_playout_ms(&between(&log, 40_600, 42_600));
            let after = between(&log, 49_300, 49_500);
            after[0].playout.as_ms_f64() / before
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[10] <= 2.0, "{ratios:?}");
}

#[test]
fn e4_4_a_larger_margin_loses_less_and_delays_more() {
    for seed in 0..5 {
        let results: Vec<_> = [2.0, 3.0, 4.0]
            .into_iter()
            .map(|r| {
                let log = gaussian(
                    JitterConfig {
                        margin: Margin::Fixed(r),
                        ..JitterConfig::paper(FPS, 12)
                    },
                    seed,
                );
                (late_share(&log), mean_playout_ms(&log))
            })
            .collect();
        for pair in results.windows(2) {
            assert!(
                pair[1].0 < pair[0].0 && pair[1].1 > pair[0].1,
                "{results:?}"
            );
        }
    }
}

#[test]
fn e4_4_larger_gains_mirror_the_arrivals() {
    let wobble = |a, beta| {
        let config = JitterConfig {
            a,
            beta,
            ..JitterConfig::paper(FPS, 12)
        };
        let log = e4(config, 1);
        log.windows(2)
            .map(|pair| (pair[1].d.as_ms_f64() - pair[0].d.as_ms_f64()).abs())
            .sum::<f64>()
    };
    let sweep = [
        wobble(1.0 / 64.0, 1.0 / 64.0),
        wobble(1.0 / 8.0, 1.0 / 16.0),
        wobble(1.0 / 4.0, 1.0 / 8.0),
        wobble(1.0 / 2.0, 1.0 / 4.0),
    ];
    assert!(sweep.is_sorted(), "{sweep:?}");
}

#[test]
fn e4_4_a_longer_hold_loses_less() {
    let share = |hold_gops| {
        let config = JitterConfig {
            hold_gops,
            ..JitterConfig::paper(FPS, 12)
        };
        late_share(&gaussian(config, 1))
    };
    let sweep = [2, 4, 8, 16].map(share);
    assert!(sweep.windows(2).all(|pair| pair[1] < pair[0]), "{sweep:?}");
}

#[test]
fn e4_5_r_of_2_loses_4_to_7_per_cent_without_hold_and_2_to_4_with() {
    for seed in 0..5 {
        let config = JitterConfig::paper(FPS, 12);
        let without = JitterConfig {
            hold_gops: 1,
            ..config
        };
        let share = late_share(&gaussian(without, seed));
        assert!((0.04..0.07).contains(&share), "without: {share}");
        let share = late_share(&gaussian(config, seed));
        assert!((0.02..0.04).contains(&share), "with: {share}");
    }
}

#[test]
fn target_late_is_met_whatever_the_shape_of_the_delays() {
    let config = JitterConfig::new(FPS, 12);
    let share = late_share(&gaussian(config, 1));
    assert!((0.008..0.012).contains(&share), "Gaussian: {share}");
    let mut stream = Stream::new(1, "delay");
    let (_, log) = play(config, 100_000, |_| 5.0 + stream.exponential(8.0));
    let share = late_share(&log);
    assert!((0.008..0.012).contains(&share), "exponential: {share}");
    let loose = JitterConfig {
        margin: Margin::TargetLate { permille: 50 },
        ..config
    };
    let share = late_share(&gaussian(loose, 1));
    assert!((0.04..0.06).contains(&share), "5 %: {share}");
}

#[test]
fn a_hard_bound_is_the_playout_delay_and_says_when_it_is_too_tight() {
    let config = JitterConfig {
        bound: Some(Span::from_ms(50)),
        ..JitterConfig::paper(FPS, 12)
    };
    let (mut filter, log) = play(config, 240, |at| if at < 6_000.0 { 10.0 } else { 70.0 });
    assert!(log.iter().all(|frame| frame.playout == ms(50.0).into()));
    assert!(
        log.iter()
            .all(|frame| frame.late == (frame.arrival > frame.deadline))
    );
    assert!(filter.late() > 100);
    assert!(matches!(
        filter.poll_event(),
        Some(JitterEvent::DelayBound { .. })
    ));
}

#[test]
fn an_estimate_is_clamped_between_the_least_delay_and_the_longest() {
    let config = JitterConfig {
        longest: Some(Span::from_ms(30)),
        ..JitterConfig::paper(FPS, 12)
    };
    let (_, log) = play(config, 600, |_| 25.0);
    assert_eq!(log[0].playout, ms(30.0).into());
    // The deviation of a constant delay dies out, and D comes down to the delay itself.
    let last = log[599].playout.as_ms_f64();
    assert!((25.0..25.2).contains(&last), "{last}");
    assert!(!log.iter().any(|frame| frame.late));
}

#[test]
fn pulling_in_keeps_deadlines_half_a_period_apart_and_in_order() {
    let config = JitterConfig::paper(FPS, 12);
    // A second of delay to start with: D begins at 2 s and is pulled in by far more than a GOP.
    let (_, log) = play(config, 600, |at| if at < 1_100.0 { 1_000.0 } else { 10.0 });
    let half = FPS.due(1).mul_div(1, 2);
    assert!(log[599].playout < ms(100.0).into());
    for pair in log.windows(2) {
        assert!(pair[1].deadline >= pair[0].deadline + half);
    }
    let last = log[599];
    assert!(last.deadline.since(last.arrival) < ms(100.0));
}

#[test]
fn a_clock_offset_of_an_hour_cancels() {
    let held = |offset_s: i64| {
        let mut filter = JitterFilter::new(JitterConfig::paper(FPS, 12));
        let mut stream = Stream::new(1, "delay");
        let mut held = Span::ZERO;
        for k in 0..4_800u64 {
            let sent = Time::ZERO + Span::from_secs(10) + FPS.due(k);
            let now = sent + ms(5.0 + stream.exponential(2.0));
            let offset = offset_s * 1_000_000_000_000;
            let emission = SourceTime::from_ps(SourceTime::from(sent).as_ps() + offset);
            let played = filter.on_arrival(now, emission, k % GOP == 0);
            held = played.deadline.since(sent);
        }
        assert_eq!(filter.playout().is_negative(), offset_s > 0);
        held.as_ms_f64()
    };
    let expected = held(0);
    assert!((5.0..20.0).contains(&expected), "{expected}");
    for offset in [3_600, -3_600] {
        let got = held(offset);
        assert!(
            (got - expected).abs() < 1.0,
            "{offset} s: {got} for {expected}"
        );
    }
}

#[test]
fn without_gop_starts_the_playout_point_may_move_after_two_gops() {
    let mut filter = JitterFilter::new(JitterConfig::paper(FPS, 12));
    let mut moved = Vec::new();
    for k in 0..60u64 {
        let emission = Time::ZERO + Span::from_secs(1) + FPS.due(k);
        let delay = if k < 6 { 10 } else { 100 };
        let before = filter.playout();
        filter.on_arrival(emission + Span::from_ms(delay), emission.into(), k == 0);
        if k > 0 && filter.playout() != before {
            moved.push(k);
        }
    }
    // Frame 50 may move it too, but nothing was late since frame 25.
    assert_eq!(moved, [25]);
    let missing = std::iter::from_fn(|| filter.poll_event())
        .filter(|&event| event == JitterEvent::GopStartMissing);
    assert_eq!(missing.count(), 2);
}

#[test]
fn an_absurd_sample_is_cut_and_counted() {
    let mut first = true;
    let (filter, _) = play(JitterConfig::paper(FPS, 12), 2, |_| {
        if std::mem::take(&mut first) {
            10.0
        } else {
            60_000.0
        }
    });
    assert_eq!(filter.clamped(), 1);
    // 20 deviations of 5 ms: d = 10 + 100/8.
    assert_eq!(filter.estimate().0, ms(22.5).into());
}

#[test]
fn a_reordered_frame_is_put_in_place() {
    let mut filter = JitterFilter::new(JitterConfig::paper(FPS, 12));
    let sent = |k: u64| Time::ZERO + Span::from_secs(1) + FPS.due(k);
    let mut arrive = |k: u64, at: Time| filter.on_arrival(at, sent(k).into(), k == 0).deadline;
    let first = arrive(0, sent(0) + Span::from_ms(60));
    let third = arrive(2, sent(2) + Span::from_ms(2));
    let second = arrive(1, sent(2) + Span::from_ms(3));
    assert!(first < second && second < third);
    assert_eq!(second.since(first), FPS.due(1));
}

#[test]
fn the_buffer_holds_the_playout_delay_and_a_gop() {
    let (filter, _) = play(JitterConfig::paper(FPS, 12), 1, |_| 50.0);
    // 100 ms at 24 fps are 2.4 frames.
    assert_eq!(filter.buffer_frames(), 3 + 12);
}

#[test]
fn a_flow_with_a_delay_bound_gets_it_as_playout_delay() {
    let mut spec = FlowSpec::default();
    assert_eq!(JitterConfig::for_flow(&spec), JitterConfig::new(FPS, 12));
    spec.delay_max_ms = 80;
    let bound = JitterConfig::for_flow(&spec).bound;
    assert_eq!(bound, Some(Span::from_ms(80)));
}

#[test]
fn a_playout_point_that_may_not_move_stays_where_the_first_frame_set_it() {
    let config = JitterConfig {
        moves: false,
        ..JitterConfig::paper(FPS, 12)
    };
    // 20 ms, then 200 ms: D is 20 + 2 * 10.
    let (_, log) = play(config, 240, |at| if at < 2_000.0 { 20.0 } else { 200.0 });
    assert!(log.iter().all(|frame| frame.playout == ms(40.0).into()));
    assert!(late_share(&log) > 0.5);
}

#[test]
fn a_new_configuration_counts_from_the_next_gop_on() {
    let bounded = |bound| JitterConfig {
        bound: Some(ms(bound)),
        ..JitterConfig::new(FPS, GOP as u8)
    };
    let mut filter = JitterFilter::new(bounded(100.0));
    let mut deadlines = Vec::new();
    for k in 0..3 * GOP {
        let emission = Time::ZERO + Span::from_secs(1) + FPS.due(k);
        if k == 5 {
            filter.reconfigure(bounded(150.0));
        } else if k == GOP + 5 {
            filter.reconfigure(JitterConfig {
                holds: false,
                ..bounded(150.0)
            });
        }
        let played = filter.on_arrival(emission + ms(10.0), emission.into(), k % GOP == 0);
        deadlines.push(played.deadline.since(emission));
    }
    let gop = GOP as usize;
    assert!(deadlines[..gop].iter().all(|&d| d == ms(100.0)));
    assert!(deadlines[gop..2 * gop].iter().all(|&d| d == ms(150.0)));
    // Nothing is played before what was held: the schedule runs out first.
    assert!(deadlines[2 * gop..].is_sorted_by(|a, b| a >= b));
    assert_eq!(deadlines.last(), Some(&ms(10.0)));
}

#[test]
fn a_first_frame_that_is_an_outlier_is_forgotten_in_16_frames() {
    let mut first = true;
    let (filter, log) = play(JitterConfig::paper(FPS, 12), 17, |_| {
        if std::mem::take(&mut first) {
            30.0
        } else {
            10.0
        }
    });
    // D is bounded by the initial deviation of half the delay ...
    assert_eq!(log[0].playout, ms(60.0).into());
    // ... and (7/8)^16 of the error is left of the mean.
    let d = filter.estimate().0.as_ms_f64();
    assert!((10.0..12.5).contains(&d), "{d}");
}

/// The same delays with the late frames of a stall that held up everything for 200 ms, twice.
fn stalled(config: JitterConfig, seed: u64) -> Vec<Frame> {
    let mut stream = Stream::new(seed, "delay");
    let delays = |at: f64| {
        let delay = 20.0 + stream.exponential(3.0);
        [20_000.0, 21_000.0]
            .into_iter()
            .find(|start| (*start..start + 200.0).contains(&(at + delay)))
            .map_or(delay, |start| start + 200.0 - at)
    };
    play(config, 24 * 60, delays).1
}

#[test]
fn a_stall_that_is_spared_does_not_raise_the_delay_behind_it() {
    for seed in 0..20 {
        let spares = |spares_stalls| JitterConfig {
            spares_stalls,
            ..JitterConfig::new(FPS, GOP as u8)
        };
        let (spared, learned) = (stalled(spares(true), seed), stalled(spares(false), seed));
        let before = mean_playout_ms(&between(&spared, 15_000, 20_000));
        let behind = |log: &[Frame]| mean_playout_ms(&between(log, 22_000, 30_000));
        assert!(
            behind(&spared) < 1.5 * before,
            "seed {seed}: {} after {before}",
            behind(&spared)
        );
        assert!(
            behind(&learned) > 1.5 * before,
            "seed {seed}: {} after {before}",
            behind(&learned)
        );
        // What the stalls held up is late all the same.
        let late = |from, to| between(&spared, from, to).iter().filter(|f| f.late).count();
        assert!(
            late(20_000, 20_500) >= 3 && late(21_000, 21_500) >= 3,
            "seed {seed}"
        );
    }
}

#[test]
fn a_path_that_is_longer_from_now_on_is_no_stall() {
    let config = JitterConfig {
        spares_stalls: true,
        ..JitterConfig::new(FPS, GOP as u8)
    };
    let (_, log) = play(config, 480, |at| if at < 10_000.0 { 20.0 } else { 300.0 });
    let behind = between(&log, 13_000, 20_000);
    assert!(behind.iter().all(|frame| !frame.late));
}

/// Each GOP a picture that fills the line for 150 ms, the others for 5 and a little more.
fn large_pictures(config: JitterConfig) -> Vec<Frame> {
    let mut stream = Stream::new(1, "delay");
    let mut number = 0;
    let delays = |_| {
        number += 1;
        match number % GOP {
            1 => 150.0 + stream.exponential(2.0),
            _ => 5.0 + stream.exponential(2.0),
        }
    };
    play(config, 24 * 120, delays).1
}

#[test]
fn the_quantile_is_what_it_says_whatever_the_shape() {
    let quantile = JitterConfig {
        margin: Margin::Quantile { permille: 10 },
        ..JitterConfig::new(FPS, GOP as u8)
    };
    let settled = |log: &[Frame]| between(log, 20_000, 130_000);
    let (ours, deviation) = (
        settled(&large_pictures(quantile)),
        settled(&large_pictures(JitterConfig::new(FPS, GOP as u8))),
    );
    // One in twelve frames is large, so 1 % late is about one in eight of these: delays above 154 ms.
    let (late, delay) = (late_share(&ours), mean_playout_ms(&ours));
    assert!((0.002..0.025).contains(&late), "{late}");
    assert!((152.0..160.0).contains(&delay), "{delay}");
    assert!(delay < mean_playout_ms(&deviation));
    let gaussian = gaussian(quantile, 1);
    let late = late_share(&gaussian);
    assert!((0.004..0.02).contains(&late), "{late}");
}

#[test]
fn the_quantile_may_be_asked_for_while_it_plays() {
    let mut filter = JitterFilter::new(JitterConfig::new(FPS, GOP as u8));
    for k in 0..50 * GOP {
        let emission = Time::ZERO + Span::from_secs(1) + FPS.due(k);
        if k == GOP {
            filter.reconfigure(JitterConfig {
                margin: Margin::Quantile { permille: 50 },
                ..JitterConfig::new(FPS, GOP as u8)
            });
        }
        let delay = if k % 10 == 0 { 30.0 } else { 10.0 };
        filter.on_arrival(emission + ms(delay), emission.into(), k % GOP == 0);
    }
    assert_eq!(filter.playout(), ms(30.0).into());
}

fn smallest() -> JitterConfig {
    JitterConfig {
        margin: Margin::Smallest { permille: 1 },
        longest: Some(ms(500.0)),
        ..JitterConfig::new(FPS, 12)
    }
}

#[test]
fn the_smallest_delay_follows_a_late_frame_at_once_and_comes_back_when_frames_show_that_it_may() {
    let spike = 100 * 1_000 / 24;
    let (_, log) = play(smallest(), 2_500, |at| {
        let emitted = at - 1_000.0;
        match (spike as f64 - 1.0..spike as f64 + 1.0).contains(&emitted) {
            true => 80.0,
            false => 20.0,
        }
    });
    let playout = |frame: usize| log[frame].playout.as_ms_f64().round();
    assert_eq!([playout(0), playout(99), playout(100)], [30.0, 30.0, 90.0]);
    // It is played, and nothing after it is late.
    assert!(log.iter().all(|frame| !frame.late));
    assert_eq!(log[100].deadline, log[100].arrival + ms(10.0));
    // Until there are enough frames the largest delay counts; of 1,000 one may be above, of 2,000 two: the frame behind
    // the late one waited for it.
    assert_eq!([900, 1_900, 2_200].map(playout), [90.0, 48.0, 30.0]);
    // Whatever the GOP.
    let (_, long) = play(
        JitterConfig {
            gop_n: 240,
            ..smallest()
        },
        200,
        |at| if at > 3_000.0 { 45.0 } else { 20.0 },
    );
    assert_eq!(long[199].playout.as_ms_f64().round(), 55.0);
}

/// Delays of 20 ms, and pauses of 400 ms at these seconds behind which all comes in one burst or at `drain` times the rate
/// of the media; gives the playout delay at each frame in ms.
fn paused(at_s: &[u64], drain: f64) -> Vec<f64> {
    let (_, log) = play(smallest(), 24 * 100, |at| {
        let of_pause = |&start: &u64| {
            let since = at - 1_000.0 - start as f64 * 1e3;
            let left = 400.0 - since * (1.0 - 1.0 / drain);
            (since >= 0.0 && left > 0.0).then_some(left)
        };
        20.0 + at_s.iter().find_map(of_pause).unwrap_or(0.0)
    });
    assert!(log.iter().all(|frame| !frame.late), "{at_s:?} {drain}");
    log.iter().map(|frame| frame.playout.as_ms_f64()).collect()
}

#[test]
fn a_single_outage_raises_the_smallest_delay_for_seconds_and_frequent_ones_are_jitter() {
    let second = |at: u64| 24 * at as usize;
    for drain in [1e9, 1.5] {
        let playout = paused(&[20, 60], drain);
        assert!((29.9..30.1).contains(&playout[second(19)]));
        for pause in [20, 60] {
            let raised = playout[second(pause) + 12];
            assert!(
                (400.0..431.0).contains(&raised),
                "{drain} {pause}: {raised}"
            );
            let after = &playout[second(pause + 8)..second(pause + 30)];
            assert!(
                after.iter().all(|it| (29.9..30.1).contains(it)),
                "{drain} {pause}: {after:?}"
            );
        }
    }
    // Of those that follow within 30 s the frames count.
    let playout = paused(&[20, 35, 50], 1e9);
    assert!(playout[second(30)] < 31.0);
    let after = &playout[second(42)..second(49)];
    assert!(after.iter().all(|it| *it > 300.0), "{after:?}");
    // A path that has become longer is no outage.
    let (_, log) = play(
        smallest(),
        24 * 60,
        |at| if at < 21_000.0 { 20.0 } else { 90.0 },
    );
    let longer = &log[second(21)..];
    assert!(longer.iter().all(|frame| frame.playout >= ms(99.0).into()));
}

#[test]
fn the_smallest_delay_loses_less_than_one_frame_in_a_thousand_and_keeps_its_bound() {
    let mut stream = Stream::new(7, "delay");
    let (filter, log) = play(smallest(), 20_000, |_| 20.0 + stream.exponential(6.0));
    assert_eq!(late_share(&log), 0.0);
    // The 99.9th percentile is 61 ms.
    let mean = mean_playout_ms(&log);
    assert!((50.0..90.0).contains(&mean), "{mean}");
    assert_eq!(filter.late(), 0);
    let (filter, log) = play(smallest(), 50, |at| if at > 2_000.0 { 600.0 } else { 20.0 });
    assert!(log[49].late && filter.late() > 0);
    assert_eq!(filter.playout(), SignedSpan::from(ms(30.0)));
}

#[test]
fn a_path_that_loses_frames_gets_time_for_a_repair() {
    let mut filter = JitterFilter::new(smallest());
    let mut at = |k: u64| {
        let emission = Time::ZERO + Span::from_secs(1) + FPS.due(k);
        filter.on_arrival(emission + ms(20.0), emission.into(), k.is_multiple_of(GOP));
        if k == 3 {
            filter.on_loss(emission + ms(20.0));
        }
        filter.playout().as_ms_f64().round()
    };
    let playout: Vec<f64> = (0..1_600).map(&mut at).collect();
    assert_eq!(playout[3..5], [30.0, 140.0]);
    // A minute without a loss later.
    assert_eq!([playout[1_400], playout[1_599]], [140.0, 30.0]);
}

#[test]
fn the_delay_has_room_for_the_spread_of_a_key_frame_until_one_has_arrived() {
    // Frames of a GOP of 10 s take 20 ms, and the key frame of the next one 150 ms more.
    let run = |spread: u64, key_frame: u64| {
        let mut filter = JitterFilter::new(smallest());
        filter.on_spread(Span::from_ms(spread));
        let mut playouts = Vec::new();
        for k in 1..=240 {
            let emission = Time::ZERO + FPS.due(k);
            let delay = Span::from_ms(if k == 216 { key_frame } else { 20 });
            filter.on_arrival(emission + delay, emission.into(), k == 216);
            playouts.push(filter.playout().as_ms_f64());
        }
        (playouts[0], playouts[214], playouts[215], filter.late())
    };
    assert_eq!(run(150, 170), (180.0, 180.0, 180.0, 0));
    // Without it the playout point moves in the midst of the flow.
    assert_eq!(run(0, 170), (30.0, 30.0, 180.0, 0));
}

/// A source at 0.85 of real time that begins its timeline again whenever it is 1.2 s late: each frame is played when it arrives, also
/// those later than the longest playout delay, and none waits for the time that the timeline lost.
#[test]
fn frames_of_a_source_that_is_too_slow_are_played_and_its_timeline_may_begin_again() {
    for follows in [true, false] {
        let mut filter = JitterFilter::new(smallest());
        let (mut arrival, mut due) = (1_000.0, 1_000.0);
        let (mut late, mut waits, mut jumps) = (0, Vec::new(), 0);
        for k in 0..1_000u64 {
            arrival += 1_000.0 / 24.0 / 0.85;
            due += 1_000.0 / 24.0;
            if arrival - due > 1_200.0 {
                let jump = arrival + 40.0 - due;
                due += jump;
                jumps += 1;
                if follows {
                    filter.on_jump(SignedSpan::from_ps((jump * MS) as i64));
                }
            }
            if follows {
                filter.on_source(ms(f64::max(arrival - due, 0.0)), Some(Span::ZERO));
            }
            // A path of 5 ms; a frame that is not late leaves when it is due.
            let came = Time::ZERO + ms(f64::max(arrival, due) + 5.0);
            let emission = SourceTime::from(Time::ZERO + ms(due));
            let played = filter.on_arrival(came, emission, k % GOP == 0);
            late += u32::from(played.late_by.is_some());
            waits.push(played.deadline.since(came).as_ms_f64());
        }
        let most = waits[100..]
            .iter()
            .fold(0.0, |most, &it| f64::max(most, it));
        assert!(jumps > 3, "{jumps}");
        assert_eq!(late > 0, !follows, "{late} late");
        assert_eq!(most > 100.0, !follows, "waits up to {most} ms");
    }
}

/// A source whose frames come `late(ms)` after their time, on a path of 5 to 8 ms; gives the playout delay, without the clock
/// offset, at each frame, and how many came too late.
fn behind(seconds: u64, late: impl Fn(f64) -> f64) -> (Vec<f64>, u64) {
    let mut filter = JitterFilter::new(JitterConfig {
        longest: Some(ms(1_000.0)),
        ..smallest()
    });
    let playouts = (0..24 * seconds).map(|k| {
        let emission = Time::ZERO + Span::from_secs(1) + FPS.due(k);
        let late = late(k as f64 * 1_000.0 / 24.0).max(0.0).round();
        // Late frames leave in bursts.
        let queued = if late > 0.0 {
            (k * 11 % 80) as f64
        } else {
            0.0
        };
        filter.on_source(ms(late), Some(ms(queued)));
        let came = emission + ms(late + queued + 5.0 + (k * 7 % 4) as f64);
        filter.on_arrival(came, emission.into(), k % GOP == 0);
        filter.playout().as_ms_f64()
    });
    (playouts.collect(), filter.late())
}

#[test]
fn the_delay_is_short_again_10_s_after_a_source_that_was_too_slow_has_caught_up() {
    // 0.85 of real time for 5 s, then 1.2, or real time with a timeline that is moved by 1/200.
    let caught_up = |at: f64| (at * 0.15 / 0.85).min(882.0 - (at - 5_000.0) * 0.2 / 1.2);
    let (playouts, late) = behind(60, caught_up);
    assert_eq!(late, 0);
    let second = |at: usize| playouts[24 * at];
    assert!((850.0..1_000.0).contains(&second(5)), "{}", second(5));
    // It has caught up after 10.3 s.
    for at in 21..60 {
        assert!(second(at) < 40.0, "{at}: {}", second(at));
    }
    let moved = |at: f64| (at * 0.15 / 0.85).min(882.0 - (at - 5_000.0) / 200.0);
    let (playouts, late) = behind(60, moved);
    assert_eq!(late, 0);
    for at in 16..60 {
        let more = playouts[24 * at] - moved(at as f64 * 1e3);
        assert!((0.0..150.0).contains(&more), "{at}: {more}");
    }
}

#[test]
fn frames_that_a_source_in_time_holds_up_now_and_then_are_kept_to_as_those_of_the_path() {
    // One frame in ten comes 60 ms late to the source, for 20 s; one in 48 after that.
    let held_up = |at: f64| {
        let k = (at * 24.0 / 1e3).round() as u64;
        let every = if at < 20_000.0 { 10 } else { 48 };
        if k % every == 3 { 60.0 } else { 0.0 }
    };
    let (playouts, late) = behind(60, held_up);
    assert_eq!(late, 0);
    let settled = playouts[24..].iter();
    let (least, most) = settled.fold((f64::MAX, 0.0), |(least, most), &it| {
        (f64::min(least, it), f64::max(most, it))
    });
    // 60 ms, up to 79 in the queue, 8 on the path, and the guard of 10.
    assert!(least > 130.0 && most < 158.0, "{least} to {most}");
}

/// A source whose stamps begin again after a phase at 0.85 of real time. The last frame before that is sent when the first one
/// after it comes, which is longer than it can state.
#[test]
fn the_delay_is_short_10_s_after_a_slow_source_was_restarted() {
    for pause in [100.0, 850.0] {
        let mut filter = JitterFilter::new(JitterConfig {
            longest: Some(ms(2_000.0)),
            ..smallest()
        });
        // In milliseconds: 8 s at 0.85, of which the timeline takes up 150 ms, then real time.
        let mut playouts = Vec::new();
        for k in 0..24 * 60u64 {
            let due = k as f64 * 1_000.0 / 24.0;
            let slow = due < 8_000.0;
            let late = if slow {
                (due * 0.15 / 0.85 - 150.0).max(0.0)
            } else {
                0.0
            };
            let queued = match k {
                192 => None,
                _ if slow => Some((k * 31 % 160) as f64),
                _ => Some(2.0),
            };
            let emission = SourceTime::from(Time::ZERO + ms(1_000.0 + due));
            let held = late + queued.unwrap_or(pause + 250.0);
            let came = Time::ZERO + ms(1_000.0 + due + held + 5.0 + (k * 7 % 4) as f64);
            filter.on_source(ms(late), queued.map(ms));
            filter.on_arrival(came, emission, k % GOP == 0);
            playouts.push(filter.playout().as_ms_f64());
        }
        assert_eq!(filter.late(), 0);
        for second in 19..60 {
            let playout = playouts[24 * second];
            assert!(playout < 25.0, "{pause}: {second}: {playout}");
        }
    }
}

/// A source that is restarted holds up the last frame before that.
#[test]
fn the_delay_is_short_10_s_after_a_source_in_time_was_restarted() {
    for pause in [60.0, 850.0] {
        let mut filter = JitterFilter::new(smallest());
        let mut playouts = Vec::new();
        for k in 0..24 * 60u64 {
            // Smaller moves of the playout point before that are no reason to take it for jitter.
            let queued = match k {
                200 | 390 => 20.0,
                480 => pause,
                485 => pause / 2.0,
                _ => 2.0,
            };
            let emission = SourceTime::from(Time::ZERO + FPS.due(k));
            let came = Time::ZERO + FPS.due(k) + ms(queued + 5.0 + (k * 7 % 4) as f64);
            filter.on_source(Span::ZERO, (queued < 250.0).then(|| ms(queued)));
            filter.on_arrival(came, emission, k % GOP == 0);
            playouts.push(filter.playout().as_ms_f64());
        }
        for second in 30..60 {
            let playout = playouts[24 * second];
            assert!(playout < 40.0, "{pause}: {second}: {playout}");
        }
    }
}

/// An encoder that pauses for 0.7 s of every 1.4 s, ten times, and then sends what it owes: the picture that it paused in leaves the
/// source later than can be stated, the others come late to it.
#[test]
fn the_delay_is_short_10_s_after_bursts_of_the_encoder_and_a_pause_of_the_path_is_a_single_one_then()
 {
    let mut filter = JitterFilter::new(JitterConfig {
        longest: Some(ms(1_000.0)),
        ..smallest()
    });
    let mut playouts = Vec::new();
    for k in 0..24 * 60u64 {
        let due = k as f64 * 1_000.0 / 24.0;
        let since = due - 10_000.0;
        let in_pause = (0.0..14_000.0).contains(&since) && since % 1_400.0 < 700.0;
        let late = match in_pause {
            true => 700.0 - since % 1_400.0,
            false => 0.0,
        };
        let begins = in_pause && since % 1_400.0 < 1_000.0 / 24.0;
        // The path pauses at 40 s.
        let path = (40_300.0 - due).max(0.0) * f64::from(u8::from(due >= 40_000.0));
        let emission = SourceTime::from(Time::ZERO + ms(1_000.0 + due));
        let came = Time::ZERO + ms(1_000.0 + due + late + path + 5.0 + (k * 7 % 4) as f64);
        match begins {
            true => filter.on_source(Span::ZERO, None),
            false => filter.on_source(ms(late.round()), Some(ms(2.0))),
        }
        filter.on_arrival(came, emission, k % GOP == 0);
        playouts.push(filter.playout().as_ms_f64());
    }
    assert_eq!(filter.late(), 0);
    let second = |at: usize| playouts[24 * at];
    for at in 11..24 {
        assert!(second(at) > 600.0, "{at}: {}", second(at));
    }
    for at in (34..40).chain(46..60) {
        assert!(second(at) < 30.0, "{at}: {}", second(at));
    }
    assert!(second(41) > 280.0, "{}", second(41));
}

/// The process or its host is stopped for 2 s, three times: what arrived then is read when it runs again.
#[test]
fn the_delay_is_short_again_after_each_of_three_stops_of_the_receiver() {
    let stops = [10u64, 20, 30];
    let run = |is_known: bool| {
        let mut filter = JitterFilter::new(JitterConfig {
            longest: Some(ms(1_000.0)),
            ..smallest()
        });
        let mut playouts = Vec::new();
        for k in 0..24 * 60u64 {
            let emission = Time::ZERO + Span::from_secs(1) + FPS.due(k);
            let mut came = emission + ms(5.0 + (k * 7 % 4) as f64);
            for stop in stops {
                let since = Time::ZERO + Span::from_secs(1 + stop);
                let until = since + Span::from_secs(2);
                if (since..until).contains(&came) {
                    if is_known {
                        filter.on_stop(since, until);
                    }
                    // One in five was lost meanwhile, and is repaired.
                    came = until + if k % 5 == 0 { ms(150.0) } else { Span::ZERO };
                }
            }
            filter.on_arrival(came, emission.into(), k % GOP == 0);
            playouts.push(filter.playout().as_ms_f64());
        }
        let moves: Vec<_> = std::iter::from_fn(|| filter.poll_event())
            .filter_map(|event| match event {
                JitterEvent::PlayoutMoved {
                    from, to, cause, ..
                } if to > from => Some(cause),
                _ => None,
            })
            .collect();
        (playouts, moves)
    };
    let (playouts, moves) = run(true);
    for stop in stops {
        let second = |at: u64| playouts[(24 * (stop + at)) as usize];
        assert!(second(3) > 900.0, "{stop}: {}", second(3));
        assert!(second(9) < 30.0, "{stop}: {}", second(9));
    }
    assert!(moves.contains(&MoveCause::Stopped), "{moves:?}");
    assert!(!moves.contains(&MoveCause::Late), "{moves:?}");
    // Unknown stops are pauses of the path that recur.
    let (playouts, moves) = run(false);
    assert!(playouts[24 * 59] > 900.0, "{}", playouts[24 * 59]);
    assert!(moves.contains(&MoveCause::Late), "{moves:?}");
}
