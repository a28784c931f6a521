//! How far what is measured deviates from what was negotiated (specs/user-to-user-qos.md 2.4).

use layercast_core::Parameter;
use serde::{Deserialize, Serialize};

/// Which deviations count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Those that harm: less throughput, more of all else.
    #[default]
    Adverse,
    /// Those to either side, as the paper says it.
    Literal,
}

impl Comparison {
    /// How far `measured` deviates from `agreed`, as a share of it; infinite against 0.
    pub fn deviation(self, parameter: Parameter, agreed: f64, measured: f64) -> f64 {
        let harm = match parameter {
            Parameter::Throughput => agreed - measured,
            _ => measured - agreed,
        };
        let harm = match self {
            Comparison::Adverse => harm.max(0.0),
            Comparison::Literal => harm.abs(),
        };
        match (harm > 0.0, agreed > 0.0) {
            (false, _) => 0.0,
            (true, true) => harm / agreed,
            (true, false) => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Zone;

    use super::*;

    #[test]
    fn limits_are_yellow() {
        let zone = |share: f64| {
            let measured = 1_000_000.0 * share;
            Zone::of(Comparison::Adverse.deviation(Parameter::Throughput, 1e6, measured))
        };
        let shares = [1.2, 1.0, 0.96, 0.95, 0.90, 0.85, 0.84, 0.0];
        let (green, yellow, red) = (Zone::Green, Zone::Yellow, Zone::Red);
        assert_eq!(
            shares.map(zone),
            [green, green, green, yellow, yellow, yellow, red, red]
        );
        let delay =
            |ms: f64| Zone::of(Comparison::Adverse.deviation(Parameter::Delay, 0.1, ms / 1e3));
        assert_eq!(
            [50.0, 104.0, 105.0, 115.0, 116.0].map(delay),
            [green, green, yellow, yellow, red]
        );
    }

    #[test]
    fn literal_counts_both_sides_and_zero_permits_nothing() {
        let of = |mode: Comparison, agreed, measured| {
            mode.deviation(Parameter::Throughput, agreed, measured)
        };
        assert_eq!(of(Comparison::Literal, 100.0, 120.0), 0.2);
        assert_eq!(of(Comparison::Adverse, 100.0, 120.0), 0.0);
        let errors = |measured| Comparison::Adverse.deviation(Parameter::ErrorRate, 0.0, measured);
        assert_eq!(Zone::of(errors(0.0)), Zone::Green);
        assert_eq!(Zone::of(errors(1e-12)), Zone::Red);
    }
}
