use std::net::SocketAddr;

use bytes::Bytes;
use layercast_core::{
    CellRate, EndToEnd, FlowId, Layer, Level, Machine, Observer, PortId, Quality, Rate, Serial,
    Span, Status, Subject, Time, TraceEvent, earliest,
};
use layercast_link::{LinkRepairStats, RepairRole, octet_codec};
use layercast_mets::switch::PortConfig;
use layercast_mets::{
    ControlError, FlowLog, PlayedFrame, Sink, SinkConfig, SinkEvent, SinkInput, SinkStats,
};
use layercast_mets::{Station, StationConfig, StationEvent, StationInput, StationTransmit};
use layercast_monitor::Direction;
use layercast_protect::{LinkOpener, OpenError, WallClock};
use layercast_repair::Means;
use layercast_wire::{Carriage, Epoch, FlowInfo, Refusal, Secret, Signal, decode_datagram};
use tokio::sync::mpsc;

use crate::clock::clock_name;
use crate::command::{JoinCommand, Pending};
use crate::config::{JoinConfig, JoinEvent, Progress};
use crate::connection::{Newcomer, PeerId, PeerSender};
use crate::egress::Egress;
use crate::error::NetError;
use crate::explained::Explained;
use crate::monitors::Watch;
use crate::output::FrameOut;
use crate::remote::Renewed;
use crate::udp::{Inbound, Udp};

/// Pause before a refused join is tried again.
const REJOIN: Span = Span::from_secs(1);
/// The one link of a receiving host.
const PORT: PortId = PortId(0);
/// The place of the sink in its station.
const SINK: usize = 0;
/// Most flows remembered to tell the user which there are.
const MAX_KNOWN: usize = 64;

/// The station of a receiving host and what it is connected to: everything but sockets and clocks.
pub(crate) struct Receiver {
    config: SinkConfig,
    /// The policy of the flow replaces that of `config`.
    policy_of_flow: bool,
    /// It has a sink once the flow is advertised: only then it is known whose clock stamps it.
    station: Station,
    /// The life of the flow that was advertised last.
    life: Option<(FlowId, Epoch)>,
    /// Its revision.
    revision: u32,
    /// The pace of a slow source that was advertised last.
    media_ms_per_s: Option<u16>,
    /// Pictures of it that are damaged, as advertised last.
    input_damaged: u64,
    /// Its source could not read its input any more.
    pub input_failed: bool,
    upstream: Option<Upstream>,
    egress: Egress,
    /// Whether losses on the link are repaired, if the neighbour does so.
    repair: bool,
    pub log: FlowLog,
    pub out: FrameOut,
    pub explained: Option<Explained>,
    meter: Meter,
    watch: Option<Watch>,
    /// What the division of the last link left over.
    left: CellRate,
    events: mpsc::Sender<JoinEvent>,
    stop_if_refused: bool,
    rejoin_at: Option<Time>,
    /// The flows that the neighbour has advertised on this connection, by number.
    known: Vec<(FlowId, String)>,
    /// The core of the flow that was advertised last.
    core: Option<String>,
    /// Requests of the user that the sink has not answered yet.
    requests: Pending,
    /// Where the wall clock is read.
    wall_clock: fn() -> WallClock,
    pub refused: Option<Refusal>,
    pub closed: bool,
    pub malformed: u64,
    pub connected: u64,
    /// A second is over whose counters were not reported.
    pub owes_counters: bool,
    pub synchronised: bool,
}

/// The connected upstream neighbour.
struct Upstream {
    peer: PeerId,
    sender: PeerSender,
    data: SocketAddr,
    carriage: Carriage,
    /// `None`: in the clear.
    opener: Option<LinkOpener>,
}

/// What was played in the running second and since the start.
struct Meter {
    epoch: Time,
    ends: Time,
    bytes: u64,
    delay: Span,
    /// Octets of the longest datagram that came.
    longest: usize,
    /// Live frames, and the sum of their delays.
    live: (u64, EndToEnd),
    highest: Option<Layer>,
}

/// The receiver while datagrams come in.
pub(crate) struct Hearing<'a, O> {
    pub receiver: &'a mut Receiver,
    pub now: Time,
    pub obs: &'a mut O,
}

impl<O: Observer> Inbound for Hearing<'_, O> {
    type Key = Carriage;

    fn known(&mut self, addr: SocketAddr) -> Option<Carriage> {
        let upstream = self.receiver.upstream.as_ref()?;
        (upstream.data == addr).then_some(upstream.carriage)
    }

    fn open<'a>(&mut self, _: Carriage, datagram: &'a mut [u8]) -> Result<&'a [u8], OpenError> {
        let upstream = self.receiver.upstream.as_mut();
        match upstream.and_then(|upstream| upstream.opener.as_mut()) {
            Some(opener) => Ok(opener.open(datagram)?),
            None => Ok(datagram),
        }
    }

    fn deliver(&mut self, carriage: Carriage, datagram: Bytes, congestion: bool) {
        let receiver = &mut *self.receiver;
        let heeds = receiver.egress.repair.heeds_marks();
        if congestion
            && !heeds
            && let Some(sink) = receiver.station.sink_mut(SINK)
        {
            sink.note_mark();
        }
        let congestion = congestion && heeds;
        receiver.meter.longest = receiver.meter.longest.max(datagram.len());
        let received = receiver.egress.receive(self.now, 0, datagram, self.obs);
        receiver.malformed += u64::from(received.is_err());
        // A parity completes several datagrams.
        let mut next = received.ok().flatten();
        while let Some(datagram) = next {
            let decoded = decode_datagram(carriage, datagram, congestion, &mut |pdu| {
                receiver.input(self.now, StationInput::Pdu { port: PORT, pdu }, self.obs);
            });
            receiver.malformed += u64::from(decoded.is_err());
            next = receiver.egress.repair.poll_received();
        }
    }
}

impl Receiver {
    pub fn new(
        config: JoinConfig,
        watch: Option<Watch>,
        events: mpsc::Sender<JoinEvent>,
        now: Time,
    ) -> Result<Receiver, NetError> {
        let link_name = format!("{}-upstream", config.sink.node);
        let seed = config.sink.seed;
        let line = PortConfig {
            rate: config.rate,
            ..PortConfig::default()
        };
        Ok(Receiver {
            egress: Egress::new(None, &line, config.link, seed, &link_name),
            log: FlowLog::new(&config.sink.node, &config.link_name, config.epoch),
            out: FrameOut::open(
                &config.output,
                (config.undecodable, config.fast_start),
                seed,
            )?,
            watch,
            explained: config
                .explain
                .map(|path| Explained::create(path, config.epoch))
                .transpose()?,
            meter: Meter {
                epoch: config.epoch,
                ends: config.epoch + Span::from_secs(now.since(config.epoch).as_ms() / 1_000 + 1),
                bytes: 0,
                longest: 0,
                delay: Span::ZERO,
                live: Default::default(),
                highest: None,
            },
            left: CellRate(0),
            repair: config.repair,
            policy_of_flow: config.policy_of_flow,
            config: config.sink,
            station: Station::new(StationConfig {
                rate: config.rate,
                ..StationConfig::default()
            }),
            life: None,
            revision: 0,
            media_ms_per_s: None,
            input_damaged: 0,
            input_failed: false,
            upstream: None,
            events,
            stop_if_refused: config.stop_if_refused,
            rejoin_at: None,
            known: Vec::new(),
            core: None,
            requests: Pending::default(),
            wall_clock: config.wall_clock,
            refused: None,
            closed: false,
            malformed: 0,
            connected: 0,
            owes_counters: false,
            synchronised: true,
        })
    }

    /// The upstream neighbour is there.
    pub fn open<O: Observer>(&mut self, now: Time, newcomer: Newcomer, obs: &mut O) {
        let Newcomer {
            peer,
            addr,
            local,
            hello,
            sender,
            proven,
            session,
            ..
        } = newcomer;
        self.known.clear();
        let data = SocketAddr::new(addr.ip(), hello.udp_port);
        self.egress.redirect(Some(data), local);
        self.egress.protect(proven.as_ref().map(|it| &it.key));
        let theirs = hello
            .repair
            .filter(|_| hello.carriage == Carriage::Datagrams);
        let role = theirs.and_then(|theirs| match hello.group_repair {
            Some(first) => Some(RepairRole::Member {
                session: theirs,
                first: Serial(first),
                asks: self.repair,
                seed: self.config.seed,
                codec: octet_codec(),
            }),
            None => self.repair.then_some(RepairRole::Two {
                ours: session,
                theirs,
                // A receiver sends single messages: parities of them are no fewer than copies.
                means: Means::Requests,
                measures: false,
                prompt: hello.prompt,
                codec: octet_codec(),
            }),
        });
        self.egress.repair.begin(role);
        self.upstream = Some(Upstream {
            peer,
            sender,
            data,
            // Which carriage the link has is for the neighbour to say.
            carriage: hello.carriage,
            opener: hello.link_key.as_ref().map(LinkOpener::new),
        });
        self.connected += 1;
        self.tell(JoinEvent::Connected {
            upstream: hello.node.clone(),
            protected: proven.is_some(),
        });
        self.input(now, StationInput::PortUp { port: PORT }, obs);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.node
    }

    /// The upstream neighbour is lost.
    pub fn close<O: Observer>(&mut self, now: Time, peer: PeerId, reason: String, obs: &mut O) {
        match &mut self.upstream {
            Some(upstream) if upstream.peer == peer => {
                // Datagrams may continue: the data path does not need the channel.
                self.tell(JoinEvent::Disconnected { reason });
                self.input(now, StationInput::PortDown { port: PORT }, obs);
            }
            _ => {}
        }
    }

    /// The upstream neighbour says something.
    pub fn signal<O: Observer>(&mut self, now: Time, peer: PeerId, signal: Signal, obs: &mut O) {
        if !self.is_upstream(peer) {
            return;
        }
        if let Signal::LinkKey { key } = &signal {
            self.key_changed(key);
            return;
        }
        match &signal {
            Signal::Advertise { flow } => {
                self.known.retain(|(id, _)| *id != flow.id);
                if self.known.len() < MAX_KNOWN {
                    self.known.push((flow.id, flow.name.clone()));
                }
                let taken = self.station.sink(SINK).is_none_or(|it| it.takes(flow));
                if self.config.is_asked_for(flow) && taken {
                    self.advertised(now, flow, obs);
                }
            }
            Signal::Withdraw { flow, .. } => {
                self.known.retain(|(id, _)| id != flow);
                let sink = self.station.sink(SINK);
                if let Some(next) = sink.and_then(|it| it.next_after(*flow)).cloned() {
                    self.advertised(now, &next, obs);
                }
            }
            _ => {}
        }
        self.input(now, StationInput::Signal { port: PORT, signal }, obs);
    }

    /// Whether a neighbour is the one that the flow comes from.
    pub fn is_upstream(&self, peer: PeerId) -> bool {
        self.upstream.as_ref().is_some_and(|it| it.peer == peer)
    }

    /// The flow is advertised: for the first time, or again, perhaps in another life.
    fn advertised<O: Observer>(&mut self, now: Time, flow: &FlowInfo, obs: &mut O) {
        self.media_ms_per_s = flow.media_ms_per_s;
        self.input_damaged = flow.input_damaged;
        self.input_failed = flow.input_failed;
        self.core.clone_from(&flow.core);
        let (life, revision) = (Some((flow.id, flow.epoch)), flow.revision);
        let same = std::mem::replace(&mut self.life, life) == life;
        let known = std::mem::replace(&mut self.revision, revision) == revision;
        if same {
            if !known {
                self.tell(JoinEvent::Advertised(Box::new(flow.clone())));
            }
            return;
        }
        self.synchronised = self.config.synchronised && flow.clock == clock_name();
        self.out.set_flow(flow);
        self.tell(JoinEvent::Advertised(Box::new(flow.clone())));
        let policy = self.policy_of_flow.then(|| flow.policy.clone());
        if let Some(sink) = self.station.sink_mut(SINK) {
            sink.prepare_life(self.synchronised, policy);
            return;
        }
        let carriage = self.upstream.as_ref().map(|upstream| upstream.carriage);
        let sink = Sink::new(SinkConfig {
            synchronised: self.synchronised,
            carriage: carriage.unwrap_or(self.config.carriage),
            policy: policy.unwrap_or_else(|| self.config.policy.clone()),
            ..self.config.clone()
        });
        self.station.set_sink(SINK, Some(sink));
        self.input(now, StationInput::PortUp { port: PORT }, obs);
    }

    /// The URL of the upstream neighbour has changed.
    pub fn renewed(&mut self, renewed: Renewed) {
        let upstream = renewed.addr;
        if let Some(protection) = renewed.protection {
            if let Some(sink) = self.station.sink_mut(SINK) {
                sink.set_protection(protection.clone());
            }
            self.config.protection = Some(protection);
        }
        self.tell(JoinEvent::Renewed { upstream });
    }

    /// The neighbour seals its datagrams with another key from soon on.
    fn key_changed(&mut self, key: &Secret) {
        let upstream = self.upstream.as_mut();
        let opener = upstream.and_then(|upstream| upstream.opener.as_mut());
        // On a link in the clear a key is worth nothing.
        if let (Some(opener), Ok(key)) = (opener, key.0.parse()) {
            opener.add(&key);
        }
    }

    /// Hands the neighbour another key for our datagrams when one is due.
    fn change_key(&mut self, now: Time) {
        if let (Some(upstream), Some(key)) = (&self.upstream, self.egress.change_key(now)) {
            let key = Secret(key.to_text());
            upstream.sender.send(Signal::LinkKey { key });
        }
    }

    /// Runs the timers.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.station.set_wall_clock((self.wall_clock)());
        self.station.on_timeout(now, obs);
        if self.rejoin_at.is_some_and(|at| at <= now) {
            self.rejoin_at = None;
            self.station.give_sink(now, SINK, SinkInput::Rejoin, obs);
        }
        self.settle(now, obs);
        self.change_key(now);
        self.egress.poll(now, obs);
        if self.meter.ends <= now {
            let quality = self.judge(now, obs);
            self.second(now, quality);
            // Before the first frame the budget of the sender holds.
            if let Some(spare) = self.station.sink(SINK).and_then(Sink::spare) {
                self.egress.repair.set_budget(now, Some(spare), obs);
            }
        }
    }

    /// What was repaired on the link, if anything could be.
    pub fn repair_stats(&self) -> Option<LinkRepairStats> {
        self.egress.repair.stats()
    }

    /// When timers want to run.
    pub fn next_timeout(&self) -> Option<Time> {
        let rest = earliest(self.egress.next_timeout(), self.rejoin_at);
        earliest(
            earliest(self.station.next_timeout(), rest),
            Some(self.meter.ends),
        )
    }

    /// Gives the station an input; without a sink it is for nothing.
    fn input<O: Observer>(&mut self, now: Time, input: StationInput, obs: &mut O) {
        self.station.handle(now, input, obs);
        self.settle(now, obs);
    }

    /// The sink leaves the flow.
    pub fn leave<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.station.give_sink(now, SINK, SinkInput::Leave, obs);
        self.settle(now, obs);
    }

    /// Does what the user asks.
    pub fn command<O: Observer>(&mut self, now: Time, command: JoinCommand, obs: &mut O) {
        match command {
            JoinCommand::Stats { reply } => drop(reply.send(self.stats())),
            JoinCommand::Info { reply } => {
                let info = self.station.sink(SINK).and_then(Sink::group_info);
                let _ = reply.send(info);
            }
            JoinCommand::Leave { reason } => match self.station.sink_mut(SINK) {
                Some(sink) => sink.leave(reason),
                None => self.closed = true,
            },
            JoinCommand::Register => match self.station.sink_mut(SINK) {
                Some(sink) => sink.register(now),
                None => self.config.registered = true,
            },
            JoinCommand::Request { option, reply } => match self.station.sink_mut(SINK) {
                Some(sink) => sink.request(now, self.requests.ask(reply), option),
                // Nothing is known yet of what could be changed.
                None => drop(reply.send(Status::NotRegistered)),
            },
            JoinCommand::Wishes { wishes, reply } => {
                let wishes = wishes.map(|it| *it);
                let status = match self.station.sink_mut(SINK) {
                    Some(sink) => sink.set_wishes(now, wishes).err().map(Status::Admit),
                    None => Some(Status::NotRegistered),
                };
                let _ = reply.send(status.unwrap_or(Status::Ok));
            }
            JoinCommand::AllowRaise => {
                if let Some(sink) = self.station.sink_mut(SINK) {
                    sink.allow_raise();
                }
            }
            JoinCommand::Control { message, reply } => {
                let sent = match self.station.sink_mut(SINK) {
                    Some(sink) => sink.send_control(now, message),
                    None => Err(ControlError::NotConnected),
                };
                let _ = reply.send(sent);
            }
        }
        self.settle(now, obs);
    }

    /// Sends what the station sends, and acts on its events.
    fn settle<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(transmit) = self.station.poll_transmit(now, obs) {
            match transmit {
                StationTransmit::Pdu { pdu, at, .. } => {
                    self.egress.send(now, at, pdu, obs);
                }
                StationTransmit::Signal { signal, .. } => {
                    if let Some(upstream) = &self.upstream {
                        upstream.sender.send(signal);
                    }
                }
            }
        }
        while let Some(event) = self.station.poll_event() {
            if let StationEvent::Sink(_, event) = event {
                self.on_event(now, &event);
            }
        }
        if let (Some(explained), Some(sink)) = (&mut self.explained, self.station.sink(SINK))
            && let Some((error, kind)) = explained.write(sink)
        {
            self.tell(JoinEvent::Unexplained { error, kind });
        }
    }

    fn on_event(&mut self, now: Time, event: &SinkEvent) {
        self.log.on_event(now, event);
        match event {
            SinkEvent::Frame(frame) => {
                self.meter.frame(now, frame);
                self.out.write(frame);
            }
            SinkEvent::End { last } => self.out.end(*last),
            SinkEvent::Joined { flow } => self.tell(JoinEvent::Joined(flow.clone())),
            SinkEvent::Level { from, to, .. } => self.tell(JoinEvent::Level {
                from: *from,
                to: *to,
            }),
            SinkEvent::Refused(refusal) => {
                self.tell(JoinEvent::Refused(refusal.clone()));
                if self.stop_if_refused {
                    self.refused = Some(refusal.clone());
                } else {
                    self.rejoin_at = Some(now + REJOIN);
                }
            }
            SinkEvent::Closed { undelivered } => {
                self.closed = true;
                let undelivered = *undelivered;
                self.tell(JoinEvent::Closed { undelivered });
            }
            SinkEvent::Answer { id, status } => self.requests.answer(*id, status.clone()),
            SinkEvent::Adapt(message) => self.left = message.residual,
            SinkEvent::Res(_) => {}
            other => self.tell(JoinEvent::Sink(other.clone())),
        }
    }

    /// What the monitor says of the flow: the user and the reports to the source tell it.
    fn judge<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Quality> {
        let (id, _) = self.life?;
        let (report, signals) = self.watch.as_ref()?.look(u64::from(id.0));
        let node = &*self.config.node;
        let subject = Subject {
            node,
            machine: "sink",
        };
        for signal in signals {
            obs.on(now, subject, || TraceEvent::State {
                flow: id,
                what: signal.parameter.name(),
                from: signal.zone_from.name(),
                to: signal.zone_to.name(),
            });
            self.tell(JoinEvent::Zone(signal));
        }
        let quality = report.and_then(|it| it.quality(Direction::In));
        if let Some(sink) = self.station.sink_mut(SINK) {
            sink.set_quality(quality);
        }
        quality
    }

    /// Tells the figures of the second that is over.
    fn second(&mut self, now: Time, quality: Option<Quality>) {
        let stats = self.stats();
        let meter = &mut self.meter;
        let progress = Progress {
            t: meter.ends.since(meter.epoch).as_secs_f64(),
            level: self.station.sink(SINK).map_or(Level::BASE, Sink::level),
            asked: self
                .station
                .sink(SINK)
                .map_or(self.config.level, Sink::level_asked),
            asks_less_because: self.station.sink(SINK).and_then(Sink::asks_less_because),
            left: self.left,
            rate: Rate::from_bps(meter.bytes * 8),
            delay: meter.delay,
            longest: std::mem::take(&mut meter.longest),
            end_to_end: meter.end_to_end(),
            highest: meter.highest,
            frames: stats.played,
            lost: stats.lost,
            outage: stats.outage,
            late: stats.late,
            late_stopped: stats.late_stopped,
            source_clock: stats.source_clock,
            packets: stats.packets,
            marked: stats.marked,
            repaired: stats.repair.map(|repair| repair.recovered),
            link_repair: self.egress.repair.stats(),
            outage_ms: stats.outage_ms,
            silence: stats.silence,
            cut_starts: stats.cut_starts,
            late_ms: stats.late_ms,
            source_late_ms: stats.source_late_ms,
            media_ms_per_s: self.media_ms_per_s,
            input_damaged: self.input_damaged,
            quality,
            output_dropped: self.out.dropped(),
            output_broken: self.out.broken(),
        };
        while meter.ends <= now {
            meter.ends += Span::from_secs(1);
        }
        (meter.bytes, meter.delay, meter.highest) = (0, Span::ZERO, None);
        meter.live = Default::default();
        self.tell(JoinEvent::Second(Box::new(progress)));
        self.owes_counters = true;
    }

    /// What the sink received.
    pub fn stats(&self) -> SinkStats {
        let sink = self.station.sink(SINK);
        sink.map(Sink::stats).unwrap_or_default()
    }

    /// Whether the flow is neither joined nor over.
    pub fn awaits_flow(&self) -> bool {
        !self.closed && self.station.sink(SINK).is_none_or(Sink::awaits_flow)
    }

    /// How long ago the last packet of the flow came.
    pub fn silence(&self, now: Time) -> Option<Span> {
        let heard = self.station.sink(SINK)?.heard()?;
        Some(now.since(heard))
    }

    /// Whether anything was played.
    pub fn has_played(&self) -> bool {
        self.log.has_played()
    }

    /// Whether the flow was found.
    pub fn found(&self) -> bool {
        self.station.sink(SINK).is_some()
    }

    /// The flows there are instead of the one that is missing; one of its name is of another source.
    pub fn known_flows(&self) -> String {
        if self.known.is_empty() {
            return "none".into();
        }
        let told = |name: &String| match self.has_foreign() && *name == self.config.flow {
            true => format!("{name}, which is not signed by the source asked for"),
            false => name.clone(),
        };
        let mut names: Vec<String> = self.known.iter().map(|it| told(&it.1)).collect();
        names.dedup();
        names.join(", ")
    }

    /// Whether the flow is missing, and one of its name is there that another source has signed, or none.
    pub fn has_foreign(&self) -> bool {
        !self.found() && self.known.iter().any(|it| it.1 == self.config.flow)
    }

    /// The node through which all joins of the flow go, if it has one.
    pub fn core(&self) -> Option<&str> {
        self.core.as_deref()
    }

    /// Hands everything that is due to the kernel; `false` if the kernel takes no more now.
    pub fn flush(&mut self, udp: &mut Udp) -> bool {
        self.egress.flush(udp)
    }

    /// What was received at `now` may have come later: the host was held up while it read.
    pub fn read_late<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.egress.repair.read_late(now, obs);
    }

    /// What was sent at `since` or later was handed to the kernel by `now`: the host was held up in between.
    pub fn held_up<O: Observer>(&mut self, since: Time, now: Time, obs: &mut O) {
        self.egress.repair.held_up(since, now, obs);
    }

    /// This host did not run the receiver from `since` until `now`.
    pub fn stopped(&mut self, since: Time, now: Time) {
        if let Some(sink) = self.station.sink_mut(SINK) {
            sink.stopped(since, now);
        }
    }

    /// Closes the connection in order.
    pub fn hang_up(&mut self) {
        self.upstream = None;
    }

    /// Tells the user, if the user listens.
    pub fn tell(&self, event: JoinEvent) {
        let _ = self.events.try_send(event);
    }
}

impl Meter {
    /// The mean of the parts.
    fn end_to_end(&self) -> Option<EndToEnd> {
        let (frames, sum) = self.live;
        let mean = |part: Span| part.mul_div(1, frames);
        (frames > 0).then(|| EndToEnd {
            ingest: mean(sum.ingest),
            queue: mean(sum.queue),
            path: mean(sum.path),
            playout: mean(sum.playout),
        })
    }

    fn frame(&mut self, now: Time, frame: &PlayedFrame) {
        if frame.waited.is_live() {
            let delay = frame.end_to_end(now);
            let (frames, sum) = &mut self.live;
            *frames += 1;
            sum.ingest += delay.ingest;
            sum.queue += delay.queue;
            sum.path += delay.path;
            sum.playout += delay.playout;
        }
        self.bytes += frame.payload.len() as u64;
        self.delay = self.delay.max(frame.delay);
        self.highest = self.highest.max(Some(frame.layer));
    }
}
