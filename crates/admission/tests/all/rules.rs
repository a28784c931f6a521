//! The baseline and the other tests of a request.

use layercast_admission::{Arithmetic, Decision, Estimator, Mbac, MbacConfig, Reason, Rule, TSpec};
use layercast_core::{Rate, Span};

use crate::{LINK, at_ms, controller, id, load, mbps, peak};

fn jdsz(arithmetic: Arithmetic) -> Mbac {
    controller(MbacConfig {
        arithmetic,
        ..MbacConfig::jdsz(LINK, Span::from_secs(10), Some(Span::from_ms(16)), 950)
    })
}

/// Calls with a bucket that are admitted before one is refused, and the reason.
fn admitted(mbac: &mut Mbac, depth: f64) -> (u64, Reason) {
    for call in 0.. {
        let spec = TSpec::from_bits(64e3, Some(60e3), Some(depth)).unwrap();
        if let Decision::Reject(why) = mbac.request(at_ms(0), id(call), &spec).unwrap() {
            return (call, why.reason);
        }
    }
    unreachable!()
}

#[test]
fn buckets_add_up_to_the_bound_of_the_delay() {
    use Arithmetic::{Exact, Paper};
    // 20 tokens take 2 ms: eight of them are 16 ms in both arithmetics.
    assert_eq!(admitted(&mut jdsz(Paper), 20e3), (8, Reason::Delay));
    assert_eq!(admitted(&mut jdsz(Exact), 20e3), (8, Reason::Delay));
    // 16 times 1 ms is more than 16 ms in double precision.
    assert_eq!(admitted(&mut jdsz(Paper), 10e3), (15, Reason::Delay));
    assert_eq!(admitted(&mut jdsz(Exact), 10e3), (16, Reason::Delay));
    // A single bucket beyond the bound never fits.
    assert_eq!(admitted(&mut jdsz(Exact), 161e3), (0, Reason::Never));
}

#[test]
fn the_rate_is_tested_against_the_utilisation_target() {
    let mut mbac = jdsz(Arithmetic::Exact);
    // 158 times 60 kbit/s are 9.48 Mbit/s.
    assert_eq!(admitted(&mut mbac, 0.0), (158, Reason::Rate));
}

#[test]
fn a_measured_delay_above_the_estimate_counts_twice_and_the_window_gives_the_maximum() {
    let mut mbac = jdsz(Arithmetic::Exact);
    let delay = |mbac: &mut Mbac, ms| {
        let never = TSpec::peak(mbps(11)).unwrap();
        match mbac.request(at_ms(ms), id(99), &never).unwrap() {
            Decision::Reject(why) => why.delay.unwrap().as_ms(),
            Decision::Admit { .. } => unreachable!(),
        }
    };
    mbac.on_delay(at_ms(100), Span::from_ms(5));
    assert_eq!(delay(&mut mbac, 100), 10);
    mbac.on_delay(at_ms(200), Span::from_ms(7));
    assert_eq!(delay(&mut mbac, 200), 10);
    load(&mut mbac, 0, 10_000, mbps(1), 0);
    assert_eq!(delay(&mut mbac, 10_000), 7);
}

#[test]
fn a_rollback_gives_the_delay_back_too() {
    for arithmetic in [Arithmetic::Exact, Arithmetic::Paper] {
        let mut mbac = jdsz(arithmetic);
        let spec = TSpec::from_bits(64e3, Some(60e3), Some(80e3)).unwrap();
        for call in 0..2 {
            let decision = mbac.request(at_ms(0), id(call), &spec).unwrap();
            assert!(matches!(decision, Decision::Admit { .. }));
        }
        mbac.rollback(at_ms(0), id(0)).unwrap();
        let decision = mbac.request(at_ms(0), id(2), &spec).unwrap();
        assert!(matches!(decision, Decision::Admit { .. }), "{arithmetic:?}");
    }
}

fn averaged(rule: Rule) -> Mbac {
    controller(MbacConfig {
        rule,
        estimator: Estimator::Average(500),
        ..MbacConfig::new(LINK)
    })
}

#[test]
fn the_exponential_average_follows_the_samples() {
    let mut mbac = averaged(Rule::MeasuredSum { delay: None });
    load(&mut mbac, 0, 500, mbps(8), 0);
    assert_eq!(mbac.estimate(), mbps(4));
    load(&mut mbac, 500, 1_000, mbps(8), 0);
    assert_eq!(mbac.estimate(), mbps(6));
    assert_eq!(mbac.report().window, None);
}

#[test]
fn the_hoeffding_bound_grows_with_the_square_of_the_peaks() {
    let mut mbac = averaged(Rule::Hoeffding { exceed_ppm: 1_000 });
    let mut headroom = |call, rate: Rate| match mbac.request(at_ms(0), id(call), &peak(rate)) {
        Ok(Decision::Admit { headroom, .. }) => headroom.as_bps(),
        other => panic!("{other:?}"),
    };
    // sqrt(ln(1000)/2) = 1.858 times the root of the sum of squares.
    let one = headroom(1, mbps(1));
    assert!((one as f64 - (9e6 - 1.8585e6)).abs() < 1e3, "{one}");
    let two = headroom(2, mbps(1));
    assert!(
        (two as f64 - (8e6 - 1.8585e6 * 2f64.sqrt())).abs() < 1e3,
        "{two}"
    );
}

#[test]
fn the_tangent_weighs_the_estimate_with_the_exponential_of_the_peak() {
    let mut mbac = averaged(Rule::Tangent { space: 0.5 });
    let first = mbac.request(at_ms(0), id(1), &peak(mbps(4))).unwrap();
    // ln(10/4)/0.5 = 1.833 Mbit/s are left.
    let Decision::Admit { headroom, .. } = first else {
        panic!("{first:?}")
    };
    assert!((headroom.as_bps() as f64 - 1.8326e6).abs() < 1e3);
    let Decision::Reject(why) = mbac.request(at_ms(0), id(2), &peak(mbps(2))).unwrap() else {
        panic!()
    };
    assert_eq!(why.reason, Reason::Rate);
}
