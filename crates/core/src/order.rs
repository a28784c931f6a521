use rand_core::RngCore;

use crate::{Stream, Time};

/// An actor of the simulator: a direction of a link, or the owner of a timer.
///
/// Which of several actors goes first is a draw for each instant, from the seed of the run, the name and the instant alone. So
/// the order depends neither on the order of scheduling nor on what else there is.
///
/// ```
/// use layercast_core::{Time, Who};
///
/// let [a, b] = ["link/a->c", "link/b->c"].map(|name| Who::of(1, name));
/// let first = |ps| a.draw(Time::from_ps(ps)) < b.draw(Time::from_ps(ps));
/// let share = (0..1_000).filter(|&ps| first(ps)).count();
/// assert!((400..600).contains(&share));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Who(u64);

impl Who {
    /// The one with this name in the run with this seed. This costs a hash of the name, so it is done once.
    pub fn of(seed: u64, name: &str) -> Who {
        Who(Stream::new(seed, &format!("order/{name}")).next_u64())
    }

    /// One of several with the same name, by its number or by what else tells it from the others.
    #[inline]
    pub const fn with(self, part: u64) -> Who {
        Who(mix(self.0 ^ part))
    }

    /// What decides at an instant: the least goes first.
    #[inline]
    pub const fn draw(self, at: Time) -> u64 {
        mix(self.0 ^ at.as_ps())
    }
}

/// Each bit of the result depends on all bits (the finaliser of SplitMix64; Steele, Lea and Flood 2014).
#[inline]
pub const fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of three is first, over instants as far apart as those of a simulation are.
    fn firsts(whos: [Who; 3], step: u64) -> [u32; 3] {
        let mut firsts = [0; 3];
        for n in 0..30_000 {
            let at = Time::from_ps(n * step);
            let draws = whos.map(|who| who.draw(at));
            let least = (0..3).min_by_key(|&n| draws[n]).unwrap_or(0);
            firsts[least] += 1;
        }
        firsts
    }

    #[test]
    fn draws_favour_nobody() {
        let names = ["tcp/a", "tcp/b", "tcp/c"].map(|name| Who::of(1, name));
        let parts = [0, 1, 2].map(|part| Who::of(1, "link/lan").with(part));
        for whos in [names, parts] {
            for step in [1, 1_000, 1 << 20, 1_000_000_000] {
                let firsts = firsts(whos, step);
                assert!(
                    firsts.iter().all(|n| (9_700..10_300).contains(n)),
                    "{step}: {firsts:?}"
                );
            }
        }
    }

    #[test]
    fn seeds_and_names_make_others() {
        let who = Who::of(1, "tcp/a");
        assert_eq!(who, Who::of(1, "tcp/a"));
        assert!(
            [Who::of(2, "tcp/a"), Who::of(1, "tcp/b"), who.with(0)]
                .iter()
                .all(|&it| it != who)
        );
    }
}
