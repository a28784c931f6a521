use layercast_core::RangeSet;

/// Most ranges a peer may make us remember; more gaps than this in a window are not loss.
const MAX_RANGES: usize = 1_024;

/// What the peer has acknowledged selectively (RFC 6675 2 and 4), by stream offset.
#[derive(Default, Debug)]
pub(crate) struct Scoreboard {
    sacked: RangeSet,
    /// Everything below that is not in `sacked` is lost.
    lost_below: u64,
}

impl Scoreboard {
    /// Takes a block; `true` if it tells anything new.
    pub(crate) fn insert(&mut self, from: u64, to: u64) -> bool {
        let known = self.sacked.holding(from);
        if known.is_some_and(|(_, end)| to <= end) || self.sacked.len() >= MAX_RANGES {
            return false;
        }
        self.sacked.insert(from, to);
        true
    }

    /// Finds again what counts as lost: what has `dup_acks` ranges, or more than `dup_acks - 1`
    /// segments' worth of bytes, acknowledged above it (RFC 6675 4, IsLost).
    pub(crate) fn find_losses(&mut self, dup_acks: u32, mss: u64) {
        let (mut ranges, mut bytes) = (0, 0);
        for (from, to) in self.sacked.iter().rev() {
            ranges += 1;
            bytes += to - from;
            if ranges >= dup_acks || bytes > u64::from(dup_acks - 1) * mss {
                self.lost_below = from;
                return;
            }
        }
    }

    /// The ranges, in order.
    pub(crate) fn ranges(
        &self,
    ) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator + '_ {
        self.sacked.iter()
    }

    /// Forgets what is acknowledged cumulatively.
    pub(crate) fn remove_below(&mut self, at: u64) {
        self.sacked.remove_below(at);
    }

    /// Forgets everything: the peer has, too (RFC 2018 8).
    pub(crate) fn clear(&mut self) {
        *self = Scoreboard::default();
    }

    /// The range that holds `at`.
    pub(crate) fn holding(&self, at: u64) -> Option<(u64, u64)> {
        self.sacked.holding(at)
    }

    /// Where the first range above `at` starts.
    pub(crate) fn next_above(&self, at: u64) -> Option<u64> {
        self.sacked.gaps(at, u64::MAX).next().map(|(_, end)| end)
    }

    /// Bytes still on their way (RFC 6675 4, SetPipe): not lost, or sent again below `resent`.
    pub(crate) fn pipe(&self, una: u64, max: u64, resent: u64) -> u64 {
        let missing = |from: u64, to: u64| match to.checked_sub(from) {
            Some(len) => len - self.sacked.covered(from, to),
            None => 0,
        };
        missing(self.lost_below.max(una), max) + missing(una, resent)
    }

    /// The first hole from `at` on that counts as lost (RFC 6675 4, NextSeg rule 1).
    pub(crate) fn lost_hole(&self, at: u64) -> Option<(u64, u64)> {
        self.sacked.gaps(at, self.lost_below).next()
    }

    /// The first hole from `at` on below something acknowledged (NextSeg rule 3).
    pub(crate) fn any_hole(&self, at: u64) -> Option<(u64, u64)> {
        let (_, top) = self.sacked.iter().next_back()?;
        self.sacked.gaps(at, top).next()
    }

    /// Everything below that is lost that was not acknowledged.
    pub(crate) fn lost_below(&self) -> u64 {
        self.lost_below
    }

    /// Whether nothing is acknowledged selectively.
    pub(crate) fn is_empty(&self) -> bool {
        self.sacked.is_empty()
    }

    /// Bytes of `from..to` that are acknowledged selectively.
    pub(crate) fn covered(&self, from: u64, to: u64) -> u64 {
        self.sacked.covered(from, to)
    }

    /// The end of the last range; 0 if there is none.
    pub(crate) fn top(&self) -> u64 {
        self.sacked.iter().next_back().map_or(0, |(_, to)| to)
    }

    /// Bytes that are acknowledged selectively.
    pub(crate) fn held(&self) -> u64 {
        self.sacked.iter().map(|(from, to)| to - from).sum()
    }

    /// Bytes of memory beside the bytes themselves.
    pub(crate) fn memory(&self) -> usize {
        self.sacked.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ranges_or_two_segments_above_mean_lost() {
        let mut board = Scoreboard::default();
        assert!(board.insert(2_000, 3_000));
        board.find_losses(3, 1_000);
        assert_eq!(board.lost_hole(1_000), None);
        assert_eq!(board.any_hole(1_000), Some((1_000, 2_000)));
        assert_eq!(board.pipe(1_000, 10_000, 1_000), 8_000);
        assert!(board.insert(4_000, 5_000) && !board.insert(4_000, 4_500));
        board.find_losses(3, 1_000);
        assert_eq!(board.lost_hole(1_000), None);
        assert!(board.insert(5_000, 5_001));
        board.find_losses(3, 1_000);
        // 2001 bytes above 2000..3000: everything below is lost, 3000..4000 not yet.
        assert_eq!(board.lost_hole(1_000), Some((1_000, 2_000)));
        assert_eq!(board.lost_hole(2_000), None);
        assert_eq!(board.pipe(1_000, 10_000, 1_000), 1_000 + 4_999);
        assert_eq!(board.pipe(1_000, 10_000, 2_000), 1_000 + 4_999 + 1_000);
        assert_eq!(board.next_above(3_500), Some(4_000));
    }

    #[test]
    fn a_peer_cannot_make_it_grow() {
        let mut board = Scoreboard::default();
        for at in 0..100_000 {
            board.insert(2 * at, 2 * at + 1);
        }
        assert_eq!(board.sacked.len(), MAX_RANGES);
    }
}
