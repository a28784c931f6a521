use layercast_core::{Span, Time};

use crate::ring::Ring;
use crate::{Run, Vcid};

/// Runs that wait or are in transit, in the order of their times.
#[derive(Debug)]
pub struct Runs {
    runs: Ring<Run>,
    first: Time,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs {
            runs: Ring::new(),
            first: Time::MAX,
        }
    }
}

impl Runs {
    /// Time of the first cell; the end of time if there is none. Does not read the runs.
    #[inline]
    pub fn first(&self) -> Time {
        self.first
    }

    /// The first run.
    #[inline]
    pub fn head(&self) -> Option<&Run> {
        self.runs.front()
    }

    /// Appends cells; cells of a frame at equal intervals form one run.
    #[inline(always)]
    pub fn push(&mut self, run: Run) {
        self.first = self.first.min(run.at);
        if !self.runs.back_mut().is_some_and(|last| last.join(&run)) {
            self.runs.push_back(run);
        }
    }

    /// Removes `count` cells from the first run, at least one and at most all.
    #[inline(always)]
    pub fn take(&mut self, count: u32) -> Option<Run> {
        self.take_some(|_| count)
    }

    /// Removes the first cell and those of its run before a time.
    #[inline(always)]
    pub fn take_before(&mut self, limit: Time) -> Option<Run> {
        self.take_some(|head| head.before(limit).max(1))
    }

    #[inline(always)]
    fn take_some(&mut self, count: impl FnOnce(&Run) -> u32) -> Option<Run> {
        let head = self.runs.front_mut()?;
        let run = head.take(count(head));
        self.first = head.at;
        if head.count == 0 {
            self.runs.drop_front();
            self.first = self.runs.front().map_or(Time::MAX, |run| run.at);
        }
        Some(run)
    }

    /// Delays all cells after a time.
    pub fn put_off(&mut self, after: Time, by: Span) {
        if self.first > after {
            self.first = self.first.saturating_add(by);
        }
        for place in (0..self.runs.len()).rev() {
            let Some(run) = self.runs.get_mut(place) else {
                return;
            };
            if run.at > after {
                run.at += by;
                continue;
            }
            if run.last_at() > after {
                let count = run.until(after);
                let mut rest = *run;
                *run = rest.take(count);
                rest.at += by;
                self.runs.insert(place + 1, rest);
            }
            return;
        }
    }

    /// Number of a circuit's cells after a time.
    pub fn count_after(&self, vc: Vcid, after: Time) -> u32 {
        let late = self
            .runs
            .iter()
            .rev()
            .take_while(|run| run.last_at() > after);
        let of_vc = late.filter(|run| run.vc == vc);
        of_vc.map(|run| run.count - run.until(after)).sum()
    }

    /// All runs.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// Removes all runs.
    pub fn drain(&mut self) -> Vec<Run> {
        let all = self.runs.iter().copied().collect();
        self.runs.clear();
        self.first = Time::MAX;
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::FrameId;

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

        #[test]
        fn cells_that_are_put_off_do_later_and_no_others(
            frames in prop::collection::vec((1u32..6, 1u64..9, 0u64..9), 1..20), offs in prop::collection::vec((0u64..400, 1u64..9), 1..6),
        ) {
            let (mut runs, mut model, mut at) = (Runs::default(), Vec::new(), 0);
            for (frame, (count, gap, pause)) in (0..).zip(frames) {
                let run = Run {
                    gap: Span::from_ps(gap),
                    ..Run::frame(FrameId(frame), Vcid(frame as u16 % 2), count, Time::from_ps(at + pause))
                };
                at = run.last_at().as_ps() + 1;
                runs.push(run);
                model.extend(run.cells());
            }
            for (after, by) in offs {
                let (after, by) = (Time::from_ps(after), Span::from_ps(by));
                let late = model.iter_mut().filter(|cell| cell.at > after);
                late.for_each(|cell| cell.at += by);
                runs.put_off(after, by);
                let late = model.iter().filter(|cell| cell.at > after && cell.vc == Vcid(1));
                prop_assert_eq!(runs.count_after(Vcid(1), after) as usize, late.count());
                prop_assert_eq!(runs.first(), model[0].at);
            }
            let cells = |it: &Run| (it.frame, it.at, it.flags);
            let put_off = runs.iter().flat_map(|run| run.cells());
            prop_assert_eq!(put_off.map(|it| cells(&it)).collect::<Vec<_>>(), model.iter().map(cells).collect::<Vec<_>>());
        }
    }
}
