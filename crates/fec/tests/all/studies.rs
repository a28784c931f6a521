//! Real blocks compared with the models; tolerances of specs/packet-level-fec.md 8.

use layercast_fec::Scheme;
use layercast_fec::model::{
    CostKind, cost, integrated, reseq, residual, sack_efficiency, tcp_efficiency,
};
use layercast_fec::study::{Bursts, Order, Repair, Share, Stalls, Star, StudyError};

const STAR: Star = Star {
    scheme: Scheme::XorShift,
    n: 7,
    m: 1,
    e: 0.01,
    group: 100,
    packets: 20_000,
    repair: Repair::Raw,
    seed: 1,
};

fn near(found: f64, predicted: f64, off: f64, what: &str) {
    assert!(
        (found / predicted - 1.0).abs() < off,
        "{what}: {found} instead of {predicted}"
    );
}

#[test]
fn real_blocks_cost_what_model_b_says() {
    for (n, m) in [(1, 0), (7, 1), (6, 2), (5, 3)] {
        for e in [0.01, 0.1] {
            let found = Star { n, m, e, ..STAR }.run().expect("a study");
            let what = format!("{n}+{m}, e = {e}");
            near(found.cost, cost(n, m, e, 100.0, CostKind::B), 0.02, &what);
            assert_eq!(found.wrong, 0, "{what}");
            assert!(m == 0 || found.decoded > 1_000, "{what}");
        }
    }
    let found = Star { e: 0.1, ..STAR }.run().expect("a study");
    near(found.residual, residual(7, 1, 0.1), 0.02, "residual loss");
}

#[test]
fn fresh_parities_cost_what_their_model_says() {
    for scheme in [Scheme::XorShift, Scheme::ReedSolomon] {
        let star = Star {
            scheme,
            n: 20,
            m: 0,
            group: 50,
            packets: 4_000,
            repair: Repair::Parities,
            ..STAR
        };
        let found = star.run().expect("a study");
        near(
            found.cost,
            integrated(20, 0, 0.01, 50.0),
            0.02,
            "integrated",
        );
        assert_eq!(found.wrong, 0);
    }
}

#[test]
fn interleaving_repairs_bursts() {
    let bursts = Bursts {
        scheme: Scheme::XorShift,
        n: 6,
        m: 2,
        interleave: 1,
        e: 0.02,
        burst: None,
        packets: 60_000,
        seed: 1,
    };
    let run = |burst, interleave| {
        Bursts {
            burst,
            interleave,
            ..bursts
        }
        .run()
        .expect("a study")
    };
    let independent = run(None, 1);
    near(independent.raw, 0.02, 0.1, "raw loss");
    let often = Bursts { e: 0.05, ..bursts }.run().expect("a study");
    near(often.residual, residual(6, 2, 0.05), 0.3, "residual loss");
    let (plain, spread) = (run(Some(4.0), 1), run(Some(4.0), 8));
    assert!(
        plain.residual > 5.0 * spread.residual,
        "{plain:?} {spread:?}"
    );
    assert!(plain.residual > 20.0 * residual(6, 2, 0.02), "{plain:?}");
}

#[test]
fn resequencing_without_fec_is_that_of_the_model() {
    let order = Order {
        n: 1,
        m: 0,
        e: 0.02,
        window: 50,
        packets: 400_000,
        seed: 1,
    };
    let (found, predicted) = (order.run().expect("a study"), reseq(0.02, 50, 1.0));
    near(found.mean, predicted.mean, 0.05, "mean");
    near(found.deviation, predicted.deviation, 0.05, "deviation");
    assert_eq!(found.mean, found.mean_with_fill);
}

const SHARE: Share = Share {
    n: 6,
    m: 2,
    window: true,
    signal: true,
    queue: 30,
    round_trip: 100,
    e: 0.0,
    packets: 400_000,
    seed: 1,
};

#[test]
fn a_protected_transfer_takes_no_more_than_its_half_if_parities_and_losses_count() {
    let plain = Share { m: 0, ..SHARE }.run().expect("a study");
    let coupled = SHARE.run().expect("a study");
    for found in [plain, coupled] {
        assert!((found.load[0] - found.load[1]).abs() < 0.06, "{found:?}");
    }
    let sources = coupled.goodput[0] / coupled.load[0];
    near(sources, 6.0 / 8.0, 0.02, "sources");
    let greedy = Share {
        window: false,
        signal: false,
        ..SHARE
    };
    let greedy = greedy.run().expect("a study");
    assert!(greedy.load[0] > 2.0 * greedy.load[1], "{greedy:?}");
    assert!(greedy.queue > coupled.queue, "{greedy:?} {coupled:?}");
    // The accounting of a transfer is complete.
    assert!(coupled.load[0] + coupled.load[1] <= 1.0);
}

#[test]
fn studies_of_nothing_are_refused() {
    assert_eq!(Share { queue: 0, ..SHARE }.run(), Err(StudyError::Nothing));
    assert_eq!(Share { n: 0, ..SHARE }.run(), Err(StudyError::Block));
    assert_eq!(Star { e: 0.95, ..STAR }.run(), Err(StudyError::Loss));
    assert_eq!(Star { n: 0, ..STAR }.run(), Err(StudyError::Block));
    assert_eq!(Star { group: 0, ..STAR }.run(), Err(StudyError::Nothing));
    assert_eq!(STAR.run(), STAR.run());
}

const STALLS: Stalls = Stalls {
    scheme: Scheme::XorShift,
    n: 1,
    m: 0,
    e: 0.0,
    window: 200,
    sack: false,
    packets: 60_000,
    seed: 1,
};

#[test]
fn transports_that_stall_are_as_efficient_as_their_models_say() {
    for (n, m) in [(1, 0), (7, 1), (5, 3)] {
        let found = Stalls { n, m, ..STALLS }.run().expect("a study");
        // At the end it waits for one window.
        near(
            found.efficiency,
            f64::from(n) / f64::from(n + m),
            0.01,
            "no loss",
        );
        assert_eq!(found.stalls, 0.0);
    }
    let timer = Stalls {
        e: 5e-4,
        packets: 200_000,
        ..STALLS
    };
    let predicted = tcp_efficiency(1, 0, 5e-4, 200.0);
    near(
        timer.run().expect("a study").efficiency,
        predicted,
        0.05,
        "timer",
    );
    let sack = Stalls {
        e: 0.02,
        sack: true,
        packets: 200_000,
        ..STALLS
    };
    let predicted = sack_efficiency(1, 0, 0.02, 200.0);
    near(
        sack.run().expect("a study").efficiency,
        predicted,
        0.05,
        "sack",
    );
    let coded = Stalls {
        n: 6,
        m: 2,
        ..timer
    }
    .run()
    .expect("a study");
    assert!(coded.stalls < 1e-4, "{coded:?}");
    let refused = |study: Stalls| study.run().expect_err("it cannot be run");
    assert_eq!(refused(Stalls { e: 1.0, ..STALLS }), StudyError::Loss);
    assert_eq!(
        refused(Stalls {
            packets: 0,
            ..STALLS
        }),
        StudyError::Nothing
    );
    assert_eq!(refused(Stalls { n: 0, ..STALLS }), StudyError::Block);
}
