use layercast_core::{Span, Time};
use serde::Serialize;

use crate::{Cell, FrameId, Run, Vcid};

/// Result of a cell at the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The frame is incomplete.
    More,
    /// It was the last cell of a complete frame.
    Complete(FrameId),
    /// It was a last cell, but length or CRC are wrong: all collected cells are discarded.
    Damaged {
        /// Cells discarded, including this one.
        cells: u32,
        /// Number of frames that they belonged to.
        frames: u32,
    },
}

/// Counters of a receiver; always cells = delivered + discarded + held.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ReassemblyStats {
    /// Cells received.
    pub cells: u64,
    /// Cells of complete frames.
    pub delivered: u64,
    /// Cells of damaged frames, or of circuits closed within a frame.
    pub discarded: u64,
    /// Cells of incomplete frames.
    pub held: u64,
    /// Frames delivered.
    pub complete: u64,
    /// Last cells of damaged frames.
    pub damaged: u64,
    /// Incomplete frames discarded by the reassembly timer.
    pub expired: u64,
}

/// Cells received on a circuit since the last end of frame.
#[derive(Clone, Copy, Default, Debug)]
struct Partial {
    cells: u32,
    /// Number of frames that the cells belong to; more than one after the loss of a last cell.
    frames: u32,
    /// Identification of the last of these frames.
    frame: Option<u64>,
    /// Arrival of its last cell.
    at: Time,
}

/// The receiving side of an AAL5-like adaptation layer (specs/insane-simulator.md 2.4): a frame is delivered if
/// exactly its cells arrived between two last cells. So a lost last cell destroys the next frame as well, unless a
/// reassembly timer discards the incomplete frame first.
#[derive(Default, Debug)]
pub struct Reassembler {
    circuits: Vec<Partial>,
    /// Longest gap between cells of a frame.
    timer: Option<Span>,
    stats: ReassemblyStats,
}

impl Reassembler {
    /// Creates a receiver; circuits begin with their first cell. Without a timer incomplete frames are kept; with one
    /// (the RAS timer, an option of I.363) they are discarded after a longer gap.
    pub fn new(timer: Option<Span>) -> Reassembler {
        Reassembler {
            timer,
            ..Reassembler::default()
        }
    }

    /// Processes the next cell of its circuit; `cells_of` returns the number of cells of a frame.
    ///
    /// The cells of a circuit arrive in order, each at most once.
    #[inline]
    pub fn push(&mut self, cell: Cell, cells_of: impl Fn(FrameId) -> u32) -> Outcome {
        let run = Run::of(cell, Time::ZERO);
        self.push_run(&run, u64::from(cell.frame.0), cells_of(cell.frame))
    }

    /// Processes the next cells of a circuit, all of one frame of `cells_of` cells. `tells` identifies this frame
    /// uniquely, even if its number is reused.
    #[inline]
    pub fn push_run(&mut self, run: &Run, tells: u64, cells_of: u32) -> Outcome {
        let index = usize::from(run.vc.0);
        if self.circuits.len() <= index {
            self.circuits.resize(index + 1, Partial::default());
        }
        if let Some(timer) = self.timer {
            if run.count > 1 && run.gap > timer {
                let cells = run.cells();
                let outcomes = cells.map(|cell| self.push_run(&cell, tells, cells_of));
                return outcomes.last().unwrap_or(Outcome::More);
            }
            self.expire(index, run, timer);
        }
        let partial = &mut self.circuits[index];
        partial.cells = partial.cells.saturating_add(run.count);
        if partial.frame != Some(tells) {
            partial.frame = Some(tells);
            partial.frames = partial.frames.saturating_add(1);
        }
        self.stats.cells += u64::from(run.count);
        self.stats.held += u64::from(run.count);
        if !run.is_last() {
            return Outcome::More;
        }
        let Partial { cells, frames, .. } = std::mem::take(partial);
        self.stats.held -= u64::from(cells);
        if frames == 1 && cells == cells_of {
            self.stats.delivered += u64::from(cells);
            self.stats.complete += 1;
            Outcome::Complete(run.frame)
        } else {
            self.stats.discarded += u64::from(cells);
            self.stats.damaged += 1;
            Outcome::Damaged { cells, frames }
        }
    }

    /// Discards an incomplete frame whose timer had expired when the first of these cells arrived.
    fn expire(&mut self, index: usize, run: &Run, timer: Span) {
        let partial = &mut self.circuits[index];
        if partial.cells > 0 && run.at.since(partial.at) > timer {
            let Partial { cells, .. } = std::mem::take(partial);
            self.stats.held -= u64::from(cells);
            self.stats.discarded += u64::from(cells);
            self.stats.expired += 1;
        }
        partial.at = run.last_at();
    }

    /// Closes a circuit: discards its incomplete frame and returns the number of cells.
    pub fn forget(&mut self, vc: Vcid) -> u32 {
        let circuit = self.circuits.get_mut(usize::from(vc.0));
        let cells = circuit.map_or(0, |partial| std::mem::take(partial).cells);
        self.stats.held -= u64::from(cells);
        self.stats.discarded += u64::from(cells);
        cells
    }

    /// Counters since the start.
    pub fn stats(&self) -> &ReassemblyStats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CellFlags;

    const VC: Vcid = Vcid(3);

    fn cells_of(sizes: &[u32]) -> Vec<Cell> {
        let frames = sizes.iter().zip(0..);
        let cells = frames.flat_map(|(size, frame)| {
            (0..*size).map(move |index| Cell::of(FrameId(frame), VC, index, *size))
        });
        cells.collect()
    }

    /// Frames delivered by an adaptation layer with a perfect CRC, from the cells between last cells.
    fn oracle(sent: &[Cell], arrived: &[Cell]) -> Vec<FrameId> {
        let between = arrived.split_inclusive(|cell| cell.is_last());
        let whole = between.filter(|cells| {
            let frame = cells[cells.len() - 1].frame;
            let all: Vec<_> = sent.iter().filter(|cell| cell.frame == frame).collect();
            cells[cells.len() - 1].is_last() && all.into_iter().eq(cells.iter())
        });
        whole.map(|cells| cells[0].frame).collect()
    }

    #[test]
    fn every_loss_in_three_frames_is_judged_as_by_an_oracle() {
        let mut damaged_by_its_predecessor = 0;
        for sizes in (0..27).map(|n| [n % 3 + 1, n / 3 % 3 + 1, n / 9 + 1]) {
            let sent = cells_of(&sizes);
            for pattern in 0..1_u32 << sent.len() {
                let kept = (0..sent.len()).filter(|bit| pattern >> bit & 1 == 1);
                let arrived: Vec<_> = kept.map(|index| sent[index]).collect();
                let mut reassembler = Reassembler::new(None);
                let size = |frame: FrameId| sizes[frame.0 as usize];
                let mut delivered = Vec::new();
                for cell in &arrived {
                    match reassembler.push(*cell, size) {
                        Outcome::Complete(frame) => delivered.push(frame),
                        Outcome::Damaged { cells, frames } => {
                            assert!(cells >= 1 && frames <= 3);
                            let whole = |cell: &&Cell| sent.contains(cell);
                            let of_it = arrived.iter().filter(|other| other.frame == cell.frame);
                            let all = of_it.filter(whole).count() as u32 == size(cell.frame);
                            damaged_by_its_predecessor += u32::from(all);
                        }
                        Outcome::More => {}
                    }
                }
                assert_eq!(delivered, oracle(&sent, &arrived), "{sizes:?} {pattern:b}");
                let stats = *reassembler.stats();
                assert_eq!(stats.cells, arrived.len() as u64);
                assert_eq!(stats.cells, stats.delivered + stats.discarded + stats.held);
                assert_eq!(u64::from(reassembler.forget(VC)), stats.held);
                assert_eq!(reassembler.stats().held, 0);
            }
        }
        assert!(damaged_by_its_predecessor > 0);
    }

    #[test]
    fn a_lost_last_cell_takes_the_next_frame_along_but_not_the_one_after() {
        let sent = cells_of(&[3, 2, 2]);
        let mut reassembler = Reassembler::new(None);
        let size = |frame: FrameId| [3, 2, 2][frame.0 as usize];
        let mut outcomes = Vec::new();
        for cell in sent.iter().enumerate().filter(|(index, _)| *index != 2) {
            outcomes.push(reassembler.push(*cell.1, size));
        }
        let damaged = Outcome::Damaged {
            cells: 4,
            frames: 2,
        };
        let more = Outcome::More;
        let complete = Outcome::Complete(FrameId(2));
        assert_eq!(outcomes, [more, more, more, damaged, more, complete]);
    }

    #[test]
    fn a_timer_discards_the_incomplete_frame_and_saves_the_next() {
        let ms = |ms| Time::ZERO + Span::from_ms(ms);
        let run = |frame, count, at, last| Run {
            flags: if last {
                CellFlags::LAST
            } else {
                CellFlags::FIRST
            },
            gap: Span::from_ms(1),
            ..Run::frame(FrameId(frame), VC, count, at)
        };
        for (timer, waited, whole) in [(None, 60, false), (Some(5), 5, false), (Some(5), 6, true)] {
            let mut reassembler = Reassembler::new(timer.map(Span::from_ms));
            let size = |frame| [4, 3][frame as usize];
            // Two of four cells, the second at 1 ms; the other two are lost.
            let lost = reassembler.push_run(&run(0, 2, ms(0), false), 0, size(0));
            assert_eq!(lost, Outcome::More);
            let frame = Run {
                flags: CellFlags::FIRST.with(CellFlags::LAST),
                ..run(1, 3, ms(1 + waited), true)
            };
            let outcome = reassembler.push_run(&frame, 1, size(1));
            assert_eq!(outcome == Outcome::Complete(FrameId(1)), whole, "{waited}");
            let stats = reassembler.stats();
            assert_eq!(
                (stats.expired, stats.discarded),
                match whole {
                    true => (1, 2),
                    false => (0, 5),
                }
            );
        }
        // Cells with gaps longer than the timer never form a frame, even if they are processed together.
        let mut slow = Reassembler::new(Some(Span::from_us(500)));
        let frame = Run {
            gap: Span::from_ms(1),
            ..Run::frame(FrameId(0), VC, 3, ms(0))
        };
        assert!(matches!(
            slow.push_run(&frame, 0, 3),
            Outcome::Damaged { cells: 1, .. }
        ));
        assert_eq!(slow.stats().expired, 2);
    }

    #[test]
    fn circuits_do_not_mix() {
        let mut reassembler = Reassembler::new(None);
        let cell = |vc, index| Cell::of(FrameId(vc), Vcid(vc as u16), index, 2);
        for vc in [1, 2] {
            assert_eq!(reassembler.push(cell(vc, 0), |_| 2), Outcome::More);
        }
        assert_eq!(reassembler.forget(Vcid(1)), 1);
        let done = reassembler.push(cell(2, 1), |_| 2);
        assert_eq!(done, Outcome::Complete(FrameId(2)));
    }
}
