//! Proportional integral controller enhanced (RFC 8033).

use std::collections::VecDeque;

use layercast_core::{Rate, Span, Time};

use super::updates::Updates;
use super::{DropCause, Item, Port, QueueDiscipline, Setup};

/// What PIE aims at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieConfig {
    /// The delay that it keeps.
    pub target: Span,
    /// How often the probability of drops is computed.
    pub update: Span,
    /// For how long a queue that was short may be long.
    pub burst: Span,
    /// ECN-capable packets are marked instead of dropped, while the probability is below a tenth.
    pub ecn: bool,
}

impl Default for PieConfig {
    /// Those of RFC 8033 4.
    fn default() -> PieConfig {
        PieConfig {
            target: Span::from_ms(15),
            update: Span::from_ms(15),
            burst: Span::from_ms(150),
            ecn: false,
        }
    }
}

/// Gain for the delay above the target, a second (RFC 8033 4.2).
const ALPHA: f64 = 0.125;
/// Gain for the growth of the delay, a second.
const BETA: f64 = 1.25;
/// Above this probability it drops all, whether they may be marked or not (RFC 8033 5.1).
const MARKS_BELOW: f64 = 0.1;

/// A FIFO queue whose packets are dropped at random as they come.
#[derive(Debug)]
pub struct Pie {
    config: PieConfig,
    rate: Rate,
    mtu: u64,
    queue: VecDeque<Item>,
    bytes: u64,
    probability: f64,
    old_delay: Span,
    burst_left: Span,
    updates: Updates,
}

impl Pie {
    /// For a link.
    pub fn new(config: PieConfig, setup: &Setup) -> Pie {
        Pie {
            config,
            rate: setup.rate,
            mtu: setup.mtu.into(),
            queue: VecDeque::new(),
            bytes: 0,
            probability: 0.0,
            old_delay: Span::ZERO,
            burst_left: config.burst,
            updates: Updates::new(config.update),
        }
    }

    /// How long the last packet waits: the rate at which the queue drains is known (RFC 8033 4.3).
    fn delay(&self) -> Span {
        self.rate.time_for(self.bytes)
    }

    fn is_short(&self, delay: Span) -> bool {
        delay.times(2) < self.config.target
    }

    /// Computes what is due since the last packet. The queue was the same meanwhile.
    fn catch_up(&mut self, now: Time) {
        while self.updates.due(now, self.is_at_rest()).is_some() {
            self.update();
        }
    }

    /// Another update changes nothing.
    fn is_at_rest(&self) -> bool {
        self.probability == 0.0
            && self.bytes == 0
            && self.old_delay == Span::ZERO
            && self.burst_left == Span::ZERO
    }

    /// RFC 8033 4.2.
    fn update(&mut self) {
        let delay = self.delay();
        let seconds = |span: Span| span.as_secs_f64();
        let change = ALPHA * (seconds(delay) - seconds(self.config.target))
            + BETA * (seconds(delay) - seconds(self.old_delay));
        let divisor = match self.probability {
            p if p < 0.000_001 => 2_048.0,
            p if p < 0.000_01 => 512.0,
            p if p < 0.000_1 => 128.0,
            p if p < 0.001 => 32.0,
            p if p < 0.01 => 8.0,
            p if p < 0.1 => 2.0,
            _ => 1.0,
        };
        // A large probability grows by steps of two per cent (5.5).
        let most = if self.probability >= 0.1 { 0.02 } else { 1.0 };
        self.probability += (change / divisor).min(most);
        if delay == Span::ZERO && self.old_delay == Span::ZERO {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.old_delay = delay;
        self.burst_left = self.burst_left.saturating_sub(self.config.update);
    }

    /// Whether a packet that comes is to tell of congestion (RFC 8033 4.1).
    fn signals(&self, port: &mut Port<'_>) -> bool {
        if self.burst_left > Span::ZERO {
            return false;
        }
        // So that the link is never idle for it.
        let is_idle = self.is_short(self.old_delay) && self.probability < 0.2;
        if is_idle || self.bytes <= 2 * self.mtu {
            return false;
        }
        port.random() < self.probability
    }
}

impl QueueDiscipline for Pie {
    fn enqueue(&mut self, mut item: Item, port: &mut Port<'_>) {
        self.catch_up(port.now());
        if port.is_over_limit() {
            return port.drop(item, DropCause::Full);
        }
        if self.signals(port) {
            let marks = self.config.ecn && self.probability < MARKS_BELOW;
            if !marks || !item.mark() {
                return port.drop(item, DropCause::Early);
            }
        }
        if self.probability == 0.0 && self.is_short(self.delay()) && self.is_short(self.old_delay) {
            self.burst_left = self.config.burst;
        }
        self.bytes += u64::from(item.bytes());
        self.queue.push_back(item);
    }

    fn dequeue(&mut self, port: &mut Port<'_>) -> Option<Item> {
        self.catch_up(port.now());
        let item = self.queue.pop_front()?;
        self.bytes -= u64::from(item.bytes());
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internet::limit::Limit;

    /// In front of a link of 10 Mbit/s.
    fn pie(bytes: u64) -> Pie {
        let setup = Setup {
            rate: Rate::from_bps(10_000_000),
            mtu: 1_250,
            limit: Limit::Unlimited,
            salt: 0,
        };
        let pie = Pie::new(PieConfig::default(), &setup);
        Pie { bytes, ..pie }
    }

    /// The probability of a constant delay grows by alpha (delay - target) an update, scaled by its magnitude (RFC 8033 4.2).
    #[test]
    fn the_probability_follows_the_controller() {
        // 20 ms.
        let mut pie = pie(25_000);
        let (mut expected, mut old) = (0.0_f64, 0.0);
        let mut updates = 0;
        while expected < 0.2 {
            pie.update();
            let scale = match expected {
                p if p < 1e-6 => 2_048.0,
                p if p < 1e-5 => 512.0,
                p if p < 1e-4 => 128.0,
                p if p < 1e-3 => 32.0,
                p if p < 1e-2 => 8.0,
                p if p < 1e-1 => 2.0,
                _ => 1.0,
            };
            expected += (0.125 * (0.020 - 0.015) + 1.25 * (0.020 - old)) / scale;
            old = 0.020;
            assert!((pie.probability - expected).abs() < 1e-9);
            updates += 1;
        }
        assert!((300..1_500).contains(&updates), "{updates}");
        // Empty, it decays to nothing.
        pie.bytes = 0;
        (0..1_000).for_each(|_| pie.update());
        assert!(pie.is_at_rest());
    }

    /// What is computed when a packet comes is what a timer would have computed, be it after hours.
    #[test]
    fn it_catches_up_as_if_it_had_a_timer() {
        for bytes in [0, 25_000] {
            let [mut often, mut once] = [(); 2].map(|()| Pie {
                probability: 0.5,
                ..pie(bytes)
            });
            let at = |ms| Time::ZERO + Span::from_ms(ms);
            (0..=7_501).for_each(|ms| often.catch_up(at(ms)));
            once.catch_up(at(7_501));
            let state = |it: &Pie| (it.probability, it.old_delay, it.burst_left, it.updates);
            assert_eq!(state(&often), state(&once));
            assert_eq!(once.updates.next, at(7_515));
        }
        let mut idle = pie(0);
        idle.catch_up(Time::ZERO + Span::from_secs(8_000_000));
        assert_eq!(
            idle.updates.next,
            Time::ZERO + Span::from_secs(8_000_000) + Span::from_ms(10)
        );
    }
}
