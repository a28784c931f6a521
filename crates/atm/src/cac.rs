use layercast_core::{CellRate, Span};
use thiserror::Error;

use crate::{CellContract, CellContractError};

/// Admission criterion of a link for circuits with contracts of cell rates (specs/vbr-atm-lan.md 2.2).
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum Cac {
    /// None: every circuit is admitted.
    #[default]
    None,
    /// The sum of the peak rates.
    PeakRate,
    /// The equivalent capacity of Guerin, Ahmadi and Naghshineh (IEEE JSAC 9(7), 1991).
    EquivalentCapacity {
        /// Buffer of the link in cells.
        buffer: u32,
        /// Largest cell loss ratio, between 0 and 1.
        clr: f64,
    },
}

/// Reason why a circuit is refused.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
pub enum CacError {
    /// The contract is invalid.
    #[error(transparent)]
    Contract(#[from] CellContractError),
    /// The cell loss ratio is out of range.
    #[error("a cell loss ratio of {0} is not between 0 and 1")]
    LossRatio(f64),
    /// The capacity of the link is insufficient.
    #[error("the circuits need {needed}, the link carries {link}")]
    Full {
        /// Required rate including the new circuit, rounded up.
        needed: CellRate,
        /// Rate of the link, rounded down.
        link: CellRate,
    },
}

impl Cac {
    /// Checks that a link with transmission time `cell_time` can carry a circuit in addition to the circuits `held`.
    pub fn check<'a>(
        &self,
        cell_time: Span,
        held: impl IntoIterator<Item = &'a CellContract>,
        new: &'a CellContract,
    ) -> Result<(), CacError> {
        new.validate()?;
        let contracts = held.into_iter().chain([new]);
        let needed = match *self {
            Cac::None => return Ok(()),
            Cac::PeakRate => contracts.filter_map(source).map(|source| source.peak).sum(),
            Cac::EquivalentCapacity { buffer, clr } => {
                if !(clr > 0.0 && clr < 1.0) {
                    return Err(CacError::LossRatio(clr));
                }
                equivalent_capacity(contracts.filter_map(source), f64::from(buffer), clr)
            }
        };
        let link = per_second(cell_time);
        // The rounding tolerance makes three thirds fit.
        if needed <= link * (1.0 + 1e-12) {
            return Ok(());
        }
        Err(CacError::Full {
            needed: CellRate(needed.ceil() as u32),
            link: CellRate(link as u32),
        })
    }
}

/// An on-off source; rates in cells per second.
#[derive(Clone, Copy, Debug)]
struct Source {
    peak: f64,
    mean: f64,
    /// Length of a burst in cells.
    burst: f64,
}

fn per_second(period: Span) -> f64 {
    1e12 / period.as_ps() as f64
}

/// The worst-case source of a contract; nothing is reserved for unspecified rates.
fn source(contract: &CellContract) -> Option<Source> {
    let peak = per_second(contract.peak().period);
    match contract {
        CellContract::Ubr(_) => None,
        CellContract::Cbr(_) => Some(Source {
            peak,
            mean: peak,
            burst: 1.0,
        }),
        CellContract::Vbr { sustained, .. } => Some(Source {
            peak,
            mean: per_second(sustained.period),
            burst: f64::from(sustained.burst),
        }),
    }
}

/// The capacity for all sources: the lesser of the sum of their equivalent capacities (effect of the buffer) and the
/// normal approximation of their sum (effect of multiplexing).
fn equivalent_capacity(sources: impl Iterator<Item = Source>, buffer: f64, clr: f64) -> f64 {
    let loss = -libm::log(clr);
    let (mut alone, mut mean, mut variance) = (0.0, 0.0, 0.0);
    for source in sources {
        alone += own_capacity(&source, buffer, loss);
        mean += source.mean;
        variance += source.mean * (source.peak - source.mean);
    }
    let quantile = (2.0 * loss - libm::log(2.0 * std::f64::consts::PI))
        .max(0.0)
        .sqrt();
    let together = mean + quantile * variance.sqrt();
    if together < alone { together } else { alone }
}

/// The rate at which a single source overflows the buffer with probability `exp(-loss)`, Eq (2) of the paper.
fn own_capacity(source: &Source, buffer: f64, loss: f64) -> f64 {
    let Source { peak, mean, burst } = *source;
    let utilisation = mean / peak;
    let y = loss * burst * (1.0 - utilisation);
    if y <= 0.0 {
        return peak;
    }
    let excess = y - buffer;
    let root = (excess * excess + 4.0 * buffer * utilisation * y).sqrt();
    peak * (excess + root) / (2.0 * y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Conformance, Peak, Sustained};

    const T155: Span = Span::from_ps(2_726_337);

    fn peak(period: Span) -> Peak {
        Peak {
            period,
            tolerance: Span::ZERO,
        }
    }

    fn vbr(burst: u32) -> CellContract {
        CellContract::Vbr {
            peak: peak(T155.times(10)),
            sustained: Sustained {
                period: T155.times(100),
                burst,
            },
            conformance: Conformance::C,
        }
    }

    /// Number of circuits of one kind that a link admits, up to 200, and the refusal.
    fn fill(cac: Cac, contract: &CellContract) -> (usize, Option<CacError>) {
        let mut held = Vec::new();
        while held.len() < 200 {
            match cac.check(T155, &held, contract) {
                Ok(()) => held.push(*contract),
                Err(error) => return (held.len(), Some(error)),
            }
        }
        (200, None)
    }

    #[test]
    fn peaks_fill_the_link_exactly() {
        let (count, error) = fill(Cac::PeakRate, &vbr(100));
        assert_eq!(count, 10);
        assert!(
            matches!(
                error,
                Some(CacError::Full {
                    link: CellRate(366_792),
                    ..
                })
            ),
            "{error:?}"
        );
        let third = CellContract::Cbr(peak(T155.times(3)));
        assert_eq!(fill(Cac::PeakRate, &third).0, 3);
    }

    #[test]
    fn nothing_is_reserved_for_unspecified_rates_or_by_none() {
        let ubr = CellContract::Ubr(peak(T155));
        assert_eq!(fill(Cac::PeakRate, &ubr).0, 200);
        assert_eq!(fill(Cac::None, &vbr(100)).0, 200);
    }

    #[test]
    fn a_buffer_and_a_crowd_let_more_in() {
        let equivalent = |buffer, burst| {
            let cac = Cac::EquivalentCapacity { buffer, clr: 1e-6 };
            fill(cac, &vbr(burst)).0
        };
        let mean_only = 100;
        let counts = [
            equivalent(10, 1_000),
            equivalent(10_000, 1_000),
            equivalent(10_000, 10),
        ];
        assert!(
            counts[0] > 10,
            "{counts:?}: more than by peaks, by the normal approximation"
        );
        assert!(counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
        assert!(counts[2] <= mean_only, "{counts:?}");
    }

    #[test]
    fn its_own_capacity_solves_the_equation_it_comes_from() {
        let loss = -libm::log(1e-6);
        for (burst, buffer) in [(10.0, 100.0), (1_000.0, 100.0), (50.0, 5_000.0)] {
            let source = Source {
                peak: 1_000.0,
                mean: 200.0,
                burst,
            };
            let c = own_capacity(&source, buffer, loss);
            assert!(source.mean < c && c < source.peak);
            // ln(clr) = -x (c - m) / (b (1 - rho) (R - c) c), with a burst of b R cells.
            let time = burst / source.peak;
            let exponent = buffer * (c - 200.0) / (time * 0.8 * (1_000.0 - c) * c);
            assert!((exponent / loss - 1.0).abs() < 1e-9, "{exponent} {loss}");
        }
        let smooth = Source {
            peak: 5.0,
            mean: 5.0,
            burst: 1.0,
        };
        assert_eq!(own_capacity(&smooth, 100.0, loss), 5.0);
    }

    #[test]
    fn nonsense_is_refused_as_such() {
        for clr in [0.0, 1.0, -1.0, f64::NAN] {
            let cac = Cac::EquivalentCapacity { buffer: 1, clr };
            assert!(matches!(
                cac.check(T155, [], &vbr(1)),
                Err(CacError::LossRatio(_))
            ));
        }
        let none = CellContract::Cbr(peak(Span::ZERO));
        assert!(matches!(
            Cac::PeakRate.check(T155, [], &none),
            Err(CacError::Contract(_))
        ));
    }
}
