//! A simulated network for tests: a sender, receivers, and faults between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bytes::Bytes;
use layercast_core::{JsonSeq, Observer, QosEvent, Record, Span, Stream, Subject, Time};
use layercast_multicast::{
    Aggregator, AggregatorConfig, Peer, Receiver, ReceiverConfig, ReceiverEvent, Sender,
    SenderEvent, Source, Store, To, Transmit,
};
use layercast_wire::multicast::{Body, MemberId, Packet};

/// The peer of the first aggregator.
pub const FIRST_AGGREGATOR: u32 = 100_000;

/// Faults of the network, as probabilities.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: f64,
    pub twice: f64,
    pub damage: f64,
    /// A data packet arrives with altered octets and a valid checksum.
    pub poison: f64,
    /// Largest additional delay, uniform.
    pub jitter: Span,
}

pub const PERFECT: Faults = Faults {
    loss: 0.0,
    twice: 0.0,
    damage: 0.0,
    poison: 0.0,
    jitter: Span::ZERO,
};

/// Events for a monitor of each machine, by its name.
#[derive(Default)]
pub struct Told(pub BTreeMap<String, Vec<QosEvent>>);

impl Observer for Told {
    fn record(&mut self, _: &Record<'_>) {}

    fn enabled(&self) -> bool {
        false
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        let events = self.0.entry(subject.node.to_owned()).or_default();
        events.push(*event);
    }

    fn measures(&self) -> bool {
        true
    }
}

/// Records for the one, events for the other.
struct Both<'a>(&'a mut Option<JsonSeq<Vec<u8>>>, &'a mut Option<Told>);

impl Observer for Both<'_> {
    fn record(&mut self, record: &Record<'_>) {
        self.0.record(record);
    }

    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        self.1.measure(subject, event);
    }

    fn measures(&self) -> bool {
        self.1.measures()
    }
}

/// A packet in transit: arrival, order number, destination, source, packet.
type Flying = Reverse<(Time, u64, u32, u32, Item)>;

/// Packets have no order; the heap orders by the number before them.
#[derive(Clone, Debug)]
pub struct Item(pub Packet);

impl PartialEq for Item {
    fn eq(&self, _: &Item) -> bool {
        true
    }
}
impl Eq for Item {}
impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Item) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Item {
    fn cmp(&self, _: &Item) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// Decides whether a packet between two nodes is lost, in addition to random losses.
pub type Fate = Box<dyn FnMut(u32, u32, &Packet) -> bool>;

/// The packets that a node receives for a packet sent to it: by default the same packet.
pub type Form = Box<dyn FnMut(u32, u32, &Packet) -> Vec<Packet>>;

pub struct Net<S, T> {
    pub now: Time,
    pub sender: Sender<S>,
    /// Peer n + 1 each; `None`: crashed.
    pub receivers: Vec<Option<Receiver<T>>>,
    /// Peer n + FIRST_AGGREGATOR each; `None`: crashed.
    pub aggregators: Vec<Option<Aggregator>>,
    /// Number of receivers of each.
    each: u32,
    pub faults: Faults,
    pub delay: Span,
    pub fate: Fate,
    pub form: Form,
    pub sender_events: Vec<(Time, SenderEvent)>,
    pub receiver_events: Vec<Vec<ReceiverEvent>>,
    /// All packets sent, with their source.
    pub log: Vec<(Time, u32, Transmit)>,
    /// Trace of the machines, if requested.
    pub trace: Option<JsonSeq<Vec<u8>>>,
    pub told: Option<Told>,
    flying: BinaryHeap<Flying>,
    random: Stream,
    count: u64,
}

pub fn receiver<T: Store>(number: u32, incarnation: u32, store: T) -> Receiver<T> {
    let mut config = ReceiverConfig::new(MemberId(number.into()), 7 + u64::from(incarnation));
    config.incarnation = incarnation;
    Receiver::new(config, store)
}

impl<S: Source, T: Store> Net<S, T> {
    pub fn new(sender: Sender<S>, stores: Vec<T>, faults: Faults, seed: u64) -> Net<S, T> {
        let receivers: Vec<_> = (1..)
            .zip(stores)
            .map(|(number, store)| Some(receiver(number, 1, store)))
            .collect();
        Net {
            now: Time::ZERO + Span::from_secs(1),
            sender,
            receiver_events: vec![Vec::new(); receivers.len()],
            receivers,
            aggregators: Vec::new(),
            each: 1,
            faults,
            delay: Span::from_ms(50),
            fate: Box::new(|_, _, _| false),
            form: Box::new(|_, _, packet| vec![packet.clone()]),
            sender_events: Vec::new(),
            log: Vec::new(),
            trace: None,
            told: None,
            flying: BinaryHeap::new(),
            random: Stream::new(seed, "net"),
            count: 0,
        }
    }

    /// Puts an aggregator before each group of `each` receivers.
    pub fn aggregate(&mut self, each: u32) {
        self.each = each;
        let count = self.receivers.len() as u32;
        for (at, first) in (1..=count).step_by(each as usize).enumerate() {
            let peer = FIRST_AGGREGATOR + at as u32;
            let last = count.min(first + each - 1);
            for number in first..=last {
                let mut config = ReceiverConfig::new(MemberId(number.into()), 7);
                config.report_to = Some(Peer(peer));
                let store = self.crash(number);
                self.receivers[number as usize - 1] = Some(Receiver::new(config, store));
            }
            let config = AggregatorConfig::new(MemberId(peer.into()), last + 1 - first);
            self.aggregators.push(Some(Aggregator::new(config)));
        }
    }

    pub fn start(&mut self) {
        self.sender.start(self.now);
        self.drain(0);
    }

    /// Runs until no event is left, or until `until`.
    pub fn run_until(&mut self, until: Time) {
        while let Some(at) = self.next() {
            if at > until {
                break;
            }
            self.step(at);
        }
        self.now = self.now.max(until);
    }

    /// Runs until no event is left, at most an hour.
    pub fn run(&mut self) {
        let end = self.now + Span::from_secs(3_600);
        while let Some(at) = self.next() {
            assert!(at < end, "it does not end: {:?}", self.sender_events);
            self.step(at);
        }
    }

    fn next(&self) -> Option<Time> {
        let flying = self.flying.peek().map(|item| item.0.0);
        let timers = self.receivers.iter().flatten();
        let timers = timers.filter_map(|receiver| receiver.poll_timeout());
        let timers = timers.chain(self.sender.poll_timeout());
        let timers = timers.chain(
            self.aggregators
                .iter()
                .flatten()
                .filter_map(|it| it.poll_timeout()),
        );
        let next = timers.chain(flying).min()?;
        Some(next.max(self.now))
    }

    fn step(&mut self, at: Time) {
        self.now = at;
        while self.flying.peek().is_some_and(|item| item.0.0 <= at) {
            let Some(Reverse((_, _, to, from, Item(packet)))) = self.flying.pop() else {
                break;
            };
            self.deliver(to, from, &packet);
        }
        if self.sender.poll_timeout().is_some_and(|due| due <= at) {
            self.sender
                .on_timeout(at, &mut Both(&mut self.trace, &mut self.told));
            self.drain(0);
        }
        for at_number in 0..self.aggregators.len() {
            let Some(aggregator) = &mut self.aggregators[at_number] else {
                continue;
            };
            if aggregator.poll_timeout().is_some_and(|due| due <= at) {
                aggregator.on_timeout(at, &mut Both(&mut self.trace, &mut self.told));
                self.drain(FIRST_AGGREGATOR + at_number as u32);
            }
        }
        for number in 0..self.receivers.len() {
            let Some(receiver) = &mut self.receivers[number] else {
                continue;
            };
            if receiver.poll_timeout().is_some_and(|due| due <= at) {
                receiver.on_timeout(at, &mut Both(&mut self.trace, &mut self.told));
                self.drain(number as u32 + 1);
            }
        }
    }

    fn deliver(&mut self, to: u32, from: u32, packet: &Packet) {
        if let Some(at) = to.checked_sub(FIRST_AGGREGATOR) {
            if let Some(aggregator) = &mut self.aggregators[at as usize] {
                aggregator.handle(
                    self.now,
                    Peer(from),
                    packet,
                    &mut Both(&mut self.trace, &mut self.told),
                );
            }
            return self.drain(to);
        }
        match to.checked_sub(1) {
            None => self.sender.handle(
                self.now,
                Peer(from),
                packet,
                &mut Both(&mut self.trace, &mut self.told),
            ),
            Some(number) => {
                if let Some(receiver) = &mut self.receivers[number as usize] {
                    receiver.handle(
                        self.now,
                        Peer(from),
                        packet,
                        &mut Both(&mut self.trace, &mut self.told),
                    );
                }
            }
        }
        self.drain(to);
    }

    /// Drains the packets and events of a node.
    pub fn drain(&mut self, node: u32) {
        if let Some(at) = node.checked_sub(FIRST_AGGREGATOR) {
            while let Some(aggregator) = &mut self.aggregators[at as usize]
                && let Some(transmit) =
                    aggregator.poll_transmit(self.now, &mut Both(&mut self.trace, &mut self.told))
            {
                self.send(node, transmit);
            }
            return;
        }
        match node.checked_sub(1) {
            None => {
                while let Some(transmit) = self
                    .sender
                    .poll_transmit(self.now, &mut Both(&mut self.trace, &mut self.told))
                {
                    self.send(0, transmit);
                }
                while let Some(event) = self.sender.poll_event() {
                    self.sender_events.push((self.now, event));
                }
            }
            Some(number) => {
                let number = number as usize;
                while let Some(receiver) = &mut self.receivers[number] {
                    let Some(transmit) = receiver
                        .poll_transmit(self.now, &mut Both(&mut self.trace, &mut self.told))
                    else {
                        break;
                    };
                    self.send(node, transmit);
                }
                if let Some(receiver) = &mut self.receivers[number] {
                    while let Some(event) = receiver.poll_event() {
                        self.receiver_events[number].push(event);
                    }
                }
            }
        }
    }

    fn send(&mut self, from: u32, transmit: Transmit) {
        let packet = transmit.packet.clone();
        match transmit.to {
            To::One(Peer(to)) => self.fly(from, to, &packet),
            To::Group | To::Side => {
                for to in 1..=self.receivers.len() as u32 {
                    self.fly(from, to, &packet);
                }
                for to in 0..self.aggregators.len() as u32 {
                    self.fly(from, FIRST_AGGREGATOR + to, &packet);
                }
            }
        }
        self.log.push((self.now, from, transmit));
    }

    /// Sends a packet to one node.
    pub fn fly(&mut self, from: u32, to: u32, packet: &Packet) {
        let copies = 1 + u32::from(self.random.chance(self.faults.twice));
        for _ in 0..copies {
            if self.random.chance(self.faults.loss) || (self.fate)(from, to, packet) {
                continue;
            }
            let mut packet = packet.clone();
            if self.random.chance(self.faults.damage) {
                let Some(damaged) = self.damage(&packet) else {
                    continue;
                };
                packet = damaged;
            }
            if self.random.chance(self.faults.poison)
                && let Body::Data(data) = &mut packet.body
                && !data.payload.is_empty()
            {
                let mut bytes = vec![0; data.payload.len()];
                data.payload.copy_to(&mut bytes);
                let at = self.random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.random.below(8);
                data.payload = layercast_wire::Payload::Bytes(bytes.into());
            }
            let jitter = Span::from_ps(self.random.below(self.faults.jitter.as_ps()));
            let at = self.now + self.delay + jitter;
            for packet in (self.form)(from, to, &packet) {
                self.count += 1;
                self.flying
                    .push(Reverse((at, self.count, to, from, Item(packet))));
            }
        }
    }

    /// Decodes a packet with altered octets: it is nearly always rejected.
    fn damage(&mut self, packet: &Packet) -> Option<Packet> {
        let mut bytes = Vec::new();
        packet.encode_into(&mut bytes);
        for _ in 0..=self.random.below(4) {
            let at = self.random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << self.random.below(8);
        }
        Packet::decode(&Bytes::from(bytes)).ok()
    }

    /// Crashes a receiver; returns its store.
    pub fn crash(&mut self, number: u32) -> T {
        let receiver = self.receivers[number as usize - 1].take();
        receiver.expect("it runs").into_store()
    }

    /// Restarts a receiver.
    pub fn restart(&mut self, number: u32, incarnation: u32, store: T) {
        let mut config = ReceiverConfig::new(MemberId(number.into()), 7 + u64::from(incarnation));
        config.incarnation = incarnation;
        if !self.aggregators.is_empty() {
            config.report_to = Some(Peer(FIRST_AGGREGATOR + (number - 1) / self.each));
        }
        self.receivers[number as usize - 1] = Some(Receiver::new(config, store));
    }

    /// Restarts a crashed aggregator without state.
    pub fn restart_aggregator(&mut self, at: usize, incarnation: u32) {
        let receivers = self.receivers.len() as u32 - at as u32 * self.each;
        let member = MemberId(u64::from(FIRST_AGGREGATOR) + at as u64);
        let mut config = AggregatorConfig::new(member, receivers.min(self.each));
        config.incarnation = incarnation;
        self.aggregators[at] = Some(Aggregator::new(config));
    }

    /// Data packets of the sender, with their pass.
    pub fn data(&self) -> impl Iterator<Item = (&Transmit, &layercast_wire::multicast::Data)> {
        self.log
            .iter()
            .filter_map(|(_, _, transmit)| match &transmit.packet.body {
                Body::Data(data) => Some((transmit, data)),
                _ => None,
            })
    }

    /// Result of the session.
    pub fn result(&self) -> Option<Result<(), layercast_multicast::Failure>> {
        self.sender_events
            .iter()
            .find_map(|(_, event)| match event {
                SenderEvent::Closed(result) => Some(result.clone()),
                _ => None,
            })
    }
}
