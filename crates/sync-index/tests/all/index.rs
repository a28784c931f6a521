//! Lags, windows, percentile: the values of the paper and the reaction times.

use layercast_core::{Span, Time};
use layercast_sync_index::{
    Arrival, Counters, Estimator, EstimatorConfig, Event, Filter, Mode, Numbers, Outcome, Window,
};

const PERIOD: Span = Span::from_ms(10);

pub fn events(estimator: &mut Estimator) -> Vec<Event> {
    std::iter::from_fn(|| estimator.poll_event()).collect()
}

pub fn outcomes(events: &[Event]) -> Vec<Outcome> {
    let of = |event: &Event| match event {
        Event::Outcome(outcome) => Some(*outcome),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

pub fn windows(events: &[Event]) -> Vec<Window> {
    let of = |event: &Event| match event {
        Event::Window(window) => Some(*window),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

pub fn estimator(config: EstimatorConfig) -> Estimator {
    Estimator::new(config, PERIOD, Numbers::Long).unwrap()
}

/// Packet `k`; each second one of a disturbed time is 4 ms late.
fn packet(k: u32, disturbed: bool) -> Arrival {
    let late = Span::from_ms(if disturbed && k % 2 == 1 { 4 } else { 0 });
    Arrival::new(Time::ZERO + PERIOD.times(k.into()) + late, k)
}

/// The index of each block of 10 000 packets, disturbed from packet 5000 on.
fn jump(percentile: f64, filter: Filter) -> Vec<f64> {
    let config = EstimatorConfig {
        percentile,
        filter,
        ..EstimatorConfig::default()
    };
    let mut estimator = estimator(config);
    let mut found = Vec::new();
    for k in 0..10_000 {
        estimator.arrive(packet(k, k >= 5_000));
        found.extend(outcomes(&events(&mut estimator)));
    }
    found
        .iter()
        .map(|it| it.estimate().unwrap().xi_ms)
        .collect()
}

/// A2: block 17 (lags 4801 to 5100) has 20 quiet windows of 30, so the 0.3-percentile jumps in block 18, and the
/// 0.9-percentile in block 17.
#[test]
fn the_index_jumps_in_block_18_and_the_upper_percentile_in_block_17() {
    for filter in [Filter::Paper, Filter::Robust] {
        let low = jump(0.3, filter);
        assert_eq!(low.len(), 33);
        assert!(low[..17].iter().all(|it| *it == 0.0), "{low:?}");
        assert!(
            low[17..].iter().all(|it| (*it - 4.216).abs() < 0.01),
            "{low:?}"
        );
        let high = jump(0.9, filter);
        assert!(high[..16].iter().all(|it| *it == 0.0) && high[16] > 4.0);
    }
}

/// Seconds from a change of the load, of which each offset to the windows is tried, until the index follows it.
fn reaction(mode: Mode, from: bool) -> (f64, f64) {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    // The change falls on each window of a block once.
    for change in (3_000..3_300).step_by(10) {
        let config = EstimatorConfig {
            mode,
            ..EstimatorConfig::default()
        };
        let mut estimator = estimator(config);
        let mut found = None;
        for k in 0..6_000 {
            estimator.arrive(packet(k, (k > change) != from));
            for outcome in outcomes(&events(&mut estimator)) {
                let is_high = outcome.estimate().unwrap().xi_ms > 1.0;
                if k > change && is_high != from && found.is_none() {
                    found = Some(f64::from(k - change) / 100.0);
                }
            }
        }
        let found = found.unwrap();
        (least, most) = (least.min(found), most.max(found));
    }
    (least, most)
}

/// A7: 22 of 30 disturbed windows raise the index, 9 quiet ones lower it.
#[test]
fn reaction_times_are_exact_to_a_window() {
    assert_eq!(reaction(Mode::Tumbling, false), (2.2, 5.1));
    assert_eq!(reaction(Mode::Tumbling, true), (0.9, 3.8));
    assert_eq!(reaction(Mode::Rolling, false), (2.2, 2.2));
    assert_eq!(reaction(Mode::Rolling, true), (0.9, 0.9));
}

#[test]
fn a_window_has_mean_and_unbiased_deviation() {
    let config = EstimatorConfig {
        lags: 4,
        filter: Filter::Paper,
        ..EstimatorConfig::default()
    };
    let mut estimator = estimator(config);
    for (k, at_ms) in [0, 10, 22, 30, 48].into_iter().enumerate() {
        estimator.arrive(Arrival::new(Time::ZERO + Span::from_ms(at_ms), k as u32));
    }
    let found = windows(&events(&mut estimator));
    // Lags 10, 12, 8, 18.
    assert_eq!(found.len(), 1);
    assert!((found[0].mean_ms - 12.0).abs() < 1e-12);
    let sd = ((4.0 + 0.0 + 16.0 + 36.0) / 3.0_f64).sqrt();
    assert!((found[0].sd_ms.unwrap() - sd).abs() < 1e-12);
}

#[test]
fn the_percentile_is_the_ninth_smallest_of_thirty() {
    // Window i has lags of 10 +- i/10 ms.
    let config = EstimatorConfig {
        lags: 2,
        filter: Filter::Paper,
        ..EstimatorConfig::default()
    };
    let mut estimator = estimator(config);
    let mut at = Time::ZERO;
    estimator.arrive(Arrival::new(at, 0));
    for k in 0..60_u32 {
        let off = u64::from(30 - k / 2) * 100;
        at += Span::from_us(if k % 2 == 0 {
            10_000 + off
        } else {
            10_000 - off
        });
        estimator.arrive(Arrival::new(at, k + 1));
    }
    let found = outcomes(&events(&mut estimator));
    let xi = found[0].estimate().unwrap().xi_ms;
    // Window with 0.9 ms: deviation 0.9 * sqrt(2).
    assert!((xi - 0.9 * 2_f64.sqrt()).abs() < 1e-9, "{xi}");
}

#[test]
fn the_robust_filter_does_not_take_loss_or_a_late_sender_for_asynchronicity() {
    for filter in [Filter::Paper, Filter::Robust] {
        let config = EstimatorConfig {
            filter,
            ..EstimatorConfig::default()
        };
        let mut estimator = estimator(config);
        for k in (0..400_u32).filter(|k| k % 30 != 7) {
            let late = Span::from_us(u64::from(k * 7_919 % 3_000));
            let sent = Time::ZERO + PERIOD.times(k.into()) + late;
            estimator.arrive(Arrival {
                sent_ns: Some(sent.as_ps() / 1_000),
                late: late > Span::from_ms(1),
                // Path of 5 ms, clock of the receiver 100 s ahead.
                ..Arrival::new(sent + Span::from_secs(100) + Span::from_ms(5), k)
            });
        }
        let found = outcomes(&events(&mut estimator));
        let found = found[0].estimate().unwrap();
        let lost = estimator.counters().lost;
        assert_eq!(lost, 14);
        match filter {
            Filter::Robust => assert!(found.xi_ms < 1e-6 && !found.sender_unreliable, "{found:?}"),
            Filter::Paper => assert!(found.xi_ms > 0.5 && found.sender_unreliable, "{found:?}"),
        }
        assert!(
            (30_000..37_000).contains(&found.loss_ppm),
            "{}",
            found.loss_ppm
        );
    }
}

#[test]
fn a_baseline_is_subtracted_in_quadrature_and_a_coarse_clock_is_told() {
    let config = EstimatorConfig {
        baseline: Span::from_ms(2),
        resolution: Span::from_ms(1),
        ..EstimatorConfig::default()
    };
    let mut estimator = estimator(config);
    for k in 0..301 {
        estimator.arrive(packet(k, true));
    }
    let found = *outcomes(&events(&mut estimator))[0].estimate().unwrap();
    let raw = 4.0 * (10.0_f64 / 9.0).sqrt();
    assert!((found.xi_ms - (raw * raw - 4.0).sqrt()).abs() < 1e-9);
    assert!(found.coarse_clock && (found.floor_ms - 0.408).abs() < 0.001);
}

#[test]
fn a_smooth_full_queue_is_seen_by_its_level_alone() {
    let mut estimator = estimator(EstimatorConfig::default());
    let mut found = Vec::new();
    for k in 0..3_000_u32 {
        let sent = Time::ZERO + PERIOD.times(k.into());
        let queue = Span::from_ms(if k < 1_000 { 0 } else { 80 });
        estimator.arrive(Arrival {
            sent_ns: Some(sent.as_ps() / 1_000),
            ..Arrival::new(sent + queue, k)
        });
        found.extend(outcomes(&events(&mut estimator)));
    }
    let last = found.last().unwrap().estimate().unwrap();
    assert!(
        last.xi_ms < 1e-6 && (last.queue_ms.unwrap() - 80.0).abs() < 1.0,
        "{last:?}"
    );
    assert!(found[0].estimate().unwrap().queue_ms.unwrap() < 1e-6);
}

#[test]
fn counters_name_each_packet() {
    let mut estimator = estimator(EstimatorConfig::default());
    for seq in [5, 6, 9, 8, 8, 6, 3, 10] {
        estimator.arrive(Arrival::new(Time::ZERO + PERIOD.times(seq.into()), seq));
    }
    let expected = Counters {
        in_order: 4,
        reordered: 1,
        duplicates: 2,
        stale: 1,
        lost: 1,
        slots: 6,
        clock_anomalies: 0,
        ..Counters::default()
    };
    assert_eq!(estimator.counters(), expected);
}
