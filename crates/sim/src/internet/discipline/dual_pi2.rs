//! Dual-queue coupled active queue management with PI squared (RFC 9332, appendix A).

use std::collections::VecDeque;

use layercast_core::{Span, Time};

use super::updates::Updates;
use super::{DropCause, Ecn, Item, Port, QueueDiscipline, Setup};

/// What DualPI2 aims at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DualPi2Config {
    /// The delay that the classic queue keeps.
    pub target: Span,
    /// The longest round trip expected; gains and the time between updates follow from it and the target.
    pub rtt_max: Span,
    /// Delay from which packets of the low-latency queue are marked.
    pub threshold: Span,
    /// How much longer the delay is where all of them are marked.
    pub range: Span,
    /// How much more often low-latency packets are marked than classic ones signalled, before the square.
    pub coupling: u8,
    /// Share of the link, in per cent, that the classic queue has at least where both have packets.
    pub classic_share: u8,
}

impl Default for DualPi2Config {
    /// Those of RFC 9332, appendix A.1, and the share of the classic queue of Linux.
    fn default() -> DualPi2Config {
        DualPi2Config {
            target: Span::from_ms(15),
            rtt_max: Span::from_ms(100),
            threshold: Span::from_us(800),
            range: Span::from_us(400),
            coupling: 2,
            classic_share: 10,
        }
    }
}

/// Two FIFO queues with one controller: packets with ECT(1) or CE go to the low-latency one.
#[derive(Debug)]
pub struct DualPi2 {
    config: DualPi2Config,
    mtu: u64,
    /// Updates of the base probability, and its gains, a second.
    updates: Updates,
    alpha: f64,
    beta: f64,
    low: Lane,
    classic: Lane,
    /// The base probability, and the delay at the last update.
    base: f64,
    old_delay: Span,
    /// Bytes by which the low-latency queue is ahead of its share, times a hundred.
    ahead: i64,
}

/// One of the two queues.
#[derive(Default, Debug)]
struct Lane {
    items: VecDeque<Item>,
    marks: Recurrence,
    drops: Recurrence,
}

/// Sum of the probabilities since it was last true.
#[derive(Default, Debug)]
struct Recurrence(f64);

impl Recurrence {
    /// True in this share of the calls, as evenly as possible (RFC 9332, figure 4).
    fn recurs(&mut self, share: f64) -> bool {
        self.0 += share;
        let is_due = self.0 >= 1.0;
        if is_due {
            self.0 -= 1.0;
        }
        is_due
    }
}

impl Lane {
    /// How long its first packet has waited.
    fn delay(&self, now: Time) -> Span {
        self.items
            .front()
            .map_or(Span::ZERO, |it| now.since(it.since()))
    }
}

impl DualPi2 {
    /// For a link.
    pub fn new(config: DualPi2Config, setup: &Setup) -> DualPi2 {
        let rtt_max = config.rtt_max.as_secs_f64();
        let update = config.target.min(Span::from_ps(config.rtt_max.as_ps() / 3));
        DualPi2 {
            config,
            mtu: setup.mtu.into(),
            updates: Updates::new(update),
            alpha: 0.1 * update.as_secs_f64() / (rtt_max * rtt_max),
            beta: 0.3 / rtt_max,
            low: Lane::default(),
            classic: Lane::default(),
            base: 0.0,
            old_delay: Span::ZERO,
            ahead: 0,
        }
    }

    /// Computes what is due since the last packet. The queues were the same meanwhile.
    fn catch_up(&mut self, now: Time) {
        while let Some(at) = self.updates.due(now, self.is_at_rest()) {
            self.update(at);
        }
    }

    /// Another update changes nothing.
    fn is_at_rest(&self) -> bool {
        let is_empty = self.low.items.is_empty() && self.classic.items.is_empty();
        is_empty && self.base == 0.0 && self.old_delay == Span::ZERO
    }

    /// RFC 9332, figure 5: proportional and integral to the longer of both delays.
    fn update(&mut self, at: Time) {
        let delay = self.low.delay(at).max(self.classic.delay(at));
        let seconds = |span: Span| span.as_secs_f64();
        let change = self.alpha * (seconds(delay) - seconds(self.config.target))
            + self.beta * (seconds(delay) - seconds(self.old_delay));
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.old_delay = delay;
    }

    /// The probability of marks of the low-latency queue that follows from the classic one.
    fn coupled(&self) -> f64 {
        f64::from(self.config.coupling) * self.base
    }

    /// The probability of marks of the low-latency queue that follows from its own delay: a ramp (RFC 9332, figure 4).
    fn native(&self, delay: Span) -> f64 {
        let above = delay.saturating_sub(self.config.threshold);
        match self.config.range {
            _ if above == Span::ZERO => 0.0,
            Span::ZERO => 1.0,
            range => (above.as_secs_f64() / range.as_secs_f64()).min(1.0),
        }
    }

    /// Whether the low-latency queue has its turn: it has what the share of the classic one leaves, where both have packets.
    fn is_turn_of_low(&self) -> bool {
        match (self.low.items.front(), self.classic.items.front()) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(_), Some(_)) => self.ahead <= 0,
        }
    }

    /// Counts a packet that leaves a queue while the other one has packets.
    fn account(&mut self, bytes: u32, is_low: bool) {
        let other = if is_low { &self.classic } else { &self.low };
        if other.items.is_empty() {
            self.ahead = 0;
            return;
        }
        let (bytes, share) = (i64::from(bytes), i64::from(self.config.classic_share));
        self.ahead += match is_low {
            true => bytes * share,
            false => -bytes * (100 - share),
        };
    }

    fn next_low(&mut self, now: Time, is_short: bool) -> Option<(Item, Fate)> {
        let delay = self.low.delay(now);
        let mut item = self.low.items.pop_front()?;
        let coupled = match is_short {
            true => 0.0,
            false => self.coupled(),
        };
        // A packet that nothing waits behind is no queue (Th_len).
        let native = match self.low.items.is_empty() {
            true => 0.0,
            false => self.native(delay),
        };
        // More marks are not possible: drops as in the classic queue keep the delay (RFC 9332, figure 6).
        if coupled >= 1.0 && self.low.drops.recurs(self.base * self.base) {
            return Some((item, Fate::Dropped));
        }
        if self.low.marks.recurs(native.max(coupled).min(1.0)) {
            item.mark();
        }
        Some((item, Fate::Sent))
    }

    fn next_classic(&mut self, is_short: bool) -> Option<(Item, Fate)> {
        let mut item = self.classic.items.pop_front()?;
        let probability = self.base * self.base;
        if is_short || !self.classic.drops.recurs(probability) {
            return Some((item, Fate::Sent));
        }
        match self.coupled() < 1.0 && item.mark() {
            true => Some((item, Fate::Sent)),
            false => Some((item, Fate::Dropped)),
        }
    }
}

#[derive(PartialEq)]
enum Fate {
    Sent,
    Dropped,
}

impl QueueDiscipline for DualPi2 {
    fn enqueue(&mut self, item: Item, port: &mut Port<'_>) {
        self.catch_up(port.now());
        if port.is_over_limit() {
            return port.drop(item, DropCause::Full);
        }
        match self.band(&item) {
            0 => self.low.items.push_back(item),
            _ => self.classic.items.push_back(item),
        }
    }

    fn bands(&self) -> Vec<String> {
        vec!["low latency".to_owned(), "classic".to_owned()]
    }

    fn band(&self, item: &Item) -> usize {
        match item.ecn_before() {
            Ecn::Capable1 | Ecn::Congested => 0,
            Ecn::NotCapable | Ecn::Capable0 => 1,
        }
    }

    fn dequeue(&mut self, port: &mut Port<'_>) -> Option<Item> {
        let now = port.now();
        self.catch_up(now);
        loop {
            // Less than two packets are no queue to signal (as in Linux).
            let is_short = port.bytes() < 2 * self.mtu;
            let is_low = self.is_turn_of_low();
            let (item, fate) = match is_low {
                true => self.next_low(now, is_short)?,
                false => self.next_classic(is_short)?,
            };
            if fate == Fate::Dropped {
                port.drop(item, DropCause::Early);
                continue;
            }
            self.account(item.bytes(), is_low);
            return Some(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{Rate, Stream};

    use super::*;
    use crate::internet::discipline::Inside;
    use crate::internet::discipline::tests::item;
    use crate::internet::limit::Limit;

    const LOW: Ecn = Ecn::Capable1;

    fn dual_pi2() -> DualPi2 {
        let setup = Setup {
            rate: Rate::from_bps(10_000_000),
            mtu: 1_250,
            limit: Limit::Unlimited,
            salt: 0,
        };
        DualPi2::new(DualPi2Config::default(), &setup)
    }

    /// This many packets of each kind come at one instant; this many leave. Numbers sent and dropped, of low latency and classic.
    fn pass(mut queue: DualPi2, kinds: &[Ecn], each: u32, leave: usize) -> (Vec<Item>, Vec<Item>) {
        let now = Time::ZERO;
        let (mut inside, mut random, mut dropped) =
            (Inside::default(), Stream::new(1, "dualpi2"), Vec::new());
        let terms = (now, Rate::from_bps(10_000_000), Limit::Unlimited, None);
        for n in 0..each {
            for (kind, &ecn) in (1..).zip(kinds) {
                inside.add(1_250);
                let mut port = Port::new(terms, &mut inside, &mut random, &mut dropped);
                let item = item(now, n, 1_250, kind);
                queue.enqueue(
                    Item {
                        ecn,
                        came: ecn,
                        ..item
                    },
                    &mut port,
                );
            }
        }
        let mut sent = Vec::new();
        for _ in 0..leave {
            let mut port = Port::new(terms, &mut inside, &mut random, &mut dropped);
            if let Some(item) = queue.dequeue(&mut port) {
                inside.remove(item.bytes());
                sent.push(item);
            }
        }
        (sent, dropped.into_iter().map(|it| it.0).collect())
    }

    /// RFC 9332, figure 5, for a first packet that never leaves.
    #[test]
    fn the_base_probability_follows_the_controller() {
        let mut queue = dual_pi2();
        queue.classic.items.push_back(item(Time::ZERO, 0, 1_250, 1));
        for n in 1..=9_u32 {
            queue.catch_up(Time::ZERO + Span::from_ms(15 * u64::from(n)));
            // The delay is n times 15 ms. Gains of 0.15 and 3 a second.
            let n = f64::from(n);
            let sum = 0.15 * 0.015 * n * (n - 1.0) / 2.0 + 3.0 * 0.015 * n;
            assert!(
                (queue.base - sum).abs() < 1e-12,
                "{n}: {} {sum}",
                queue.base
            );
        }
        // Empty, it returns to nothing, also after hours.
        queue.classic.items.clear();
        let later = Time::ZERO + Span::from_secs(8_000_000);
        queue.catch_up(later);
        assert_eq!((queue.base, queue.old_delay), (0.0, Span::ZERO));
        assert!(queue.updates.next > later);
    }

    /// RFC 9332 2.1: one base probability, its double for marks of low latency, its square for classic packets.
    #[test]
    fn signals_of_both_queues_are_coupled() {
        let at_base = |kind, base| {
            let queue = DualPi2 { base, ..dual_pi2() };
            let (sent, dropped) = pass(queue, &[kind], 1_000, 990);
            let marks: Vec<usize> = (0..sent.len())
                .filter(|&n| sent[n].ecn() == Ecn::Congested)
                .collect();
            (marks, dropped.len())
        };
        let (marks, dropped) = at_base(LOW, 0.2);
        assert!(
            (395..=397).contains(&marks.len()) && dropped == 0,
            "{marks:?}"
        );
        assert!(marks.windows(2).all(|it| it[1] - it[0] <= 3), "{marks:?}");
        let (marks, dropped) = at_base(Ecn::Capable0, 0.2);
        assert!(
            (38..=40).contains(&marks.len()) && dropped == 0,
            "{marks:?}"
        );
        let (marks, dropped) = at_base(Ecn::NotCapable, 0.2);
        assert!(
            marks.is_empty() && (38..=41).contains(&dropped),
            "{dropped}"
        );
        // Above a half marks say no more: both are dropped with the square, and low-latency packets that are left are marked.
        let (marks, dropped) = at_base(LOW, 0.6);
        assert_eq!(dropped, 359);
        assert!(marks.len() > 630, "{}", marks.len());
        let (marks, dropped) = at_base(Ecn::Capable0, 0.6);
        assert_eq!((marks.len(), dropped), (0, 359));
    }

    #[test]
    fn the_classic_queue_keeps_its_share() {
        let (sent, _) = pass(dual_pi2(), &[LOW, Ecn::Capable0], 1_000, 1_000);
        let low = sent.iter().filter(|it| it.ecn_before() == LOW).count();
        assert!((899..=901).contains(&low), "{low}");
    }

    #[test]
    fn marks_of_the_low_latency_queue_are_a_ramp() {
        let queue = dual_pi2();
        let native = |us| queue.native(Span::from_us(us));
        assert_eq!([0, 800, 1_200, 9_999].map(native), [0.0, 0.0, 1.0, 1.0]);
        assert!((native(900) - 0.25).abs() < 1e-9);
        let mut step = dual_pi2();
        step.config.range = Span::ZERO;
        assert_eq!(step.native(Span::from_us(801)), 1.0);
        assert_eq!(step.native(Span::from_us(800)), 0.0);
    }
}
