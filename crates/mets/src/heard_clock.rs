//! What neighbours say of the clock of a source, as far as it can be true.

use layercast_core::{Serial, Span};
use layercast_wire::ClockReading;

/// Most hops of a path, and the longest round trip of all of them that is believed: more is no path of live media.
const MOST_HOPS: u8 = 64;
const LONGEST: Span = Span::from_secs(60);
/// A measurement older than this says nothing any more: by then the hops have forgotten it.
const OLDEST: Span = Span::from_secs(300);
/// By how much two readings may differ beyond their bounds: this, and this share of the time between them, as clocks are steered.
const APART: Span = Span::from_ms(2);
const STEERED: (u64, u64) = (1, 1_000);
/// Readings in a row that contradict the one that is believed, and not each other, until they are believed: the clock was set, or a node
/// of the path measures it again.
const CONTRADICTIONS: u32 = 3;

/// The clock of a source by the readings of a neighbour.
///
/// A single one that cannot be true, or that contradicts the one before, changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeardClock {
    believed: Option<ClockReading>,
    /// The newest of those that contradict it, and how many do.
    other: Option<(ClockReading, u32)>,
}

impl HeardClock {
    /// A reading comes. Returns whether it is believed.
    pub fn hear(&mut self, reading: ClockReading) -> bool {
        if !is_plausible(&reading) {
            return false;
        }
        let known = self.believed.filter(|known| contradict(known, &reading));
        if known.is_some() {
            let same = self.other.filter(|(other, _)| !contradict(other, &reading));
            let count = same.map_or(0, |(_, count)| count) + 1;
            self.other = Some((reading, count));
            if count < CONTRADICTIONS {
                return false;
            }
        }
        self.believed = Some(reading);
        self.other = None;
        true
    }

    /// The newest reading that is believed.
    pub fn reading(&self) -> Option<ClockReading> {
        self.believed
    }
}

/// Whether it may be the reading of a path.
fn is_plausible(reading: &ClockReading) -> bool {
    let bound = Span::from_us(reading.bound_us.into());
    let age = Span::from_ms(reading.age_ms.into());
    reading.hops <= MOST_HOPS && bound <= LONGEST && age <= OLDEST
}

/// Whether the two cannot both be true of clocks that run evenly.
fn contradict(before: &ClockReading, after: &ClockReading) -> bool {
    let expected = before.source_at(after.here_us);
    let off = Serial(after.source_us).diff(Serial(expected));
    let passed = Serial(after.here_us).diff(Serial(before.here_us));
    let passed = Span::from_us(passed.unsigned_abs().into());
    let bounds = u64::from(before.bound_us) + u64::from(after.bound_us);
    let most = Span::from_us(bounds) + APART + passed.mul_div(STEERED.0, STEERED.1);
    Span::from_us(off.unsigned_abs().into()) > most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(here_us: u32, source_us: u32) -> ClockReading {
        ClockReading {
            source_us,
            bound_us: 5_000,
            hops: 1,
            ..ClockReading::own(here_us)
        }
    }

    /// What the clock of the source shows, ahead by an hour, at a second.
    fn source(second: u32, more_us: u32) -> ClockReading {
        let here = second * 1_000_000;
        reading(here, here.wrapping_add(3_600_000_000).wrapping_add(more_us))
    }

    #[test]
    fn what_is_out_of_all_bounds_is_not_believed() {
        let fine = source(1, 0);
        for bad in [
            ClockReading {
                bound_us: u32::MAX,
                ..fine
            },
            ClockReading {
                age_ms: u32::MAX,
                ..fine
            },
            ClockReading { hops: 255, ..fine },
        ] {
            let mut clock = HeardClock::default();
            assert!(!clock.hear(bad) && clock.reading().is_none());
        }
        let mut clock = HeardClock::default();
        assert!(clock.hear(fine));
        assert_eq!(clock.reading(), Some(fine));
    }

    #[test]
    fn single_readings_that_contradict_the_others_change_nothing() {
        let mut clock = HeardClock::default();
        for second in 0..60 {
            // Within the bounds of both.
            assert!(clock.hear(source(second, second * 7_919 % 9_000)));
            let before = clock.reading();
            for lie in [500_000, 1 << 31, u32::MAX - 90_000_000] {
                assert!(!clock.hear(source(second, lie)));
            }
            assert_eq!(clock.reading(), before);
        }
    }

    #[test]
    fn a_clock_that_is_set_is_believed_with_the_third_reading() {
        let mut clock = HeardClock::default();
        assert!(clock.hear(source(1, 0)));
        let said: Vec<bool> = (2..6).map(|it| clock.hear(source(it, 500_000))).collect();
        assert_eq!(said, [false, false, true, true]);
    }
}
