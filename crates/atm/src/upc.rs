use layercast_core::Time;
use serde::Serialize;

use crate::{Cell, CellContract, CellContractError, CellFlags, Conformance, Gcra, Peak};

/// Which rate a cell exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Exceeded {
    /// The peak rate.
    Peak,
    /// The sustainable rate or its burst.
    Sustained,
}

/// What becomes of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// It passes as it is.
    Pass,
    /// It passes, but was marked as CLP = 1.
    Tagged,
    /// It is discarded.
    Discard(Exceeded),
}

/// What a policer has seen. The first five add up to the cells, the last three to the frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct UpcStats {
    /// Cells with CLP = 0 that passed so.
    pub passed_high: u64,
    /// Cells that came with CLP = 1 and passed.
    pub passed_low: u64,
    /// Cells that passed with CLP = 1 instead of 0.
    pub tagged: u64,
    /// Cells that exceeded the peak rate.
    pub discarded_peak: u64,
    /// Cells that exceeded the sustainable rate.
    pub discarded_sustained: u64,
    /// Frames all of whose cells passed.
    pub frames_intact: u64,
    /// Frames some of whose cells passed.
    pub frames_partial: u64,
    /// Frames none of whose cells passed.
    pub frames_none: u64,
}

/// Usage parameter control of one circuit: is it what the contract says (vbr-atm-lan.md 2.2)?
///
/// Both rates are tested at once, and a cell counts for a rate only if it passed and was judged by it.
#[derive(Debug)]
pub struct Upc {
    peak: Gcra,
    sustained: Option<(Gcra, Conformance)>,
    /// Of the frame that is passing.
    passed: bool,
    lost: bool,
    stats: UpcStats,
}

impl Upc {
    /// A policer for a contract of which nothing is used yet.
    pub fn new(contract: &CellContract) -> Result<Upc, CellContractError> {
        contract.validate()?;
        let Peak { period, tolerance } = contract.peak();
        let sustained = match *contract {
            CellContract::Cbr(_) | CellContract::Ubr(_) => None,
            CellContract::Vbr {
                sustained,
                conformance,
                ..
            } => {
                let gcra = Gcra::with_burst(sustained.period, sustained.burst, period);
                Some((gcra, conformance))
            }
        };
        Ok(Upc {
            peak: Gcra::new(period, tolerance),
            sustained,
            passed: false,
            lost: false,
            stats: UpcStats::default(),
        })
    }

    /// Judges a cell, and marks it if it is to be tagged.
    #[inline]
    pub fn police(&mut self, now: Time, cell: &mut Cell) -> Verdict {
        let low = cell.flags.has(CellFlags::LOW);
        let verdict = self.judge(now, low);
        let counter = match verdict {
            Verdict::Pass if low => &mut self.stats.passed_low,
            Verdict::Pass => &mut self.stats.passed_high,
            Verdict::Tagged => {
                cell.flags = cell.flags.with(CellFlags::LOW);
                &mut self.stats.tagged
            }
            Verdict::Discard(Exceeded::Peak) => &mut self.stats.discarded_peak,
            Verdict::Discard(Exceeded::Sustained) => &mut self.stats.discarded_sustained,
        };
        *counter += 1;
        let lost = matches!(verdict, Verdict::Discard(_));
        (self.passed, self.lost) = (self.passed | !lost, self.lost | lost);
        if cell.is_last() {
            match (self.passed, self.lost) {
                (true, false) => self.stats.frames_intact += 1,
                (true, true) => self.stats.frames_partial += 1,
                (false, _) => self.stats.frames_none += 1,
            }
            (self.passed, self.lost) = (false, false);
        }
        verdict
    }

    /// What it has seen.
    pub fn stats(&self) -> &UpcStats {
        &self.stats
    }

    fn judge(&mut self, now: Time, low: bool) -> Verdict {
        if !self.peak.peek(now) {
            return Verdict::Discard(Exceeded::Peak);
        }
        let verdict = match &mut self.sustained {
            None => Verdict::Pass,
            Some((_, Conformance::A | Conformance::B)) if low => Verdict::Pass,
            Some((sustained, conformance)) => match (sustained.offer(now), *conformance) {
                (true, _) => Verdict::Pass,
                (false, Conformance::B) => Verdict::Tagged,
                (false, _) => return Verdict::Discard(Exceeded::Sustained),
            },
        };
        self.peak.commit(now);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Span;
    use proptest::prelude::*;

    use super::*;
    use crate::{FrameId, Sustained, Vcid};

    fn contract(conformance: Conformance) -> CellContract {
        CellContract::Vbr {
            peak: Peak {
                period: Span::from_us(1),
                tolerance: Span::ZERO,
            },
            sustained: Sustained {
                period: Span::from_us(10),
                burst: 3,
            },
            conformance,
        }
    }

    fn upc(contract: CellContract) -> Upc {
        Upc::new(&contract).expect("a good contract")
    }

    fn cell(flags: CellFlags) -> Cell {
        let mut cell = Cell::of(FrameId(1), Vcid(1), 1, 9);
        cell.flags = cell.flags.with(flags);
        cell
    }

    /// Verdicts on six cells at the peak rate: with CLP = 0, 1, 0, 1, 0, 0.
    fn verdicts(conformance: Conformance) -> Vec<Verdict> {
        let mut upc = upc(contract(conformance));
        let lows = [false, true, false, true, false, false];
        let cells = lows.into_iter().enumerate().map(|(index, low)| {
            let mut cell = cell(if low {
                CellFlags::LOW
            } else {
                CellFlags::default()
            });
            let now = Time::ZERO + Span::from_us(index as u64);
            let verdict = upc.police(now, &mut cell);
            assert_eq!(
                cell.flags.has(CellFlags::LOW),
                low || verdict == Verdict::Tagged
            );
            verdict
        });
        cells.collect()
    }

    #[test]
    fn three_kinds_of_vbr() {
        use Verdict::{Discard, Pass, Tagged};
        let over = Discard(Exceeded::Sustained);
        // Bursts of three: C counts all cells, A and B only those with CLP = 0.
        assert_eq!(
            verdicts(Conformance::C),
            [Pass, Pass, Pass, over, over, over]
        );
        assert_eq!(
            verdicts(Conformance::A),
            [Pass, Pass, Pass, Pass, Pass, over]
        );
        assert_eq!(
            verdicts(Conformance::B),
            [Pass, Pass, Pass, Pass, Pass, Tagged]
        );
    }

    #[test]
    fn faster_than_the_peak_is_discarded_and_not_charged() {
        for contract in [
            CellContract::Cbr(contract(Conformance::C).peak()),
            CellContract::Ubr(contract(Conformance::C).peak()),
            contract(Conformance::B),
        ] {
            let mut upc = upc(contract);
            let at = |ns| Time::ZERO + Span::from_ns(ns);
            let mut police = |ns| upc.police(at(ns), &mut cell(CellFlags::default()));
            assert_eq!(police(0), Verdict::Pass);
            assert_eq!(police(999), Verdict::Discard(Exceeded::Peak));
            assert_eq!(police(1_000), Verdict::Pass);
            assert_eq!(upc.stats().discarded_peak, 1);
        }
    }

    #[test]
    fn frames_are_whole_in_part_or_gone() {
        let mut upc = upc(contract(Conformance::C));
        let mut now = Time::ZERO;
        for (frame, cells) in [(1, 2), (2, 2), (3, 2)] {
            for index in 0..cells {
                upc.police(now, &mut Cell::of(FrameId(frame), Vcid(1), index, cells));
                now += Span::from_us(1);
            }
        }
        let stats = upc.stats();
        assert_eq!(
            (stats.frames_intact, stats.frames_partial, stats.frames_none),
            (1, 1, 1)
        );
    }

    proptest! {
        #[test]
        fn a_cell_counts_only_for_the_rates_that_judged_and_passed_it(
            kind in prop::sample::select(vec![Conformance::A, Conformance::B, Conformance::C]),
            cells in prop::collection::vec((0u64..6_000, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut upc = upc(contract(kind));
            let mut now = Time::ZERO;
            let mut passed = Vec::new();
            let mut charged = Vec::new();
            for (gap, low, last) in &cells {
                now += Span::from_ns(*gap);
                let mut cell = cell(if *low { CellFlags::LOW } else { CellFlags::default() });
                if *last {
                    cell.flags = cell.flags.with(CellFlags::LAST);
                }
                match upc.police(now, &mut cell) {
                    Verdict::Pass => {
                        passed.push(now);
                        if !low || kind == Conformance::C {
                            charged.push(now);
                        }
                    }
                    Verdict::Tagged => passed.push(now),
                    Verdict::Discard(_) => {}
                }
            }
            // What was let through keeps each rate by itself.
            let mut peak = Gcra::new(Span::from_us(1), Span::ZERO);
            prop_assert!(passed.iter().all(|at| peak.offer(*at)));
            let mut sustained = Gcra::with_burst(Span::from_us(10), 3, Span::from_us(1));
            prop_assert!(charged.iter().all(|at| sustained.offer(*at)));
            let s = upc.stats();
            let seen = s.passed_high + s.passed_low + s.tagged + s.discarded_peak + s.discarded_sustained;
            prop_assert_eq!(seen, cells.len() as u64);
            let frames = cells.iter().filter(|(_, _, last)| *last).count() as u64;
            prop_assert_eq!(s.frames_intact + s.frames_partial + s.frames_none, frames);
        }
    }
}
