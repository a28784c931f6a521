//! Ports of one node whose paths share a line: a queue there is theirs, and not of other flows.

use std::ops::RangeInclusive;

use layercast_core::{Rate, Span, Time};

/// Time of one sample of the delay, and how many are compared.
const SLOT: Span = Span::from_ms(150);
const SLOTS: usize = 8;
/// Delays on one line differ by this share of their mean, and this, at most.
const ALIKE: (u64, u64) = (1, 4);
const SLACK: Span = Span::from_ms(10);
/// Delays up to this are no queue.
const LEAST: Span = Span::from_ms(20);

/// The line is that of ports of this node alone if they get this share of it: more could not pass there.
const ALONE: RangeInclusive<f64> = 0.85..=1.2;
/// For how long it is known what they get, and the rate of the line.
const FRESH: (Span, Span) = (Span::from_secs(1), Span::from_secs(10));
/// A queue that stays for the first time although they are alone refutes that for the second time.
const REFUTED: (Span, Span) = (Span::from_secs(3), Span::from_secs(20));

/// What a port saw of its path in the last 1.2 s.
#[derive(Clone, Copy, Default, Debug)]
pub struct PathSeen {
    /// Number of the newest slot, on the clock that the ports of a node share.
    slot: u64,
    /// The least delay of each slot beyond the least of all, by slot number modulo their count; `None`: nothing arrived.
    delays: [Option<Span>; SLOTS],
    /// Bit/s that arrive, over about a second.
    arrives: f64,
}

/// What a port knows of others of its node that share its line.
#[derive(Default, Debug)]
pub(super) struct Together {
    seen: PathSeen,
    /// The rate of arrivals over them, and when that was found.
    beside: Option<(Time, f64)>,
    /// The rate of the line, as trains showed it.
    line: Option<(Time, f64)>,
    /// Until when flows of others are known to use it.
    others: Time,
}

impl Together {
    pub fn seen(&self) -> PathSeen {
        self.seen
    }

    /// Takes a delay beyond the least one.
    pub fn saw(&mut self, now: Time, delay: Span) {
        self.seen.saw(now, delay);
    }

    /// Takes the rate of arrivals in a tenth of a second.
    pub fn arrives(&mut self, bps: f64) {
        self.seen.arrives(bps);
    }

    /// Takes what trains show.
    pub fn line(&mut self, now: Time, bps: f64) {
        self.line = Some((now, bps));
    }

    /// The rate of arrivals over ports that share the line.
    pub fn set_beside(&mut self, now: Time, rate: Rate) {
        self.beside = Some((now, rate.as_bps() as f64)).filter(|it| it.1 > 0.0);
    }

    /// Whether a queue is that of ports of this node alone, which stands since then and does not drain.
    pub fn is_alone(&mut self, now: Time, stands: Option<Time>) -> bool {
        let fresh = |it: Option<(Time, f64)>, span| it.filter(|it| now.since(it.0) < span);
        let beside = fresh(self.beside, FRESH.0).filter(|_| now >= self.others);
        let Some((_, beside)) = beside else {
            return false;
        };
        let line = fresh(self.line, FRESH.1).map(|it| it.1);
        let share = |line| (self.seen.arrives + beside) / line;
        let is_alone = line.is_none_or(|line| ALONE.contains(&share(line)));
        // Their rates were cut: a queue of theirs would drain.
        if is_alone && stands.is_some_and(|since| now.since(since) >= REFUTED.0) {
            self.others = now.saturating_add(REFUTED.1);
            return false;
        }
        is_alone
    }
}

impl PathSeen {
    fn saw(&mut self, now: Time, delay: Span) {
        let slot = number(now);
        for passed in (self.slot + 1..=slot).rev().take(SLOTS) {
            self.delays[place(passed)] = None;
        }
        self.slot = self.slot.max(slot);
        let least = &mut self.delays[place(self.slot)];
        *least = Some(least.map_or(delay, |least| least.min(delay)));
    }

    fn arrives(&mut self, bps: f64) {
        self.arrives += (bps - self.arrives) / SLOTS as f64;
    }

    /// Whether the last second had a queue all the time.
    fn waits(&self, now: Time) -> bool {
        let is_long = |it: &Option<Span>| it.is_none_or(|delay| delay > LEAST);
        self.slot + 2 > number(now) && self.delays.iter().all(is_long)
    }

    /// Whether both ports saw the same queue.
    fn is_like(&self, other: &PathSeen) -> bool {
        let (mut sum, mut apart, mut count) = (Span::ZERO, Span::ZERO, 0);
        let newest = self.slot.min(other.slot);
        for slot in newest.saturating_sub(SLOTS as u64 - 2)..=newest {
            let Some((a, b)) = self.delays[place(slot)].zip(other.delays[place(slot)]) else {
                continue;
            };
            sum += a.min(b);
            apart += a.max(b).saturating_sub(a.min(b));
            count += 1;
        }
        count >= SLOTS as u64 / 2 && apart <= sum.mul_div(ALIKE.0, ALIKE.1) + SLACK.times(count)
    }
}

fn number(now: Time) -> u64 {
    now.as_us() / SLOT.as_us()
}

fn place(slot: u64) -> usize {
    slot as usize % SLOTS
}

/// The rate of arrivals over other ports that share a line with each of these; `None` for those that do not wait.
pub fn beside(now: Time, ports: &[PathSeen]) -> Vec<Option<Rate>> {
    let of = |at: usize| {
        let port = ports[at];
        let others = ports.iter().enumerate();
        let alike = others.filter(|(n, other)| *n != at && other.waits(now) && port.is_like(other));
        let bps: f64 = alike.map(|(_, other)| other.arrives).sum();
        port.waits(now).then(|| Rate::from_bps(bps as u64))
    };
    (0..ports.len()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port whose delay is `ms(n)` in the slot `n` of 20.
    fn port(bps: f64, ms: impl Fn(u64) -> u64) -> PathSeen {
        let mut port = PathSeen::default();
        for n in 0..20 {
            port.saw(Time::ZERO + SLOT.times(n), Span::from_ms(ms(n)));
            port.arrives(bps);
        }
        port
    }

    #[test]
    fn ports_that_wait_alike_share_a_line() {
        let saw = |n: u64| 100 + 20 * (n % 7);
        let ports = [
            port(1e6, saw),
            port(2e6, |n| saw(n) + 8),
            port(4e6, |n| 100 + 20 * ((n + 3) % 7)),
            port(8e6, |_| 5),
        ];
        let now = Time::ZERO + SLOT.times(19);
        let found = beside(now, &ports);
        let mbps = |it: Rate| it.as_bps() as f64 / 1e6;
        let mbps: Vec<Option<f64>> = found.into_iter().map(|it| it.map(mbps)).collect();
        assert!(mbps[0].unwrap() > 1.5 && mbps[0].unwrap() < 2.0, "{mbps:?}");
        assert!(mbps[1].unwrap() > 0.7 && mbps[1].unwrap() < 1.0, "{mbps:?}");
        assert_eq!((mbps[2], mbps[3]), (Some(0.0), None));
        let later = now + SLOT.times(3);
        assert!(beside(later, &ports).iter().all(Option::is_none));
    }
}
