use layercast_core::{Span, Time};

use super::history::part_of;
use crate::parts::MAX_PARTS;

/// Lengths are distinguished by this number of octets: a parity is longer than its contents by more.
const CLASS: u32 = 8;
/// Longer datagrams are of the last class.
const CLASSES: usize = 256;
/// This number of lost datagrams may be too large for chance.
const LOST: u32 = 16;
/// Shorter ones alone arrive by chance less often than once in e to this: a millionth.
const CHANCE: f64 = 13.8;
/// After this time a datagram of a length that did not pass is tried again (RFC 8899 waits ten times as long, for the sake of others).
const HOLDS: Span = Span::from_secs(60);

/// Whether the path carries datagrams up to a length only.
///
/// It does if many datagrams were lost, at several times between which others arrived, and each of those others was shorter, which chance does
/// not explain: if lengths made no difference, each of these times the short ones would have arrived with the share that they have of all. It no
/// longer does once a longer one arrives. As RFC 8899 has it, without packets of its own.
#[derive(Debug)]
pub(super) struct Lengths {
    /// Lost datagrams by class since one of their class or of a longer one arrived, and their sum.
    lost: [u32; CLASSES],
    lost_in_all: u32,
    /// No class below has lost datagrams.
    shortest: usize,
    /// How often an arrival followed such a loss, and whether one would do so now.
    turns: u32,
    turn: bool,
    /// Datagrams that were shorter, whatever became of them.
    shorter: u32,
    /// The longest class of them that arrived.
    longest: usize,
    limit: Option<Limit>,
}

/// What the path is known to carry.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// Shorter datagrams than those of this class arrive.
    from: usize,
    /// Those of this class did not.
    lost: usize,
    /// When that was last found out.
    since: Time,
}

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths {
            lost: [0; CLASSES],
            lost_in_all: 0,
            shortest: CLASSES,
            turns: 0,
            turn: false,
            shorter: 0,
            longest: 0,
            limit: None,
        }
    }
}

fn class(octets: u32) -> usize {
    usize::try_from(octets / CLASS).map_or(CLASSES - 1, |class| class.min(CLASSES - 1))
}

impl Lengths {
    /// Takes the fate of a datagram of this length, which becomes known at `now`. Gives whether it shows that lengths are the cause of losses.
    pub fn outcome(&mut self, now: Time, octets: u32, lost: bool) -> bool {
        let class = class(octets);
        if lost {
            self.lost[class] += 1;
            self.lost_in_all += 1;
            self.shortest = self.shortest.min(class);
            self.turn = true;
            return false;
        }
        if let Some(limit) = self.limit.as_mut().filter(|limit| class >= limit.from) {
            limit.from = class + 1;
            self.limit = self.limit.filter(|limit| class < limit.lost);
        }
        while self.shortest <= class {
            let lost = std::mem::take(&mut self.lost[self.shortest]);
            self.lost_in_all -= lost;
            self.shorter = self.shorter.saturating_add(lost);
            self.shortest += 1;
        }
        if self.lost_in_all == 0 {
            (self.turns, self.turn, self.shorter, self.longest) = (0, false, 0, 0);
            return false;
        }
        self.shorter = self.shorter.saturating_add(1);
        self.longest = self.longest.max(class);
        self.turns += u32::from(std::mem::take(&mut self.turn));
        let is_length = self.lost_in_all >= LOST && self.is_no_chance();
        if is_length {
            // Lengths between those that arrived and those that did not are unknown, and rare: they are left out, down to a half.
            let lost = self.shortest_lost();
            self.limit = Some(Limit {
                from: (self.longest + 1).max(lost / 2).min(lost),
                lost,
                since: now,
            });
            *self = Lengths {
                limit: self.limit,
                ..Lengths::default()
            };
        }
        is_length
    }

    /// Whether chance does not explain that shorter ones alone arrived.
    fn is_no_chance(&self) -> bool {
        let (shorter, lost) = (f64::from(self.shorter), f64::from(self.lost_in_all));
        f64::from(self.turns) * ((shorter + lost) / shorter).ln() >= CHANCE
    }

    /// In how many parts a datagram of this length leaves. Now and then one that is too long leaves whole, to see whether it passes.
    pub fn parts(&mut self, now: Time, octets: u32) -> u8 {
        let Some(limit) = self.limit.as_mut().filter(|it| class(octets) >= it.from) else {
            return 1;
        };
        if class(octets) >= limit.lost && now.since(limit.since) >= HOLDS {
            limit.since = now;
            return 1;
        }
        let fits = |parts: &u8| class(part_of(octets, *parts)) < limit.from;
        (2..=MAX_PARTS).find(fits).unwrap_or(1)
    }

    fn shortest_lost(&self) -> usize {
        let lost = self.lost[self.shortest..].iter();
        lost.take_while(|count| **count == 0).count() + self.shortest
    }

    /// Whether datagrams of this length do not arrive.
    pub fn blocks(&self, now: Time, octets: u32) -> bool {
        let holds = |it: Limit| class(octets) >= it.from && now.since(it.since) < HOLDS;
        self.limit.is_some_and(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// Takes 100 fates a second from `from` on, those of lengths in turn; `lost` says which are lost.
    fn run(
        lengths: &mut Lengths,
        turn: [u32; 4],
        (from, seconds): (u64, u64),
        lost: impl Fn(u64, u32) -> bool,
    ) {
        for n in from * 100..(from + seconds) * 100 {
            let octets = turn[(n % 4) as usize];
            lengths.outcome(at(10 * n), octets, lost(n, octets));
        }
    }

    const MEDIA: [u32; 4] = [1_228, 1_228, 1_228, 300];

    #[test]
    fn a_path_that_drops_long_datagrams_blocks_them_until_one_arrives() {
        let mut lengths = Lengths::default();
        run(&mut lengths, MEDIA, (0, 3), |_, _| false);
        assert!(!lengths.blocks(at(3_000), 1_228));
        run(&mut lengths, MEDIA, (3, 2), |_, octets| octets > 1_100);
        assert!(lengths.blocks(at(5_000), 1_228) && !lengths.blocks(at(5_000), 300));
        // It stays so, and ends with the first long one that arrives.
        run(&mut lengths, MEDIA, (5, 100), |_, octets| octets > 1_100);
        assert!(lengths.blocks(at(105_000), 1_228));
        lengths.outcome(at(105_000), 1_228, false);
        assert!(!lengths.blocks(at(105_000), 1_228));
    }

    #[test]
    fn parities_that_are_little_longer_than_media_are_told_from_them() {
        let mut lengths = Lengths::default();
        let turn = [1_228, 1_247, 1_228, 1_228];
        let lost = |n: u64, octets: u32| octets > 1_240 || n.is_multiple_of(20);
        run(&mut lengths, turn, (0, 4), lost);
        assert!(lengths.blocks(at(4_000), 1_247) && !lengths.blocks(at(4_000), 1_228));
        // The block ends after a time without evidence: no parity is sent while the length is blocked.
        run(&mut lengths, [1_228; 4], (4, 58), lost);
        assert!(lengths.blocks(at(60_000), 1_247));
        assert!(!lengths.blocks(at(64_000), 1_247));
    }

    #[test]
    fn loss_of_all_lengths_and_outages_block_nothing() {
        let mut lengths = Lengths::default();
        run(&mut lengths, MEDIA, (0, 20), |n, _| n * 37 % 100 < 90);
        assert!(!lengths.blocks(at(20_000), 1_228), "90 % loss");
        run(&mut lengths, MEDIA, (20, 10), |_, _| true);
        run(&mut lengths, MEDIA, (30, 10), |n, _| n % 700 < 300);
        assert!(!lengths.blocks(at(40_000), 1_228), "outages");
    }
}
