//! The two-level algorithm, and edge cases of specs/admission-control.md 7.

use layercast_admission::{
    CallError, CallId, Decision, Estimator, Event, Levels, Mbac, MbacConfig, Now, Promise, Reason,
    Why,
};
use layercast_core::{Rate, Span, Time};

use crate::{LINK, admits, at_ms, controller, events, id, load, mbps, peak};

fn paper() -> MbacConfig {
    MbacConfig {
        estimator: Estimator::Levels(Levels::paper(LINK)),
        ..MbacConfig::new(LINK)
    }
}

/// Windows that ended: their length and the next one, in milliseconds.
fn windows(events: &[Event]) -> Vec<(u64, u64)> {
    let window = |event: &Event| match event {
        Event::WindowExpired { window, next, .. } => Some((window.as_ms(), next.as_ms())),
        _ => None,
    };
    events.iter().filter_map(window).collect()
}

fn triggers(events: &[Event]) -> Vec<(u64, Why)> {
    let moved = |event: &Event| match event {
        Event::TriggerMoved { to, why, .. } => Some((to.as_bps() / 1_000, *why)),
        _ => None,
    };
    events.iter().filter_map(moved).collect()
}

#[test]
fn the_window_grows_at_the_trigger_and_shrinks_below_it() {
    let mut mbac = controller(paper());
    load(&mut mbac, 0, 2_000, mbps(10), 0);
    load(&mut mbac, 2_000, 4_000, mbps(5), 0);
    // The last sample of the second window ends at 2 s, the window at 2.2 s.
    assert_eq!(
        windows(&events(&mut mbac)),
        [(1_000, 1_200), (1_200, 1_440), (1_440, 1_296)]
    );
    let mut idle = controller(paper());
    load(&mut idle, 0, 5_000, mbps(0), 0);
    let shortest = |(_, next): &(u64, u64)| *next == 1_000;
    assert!(windows(&events(&mut idle)).iter().all(shortest));
}

#[test]
fn the_trigger_sinks_while_bits_are_late_and_rises_below_the_target() {
    let mut mbac = controller(paper());
    load(&mut mbac, 0, 1_000, mbps(8), 0);
    load(&mut mbac, 1_000, 2_000, mbps(8), 1);
    load(&mut mbac, 2_000, 3_000, mbps(8), 0);
    // The last window has no late bits, but the average is still above 0.1 %: the trigger stays.
    assert_eq!(
        triggers(&events(&mut mbac)),
        [(9_010, Why::BelowTarget), (8_960, Why::TooLate)]
    );
}

#[test]
fn the_trigger_stays_between_zero_and_the_link() {
    let levels = Levels {
        lower: mbps(7),
        raise: mbps(7),
        ..Levels::paper(LINK)
    };
    let config = MbacConfig {
        estimator: Estimator::Levels(levels),
        ..paper()
    };
    let mut low = controller(config.clone());
    load(&mut low, 0, 10_000, mbps(8), 50);
    let lowest = triggers(&events(&mut low)).iter().map(|it| it.0).min();
    assert_eq!(lowest, Some(0));
    let mut high = controller(config);
    load(&mut high, 0, 10_000, mbps(8), 0);
    let highest = triggers(&events(&mut high)).iter().map(|it| it.0).max();
    assert_eq!(highest, Some(10_000));
}

#[test]
fn an_idle_link_does_not_raise_the_trigger_in_production() {
    let mut mbac = controller(MbacConfig::new(LINK));
    load(&mut mbac, 0, 60_000, mbps(4), 0);
    assert_eq!(triggers(&events(&mut mbac)), []);
    load(&mut mbac, 60_000, 62_000, mbps(5), 0);
    assert!(!triggers(&events(&mut mbac)).is_empty());
}

#[test]
fn the_window_has_a_longest_length() {
    let levels = Levels {
        max: Span::from_secs(2),
        ..Levels::production(LINK)
    };
    let mut mbac = controller(MbacConfig {
        estimator: Estimator::Levels(levels),
        ..paper()
    });
    load(&mut mbac, 0, 30_000, mbps(10), 0);
    let longest = windows(&events(&mut mbac)).iter().map(|it| it.1).max();
    assert_eq!(longest, Some(2_000));
}

#[test]
fn an_admission_restarts_the_window_and_a_refusal_does_not() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 0, 1, mbps(6)));
    load(&mut mbac, 0, 500, mbps(1), 0);
    assert!(admits(&mut mbac, 600, 2, mbps(4)));
    // Without the restart the window would end at 1 s, and the estimate with it.
    load(&mut mbac, 500, 1_500, mbps(1), 0);
    assert!(!admits(&mut mbac, 1_500, 3, mbps(1)));
    assert_eq!(windows(&events(&mut mbac)), []);
    mbac.handle_timeout(at_ms(1_600));
    assert_eq!(windows(&events(&mut mbac)), [(1_000, 1_000)]);
    assert!(admits(&mut mbac, 1_600, 3, mbps(1)));
}

#[test]
fn a_sample_above_the_estimate_raises_it_immediately() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 400, 1, mbps(1)));
    load(&mut mbac, 0, 500, mbps(7), 0);
    assert_eq!(mbac.estimate(), mbps(7));
    let seen = events(&mut mbac);
    let above = seen.iter().any(|event| {
        matches!(event, Event::AboveDeclared { measured, declared, .. }
            if (*measured, *declared) == (mbps(7), mbps(1)))
    });
    assert!(above, "{seen:?}");
}

#[test]
fn a_rollback_gives_back_once_and_only_what_is_still_in_the_estimate() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 0, 1, mbps(2)));
    assert!(admits(&mut mbac, 0, 2, mbps(3)));
    mbac.rollback(at_ms(100), id(1)).unwrap();
    assert_eq!(mbac.estimate(), mbps(3));
    // The window did not restart.
    assert_eq!(mbac.poll_timeout(), at_ms(500));
    let again = mbac.rollback(at_ms(100), id(1));
    assert_eq!(again, Err(CallError::Unknown(id(1))));
    assert_eq!(mbac.estimate(), mbps(3));
    // After a window the estimate is a measurement, in which the call has no part.
    load(&mut mbac, 0, 1_000, mbps(1), 0);
    mbac.rollback(at_ms(1_000), id(2)).unwrap();
    assert_eq!(mbac.estimate(), mbps(1));
}

#[test]
fn the_same_call_on_two_paths_is_two_calls() {
    let mut mbac = controller(paper());
    let on = |path| CallId { path, call: 1 };
    for path in [1, 2] {
        let decision = mbac.request(Time::ZERO, on(path), &peak(mbps(2))).unwrap();
        assert!(matches!(decision, Decision::Admit { .. }));
    }
    let repeated = mbac.request(Time::ZERO, on(1), &peak(mbps(2)));
    assert_eq!(repeated, Err(CallError::Known(on(1))));
    mbac.rollback(Time::ZERO, on(1)).unwrap();
    assert_eq!((mbac.estimate(), mbac.calls()), (mbps(2), 1));
    assert!(mbac.has(on(2)) && !mbac.has(on(1)));
}

#[test]
fn a_release_leaves_the_estimate_to_the_next_window() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 0, 1, mbps(9)));
    mbac.release(at_ms(100), id(1)).unwrap();
    assert_eq!(mbac.estimate(), mbps(9));
    assert!(mbac.release(at_ms(100), id(1)).is_err());
    load(&mut mbac, 0, 1_000, mbps(0), 0);
    assert_eq!(mbac.estimate(), mbps(0));
}

#[test]
fn what_never_fits_is_distinguished_from_what_does_not_fit_now() {
    let mut mbac = controller(paper());
    let mut refusal = |call, rate| match mbac.request(Time::ZERO, id(call), &peak(rate)) {
        Ok(Decision::Reject(rejection)) => Some((rejection.reason, rejection.headroom)),
        _ => None,
    };
    assert_eq!(refusal(1, mbps(11)), Some((Reason::Never, mbps(10))));
    assert_eq!(refusal(2, mbps(6)), None);
    assert_eq!(refusal(3, mbps(6)), Some((Reason::Rate, mbps(4))));
}

#[test]
fn a_full_table_refuses() {
    let mut mbac = controller(MbacConfig {
        max_calls: 1,
        ..paper()
    });
    assert!(admits(&mut mbac, 0, 1, mbps(1)));
    assert!(!admits(&mut mbac, 0, 2, mbps(1)));
    assert_eq!(mbac.report().counts.refused_for(Reason::TableFull), 1);
}

#[test]
fn smaller_calls_wait_for_a_refused_larger_one_for_a_window() {
    let mut mbac = controller(MbacConfig {
        fair_block: true,
        ..paper()
    });
    assert!(admits(&mut mbac, 0, 1, mbps(8)));
    assert!(!admits(&mut mbac, 10, 2, mbps(4)));
    assert!(!admits(&mut mbac, 20, 3, mbps(1)));
    assert_eq!(mbac.report().counts.refused_for(Reason::Fair), 1);
    // The window has measured less: the larger one comes first, then the others are free.
    load(&mut mbac, 0, 1_000, mbps(2), 0);
    assert!(!admits(&mut mbac, 1_000, 3, mbps(1)));
    assert!(admits(&mut mbac, 1_000, 2, mbps(4)));
    assert!(admits(&mut mbac, 1_000, 3, mbps(1)));
    let sizes = mbac.report().counts.sizes;
    let of = |rate: Rate| sizes[&rate.as_bps().ilog2()];
    assert_eq!((of(mbps(1)).offered, of(mbps(1)).admitted), (3, 1));
    assert_eq!((of(mbps(4)).offered, of(mbps(4)).admitted), (2, 1));
}

#[test]
fn the_wait_for_a_larger_call_ends_with_the_window() {
    let mut mbac = controller(MbacConfig {
        fair_block: true,
        ..paper()
    });
    assert!(admits(&mut mbac, 0, 1, mbps(8)));
    assert!(!admits(&mut mbac, 10, 2, mbps(4)));
    assert!(!admits(&mut mbac, 1_009, 3, mbps(1)));
    assert!(admits(&mut mbac, 1_010, 3, mbps(1)));
}

#[test]
fn a_link_that_loses_capacity_says_what_is_too_much() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 0, 1, mbps(8)));
    mbac.set_capacity(at_ms(10), mbps(6)).unwrap();
    let seen = events(&mut mbac);
    assert!(seen.contains(&Event::Overcommitted {
        at: at_ms(10),
        excess: mbps(2)
    }));
    assert!(seen.contains(&Event::TriggerMoved {
        at: at_ms(10),
        from: mbps(9),
        to: Rate::from_bps(5_400_000),
        why: Why::Capacity
    }));
    // The call is still there, and the steps are smaller.
    assert_eq!(mbac.calls(), 1);
    assert!(!admits(&mut mbac, 20, 2, mbps(1)));
    load(&mut mbac, 0, 1_000, mbps(5), 0);
    assert_eq!(triggers(&events(&mut mbac)), [(5_406, Why::BelowTarget)]);
    assert_eq!(
        mbac.set_capacity(at_ms(1_000), Rate::default())
            .unwrap_err()
            .field,
        "capacity"
    );
}

#[test]
fn a_link_whose_capacity_swings_keeps_the_steps_of_the_trigger() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 0, 1, mbps(8)));
    let rates = [7_500_001, 7_000_003, 6_000_007];
    for rate in rates.into_iter().cycle().take(30_000) {
        mbac.set_capacity(at_ms(10), Rate::from_bps(rate)).unwrap();
    }
    mbac.set_capacity(at_ms(10), LINK).unwrap();
    // Too much is said once.
    let seen = events(&mut mbac);
    let overcommitted = |event: &&Event| matches!(event, Event::Overcommitted { .. });
    assert_eq!(seen.iter().filter(overcommitted).count(), 1);
    load(&mut mbac, 0, 1_000, mbps(5), 0);
    let step = events(&mut mbac).into_iter().find_map(|event| match event {
        Event::TriggerMoved { from, to, .. } => Some(to.as_bps() - from.as_bps()),
        _ => None,
    });
    assert_eq!(step, Some(10_000));
}

#[test]
fn a_restarted_controller_begins_with_what_survived() {
    let calls = (0..4).map(|call| (id(call), peak(mbps(2))));
    let mut mbac = Mbac::restart(paper(), at_ms(0), calls).unwrap();
    assert_eq!((mbac.estimate(), mbac.calls()), (mbps(8), 4));
    assert!(!admits(&mut mbac, 10, 9, mbps(3)));
    // What survived is in no estimate of its own.
    mbac.rollback(at_ms(20), id(0)).unwrap();
    assert_eq!(mbac.estimate(), mbps(8));
    let many = (0..9).map(|call| (id(call), peak(mbps(2))));
    let mbac = Mbac::restart(paper(), at_ms(0), many).unwrap();
    assert_eq!(mbac.estimate(), mbps(10));
}

#[test]
fn a_call_that_survived_is_added_without_a_test_up_to_the_link() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 0, 1, mbps(7)));
    mbac.survive(at_ms(10), id(2), &peak(mbps(7)));
    mbac.survive(at_ms(10), id(2), &peak(mbps(7)));
    assert_eq!((mbac.estimate(), mbac.calls()), (mbps(10), 2));
    mbac.rollback(at_ms(20), id(2)).unwrap();
    assert_eq!((mbac.estimate(), mbac.calls()), (mbps(10), 1));
}

#[test]
fn a_call_that_grows_is_tested_and_gives_back_all_that_it_added() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 0, 1, mbps(2)));
    let mut resize = |rate| mbac.resize(at_ms(10), id(1), &peak(rate));
    assert!(matches!(resize(mbps(5)), Ok(Decision::Admit { estimate, .. }) if estimate == mbps(5)));
    assert!(matches!(resize(mbps(12)), Ok(Decision::Reject(why)) if why.reason == Reason::Never));
    // A smaller one leaves the estimate to the next window.
    assert!(matches!(resize(mbps(3)), Ok(Decision::Admit { estimate, .. }) if estimate == mbps(5)));
    assert_eq!(mbac.report().declared, mbps(3));
    mbac.rollback(at_ms(20), id(1)).unwrap();
    assert_eq!(
        (mbac.estimate(), mbac.report().declared),
        (mbps(0), mbps(0))
    );
    let unknown = mbac.resize(at_ms(20), id(1), &peak(mbps(1)));
    assert_eq!(unknown, Err(CallError::Unknown(id(1))));
}

#[test]
fn a_call_that_grew_after_a_measurement_gives_back_what_it_added_since() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 0, 1, mbps(2)));
    load(&mut mbac, 0, 1_000, mbps(1), 0);
    mbac.resize(at_ms(1_000), id(1), &peak(mbps(6))).unwrap();
    assert_eq!(mbac.estimate(), mbps(5));
    mbac.rollback(at_ms(1_100), id(1)).unwrap();
    assert_eq!(mbac.estimate(), mbps(1));
}

#[test]
fn a_pause_of_the_driver_is_no_measurement() {
    let mut mbac = controller(paper());
    assert!(admits(&mut mbac, 0, 1, mbps(8)));
    let hours = 30 * 3_600_000;
    mbac.handle_timeout(at_ms(hours));
    assert_eq!(mbac.estimate(), mbps(8));
    let report = mbac.report();
    assert_eq!((report.counts.jumps, report.kept), (1, 1));
    assert!(mbac.poll_timeout() > at_ms(hours));
    // A time before that is taken for the same time.
    mbac.handle_timeout(at_ms(10));
    assert_eq!(mbac.report().counts.backwards, 1);
}

#[test]
fn a_late_driver_measures_in_the_same_order() {
    let (mut punctual, mut late) = (controller(paper()), controller(paper()));
    for mbac in [&mut punctual, &mut late] {
        assert!(admits(mbac, 100, 1, mbps(5)));
        mbac.on_transmit(at_ms(200), 2_000_000);
    }
    for ms in [500, 1_000, 1_100, 1_500, 2_000, 2_100] {
        punctual.handle_timeout(at_ms(ms));
    }
    late.handle_timeout(at_ms(2_100));
    assert_eq!(events(&mut punctual), events(&mut late));
}

#[test]
fn a_sample_has_bits_from_before_a_restart_unless_it_is_aligned() {
    let estimate = |align_samples| {
        let mut mbac = controller(MbacConfig {
            align_samples,
            ..paper()
        });
        mbac.on_transmit(at_ms(300), 2_000_000);
        assert!(admits(&mut mbac, 400, 1, mbps(1)));
        mbac.handle_timeout(at_ms(1_400));
        mbac.estimate()
    };
    assert_eq!(estimate(false), mbps(4));
    assert_eq!(estimate(true), mbps(0));
}

#[test]
fn a_period_ends_with_its_outcome_and_window_and_trigger_stay() {
    let promise = Promise {
        late_ppm: 10_000,
        period: Span::from_secs(10),
        sliding: false,
    };
    let mut mbac = controller(MbacConfig { promise, ..paper() });
    load(&mut mbac, 0, 10_000, mbps(8), 2);
    let before = mbac.report();
    load(&mut mbac, 10_000, 20_000, mbps(8), 0);
    let outcomes: Vec<_> = events(&mut mbac)
        .into_iter()
        .filter_map(|event| match event {
            Event::PeriodEnd { outcome, .. } => {
                Some((outcome.late_ppm, outcome.kept, outcome.sent))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        outcomes,
        [(20_000, false, 80_000_000), (0, true, 80_000_000)]
    );
    assert!(before.trigger < Some(mbps(9)));
    let report = mbac.report();
    assert_eq!((report.kept, report.broken), (1, 1));
    assert_eq!(report.promise.arrived, 0);
}

#[test]
fn a_sliding_commitment_forgets_a_bad_hour() {
    let promise = |sliding| Promise {
        late_ppm: 1_000,
        period: Span::from_secs(100),
        sliding,
    };
    // 1 % late for 5 s, then nothing late: the average is above 0.1 % for 45 s more, gradually less with a
    // sliding commitment.
    let raises = |sliding| {
        let mut mbac = controller(MbacConfig {
            promise: promise(sliding),
            ..paper()
        });
        load(&mut mbac, 0, 5_000, mbps(8), 1);
        load(&mut mbac, 5_000, 49_000, mbps(8), 0);
        triggers(&events(&mut mbac))
            .iter()
            .filter(|(_, why)| *why == Why::BelowTarget)
            .count()
    };
    assert_eq!(raises(false), 0);
    assert!(raises(true) > 0);
}

#[test]
fn a_snapshot_looks_at_the_queue_as_it_is() {
    let levels = Levels {
        now: Now::Snapshot,
        ..Levels::paper(LINK)
    };
    let mut mbac = controller(MbacConfig {
        estimator: Estimator::Levels(levels),
        ..paper()
    });
    mbac.on_backlog(at_ms(400), 1_000, 10);
    load(&mut mbac, 0, 1_000, mbps(8), 0);
    mbac.on_backlog(at_ms(1_400), 1_000, 0);
    load(&mut mbac, 1_000, 2_000, mbps(8), 50);
    let moves = triggers(&events(&mut mbac));
    assert_eq!(moves, [(8_950, Why::TooLate)]);
}

#[test]
fn configurations_that_cannot_be_meant_are_refused_by_name() {
    let levels = Levels::paper(LINK);
    let with = |levels| MbacConfig {
        estimator: Estimator::Levels(levels),
        ..MbacConfig::new(LINK)
    };
    let promise = |late_ppm| MbacConfig {
        promise: Promise {
            late_ppm,
            ..Promise::default()
        },
        ..MbacConfig::new(LINK)
    };
    let second = Span::from_secs(1);
    let cases = [
        ("capacity", MbacConfig::new(Rate::default())),
        (
            "sample",
            MbacConfig {
                sample: Span::ZERO,
                ..paper()
            },
        ),
        (
            "utilisation",
            MbacConfig {
                utilisation: 0,
                ..paper()
            },
        ),
        (
            "over_rate",
            MbacConfig {
                over_rate: 999,
                ..paper()
            },
        ),
        (
            "max_calls",
            MbacConfig {
                max_calls: 0,
                ..paper()
            },
        ),
        ("promise.late_ppm", promise(0)),
        ("promise.late_ppm", promise(1_000_000)),
        (
            "levels.min",
            with(Levels {
                min: Span::from_ms(999),
                ..levels
            }),
        ),
        (
            "levels.max",
            with(Levels {
                max: Span::from_ms(999),
                ..levels
            }),
        ),
        (
            "levels.first",
            with(Levels {
                first: Span::ZERO,
                ..levels
            }),
        ),
        (
            "levels.grow",
            with(Levels {
                grow: 1_000,
                ..levels
            }),
        ),
        (
            "levels.shrink",
            with(Levels {
                shrink: 1_000,
                ..levels
            }),
        ),
        (
            "levels.trigger",
            with(Levels {
                trigger: mbps(11),
                ..levels
            }),
        ),
        (
            "estimator",
            MbacConfig::jdsz(LINK, Span::from_ms(999), None, 950),
        ),
        (
            "rule.delay.bound",
            MbacConfig::jdsz(LINK, second, Some(Span::ZERO), 950),
        ),
    ];
    for (field, config) in cases {
        assert_eq!(Mbac::new(config, Time::ZERO).unwrap_err().field, field);
    }
}
