use std::collections::VecDeque;

use layercast_core::{Span, Time};

use crate::{Deadline, Schedule};

/// Number of remembered stamps; other stamps are rejected, since a forged one would distort the estimate. As many
/// members are polled individually at a time.
const STAMPS: usize = 8_192;
/// Number of rounds from which the fastest is taken.
const LATELY: usize = 8;
/// Bounds of the largest round trip (specs/fully-reliable-multicast.md 7).
const LEAST: Span = Span::from_ms(1);
const MOST: Span = Span::from_secs(30);
/// Longest wait for answers that former delays justify; a receiver that takes longer is asked again.
const LATEST: Span = Span::from_secs(5);
/// Least wait for answers beyond the range of their back-off.
const FLOOR: Span = Span::from_ms(10);

/// Deadlines of answers: stamps, round trips, delays beyond the back-off.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    deadline: Deadline,
    delta: Span,
    stamps: VecDeque<Time>,
    /// smaxRTT (specs/fully-reliable-multicast.md 2.4).
    largest: Option<Span>,
    /// Largest delay beyond the back-off in the current round, and those of former rounds.
    latest: Option<Span>,
    late: VecDeque<Span>,
}

impl Clock {
    pub fn new(deadline: Deadline, schedule: &Schedule) -> Clock {
        Clock {
            deadline,
            delta: schedule.delta(),
            stamps: VecDeque::new(),
            largest: None,
            latest: None,
            late: VecDeque::with_capacity(LATELY),
        }
    }

    /// Issues a stamp for a packet sent now.
    pub fn stamp(&mut self, now: Time) -> u64 {
        if self.stamps.back() != Some(&now) {
            if self.stamps.len() == STAMPS {
                self.stamps.pop_front();
            }
            self.stamps.push_back(now);
        }
        now.as_ps()
    }

    /// Time since a stamp was issued, if that was recent.
    pub fn round_trip(&self, now: Time, stamp: u64) -> Option<Span> {
        let then = Time::from_ps(stamp);
        let known = self.stamps.binary_search(&then).is_ok();
        known.then(|| now.since(then))
    }

    /// Updates smaxRTT with a round's largest round trip: it grows immediately and falls by a sixteenth
    /// (specs/fully-reliable-multicast.md 2.4).
    pub fn largest_was(&mut self, round_trip: Span) {
        self.largest = Some(match self.largest {
            Some(smoothed) if smoothed > round_trip => {
                smoothed - (smoothed - round_trip).mul_div(1, 16)
            }
            _ => round_trip,
        });
    }

    /// smaxRTT.
    pub fn largest(&self) -> Span {
        self.largest.unwrap_or(LEAST).clamp(LEAST, MOST)
    }

    /// Records the delay of an answer beyond its back-off.
    pub fn answered(&mut self, late: Span) {
        self.latest = Some(self.latest.map_or(late, |latest| latest.max(late)));
    }

    /// Ends a round.
    pub fn round_over(&mut self) {
        if let Some(latest) = self.latest.take() {
            if self.late.len() == LATELY {
                self.late.pop_front();
            }
            self.late.push_back(latest);
        }
    }

    /// Range of the back-off of `receivers`.
    pub fn spread(&self, receivers: u32) -> Span {
        self.delta.times(receivers.into())
    }

    /// How long to wait for answers with a back-off up to `spread`.
    pub fn wait(&self, spread: Span) -> Span {
        match self.deadline {
            Deadline::Rtt { k_permille } => {
                self.largest().mul_div(k_permille.into(), 1_000) + spread
            }
            Deadline::Linear { tat, alpha } => tat + alpha + spread,
            Deadline::Adaptive { initial } => spread + self.lateness(initial).max(FLOOR),
        }
    }

    /// A quarter above the largest delay beyond the back-off in the best recent round, which is due to the path. In
    /// other rounds a host was busy or had to be polled again; waiting for that after each lost poll would cost more
    /// than polling a busy host twice.
    fn lateness(&self, initial: Span) -> Span {
        let best = self.late.iter().min();
        best.map_or(initial, |best| best.mul_div(5, 4).min(LATEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(deadline: Deadline) -> Clock {
        let delta = Span::from_ms(3);
        let schedule = Schedule::BackOff {
            delta,
            unasked: false,
        };
        Clock::new(deadline, &schedule)
    }

    #[test]
    fn the_largest_round_trip_grows_at_once_and_falls_slowly() {
        let mut clock = clock(Deadline::Rtt { k_permille: 1_500 });
        assert_eq!(clock.largest(), Span::from_ms(1));
        clock.largest_was(Span::from_ms(32));
        clock.largest_was(Span::from_ms(16));
        assert_eq!(clock.largest(), Span::from_ms(31));
        clock.largest_was(Span::from_ms(40));
        assert_eq!(clock.wait(Span::ZERO), Span::from_ms(60));
        clock.largest_was(Span::from_secs(99));
        assert_eq!(clock.largest(), Span::from_secs(30));
    }

    #[test]
    fn tat_and_delta_and_alpha() {
        let clock = clock(Deadline::Linear {
            tat: Span::from_ms(100),
            alpha: Span::from_ms(50),
        });
        assert_eq!(clock.wait(clock.spread(5_000)), Span::from_ms(15_150));
    }

    #[test]
    fn the_wait_follows_the_best_recent_round() {
        let mut clock = clock(Deadline::Adaptive {
            initial: Span::from_ms(100),
        });
        let spread = Span::from_ms(6);
        assert_eq!(clock.wait(spread), Span::from_ms(106));
        let mut round = |answers: &[u64]| {
            for &ms in answers {
                clock.answered(Span::from_ms(ms));
            }
            clock.round_over();
            clock.wait(spread) - spread
        };
        assert_eq!(round(&[40, 100, 2_000]), Span::from_ms(2_500));
        assert_eq!(round(&[40, 30, 80]), Span::from_ms(100));
        // One slow answer does not lengthen the wait permanently.
        assert_eq!(round(&[40, 3_000]), Span::from_ms(100));
        // No answer.
        assert_eq!(round(&[]), Span::from_ms(100));
        // The path has become longer.
        for _ in 0..LATELY {
            round(&[400]);
        }
        assert_eq!(round(&[400]), Span::from_ms(500));
        assert_eq!(round(&[0]), FLOOR);
    }

    #[test]
    fn only_stamps_of_ours_are_believed() {
        let mut clock = clock(Deadline::Rtt { k_permille: 1_500 });
        let now = Time::from_ps(5);
        let stamp = clock.stamp(now);
        let later = now + Span::from_ms(2);
        assert_eq!(clock.round_trip(later, stamp), Some(Span::from_ms(2)));
        assert_eq!(clock.round_trip(later, stamp + 1), None);
        for ps in 10..10 + STAMPS as u64 {
            clock.stamp(Time::from_ps(ps));
        }
        assert_eq!(clock.round_trip(later, stamp), None);
    }
}
