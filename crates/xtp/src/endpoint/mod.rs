mod machine;
mod probe;
mod strays;

use core::hash::Hasher;
use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use layercast_core::{Machine, Observer, Serial, Time};
use layercast_protect::Seed;
use layercast_wire::{Payload, XtpKey, XtpPacket, XtpTrafficSpec};
use siphasher::sip::SipHasher24;

use crate::context::{Context, Ends, Part, addresses, is_multicast};
use crate::table::Table;
use crate::{
    Chunk, ContextId, SendOptions, XtpConfig, XtpDatagram, XtpError, XtpEvent, XtpInfo, XtpRate,
    XtpSocket, XtpStats,
};

pub(crate) use probe::status_of;

/// Places in which sources of DIAG are distinguished.
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
    /// Transmitters to groups, by their ports.
    transmitters: BTreeMap<u16, Vec<ContextId>>,
    diags: VecDeque<XtpDatagram>,
    /// Start of the current second and the number of DIAG sent to these sources in it.
    sources: Vec<(Time, u32)>,
    events: VecDeque<XtpEvent>,
    stats: XtpStats,
}

impl Endpoint {
    /// The XTP of the host `name`, with at most `max_contexts` contexts. Keys follow from `secret`, which must
    /// be kept secret where untrusted hosts can send.
    pub fn new(max_contexts: usize, name: &str, secret: &[u8; 32]) -> Endpoint {
        let derived = Seed::derived(secret, name);
        Endpoint {
            name: name.into(),
            secret: std::array::from_fn(|n| derived.0[n]),
            opened: 0,
            max_contexts,
            table: Table::default(),
            listeners: BTreeMap::new(),
            transmitters: BTreeMap::new(),
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

    /// The next association to `port`, with its peer. With [`XtpConfig::validate_peer`] it is one whose peer has
    /// shown that it receives what we send.
    pub fn accept(&mut self, port: u16) -> Option<(ContextId, XtpSocket)> {
        self.forget_unvalidated(port, false);
        let waiting = &mut self.listeners.get_mut(&port)?.waiting;
        let acceptable = |id: &ContextId| self.table.get(*id).is_some_and(Context::is_acceptable);
        let place = waiting.iter().position(acceptable)?;
        let id = waiting.remove(place)?;
        let context = self.table.get_mut(id)?;
        context.passive = false;
        let remote = context.remote();
        // Events of the meantime are reported now.
        self.tell(id);
        Some((id, remote))
    }

    /// Forgets associations to `port` that are over without having been validated and, if `one_more` is to have
    /// a place in a full backlog, the oldest of those that wait for validation. Nothing is sent: their addresses
    /// may be forged.
    fn forget_unvalidated(&mut self, port: u16, one_more: bool) {
        let Some(listener) = self.listeners.get_mut(&port) else {
            return;
        };
        let table = &mut self.table;
        listener.waiting.retain(|&id| {
            let context = table.get(id);
            let over = context.is_some_and(|it| !it.is_acceptable() && it.is_inactive());
            if over {
                table.remove(id);
            }
            !over && table.get(id).is_some()
        });
        if one_more && listener.waiting.len() >= listener.backlog {
            let waits = |id: &ContextId| table.get(*id).is_some_and(|it| !it.is_acceptable());
            if let Some(place) = listener.waiting.iter().position(waits)
                && let Some(id) = listener.waiting.remove(place)
            {
                table.remove(id);
            }
        }
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
        check_remote(config, &remote)?;
        let multicast = is_multicast(config.service);
        let part = match multicast {
            true => Part::Transmitter,
            false => Part::Pair,
        };
        let id = self.enter(now, (local, remote), part, config)?;
        if multicast {
            self.transmitters.entry(remote.port).or_default().push(id);
        }
        Ok(id)
    }

    /// Asks to be let into a multicast association that is under way (specs/xtp.md 2.13): at the group, or at its
    /// transmitter if that is known. [`XtpEvent::Joined`] tells of the first byte we get.
    ///
    /// # Errors
    /// The configuration or the address makes no sense, or there are too many contexts.
    pub fn join(
        &mut self,
        now: Time,
        local: XtpSocket,
        remote: XtpSocket,
        config: &XtpConfig,
    ) -> Result<ContextId, XtpError> {
        check_joined(config, &remote)?;
        let part = Part::Receiver {
            address: addresses(&remote, &local),
            joined: false,
        };
        self.enter(now, (local, remote), part, config)
    }

    /// A context that we begin.
    fn enter(
        &mut self,
        now: Time,
        (local, remote): (XtpSocket, XtpSocket),
        part: Part,
        config: &XtpConfig,
    ) -> Result<ContextId, XtpError> {
        if self.table.len() >= self.max_contexts {
            return Err(XtpError::Full(self.max_contexts));
        }
        // Only of many receivers one that answers has to prove anything.
        let sync = match part {
            Part::Transmitter => (self.hash(&[2]) >> 34) as u32,
            _ => 0,
        };
        let ends = Ends {
            part,
            local,
            remote,
            own: self.new_key(),
            theirs: None,
            sync: Serial(sync),
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

    /// [Queues](Self::send) as much of `data` as there is room for and takes it off them, with the tag; `true` when there is no
    /// more.
    pub fn offer(
        &mut self,
        id: ContextId,
        data: &mut Payload,
        how: &mut SendOptions,
    ) -> Result<bool, XtpError> {
        let context = self.table.get_mut(id).ok_or(XtpError::Unknown)?;
        let fits = context.room() > how.tag.map_or(0, |tag| tag.len());
        let taken = context.send(data, how)?;
        self.touch(id);
        if fits {
            data.advance(taken);
            how.tag = None;
        }
        Ok(fits && data.is_empty())
    }

    /// Up to `max` bytes that arrived, of one message; `None` if there are none now.
    pub fn receive(&mut self, id: ContextId, max: usize) -> Result<Option<Chunk>, XtpError> {
        let chunk = self.lend(id, max)?;
        if let Some(chunk) = &chunk {
            self.use_lent(id, chunk.size())?;
        }
        Ok(chunk)
    }

    /// Like `receive`, for a caller that passes the data on: they occupy the window, and no delivery is
    /// reported, until their last owner has [used](Self::use_lent) them.
    pub fn lend(&mut self, id: ContextId, max: usize) -> Result<Option<Chunk>, XtpError> {
        let context = self.table.get_mut(id).ok_or(XtpError::Unknown)?;
        Ok(context.lend(max))
    }

    /// Releases `bytes` of the [lent](Self::lend) data, tags included.
    pub fn use_lent(&mut self, id: ContextId, bytes: u64) -> Result<(), XtpError> {
        let context = self.table.get_mut(id).ok_or(XtpError::Unknown)?;
        context.use_lent(bytes);
        self.touch(id);
        Ok(())
    }

    /// Offers `bytes` of buffers to a peer that uses reservation.
    pub fn post(&mut self, id: ContextId, bytes: usize) -> Result<(), XtpError> {
        self.with(id, |context| context.post(bytes))
    }

    /// Nothing more will be sent; receiving continues.
    pub fn close_write(&mut self, id: ContextId) -> Result<(), XtpError> {
        self.with(id, Context::close_write)
    }

    /// Closes the receiving direction: data that the peer still sends are discarded, and the peer is notified.
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

    /// Aborts the association and notifies the peer. The id is invalid after that.
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

    /// Asks the peer how things are, immediately.
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

    /// The context that a packet is for, by its key alone: the packet may be damaged, or not decode.
    pub fn context_of(&self, from: SocketAddr, packet: &[u8]) -> Option<ContextId> {
        let key = packet.first_chunk().copied().map(u64::from_be_bytes)?;
        self.table.find(from, XtpKey(key))
    }

    /// Counts packets, `count` of them, that were dropped before they were [handled](Self::handle_bytes), for the context of the
    /// first one if it has one.
    pub fn crowded_out(&mut self, from: SocketAddr, packet: &[u8], count: u64) {
        self.stats.crowded_out += count;
        let id = self.context_of(from, packet);
        if let Some(context) = id.and_then(|id| self.table.get_mut(id)) {
            context.counts.crowded_out += count;
        }
    }

    fn with(&mut self, id: ContextId, call: impl FnOnce(&mut Context)) -> Result<(), XtpError> {
        let context = self.table.get_mut(id).filter(|it| !it.released);
        call(context.ok_or(XtpError::Unknown)?);
        self.touch(id);
        Ok(())
    }

    /// An unguessable key: the place of the context, and 31 bits of a hash.
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
}

/// Whether a context of this configuration can be opened with `remote`.
pub(crate) fn check_remote(config: &XtpConfig, remote: &XtpSocket) -> Result<(), XtpError> {
    let multicast = is_multicast(config.service);
    if multicast != remote.net.ip().is_multicast() || !(multicast || is_host(&remote.net)) {
        return Err(XtpError::Address(remote.net));
    }
    Ok(config.validate()?)
}

/// Whether one of this configuration can join the group or transmitter `remote`.
pub(crate) fn check_joined(config: &XtpConfig, remote: &XtpSocket) -> Result<(), XtpError> {
    let group = remote.net.ip().is_multicast();
    if !is_multicast(config.service) || !(group || is_host(&remote.net)) {
        return Err(XtpError::Address(remote.net));
    }
    Ok(config.validate()?)
}

/// Whether a single host can have the address.
fn is_host(address: &SocketAddr) -> bool {
    let ip = address.ip();
    let broadcast = matches!(ip, core::net::IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || broadcast)
}
