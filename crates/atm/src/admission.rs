use layercast_core::Span;
use thiserror::Error;

use crate::level::{LEVEL_CELLS, LEVELS, level_bound};
use crate::{Class, Contract, ContractError, TrafficSpec};

/// The whole link, in the unit of [`Reservation::share`].
const LINK: u128 = 1 << 64;

/// Admission to delay levels on one output link: the deterministic test of Zhang and Ferrari (1993) for
/// rate-controlled static priority, in cells (specs/insane-study.md 2.3).
///
/// A circuit is admitted if two conditions hold. For its level and each level below, the cells of that level and
/// above that may arrive within the level's bound, plus one cell of a lower class in transmission, can be sent within
/// the bound. The mean rates together do not exceed the link.
#[derive(Debug)]
pub struct Admission {
    cell_time: Span,
    /// For each level, the cells that circuits of this level and above may send within its bound.
    cells: [u64; LEVELS],
    share: u128,
    circuits: u32,
}

/// Resources of an admitted circuit, held until [`Admission::release`].
#[derive(PartialEq, Eq, Debug)]
#[must_use = "it must be released with its circuit"]
pub struct Reservation {
    level: u8,
    cells: [u64; LEVELS],
    /// Its mean rate as a fraction of the link, rounded down so that three thirds do not exceed the link.
    share: u128,
}

impl Reservation {
    /// The class of the circuit's cells.
    pub fn class(&self) -> Class {
        Class::Level(self.level)
    }
}

/// Reason why a circuit is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum AdmissionError {
    /// The contract contradicts itself.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The peak rate exceeds the link.
    #[error("x_min {x_min} is below the transmission time of a cell on this link, {cell_time}")]
    Peak {
        /// Least time between cells of the contract.
        x_min: Span,
        /// Transmission time of a cell.
        cell_time: Span,
    },
    /// No level has such a short bound.
    #[error("no delay level has a bound of at most {asked}; the shortest is {least}")]
    Delay {
        /// Requested bound.
        asked: Span,
        /// Bound of level 0.
        least: Span,
    },
    /// Too many cells may arrive within the bound of a level.
    #[error("level {level}: {cells} cells may arrive within its bound of {limit} cell times")]
    Level {
        /// The level whose test failed: that of the circuit or one below.
        level: u8,
        /// Cells including the new circuit, and the cell of lower class.
        cells: u64,
        /// Bound in cell times.
        limit: u64,
    },
    /// The mean rates exceed the link.
    #[error("the mean rates would be {needed_ppm} millionths of the link, more than it has")]
    Rate {
        /// Mean rates including the new circuit, in millionths of the link, rounded up.
        needed_ppm: u64,
    },
}

impl Admission {
    /// Creates the admission test of an unused link with this transmission time of a cell.
    pub fn new(cell_time: Span) -> Admission {
        Admission {
            cell_time,
            cells: [0; LEVELS],
            share: 0,
            circuits: 0,
        }
    }

    /// The level for a bound: the one with the longest scheduler bound that does not exceed it. The scheduler bound
    /// excludes the regulator; only so does Table 4-6 of the thesis follow from Table 4-5.
    pub fn level_for(&self, delay: Span) -> Option<u8> {
        let levels = (0..LEVELS as u8).rev();
        levels
            .into_iter()
            .find(|level| level_bound(*level, self.cell_time) <= delay)
    }

    /// Admits a circuit and reserves its resources; a refusal changes nothing.
    pub fn admit(&mut self, contract: &Contract) -> Result<Reservation, AdmissionError> {
        let Contract { traffic, delay } = contract;
        traffic.validate()?;
        let cell_time = self.cell_time;
        if traffic.x_min < cell_time {
            let x_min = traffic.x_min;
            return Err(AdmissionError::Peak { x_min, cell_time });
        }
        let level = self.level_for(*delay).ok_or(AdmissionError::Delay {
            asked: *delay,
            least: level_bound(0, cell_time),
        })?;
        let mut cells = [0; LEVELS];
        for below in level..LEVELS as u8 {
            let index = usize::from(below);
            cells[index] = most_cells(traffic, level_bound(below, cell_time));
            let sum = self.cells[index]
                .saturating_add(cells[index])
                .saturating_add(1);
            let limit = LEVEL_CELLS[index];
            if sum > limit {
                return Err(AdmissionError::Level {
                    level: below,
                    cells: sum,
                    limit,
                });
            }
        }
        let share = LINK * u128::from(cell_time.as_ps()) / u128::from(traffic.x_ave.as_ps());
        if self.share + share > LINK {
            let needed_ppm = ((self.share + share) * 1_000_000).div_ceil(LINK) as u64;
            return Err(AdmissionError::Rate { needed_ppm });
        }
        for (sum, cells) in self.cells.iter_mut().zip(cells) {
            *sum += cells;
        }
        self.share += share;
        self.circuits += 1;
        Ok(Reservation {
            level,
            cells,
            share,
        })
    }

    /// Releases a reservation of this link.
    pub fn release(&mut self, reservation: Reservation) {
        for (sum, cells) in self.cells.iter_mut().zip(reservation.cells) {
            *sum = sum.saturating_sub(cells);
        }
        self.share = self.share.saturating_sub(reservation.share);
        self.circuits = self.circuits.saturating_sub(1);
    }

    /// Number of admitted circuits.
    pub fn circuits(&self) -> u32 {
        self.circuits
    }
}

/// Largest number of cells that become eligible within a half-open interval of this length.
///
/// At most `n` arrive in each averaging interval. The study's `min(ceil(D / X_min), n)` is the case of an averaging
/// interval that is at least as long as the bound.
fn most_cells(traffic: &TrafficSpec, length: Span) -> u64 {
    let x_min = traffic.x_min.as_ps();
    let per_interval = traffic.cells_per_interval();
    let (length, interval) = (length.as_ps(), traffic.interval.as_ps());
    let rest = (length % interval).div_ceil(x_min).min(per_interval);
    let by_mean = (length / interval)
        .saturating_mul(per_interval)
        .saturating_add(rest);
    length.div_ceil(x_min).min(by_mean)
}

#[cfg(test)]
mod tests {
    use layercast_core::Rate;

    use super::*;
    use crate::policy::ConversationType::{self, *};

    fn us(us: u64) -> Span {
        Span::from_us(us)
    }

    fn t1() -> Admission {
        Admission::new(Rate::from_bps(1_536_000).time_for(53))
    }

    fn contract(d: u64, x_min: u64, x_ave: u64, interval: u64) -> Contract {
        Contract {
            traffic: TrafficSpec {
                x_min: us(x_min),
                x_ave: us(x_ave),
                interval: us(interval),
            },
            delay: us(d),
        }
    }

    /// Circuits of one kind on a T1 (specs/insane-study.md 2.3): level, circuits, circuits by mean rate alone.
    const CAPACITY: [(ConversationType, u8, usize, u64); 10] = [
        (TelnetUp, 1, 31, 181),
        (TelnetDown, 1, 31, 72),
        (FtpCtlUp, 2, 63, 1_811),
        (FtpCtlDown, 2, 63, 1_811),
        (FtpDataUp, 3, 127, 362),
        (FtpDataDown, 3, 63, 72),
        (HttpUp, 3, 127, 362),
        (HttpDown, 3, 14, 28),
        (Audio, 2, 12, 18),
        (Video, 3, 9, 12),
    ];

    fn kind(kind: ConversationType) -> Contract {
        kind.contract().expect("it has a contract")
    }

    #[test]
    fn a_t1_has_the_capacity_of_the_study() {
        for (name, level, most, by_rate) in CAPACITY {
            let contract = kind(name);
            let mut admission = t1();
            let mut held = Vec::new();
            let refused = loop {
                match admission.admit(&contract) {
                    Ok(reservation) => held.push(reservation),
                    Err(error) => break error,
                }
            };
            assert_eq!(held.len(), most, "{name}");
            assert_eq!(held[0].class(), Class::Level(level), "{name}");
            assert!(matches!(refused, AdmissionError::Level { .. }), "{name}");
            let cell = admission.cell_time.as_ps();
            assert_eq!(contract.traffic.x_ave.as_ps() / cell, by_rate, "{name}");
            // Released resources can be reserved again, and nothing is left behind.
            held.drain(..).for_each(|held| admission.release(held));
            assert_eq!((admission.cells, admission.share), ([0; LEVELS], 0));
            assert_eq!(admission.circuits(), 0);
        }
    }

    #[test]
    fn a_refusal_names_level_sum_and_limit_and_changes_nothing() {
        let mut admission = t1();
        let http_down = kind(HttpDown);
        let held: Vec<_> = (0..14).map(|_| admission.admit(&http_down)).collect();
        let error = AdmissionError::Level {
            level: 3,
            cells: 136,
            limit: 128,
        };
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(admission.admit(&http_down), Err(error));
        assert_eq!(
            error.to_string(),
            "level 3: 136 cells may arrive within its bound of 128 cell times"
        );
        // One cell of the bound is left; a telnet connection needs two at this level.
        let telnet = kind(TelnetUp);
        assert!(matches!(
            admission.admit(&telnet),
            Err(AdmissionError::Level {
                level: 3,
                cells: 129,
                ..
            })
        ));
        assert!(admission.admit(&kind(FtpDataUp)).is_ok());
    }

    #[test]
    fn a_bound_between_two_levels_gets_the_tighter_one() {
        let admission = t1();
        let level = |ps| admission.level_for(Span::from_ps(ps));
        let bound = 276_041_666 * 32;
        assert_eq!(level(bound), Some(1));
        assert_eq!(level(bound - 1), Some(0));
        assert_eq!(level(u64::MAX), Some(3));
        assert_eq!(admission.level_for(us(4_400)), None);
    }

    #[test]
    fn impossible_contracts_are_refused_with_the_cause() {
        let mut admission = t1();
        let mut refusal = |contract| admission.admit(&contract).unwrap_err();
        assert!(matches!(
            refusal(contract(4_000, 20_000, 20_000, 20_000)),
            AdmissionError::Delay { .. }
        ));
        assert!(matches!(
            refusal(contract(9_000, 200, 20_000, 20_000)),
            AdmissionError::Peak { .. }
        ));
        assert!(matches!(
            refusal(contract(9_000, 0, 20_000, 20_000)),
            AdmissionError::Contract(_)
        ));
        assert_eq!(admission.circuits(), 0);
    }

    #[test]
    fn mean_rates_together_do_not_exceed_the_link() {
        // A third has no finite binary fraction: three of them still do not exceed the link.
        let mut full = Admission::new(us(1));
        full.share = 2 * (LINK / 3);
        assert!(full.admit(&contract(1_000, 3, 3, 3)).is_ok());
        full.share += 1;
        let tiny = full.admit(&contract(1_000, 1_000, 1_000, 1_000));
        assert_eq!(
            tiny,
            Err(AdmissionError::Rate {
                needed_ppm: 1_001_000
            })
        );
    }

    #[test]
    fn a_short_averaging_interval_limits_arrivals_within_a_bound() {
        // Two cells 1 ms apart, then none until 10 ms after the first: 35.3 ms see 4 such pairs.
        let traffic = contract(0, 1_000, 5_000, 10_000).traffic;
        assert_eq!(most_cells(&traffic, us(35_300)), 8);
        assert_eq!(most_cells(&traffic, us(30_500)), 7);
        assert_eq!(most_cells(&traffic, us(1_500)), 2);
    }
}
