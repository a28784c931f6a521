//! A chain of lossy hops in virtual time, with a source of frames at one end and a judge of deadlines at the other.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use layercast_core::{FlowId, Layer, Machine, Off, Rate, Span, Stream, Time, earliest};
use layercast_repair::{
    Carried, Codec, Feedback, Head, LayerRepairs, Means, PART_HEAD, Parity, RepairConfig,
    RepairStats, Repairer, RepairerInput, RequestStats, Requester, RequesterInput, Unit,
};

/// A packet: frame, place in the frame, packets of the frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Packet {
    pub frame: u64,
    pub index: u32,
    pub of: u32,
}

/// What travels: a packet with its layer and time stamp, which the next hop needs.
pub type Item = (Unit, Packet);

/// Items as octets, for parities.
pub fn codec() -> Codec<Item> {
    Codec {
        encode: |(unit, packet)| {
            let mut octets = packet.frame.to_be_bytes().to_vec();
            octets.extend_from_slice(&packet.index.to_be_bytes());
            octets.extend_from_slice(&packet.of.to_be_bytes());
            octets.extend_from_slice(&unit.stamp_us.unwrap_or_default().to_be_bytes());
            octets.push(unit.layer.index() as u8);
            octets.into()
        },
        len: |_| OCTETS as usize,
        decode: |octets| {
            let number = |from: usize| {
                let octets = octets.get(from..from + 4)?.try_into().ok()?;
                Some(u32::from_be_bytes(octets))
            };
            let frame = u64::from(number(0)?) << 32 | u64::from(number(4)?);
            let (index, of) = (number(8)?, number(12)?);
            let layer = *Layer::ALL.get(usize::from(*octets.get(20)?))?;
            let packet = Packet { frame, index, of };
            Some((unit(layer, number(16)?, index + 1 == of), packet))
        },
    }
}

/// A packet of this layer.
pub fn unit(layer: Layer, stamp_us: u32, last: bool) -> Unit {
    Unit {
        flow: FlowId(1),
        layer,
        stamp_us: Some(stamp_us),
        octets: OCTETS,
        last,
        repair: true,
        lasts: None,
    }
}

pub const OCTETS: u32 = 1_228;
/// What a parity is longer.
const PARITY_EXTRA: u32 = 19;
/// UDP, IP and the seal of a protected link.
const FRAMING: u32 = 8 + 20 + 25;
pub const SESSION: u16 = 7;

/// What a channel does to datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Impairment {
    pub loss: f64,
    /// Mean length of a run of losses; 1: each on its own.
    pub burst: f64,
    pub duplicate: f64,
    /// Share of datagrams that are delayed by up to `reorder_by`.
    pub reorder: f64,
    pub reorder_by: Span,
    pub delay: Span,
    pub jitter: Span,
}

impl Impairment {
    /// 20 to 25 ms one way, independent losses.
    pub fn loss(loss: f64) -> Impairment {
        Impairment {
            loss,
            burst: 1.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: Span::ZERO,
            delay: Span::from_ms(20),
            jitter: Span::from_ms(5),
        }
    }
}

/// One direction of a hop.
pub struct Channel<T> {
    how: Impairment,
    random: Stream,
    bad: bool,
    last: Time,
    flying: BinaryHeap<Reverse<(Time, u64)>>,
    items: BTreeMap<u64, T>,
    number: u64,
    pub sent: u64,
    /// A line in front of the delay, which other channels may share.
    line: Rc<RefCell<Line>>,
    /// Datagrams that its queue had no room for.
    pub dropped: u64,
}

/// A line with a queue.
#[derive(Default)]
struct Line {
    /// Its rate, and the longest time in its queue; `None`: it takes no time.
    limits: Option<(Rate, Span)>,
    /// When it is free.
    free: Time,
}

impl<T: Clone> Channel<T> {
    pub fn new(how: Impairment, seed: u64, name: &str) -> Channel<T> {
        Channel {
            how,
            random: Stream::new(seed, name),
            bad: false,
            last: Time::ZERO,
            flying: BinaryHeap::new(),
            items: BTreeMap::new(),
            number: 0,
            sent: 0,
            line: Rc::default(),
            dropped: 0,
        }
    }

    /// How long a datagram of now would wait for the line.
    pub fn queue(&self, now: Time) -> Span {
        self.line.borrow().free.since(now)
    }

    /// Sends over the line of another channel from now on.
    pub fn share_line(&mut self, other: &Channel<T>) {
        self.line = Rc::clone(&other.line);
    }

    /// Occupies the line with `octets` octets from `ready` on; gives when they have left, `None` if they are dropped.
    fn pass(&mut self, ready: Time, octets: u64) -> Option<Time> {
        let mut line = self.line.borrow_mut();
        let Some((rate, most)) = line.limits else {
            return Some(ready);
        };
        if line.free.since(ready) > most {
            self.dropped += 1;
            return None;
        }
        line.free = line.free.max(ready) + rate.time_for(octets);
        Some(line.free)
    }

    /// What is sent from now on takes this much longer.
    pub fn delay_by(&mut self, span: Span) {
        self.how.delay += span;
    }

    fn is_lost(&mut self) -> bool {
        let how = self.how;
        if how.burst <= 1.0 {
            return self.random.chance(how.loss);
        }
        let leave = 1.0 / how.burst;
        let enter = how.loss * leave / (1.0 - how.loss);
        let change = if self.bad { leave } else { enter };
        self.bad ^= self.random.chance(change);
        self.bad
    }

    pub fn send(&mut self, ready: Time, octets: u32, item: T) {
        self.sent += 1;
        let Some(ready) = self.pass(ready, octets.into()) else {
            return;
        };
        if self.is_lost() {
            return;
        }
        let copies = 1 + u64::from(self.random.chance(self.how.duplicate));
        for _ in 0..copies {
            let jitter = self.how.jitter.mul_div(self.random.below(1_000), 1_000);
            let mut at = ready + self.how.delay + jitter;
            // Jitter keeps the order; reordering is a thing of its own.
            at = at.max(self.last);
            self.last = at;
            if self.random.chance(self.how.reorder) {
                at += self.how.reorder_by.mul_div(self.random.below(1_000), 1_000);
            }
            self.flying.push(Reverse((at, self.number)));
            self.items.insert(self.number, item.clone());
            self.number += 1;
        }
    }

    pub fn next(&self) -> Option<Time> {
        self.flying.peek().map(|it| it.0.0)
    }

    pub fn receive(&mut self, now: Time) -> Option<T> {
        self.next().filter(|at| *at <= now)?;
        let Reverse((_, number)) = self.flying.pop()?;
        self.items.remove(&number)
    }
}

/// A clock beside true time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Skewed {
    /// It is ahead by this many microseconds, and gains this many in a second.
    pub ahead_us: i64,
    pub ppm: i64,
}

impl Skewed {
    pub fn read(self, now: Time) -> Time {
        let drift = (now.as_ps() as i128 * i128::from(self.ppm)) / 1_000_000;
        let ahead = i128::from(self.ahead_us) * 1_000_000;
        let there = now.as_ps() as i128 + ahead + drift;
        Time::from_ps(u64::try_from(there).expect("no clock shows less than zero"))
    }

    /// When it shows `there`, or at most some picoseconds later.
    fn when(self, there: Time) -> Time {
        let ahead = i128::from(self.ahead_us) * 1_000_000;
        let even = there.as_ps() as i128 - ahead;
        let true_ps = even * 1_000_000 / i128::from(1_000_000 + self.ppm) + 2;
        Time::from_ps(u64::try_from(true_ps.max(0)).expect("in range"))
    }
}

/// A sending end with the first session.
fn config(name: &str, rate: Option<Rate>, means: Means) -> RepairConfig<Item> {
    RepairConfig {
        name: name.into(),
        session: SESSION,
        rate,
        measures: false,
        means,
        codec: codec(),
    }
}

/// One hop: sending end, channels, receiving end.
pub struct Hop {
    pub repairer: Repairer<Item>,
    pub requester: Requester<Item>,
    pub forward: Channel<(Head, Option<Carried<Item>>)>,
    pub back: Channel<Feedback>,
    /// Longer datagrams do not pass.
    pub longest: Option<u32>,
    /// Datagrams that left in parts, and whether the last long one did.
    pub parts_sent: u64,
    pub in_parts: bool,
    /// The clocks of the sending end and the receiving one.
    pub clocks: [Skewed; 2],
    /// Octets of the contents that were sent in this session, by their counters.
    lengths: BTreeMap<u32, u32>,
    session: u16,
    /// What former ends counted.
    former: (RepairStats, RequestStats),
    /// Octets that left, with the end of their transmission.
    pub octets: u64,
    pub feedback_octets: u64,
}

impl Hop {
    pub fn new(how: Impairment, rate: Option<Rate>, seed: u64, name: &str, means: Means) -> Hop {
        Hop {
            repairer: Repairer::new(config(name, rate, means)),
            requester: Requester::new(name, SESSION, codec()),
            forward: Channel::new(how, seed, &format!("{name}/forward")),
            back: Channel::new(how, seed, &format!("{name}/back")),
            longest: None,
            parts_sent: 0,
            in_parts: false,
            clocks: [Skewed::default(); 2],
            lengths: BTreeMap::new(),
            session: SESSION,
            former: Default::default(),
            octets: 0,
            feedback_octets: 0,
        }
    }

    /// Both ends start again, with another session; gives of how many packets the sending end did not know yet whether they
    /// arrive: no cause is counted for these. What is on its way arrives, and belongs to the former session.
    pub fn restart(&mut self, config: &RepairConfig<Item>) -> u64 {
        let open = self.repairer.open() as u64;
        self.former = self.stats();
        self.session += 1;
        self.lengths.clear();
        self.requester = Requester::new(&config.name, self.session, codec());
        self.repairer = Repairer::new(RepairConfig {
            session: self.session,
            ..config.clone()
        });
        open
    }

    /// What the ends counted, and those before them.
    pub fn stats(&self) -> (RepairStats, RequestStats) {
        let (mut sent, mut received) = (self.repairer.stats(), self.requester.stats());
        sent.add(&self.former.0);
        received.add(&self.former.1);
        (sent, received)
    }

    pub fn send(&mut self, now: Time, unit: Unit, packet: Packet) {
        let here = self.clocks[0].read(now);
        let input = RepairerInput::Send {
            at: here,
            unit,
            item: (unit, packet),
        };
        self.repairer.handle(here, input, &mut Off);
        self.drain(now);
    }

    /// A hop that measures its path.
    pub fn measured(how: Impairment, seed: u64, name: &str) -> Hop {
        let hop = Hop::new(how, None, seed, name, Means::Auto);
        let config = RepairConfig {
            measures: true,
            ..config(name, None, Means::Auto)
        };
        Hop {
            repairer: Repairer::new(config),
            requester: hop.requester.prompt(),
            ..hop
        }
    }

    /// The sending end begins at this rate.
    pub fn begin_at(&mut self, name: &str, rate: Option<Rate>) {
        self.repairer = Repairer::new(RepairConfig {
            measures: true,
            ..config(name, rate, Means::Auto)
        });
    }

    /// The path has a line of this rate with a queue of this time from now on.
    pub fn narrow(&mut self, rate: Rate, queue: Span) {
        self.forward.line.borrow_mut().limits = Some((rate, queue));
    }

    /// The same of the way back.
    pub fn narrow_back(&mut self, rate: Rate, queue: Span) {
        self.back.line.borrow_mut().limits = Some((rate, queue));
    }

    /// Somebody else sends `octets` octets over the line now; gives when they have left, `None` if they are dropped.
    pub fn disturb(&mut self, now: Time, octets: u64) -> Option<Time> {
        self.forward.pass(now, octets)
    }

    /// Loses this share of what is sent from now on, to the receiving end and back.
    pub fn lose(&mut self, forward: f64, back: f64) {
        self.forward.how.loss = forward;
        self.back.how.loss = back;
    }

    /// Octets of the longest content that a parity is of.
    fn longest_of(&self, parity: &Parity) -> u32 {
        let first = parity.counter.0.wrapping_sub(parity.back.into());
        let contents = (0..u128::BITS).filter(|bit| parity.contents >> bit & 1 == 1);
        let octets = contents.filter_map(|bit| self.lengths.get(&first.wrapping_add(bit)));
        octets.copied().max().expect("a parity is of what was sent")
    }

    fn drain(&mut self, now: Time) {
        let [here, there] = self.clocks.map(|clock| clock.read(now));
        while let Some(out) = self.repairer.poll_transmit(here, &mut Off) {
            // Through the codec, as on a socket.
            let mut wire = Vec::new();
            out.head.encode_into(&mut wire);
            let (head, rest) = Head::decode(&wire).expect("what is encoded decodes");
            assert!(rest.is_empty() && head == out.head);
            let octets = match (&out.head, &out.item) {
                (Head::Parity(parity), _) => self.longest_of(parity),
                (_, Some(Carried::Item((unit, _)))) => unit.octets,
                _ => 60,
            };
            if let Head::Data { counter, .. } = &out.head {
                self.lengths.insert(counter.0, octets);
            }
            if out.item.is_some() {
                self.octets += u64::from(octets);
            }
            let parity = matches!(out.item, Some(Carried::Parity(_)));
            let longer = if parity { PARITY_EXTRA } else { 0 };
            let part = match out.parts {
                0 | 1 => octets + longer,
                parts => (octets + longer).div_ceil(parts.into()) + PART_HEAD as u32,
            };
            self.parts_sent += u64::from(out.parts > 1);
            if octets > 1_000 {
                self.in_parts = out.parts > 1;
            }
            if self.longest.is_some_and(|longest| part > longest) {
                continue;
            }
            let ready = self.clocks[0].when(out.ready).max(now);
            self.forward.send(ready, octets, (head, out.item));
        }
        while let Some(feedback) = self.requester.poll_transmit(there, &mut Off) {
            let mut wire = Vec::new();
            Head::Feedback(feedback.clone()).encode_into(&mut wire);
            self.feedback_octets += wire.len() as u64;
            let (head, _) = Head::decode(&wire).expect("what is encoded decodes");
            assert_eq!(head, Head::Feedback(feedback.clone()));
            self.back.send(now, wire.len() as u32 + FRAMING, feedback);
        }
    }

    /// Runs what is due; gives what arrived.
    pub fn run(&mut self, now: Time) -> Vec<Item> {
        let [here, there] = self.clocks.map(|clock| clock.read(now));
        while let Some(feedback) = self.back.receive(now) {
            self.repairer
                .handle(here, RepairerInput::Feedback(feedback), &mut Off);
            self.drain(now);
        }
        while let Some((head, item)) = self.forward.receive(now) {
            let input = match item {
                Some(item) => RequesterInput::Datagram(head, item),
                None => RequesterInput::Marker(head),
            };
            self.requester.handle(there, input, &mut Off);
            self.drain(now);
        }
        self.repairer.on_timeout(here, &mut Off);
        self.requester.on_timeout(there, &mut Off);
        self.drain(now);
        std::iter::from_fn(|| self.requester.poll_event()).collect()
    }

    pub fn next(&self) -> Option<Time> {
        let when = |at: Option<Time>, end: usize| at.map(|at| self.clocks[end].when(at));
        let machines = earliest(
            when(self.repairer.next_timeout(), 0),
            when(self.requester.next_timeout(), 1),
        );
        earliest(machines, earliest(self.forward.next(), self.back.next()))
    }
}

/// How a run is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub hops: usize,
    pub how: Impairment,
    pub rate: Option<Rate>,
    pub budget: Span,
    pub frames: u64,
    /// Packets of a key frame, and of another one.
    pub packets: (u32, u32),
    /// Every second frame that is no key frame is of E1.
    pub layered: bool,
    /// The ends of one hop after the other start again each time this number of frames was sent.
    pub restart_every: Option<u64>,
    /// Longer datagrams do not pass.
    pub longest: Option<u32>,
    /// Every second packet has this number of octets.
    pub short: Option<u32>,
    pub means: Means,
    pub seed: u64,
}

impl Setup {
    /// 25 frames a second of the base layer over one hop of 20 Mbit/s.
    pub fn of(how: Impairment, budget_ms: u64) -> Setup {
        Setup {
            hops: 1,
            how,
            rate: Some(Rate::from_bps(20_000_000)),
            budget: Span::from_ms(budget_ms),
            frames: 4_000,
            packets: (60, 8),
            layered: false,
            restart_every: None,
            longest: None,
            short: None,
            means: Means::Auto,
            seed: 1,
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    pub frames: u64,
    pub lost: u64,
    /// Packets that were handed over more than once.
    pub twice: u64,
    pub hops: Vec<(RepairStats, RequestStats)>,
    pub feedback_rate: u64,
    /// Packets of the source, and those that arrived, in time or not.
    pub packets: (u64, u64),
    /// Packets whose fate was not known to a hop when it was restarted.
    pub cut: u64,
}

impl Outcome {
    pub fn share_lost(&self) -> f64 {
        self.lost as f64 / self.frames as f64
    }

    /// Octets of repairs over octets of media, on the hop with the most.
    pub fn overhead(&self) -> f64 {
        let hops = self.hops.iter().map(|(sent, _)| {
            let layers = [sent.layers.base, sent.layers.e1];
            let sum = |of: fn(&LayerRepairs) -> u64| layers.iter().map(of).sum::<u64>() as f64;
            sum(|it| it.repair_octets) / sum(|it| it.octets)
        });
        hops.fold(0.0, f64::max)
    }

    /// Spurious repairs over datagrams sent, on the hop with the most.
    pub fn spurious(&self) -> f64 {
        let hops = self
            .hops
            .iter()
            .map(|(sent, received)| received.spurious as f64 / sent.layers.base.sent as f64);
        hops.fold(0.0, f64::max)
    }
}

/// 25 frames a second; each 25th is a key frame.
pub fn run(setup: &Setup) -> Outcome {
    let name = |n: usize| format!("hop{n}");
    let mut hops: Vec<Hop> = (0..setup.hops)
        .map(|n| Hop {
            longest: setup.longest,
            ..Hop::new(setup.how, setup.rate, setup.seed, &name(n), setup.means)
        })
        .collect();
    let interval = Span::from_ms(40);
    let start = Time::ZERO + Span::from_secs(1);
    let path = setup.how.delay.times(setup.hops as u64);
    let own = setup.budget.saturating_sub(path);
    let mut missing: BTreeMap<u64, u32> = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    let (mut twice, mut frame, mut packets, mut cut) = (0, 0, 0, 0);
    let mut now = start;
    let end = start + interval.times(setup.frames) + Span::from_secs(1);
    while now < end {
        while frame < setup.frames && start + interval.times(frame) <= now {
            let of = match frame % 25 {
                0 => setup.packets.0,
                _ => setup.packets.1,
            };
            for index in 0..of {
                let layer = match setup.layered && frame % 2 == 1 && frame % 25 > 0 {
                    true => Layer::E1,
                    false => Layer::Base,
                };
                let mut unit = unit(layer, now.as_us() as u32, index + 1 == of);
                if let Some(octets) = setup.short.filter(|_| index % 2 == 0) {
                    unit.octets = octets;
                }
                hops[0].send(now, unit, Packet { frame, index, of });
            }
            missing.insert(frame, of);
            packets += u64::from(of);
            frame += 1;
            if let Some(every) = setup.restart_every
                && frame % every == 0
            {
                let at = (frame / every) as usize % hops.len();
                cut += hops[at].restart(&config(&name(at), setup.rate, setup.means));
            }
        }
        for at in 0..hops.len() {
            let budget = match hops.get(at + 1) {
                Some(below) => below.repairer.budget(),
                None => Some(own),
            };
            let arrived = {
                let hop = &mut hops[at];
                hop.requester
                    .handle(now, RequesterInput::Budget(budget), &mut Off);
                hop.run(now)
            };
            for (unit, packet) in arrived {
                match hops.get_mut(at + 1) {
                    Some(below) => below.send(now, unit, packet),
                    None => {
                        twice += u64::from(!seen.insert(packet));
                        let deadline = start + interval.times(packet.frame) + setup.budget;
                        if now <= deadline
                            && let Some(left) = missing.get_mut(&packet.frame)
                        {
                            *left -= 1;
                        }
                    }
                }
            }
        }
        let next = hops.iter().map(Hop::next).fold(None, earliest);
        let frames = (frame < setup.frames).then(|| start + interval.times(frame));
        let wake = earliest(earliest(next, frames), Some(end)).unwrap_or(end);
        // Timers that are due have run; a machine that wants the same instant again would hang the run.
        now = wake.max(now + Span::from_us(1));
    }
    let seconds = end.since(start).as_secs_f64();
    Outcome {
        frames: setup.frames,
        lost: missing.values().filter(|left| **left > 0).count() as u64,
        twice,
        feedback_rate: hops
            .iter()
            .map(|hop| {
                let headers = hop.requester.stats().feedback * 53;
                ((hop.feedback_octets + headers) as f64 * 8.0 / seconds) as u64
            })
            .max()
            .unwrap_or(0),
        hops: hops.iter().map(Hop::stats).collect(),
        packets: (packets, seen.len() as u64),
        cut,
    }
}
