use layercast_core::{Span, Stream, Time};
use layercast_fec::model::{CostKind, cost, residual};
use layercast_fec::{Choice, Controller, ControllerConfig, LossCount, Objective};

const RTT: Span = Span::from_ms(100);

fn seen(expected: u64, loss: f64) -> LossCount {
    LossCount {
        expected,
        received: expected - (expected as f64 * loss).round() as u64,
    }
}

/// The choice after a number of round trips in which all receivers see this loss.
fn settled(config: ControllerConfig, receivers: u64, loss: f64) -> Choice {
    let mut controller = Controller::new(config);
    for receiver in 0..receivers {
        controller.report(receiver, seen(1_000_000, loss));
    }
    controller.choose(Time::ZERO, RTT)
}

#[test]
fn choices_are_those_of_the_table() {
    // Between the boundaries of 2.7, computed there for model A; in the middle of each range model B agrees.
    let of = |receivers, loss| {
        let choice = settled(
            ControllerConfig {
                cap: 1.0,
                ..ControllerConfig::default()
            },
            receivers,
            loss,
        );
        (choice.n, choice.m)
    };
    assert_eq!(
        [of(100, 5e-4), of(100, 6e-3), of(100, 3e-2)],
        [(1, 0), (7, 1), (6, 2)]
    );
    assert_eq!(
        [of(1_000, 5e-5), of(1_000, 1e-3), of(1_000, 1.2e-2)],
        [(1, 0), (7, 1), (6, 2)]
    );
    assert_eq!([of(1_000, 5e-2).1, of(10_000, 2e-2).1], [3, 3]);
}

#[test]
fn live_media_get_the_cheapest_code_that_leaves_little_enough_loss() {
    let config = |loss, batch| ControllerConfig {
        objective: Objective::Live { loss, batch },
        block: 20,
        parities: 4,
        ..ControllerConfig::default()
    };
    let of = |loss, batch, seen| settled(config(loss, batch), 3, seen);
    for (seen, batch) in [(0.01, 11), (0.03, 11), (0.03, 40), (0.05, 1)] {
        let target = 1e-3 / f64::from(batch);
        let choice = of(target, batch, seen);
        let fits = |n: u32, m: u32| residual(n as usize, m as usize, seen) <= target;
        let cost = |n: u32, m: u32| 1.0 + f64::from(m * batch.div_ceil(n)) / f64::from(batch);
        assert!(fits(choice.n.into(), choice.m.into()), "{choice:?}");
        let all = (1..=4u32).flat_map(|m| (1..=20 - m).map(move |n| (n, m)));
        let best = all
            .filter(|&(n, m)| m <= n && fits(n, m))
            .map(|(n, m)| cost(n, m))
            .fold(f64::INFINITY, f64::min);
        assert!((choice.cost - best).abs() < 1e-9, "{choice:?}, {best}");
    }
    // Without loss no parities; where no code helps, the best one.
    assert_eq!(of(1e-4, 10, 0.0).m, 0);
    let hopeless = of(1e-6, 10, 0.3);
    assert!(hopeless.cost >= 1e3 && hopeless.m == 4, "{hopeless:?}");
}

#[test]
fn nothing_is_sent_for_nothing() {
    for receivers in [1, 5, 1_000] {
        let choice = settled(ControllerConfig::default(), receivers, 0.0);
        assert_eq!((choice.n, choice.m, choice.cost), (1, 0, 1.0));
    }
    for loss in [1e-4, 0.01, 0.1, 0.3] {
        let choice = settled(
            ControllerConfig {
                block: 120,
                ..ControllerConfig::default()
            },
            1,
            loss,
        );
        assert_eq!(
            (choice.n, choice.m),
            (1, 0),
            "one receiver that loses {loss}"
        );
    }
    let nobody = Controller::new(ControllerConfig::default()).choose(Time::ZERO, RTT);
    assert_eq!((nobody.n, nobody.m, nobody.driver), (1, 0, None));
}

#[test]
fn the_model_of_equal_receivers_is_that_of_the_paper() {
    let choice = settled(ControllerConfig::default(), 300, 0.01);
    let direct = cost(
        usize::from(choice.n),
        usize::from(choice.m),
        0.01,
        300.0,
        CostKind::B,
    );
    assert!((choice.cost - direct).abs() < 1e-9, "{choice:?} {direct}");
}

#[test]
fn a_liar_is_trimmed_capped_and_named() {
    let mut controller = Controller::new(ControllerConfig::default());
    for receiver in 0..100 {
        controller.report(receiver, seen(10_000, 0.002));
    }
    let before = controller.choose(Time::ZERO, RTT);
    controller.report(7_777, seen(10_000, 1.0));
    let after = controller.choose(Time::ZERO + RTT.times(9), RTT);
    assert_eq!((before.n, before.m), (after.n, after.m));
    assert!(
        after
            .driver
            .is_some_and(|it| it.0 != 7_777 && (it.1 - 0.002).abs() < 1e-9)
    );
    // In a group too small for statistics it counts, but not beyond the cap.
    let mut small = Controller::new(ControllerConfig {
        cap: 0.3,
        ..ControllerConfig::default()
    });
    (0..3).for_each(|it| small.report(it, seen(10_000, 0.01)));
    small.report(7_777, seen(10_000, 1.0));
    let choice = small.choose(Time::ZERO, RTT);
    assert_eq!(choice.driver, Some((7_777, 1.0)));
    assert!(
        f64::from(choice.m) <= 0.3 * f64::from(choice.n + choice.m),
        "{choice:?}"
    );
    small.forget(7_777);
    assert!(
        small
            .choose(Time::ZERO + RTT.times(9), RTT)
            .driver
            .is_some_and(|it| it.0 != 7_777)
    );
}

#[test]
fn it_changes_seldom_and_for_a_reason() {
    let mut controller = Controller::new(ControllerConfig::default());
    let mut stream = Stream::new(5, "reports");
    let mut changes = 0;
    let mut last = (1, 0);
    for round in 0..400 {
        let loss = if round < 200 { 0.0008 } else { 0.02 };
        for receiver in 0..100 {
            let lost = (0..200).filter(|_| stream.chance(loss)).count() as u64;
            controller.report(
                receiver,
                LossCount {
                    expected: 200,
                    received: 200 - lost,
                },
            );
        }
        let choice = controller.choose(Time::ZERO + RTT.times(round), RTT);
        changes += u32::from((choice.n, choice.m) != last);
        last = (choice.n, choice.m);
    }
    assert_eq!(last, (6, 2));
    assert!(changes <= 6, "{changes} changes");
}

#[test]
fn few_packets_say_nothing_and_strangers_are_bounded() {
    let mut controller = Controller::new(ControllerConfig {
        receivers: 2,
        ..ControllerConfig::default()
    });
    controller.report(1, seen(99, 0.5));
    assert_eq!(controller.choose(Time::ZERO, RTT).driver, None);
    controller.report(1, seen(101, 0.5));
    assert!(controller.choose(Time::ZERO, RTT).driver.is_some());
    (2..10).for_each(|it| controller.report(it, seen(200, 0.5)));
    assert_eq!(controller.refused(), 7);
}

#[test]
fn delay_is_kept_with_the_least_overhead() {
    let delay = |budget| ControllerConfig {
        objective: Objective::Delay {
            window: 200,
            budget,
        },
        block: 40,
        parities: 4,
        ..ControllerConfig::default()
    };
    // No code is needed: 95 of 100 packets do not wait.
    let choice = settled(delay(50), 3, 1e-4);
    assert_eq!((choice.n, choice.m), (1, 0));
    let choice = settled(delay(50), 3, 0.01);
    let wait = |n: usize, m: usize| {
        layercast_fec::model::reseq(layercast_fec::model::residual(n, m, 0.01), 200, 1.0).p95
    };
    let (n, m) = (usize::from(choice.n), usize::from(choice.m));
    assert!(m > 0 && wait(n, m) <= 50.0 && n + m <= 50);
    // No longer block with as many parities keeps the budget.
    assert!(
        (n + 1..=40 - m).all(|more| wait(more, m) > 50.0),
        "{choice:?}"
    );
}
