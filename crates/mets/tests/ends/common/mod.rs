//! A source and a sink wired to one another in virtual time, with a pipe in between that a test may
//! make as bad as it likes.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

use bytes::Bytes;
use layercast_core::{
    CellRate, FlowId, FlowSpec, GroupId, Layer, LayerRate, Level, LevelSet, Machine, NodeId,
    Observer, Off, PerLayer, QosEvent, Quality, Record, Serial, Span, Subject, Time, TraceEvent,
    Zone,
};
use layercast_mets::{
    AppFrame, Sink, SinkConfig, SinkEvent, SinkInput, SinkProtection, SinkTransmit, Source,
    SourceConfig, SourceEvent, SourceInput, SourceProtection, SourceTransmit, feed,
};
use layercast_monitor::{Direction, Monitor, MonitorConfig};
use layercast_protect::{Claims, Seed, Signer, Token, WallClock};
use layercast_wire::{
    AdapterKind, AdapterMsg, Carriage, Flags, FlowInfo, FrameType, LinkPdu, MetsHeader, MetsPacket,
    Passing, Payload, Signal, Sound, Waited,
};

/// Coded order of IBBPBBPBBPBB.
pub const GOP: &[u8; 12] = b"IPBBPBBPBBBB";

pub fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

pub fn flow(delay_max_ms: u32) -> FlowInfo {
    let layer = |mean| LayerRate {
        mean: CellRate(mean),
        ..LayerRate::default()
    };
    FlowInfo {
        group: GroupId(3),
        spec: FlowSpec {
            layers: PerLayer {
                base: layer(480),
                e1: layer(960),
                e2: layer(1_920),
            },
            delay_max_ms,
            ..FlowSpec::default()
        },
        clock: "test".into(),
        ..FlowInfo::new(FlowId(7), "bunny", "atc")
    }
}

pub fn source_config(carriage: Carriage, delay_max_ms: u32) -> SourceConfig {
    SourceConfig::new("atc", NodeId(1), flow(delay_max_ms), carriage)
}

pub fn sink_config(carriage: Carriage) -> SinkConfig {
    SinkConfig::new("dwp", NodeId(2), "bunny", carriage)
}

/// Canyon, without its randomness: 240, 160, 120 cells; the bytes tell the frame.
pub fn frames(gops: usize) -> impl Iterator<Item = AppFrame> {
    (0..gops * 12).map(|n| {
        let (layer, cells) = match GOP[n % 12] {
            b'I' => (Layer::Base, 240),
            b'P' => (Layer::E1, 160),
            _ => (Layer::E2, 120),
        };
        AppFrame {
            layer,
            gop_start: n % 12 == 0,
            sound: false,
            time: None,
            payload: Bytes::from(content(n, cells * 48 - 40)).into(),
        }
    })
}

pub fn content(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + n * 7) as u8).collect()
}

/// Secret of the identity of the source.
pub const IDENTITY: Seed = Seed([1; 32]);
/// Seconds since 1970 at the start.
pub const EPOCH: u64 = 1_000_000;

/// A source that seals its media.
pub fn sealed_source(carriage: Carriage, tokens: bool) -> SourceConfig {
    SourceConfig {
        protection: Some(SourceProtection {
            identity: IDENTITY,
            random: Seed([2; 32]),
            tokens,
            clock: WallClock(EPOCH * 1_000_000),
            born: EPOCH,
        }),
        ..source_config(carriage, 300)
    }
}

/// A token for `member` that expires `seconds` after the start.
pub fn token(member: &str, level: Level, seconds: u64) -> Token {
    let claims = Claims {
        flow: "bunny".into(),
        member: Some(member.into()),
        level,
        expires: EPOCH + seconds,
    };
    Token::issue(&Signer::from_seed(&IDENTITY.0), claims, [3; 32])
}

/// A sink that may open what [`sealed_source`] sends, with a token if one is needed.
pub fn sealed_sink(carriage: Carriage, token: Option<Token>) -> SinkConfig {
    SinkConfig {
        protection: Some(SinkProtection {
            source: Some(Signer::from_seed(&IDENTITY.0).public()),
            token,
            random: Seed([4; 32]),
            clock: WallClock(EPOCH * 1_000_000),
        }),
        ..sink_config(carriage)
    }
}

/// What a test does to a data PDU: the delays of its copies; none is a loss.
pub type Fate<'a> = Box<dyn FnMut(Time, &LinkPdu) -> Vec<Span> + 'a>;

enum Travelling {
    Down(SinkInput),
    Up(SourceInput),
}

/// A QoS monitor of the sink as `join` has one, and what the sink says of its decisions.
#[derive(Default)]
pub struct Watch {
    monitor: Option<(Monitor, Time)>,
    /// The zone of each second.
    pub zones: Vec<(Time, Quality)>,
    /// The demands, each with its reason.
    pub demands: Vec<(Time, i64, String)>,
}

impl Watch {
    pub fn on() -> Watch {
        let config = MonitorConfig {
            rule: (2, 3),
            ..MonitorConfig::default()
        };
        Watch {
            monitor: Some((Monitor::new(config).unwrap(), ms(1_000))),
            ..Watch::default()
        }
    }

    fn next_look(&self) -> Option<Time> {
        self.monitor.as_ref().map(|it| it.1)
    }

    /// Once a second, what the monitor says.
    fn look(&mut self, now: Time, flow: FlowId) -> Option<Option<Quality>> {
        let (monitor, next) = self.monitor.as_mut().filter(|it| now >= it.1)?;
        *next = now + Span::from_secs(1);
        monitor.on_timeout(now);
        let report = monitor.snapshot(now, u64::from(flow.0));
        let quality = report.and_then(|it| it.quality(Direction::In));
        self.zones.extend(quality.map(|it| (now, it)));
        Some(quality)
    }

    /// The zones in a row, each once.
    pub fn course(&self, from: Time) -> Vec<Zone> {
        let from = self.zones.iter().filter(|it| it.0 >= from);
        let mut course: Vec<Zone> = from.map(|it| it.1.zone).collect();
        course.dedup();
        course
    }
}

impl Observer for Watch {
    fn record(&mut self, record: &Record<'_>) {
        if let TraceEvent::Decision {
            what: "res",
            value,
            reason,
            ..
        } = record.event
        {
            self.demands.push((record.time, value, reason.to_owned()));
        }
    }

    fn measure(&mut self, _: Subject<'_>, event: &QosEvent) {
        if let Some((monitor, _)) = &mut self.monitor {
            let now = Time::from_ps(event.t_ns * 1_000);
            monitor.handle_event(now, event);
        }
    }

    fn measures(&self) -> bool {
        self.monitor.is_some()
    }
}

pub struct World<'a> {
    pub now: Time,
    pub source: Source,
    pub sink: Sink,
    pub source_events: Vec<(Time, SourceEvent)>,
    pub events: Vec<(Time, SinkEvent)>,
    pub down: Fate<'a>,
    pub up: Fate<'a>,
    pub media: Box<dyn Iterator<Item = AppFrame> + 'a>,
    travelling: BTreeMap<(Time, u64), Travelling>,
    count: u64,
    /// Signals do not pass.
    pub cut: bool,
    /// What the source signalled.
    pub told: Vec<Signal>,
    /// How long signals to the sink take.
    pub signal_delay: Span,
    /// What watches the sink, if something does.
    pub watch: Watch,
}

impl<'a> World<'a> {
    pub fn new(source: SourceConfig, sink: SinkConfig, gops: usize) -> World<'a> {
        World {
            now: Time::ZERO,
            source: Source::new(source).unwrap(),
            sink: Sink::new(sink),
            source_events: Vec::new(),
            events: Vec::new(),
            down: Box::new(|_, _| vec![Span::from_ms(5)]),
            up: Box::new(|_, _| vec![Span::from_ms(5)]),
            media: Box::new(frames(gops)),
            travelling: BTreeMap::new(),
            count: 0,
            cut: false,
            told: Vec::new(),
            signal_delay: Span::from_ms(1),
            watch: Watch::default(),
        }
    }

    pub fn perfect(carriage: Carriage, gops: usize) -> World<'a> {
        World::new(source_config(carriage, 300), sink_config(carriage), gops)
    }

    /// Runs until `end`, or until nothing is left to do.
    pub fn run_until(&mut self, end: Time) {
        self.drain();
        while let Some(next) = self.next() {
            if next > end {
                break;
            }
            assert!(next >= self.now, "time runs backwards");
            self.now = next;
            self.step();
        }
        self.now = self.now.max(end);
    }

    pub fn input(&mut self, input: SinkInput) {
        self.sink.handle(self.now, input, &mut self.watch);
        self.drain();
    }

    pub fn send_to_source(&mut self, input: SourceInput) {
        self.source.handle(self.now, input, &mut Off);
        self.drain();
    }

    fn next(&self) -> Option<Time> {
        let pipe = self.travelling.keys().next().map(|key| key.0);
        let machines = [
            self.source.next_timeout(),
            self.sink.next_timeout(),
            self.watch.next_look(),
        ];
        let next = machines.into_iter().flatten().chain(pipe).min()?;
        Some(next.max(self.now))
    }

    fn step(&mut self) {
        let due = self
            .travelling
            .first_entry()
            .filter(|entry| entry.key().0 <= self.now);
        match due.map(|entry| entry.remove()) {
            Some(Travelling::Down(input)) => self.sink.handle(self.now, input, &mut self.watch),
            Some(Travelling::Up(input)) => self.source.handle(self.now, input, &mut Off),
            None => {
                self.source.on_timeout(self.now, &mut Off);
                self.sink.on_timeout(self.now, &mut self.watch);
                if let Some(quality) = self.watch.look(self.now, self.source.flow().id) {
                    self.sink.set_quality(quality);
                }
            }
        }
        self.drain();
    }

    fn drain(&mut self) {
        let now = self.now;
        while let Some(event) = self.source.poll_event() {
            if matches!(event, SourceEvent::NeedFrames(_)) {
                feed(&mut self.source, now, &mut self.media);
            }
            self.source_events.push((now, event));
        }
        while let Some(transmit) = self.source.poll_transmit(now, &mut Off) {
            match transmit {
                SourceTransmit::Pdu(pdu) => {
                    for delay in (self.down)(now, &pdu) {
                        self.send(now + delay, Travelling::Down(SinkInput::Pdu(pdu.clone())));
                    }
                }
                SourceTransmit::Signal(signal) => {
                    self.told.push(signal.clone());
                    self.signal(Travelling::Down(SinkInput::Signal(signal)));
                }
            }
        }
        while let Some(transmit) = self.sink.poll_transmit(now, &mut Off) {
            match transmit {
                SinkTransmit::Pdu(pdu) => {
                    for delay in (self.up)(now, &pdu) {
                        self.send(now + delay, Travelling::Up(SourceInput::Pdu(pdu.clone())));
                    }
                }
                SinkTransmit::Signal(signal) => {
                    self.signal(Travelling::Up(SourceInput::Signal(signal)));
                }
            }
        }
        while let Some(event) = self.sink.poll_event() {
            self.events.push((now, event));
        }
    }

    fn signal(&mut self, signal: Travelling) {
        if !self.cut {
            let delay = match signal {
                Travelling::Down(_) => self.signal_delay,
                Travelling::Up(_) => Span::from_ms(1),
            };
            self.send(self.now + delay, signal);
        }
    }

    fn send(&mut self, at: Time, what: Travelling) {
        self.count += 1;
        self.travelling.insert((at, self.count), what);
    }

    /// Another source replaces the first one; the sink is not notified.
    pub fn replace_source(&mut self, source: Source, gops: usize) {
        self.source = source;
        self.media = Box::new(frames(gops));
        self.drain();
    }

    pub fn advertise(&mut self) {
        let flow = self.source.flow().clone();
        self.input(SinkInput::Signal(Signal::Advertise { flow: flow.into() }));
    }

    pub fn levels(&self) -> Vec<(Time, Level)> {
        let level = |(at, event): &(Time, SinkEvent)| match event {
            SinkEvent::Level { to, .. } => Some((*at, *to)),
            _ => None,
        };
        self.events.iter().filter_map(level).collect()
    }

    pub fn played(&self) -> impl Iterator<Item = &layercast_mets::PlayedFrame> {
        self.events.iter().filter_map(|(_, event)| match event {
            SinkEvent::Frame(frame) => Some(frame),
            _ => None,
        })
    }

    pub fn count(&self, wanted: fn(&SinkEvent) -> bool) -> usize {
        self.events
            .iter()
            .filter(|(_, event)| wanted(event))
            .count()
    }
}

/// The frame number of a data PDU that starts a frame, with its layer.
pub fn starts_frame(pdu: &LinkPdu) -> Option<(u32, Layer)> {
    match pdu {
        LinkPdu::Mets(packet) if packet.header.offset == 0 => {
            Some((packet.header.seq.0, packet.header.kind.layer()?))
        }
        _ => None,
    }
}

/// RES of another branch.
pub fn res(era: u32, max: Level) -> SourceInput {
    SourceInput::Pdu(LinkPdu::Adapter(message(AdapterKind::Res, era, max)))
}

pub fn adapt(era: u32, level: Level) -> SinkInput {
    SinkInput::Pdu(LinkPdu::Adapter(message(AdapterKind::Adapt, era, level)))
}

fn message(kind: AdapterKind, era: u32, max: Level) -> AdapterMsg {
    AdapterMsg {
        kind,
        group: GroupId(3),
        flow: FlowId(7),
        era: Serial(era),
        origin: NodeId(9),
        min: max.down(),
        max,
        hops: 0,
        levels: LevelSet::EMPTY,
        rate_min: CellRate(0),
        rate_max: CellRate(0),
        residual: CellRate(0),
        drain: CellRate(0),
    }
}

/// A packet of the flow that fits nowhere in the sequence.
pub fn any_packet() -> LinkPdu {
    LinkPdu::Mets(MetsPacket {
        header: MetsHeader {
            kind: FrameType::BL,
            flags: Flags::FIRST,
            flow: FlowId(7),
            seq: Serial(0),
            timestamp_us: 0,
            e1_count: 0,
            e2_count: 0,
            alf_len: 100,
            offset: 0,
            waited: Waited::default(),
            sound: Sound::default(),
            passing: Passing::default(),
        },
        payload: Payload::Zeros(10),
        congestion: false,
    })
}
