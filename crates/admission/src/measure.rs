//! The controller: measurements, windows and periods.

use layercast_core::{Rate, Span, Time};

use crate::config::{Estimator, Now, Rule};
use crate::delay::Delay;
use crate::event::Event;
use crate::machine::{Mbac, Window};
use crate::promise::Share;

/// Samples that are caught up one by one; after a longer pause of the driver the estimate is kept and the sample
/// clock continues.
const MAX_CATCH_UP: u64 = 4_096;

impl Mbac {
    /// Bits that entered the queue, and whether they wait longer than promised.
    pub fn on_arrival(&mut self, now: Time, bits: u64, late: bool) {
        self.advance(now, false);
        self.ledger.arrive(bits, late);
    }

    /// Bits that were sent; a packet counts when its transmission ends.
    pub fn on_transmit(&mut self, now: Time, bits: u64) {
        self.advance(now, false);
        self.sent = self.sent.saturating_add(bits);
        self.ledger.send(bits);
    }

    /// A measured delay: of a packet that leaves, or of the queue at this instant.
    pub fn on_delay(&mut self, now: Time, delay: Span) {
        self.advance(now, false);
        let Rule::MeasuredSum { delay: Some(test) } = self.config.rule else {
            return;
        };
        let delay = Delay::of(delay, self.config.arithmetic);
        let window = &mut self.window;
        if window.max_delay.is_none_or(|max| delay.exceeds(max)) {
            window.max_delay = Some(delay);
        }
        if delay.exceeds(self.delay) {
            self.delay = delay.times(test.over);
            self.delay_generation += 1;
        }
    }

    /// The queue and the part of it that waits longer than promised, in bits; for [`Now::Snapshot`].
    pub fn on_backlog(&mut self, now: Time, bits: u64, beyond: u64) {
        self.advance(now, false);
        self.backlog = Share {
            arrived: bits.into(),
            late: beyond.min(bits).into(),
        };
    }

    /// When [`handle_timeout`](Mbac::handle_timeout) wants to be called.
    pub fn poll_timeout(&self) -> Time {
        self.next_sample.min(self.window.ends).min(self.period_ends)
    }

    /// Ends samples, windows and periods that are due; calling it early or late does no harm.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now, true);
    }

    /// Does what is due before `now`, or with `through` until `now`: samples first, then windows, then periods.
    pub(crate) fn advance(&mut self, now: Time, through: bool) {
        if now < self.now {
            self.counts.backwards += 1;
        }
        let now = now.max(self.now);
        if now.since(self.next_sample) > self.config.sample.times(MAX_CATCH_UP) {
            self.jump(now);
        }
        loop {
            let due = self.poll_timeout();
            if due > now || due == now && !through || due == Time::MAX {
                break;
            }
            self.now = self.now.max(due);
            if due == self.next_sample {
                self.end_sample(due);
            } else if due == self.window.ends {
                self.end_window(due);
            } else {
                self.end_period(due);
            }
        }
        self.now = now;
    }

    /// The driver paused for long: nothing was measured, so nothing is concluded.
    fn jump(&mut self, now: Time) {
        self.counts.jumps += 1;
        let sample = self.config.sample;
        let missed = now.since(self.next_sample).as_ps() / sample.as_ps();
        self.next_sample = self.next_sample.saturating_add(sample.times(missed));
        self.sent = 0;
        self.now = now;
        self.restart_window();
        if self.period_ends <= now {
            let at = self.period_ends;
            self.end_period(at);
            let period = self.config.promise.period;
            if self.period_ends <= now {
                let whole = now.since(self.period_ends).as_ps() / period.as_ps() + 1;
                self.period_ends = self.period_ends.saturating_add(period.times(whole));
            }
        }
    }

    fn end_sample(&mut self, at: Time) {
        let sample = self.config.sample;
        let bits = u128::from(std::mem::take(&mut self.sent));
        let bps = bits * 1_000_000_000_000 / u128::from(sample.as_ps());
        // What was sent just before may end in this sample, but no link carries more than it can.
        let bps = bps.min(self.config.capacity.as_bps().into());
        let rate = Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX));
        self.measured = rate;
        self.next_sample = at.saturating_add(sample);
        self.emit(Event::Sample { at, rate });
        let cheated = u128::from(rate.as_bps()) > self.declared;
        if cheated && !self.cheated && self.calls() > 0 {
            let declared = u64::try_from(self.declared).unwrap_or(u64::MAX);
            self.emit(Event::AboveDeclared {
                at,
                measured: rate,
                declared: Rate::from_bps(declared),
            });
        }
        self.cheated = cheated;
        if let Estimator::Average(weight) = self.config.estimator {
            let (old, new) = (u128::from(self.estimate), u128::from(rate.as_bps()));
            let weight = u128::from(weight);
            let mean = (old * (1_000 - weight) + new * weight) / 1_000;
            self.estimate = u64::try_from(mean).unwrap_or(u64::MAX);
            self.generation += 1;
            return;
        }
        self.window.max = self.window.max.max(Some(rate));
        if rate.as_bps() > self.estimate {
            let raised = bps * u128::from(self.config.over_rate) / 1_000;
            self.estimate = u64::try_from(raised).unwrap_or(u64::MAX);
            self.generation += 1;
        }
    }

    /// A window ended without an admission: what was measured in it is the estimate.
    fn end_window(&mut self, at: Time) {
        let Some(max) = self.window.max else {
            // Without a complete sample nothing is known.
            self.window.ends = self.next_sample;
            return;
        };
        self.estimate = max.as_bps();
        self.overcommitted &= max > self.config.bound();
        self.generation += 1;
        if let Some(delay) = self.window.max_delay {
            self.delay = delay;
            self.delay_generation += 1;
        }
        let ended = self.window.length;
        self.ledger.pass(at.since(self.window.began));
        let recent = self.ledger.take_recent();
        let mut moved = None;
        if let Some(control) = &mut self.control {
            let recent = match control.config().now {
                Now::SinceExpiry => recent,
                Now::Snapshot => self.backlog,
            };
            control.set_window(max);
            let too_late = recent.exceeds(self.ledger.terms.late_ppm);
            let (capacity, below) = (self.config.capacity, self.ledger.is_below());
            moved = control
                .set_trigger(capacity, max, too_late, below)
                .map(|(from, why)| (from, control.trigger, why));
            self.window.length = control.window;
        }
        let next = self.window.length;
        self.emit(Event::WindowExpired {
            at,
            window: ended,
            next,
            max,
        });
        if let Some((from, to, why)) = moved {
            self.emit(Event::TriggerMoved { at, from, to, why });
        }
        self.window.began = at;
        self.begin_window(at);
    }

    fn end_period(&mut self, at: Time) {
        let outcome = self.ledger.end_period();
        match outcome.kept {
            true => self.periods.0 += 1,
            false => self.periods.1 += 1,
        }
        self.period_ends = at.saturating_add(self.config.promise.period);
        self.emit(Event::PeriodEnd { at, outcome });
    }

    /// An admission ends the window early.
    pub(crate) fn restart_window(&mut self) {
        let now = self.now;
        if self.config.align_samples {
            self.next_sample = now.saturating_add(self.config.sample);
            self.sent = 0;
        }
        self.begin_window(now);
    }

    fn begin_window(&mut self, at: Time) {
        self.window = Window {
            ends: at.saturating_add(self.window.length),
            max: None,
            max_delay: None,
            ..self.window
        };
    }
}
