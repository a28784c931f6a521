//! Flows: one connection that always has data, or a stream of datagrams.

use core::net::{Ipv4Addr, SocketAddr};

use layercast_core::{
    AAL5_TRAILER, CELL_PAYLOAD, Observer, QosAction, QosEvent, QosTransport, Span, Stream, Subject,
    Time, earliest,
};
use layercast_tcp::{ConnId, TcpCounts};
use layercast_wire::XtpService;
use layercast_xtp::{ContextId, XtpCounts};

use super::PORT;
use super::group::{Group, Member};
use crate::internet::engine::Engine;
use crate::internet::medium::Medium;
use crate::internet::medium::ecmp::Conversation;
use crate::internet::medium::packet::{Body, Carrier, Datagram};
use crate::internet::medium::user::{Owner, User};
use crate::internet::network::{Bursts, Flow, Law, NodeIndex, SizeLaw, Traffic};
use crate::internet::node::tcp::{End, TcpHosts};
use crate::internet::node::xtp::{XtpHosts, XtpUpcall};
use crate::internet::report::{FlowReport, MeanSpan};
use crate::internet::series::TcpState;
use crate::kernel::SourceId;

/// A port of its own for each flow of datagrams of a host, as long as there are enough.
fn datagram_port(flow: u32) -> u16 {
    10_000 + (flow % 30_000) as u16
}

/// What a context did, as of a connection: packets, and handshakes that time-outs began.
fn as_segments(counts: XtpCounts) -> TcpCounts {
    TcpCounts {
        sent: counts.sent,
        bytes_sent: counts.bytes_sent + counts.bytes_again,
        received: counts.received,
        retransmitted: counts.retransmitted,
        timeouts: counts.handshakes,
        fast_retransmits: 0,
        ecn_reductions: 0,
    }
}

#[derive(Debug)]
pub(crate) struct FlowState {
    flow: Flow,
    source: SourceId,
    stream: Stream,
    /// Places of its ends among the hosts.
    ends: (u32, u32),
    /// Names of the two hosts.
    names: [Box<str>; 2],
    /// The port its connection is opened from, unless it has to choose one then.
    pub port: Option<u16>,
    connection: Option<ConnId>,
    context: Option<ContextId>,
    /// Its receivers, if it has many.
    pub group: Option<Box<Group>>,
    started: bool,
    /// Counts of the connection when the warm-up ended, and when it was last looked at.
    before: TcpCounts,
    last: TcpCounts,
    sent: u64,
    received: u64,
    delay: MeanSpan,
    /// When its last datagram arrived.
    last_arrival: Time,
    completed: Option<Time>,
    /// When its connection or association failed.
    failed: Option<Time>,
    /// When a source of datagrams pauses next, if it does.
    pauses: Option<Time>,
}

impl FlowState {
    pub fn new(
        flow: &Flow,
        source: SourceId,
        hosts: (u32, u32),
        names: [&str; 2],
        seed: u64,
    ) -> FlowState {
        let mut flow = flow.clone();
        if flow.start_jitter > Span::ZERO {
            let mut stream = Stream::new(seed, &format!("flow/{}/start", flow.name));
            flow.start += Span::from_ps(stream.below(flow.start_jitter.as_ps()));
        }
        FlowState {
            stream: Stream::new(seed, &format!("flow/{}", flow.name)),
            flow,
            source,
            ends: hosts,
            names: names.map(Box::from),
            port: None,
            connection: None,
            context: None,
            group: None,
            started: false,
            before: TcpCounts::default(),
            last: TcpCounts::default(),
            sent: 0,
            received: 0,
            delay: MeanSpan::default(),
            last_arrival: Time::ZERO,
            completed: None,
            failed: None,
            pauses: None,
        }
    }

    /// When it starts.
    pub fn start(&self) -> Time {
        self.flow.start
    }

    pub fn from(&self) -> NodeIndex {
        self.flow.from
    }

    /// What routers see of it, if that is known before it starts.
    pub fn conversation(&self, n: u32) -> Option<Conversation> {
        match &self.flow.traffic {
            Traffic::Bulk(_) => self.port.map(|port| Conversation::tcp((port, PORT))),
            Traffic::Datagrams { .. } => Some(Conversation::udp((datagram_port(n), PORT))),
            Traffic::Xtp { delivery, .. } => Some(Carrier::of(*delivery, n).conversation()),
            Traffic::XtpMulticast { .. } => None,
        }
    }

    pub fn to(&self) -> NodeIndex {
        self.flow.to
    }

    pub fn source(&self) -> SourceId {
        self.source
    }

    /// Takes over what its receiver counted, but for the bytes.
    pub fn take_received(&mut self, other: &FlowState) {
        self.received = other.received;
        self.delay = other.delay;
        self.last_arrival = other.last_arrival;
        self.completed = other.completed;
    }

    /// When the datagram after one of now is sent.
    fn next_datagram(&mut self, now: Time, gap: Law, bursts: Option<Bursts>) -> Time {
        let next = now.saturating_add(gap.draw(&mut self.stream));
        let Some(Bursts { on, off }) = bursts else {
            return next;
        };
        let pauses = match self.pauses {
            Some(at) => at,
            None => now.saturating_add(on.draw(&mut self.stream)),
        };
        if next < pauses {
            self.pauses = Some(pauses);
            return next;
        }
        self.pauses = None;
        pauses.saturating_add(off.draw(&mut self.stream))
    }

    fn size(&mut self, law: SizeLaw) -> u32 {
        match law {
            SizeLaw::Constant(size) => size,
            SizeLaw::Exponential(mean) => {
                self.stream.exponential(mean).round().clamp(29.0, 65_535.0) as u32
            }
            SizeLaw::Cells { mean, most } => loop {
                // Geometric from 1 on; one that is too long is drawn again.
                let more = libm::log(1.0 - self.stream.unit()) / libm::log(1.0 - 1.0 / mean);
                let cells = 1.0 + more.floor();
                if cells <= f64::from(most) {
                    break cells as u32 * CELL_PAYLOAD as u32 - AAL5_TRAILER as u32;
                }
            },
        }
    }
}

/// All flows.
#[derive(Debug)]
pub(crate) struct Flows {
    pub all: Vec<FlowState>,
    /// What the receiver of each has got by datagrams and XTP, in bytes; [`TcpHosts::received`] has the rest.
    pub bytes: Vec<u64>,
    /// What each had got when the warm-up ended.
    earlier: Vec<u64>,
}

impl Flows {
    /// None yet, of this many.
    pub fn new(count: usize) -> Flows {
        Flows {
            all: Vec::with_capacity(count),
            bytes: vec![0; count],
            earlier: vec![0; count],
        }
    }

    /// A flow starts, sends its next datagram, or stops.
    pub fn wake(&mut self, n: u32, tcp: &mut TcpHosts, xtp: &mut XtpHosts, medium: &mut Medium) {
        let flow = &mut self.all[n as usize];
        let (ends, stop, source) = (flow.ends, flow.flow.stop, flow.source);
        medium.engine.kernel.schedule(source, None);
        let over = stop.is_some_and(|stop| stop <= medium.engine.now);
        match flow.flow.traffic {
            Traffic::Bulk(bytes) if !over => flow.open(n, bytes, tcp, medium),
            Traffic::Bulk(_) => {
                if let Some(id) = flow.connection {
                    tcp.shut(ends.0, id);
                }
            }
            Traffic::Xtp { .. } if !over => {
                flow.context = xtp.open(n, &flow.flow.traffic, ends, medium);
                medium.engine.kernel.schedule(source, stop);
            }
            Traffic::XtpMulticast { ref config, .. } if !over => {
                let begins = !std::mem::replace(&mut flow.started, true);
                // An invited host gets the invitation.
                let group = flow.group.as_deref_mut();
                let next = group.and_then(|it| it.let_in(n, ends.0, config, xtp, medium));
                if begins {
                    flow.context = xtp.open(n, &flow.flow.traffic, ends, medium);
                }
                medium.engine.kernel.schedule(source, earliest(next, stop));
            }
            Traffic::Xtp { .. } | Traffic::XtpMulticast { .. } => {
                if let Some(id) = flow.context {
                    xtp.stop(ends.0, id);
                }
            }
            Traffic::Datagrams { gap, size, bursts } if !over => {
                flow.send_datagram(n, (gap, size, bursts), tcp, medium);
            }
            Traffic::Datagrams { .. } => {}
        }
    }

    /// A datagram of a flow arrived where it goes, sent then.
    pub fn datagram(
        &mut self,
        n: u32,
        (sent, bytes): (Time, u32),
        tcp: &TcpHosts,
        medium: &mut Medium,
    ) {
        let now = medium.engine.now;
        let flow = &mut self.all[n as usize];
        flow.received += 1;
        self.bytes[n as usize] += u64::from(bytes - 28);
        flow.delay.add(now.since(sent));
        flow.last_arrival = now;
        if medium.engine.obs.measures() {
            flow.measure(n, QosAction::Received, bytes, tcp, medium);
        }
    }

    /// All data of a flow are where they go.
    pub fn completed(&mut self, n: u32, now: Time) {
        self.all[n as usize].completed.get_or_insert(now);
    }

    /// The connection of a flow is about to go, or failed.
    pub fn closes(&mut self, n: u32, counts: Option<TcpCounts>, how: End, now: Time) {
        let flow = &mut self.all[n as usize];
        if flow.connection.is_some() {
            flow.last = counts.unwrap_or(flow.last);
            flow.failed = (how == End::Failed).then_some(now);
        }
        flow.connection = None;
    }

    /// Of a flow of XTP a host hears something.
    pub fn hears(&mut self, upcall: XtpUpcall, host: u32, now: Time, medium: &Medium) {
        match upcall {
            XtpUpcall::Invited(n) => {
                let flow = self.all.get(n as usize);
                if flow.is_some_and(FlowState::lists_no_members) {
                    self.joined(n, host, 0, now);
                }
            }
            XtpUpcall::Joined(n, first) => self.joined(n, host, first, now),
            XtpUpcall::Received(n, bytes) => {
                self.bytes[n as usize] += bytes;
                if let Some(member) = self.member(n, host) {
                    member.bytes += bytes;
                }
            }
            XtpUpcall::Completed(n) => self.receiver_completed(n, host, now),
            XtpUpcall::Failed(n, why) => {
                if let Some(member) = self.member(n, host) {
                    member.failed.get_or_insert(why.to_string());
                }
            }
            XtpUpcall::Dropped(n, who) => {
                if let SocketAddr::V4(who) = who {
                    self.dropped(n, *who.ip(), medium);
                }
            }
            XtpUpcall::Closes(n, counts, how) => {
                let flow = &mut self.all[n as usize];
                if flow.context.is_some() {
                    flow.last = counts.map_or(flow.last, as_segments);
                    flow.failed = (how == End::Failed).then_some(now);
                }
                flow.context = None;
            }
        }
    }

    /// A receiver has joined: it gets everything from a byte on.
    fn joined(&mut self, n: u32, host: u32, first: u64, now: Time) {
        if let Some(member) = self.member(n, host) {
            member.joined.get_or_insert(now);
            member.first = first;
        }
    }

    /// A receiver has everything; of a flow without a group there is one. The flow is complete when all have.
    fn receiver_completed(&mut self, n: u32, host: u32, now: Time) {
        if let Some(member) = self.member(n, host) {
            member.completed.get_or_insert(now);
        }
        let group = self.all[n as usize].group.as_deref();
        if group.is_none_or(Group::is_complete) {
            self.completed(n, now);
        }
    }

    /// The transmitter continues without a receiver.
    fn dropped(&mut self, n: u32, who: Ipv4Addr, medium: &Medium) {
        let node = medium.addresses.find(who);
        let host = node.and_then(|node| medium.nodes[node.0 as usize].host);
        if let Some(member) = host.and_then(|host| self.member(n, host))
            && member.completed.is_none()
        {
            let why = "the transmitter continues without it";
            member.failed.get_or_insert(why.to_owned());
        }
    }

    fn member(&mut self, n: u32, host: u32) -> Option<&mut Member> {
        let flow = self.all.get_mut(n as usize)?;
        flow.group.as_deref_mut()?.at(host)
    }

    /// Whether a host takes packets to the group of a flow.
    pub fn listens(&mut self, n: u32, host: u32) -> bool {
        self.member(n, host).is_some_and(|it| it.listens)
    }

    /// Forgets what was counted until now.
    pub fn restart(&mut self, tcp: &mut TcpHosts, xtp: &XtpHosts) {
        for flow in &mut self.all {
            flow.before = flow.count(tcp, xtp);
            (flow.sent, flow.received) = (0, 0);
            flow.delay = MeanSpan::default();
            if let Some(group) = &mut flow.group {
                group.restart();
            }
        }
        for (n, earlier) in self.earlier.iter_mut().enumerate() {
            *earlier += self.bytes[n] + tcp.received[n];
        }
        self.bytes.fill(0);
        tcp.received.fill(0);
    }

    /// The names of all flows, what the connection of each is now, and the bytes that its receivers have got since the start.
    pub fn states<'s>(
        &'s self,
        tcp: &'s TcpHosts,
    ) -> impl Iterator<Item = (&'s str, Option<TcpState>, u64)> + 's {
        self.all.iter().enumerate().map(|(n, flow)| {
            let state = flow.connection.and_then(|id| tcp.state(flow.ends.0, id));
            let got = self.earlier[n] + self.bytes[n] + tcp.received[n];
            (&*flow.flow.name, state, got)
        })
    }

    /// What became of each of them since an instant.
    pub fn report(
        &mut self,
        (since, now): (Time, Time),
        tcp: &TcpHosts,
        xtp: &XtpHosts,
    ) -> Vec<FlowReport> {
        let bytes = self.bytes.iter().zip(&tcp.received);
        let all = self.all.iter_mut().zip(bytes);
        let reports = all.map(|(flow, (bytes, of_tcp))| {
            let counts = flow.count(tcp, xtp);
            flow.report((since, now), counts, bytes + of_tcp)
        });
        reports.collect()
    }
}

impl FlowState {
    /// Before the run: the connection of a flow exists already.
    pub fn establish(&mut self, n: u32, tcp: &mut TcpHosts, medium: &mut Medium) {
        let (from, to) = self.ends;
        let users = (User::Sender(n), User::Receiver(n));
        let port = self.port.unwrap_or(0);
        self.connection = tcp.establish((from, port), (to, PORT), users, medium);
    }

    /// A flow of TCP starts.
    fn open(&mut self, n: u32, bytes: Option<u64>, tcp: &mut TcpHosts, medium: &mut Medium) {
        let (from, to) = self.ends;
        let users = (User::Sender(n), User::Receiver(n));
        let mut connect = |port| tcp.connect((from, port), (to, PORT), users, medium);
        // A conversation may have taken the port meanwhile.
        let connect = || self.port.and_then(&mut connect).or_else(|| connect(0));
        let Some(id) = self.connection.or_else(connect) else {
            return;
        };
        self.connection = Some(id);
        tcp.write(from, id, bytes.unwrap_or(u64::MAX));
        if bytes.is_some() {
            tcp.shut(from, id);
        }
        medium.engine.kernel.schedule(self.source, self.flow.stop);
    }

    fn send_datagram(
        &mut self,
        n: u32,
        (gap, size, bursts): (Law, SizeLaw, Option<Bursts>),
        tcp: &TcpHosts,
        medium: &mut Medium,
    ) {
        let now = medium.engine.now;
        self.sent += 1;
        let (next, bytes) = (self.next_datagram(now, gap, bursts), self.size(size));
        let (src, dst) = (self.flow.from, self.flow.to);
        medium.engine.kernel.schedule(self.source, Some(next));
        if medium.engine.obs.measures() {
            self.measure(n, QosAction::Sent, bytes, tcp, medium);
        }
        let owner = Owner::Flow(n);
        let body = Body::Udp(Datagram {
            owner,
            sent: now,
            ports: (datagram_port(n), PORT),
            media: None,
        });
        medium.originate((src, dst), bytes, body);
    }

    /// Tells a monitor of a datagram that left or came: sizes are all that UDP says (specs/user-to-user-qos.md 2.7).
    #[cold]
    fn measure(&self, n: u32, action: QosAction, bytes: u32, tcp: &TcpHosts, medium: &mut Medium) {
        let port = datagram_port(n);
        let (host, peer, ports, dir, count) = match action {
            QosAction::Sent => {
                let (host, peer) = (self.ends.0, self.flow.to);
                (host, peer, (port, PORT), QosEvent::OUT, self.sent)
            }
            _ => {
                let (host, peer) = (self.ends.1, self.flow.from);
                (host, peer, (PORT, port), QosEvent::IN, self.received)
            }
        };
        let number = QosEvent::connection(ports, medium.node_addresses[peer.0 as usize]);
        let subject = Subject {
            node: tcp.name(host),
            machine: "udp",
        };
        let Engine { now, obs, .. } = &mut medium.engine;
        let event = |action| QosEvent::new(number, action, dir, *now);
        if count == 1 {
            let open = event(QosAction::Open).aux(QosTransport::Udp as u32);
            obs.probe(subject, || open);
        }
        let (above_ip, user) = (u64::from(bytes) - 20, u64::from(bytes) - 28);
        obs.probe(subject, || event(action).packet(above_ip, user, 0));
    }

    /// No list of its members is kept: each invited host is one.
    fn lists_no_members(&self) -> bool {
        match &self.flow.traffic {
            Traffic::XtpMulticast { config, .. } => config.service == XtpService::MULTICAST,
            _ => false,
        }
    }

    /// What the connection of a flow counted; of one that is over, what was known last.
    fn count(&mut self, tcp: &TcpHosts, xtp: &XtpHosts) -> TcpCounts {
        let sender = self.ends.0;
        let counts = self.connection.and_then(|id| tcp.counts(sender, id));
        let of_xtp = self.context.and_then(|id| xtp.counts(sender, id));
        if let Some(counts) = counts.or(of_xtp.map(as_segments)) {
            self.last = counts;
        }
        self.last
    }

    /// The end of the time in which a flow that did not complete was delivered. After its stop, a connection still delivers what
    /// was written to it, and a queue the datagrams that wait.
    fn delivers_until(&self, now: Time) -> Time {
        match self.flow.traffic {
            Traffic::Datagrams { .. } => {
                let stop = self.flow.stop.unwrap_or(now);
                stop.max(self.last_arrival).min(now)
            }
            _ => now,
        }
    }

    fn report(&self, (since, now): (Time, Time), counts: TcpCounts, bytes: u64) -> FlowReport {
        let TcpCounts {
            sent,
            bytes_sent,
            received,
            retransmitted,
            timeouts,
            fast_retransmits,
            ecn_reductions,
        } = self.before;
        let has_ends = !matches!(self.flow.traffic, Traffic::Datagrams { .. });
        let from = since.max(self.flow.start);
        let until = self.delivers_until(now);
        let to = self.completed.unwrap_or(until);
        let seconds = to.min(now).since(from).as_secs_f64();
        FlowReport {
            name: self.flow.name.clone(),
            source: self.names[0].to_string(),
            destination: self.group.is_none().then(|| self.names[1].to_string()),
            start: self.flow.start.as_secs_f64(),
            bytes,
            goodput_bps: match seconds > 0.0 {
                true => bytes as f64 * 8.0 / seconds,
                false => 0.0,
            },
            sent: if has_ends {
                counts.sent - sent
            } else {
                self.sent
            },
            offered_bytes: has_ends.then(|| counts.bytes_sent - bytes_sent),
            received: if has_ends {
                counts.received - received
            } else {
                self.received
            },
            retransmitted: counts.retransmitted - retransmitted,
            timeouts: counts.timeouts - timeouts,
            fast_retransmits: counts.fast_retransmits - fast_retransmits,
            ecn_reductions: counts.ecn_reductions - ecn_reductions,
            mean_delay: (!has_ends).then(|| self.delay.seconds()),
            completed: self.completed.map(Time::as_secs_f64),
            // What fails after the last byte arrived loses nothing.
            failed: match self.completed {
                None => self.failed.map(Time::as_secs_f64),
                Some(_) => None,
            },
            receivers: self
                .group
                .as_ref()
                .map_or(Vec::new(), |it| it.report((from, until))),
        }
    }
}
