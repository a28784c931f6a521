mod probe;

use core::hash::Hasher;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use layercast_core::{FlowId, Machine, Observer, Off, Serial, Span, Stream, Time, TraceEvent};
use layercast_protect::Seed;
use layercast_wire::{Payload, TcpFlags, TcpSegment};
use siphasher::sip::SipHasher24;

use super::connection::{Connection, Host, Key, State, reset_for};
use super::table::Table;
use super::ticks::Ticks;
use super::{
    ConnId, Ecn, TcpConfig, TcpConfigError, TcpCounts, TcpError, TcpEvent, TcpInfo, TcpPacket,
    TcpStats,
};
use layercast_bytestream::Line;

/// The ports an active open chooses from (RFC 6335 6).
const EPHEMERAL: std::ops::RangeInclusive<u16> = 49_152..=u16::MAX;
/// Resets waiting to be sent; a driver that drains the endpoint stays far below.
const MAX_RESETS: usize = 64;

/// A port somebody listens on.
#[derive(Debug)]
struct Listener {
    backlog: usize,
    /// Connections in SYN-RECEIVED.
    opening: usize,
    /// Established, waiting to be accepted.
    waiting: VecDeque<ConnId>,
}

/// The TCP of a host: its connections, its listeners, its timers, as one sans-I/O machine.
///
/// A connection belongs to its user until [`close`](Endpoint::close) or
/// [`abort`](Endpoint::abort), or until it [failed](TcpEvent::Failed).
#[derive(Debug)]
pub struct Endpoint {
    host: Host,
    table: Table,
    ready: Line<ConnId>,
    events: Line<TcpEvent>,
    /// Some segment of `rare.resets` waits.
    has_resets: bool,
    sent: u64,
    received: u64,
    rare: Box<Rare>,
}

/// What few segments need.
#[derive(Debug)]
struct Rare {
    name: String,
    secret: Seed,
    listeners: BTreeMap<u16, Listener>,
    next_port: u16,
    /// How many ports were given by `reserve_port`.
    reserved: u32,
    resets: VecDeque<TcpPacket>,
    /// All but what is sent and received.
    stats: TcpStats,
    /// What those counted whose failures are yet to be polled, in their order.
    failed: VecDeque<(ConnId, TcpCounts)>,
    last_failed: Option<(ConnId, TcpCounts)>,
}

impl Endpoint {
    /// The name of its host.
    pub fn name(&self) -> &str {
        &self.rare.name
    }

    /// The TCP of the host `name`; phases of its timers, port numbers and initial sequence numbers follow from
    /// `secret`, which must be kept secret where untrusted hosts can send (RFC 6528).
    pub fn new(
        config: impl Into<Arc<TcpConfig>>,
        name: &str,
        secret: &[u8; 32],
    ) -> Result<Endpoint, TcpConfigError> {
        let config = config.into();
        config.validate()?;
        let mut seed = [0; 8];
        let derived = Seed::derived(secret, name);
        seed.copy_from_slice(&derived.0[..8]);
        let mut random = Stream::new(u64::from_le_bytes(seed), "tcp/phase");
        let mut ticks =
            |period: Span| Ticks::new(period, Span::from_ps(random.below(period.as_ps())));
        let slow = ticks(config.slow_tick);
        let fast = config.fast_tick.map(&mut ticks);
        let ports = EPHEMERAL.len() as u64;
        let first = Stream::new(u64::from_le_bytes(seed), "tcp/port").below(ports);
        Ok(Endpoint {
            host: Host { config, slow, fast },
            table: Table::default(),
            ready: Line::default(),
            events: Line::default(),
            has_resets: false,
            sent: 0,
            received: 0,
            rare: Box::new(Rare {
                name: name.into(),
                secret: derived,
                listeners: BTreeMap::new(),
                next_port: EPHEMERAL.start() + first as u16,
                reserved: 0,
                resets: VecDeque::new(),
                stats: TcpStats::default(),
                failed: VecDeque::new(),
                last_failed: None,
            }),
        })
    }

    /// Takes connections to `port`, up to `backlog` that are not accepted yet.
    pub fn listen(&mut self, port: u16, backlog: usize) -> Result<(), TcpError> {
        if self.rare.listeners.contains_key(&port) || port == 0 {
            return Err(TcpError::PortInUse(port));
        }
        let listener = Listener {
            backlog: backlog.max(1),
            opening: 0,
            waiting: VecDeque::new(),
        };
        self.rare.listeners.insert(port, listener);
        Ok(())
    }

    /// Takes no more connections to `port`; those not accepted yet are reset.
    pub fn unlisten(&mut self, port: u16) {
        self.rare.listeners.remove(&port);
        let theirs = |id: &ConnId| {
            let connection = self.table.get(*id);
            connection.is_some_and(|c| c.passive && c.key.local.port() == port)
        };
        let ids: Vec<ConnId> = self.table.ids().filter(theirs).collect();
        for id in ids {
            // Accepted connections are passive no longer.
            let _ = self.abort(id);
        }
    }

    /// The next connection to `port` that was established, with its peer.
    pub fn accept(&mut self, port: u16) -> Option<(ConnId, SocketAddrV4)> {
        let id = self.rare.listeners.get_mut(&port)?.waiting.pop_front()?;
        let connection = self.table.get_mut(id)?;
        connection.passive = false;
        let remote = connection.key.remote;
        // Events of the meantime are reported now.
        tell(connection, &self.host, id, &mut self.events);
        Some((id, remote))
    }

    /// Opens a connection from `local` to `remote`; port 0 lets us choose one.
    pub fn connect(
        &mut self,
        now: Time,
        local: SocketAddrV4,
        remote: SocketAddrV4,
    ) -> Result<ConnId, TcpError> {
        if remote.port() == 0 || !is_host(*remote.ip()) {
            return Err(TcpError::Address(remote));
        }
        if self.table.len() >= self.host.config.max_connections {
            return Err(TcpError::Full(self.host.config.max_connections));
        }
        let key = match local.port() {
            0 => self.choose_port(*local.ip(), remote)?,
            _ => Key { local, remote },
        };
        if self.table.find(&key).is_some() || key.local == key.remote {
            return Err(TcpError::PortInUse(key.local.port()));
        }
        let (iss, stamp) = self.initial(now, &key);
        let connection = Connection::connect(&self.host, now, key, iss, stamp);
        let id = self.table.insert(connection);
        self.rare.stats.active_opens += 1;
        self.touch(id);
        Ok(id)
    }

    /// Completes a connection that [`connect`](Self::connect) has begun to `server`, which listens: as if the handshake had been,
    /// but for its time, and without a round trip that was measured. For simulations that begin with established connections.
    pub fn establish(
        &mut self,
        id: ConnId,
        server: &mut Endpoint,
        now: Time,
    ) -> Result<(), TcpError> {
        let mut segment = TcpSegment::default();
        let mut pass = |from: &mut Endpoint, to: &mut Endpoint| {
            let sent = from.poll_segment(now, &mut segment, &mut Off);
            let (src, dst, ecn) = sent.ok_or(TcpError::Unknown)?;
            let ends = (src, dst);
            to.receive(now, ends, ecn, &mut segment, &mut Off);
            let key = key_of(ends.0, ends.1, &segment);
            Ok(to.table.find(&key))
        };
        let accepted = pass(self, server)?;
        pass(server, self)?;
        pass(self, server)?;
        self.forget_round_trips(Some(id));
        server.forget_round_trips(accepted);
        Ok(())
    }

    fn forget_round_trips(&mut self, id: Option<ConnId>) {
        if let Some(connection) = id.and_then(|id| self.table.get_mut(id)) {
            connection.forget_round_trips(&self.host);
        }
    }

    /// Queues as much of `data` as there is room for; gives how many bytes. If it was not all, a
    /// [`TcpEvent::Writable`] follows.
    pub fn write(&mut self, id: ConnId, data: &Payload) -> Result<usize, TcpError> {
        let connection = self.table.get_mut(id).ok_or(TcpError::Unknown)?;
        let taken = connection.write(&self.host, data)?;
        self.touch(id);
        Ok(taken)
    }

    /// Up to `max` bytes that arrived, as many as lie together; `None` if there are none now.
    pub fn read(&mut self, id: ConnId, max: usize) -> Result<Option<Payload>, TcpError> {
        let connection = self.table.get_mut(id).ok_or(TcpError::Unknown)?;
        let taken = connection.read(max);
        if taken.is_some() {
            self.touch(id);
        }
        Ok(taken)
    }

    /// Half close: what was written is sent, then FIN; reading continues.
    pub fn shutdown(&mut self, id: ConnId) -> Result<(), TcpError> {
        let connection = self.table.get_mut(id).ok_or(TcpError::Unknown)?;
        connection.shutdown();
        self.touch(id);
        Ok(())
    }

    /// Good-bye: what was written is sent, then FIN; nothing more is read. With data unread the
    /// peer gets a reset (RFC 2525 2.17). The id is dead after that.
    pub fn close(&mut self, now: Time, id: ConnId) -> Result<(), TcpError> {
        let connection = self.table.get_mut(id).ok_or(TcpError::Unknown)?;
        if connection.state == State::SynSent || !connection.abandon(&self.host, now) {
            return self.abort(id);
        }
        self.touch(id);
        if self.is_over(id) {
            self.table.remove(id);
        }
        Ok(())
    }

    /// Breaks the connection off with a reset.
    pub fn abort(&mut self, id: ConnId) -> Result<(), TcpError> {
        let connection = self.table.get_mut(id).ok_or(TcpError::Unknown)?;
        let (key, opening) = (connection.key, connection.state == State::SynReceived);
        let reset = connection.reset();
        if let Some(segment) = reset {
            self.queue_reset(key.local, key.remote, segment);
        }
        self.forget(id, opening);
        Ok(())
    }

    /// What is known of a connection.
    pub fn info(&self, id: ConnId) -> Option<TcpInfo> {
        self.table.get(id).map(|c| c.info(&self.host))
    }

    /// What a connection did so far; also of the one whose [failure](TcpEvent::Failed) was the last to be polled.
    pub fn counts(&self, id: ConnId) -> Option<TcpCounts> {
        let counts = self.table.get(id).map(|connection| connection.counts);
        let failed = || self.rare.last_failed.filter(|it| it.0 == id);
        counts.or_else(|| failed().map(|it| it.1))
    }

    /// Bytes that can be read now, and whether the end of the stream follows them.
    pub fn available(&self, id: ConnId) -> Option<(usize, bool)> {
        self.table.get(id).map(Connection::available)
    }

    /// What was counted so far.
    pub fn stats(&self) -> TcpStats {
        TcpStats {
            sent: self.sent,
            received: self.received,
            ..self.rare.stats
        }
    }

    /// Connections there are, in whatever state.
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// [Handles](Machine::handle) a segment where it lies: it need not be moved. Its payload is taken if it counts.
    #[inline]
    pub fn receive<O: Observer>(
        &mut self,
        now: Time,
        (src, dst): (Ipv4Addr, Ipv4Addr),
        ecn: Ecn,
        segment: &mut TcpSegment,
        obs: &mut O,
    ) {
        self.received += 1;
        let key = key_of(src, dst, segment);
        let Some(id) = self.table.find(&key) else {
            return self.on_stray(now, key, segment, obs);
        };
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        let before = connection.state;
        if connection.is_reopened_by(segment) {
            // RFC 1122 4.2.2.13: a new connection need not wait for TIME-WAIT.
            self.forget(id, false);
            return self.on_stray(now, key, segment, obs);
        }
        connection.counts.received += 1;
        let measured = obs
            .measures()
            .then(|| (connection.measured(), sizes(segment)));
        connection.on_segment(&self.host, now, segment, ecn);
        if let Some((measured, sizes)) = measured {
            let node = &self.rare.name;
            probe::arrival(node, now, (connection, measured), sizes, obs);
        }
        self.touch(id);
        self.settle(now, id, before, obs);
    }

    /// Discards all readable bytes and returns the count.
    pub fn discard(&mut self, id: ConnId) -> Result<usize, TcpError> {
        let connection = self.table.get_mut(id).ok_or(TcpError::Unknown)?;
        let count = connection.discard();
        if count > 0 {
            self.touch(id);
        }
        Ok(count)
    }

    /// Like [`poll_transmit`](Machine::poll_transmit), but writes the segment into memory of the caller.
    /// Returns addresses and ECN field of its IP header; on `None` the memory is unspecified.
    #[inline]
    pub fn poll_segment<O: Observer>(
        &mut self,
        now: Time,
        out: &mut TcpSegment,
        obs: &mut O,
    ) -> Option<(Ipv4Addr, Ipv4Addr, Ecn)> {
        if self.has_resets
            && let Some(packet) = self.next_reset()
        {
            *out = packet.segment;
            return Some((packet.src, packet.dst, packet.ecn));
        }
        while let Some(&id) = self.ready.front() {
            let Some(connection) = self.table.get_mut(id) else {
                self.ready.pop_front();
                continue;
            };
            let before = connection.state;
            let Key { local, remote } = connection.key;
            let mut sent = None;
            let measured = obs.measures().then(|| connection.measured());
            if connection.poll(&self.host, now, out) {
                connection.counts.sent += 1;
                connection.counts.bytes_sent += out.payload.len() as u64;
                self.sent += 1;
                if let Some(measured) = measured {
                    let node = &self.rare.name;
                    probe::departure(node, now, (connection, measured), out, obs);
                }
                let ecn = match connection.marks.is_capable {
                    true => self.host.config.ecn.capable(),
                    false => Ecn::NotCapable,
                };
                sent = Some((*local.ip(), *remote.ip(), ecn));
                if !connection.has_said_all() {
                    return sent;
                }
            }
            // What is sent makes nothing to read, and no room to write.
            let is_unchanged = connection.is_unchanged(before);
            self.ready.pop_front();
            self.table.rest(id);
            if !is_unchanged {
                self.settle_changes(now, id, before, obs);
            }
            if sent.is_some() {
                return sent;
            }
        }
        None
    }

    /// Segments come soon, and what is needed for them may be [prefetched](layercast_core::prefetch): first this, somewhat
    /// later [the connection](Self::prepare_connection).
    #[inline]
    pub fn prepare_table(&self) {
        self.table.prepare();
    }

    /// The second step after [`prepare_table`](Self::prepare_table), for a segment from `src` to `dst`.
    #[inline]
    pub fn prepare_connection(&self, (src, dst): (Ipv4Addr, Ipv4Addr), segment: &TcpSegment) {
        let has_data = !segment.payload.is_empty();
        self.table
            .prepare_connection(&key_of(src, dst, segment), has_data);
    }

    /// The second step after [`prepare_table`](Self::prepare_table), for a timer.
    #[inline]
    pub fn prepare_due(&self) {
        self.table.prepare_due();
    }

    /// A port for [`connect`](Self::connect) later on, another one with each call; `None` once all are given.
    ///
    /// Connections that choose their own port choose it only after all others.
    pub fn reserve_port(&mut self) -> Option<u16> {
        if self.rare.reserved >= EPHEMERAL.len() as u32 {
            return None;
        }
        self.rare.reserved += 1;
        Some(self.next_port())
    }

    fn next_port(&mut self) -> u16 {
        let port = self.rare.next_port;
        self.rare.next_port = match port {
            u16::MAX => *EPHEMERAL.start(),
            port => port + 1,
        };
        port
    }

    fn choose_port(&mut self, local: Ipv4Addr, remote: SocketAddrV4) -> Result<Key, TcpError> {
        for _ in EPHEMERAL {
            let port = self.next_port();
            let key = Key {
                local: SocketAddrV4::new(local, port),
                remote,
            };
            if self.table.find(&key).is_none() && !self.rare.listeners.contains_key(&port) {
                return Ok(key);
            }
        }
        Err(TcpError::NoPort(remote))
    }

    /// Initial sequence number, and what the timestamp clock starts with (RFC 6528, RFC 7323 5.4).
    fn initial(&self, now: Time, key: &Key) -> (Serial, u32) {
        // What Linux takes for it: much cheaper than HMAC, and enough for 64 bits that live as long.
        let secret = std::array::from_fn(|n| self.rare.secret.0[n]);
        let mut hasher = SipHasher24::new_with_key(&secret);
        for end in [key.local, key.remote] {
            hasher.write(&end.ip().octets());
            hasher.write(&end.port().to_le_bytes());
        }
        let hash = hasher.finish();
        let clock = (now.as_us() / 4) as u32;
        (
            Serial((hash as u32).wrapping_add(clock)),
            (hash >> 32) as u32,
        )
    }

    fn queue_reset(&mut self, local: SocketAddrV4, remote: SocketAddrV4, segment: TcpSegment) {
        if self.rare.resets.len() < MAX_RESETS {
            self.has_resets = true;
            self.rare.resets.push_back(TcpPacket {
                src: *local.ip(),
                dst: *remote.ip(),
                ecn: Ecn::NotCapable,
                segment,
            });
        }
    }

    /// After whatever happened to a connection: it may have something to send; its deadlines are looked at
    /// when it has not.
    #[inline]
    fn touch(&mut self, id: ConnId) {
        if self.table.mark_ready(id) {
            self.ready.push_back(id);
        }
    }

    #[cold]
    fn next_reset(&mut self) -> Option<TcpPacket> {
        let packet = self.rare.resets.pop_front();
        self.has_resets = !self.rare.resets.is_empty();
        self.sent += u64::from(packet.is_some());
        packet
    }

    fn is_over(&self, id: ConnId) -> bool {
        let connection = self.table.get(id);
        connection.is_some_and(|c| c.state == State::Closed && c.abandoned)
    }

    /// Removes a connection, and the place it had at a listener.
    fn forget(&mut self, id: ConnId, opening: bool) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        if connection.passive
            && let Some(listener) = self.rare.listeners.get_mut(&connection.key.local.port())
        {
            listener.opening -= usize::from(opening);
            listener.waiting.retain(|&other| other != id);
        }
        self.table.remove(id);
    }

    /// Tells the user and the observer what became of a connection that was in state `before`.
    #[inline]
    fn settle<O: Observer>(&mut self, now: Time, id: ConnId, before: State, obs: &mut O) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        if !connection.is_unchanged(before) {
            self.settle_changes(now, id, before, obs);
        } else if connection.has_news(&self.host) {
            tell(connection, &self.host, id, &mut self.events);
        }
    }

    fn settle_changes<O: Observer>(&mut self, now: Time, id: ConnId, before: State, obs: &mut O) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        let outcome = connection.take_outcome();
        let (key, state) = (connection.key, connection.state);
        let retransmitted = u64::from(outcome.retransmitted);
        let timeouts = u64::from(outcome.timeouts);
        self.rare.stats.retransmitted += retransmitted;
        self.rare.stats.timeouts += timeouts;
        self.rare.stats.spurious_timeouts += u64::from(outcome.spurious_timeouts);
        connection.counts.retransmitted += retransmitted;
        let fast_retransmits = u64::from(outcome.fast_retransmits);
        self.rare.stats.fast_retransmits += fast_retransmits;
        connection.counts.timeouts += timeouts;
        connection.counts.fast_retransmits += fast_retransmits;
        let ecn_reductions = u64::from(outcome.ecn_reductions);
        self.rare.stats.ecn_reductions += ecn_reductions;
        connection.counts.ecn_reductions += ecn_reductions;
        let passive = connection.passive;
        if before != state {
            report(now, &self.rare.name, key, before, state, obs);
            if state == State::Closed {
                probe::closed(&self.rare.name, now, &key, obs);
            }
        }
        if outcome.connected {
            self.on_connected(id, key, passive);
        }
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        tell(connection, &self.host, id, &mut self.events);
        let counts = connection.counts;
        let done = connection.is_done() && outcome.failure.is_none() && !passive;
        if done && !std::mem::replace(&mut connection.notified.closed, true) {
            self.events.push_back(TcpEvent::Closed(id));
        }
        if let Some(segment) = outcome.reset {
            self.queue_reset(key.local, key.remote, *segment);
        }
        let opening = before == State::SynReceived && !outcome.connected;
        if let Some(failure) = outcome.failure {
            if !passive {
                self.rare.failed.push_back((id, counts));
                self.events.push_back(TcpEvent::Failed(id, failure));
            }
            self.forget(id, opening);
            return;
        }
        if state == State::Closed && (opening || self.is_over(id)) {
            self.forget(id, opening);
        }
    }

    fn on_connected(&mut self, id: ConnId, key: Key, passive: bool) {
        if !passive {
            self.events.push_back(TcpEvent::Connected(id));
            return;
        }
        let port = key.local.port();
        if let Some(listener) = self.rare.listeners.get_mut(&port) {
            listener.opening -= 1;
            listener.waiting.push_back(id);
            self.events.push_back(TcpEvent::Incoming(port));
        }
        self.rare.stats.passive_opens += 1;
    }

    /// A segment that belongs to no connection.
    fn on_stray<O: Observer>(&mut self, now: Time, key: Key, segment: &TcpSegment, obs: &mut O) {
        let flags = segment.flags;
        // RFC 1122, section 4.2.3.10: TCP is unicast only.
        let is_talk =
            is_host(*key.local.ip()) && is_host(*key.remote.ip()) && segment.src_port != 0;
        if !is_talk || flags.has(TcpFlags::RST) {
            return;
        }
        let opens = flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::ACK);
        if let Some(listener) = self
            .rare
            .listeners
            .get_mut(&key.local.port())
            .filter(|_| opens)
        {
            let full = listener.opening + listener.waiting.len() >= listener.backlog;
            if full || self.table.len() >= self.host.config.max_connections {
                // The peer will try again; a reset would make it give up.
                self.rare.stats.refused_syns += 1;
                return;
            }
            listener.opening += 1;
            let initial = self.initial(now, &key);
            let connection = Connection::accept(&self.host, now, key, initial, segment);
            let id = self.table.insert(connection);
            report(
                now,
                &self.rare.name,
                key,
                State::Closed,
                State::SynReceived,
                obs,
            );
            probe::accepted(&self.rare.name, now, &key, segment.encoded_len(), obs);
            self.touch(id);
            return;
        }
        self.rare.stats.stray += 1;
        self.queue_reset(key.local, key.remote, reset_for(segment));
    }
}

/// Octets of a segment, and of its data.
fn sizes(segment: &TcpSegment) -> (usize, usize) {
    (segment.encoded_len(), segment.payload.len())
}

/// What names the connection that a segment is for.
#[inline]
fn key_of(src: Ipv4Addr, dst: Ipv4Addr, segment: &TcpSegment) -> Key {
    Key {
        local: SocketAddrV4::new(dst, segment.dst_port),
        remote: SocketAddrV4::new(src, segment.src_port),
    }
}

/// Reports to the user what can be read and written now; nothing about connections that are not yet accepted.
fn tell(connection: &mut Connection, host: &Host, id: ConnId, events: &mut Line<TcpEvent>) {
    if connection.passive {
        return;
    }
    let (unread, ended) = connection.available();
    let wants_to_write = connection.wants_to_write(host);
    let notified = &mut connection.notified;
    if unread > 0 && !std::mem::replace(&mut notified.readable, true) {
        events.push_back(TcpEvent::Readable(id));
    }
    if ended && !std::mem::replace(&mut notified.end, true) {
        events.push_back(TcpEvent::PeerClosed(id));
    }
    if wants_to_write {
        notified.wants_room = false;
        events.push_back(TcpEvent::Writable(id));
    }
}

/// Whether a single host can have the address.
fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_broadcast() || address.is_multicast())
}

fn report<O: Observer>(now: Time, node: &str, key: Key, from: State, to: State, obs: &mut O) {
    let subject = probe::subject(node);
    // A connection has no flow number of its own: both its ports name it.
    let flow = FlowId(u32::from(key.local.port()) << 16 | u32::from(key.remote.port()));
    obs.on(now, subject, || TraceEvent::State {
        flow,
        what: "connection",
        from: from.name(),
        to: to.name(),
    });
}

impl Machine for Endpoint {
    type Input = TcpPacket;
    type Transmit = TcpPacket;
    type Event = TcpEvent;

    fn handle<O: Observer>(&mut self, now: Time, mut packet: TcpPacket, obs: &mut O) {
        let TcpPacket { src, dst, ecn, .. } = packet;
        self.receive(now, (src, dst), ecn, &mut packet.segment, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(id) = self.table.due(now) {
            let Some(connection) = self.table.get_mut(id) else {
                continue;
            };
            let before = connection.state;
            if connection.next_timeout().is_some_and(|at| at <= now) {
                connection.on_timeout(&self.host, now);
                self.touch(id);
                self.settle(now, id, before, obs);
            } else {
                self.table.arm(id);
            }
        }
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<TcpPacket> {
        let mut segment = TcpSegment::default();
        let (src, dst, ecn) = self.poll_segment(now, &mut segment, obs)?;
        Some(TcpPacket {
            src,
            dst,
            ecn,
            segment,
        })
    }

    fn poll_event(&mut self) -> Option<TcpEvent> {
        let event = self.events.pop_front()?;
        if let TcpEvent::Failed(..) = event {
            self.rare.last_failed = self.rare.failed.pop_front();
        }
        Some(event)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.table.next_deadline()
    }
}
