use std::collections::VecDeque;

use layercast_core::{Rate, Span, Stream, Time, prefetch};

use super::report::MeanSpan;
use super::{Limit, Queue, QueueReport, Red};

/// A FIFO queue, the link behind it, and what is under way on it.
///
/// Who comes first leaves first, so that all about a packet is known when it comes: it costs one event,
/// its arrival.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub name: String,
    rate: Rate,
    delay: Span,
    pub mtu: u32,
    limit: Limit,
    red: Option<RedState>,
    loss: f64,
    chance: Stream,
    /// When it has sent all that is waiting.
    busy_until: Time,
    /// When those that wait start to be sent, and their bytes.
    waiting: VecDeque<(Time, u32)>,
    waiting_bytes: u64,
    /// How long the last packet took to send: most are as long as the one before.
    last: (u32, Span),
    counts: Counts,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    offered: u64,
    bytes: u64,
    full: u64,
    early: u64,
    lost: u64,
    /// Time to send all that was accepted.
    busy: u128,
    seen: u64,
    wait: MeanSpan,
    max_waiting: u32,
}

/// What became of a packet that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offered {
    /// It will arrive then.
    Arrives(Time),
    /// It is sent and gets lost.
    Lost,
    /// There is no room for it.
    Dropped,
}

impl Pipe {
    pub fn new(name: String, rate: Rate, delay: Span, mtu: u32, seed: u64) -> Pipe {
        let chance = Stream::new(seed, &format!("pipe/{name}"));
        Pipe {
            name,
            rate,
            delay,
            mtu,
            limit: Limit::Unlimited,
            red: None,
            loss: 0.0,
            chance,
            busy_until: Time::ZERO,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            last: (0, rate.time_for(0)),
            counts: Counts::default(),
        }
    }

    pub fn with_queue(mut self, queue: Queue, loss: f64) -> Pipe {
        self.limit = queue.limit;
        self.red = queue.red.map(RedState::new);
        self.loss = loss;
        self
    }

    /// A packet is offered soon.
    #[inline]
    pub fn prepare_queue(&self) {
        for end in [self.waiting.front(), self.waiting.back()] {
            end.map(prefetch);
        }
    }

    /// Takes a packet of so many bytes.
    #[inline]
    pub fn offer(&mut self, now: Time, bytes: u32) -> Offered {
        // At one instant what leaves the queue does so before what comes.
        while let Some(&(start, bytes)) = self.waiting.front()
            && start <= now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(bytes);
        }
        let waiting = self.waiting.len() as u32;
        self.counts.offered += 1;
        self.counts.seen += u64::from(waiting);
        if bytes != self.last.0 {
            self.last = (bytes, self.rate.time_for(u64::from(bytes)));
        }
        let sending = self.last.1;
        let idle = now.since(self.busy_until);
        if let Some(red) = &mut self.red
            && red.drops(waiting, idle, sending, &mut self.chance)
        {
            self.counts.early += 1;
            return Offered::Dropped;
        }
        let start = self.busy_until.max(now);
        let full = match self.limit {
            Limit::Unlimited => false,
            Limit::Packets(limit) => waiting >= limit,
            Limit::Bytes(limit) => self.waiting_bytes + u64::from(bytes) > limit,
        };
        if full && start > now {
            self.counts.full += 1;
            return Offered::Dropped;
        }
        if start > now {
            self.waiting.push_back((start, bytes));
            self.waiting_bytes += u64::from(bytes);
            self.counts.max_waiting = self.counts.max_waiting.max(waiting + 1);
        }
        self.counts.wait.add(start.since(now));
        self.counts.bytes += u64::from(bytes);
        self.counts.busy += u128::from(sending.as_ps());
        self.busy_until = start.saturating_add(sending);
        if self.loss > 0.0 && self.chance.chance(self.loss) {
            self.counts.lost += 1;
            return Offered::Lost;
        }
        Offered::Arrives(self.busy_until.saturating_add(self.delay))
    }

    /// Forgets what was counted until now.
    pub fn restart(&mut self, now: Time) {
        self.counts = Counts {
            busy: u128::from(self.busy_until.since(now).as_ps()),
            ..Counts::default()
        };
    }

    pub fn report(&self, now: Time, since: Time) -> QueueReport {
        let counts = &self.counts;
        let to_come = u128::from(self.busy_until.since(now).as_ps());
        let busy = counts.busy.saturating_sub(to_come);
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        QueueReport {
            name: self.name.clone(),
            offered: counts.offered,
            sent: counts.offered - counts.full - counts.early,
            bytes: counts.bytes,
            dropped_full: counts.full,
            dropped_red: counts.early,
            lost: counts.lost,
            utilisation: ratio(busy as f64, now.since(since).as_ps() as f64),
            mean_waiting: ratio(counts.seen as f64, counts.offered as f64),
            mean_wait: counts.wait.seconds(),
            max_waiting: counts.max_waiting,
        }
    }
}

/// Random early detection (Floyd and Jacobson 1993).
#[derive(Debug)]
struct RedState {
    red: Red,
    average: f64,
    /// Packets since the last one that was dropped; none while the average is low.
    since: Option<u32>,
}

impl RedState {
    fn new(red: Red) -> RedState {
        RedState {
            red,
            average: 0.0,
            since: None,
        }
    }

    /// Whether a packet is dropped that finds so many waiting; with none, the link may have been idle.
    fn drops(&mut self, waiting: u32, idle: Span, sending: Span, chance: &mut Stream) -> bool {
        let Red {
            min,
            max,
            max_p,
            weight,
            gentle,
        } = self.red;
        // As if so many small samples of zero had been taken: what the link could have sent meanwhile.
        if idle > Span::ZERO && sending > Span::ZERO {
            let missed = idle.as_ps() as f64 / sending.as_ps() as f64;
            self.average *= libm::pow(1.0 - weight, missed);
        }
        self.average += weight * (f64::from(waiting) - self.average);
        // As in ns-2, whose RED is Floyd's: the average lags, and who finds at most one waiting is no congestion.
        let probability = if self.average < min || waiting <= 1 {
            self.since = None;
            return false;
        } else if self.average < max {
            max_p * (self.average - min) / (max - min)
        } else if gentle && self.average < 2.0 * max {
            max_p + (1.0 - max_p) * (self.average - max) / max
        } else {
            self.since = Some(0);
            return true;
        };
        let since = self.since.map_or(0, |count| count + 1);
        self.since = Some(since);
        // Drops evenly spread: uniform between them, not geometric.
        let spread = 1.0 - f64::from(since) * probability;
        if spread <= 0.0 || chance.chance(probability / spread) {
            self.since = Some(0);
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an endless queue takes may be years to send.
    #[test]
    fn more_can_wait_than_time_lasts() {
        let mut pipe = Pipe::new("slow".into(), Rate::from_bps(1), Span::ZERO, 1_500, 1);
        for _ in 0..2_000 {
            pipe.offer(Time::ZERO, 1_500);
        }
        let report = pipe.report(Time::ZERO, Time::ZERO);
        assert_eq!((report.sent, report.max_waiting), (2_000, 1_999));
    }

    #[test]
    fn red_spares_who_finds_hardly_anyone_waiting() {
        let mut red = RedState::new(Red {
            min: 5.0,
            max: 15.0,
            max_p: 0.1,
            weight: 1e-9,
            gentle: true,
        });
        red.average = 10.0;
        let mut chance = Stream::new(1, "test");
        let mut dropped = |waiting| {
            let drops = (0..1_000)
                .filter(|_| red.drops(waiting, Span::ZERO, Span::from_us(1), &mut chance));
            drops.count()
        };
        assert_eq!((dropped(0), dropped(1)), (0, 0));
        // Uniform between 1 and 1 / 0.05 packets apart (Floyd and Jacobson 1993, 7): 10.5 in the mean.
        let many = dropped(2);
        assert!((80..=110).contains(&many), "{many}");
    }
}
