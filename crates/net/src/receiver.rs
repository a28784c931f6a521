use std::net::SocketAddr;

use bytes::Bytes;
use layercast_core::{
    CellRate, EndToEnd, FlowId, Layer, Level, Machine, Observer, Rate, Span, Status, Time, earliest,
};
use layercast_protect::{LinkOpener, OpenError, WallClock};
use layercast_switch::LinkRepairStats;
use layercast_transport::mets::{
    ControlError, FlowLog, PlayedFrame, Sink, SinkConfig, SinkEvent, SinkInput, SinkTransmit,
};
use layercast_wire::{Carriage, Epoch, FlowInfo, Refusal, Secret, Signal, decode_datagram};
use tokio::sync::mpsc;

use crate::clock::clock_name;
use crate::command::{JoinCommand, Pending};
use crate::config::{JoinConfig, JoinEvent, Progress};
use crate::connection::{Newcomer, PeerId, PeerSender};
use crate::egress::Egress;
use crate::error::NetError;
use crate::output::FrameOut;
use crate::remote::Renewed;
use crate::udp::{Inbound, Udp};

/// Pause before a refused join is tried again.
const REJOIN: Span = Span::from_secs(1);
/// Most flows remembered to tell the user which there are.
const MAX_KNOWN: usize = 64;

/// The sink of a receiving host and what it is connected to: everything but sockets and clocks.
pub(crate) struct Receiver {
    config: SinkConfig,
    /// The policy of the flow replaces that of `config`.
    policy_of_flow: bool,
    /// There once the flow is advertised: only then it is known whose clock stamps it.
    sink: Option<Sink>,
    /// The life of the flow that was advertised last.
    life: Option<(FlowId, Epoch)>,
    upstream: Option<Upstream>,
    egress: Egress,
    /// Whether losses on the link are repaired, if the neighbour does so.
    repair: bool,
    rate: Option<Rate>,
    busy_until: Time,
    pub log: FlowLog,
    pub out: FrameOut,
    meter: Meter,
    /// What the division of the last link left over.
    left: CellRate,
    events: mpsc::Sender<JoinEvent>,
    stop_if_refused: bool,
    rejoin_at: Option<Time>,
    known: Vec<String>,
    /// Requests of the user that the sink has not answered yet.
    requests: Pending,
    /// Where the wall clock is read.
    wall_clock: fn() -> WallClock,
    pub refused: Option<Refusal>,
    pub closed: bool,
    pub malformed: u64,
    pub connected: u64,
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
        let datagram = match receiver.egress.receive(self.now, datagram, self.obs) {
            Ok(Some(datagram)) => datagram,
            Ok(None) => return,
            Err(_) => {
                receiver.malformed += 1;
                return;
            }
        };
        let decoded = decode_datagram(carriage, datagram, congestion, &mut |pdu| {
            receiver.input(self.now, SinkInput::Pdu(pdu), self.obs);
        });
        receiver.malformed += u64::from(decoded.is_err());
    }
}

impl Receiver {
    pub fn new(
        config: JoinConfig,
        events: mpsc::Sender<JoinEvent>,
        now: Time,
    ) -> Result<Receiver, NetError> {
        let link_name = format!("{}-upstream", config.sink.node);
        let seed = config.sink.seed;
        Ok(Receiver {
            egress: Egress::new(None, config.rate, config.link, seed, &link_name),
            log: FlowLog::new(&config.sink.node, &config.link_name, config.epoch),
            out: FrameOut::open(
                &config.output,
                (config.undecodable, config.fast_start),
                seed,
            )?,
            meter: Meter {
                epoch: config.epoch,
                ends: config.epoch + Span::from_secs(now.since(config.epoch).as_ms() / 1_000 + 1),
                bytes: 0,
                delay: Span::ZERO,
                live: Default::default(),
                highest: None,
            },
            left: CellRate(0),
            repair: config.repair && config.group.is_none(),
            policy_of_flow: config.policy_of_flow,
            config: config.sink,
            sink: None,
            life: None,
            upstream: None,
            rate: config.rate,
            busy_until: Time::ZERO,
            events,
            stop_if_refused: config.stop_if_refused,
            rejoin_at: None,
            known: Vec::new(),
            requests: Pending::default(),
            wall_clock: config.wall_clock,
            refused: None,
            closed: false,
            malformed: 0,
            connected: 0,
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
        let data = SocketAddr::new(addr.ip(), hello.udp_port);
        self.egress.redirect(Some(data), local);
        self.egress.protect(proven.as_ref().map(|it| &it.key));
        let repair = hello
            .repair
            .filter(|_| self.repair && hello.carriage == Carriage::Datagrams);
        self.egress.repair(repair.map(|theirs| (session, theirs)));
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
        self.input(now, SinkInput::LinkUp, obs);
    }

    /// The upstream neighbour is lost.
    pub fn close<O: Observer>(&mut self, now: Time, peer: PeerId, reason: String, obs: &mut O) {
        match &mut self.upstream {
            Some(upstream) if upstream.peer == peer => {
                // Datagrams may continue: the data path does not need the channel.
                self.tell(JoinEvent::Disconnected { reason });
                self.input(now, SinkInput::LinkDown, obs);
            }
            _ => {}
        }
    }

    /// The upstream neighbour says something.
    pub fn signal<O: Observer>(&mut self, now: Time, peer: PeerId, signal: Signal, obs: &mut O) {
        if self.upstream.as_ref().is_none_or(|it| it.peer != peer) {
            return;
        }
        if let Signal::LinkKey { key } = &signal {
            self.key_changed(key);
            return;
        }
        if let Signal::Advertise { flow } = &signal {
            if flow.name == self.config.flow {
                self.advertised(now, flow, obs);
            } else if self.sink.is_some() {
                // What else there is matters to a user whose flow is missing.
            } else if self.known.len() < MAX_KNOWN {
                self.known.push(flow.name.clone());
            }
        }
        self.input(now, SinkInput::Signal(signal), obs);
    }

    /// The flow is advertised: for the first time, or again, perhaps in another life.
    fn advertised<O: Observer>(&mut self, now: Time, flow: &FlowInfo, obs: &mut O) {
        let life = Some((flow.id, flow.epoch));
        if std::mem::replace(&mut self.life, life) == life {
            return;
        }
        self.synchronised = self.config.synchronised && flow.clock == clock_name();
        self.out.set_flow(flow);
        self.tell(JoinEvent::Advertised(Box::new(flow.clone())));
        let policy = self.policy_of_flow.then(|| flow.policy.clone());
        if let Some(sink) = &mut self.sink {
            sink.prepare_life(self.synchronised, policy);
            return;
        }
        let carriage = self.upstream.as_ref().map(|upstream| upstream.carriage);
        self.sink = Some(Sink::new(SinkConfig {
            synchronised: self.synchronised,
            carriage: carriage.unwrap_or(self.config.carriage),
            policy: policy.unwrap_or_else(|| self.config.policy.clone()),
            ..self.config.clone()
        }));
        self.input(now, SinkInput::LinkUp, obs);
    }

    /// The URL of the upstream neighbour has changed.
    pub fn renewed(&mut self, renewed: Renewed) {
        let upstream = renewed.addr;
        if let Some(protection) = renewed.protection {
            if let Some(sink) = &mut self.sink {
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
        if let Some(sink) = &mut self.sink {
            sink.set_wall_clock((self.wall_clock)());
            sink.on_timeout(now, obs);
        }
        if self.rejoin_at.is_some_and(|at| at <= now) {
            self.rejoin_at = None;
            self.input(now, SinkInput::Rejoin, obs);
        }
        self.drain(now, obs);
        self.change_key(now);
        self.egress.poll(now, obs);
        if self.meter.ends <= now {
            self.second(now);
            // Before the first frame the budget of the sender holds.
            if let Some(spare) = self.sink.as_ref().and_then(Sink::spare) {
                self.egress.set_budget(now, Some(spare), obs);
            }
        }
    }

    /// What was repaired on the link, if anything could be.
    pub fn repair_stats(&self) -> Option<LinkRepairStats> {
        self.egress.repair_stats()
    }

    /// When timers want to run.
    pub fn next_timeout(&self) -> Option<Time> {
        let sink = self.sink.as_ref().and_then(Sink::next_timeout);
        let rest = earliest(self.egress.next_timeout(), self.rejoin_at);
        earliest(earliest(sink, rest), Some(self.meter.ends))
    }

    /// Gives the sink an input, if there is a sink yet.
    pub fn input<O: Observer>(&mut self, now: Time, input: SinkInput, obs: &mut O) {
        if let Some(sink) = &mut self.sink {
            sink.handle(now, input, obs);
            self.drain(now, obs);
        }
    }

    /// Does what the user asks.
    pub fn command<O: Observer>(&mut self, now: Time, command: JoinCommand, obs: &mut O) {
        match command {
            JoinCommand::Stats { reply } => drop(reply.send(self.stats())),
            JoinCommand::Info { reply } => {
                let info = self.sink.as_ref().and_then(Sink::group_info);
                let _ = reply.send(info);
            }
            JoinCommand::Leave { reason } => match &mut self.sink {
                Some(sink) => sink.leave(reason),
                None => self.closed = true,
            },
            JoinCommand::Register => match &mut self.sink {
                Some(sink) => sink.register(now),
                None => self.config.registered = true,
            },
            JoinCommand::Request { option, reply } => match &mut self.sink {
                Some(sink) => sink.request(now, self.requests.ask(reply), option),
                // Nothing is known yet of what could be changed.
                None => drop(reply.send(Status::NotRegistered)),
            },
            JoinCommand::AllowRaise => {
                if let Some(sink) = &mut self.sink {
                    sink.allow_raise();
                }
            }
            JoinCommand::Control { message, reply } => {
                let sent = match &mut self.sink {
                    Some(sink) => sink.send_control(now, message),
                    None => Err(ControlError::NotConnected),
                };
                let _ = reply.send(sent);
            }
        }
        self.drain(now, obs);
    }

    fn drain<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(transmit) = self
            .sink
            .as_mut()
            .and_then(|sink| sink.poll_transmit(now, obs))
        {
            match transmit {
                SinkTransmit::Pdu(pdu) => {
                    let tx = self
                        .rate
                        .map_or(Span::ZERO, |rate| rate.time_for(pdu.wire_len() as u64));
                    let start = self.busy_until.max(now);
                    self.busy_until = start.saturating_add(tx);
                    self.egress.send(now, (start, tx), pdu, obs);
                }
                SinkTransmit::Signal(signal) => {
                    if let Some(upstream) = &self.upstream {
                        upstream.sender.send(signal);
                    }
                }
            }
        }
        while let Some(event) = self.sink.as_mut().and_then(Sink::poll_event) {
            self.on_event(now, &event);
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

    /// Tells the figures of the second that is over.
    fn second(&mut self, now: Time) {
        let stats = self.stats();
        let meter = &mut self.meter;
        let progress = Progress {
            t: meter.ends.since(meter.epoch).as_secs_f64(),
            level: self.sink.as_ref().map_or(Level::BASE, Sink::level),
            asked: self
                .sink
                .as_ref()
                .map_or(self.config.level, Sink::level_asked),
            left: self.left,
            rate: Rate::from_bps(meter.bytes * 8),
            delay: meter.delay,
            end_to_end: meter.end_to_end(),
            highest: meter.highest,
            frames: stats.played,
            lost: stats.lost,
            late: stats.late,
            packets: stats.packets,
            marked: stats.marked,
            repaired: stats.repair.map(|repair| repair.recovered),
            link_repair: self.egress.repair_stats(),
            outage_ms: stats.outage_ms,
            cut_starts: stats.cut_starts,
            late_ms: stats.late_ms,
            output_dropped: self.out.dropped(),
            output_broken: self.out.broken(),
        };
        while meter.ends <= now {
            meter.ends += Span::from_secs(1);
        }
        (meter.bytes, meter.delay, meter.highest) = (0, Span::ZERO, None);
        meter.live = Default::default();
        self.tell(JoinEvent::Second(Box::new(progress)));
    }

    /// What the sink received.
    pub fn stats(&self) -> layercast_transport::mets::SinkStats {
        self.sink.as_ref().map(Sink::stats).unwrap_or_default()
    }

    /// Whether the flow is neither joined nor over.
    pub fn awaits_flow(&self) -> bool {
        !self.closed && self.sink.as_ref().is_none_or(Sink::awaits_flow)
    }

    /// Whether anything was played.
    pub fn has_played(&self) -> bool {
        self.log.has_played()
    }

    /// Whether the flow was found.
    pub fn found(&self) -> bool {
        self.sink.is_some()
    }

    /// The flows there are instead of the one that is missing.
    pub fn known_flows(&self) -> String {
        match self.known.is_empty() {
            true => "none".into(),
            false => self.known.join(", "),
        }
    }

    /// Hands everything that is due to the kernel; `false` if the kernel takes no more now.
    pub fn flush(&mut self, udp: &mut Udp) -> bool {
        self.egress.flush(udp)
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
