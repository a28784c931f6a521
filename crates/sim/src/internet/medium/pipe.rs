use std::collections::VecDeque;

use layercast_core::{Cause, Rate, Span, Stream, Time, prefetch};
use layercast_link::{Fate, Impair, Outages};
use layercast_tcp::Ecn;

use crate::internet::network::{Impairments, Limit, Red, Way};
use crate::internet::report::QueueReport;
use crate::internet::series::QueueState;

/// A FIFO queue, the link behind it, and the packets in transit on it.
///
/// The order is FIFO, so the departure of a packet is known when it arrives: it costs one event, its arrival.
/// The data of each packet are on two cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Pipe {
    /// When it has sent all that is waiting.
    busy_until: Time,
    delay: Span,
    /// Packets that may wait.
    most_waiting: u32,
    /// Of the last packet how many bytes it had and how long it took to send: many are as long as the one before.
    /// Where a byte takes whole picoseconds, [`EACH`] and how many.
    last_bytes: u32,
    last_sending: Span,
    /// When those that wait start to be sent.
    waiting: VecDeque<Time>,
    /// When the last of those arrives that do not enter the next link [immediately](super::paths), though others may.
    pub plain_until: Time,
    max_waiting: u32,
    mtu: u16,
    /// Bytes limit it, packets are impaired on it, or it is RED.
    is_special: bool,
    offered: u64,
    bytes: u64,
    seen: u64,
    /// How long all together waited, but for what is in `more.waited`.
    waited: Span,
    /// How long it had nothing to send between packets.
    idle: Span,
    more: Box<More>,
}

/// This number of bytes is several packets.
const WORTH_WAITING: u64 = 12_000;
/// No packet has this number of bytes.
const EACH: u32 = u32::MAX;

/// What most packets do not need.
#[derive(Debug)]
struct More {
    name: String,
    rate: Rate,
    red: Option<RedState>,
    impair: Option<Impair>,
    /// Packets may leave it in another order than they entered it.
    disorders: bool,
    /// When it is down.
    outages: Outages,
    /// What finds more than that waiting is marked: packets, or bytes with what is left of the packet being sent.
    mark: Option<Limit>,
    /// Most bytes that may wait, what is left of the packet being sent among them.
    most_bytes: Option<u64>,
    /// Since when it counts.
    since: Time,
    full: u64,
    early: u64,
    lost: u64,
    down: u64,
    marked: u64,
    duplicated: u64,
    waited: u128,
    /// What it had done when it began to count again.
    before: Totals,
}

/// What a queue did since the start of the run.
#[derive(Clone, Copy, Default, Debug)]
struct Totals {
    bytes: u64,
    dropped: u64,
    lost: u64,
    down: u64,
    marked: u64,
}

/// What became of a packet that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offered {
    /// It will arrive then.
    Arrives(Time),
    /// A copy and it will arrive then.
    Twice([Time; 2]),
    /// It is sent and gets lost.
    Lost,
    /// It is sent and comes to the end while the link is down.
    Down,
    /// There is no room for it.
    Full,
    /// RED drops it.
    Early,
}

impl Offered {
    /// Whether its transmission begins, at the end of which it may be lost.
    pub fn is_sent(self) -> bool {
        !matches!(self, Offered::Full | Offered::Early)
    }

    /// Why it does not arrive, if it does not.
    pub fn cause(self) -> Cause {
        match self {
            Offered::Arrives(_) | Offered::Twice(_) | Offered::Lost => Cause::LinkLoss,
            Offered::Down => Cause::LinkDown,
            Offered::Full => Cause::QueueFull,
            Offered::Early => Cause::EarlyDrop,
        }
    }
}

impl Pipe {
    pub fn new(name: String, rate: Rate, delay: Span, mtu: u32) -> Pipe {
        // No IP packet is longer.
        let mtu = mtu.min(u16::MAX.into()) as u16;
        let byte = rate.time_for(1);
        let most = u64::from(u16::MAX);
        let is_whole = byte.times(most) == rate.time_for(most);
        Pipe {
            busy_until: Time::ZERO,
            delay,
            most_waiting: u32::MAX,
            last_bytes: if is_whole { EACH } else { 0 },
            last_sending: if is_whole { byte } else { Span::ZERO },
            waiting: VecDeque::new(),
            plain_until: Time::ZERO,
            max_waiting: 0,
            mtu,
            is_special: false,
            offered: 0,
            bytes: 0,
            seen: 0,
            waited: Span::ZERO,
            idle: Span::ZERO,
            more: Box::new(More {
                name,
                rate,
                red: None,
                impair: None,
                disorders: false,
                outages: Outages::default(),
                mark: None,
                most_bytes: None,
                since: Time::ZERO,
                full: 0,
                early: 0,
                lost: 0,
                down: 0,
                marked: 0,
                duplicated: 0,
                waited: 0,
                before: Totals::default(),
            }),
        }
    }

    /// With the queue and the impairments of this direction; what is random follows from the seed and a name of the link alone.
    pub fn with_way(mut self, Way { queue, impair, .. }: Way, (seed, line): (u64, &str)) -> Pipe {
        match queue.limit {
            Limit::Unlimited => {}
            Limit::Packets(limit) => self.most_waiting = limit,
            Limit::Bytes(limit) => self.more.most_bytes = Some(limit),
        }
        let red = |red| RedState::new(red, Stream::new(seed, &format!("link/{line}/red")));
        self.more.red = queue.red.map(red);
        self.more.mark = queue.mark;
        let is_impaired = impair != Impairments::default();
        self.more.impair = is_impaired.then(|| Impair::new(impair.over(self.delay), seed, line));
        self.more.disorders = impair.reorder || impair.duplicate > 0.0;
        self.find_out();
        self
    }

    /// With the times at which it is down.
    pub fn with_outages(mut self, outages: Outages) -> Pipe {
        self.more.outages = outages;
        self.find_out();
        self
    }

    /// Any number of packets may wait: what enters is bounded elsewhere.
    pub fn take_all(&mut self) {
        self.most_waiting = u32::MAX;
        self.more.most_bytes = None;
        self.find_out();
    }

    fn find_out(&mut self) {
        let more = &self.more;
        let is_impaired = more.impair.is_some() || !more.outages.is_empty();
        self.is_special = more.most_bytes.is_some() || more.is_active() || is_impaired;
    }

    /// How many bytes it has yet to send.
    pub fn bytes_left(&self, now: Time) -> u64 {
        self.more.rate.bytes_in(self.busy_until.since(now))
    }

    pub fn mtu(&self) -> u32 {
        self.mtu.into()
    }

    /// Whether packets may leave it twice, or in another order than they entered it.
    pub fn disorders(&self) -> bool {
        self.more.disorders
    }

    /// The shortest time a bit is under way.
    pub fn delay(&self) -> Span {
        self.delay
    }

    /// Bits a second.
    pub fn rate(&self) -> Rate {
        self.more.rate
    }

    /// Whether many packets leave it in the time of its delay.
    pub fn is_worth_waiting(&self) -> bool {
        self.more.rate.time_for(WORTH_WAITING) <= self.delay
    }

    /// The number of packets of `bits` bits that it sends in a second.
    pub fn packets_a_second(&self, bits: f64) -> f64 {
        self.more.rate.as_bps() as f64 / bits
    }

    /// When it has sent all it was offered.
    pub fn free_from(&self) -> Time {
        self.busy_until
    }

    pub fn name(&self) -> &str {
        &self.more.name
    }

    /// A packet is offered soon.
    #[inline]
    pub fn prepare_queue(&self) {
        for end in [self.waiting.front(), self.waiting.back()] {
            end.map(prefetch);
        }
    }

    /// Takes a packet of `bytes` bytes, and marks it if it is to be marked.
    #[inline(always)]
    pub fn offer(&mut self, now: Time, bytes: u32, ecn: &mut Ecn) -> Offered {
        // At one instant, departures from the queue precede arrivals.
        while let Some(&start) = self.waiting.front()
            && start <= now
        {
            self.waiting.pop_front();
        }
        let waiting = self.waiting.len() as u32;
        self.offered += 1;
        self.seen += u64::from(waiting);
        let sending = self.time_for(bytes);
        let mut full = waiting >= self.most_waiting;
        let mut is_marked = false;
        if self.is_special {
            let idle = now.since(self.busy_until);
            let more = &mut *self.more;
            if let Some(red) = &mut more.red {
                match red.judge(waiting, idle, sending) {
                    Judged::Takes => {}
                    // Above the upper threshold it drops, so that none is kept by calling itself capable (RFC 3168 7).
                    Judged::Signals if red.red.ecn && ecn.is_capable() => is_marked = true,
                    Judged::Signals | Judged::Drops => {
                        more.early += 1;
                        return Offered::Early;
                    }
                }
            }
            let left = |more: &More| more.rate.bytes_in(self.busy_until.since(now));
            is_marked |= match more.mark {
                Some(Limit::Packets(most)) => ecn.is_capable() && waiting > most,
                Some(Limit::Bytes(most)) => ecn.is_capable() && left(more) > most,
                Some(Limit::Unlimited) | None => false,
            };
            if let Some(most) = more.most_bytes {
                full |= left(more).saturating_add(bytes.into()) > most;
            }
        }
        let start = if self.busy_until > now {
            if full {
                self.more.full += 1;
                return Offered::Full;
            }
            self.wait(now, waiting);
            self.busy_until
        } else {
            self.idle += now.since(self.busy_until);
            now
        };
        if is_marked {
            self.more.marked += 1;
            *ecn = Ecn::Congested;
        }
        self.bytes += u64::from(bytes);
        self.busy_until = start.saturating_add(sending);
        if self.is_special {
            return self.fate(self.busy_until);
        }
        Offered::Arrives(self.busy_until.saturating_add(self.delay))
    }

    /// A packet was copied on it.
    pub fn copied(&mut self) {
        self.more.duplicated += 1;
    }

    /// A packet that it delivers comes to its end while the nodes there find it down.
    pub fn fell(&mut self) {
        self.more.down += 1;
    }

    /// What becomes of a packet whose last bit leaves then.
    fn fate(&mut self, ready: Time) -> Offered {
        let more = &mut *self.more;
        let fate = match &mut more.impair {
            Some(impair) => impair.fate(ready),
            None => Fate::Arrives(self.busy_until.saturating_add(self.delay)),
        };
        let is_up = |at: &Time| !more.outages.cover(*at);
        let offered = match fate {
            Fate::Lost => Offered::Lost,
            Fate::Twice(times) if times.iter().all(is_up) => Offered::Twice(times),
            Fate::Arrives(at) if is_up(&at) => Offered::Arrives(at),
            Fate::Arrives(_) => Offered::Down,
            // One of the two gets through, or none.
            Fate::Twice(times) => match times.into_iter().find(is_up) {
                Some(at) => Offered::Arrives(at),
                None => Offered::Down,
            },
        };
        more.lost += u64::from(offered == Offered::Lost);
        more.down += u64::from(offered == Offered::Down);
        offered
    }

    /// Takes a packet of `bytes` bytes from a sender that has the line for itself and sends its last bit at `ready`.
    #[inline]
    pub fn pass(&mut self, ready: Time, bytes: u32) -> Offered {
        self.offered += 1;
        self.bytes += u64::from(bytes);
        let sending = self.time_for(bytes);
        self.idle += ready.saturating_sub(sending).since(self.busy_until);
        self.busy_until = self.busy_until.max(ready);
        if self.is_special {
            return self.fate(ready);
        }
        Offered::Arrives(self.busy_until.saturating_add(self.delay))
    }

    #[inline(always)]
    fn time_for(&mut self, bytes: u32) -> Span {
        if self.last_bytes == EACH {
            return self.last_sending.times(bytes.into());
        }
        if bytes != self.last_bytes {
            self.last_bytes = bytes;
            self.last_sending = self.more.rate.time_for(bytes.into());
        }
        self.last_sending
    }

    /// A packet waits behind a number of others.
    #[inline(always)]
    fn wait(&mut self, now: Time, waiting: u32) {
        self.waiting.push_back(self.busy_until);
        self.max_waiting = self.max_waiting.max(waiting + 1);
        let waits = self.busy_until.since(now);
        self.waited = match self.waited.as_ps().checked_add(waits.as_ps()) {
            Some(waited) => Span::from_ps(waited),
            None => {
                self.more.waited += u128::from(self.waited.as_ps());
                waits
            }
        };
    }

    /// Forgets what was counted until now.
    pub fn restart(&mut self, now: Time) {
        self.more.before = self.totals();
        (self.offered, self.bytes, self.seen, self.max_waiting) = (0, 0, 0, 0);
        (self.waited, self.idle) = (Span::ZERO, Span::ZERO);
        let more = &mut *self.more;
        (more.full, more.early, more.waited) = (0, 0, 0);
        (more.lost, more.down) = (0, 0);
        (more.marked, more.duplicated) = (0, 0);
        // A pause still open now counts as one from its start, which is after the last transmission.
        more.since = self.busy_until.min(now);
    }

    fn totals(&self) -> Totals {
        let more = &*self.more;
        Totals {
            bytes: more.before.bytes + self.bytes,
            dropped: more.before.dropped + more.full + more.early,
            lost: more.before.lost + more.lost,
            down: more.before.down + more.down,
            marked: more.before.marked + more.marked,
        }
    }

    /// What it is now, for a series, and how many bytes it has sent since the start of the run.
    pub fn state(&self, now: Time) -> (QueueState, u64) {
        let Totals {
            bytes,
            dropped,
            lost,
            down,
            marked,
        } = self.totals();
        let left = self.bytes_left(now);
        let begun = self.waiting.partition_point(|&start| start <= now);
        let state = QueueState {
            waiting: (self.waiting.len() - begun) as u64,
            bytes: Some(left),
            dropped,
            lost,
            down,
            marked,
        };
        (state, bytes.saturating_sub(left))
    }

    pub fn report(&self, now: Time, since: Time) -> QueueReport {
        let more = &*self.more;
        let to_come = self.busy_until.since(now);
        let counted = self.busy_until.since(more.since);
        let busy = counted.saturating_sub(self.idle).saturating_sub(to_come);
        let sent = self.offered - more.full - more.early;
        let waited = more.waited + u128::from(self.waited.as_ps());
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        QueueReport {
            name: more.name.clone(),
            offered: self.offered,
            sent,
            bytes: self.bytes,
            dropped_full: more.full,
            dropped_red: more.early,
            lost: more.lost,
            down: more.down,
            marked: more.marked,
            duplicated: more.duplicated,
            utilisation: ratio(busy.as_ps() as f64, now.since(since).as_ps() as f64),
            mean_waiting: ratio(self.seen as f64, self.offered as f64),
            mean_wait: match sent {
                0 => 0.0,
                sent => waited as f64 / sent as f64 / 1e12,
            },
            max_waiting: self.max_waiting,
            discipline: None,
        }
    }
}

impl More {
    /// Whether packets that find room are dropped or marked.
    fn is_active(&self) -> bool {
        self.red.is_some() || self.mark.is_some()
    }
}

/// What RED does with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judged {
    Takes,
    /// A packet that may be marked is marked, another one dropped.
    Signals,
    /// The average is above the upper threshold.
    Drops,
}

/// Random early detection (Floyd and Jacobson 1993).
#[derive(Debug)]
struct RedState {
    red: Red,
    average: f64,
    /// Packets since the last one that was dropped; none while the average is low.
    since: Option<u32>,
    random: Stream,
}

impl RedState {
    fn new(red: Red, random: Stream) -> RedState {
        RedState {
            red,
            random,
            average: 0.0,
            since: None,
        }
    }

    /// Judges a packet that finds `waiting` packets; with none, the link may have been idle.
    fn judge(&mut self, waiting: u32, idle: Span, sending: Span) -> Judged {
        let Red {
            min,
            max,
            max_p,
            weight,
            gentle,
            ecn: _,
        } = self.red;
        // As if small samples of zero had been taken for each packet that the link could have sent meanwhile.
        if idle > Span::ZERO && sending > Span::ZERO {
            let missed = idle.as_ps() as f64 / sending.as_ps() as f64;
            self.average *= libm::pow(1.0 - weight, missed);
        }
        self.average += weight * (f64::from(waiting) - self.average);
        // As in ns-2, whose RED is Floyd's: the average lags, and a packet that finds at most one waiting is no
        // congestion.
        let probability = if self.average < min || waiting <= 1 {
            self.since = None;
            return Judged::Takes;
        } else if self.average < max {
            max_p * (self.average - min) / (max - min)
        } else if gentle && self.average < 2.0 * max {
            max_p + (1.0 - max_p) * (self.average - max) / max
        } else {
            self.since = Some(0);
            return Judged::Drops;
        };
        let since = self.since.map_or(0, |count| count + 1);
        self.since = Some(since);
        // Drops evenly spread: uniform between them, not geometric.
        let spread = 1.0 - f64::from(since) * probability;
        if spread <= 0.0 || self.random.chance(probability / spread) {
            self.since = Some(0);
            return Judged::Signals;
        }
        Judged::Takes
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::quantity::Quantity as _;
    use layercast_core::{Machine, Off};
    use layercast_link::{Jitter, Link, LinkInput, Loss};
    use proptest::prelude::*;

    use super::*;
    use crate::internet::network::Queue;

    #[test]
    fn two_lines_hold_what_a_packet_needs() {
        assert_eq!(size_of::<Pipe>(), 128);
    }

    /// What an endless queue takes may be years to send.
    #[test]
    fn more_can_wait_than_time_lasts() {
        let mut pipe = Pipe::new("slow".into(), Rate::from_bps(1), Span::ZERO, 1_500);
        for _ in 0..2_000 {
            pipe.offer(Time::ZERO, 1_500, &mut Ecn::NotCapable);
        }
        let report = pipe.report(Time::ZERO, Time::ZERO);
        assert_eq!((report.sent, report.max_waiting), (2_000, 1_999));
    }

    /// 8 Mbit/s: a byte takes a microsecond.
    fn bounded(queue: Queue, loss: f64) -> Pipe {
        let rate = Rate::from_bps(8_000_000);
        let pipe = Pipe::new("a->b".into(), rate, Span::ZERO, 1_500);
        let way = Way {
            rate,
            queue,
            impair: Impairments::losing(loss),
        };
        pipe.with_way(way, (1, "a->b"))
    }

    fn plain(rate: Rate, queue: Queue) -> Way {
        let impair = Impairments::default();
        Way {
            rate,
            queue,
            impair,
        }
    }

    #[test]
    fn a_bound_in_bytes_counts_what_is_left_of_the_packet_being_sent() {
        let limit = Limit::Bytes(2_000);
        let queue = Queue {
            limit,
            red: None,
            mark: None,
        };
        let mut pipe = bounded(queue, 0.0);
        let at = |us| Time::ZERO + Span::from_us(us);
        let mut no_ecn = Ecn::NotCapable;
        let fits = |offered| matches!(offered, Offered::Arrives(_));
        assert!(fits(pipe.offer(at(0), 1_000, &mut no_ecn)));
        assert!(
            fits(pipe.offer(at(0), 1_000, &mut no_ecn)),
            "2,000 bytes are there"
        );
        assert_eq!(pipe.offer(at(0), 1, &mut no_ecn), Offered::Full);
        assert_eq!(pipe.offer(at(300), 301, &mut no_ecn), Offered::Full);
        assert!(
            fits(pipe.offer(at(300), 300, &mut no_ecn)),
            "300 of them are sent"
        );
        // An idle link takes a packet of any size.
        let limit = Limit::Bytes(10);
        assert!(fits(bounded(Queue { limit, ..queue }, 0.0).offer(
            at(0),
            1_000,
            &mut no_ecn
        )));
    }

    proptest! {
        /// Links of internetworks impair packets as the link machine of `layercast-link` does.
        #[test]
        fn packets_arrive_as_on_a_link_of_mets(
            gaps in prop::collection::vec(0..3_000_u64, 1..200), reorder: bool, duplicate in 0.0..0.3, p_gb in 0.0..0.2,
        ) {
            let impair = Impairments {
                loss: Loss::GilbertElliott { p_gb, p_bg: 0.3, loss_good: 0.0, loss_bad: 0.9 },
                jitter: Jitter::Uniform { max: Span::from_ms(4) },
                reorder,
                duplicate,
            };
            let delay = Span::from_ms(2);
            let rate = Rate::from_bps(8_000_000);
            let queue = Queue { limit: Limit::Unlimited, red: None, mark: None };
            let [mut pipe, mut own] = [(); 2].map(|()| {
                Pipe::new("a->b".into(), rate, delay, 1_500).with_way(Way { rate, queue, impair }, (1, "a->b"))
            });
            let mut link = Link::new(impair.over(delay), 1, "a->b");
            let mut arrivals = Vec::new();
            let mut now = Time::ZERO;
            for (item, gap) in gaps.into_iter().enumerate() {
                now += Span::from_us(gap);
                let offered = pipe.offer(now, 1_000, &mut Ecn::NotCapable);
                // A sender that has the line for itself sends the last bit at the same time.
                prop_assert_eq!(own.pass(pipe.free_from(), 1_000), offered);
                match offered {
                    Offered::Arrives(at) => arrivals.push((at, item)),
                    Offered::Twice(times) => arrivals.extend(times.map(|at| (at, item))),
                    Offered::Lost | Offered::Down | Offered::Full | Offered::Early => {}
                }
                link.handle(now, LinkInput { ready: pipe.free_from(), item }, &mut Off);
            }
            arrivals.sort();
            let mut same = Vec::new();
            while let Some(at) = link.next_timeout() {
                same.extend(link.poll_transmit(at, &mut Off).map(|item| (at, item)));
            }
            same.sort();
            prop_assert_eq!(arrivals, same);
            let used = |pipe: &Pipe| {
                let it = pipe.report(now, Time::ZERO);
                (it.sent, it.bytes, it.lost, it.utilisation)
            };
            prop_assert_eq!(used(&own), used(&pipe));
        }
    }

    /// As on a link of METS with a fault: the end decides, and the sender does not know.
    #[test]
    fn what_comes_to_the_end_of_a_link_that_is_down_is_lost() {
        let rate = Rate::from_bps(8_000_000);
        let delay = Span::from_ms(5);
        let outages = Outages::parse("6ms..8ms,20ms..30ms").unwrap();
        let mut pipe = Pipe::new("a->b".into(), rate, delay, 1_500).with_outages(outages);
        let mut at = |ms| pipe.offer(Time::ZERO + Span::from_ms(ms), 1_000, &mut Ecn::NotCapable);
        let arrives = |ms| Offered::Arrives(Time::ZERO + Span::from_ms(ms));
        // On its way as the link falls, waiting, and sent while it is down.
        assert_eq!(
            [at(0), at(0), at(0)],
            [Offered::Down, Offered::Down, arrives(8)]
        );
        assert_eq!(
            [at(7), at(13), at(14)],
            [arrives(13), arrives(19), Offered::Down]
        );
        assert_eq!([at(23), at(24)], [Offered::Down, arrives(30)]);
        let report = pipe.report(Time::ZERO + Span::from_ms(25), Time::ZERO);
        assert_eq!(
            (report.offered, report.sent, report.down, report.lost),
            (8, 8, 4, 0)
        );
    }

    #[test]
    fn what_takes_no_time_of_the_line_overtakes_nothing() {
        let delay = Span::from_ms(1);
        let mut own = Pipe::new("a->b".into(), Rate::from_bps(8_000_000), delay, 1_500);
        let at = |us| Time::ZERO + Span::from_us(us);
        assert_eq!(own.pass(at(1_500), 1_500), Offered::Arrives(at(2_500)));
        assert_eq!(own.pass(at(700), 40), Offered::Arrives(at(2_500)));
        assert_eq!(own.pass(at(3_500), 1_000), Offered::Arrives(at(4_500)));
    }

    #[test]
    fn red_does_not_move_losses() {
        let terms = Red {
            min: 1.0,
            max: 3.0,
            max_p: 0.5,
            weight: 0.5,
            gentle: true,
            ecn: false,
        };
        let lost = |red: Option<Red>| -> Vec<usize> {
            let limit = Limit::Unlimited;
            let mark = None;
            let mut pipe = bounded(Queue { limit, red, mark }, 0.2);
            let sent = (0..400_u64).filter_map(|n| {
                let at = Time::ZERO + Span::from_us(n / 8 * 8_000);
                let offered = pipe.offer(at, 1_000, &mut Ecn::NotCapable);
                offered.is_sent().then_some(offered)
            });
            let lost = sent.take(100).enumerate();
            lost.filter(|it| it.1 == Offered::Lost)
                .map(|it| it.0)
                .collect()
        };
        assert_ne!(lost(None), Vec::<usize>::new());
        assert_eq!(lost(None), lost(Some(terms)));
    }

    #[test]
    fn red_spares_who_finds_hardly_anyone_waiting() {
        let terms = Red {
            min: 5.0,
            max: 15.0,
            max_p: 0.1,
            weight: 1e-9,
            gentle: true,
            ecn: false,
        };
        let mut red = RedState::new(terms, Stream::new(1, "test"));
        red.average = 10.0;
        let mut dropped = |waiting| {
            let drops = (0..1_000)
                .filter(|_| red.judge(waiting, Span::ZERO, Span::from_us(1)) != Judged::Takes);
            drops.count()
        };
        assert_eq!((dropped(0), dropped(1)), (0, 0));
        // Uniform between 1 and 1 / 0.05 packets apart (Floyd and Jacobson 1993, 7): 10.5 in the mean.
        let many = dropped(2);
        assert!((80..=110).contains(&many), "{many}");
    }

    /// RFC 3168 7: between the thresholds what may be marked is marked, above both it is dropped.
    #[test]
    fn red_marks_between_its_thresholds_and_drops_above() {
        let queue = |ecn| Queue {
            limit: Limit::Unlimited,
            red: Some(Red {
                min: 5.0,
                max: 15.0,
                max_p: 0.5,
                weight: 1.0,
                gentle: false,
                ecn,
            }),
            mark: None,
        };
        let run = |with_ecn: bool, field: Ecn| {
            let rate = Rate::from_bps(1_000);
            let mut pipe = Pipe::new("slow".into(), rate, Span::ZERO, 1_500);
            pipe = pipe.with_way(plain(rate, queue(with_ecn)), (1, "slow"));
            for _ in 0..500 {
                pipe.offer(Time::ZERO, 1_500, &mut { field });
            }
            pipe.report(Time::ZERO, Time::ZERO)
        };
        let marked = run(true, Ecn::Capable0);
        assert_eq!(marked.max_waiting, 15);
        assert!((3..=10).contains(&marked.marked), "{}", marked.marked);
        assert_eq!(marked.dropped_red, 500 - 16);
        for (with_ecn, field) in [(true, Ecn::NotCapable), (false, Ecn::Capable0)] {
            let other = run(with_ecn, field);
            assert_eq!((other.marked, other.dropped_red), (0, 500 - 16));
        }
    }

    #[test]
    fn a_threshold_marks_what_finds_more() {
        let marks = |mark: Limit, field: Ecn| {
            let rate = Rate::from_bps(1_000);
            let mut pipe = Pipe::new("slow".into(), rate, Span::ZERO, 1_500);
            let queue = Queue {
                limit: Limit::Packets(20),
                red: None,
                mark: Some(mark),
            };
            pipe = pipe.with_way(plain(rate, queue), (1, "slow"));
            let offered = (0..30).map(|_| {
                let mut ecn = field;
                let offered = pipe.offer(Time::ZERO, 1_500, &mut ecn);
                (ecn == Ecn::Congested, offered)
            });
            let offered: Vec<_> = offered.collect();
            let first = offered.iter().position(|it| it.0);
            let full = offered.iter().filter(|it| it.1 == Offered::Full).count();
            (first, full, pipe.report(Time::ZERO, Time::ZERO).marked)
        };
        // One is being sent; the seventh in the queue finds six.
        assert_eq!(marks(Limit::Packets(5), Ecn::Capable0), (Some(7), 9, 14));
        // Bytes count what is left of the one being sent.
        assert_eq!(marks(Limit::Bytes(7_500), Ecn::Capable1), (Some(6), 9, 15));
        assert_eq!(marks(Limit::Packets(5), Ecn::NotCapable), (None, 9, 0));
    }
}
