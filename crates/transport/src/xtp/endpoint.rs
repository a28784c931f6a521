use core::hash::Hasher;
use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use layercast_core::{FlowId, Machine, Observer, Serial, Span, Subject, Time, TraceEvent};
use layercast_protect::Seed;
use layercast_wire::{
    Payload, XtpAddress, XtpBody, XtpDiagCode, XtpDiagValue, XtpKey, XtpOptions, XtpPacket,
    XtpTrafficSpec,
};
use siphasher::sip::SipHasher24;

use super::context::{Context, Ends, News};
use super::table::Table;
use super::{
    Chunk, ContextId, SendOptions, XtpConfig, XtpDatagram, XtpError, XtpEvent, XtpInfo, XtpRate,
    XtpSocket, XtpStats,
};

/// DIAG waiting to be sent at once; a driver that drains us never sees so many.
const MAX_DIAGS: usize = 64;
/// DIAG for strangers, for each source and second (xtp.md 7).
const DIAGS_PER_SECOND: u32 = 10;
/// Places in which sources of DIAG are told apart.
const SOURCES: usize = 256;

/// A port somebody listens on.
#[derive(Debug)]
struct Listener {
    backlog: usize,
    config: XtpConfig,
    waiting: VecDeque<ContextId>,
}

/// The XTP of a host: its contexts, its listeners, its timers, as one sans-I/O machine.
///
/// A context belongs to its user until [`close`](Endpoint::close) or [`abort`](Endpoint::abort), also after it
/// failed: what arrived can still be received.
#[derive(Debug)]
pub struct Endpoint {
    name: String,
    secret: [u8; 16],
    opened: u64,
    max_contexts: usize,
    table: Table,
    listeners: BTreeMap<u16, Listener>,
    diags: VecDeque<XtpDatagram>,
    /// When a second began in which so many DIAG went to these sources.
    sources: Vec<(Time, u32)>,
    events: VecDeque<XtpEvent>,
    stats: XtpStats,
}

impl Endpoint {
    /// The XTP of the host `name`, with at most so many contexts. Keys follow from `secret`, which nobody else
    /// may know where strangers can send.
    pub fn new(max_contexts: usize, name: &str, secret: &[u8; 32]) -> Endpoint {
        let derived = Seed::derived(secret, name);
        Endpoint {
            name: name.into(),
            secret: std::array::from_fn(|n| derived.0[n]),
            opened: 0,
            max_contexts,
            table: Table::default(),
            listeners: BTreeMap::new(),
            diags: VecDeque::new(),
            sources: vec![(Time::ZERO, 0); SOURCES],
            events: VecDeque::new(),
            stats: XtpStats::default(),
        }
    }

    /// Takes associations to `port`, up to `backlog` that are not accepted yet.
    pub fn listen(&mut self, port: u16, backlog: usize, config: XtpConfig) -> Result<(), XtpError> {
        config.validate()?;
        if self.listeners.contains_key(&port) {
            return Err(XtpError::PortInUse(port));
        }
        let listener = Listener {
            backlog: backlog.max(1),
            config,
            waiting: VecDeque::new(),
        };
        self.listeners.insert(port, listener);
        Ok(())
    }

    /// Takes no more associations to `port`; those not accepted yet are broken off.
    pub fn unlisten(&mut self, now: Time, port: u16) {
        let Some(listener) = self.listeners.remove(&port) else {
            return;
        };
        for id in listener.waiting {
            // One that is gone already needs no good-bye.
            let _ = self.abort(now, id);
        }
    }

    /// The next association to `port`, with its peer.
    pub fn accept(&mut self, port: u16) -> Option<(ContextId, XtpSocket)> {
        let id = self.listeners.get_mut(&port)?.waiting.pop_front()?;
        let context = self.table.get_mut(id)?;
        context.passive = false;
        let remote = context.remote();
        // What came meanwhile is told now.
        self.tell(id);
        Some((id, remote))
    }

    /// Opens an association from `local` to `remote`: FIRST leaves with what is sent before the next
    /// [`poll_transmit`](Machine::poll_transmit).
    pub fn connect(
        &mut self,
        now: Time,
        local: XtpSocket,
        remote: XtpSocket,
        config: &XtpConfig,
    ) -> Result<ContextId, XtpError> {
        config.validate()?;
        if !is_host(&remote.net) {
            return Err(XtpError::Address(remote.net));
        }
        if self.table.len() >= self.max_contexts {
            return Err(XtpError::Full(self.max_contexts));
        }
        let ends = Ends {
            local,
            remote,
            own: self.new_key(),
            theirs: None,
            sync: Serial(0),
        };
        let id = self.table.insert(Context::new(now, ends, config));
        self.stats.active_opens += 1;
        self.touch(id);
        Ok(id)
    }

    /// Queues as much of `data` as there is room for; gives how many bytes. If it was not all, a
    /// [`XtpEvent::Writable`] follows, and the message has not ended.
    pub fn send(
        &mut self,
        id: ContextId,
        data: &Payload,
        how: &SendOptions,
    ) -> Result<usize, XtpError> {
        let context = self.table.get_mut(id).ok_or(XtpError::Unknown)?;
        let taken = context.send(data, how)?;
        self.touch(id);
        Ok(taken)
    }

    /// Up to `max` bytes that arrived, of one message; `None` if there are none now.
    pub fn receive(&mut self, id: ContextId, max: usize) -> Result<Option<Chunk>, XtpError> {
        let context = self.table.get_mut(id).ok_or(XtpError::Unknown)?;
        let chunk = context.receive(max);
        if chunk.is_some() {
            self.touch(id);
        }
        Ok(chunk)
    }

    /// Offers so many bytes of buffers to a peer that uses reservation.
    pub fn post(&mut self, id: ContextId, bytes: usize) -> Result<(), XtpError> {
        self.with(id, |context| context.post(bytes))
    }

    /// Nothing more will be sent; receiving goes on.
    pub fn close_write(&mut self, id: ContextId) -> Result<(), XtpError> {
        self.with(id, Context::close_write)
    }

    /// Nothing more will be received; what the peer still sends is lost, and it is told so.
    pub fn close_read(&mut self, now: Time, id: ContextId) -> Result<(), XtpError> {
        self.with(id, |context| context.close_read(now))?;
        self.tell(id);
        Ok(())
    }

    /// Good-bye: what was sent still goes to the peer, nothing more is received. The id is dead after that.
    pub fn close(&mut self, now: Time, id: ContextId) -> Result<(), XtpError> {
        self.with(id, |context| {
            context.close_write();
            context.close_read(now);
            context.released = true;
        })?;
        self.clean(now, id);
        Ok(())
    }

    /// Breaks the association off; the peer is told. The id is dead after that.
    pub fn abort(&mut self, now: Time, id: ContextId) -> Result<(), XtpError> {
        self.with(id, |context| {
            context.abort(now);
            context.released = true;
        })
    }

    /// Other limits for what is sent and what is taken; the peer is asked to agree.
    pub fn set_traffic(
        &mut self,
        id: ContextId,
        output: XtpRate,
        input: XtpRate,
    ) -> Result<(), XtpError> {
        self.with(id, |context| context.set_traffic(output, input))
    }

    /// What the peer said about traffic last.
    pub fn traffic(&self, id: ContextId) -> Option<XtpTrafficSpec> {
        self.table.get(id).map(Context::traffic)
    }

    /// Asks the peer how things are, at once.
    pub fn probe(&mut self, now: Time, id: ContextId) -> Result<(), XtpError> {
        self.with(id, |context| context.probe(now))
    }

    /// Tells once, by [`XtpEvent::Settled`], when everything sent so far has left and no answer is awaited: the peer has
    /// it, or, without error control, has seen what came after it.
    pub fn tell_settled(&mut self, id: ContextId) -> Result<(), XtpError> {
        self.with(id, |context| context.wants_settled = true)?;
        self.tell(id);
        Ok(())
    }

    /// What is known of a context.
    pub fn info(&self, id: ContextId) -> Option<XtpInfo> {
        let context = self.table.get(id).filter(|it| !it.released)?;
        Some(context.info())
    }

    /// Bytes that can be received now, and whether the end of the stream follows them.
    pub fn available(&self, id: ContextId) -> Option<(usize, bool)> {
        self.table.get(id).map(Context::available)
    }

    /// Whether [`poll_event`](Machine::poll_event) has something to tell.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// What was counted so far.
    pub fn stats(&self) -> XtpStats {
        self.stats
    }

    /// Contexts there are, in whatever state.
    pub fn contexts(&self) -> usize {
        self.table.len()
    }

    /// [Handles](Machine::handle) the bytes of a packet; what does not decode is counted.
    pub fn handle_bytes<O: Observer>(
        &mut self,
        now: Time,
        (src, dst): (SocketAddr, SocketAddr),
        bytes: Bytes,
        obs: &mut O,
    ) {
        match XtpPacket::decode(bytes) {
            Ok(packet) => self.handle(now, XtpDatagram { src, dst, packet }, obs),
            Err(layercast_wire::XtpError::Checksum) => self.stats.damaged += 1,
            Err(_) => self.stats.malformed += 1,
        }
    }

    fn with(&mut self, id: ContextId, call: impl FnOnce(&mut Context)) -> Result<(), XtpError> {
        let context = self.table.get_mut(id).filter(|it| !it.released);
        call(context.ok_or(XtpError::Unknown)?);
        self.touch(id);
        Ok(())
    }

    /// A key that nobody guesses: the place of the context, and 31 bits of a hash.
    fn new_key(&mut self) -> XtpKey {
        let hash = self.hash(&[0]) >> 33;
        XtpKey(hash << 32 | u64::from(self.table.next_slot()))
    }

    /// Another number each time, which follows from the secret.
    fn hash(&mut self, about: &[u8]) -> u64 {
        self.opened += 1;
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write(about);
        hasher.write(&self.opened.to_le_bytes());
        hasher.finish()
    }

    /// After whatever happened to a context: it may have something to send.
    fn touch(&mut self, id: ContextId) {
        self.table.mark_ready(id);
        self.table.arm(id);
    }

    /// A packet that names no context.
    fn on_stray<O: Observer>(&mut self, now: Time, datagram: &XtpDatagram, obs: &mut O) {
        let packet = &datagram.packet;
        match &packet.body {
            XtpBody::Diag { .. } => self.stats.stray_diags += 1,
            _ if packet.options.has(XtpOptions::MULTI) => self.stats.unsupported += 1,
            XtpBody::Join(_) | XtpBody::Jcntl { .. } => self.stats.unsupported += 1,
            _ if packet.key.is_return() => {
                self.stats.stray += 1;
                let code = XtpDiagCode::INVALID_CONTEXT;
                self.queue_diag(now, datagram, packet.key.own(), code, XtpDiagValue(0));
            }
            XtpBody::First { address, .. } => {
                if let Err(why) = self.open(now, datagram, address, obs) {
                    self.stats.refused += 1;
                    let code = XtpDiagCode::REFUSED;
                    self.queue_diag(now, datagram, packet.key.returned(), code, why);
                }
            }
            // It may be late, or early: FIRST may still come.
            _ => self.stats.stray += 1,
        }
    }

    /// A FIRST for a new context.
    fn open<O: Observer>(
        &mut self,
        now: Time,
        datagram: &XtpDatagram,
        address: &XtpAddress,
        obs: &mut O,
    ) -> Result<(), XtpDiagValue> {
        let (dst, src) = match address {
            XtpAddress::Ipv4 { dst, src } => (dst.port(), src.port()),
            XtpAddress::Ipv6 { dst, src } => (dst.1, src.1),
            XtpAddress::Ports { dst, src } => (*dst, *src),
            other if other.is_malformed() => return Err(XtpDiagValue::ADDRESS),
            _ => return Err(XtpDiagValue::ADDRESS_FORMAT),
        };
        let full = self.table.len() >= self.max_contexts;
        let Some(listener) = self.listeners.get(&dst) else {
            return Err(XtpDiagValue::NO_LISTENER);
        };
        if let XtpBody::First { traffic, .. } = &datagram.packet.body
            && traffic.service().0 > 4
        {
            return Err(XtpDiagValue::NO_PROVIDER);
        }
        if full || listener.waiting.len() >= listener.backlog {
            return Err(XtpDiagValue::NO_RESOURCE);
        }
        let config = listener.config.clone();
        let socket = |net, port| XtpSocket { net, port };
        let ends = Ends {
            local: socket(datagram.dst, dst),
            remote: socket(datagram.src, src),
            own: self.new_key(),
            theirs: Some(datagram.packet.key),
            sync: Serial((self.hash(&[1]) >> 34) as u32),
        };
        let mut context = Context::new(now, ends, &config);
        context.on_first(now, &datagram.packet)?;
        let id = self.table.insert(context);
        self.stats.passive_opens += 1;
        if let Some(listener) = self.listeners.get_mut(&dst) {
            listener.waiting.push_back(id);
        }
        self.report(now, id, ("listening", "active"), obs);
        self.events.push_back(XtpEvent::Incoming(dst));
        self.touch(id);
        Ok(())
    }

    /// Tells a stranger what was wrong, unless it was told enough.
    fn queue_diag(
        &mut self,
        now: Time,
        about: &XtpDatagram,
        key: XtpKey,
        code: XtpDiagCode,
        value: XtpDiagValue,
    ) {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write(about.src.ip().to_string().as_bytes());
        let source = &mut self.sources[hasher.finish() as usize % SOURCES];
        if now.since(source.0) >= Span::from_secs(1) {
            *source = (now, 0);
        }
        if !is_host(&about.src) || source.1 >= DIAGS_PER_SECOND || self.diags.len() >= MAX_DIAGS {
            self.stats.muted_diags += 1;
            return;
        }
        source.1 += 1;
        let packet = XtpPacket {
            key,
            options: XtpOptions::NONE,
            sort: 0,
            sync: Serial(0),
            seq: 0,
            body: XtpBody::Diag {
                code,
                value,
                message: Bytes::new(),
            },
        };
        let (src, dst) = (about.dst, about.src);
        self.diags.push_back(XtpDatagram { src, dst, packet });
    }

    /// Tells the user what became of a context; of what nobody has accepted, nobody hears yet.
    fn tell(&mut self, id: ContextId) {
        let Some(context) = self.table.get_mut(id) else {
            return;
        };
        let tally = std::mem::take(&mut context.tally);
        self.stats.retransmitted += tally.retransmitted;
        self.stats.handshakes += tally.handshakes;
        self.stats.beyond += tally.beyond;
        self.stats.duplicates += tally.duplicates;
        self.stats.violations += tally.violations;
        self.stats.unsupported += tally.unsupported;
        self.stats.stray_diags += tally.stray_diags;
        if context.passive {
            return;
        }
        let (told, events) = (!context.released, &mut self.events);
        let mut tell = |event| {
            if told {
                events.push_back(event);
            }
        };
        if context.is_newly_readable() {
            tell(XtpEvent::Readable(id));
        }
        if context.is_newly_writable() {
            tell(XtpEvent::Writable(id));
        }
        if context.is_newly_settled() {
            tell(XtpEvent::Settled(id));
        }
        while let Some(news) = context.poll_news() {
            tell(match news {
                News::Connected => XtpEvent::Connected(id),
                News::Delivered(at) => XtpEvent::Delivered(id, at),
                News::PeerClosed => XtpEvent::PeerClosed(id),
                News::ReaderGone(bytes) => XtpEvent::ReaderGone(id, bytes),
                News::Traffic => XtpEvent::Traffic(id),
                News::TrafficRefused => XtpEvent::TrafficRefused(id),
                News::Closed => XtpEvent::Closed(id),
                News::Failed(why) => XtpEvent::Failed(id, why),
            });
        }
    }

    /// Removes a context that nobody needs any more.
    fn clean(&mut self, now: Time, id: ContextId) {
        if self.table.get(id).is_some_and(|it| it.is_over(now)) {
            self.table.remove(id);
        }
    }

    /// After a packet or a timer: tells what became of a context that was active, or was not.
    fn settle<O: Observer>(&mut self, now: Time, id: ContextId, was_active: bool, obs: &mut O) {
        self.touch(id);
        self.tell(id);
        let Some(context) = self.table.get(id) else {
            return;
        };
        if was_active && context.is_inactive() {
            self.report(now, id, ("active", "inactive"), obs);
        }
        self.clean(now, id);
    }

    fn report<O: Observer>(
        &self,
        now: Time,
        id: ContextId,
        (from, to): (&'static str, &'static str),
        obs: &mut O,
    ) {
        let Some(context) = self.table.get(id) else {
            return;
        };
        let subject = Subject {
            node: &self.name,
            machine: "xtp",
        };
        // A context has no flow number of its own: both its ports name it.
        let (local, remote) = (context.local().port, context.remote().port);
        let flow = FlowId(u32::from(local) << 16 | u32::from(remote));
        obs.on(now, subject, || TraceEvent::State {
            flow,
            what: "context",
            from,
            to,
        });
    }
}

/// Whether a single host can have the address.
fn is_host(address: &SocketAddr) -> bool {
    let ip = address.ip();
    let broadcast = matches!(ip, core::net::IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || broadcast)
}

impl Machine for Endpoint {
    type Input = XtpDatagram;
    type Transmit = XtpDatagram;
    type Event = XtpEvent;

    fn handle<O: Observer>(&mut self, now: Time, datagram: XtpDatagram, obs: &mut O) {
        self.stats.received += 1;
        let (from, packet) = (datagram.src, &datagram.packet);
        let id = match packet.key.is_return() {
            true => self.table.by_own(from, packet.key),
            false => self.table.by_peer(from, packet.key),
        };
        let Some(id) = id else {
            return self.on_stray(now, &datagram, obs);
        };
        if let XtpBody::Tcntl { xkey, .. } = packet.body
            && !xkey.is_return()
            && self.table.get(id).is_some_and(Context::wants_key)
            && self.table.learn_key(id, from, xkey)
            && let Some(context) = self.table.get_mut(id)
        {
            context.learn_key(xkey);
        }
        let Some(context) = self.table.get_mut(id) else {
            return;
        };
        let was_active = !context.is_inactive();
        context.on_packet(now, packet);
        self.settle(now, id, was_active, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(id) = self.table.due(now) {
            let Some(context) = self.table.get_mut(id) else {
                continue;
            };
            if context.next_timeout().is_some_and(|at| at <= now) {
                let was_active = !context.is_inactive();
                context.on_timeout(now);
                self.settle(now, id, was_active, obs);
            } else {
                self.table.arm(id);
            }
        }
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<XtpDatagram> {
        if let Some(diag) = self.diags.pop_front() {
            self.stats.sent += 1;
            return Some(diag);
        }
        while let Some(id) = self.table.pop_ready() {
            let Some(context) = self.table.get_mut(id) else {
                continue;
            };
            let was_active = !context.is_inactive();
            let (src, dst) = (context.local().net, context.remote().net);
            let packet = context.poll(now);
            match packet {
                Some(packet) => {
                    self.stats.sent += 1;
                    self.settle(now, id, was_active, obs);
                    return Some(XtpDatagram { src, dst, packet });
                }
                None => {
                    self.table.arm(id);
                    self.tell(id);
                    self.clean(now, id);
                }
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<XtpEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.table.next_deadline()
    }
}
