//! Declarations, and equation 3.

use layercast_admission::study::Policing;
use layercast_admission::{OnOff, TSpec, TSpecError};
use layercast_core::{Rate, Span};

const VOICE: OnOff = OnOff {
    peak: Rate::from_bps(64_000),
    on: Span::from_us(312_500),
    off: Span::from_us(312_500),
};

#[test]
fn equation_3_gives_the_descriptors_of_the_paper() {
    for (tokens, rate) in [(1.0, 63.63), (4.0, 62.73), (10.0, 61.14), (20.0, 58.80)] {
        let found = VOICE.token_rate(tokens * 1e3, 1e-6) / 1e3;
        assert!((found - rate).abs() <= 0.01, "{tokens} tokens: {found}");
        let depth = VOICE.depth(found * 1e3, 1e-6) / 1e3;
        assert!((depth - tokens).abs() < 1e-6, "{depth}");
    }
}

#[test]
fn a_policed_source_loses_what_the_formula_says() {
    for (depth, rate) in [(2e3, 62e3), (4e3, 58e3), (10e3, 50e3), (20e3, 45e3)] {
        let policing = Policing {
            peak_bps: 64e3,
            on_s: 0.3125,
            off_s: 0.3125,
            rate_bps: rate,
            depth,
            bursts: 1_000_000,
            seed: 1,
        };
        let (seen, expected) = (policing.run().unwrap(), VOICE.loss(rate, depth));
        assert!(
            (seen / expected - 1.0).abs() < 0.02,
            "{rate}: {seen} beside {expected}"
        );
    }
}

#[test]
fn the_bucket_of_a_critical_source_has_a_finite_depth() {
    // Times ON and OFF at which z is 0 for a token rate of 48 kbit/s: alpha/16 = beta/48.
    let source = OnOff {
        peak: Rate::from_bps(64_000),
        on: Span::from_ms(900),
        off: Span::from_ms(300),
    };
    let depth = source.depth(48e3, 1e-2);
    let limit = 16e3 * 0.9 * (0.25 / 1e-2 - 1.0);
    assert!((depth / limit - 1.0).abs() < 1e-6, "{depth} beside {limit}");
    assert!((source.loss(48e3, depth) / 1e-2 - 1.0).abs() < 1e-6);
}

#[test]
fn a_deep_bucket_needs_the_mean_rate() {
    let mean = VOICE.token_rate(1e12, 1e-3);
    assert_eq!(mean, VOICE.mean());
    assert_eq!(mean, 32e3);
}

#[test]
fn declarations_without_a_meaning_are_refused_by_name() {
    use TSpecError::{Depth, Peak, TokenRate};
    type Case = (f64, Option<f64>, Option<f64>);
    type Expected = fn(&TSpecError) -> bool;
    let refused: [(Case, Expected); 9] = [
        ((0.0, None, None), |e| matches!(e, Peak(_))),
        ((-1.0, None, None), |e| matches!(e, Peak(_))),
        ((f64::NAN, None, None), |e| matches!(e, Peak(_))),
        ((f64::INFINITY, None, None), |e| matches!(e, Peak(_))),
        ((64e3, Some(65e3), None), |e| matches!(e, TokenRate(_))),
        ((64e3, Some(0.0), None), |e| matches!(e, TokenRate(_))),
        ((64e3, Some(f64::NAN), None), |e| matches!(e, TokenRate(_))),
        ((64e3, None, Some(-1.0)), |e| matches!(e, Depth(_))),
        ((64e3, None, Some(f64::NAN)), |e| matches!(e, Depth(_))),
    ];
    for ((peak, rate, depth), expected) in refused {
        let error = TSpec::from_bits(peak, rate, depth).unwrap_err();
        assert!(expected(&error), "{peak} {rate:?} {depth:?}: {error}");
    }
    assert!(TSpec::peak(Rate::default()).is_err());
    let good = TSpec::from_bits(64e3, Some(62.8e3), Some(4e3)).unwrap();
    assert_eq!(good.token_rate(), Rate::from_bps(62_800));
    assert_eq!(
        (good.peak_rate(), good.depth()),
        (Rate::from_bps(64_000), 4_000)
    );
}
