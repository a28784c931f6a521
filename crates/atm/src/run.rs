use layercast_core::{Span, Time};

use crate::{Cell, CellFlags, FrameId, Vcid};

/// Cells of one frame that arrive, or begin to leave, at equal intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The frame they belong to.
    pub frame: FrameId,
    /// The circuit on their current link.
    pub vc: Vcid,
    /// Flags: whether the first cell is the first of the frame, the last cell the last of it, and whether all are
    /// eligible for discard.
    pub flags: CellFlags,
    /// Number of cells.
    pub count: u32,
    /// Time of the first cell.
    pub at: Time,
    /// Interval between cells; without meaning for a single cell.
    pub gap: Span,
}

impl Run {
    /// A frame of `count` cells at one time.
    pub const fn frame(frame: FrameId, vc: Vcid, count: u32, at: Time) -> Run {
        Run {
            frame,
            vc,
            flags: CellFlags::FIRST.with(CellFlags::LAST),
            count,
            at,
            gap: Span::ZERO,
        }
    }

    /// A single cell.
    pub const fn of(cell: Cell, at: Time) -> Run {
        Run {
            frame: cell.frame,
            vc: cell.vc,
            flags: cell.flags,
            count: 1,
            at,
            gap: Span::ZERO,
        }
    }

    /// Time of the last cell.
    #[inline]
    pub fn last_at(&self) -> Time {
        // Computed without a branch, since the number of cells is unpredictable for the processor.
        self.at + self.gap.times(u64::from(self.count.saturating_sub(1)))
    }

    /// Whether the first cell is the first of its frame.
    #[inline]
    pub const fn is_first(&self) -> bool {
        self.flags.has(CellFlags::FIRST)
    }

    /// Whether the last cell is the last of its frame.
    #[inline]
    pub const fn is_last(&self) -> bool {
        self.flags.has(CellFlags::LAST)
    }

    /// Whether the cells are eligible for discard.
    #[inline]
    pub const fn is_low(&self) -> bool {
        self.flags.has(CellFlags::LOW)
    }

    /// Number of cells before `limit`.
    #[inline]
    pub fn before(&self, limit: Time) -> u32 {
        if self.at >= limit {
            0
        } else if self.last_at() < limit {
            self.count
        } else if self.at + self.gap >= limit {
            1
        } else {
            let span = limit.since(self.at).as_ps() - 1;
            (span / self.gap.as_ps()) as u32 + 1
        }
    }

    /// Number of cells up to and including `limit`.
    #[inline]
    pub fn until(&self, limit: Time) -> u32 {
        self.before(limit.saturating_add(Span::from_ps(1)))
    }

    /// Removes the first `count` cells, at least one and at most all, and returns them.
    #[inline(always)]
    pub fn take(&mut self, count: u32) -> Run {
        // Field by field: a read of the whole value would wait for the recently written fields.
        let &mut Run {
            frame,
            vc,
            mut flags,
            at,
            gap,
            ..
        } = self;
        if count < self.count {
            self.flags = flags.without(CellFlags::FIRST);
            self.at = at + gap.times(u64::from(count));
            flags = flags.without(CellFlags::LAST);
        }
        let count = count.min(self.count);
        self.count -= count;
        Run {
            frame,
            vc,
            flags,
            count,
            at,
            gap,
        }
    }

    /// Appends cells if they continue the frame at the same interval; returns whether they do.
    #[inline(always)]
    pub fn join(&mut self, next: &Run) -> bool {
        if self.frame != next.frame || self.vc != next.vc || self.is_last() || next.is_first() {
            return false;
        }
        if self.is_low() != next.is_low() {
            return false;
        }
        let gap = next.at.since(self.last_at());
        if self.count > 1 && self.gap != gap || next.count > 1 && next.gap != gap {
            return false;
        }
        self.gap = gap;
        self.count += next.count;
        self.flags = self.flags.with(next.flags);
        true
    }

    /// The same cells from another time on, at another interval.
    #[inline(always)]
    pub(crate) fn leaving(self, at: Time, gap: Span) -> Run {
        Run { at, gap, ..self }
    }

    /// Each cell with its time.
    pub fn cells(mut self) -> impl Iterator<Item = Run> {
        std::iter::from_fn(move || (self.count > 0).then(|| self.take(1)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(count: u32, at: u64, gap: u64) -> Run {
        Run {
            gap: Span::from_ps(gap),
            ..Run::frame(FrameId(1), Vcid(2), count, Time::from_ps(at))
        }
    }

    #[test]
    fn it_is_small() {
        assert_eq!(size_of::<Run>(), 32);
    }

    #[test]
    fn another_frame_or_another_distance_does_not_join() {
        let mut whole = run(3, 0, 5);
        let mut part = whole.take(2);
        assert_eq!(whole.at, Time::from_ps(10));
        let late = Run {
            at: whole.at + Span::from_ps(1),
            ..whole
        };
        let other = Run {
            frame: FrameId(9),
            ..whole
        };
        let low = Run {
            flags: whole.flags.with(CellFlags::LOW),
            ..whole
        };
        assert!(!part.join(&late) && !part.join(&other) && !part.join(&low));
        assert!(part.join(&whole) && part.is_first() && part.is_last());
        assert!(!part.join(&late), "nothing comes after the last");
    }

    proptest! {
        #[test]
        fn parts_of_a_run_join_again(
            count in 1u32..50, at in 0u64..100, gap in 0u64..20, parts in prop::collection::vec(1u32..9, 1..9),
        ) {
            let whole = run(count, at, gap);
            let mut rest = whole;
            let mut joined: Option<Run> = None;
            for part in parts.into_iter().chain([u32::MAX]) {
                if rest.count == 0 {
                    break;
                }
                let taken = rest.take(part.min(rest.count));
                match &mut joined {
                    Some(joined) => prop_assert!(joined.join(&taken)),
                    None => joined = Some(taken),
                }
            }
            let joined = joined.expect("one part at least");
            prop_assert_eq!(joined.cells().collect::<Vec<_>>(), whole.cells().collect::<Vec<_>>());
            prop_assert_eq!(joined.cells().last().map(|it| it.at), Some(whole.last_at()));
        }

        #[test]
        fn those_before_an_instant_are_counted(
            count in 1u32..20, at in 0u64..50, gap in 0u64..9, limit in 0u64..300,
        ) {
            let run = run(count, at, gap);
            let limit = Time::from_ps(limit);
            let counted = run.cells().filter(|it| it.at < limit).count();
            prop_assert_eq!(run.before(limit) as usize, counted);
        }
    }
}
