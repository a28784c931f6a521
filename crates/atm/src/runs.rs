use std::collections::VecDeque;

use layercast_core::Time;

use crate::Run;

/// Runs that wait or are on their way, in the order of their instants.
#[derive(Debug)]
pub struct Runs {
    runs: VecDeque<Run>,
    first: Time,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs {
            runs: VecDeque::new(),
            first: Time::MAX,
        }
    }
}

impl Runs {
    /// When the first cell does; the end of time if there is none. Needs no look at the runs.
    #[inline]
    pub fn first(&self) -> Time {
        self.first
    }

    /// Those in front, as one run.
    #[inline]
    pub fn head(&self) -> Option<&Run> {
        self.runs.front()
    }

    /// Puts cells behind all others; those of a frame at equal distances are one run.
    #[inline(always)]
    pub fn push(&mut self, run: Run) {
        self.first = self.first.min(run.at);
        if !self.runs.back_mut().is_some_and(|last| last.join(&run)) {
            self.runs.push_back(run);
        }
    }

    /// Takes cells from the run in front: one at least, all of it at most.
    #[inline(always)]
    pub fn take(&mut self, count: u32) -> Option<Run> {
        let head = self.runs.front_mut()?;
        let run = head.take(count);
        self.first = head.at;
        if head.count == 0 {
            self.runs.pop_front();
            self.first = self.runs.front().map_or(Time::MAX, |run| run.at);
        }
        Some(run)
    }

    /// How many runs there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// All runs.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// Takes all runs away.
    pub fn drain(&mut self) -> impl Iterator<Item = Run> {
        self.first = Time::MAX;
        self.runs.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Span;
    use proptest::prelude::*;

    use super::*;
    use crate::{FrameId, Vcid};

    proptest! {
        #[test]
        fn cells_come_out_as_they_went_in(
            frames in prop::collection::vec((1u32..6, 1u64..9, 0u64..9), 1..20), takes in prop::collection::vec(1u32..5, 1..60),
        ) {
            let (mut runs, mut model, mut at) = (Runs::default(), VecDeque::new(), 0);
            for (frame, (count, gap, pause)) in (0..).zip(frames) {
                let frame = Run {
                    gap: Span::from_ps(gap),
                    ..Run::frame(FrameId(frame), Vcid(1), count, Time::from_ps(at + pause))
                };
                at = frame.last_at().as_ps();
                frame.cells().for_each(|cell| runs.push(cell));
                model.extend(frame.cells());
            }
            for count in takes {
                prop_assert_eq!(runs.first(), model.front().map_or(Time::MAX, |cell| cell.at));
                let count = runs.head().map_or(0, |head| head.count.min(count));
                let taken = runs.take(count.max(1)).into_iter().flat_map(Run::cells);
                let taken: Vec<_> = taken.map(|it| (it.frame, it.at, it.flags)).collect();
                let expected = model.drain(..count as usize);
                prop_assert_eq!(taken, expected.map(|it| (it.frame, it.at, it.flags)).collect::<Vec<_>>());
            }
        }
    }
}
