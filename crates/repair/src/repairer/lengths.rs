use layercast_core::{Span, Time};

/// Lengths are distinguished by this number of octets.
const CLASS: u32 = 32;
/// Longer datagrams are of the last class.
const CLASSES: usize = 64;
/// Over how long fates are counted, and how many are enough to judge by; fewer say nothing after `MOST`.
const WINDOW: Span = Span::from_secs(1);
const MOST: Span = Span::from_secs(8);
const ARRIVED: u32 = 8;
const LOST: u32 = 64;

/// Whether the path carries datagrams up to a length only.
///
/// It does if for a second all datagrams longer than the longest one that arrived were lost, and these are too many for
/// chance. It no longer does once a longer one arrives.
#[derive(Debug)]
pub(super) struct Lengths {
    begun: Option<Time>,
    arrived: u32,
    /// The class of the longest that arrived.
    longest: usize,
    /// Lost ones by class, and their sum.
    lost: [u32; CLASSES],
    lost_in_all: u32,
    /// Datagrams above this class do not arrive.
    limit: Option<usize>,
}

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths {
            begun: None,
            arrived: 0,
            longest: 0,
            lost: [0; CLASSES],
            lost_in_all: 0,
            limit: None,
        }
    }
}

fn class(octets: u32) -> usize {
    usize::try_from(octets / CLASS).map_or(CLASSES - 1, |class| class.min(CLASSES - 1))
}

impl Lengths {
    /// Takes the fate of a datagram of this length, which becomes known at `now`.
    pub fn outcome(&mut self, now: Time, octets: u32, lost: bool) {
        let class = class(octets);
        let passed = now.since(*self.begun.get_or_insert(now));
        if lost {
            self.lost[class] += 1;
            self.lost_in_all += 1;
        } else {
            self.arrived += 1;
            self.longest = self.longest.max(class);
            self.limit = self.limit.filter(|limit| class <= *limit);
        }
        if passed < WINDOW {
            return;
        }
        let is_enough = self.arrived >= ARRIVED
            && self.lost_in_all >= LOST
            && self.lost[self.longest + 1..].iter().sum::<u32>() >= LOST;
        if is_enough {
            self.limit = Some(self.longest);
        }
        if is_enough || passed >= MOST || self.arrived + self.lost_in_all > 4 * LOST {
            *self = Lengths {
                limit: self.limit,
                ..Lengths::default()
            };
        }
    }

    /// Whether datagrams of this length do not arrive.
    pub fn blocks(&self, octets: u32) -> bool {
        self.limit.is_some_and(|limit| class(octets) > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes 100 fates a second from `from` on, those of lengths in turn; `lost` says which are lost.
    fn run(lengths: &mut Lengths, from: u64, seconds: u64, lost: impl Fn(u64, u32) -> bool) {
        for n in from * 100..(from + seconds) * 100 {
            let octets = [1_228, 1_228, 1_228, 300][(n % 4) as usize];
            lengths.outcome(Time::ZERO + Span::from_ms(10 * n), octets, lost(n, octets));
        }
    }

    #[test]
    fn a_path_that_drops_long_datagrams_blocks_them_until_one_arrives() {
        let mut lengths = Lengths::default();
        run(&mut lengths, 0, 3, |_, _| false);
        assert!(!lengths.blocks(1_228));
        run(&mut lengths, 3, 5, |_, octets| octets > 1_100);
        assert!(lengths.blocks(1_228) && !lengths.blocks(300));
        // It stays so, and ends with the first long one that arrives.
        run(&mut lengths, 8, 20, |_, octets| octets > 1_100);
        assert!(lengths.blocks(1_228));
        lengths.outcome(Time::ZERO + Span::from_secs(28), 1_228, false);
        assert!(!lengths.blocks(1_228));
    }

    #[test]
    fn loss_of_all_lengths_and_outages_block_nothing() {
        let mut lengths = Lengths::default();
        run(&mut lengths, 0, 20, |n, _| n * 37 % 100 < 90);
        assert!(!lengths.blocks(1_228), "90 % loss");
        run(&mut lengths, 20, 10, |_, _| true);
        run(&mut lengths, 30, 10, |n, _| n % 700 < 300);
        assert!(!lengths.blocks(1_228), "outages");
    }
}
