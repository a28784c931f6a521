//! What the base layer needs, below which the rate is not cut upon a mere delay.

use layercast_core::{Span, Time};

use crate::estimate::LeastOf;

/// The mean rate is measured over this time.
const MEAN: Span = Span::from_secs(1);
/// A frame leaves within half of the time for which it is of use, within these limits, if the path carries that: the rest is for the
/// path and for repairs.
const WITHIN: (Span, Span) = (Span::from_ms(50), Span::from_secs(1));
/// The highest rates hold for this time.
const HOLDS: Span = Span::from_secs(5);
/// What a path carries for frames to leave in time, as a share of what arrived at a cut.
const CARRIES: f64 = 0.85;
/// Repairs and parities beyond the base layer.
const ROOM: f64 = 1.1;
/// Time with a queue at the rate of the base layer after which the rate may fall below it.
const GRACE: Span = Span::from_secs(1);
/// How long after that the base layer is tried again, at first and at most.
const RETRY: (Span, Span) = (Span::from_secs(1), Span::from_secs(16));
/// A cut below the rate this soon after a try shows that the path does not carry it.
const FAILED: Span = Span::from_secs(5);

/// The rate of the base layer, and whether the path carries it.
#[derive(Debug)]
pub(super) struct Base {
    mean: Highest,
    /// What base layers need besides that are promised and do not pass now.
    absent: f64,
    /// With which frames leave in time.
    peak: Highest,
    /// The least rate of the last cut.
    least: f64,
    /// Since when a queue stands although no more than the base layer is sent.
    stands: Option<Time>,
    /// Between the last cut below its rate and the next try, when that is due, and when the last one was.
    wait: Span,
    due: Time,
    tried: Option<Time>,
}

/// The highest rate of the last time.
#[derive(Default, Debug)]
struct Highest {
    /// Octets since a time, and the highest rate in bit/s, negative.
    measuring: Option<(Time, u64)>,
    most: LeastOf,
}

impl Highest {
    fn add(&mut self, now: Time, octets: u32, over: Span) {
        let (since, sum) = self.measuring.get_or_insert((now, 0));
        if now.since(*since) >= over {
            // From the first octet of a frame on.
            (*since, *sum) = (now, 0);
        }
        *sum += u64::from(octets);
        let bps = *sum as f64 * 8.0 / over.as_secs_f64();
        self.most.add(now, -(bps as i64), HOLDS);
    }

    fn get(&self) -> f64 {
        self.most.get().map_or(0.0, |most| -most as f64 * ROOM)
    }
}

impl Base {
    pub fn new() -> Base {
        Base {
            mean: Highest::default(),
            absent: 0.0,
            peak: Highest::default(),
            least: 0.0,
            stands: None,
            wait: RETRY.0,
            due: Time::ZERO,
            tried: None,
        }
    }

    /// Octets of the base layer are to be sent, and are of use for `budget`.
    pub fn offer(&mut self, now: Time, octets: u32, budget: Span) {
        let within = budget.mul_div(1, 2).max(WITHIN.0).min(WITHIN.1);
        self.mean.add(now, octets, MEAN);
        self.peak.add(now, octets, within);
    }

    /// Base layers of this rate are promised, and other layers pass in their place.
    pub fn set_absent(&mut self, bps: f64) {
        self.absent = bps;
    }

    /// What it takes on average, with its repairs; 0 before that is known.
    pub fn rate(&self) -> f64 {
        self.mean.get() + self.absent
    }

    /// Notes whether the queue is too long while `rate` is sent at most.
    pub fn note(&mut self, now: Time, rate: f64, is_long: bool) {
        match is_long && rate <= self.least {
            true => self.stands = self.stands.or(Some(now)),
            false => self.stands = None,
        }
    }

    /// The least rate of a cut from `rate` where datagrams arrive at the rate `arrives`: the mean, and up to what frames need to leave in time
    /// if the path carries it.
    pub fn least(&mut self, now: Time, rate: f64, arrives: f64) -> f64 {
        let is_refuted = self.stands.is_some_and(|at| now.since(at) >= GRACE);
        self.least = match is_refuted || rate < self.rate() {
            true => 0.0,
            false => {
                let in_time = self.peak.get().min(CARRIES * arrives);
                in_time.max(self.rate()).min(rate)
            }
        };
        self.least
    }

    /// The rate was cut to this.
    pub fn cut(&mut self, now: Time, rate: f64) {
        if rate >= self.rate() {
            return;
        }
        self.wait = match self.tried.take() {
            Some(at) if now.since(at) < FAILED => self.wait.times(2).min(RETRY.1),
            Some(_) => RETRY.0,
            None => self.wait,
        };
        self.due = now.saturating_add(self.wait);
    }

    /// Whether a path without a queue gets the base layer immediately, where the rate is lower.
    pub fn is_due(&mut self, now: Time, rate: f64) -> bool {
        let is_due = rate < self.rate() && now >= self.due;
        if is_due {
            self.tried = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_layer_in_whose_place_others_pass_is_a_floor_as_one_that_passes_is() {
        let mut base = Base::new();
        assert_eq!(base.least(Time::ZERO, 2e6, 2e6), 0.0);
        base.set_absent(4e5);
        assert_eq!(base.least(Time::ZERO, 2e6, 2e6), 4e5);
        assert!(base.is_due(Time::ZERO, 3e5));
        // It passes again: 100 kbit/s of sound and 400 kbit/s of pictures.
        base.set_absent(0.0);
        for n in 0..100 {
            base.offer(Time::ZERO + Span::from_ms(10 * n), 625, Span::from_ms(500));
        }
        let floor = base.least(Time::ZERO + Span::from_secs(1), 2e6, 2e6);
        assert!((4.9e5..6e5).contains(&floor), "{floor}");
    }
}
