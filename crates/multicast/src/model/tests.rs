//! Values printed or computed in specs/rmtp-large-scale.md and specs/fully-reliable-multicast.md.

use super::*;

/// Asserts equality in the given digits.
#[track_caller]
fn near(value: f64, printed: f64, digits: i32) {
    let half = 0.5 * 10f64.powi(-digits);
    assert!(
        (value - printed).abs() <= half * 1.000_1,
        "{value} is not {printed}"
    );
}

const M: f64 = 2_000.0;

/// Table A of the paper with the corrected order of M and N; its values follow the exact formula.
#[test]
fn table_a() {
    for (loss, rows) in [
        (1e-6, &[(1e7, 2000., 5000.), (10., 10., 10.)][..]),
        (
            1e-4,
            &[(1e7, 2000., 5000.), (1e3, 787., 906.), (0.1, 0.1, 0.1)],
        ),
        (
            1e-2,
            &[
                (1e7, 2000., 5000.),
                (1e5, 2000., 5000.),
                (1e3, 787., 906.),
                (10., 10., 10.),
                (0.1, 0.1, 0.1),
            ],
        ),
    ] {
        for (k, &(pairs, packets, receivers)) in rows.iter().enumerate() {
            let round = round(M, 5_000.0, loss, k as u32);
            assert!((round.pairs / pairs - 1.0).abs() < 1e-9);
            // 9.98 and 9.99 are printed as 10, and 787 of 2000 in whole packets.
            let digits = if packets < 1.0 { 2 } else { 0 };
            near(round.packets, packets, digits);
            near(round.receivers, receivers, digits);
        }
    }
}

/// The printed recursion would need 790 packets for the second retransmission at 1 %, not 787.
#[test]
fn the_printed_recursion_is_not_that_of_its_table() {
    let rounds = recursion(M, 5_000.0, 1e-2, 4);
    near(rounds[2].packets, 790.0, 0);
    near(rounds[2].receivers, 910.0, 0);
    assert_eq!(rounds.len(), 4);
    let first = recursion(M, 5_000.0, 1e-4, 2)[1];
    assert!((first.packets / round(M, 5_000.0, 1e-4, 1).packets - 1.0).abs() < 1e-9);
    assert!(recursion(M, 5_000.0, 0.0, 3)[2].packets == 0.0);
}

#[test]
fn rounds_needed() {
    for (loss, rule, exact) in [
        (1e-6, 1.17, 1.000),
        (1e-4, 1.75, 1.095),
        (1e-2, 3.50, 3.096),
        (0.1, 7.00, 6.738),
        (0.3, 13.39, 13.366),
    ] {
        near(rule_of_thumb(M, 5_000.0, loss), rule, 2);
        near(mean_rounds(M, 5_000.0, loss), exact, 3);
    }
    assert_eq!(mean_rounds(M, 5_000.0, 0.0), 0.0);
    assert_eq!(mean_rounds(M, 5_000.0, 1.0), f64::INFINITY);
    assert_eq!(rule_of_thumb(M, 5_000.0, 0.0), 0.0);
}

/// The specification has 1.89 and 2.89 for 10 and 1000 receivers; the exact values are 1.8847 and 2.8847.
#[test]
fn receivers_hardly_matter() {
    for (receivers, exact) in [
        (10.0, 1.88),
        (100.0, 2.18),
        (1_000.0, 2.88),
        (5_000.0, 3.10),
        (5e4, 3.64),
        (5e5, 4.10),
    ] {
        near(mean_rounds(M, receivers, 0.01), exact, 2);
    }
}

#[test]
fn responses_that_overflow() {
    for (packets, load, of_100, of_500) in [
        (8, 0.5, (0.17, 2), (0.95, 2)),
        (8, 0.9, (5.82, 2), (33.9, 1)),
        (8, 1.2, (17.2, 1), (99.9, 1)),
        (8, 2.0, (43.6, 1), (244.0, 0)),
        (64, 1.2, (0.00, 2), (29.9, 1)),
        (64, 2.0, (0.18, 2), (187.5, 1)),
        (256, 2.0, (0.0, 2), (5.58, 2)),
    ] {
        let overflow = Overflow::new(500, packets, load);
        near(overflow.of(100.0), of_100.0, of_100.1);
        near(overflow.of(500.0), of_500.0, of_500.1);
    }
    let at_once = Overflow::new(100, 10, f64::INFINITY);
    assert_eq!(at_once.of(100.0), 90.0);
    let roomy = Overflow::new(100, 5_000, 3.0);
    assert_eq!((roomy.of(100.0), roomy.of(1e9)), (0.0, 0.0));
    let some = Overflow::new(10, 2, 2.0);
    let between = (some.of(4.0) + some.of(5.0)) / 2.0;
    assert!((some.of(4.5) - between).abs() < 1e-12);
}

fn seconds(model: RmtpModel) -> f64 {
    model.session().expect("numbers in range").seconds
}

/// 100 of the receivers lose 1 %; alpha = 0 and 1.9 s.
#[test]
fn transfer_time_where_a_hundred_lose() {
    for (receivers, bare, with_surplus) in [
        (10, 22.9, 31.1),
        (50, 29.2, 39.3),
        (100, 34.3, 45.9),
        (1_000, 40.7, 52.3),
        (5_000, 64.7, 76.3),
        (10_000, 94.7, 106.3),
    ] {
        let model = RmtpModel::paper(receivers, Some(100), 0.01);
        near(seconds(model), bare, 1);
        near(
            seconds(RmtpModel {
                alpha: 1.9,
                ..model
            }),
            with_surplus,
            1,
        );
    }
}

/// All receivers lose 1 %; delta = 2, 3, 4 ms (for 100,000 the specification has 1053 s; its formulas give 1052.48);
/// "2 Mbyte to 5000 receivers within 3 minutes"; TAT = 600 ms.
#[test]
fn transfer_time_where_all_lose() {
    for (receivers, of_deltas, digits) in [
        (5_000, [83.6, 99.5, 115.5], 1),
        (10_000, [122.0, 154.0, 186.0], 0),
        (100_000, [734.0, 1_052.0, 1_371.0], 0),
    ] {
        for (delta, printed) in [0.002, 0.003, 0.004].into_iter().zip(of_deltas) {
            let model = RmtpModel::paper(receivers, None, 0.01);
            near(seconds(RmtpModel { delta, ..model }), printed, digits);
        }
    }
    let model = RmtpModel::paper(5_000, None, 0.01);
    near(
        seconds(RmtpModel {
            alpha: 1.9,
            ..model
        }),
        119.0,
        0,
    );
    near(seconds(RmtpModel { tat: 0.6, ..model }), 104.7, 1);
}

/// 100 receivers: 22 s, 40 s, 68 s were measured; 2 s for each pass beyond the packets explain them.
#[test]
fn a_hundred_receivers_at_three_loss_rates() {
    for (loss, packets, passes, seconds) in [
        (0.0, 2_000.0, 1.0, 22.5),
        (0.01, 3_288.0, 3.0, 39.7),
        (0.1, 5_480.0, 6.0, 68.1),
    ] {
        let sent: f64 = (0..40).map(|k| round(M, 100.0, loss, k).packets).sum();
        near(sent, packets, 0);
        let rate = RmtpModel::paper(100, None, loss).rate;
        near(sent / rate + 2.0 * passes, seconds, 1);
    }
    near(mean_rounds(M, 100.0, 0.01), 2.18, 2);
    near(mean_rounds(M, 100.0, 0.1), 5.07, 2);
}

/// For 10,000 the specification has 7.27 s; (5) to (8) give 7.258.
#[test]
fn processor_of_the_server() {
    for (receivers, printed) in [
        (10, 0.26),
        (100, 0.43),
        (1_000, 1.05),
        (5_000, 3.81),
        (10_000, 7.26),
    ] {
        let session = RmtpModel::paper(receivers, Some(100), 0.01).session();
        near(CpuCost::SUN_1996.of(&session.unwrap()), printed, 2);
    }
}

/// With delta of 2 ms and services of at most 1 ms hardly anything overflows, so the curves do not depend on V.
#[test]
fn overflow_costs_polls() {
    let bare = RmtpModel::paper(5_000, None, 0.01);
    let with = |packets, service| RmtpModel {
        buffer: Some(Buffer { packets, service }),
        ..bare
    };
    assert!((seconds(with(100, 1_000.0)) / seconds(bare) - 1.0).abs() < 1e-6);
    let slow = with(100, 200.0).session().unwrap();
    let fast = bare.session().unwrap();
    assert!(slow.seconds > 1.2 * fast.seconds);
    assert!(slow.passes[0].polls > 10.0 * fast.passes[0].polls);
}

#[test]
fn an_estimate_predicts_the_session() {
    let rate = RmtpModel::paper(1, None, 0.0).rate;
    let it = estimate(5_000, 2_000, 0.01, rate, 0.1, 0.003).unwrap();
    near(it.seconds, 99.5, 1);
    near(it.rounds, 3.10, 2);
    near(it.transmissions, 2.40, 2);
    // "about 1.06 to 1.07 transmissions per packet"
    assert!((1.06..1.07).contains(&it.with_parities), "{it:?}");
    let sure = estimate(1, 1, 0.0, 10.0, 0.0, 0.0).unwrap();
    assert_eq!((sure.seconds, sure.rounds), (0.2, 0.0));
    assert_eq!((sure.transmissions, sure.with_parities), (1.0, 1.0));
}

#[test]
fn frm_keeps_up_until() {
    near(FrmModel::PAPER.knee().unwrap(), 128.0, 0);
    let at = FrmModel::PAPER.knee().unwrap();
    near(FrmModel::PAPER.release(at).unwrap(), 0.32, 9);
    near(FrmModel::PAPER.management(100.0), 0.051, 9);
    let of = |k, buffer| {
        FrmModel {
            k,
            buffer,
            ..FrmModel::PAPER
        }
        .knee()
        .unwrap()
    };
    assert!(of(1.1, 32) > of(1.5, 32) && of(1.5, 32) > of(2.0, 32));
    assert!(of(1.5, 64) > of(1.5, 32) && of(1.5, 4) == 0.0);
}

#[test]
fn values_out_of_range_are_refused() {
    let model = RmtpModel::paper(100, None, 0.01);
    let buffer = |packets, service| Some(Buffer { packets, service });
    for (name, wrong) in [
        (
            "receivers",
            RmtpModel {
                receivers: 0,
                ..model
            },
        ),
        (
            "packets",
            RmtpModel {
                packets: MOST + 1,
                ..model
            },
        ),
        (
            "loss",
            RmtpModel {
                loss: 0.991,
                ..model
            },
        ),
        (
            "loss",
            RmtpModel {
                loss: f64::NAN,
                ..model
            },
        ),
        ("rate", RmtpModel { rate: 0.0, ..model }),
        ("tat", RmtpModel { tat: -0.1, ..model }),
        (
            "delta",
            RmtpModel {
                delta: f64::INFINITY,
                ..model
            },
        ),
        (
            "alpha",
            RmtpModel {
                alpha: -1.0,
                ..model
            },
        ),
        (
            "service",
            RmtpModel {
                buffer: buffer(8, 0.0),
                ..model
            },
        ),
        (
            "buffer times receivers",
            RmtpModel {
                buffer: buffer(0, 1.0),
                ..model
            },
        ),
    ] {
        let ModelError::Range { name: found, .. } = wrong.session().unwrap_err();
        assert_eq!(found, name);
    }
    assert!(
        FrmModel {
            k: 1.0,
            ..FrmModel::PAPER
        }
        .knee()
        .is_err()
    );
    assert!(
        FrmModel {
            spacing: 0.001,
            ..FrmModel::PAPER
        }
        .round_trip(1.0)
        .is_err()
    );
}

#[test]
fn the_largest_and_the_smallest_are_answered() {
    for (receivers, loss) in [(1, 1e-12), (MOST, 1e-12), (MOST, MOST_LOSS), (1, MOST_LOSS)] {
        let model = RmtpModel {
            packets: if loss < 0.5 { MOST } else { 1 },
            ..RmtpModel::paper(receivers, None, loss)
        };
        let session = model.session().unwrap();
        assert!(session.seconds.is_finite() && session.passes.len() < 5_000);
    }
}
