use layercast_core::{DataClass, Span, Time};
use serde::Serialize;
use thiserror::Error;

use crate::{Cell, CellContract, CellContractError, CellFlags, Conformance, Gcra, Peak};

/// What the sustainable rate is applied to (specs/vbr-atm-lan.md 2.8). For contracts that tag, "discarded" means
/// "tagged".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum FramePolicing {
    /// Each cell.
    #[default]
    Cells,
    /// Each cell up to the first discarded one; then the rest of its frame is discarded, except the last cell, which
    /// is tested again.
    Partial,
    /// Whole frames at their first cell, as if all had the maximum length and arrived at the peak rate.
    Early {
        /// Cells of the longest frame.
        longest: u32,
    },
    /// Whole frames by their first cell alone: F-GCRA of the guaranteed frame rate (ITU-T I.371.1).
    First,
}

/// What happens to a cell of a circuit with ExCLP that exceeds the sustainable rate (specs/mpeg-picture-quality.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExclpAction {
    /// It is discarded.
    Discard,
    /// It passes, one class nearer to discard; of the last class it is discarded.
    DemoteOne,
    /// It passes with CLP = 1, as on circuits without ExCLP. That makes class P of S, and class B of I.
    Tag {
        /// Whether that is really meant.
        allow: bool,
    },
}

/// Reason why a circuit with ExCLP is not policed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ExclpError {
    /// Tagging would change the meaning of the second bit.
    #[error(
        "tagging conflicts with ExCLP: CLP = 1 makes class P of headers and class B of I pictures; discard excess cells, \
         demote them by one class, or allow tagging"
    )]
    TaggingConflict,
    /// The contract is invalid.
    #[error(transparent)]
    Contract(#[from] CellContractError),
}

/// The rate that a cell exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Exceeded {
    /// The peak rate.
    Peak,
    /// The sustainable rate or its burst.
    Sustained,
}

/// Decision about a cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// It passes unchanged.
    Pass,
    /// It passes, tagged with CLP = 1.
    Tagged,
    /// It passes, one class nearer to discard.
    Demoted,
    /// It is discarded.
    Discard(Exceeded),
}

/// Counters of a policer. The first six add up to the cells, the next three to the frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct UpcStats {
    /// Cells that passed with CLP = 0.
    pub passed_high: u64,
    /// Cells that arrived with CLP = 1 and passed.
    pub passed_low: u64,
    /// Cells that were tagged and passed.
    pub tagged: u64,
    /// Cells that were demoted by one class and passed.
    pub demoted: u64,
    /// Cells that exceeded the peak rate.
    pub discarded_peak: u64,
    /// Cells that exceeded the sustainable rate.
    pub discarded_sustained: u64,
    /// Frames whose cells all passed.
    pub frames_intact: u64,
    /// Frames of which some cells passed.
    pub frames_partial: u64,
    /// Frames of which no cell passed.
    pub frames_none: u64,
    /// Frames discarded or tagged as a whole although all their cells conformed.
    pub frames_false: u64,
}

/// Usage parameter control: polices one circuit by its contract (specs/vbr-atm-lan.md 2.2).
///
/// Both rates are tested in parallel; a cell is accounted for in a rate only if it passed and was tested by it.
#[derive(Debug)]
pub struct Upc {
    peak: Gcra,
    sustained: Option<(Gcra, Conformance)>,
    policing: FramePolicing,
    /// Of a circuit with ExCLP.
    exclp: Option<ExclpAction>,
    frame: Frame,
    stats: UpcStats,
}

/// The frame in progress.
#[derive(Clone, Copy, Default, Debug)]
struct Frame {
    begun: bool,
    passed: bool,
    lost: bool,
    fate: Fate,
    /// State of cell-by-cell policing of a refused frame, as long as its cells conform.
    alone: Option<Gcra>,
}

/// Decision of the sustainable rate about the frame in progress.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Fate {
    /// No decision about later cells.
    #[default]
    Open,
    /// All its cells conform.
    Taken,
    /// None of its cells conforms.
    Refused,
    /// None of its remaining cells conforms, except possibly the last.
    Damaged,
}

impl Upc {
    /// Creates a policer that tests cell by cell, with idle buckets.
    pub fn new(contract: &CellContract) -> Result<Upc, CellContractError> {
        Upc::with_policing(contract, FramePolicing::Cells)
    }

    /// Creates a policer with idle buckets.
    pub fn with_policing(
        contract: &CellContract,
        policing: FramePolicing,
    ) -> Result<Upc, CellContractError> {
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
            policing,
            exclp: None,
            frame: Frame::default(),
            stats: UpcStats::default(),
        })
    }

    /// Creates a policer of a circuit with ExCLP. What happens to excess cells is `action`; the contract says to which cells
    /// the sustainable rate applies.
    ///
    /// # Errors
    /// The contract is invalid; it tags ([`Conformance::B`]), or `action` does, and that is not allowed.
    pub fn exclp(
        contract: &CellContract,
        policing: FramePolicing,
        action: ExclpAction,
    ) -> Result<Upc, ExclpError> {
        let is_b = matches!(
            contract,
            CellContract::Vbr {
                conformance: Conformance::B,
                ..
            }
        );
        match action {
            ExclpAction::Tag { allow: false } => return Err(ExclpError::TaggingConflict),
            ExclpAction::Tag { allow: true } => {}
            _ if is_b => return Err(ExclpError::TaggingConflict),
            _ => {}
        }
        Ok(Upc {
            exclp: Some(action),
            ..Upc::with_policing(contract, policing)?
        })
    }

    /// Polices a cell; tags it if the contract says so.
    #[inline]
    pub fn police(&mut self, now: Time, cell: &mut Cell) -> Verdict {
        let low = cell.flags.has(CellFlags::LOW);
        let verdict = self.judge(now, *cell);
        let counter = match verdict {
            Verdict::Pass if low => &mut self.stats.passed_low,
            Verdict::Pass => &mut self.stats.passed_high,
            Verdict::Tagged => {
                cell.flags = cell.flags.with(CellFlags::LOW);
                &mut self.stats.tagged
            }
            Verdict::Demoted => {
                *cell = cell.with_class(cell.class().demoted());
                &mut self.stats.demoted
            }
            Verdict::Discard(Exceeded::Peak) => &mut self.stats.discarded_peak,
            Verdict::Discard(Exceeded::Sustained) => &mut self.stats.discarded_sustained,
        };
        *counter += 1;
        let lost = matches!(verdict, Verdict::Discard(_));
        let frame = &mut self.frame;
        (frame.passed, frame.lost) = (frame.passed | !lost, frame.lost | lost);
        if cell.is_last() {
            match (frame.passed, frame.lost) {
                (true, false) => self.stats.frames_intact += 1,
                (true, true) => self.stats.frames_partial += 1,
                (false, _) => self.stats.frames_none += 1,
            }
            let refused = frame.fate == Fate::Refused;
            self.stats.frames_false += u64::from(refused && frame.alone.is_some());
            *frame = Frame::default();
        }
        verdict
    }

    /// Counters since the start.
    pub fn stats(&self) -> &UpcStats {
        &self.stats
    }

    fn judge(&mut self, now: Time, cell: Cell) -> Verdict {
        let (low, last) = (cell.is_low(), cell.is_last());
        if !self.peak.peek(now) {
            return Verdict::Discard(Exceeded::Peak);
        }
        let verdict = match &mut self.sustained {
            None => Verdict::Pass,
            Some((_, Conformance::A | Conformance::B)) if low => Verdict::Pass,
            Some((sustained, conformance)) => {
                let period = self.peak.period();
                let conforms = self
                    .frame
                    .conforms(now, sustained, period, self.policing, last);
                match (conforms, *conformance, self.exclp) {
                    (true, ..) => Verdict::Pass,
                    (false, _, Some(ExclpAction::Tag { .. })) => Verdict::Tagged,
                    (false, _, Some(ExclpAction::DemoteOne))
                        if cell.class() != DataClass::Bidirectional =>
                    {
                        Verdict::Demoted
                    }
                    (false, Conformance::B, None) => Verdict::Tagged,
                    (false, ..) => return Verdict::Discard(Exceeded::Sustained),
                }
            }
        };
        self.peak.commit(now);
        verdict
    }
}

impl Frame {
    /// Whether the next cell of the frame conforms to the sustainable rate; if so, it is accounted for.
    fn conforms(
        &mut self,
        now: Time,
        gcra: &mut Gcra,
        peak: Span,
        policing: FramePolicing,
        last: bool,
    ) -> bool {
        let first = !std::mem::replace(&mut self.begun, true);
        let fits = match policing {
            FramePolicing::Early { longest } if first => Some(gcra.peek_n(now, longest, peak)),
            FramePolicing::First if first => Some(gcra.peek(now)),
            _ => None,
        };
        match fits {
            // A frame of maximum length at the peak rate would conform, so each of these cells conforms as well.
            Some(true) if policing != FramePolicing::First => {}
            Some(true) => self.fate = Fate::Taken,
            Some(false) => (self.fate, self.alone) = (Fate::Refused, Some(*gcra)),
            None => {}
        }
        match self.fate {
            Fate::Taken => {
                gcra.commit(now);
                true
            }
            Fate::Refused => {
                let alone = self.alone.take();
                self.alone = alone.and_then(|mut gcra| gcra.offer(now).then_some(gcra));
                false
            }
            Fate::Damaged if !last => false,
            Fate::Open | Fate::Damaged => {
                let conforms = gcra.offer(now);
                if !conforms && policing == FramePolicing::Partial {
                    self.fate = Fate::Damaged;
                }
                conforms
            }
        }
    }
}

#[cfg(test)]
mod tests {
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

    /// Decisions about six cells at the peak rate, with CLP = 0, 1, 0, 1, 0, 0.
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
        // Bursts of three cells: C counts all cells, A and B only those with CLP = 0.
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
    fn frames_are_intact_partial_or_lost() {
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

    /// Decisions about frames of given lengths at the peak rate, each `gap` us after the end of the previous one; 1
    /// is a passed cell.
    fn fates(
        policing: FramePolicing,
        conformance: Conformance,
        frames: &[u32],
    ) -> (Vec<String>, UpcStats) {
        let mut upc =
            Upc::with_policing(&contract(conformance), policing).expect("a good contract");
        let mut now = Time::ZERO;
        let fates = frames.iter().zip(0..).map(|(&cells, frame)| {
            let fate = (0..cells).map(|index| {
                let mut cell = Cell::of(FrameId(frame), Vcid(1), index, cells);
                let verdict = upc.police(now, &mut cell);
                now += Span::from_us(1);
                match verdict {
                    Verdict::Pass => '1',
                    Verdict::Tagged => 't',
                    Verdict::Demoted => 'd',
                    Verdict::Discard(_) => '0',
                }
            });
            fate.collect()
        });
        let fates = fates.collect();
        (fates, *upc.stats())
    }

    #[test]
    fn frames_lose_cells_the_rest_or_all() {
        let longest = FramePolicing::Early { longest: 3 };
        // Bursts of three cells: nine more microseconds for each further cell.
        let frames = [2, 12, 2, 1];
        for (policing, expected, counts) in [
            (
                FramePolicing::Cells,
                ["11", "100000000010", "00", "0"],
                (1, 1, 2, 0),
            ),
            (
                FramePolicing::Partial,
                ["11", "100000000001", "00", "0"],
                (1, 1, 2, 0),
            ),
            (
                FramePolicing::First,
                ["11", "111111111111", "00", "0"],
                (2, 0, 2, 0),
            ),
            (longest, ["11", "000000000000", "00", "0"], (1, 0, 3, 2)),
        ] {
            let (fates, stats) = fates(policing, Conformance::C, &frames);
            assert_eq!(fates, expected, "{policing:?}");
            let seen = (
                stats.frames_intact,
                stats.frames_partial,
                stats.frames_none,
                stats.frames_false,
            );
            assert_eq!(seen, counts, "{policing:?}");
        }
        let (tagged, _) = fates(FramePolicing::First, Conformance::B, &[4, 3]);
        assert_eq!(tagged, ["1111", "ttt"]);
    }

    #[test]
    fn short_frames_are_refused_though_they_would_conform() {
        let early = FramePolicing::Early { longest: 3 };
        let (fates, stats) = fates(early, Conformance::C, &[1, 1, 1]);
        assert_eq!(fates, ["1", "0", "0"]);
        assert_eq!((stats.frames_none, stats.frames_false), (2, 2));
    }

    proptest! {
        #[test]
        fn whole_frames_pass_or_none_and_only_what_conforms_counts(
            frames in prop::collection::vec((1u32..6, 0u64..60), 1..60), first: bool,
        ) {
            let policing = if first { FramePolicing::First } else { FramePolicing::Early { longest: 5 } };
            let mut upc = Upc::with_policing(&contract(Conformance::C), policing).expect("a good contract");
            let mut plain = Gcra::with_burst(Span::from_us(10), 3, Span::from_us(1));
            let mut now = Time::ZERO;
            for (cells, gap) in frames {
                for index in 0..cells {
                    let mut cell = Cell::of(FrameId(1), Vcid(1), index, cells);
                    // A frame accepted at its first cell may exceed the contract by less than a frame.
                    if upc.police(now, &mut cell) == Verdict::Pass && !first {
                        prop_assert!(plain.offer(now));
                    }
                    now += Span::from_us(1);
                }
                now += Span::from_us(gap);
            }
            prop_assert_eq!(upc.stats().frames_partial, 0);
        }

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
                    Verdict::Tagged | Verdict::Demoted => passed.push(now),
                    Verdict::Discard(_) => {}
                }
            }
            // The passed cells conform to each rate separately.
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

    /// The classes that cells of all four classes have behind a policer that every cell exceeds; none if it is discarded.
    fn behind(action: ExclpAction, conformance: Conformance) -> [Option<char>; 4] {
        DataClass::ALL.map(|class| {
            let mut upc = Upc::exclp(&contract(conformance), FramePolicing::Cells, action)
                .expect("a good contract");
            let at = |us| Time::ZERO + Span::from_us(us);
            for us in 0..3 {
                upc.police(at(us), &mut cell(CellFlags::default()));
            }
            let mut excess = cell(CellFlags::default()).with_class(class);
            match upc.police(at(3), &mut excess) {
                Verdict::Discard(_) => None,
                _ => Some(excess.class().letter()),
            }
        })
    }

    #[test]
    fn excess_cells_with_exclp_are_discarded_demoted_or_tagged() {
        use ExclpAction::{DemoteOne, Discard, Tag};
        assert_eq!(behind(Discard, Conformance::C), [None; 4]);
        let demoted = [Some('I'), Some('P'), Some('B'), None];
        assert_eq!(behind(DemoteOne, Conformance::C), demoted);
        // The sustainable rate applies to CLP = 0 alone.
        let demoted = [Some('I'), Some('P'), Some('P'), Some('B')];
        assert_eq!(behind(DemoteOne, Conformance::A), demoted);
        // What the conflict is about: headers become P, I pictures B.
        let tagged = [Some('P'), Some('B'), Some('P'), Some('B')];
        assert_eq!(behind(Tag { allow: true }, Conformance::B), tagged);
    }

    #[test]
    fn tagging_is_refused_with_exclp() {
        let new = |conformance, action| {
            Upc::exclp(&contract(conformance), FramePolicing::Cells, action).map(|_| ())
        };
        let conflict = Err(ExclpError::TaggingConflict);
        let tag = ExclpAction::Tag { allow: false };
        for conformance in [Conformance::A, Conformance::B, Conformance::C] {
            assert_eq!(new(conformance, tag), conflict);
        }
        assert_eq!(new(Conformance::B, ExclpAction::Discard), conflict);
        assert_eq!(new(Conformance::B, ExclpAction::DemoteOne), conflict);
        assert_eq!(new(Conformance::C, ExclpAction::DemoteOne), Ok(()));
        assert_eq!(
            new(Conformance::B, ExclpAction::Tag { allow: true }),
            Ok(())
        );
    }
}
