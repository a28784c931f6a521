use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;

use layercast_core::{Span, Time, earliest};
use layercast_multicast::{Receiver, ReceiverConfig, ReceiverEvent, ReceiverStats, To};
use layercast_wire::multicast::{Body, MemberId, Open, Packet, Reason};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::intake::Intake;
use super::name::FileName;
use super::outgoing::Outgoing;
use super::peers::Peers;
use super::session::Inbox;
use super::store::{FileStore, Folder};
use crate::clock::Clock;
use crate::error::NetError;
use crate::random::random_number;
use crate::timer::Timer;
use crate::udp::Udp;

/// Sessions at a time: a stranger who announces many takes no more of us.
const MOST_SESSIONS: usize = 8;
/// Senders that are remembered.
const MOST_SENDERS: usize = 1 << 10;
/// Sessions that are over and may still be announced.
const MOST_OVER: usize = 64;
/// A session is taken over by another with the same content, or given up for a new one, when its sender was
/// silent for so long.
const SILENT: Span = Span::from_secs(2);
/// How often what is there is saved, and progress told.
const SAVE: Span = Span::from_secs(2);
const TELL: Span = Span::from_ms(250);
/// Batches taken off a socket before something else is done: what the buffer of one that is full holds.
const BATCHES: usize = 64;
/// Packets of a stream that are held until they are written, at most: that is at once.
const BUFFER: u32 = 4_096;

/// Who receives, where from and where to.
#[derive(Clone, Debug)]
pub struct ReceiveConfig {
    /// Where files go.
    pub folder: Folder,
    /// The multicast group, and the address of the interface.
    pub group: Option<(SocketAddrV4, Ipv4Addr)>,
    /// Where unicast is taken, and reports come from; port 0: any.
    pub listen: SocketAddr,
    /// Who this is.
    pub member: MemberId,
    /// Key that it shares with senders: of its receipts, and of the announcements that it believes.
    pub key: Option<[u8; 32]>,
    /// Goes on after the last file of a sender.
    pub forever: bool,
    /// Gives up when no sender was heard for so long; zero: never.
    pub patience: Span,
}

/// What a receiver tells while it runs.
#[derive(Clone, Debug)]
pub enum ReceiveEvent {
    /// It takes part in a session.
    Joined {
        /// The file.
        name: String,
        /// Its octets.
        size: u64,
        /// Packets that were there already, and all.
        held: (u64, u64),
        /// Whose session it is.
        sender: SocketAddr,
    },
    /// Four times a second, of the session that moved last.
    Progress {
        /// The file.
        name: String,
        /// Packets that are there, and all.
        held: (u64, u64),
        /// Octets of a packet.
        packet: u16,
    },
    /// The sender is gone before the file was whole; what is there is kept.
    Interrupted {
        /// The file.
        name: String,
        /// Why.
        reason: Reason,
    },
    /// Somebody without the key announces a session, which is ignored; told once.
    Disbelieved(SocketAddr),
    /// A file is over.
    Done(Box<ReceivedFile>),
}

/// A file and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct ReceivedFile {
    /// The name that was announced, made harmless.
    pub name: FileName,
    /// Its octets.
    pub size: u64,
    /// Its BLAKE3 digest.
    pub digest: [u8; 32],
    /// Where it is, if it is whole and its digest is right.
    pub path: Option<PathBuf>,
    /// Why not.
    pub reason: Option<Reason>,
    /// What the system said, if it was that.
    pub error: Option<String>,
    /// Packets that were there before.
    pub held_before: u64,
    /// How long it took, from the announcement on.
    pub took: Span,
    /// What was counted.
    pub stats: ReceiverStats,
}

/// Why receiving ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The last file of a sender is over.
    All,
    /// No sender was heard for long.
    Patience,
    /// It was told to.
    Stopped,
}

/// A session it takes part in.
struct Session {
    machine: Receiver<FileStore>,
    sender: SocketAddr,
    open: Open,
    began: Time,
    heard: Time,
    held_before: u64,
    verifying: bool,
    /// The file, if it comes as a stream.
    stream: Option<Intake>,
}

/// A receiver and its sockets, ready to run.
pub struct FileReceiver {
    config: ReceiveConfig,
    machine: ReceiverConfig,
    udp: Udp,
    group: Option<Udp>,
    peers: Peers,
    sessions: BTreeMap<u64, Session>,
    over: VecDeque<u64>,
    inbox: Inbox,
    /// It has told of an announcement by somebody without the key.
    disbelieved: bool,
    out: Outgoing,
    files: Vec<ReceivedFile>,
    heard: Time,
    /// The last file of its sender is over.
    last: bool,
}

impl FileReceiver {
    /// Takes the sockets. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The port is in use, or the group cannot be joined.
    pub fn bind(config: ReceiveConfig) -> Result<FileReceiver, NetError> {
        let udp = Udp::bind(config.listen).map_err(|it| NetError::bind(config.listen, it))?;
        let join = |(group, interface)| {
            Udp::join_group(group, interface).map_err(|source| NetError::Group {
                group: SocketAddr::from(group),
                source,
            })
        };
        let group = config.group.map(join).transpose()?;
        let machine = ReceiverConfig {
            buffer: BUFFER,
            ..ReceiverConfig::new(config.member, 0).with_key(config.key.as_ref())
        };
        Ok(FileReceiver {
            machine,
            disbelieved: false,
            config,
            udp,
            group,
            peers: Peers::new(MOST_SENDERS),
            sessions: BTreeMap::new(),
            over: VecDeque::new(),
            inbox: Inbox::default(),
            out: Outgoing::default(),
            files: Vec::new(),
            heard: Time::ZERO,
            last: false,
        })
    }

    /// Where unicast comes in.
    pub fn local_addr(&self) -> SocketAddr {
        self.udp.local_addr()
    }

    /// Receives until the last file of a sender is over, or `shutdown`; partial files are kept.
    ///
    /// # Errors
    /// The system refuses timers.
    pub async fn run(
        mut self,
        shutdown: CancellationToken,
        events: mpsc::Sender<ReceiveEvent>,
    ) -> Result<(Vec<ReceivedFile>, Ended), NetError> {
        let clock = Clock::get();
        let mut timer = Timer::new().map_err(NetError::system("creating a timer"))?;
        let mut save_at = clock.now() + SAVE;
        let mut tell_at = clock.now();
        self.heard = clock.now();
        let ended = loop {
            let now = clock.now();
            timer.served(now);
            let mut more = self.receive(now, &events);
            more |= self.work(now, &events);
            let full = !self.out.flush(&mut self.udp);
            if save_at <= now {
                save_at = now + SAVE;
                self.save();
            }
            if tell_at <= now {
                tell_at = now + TELL;
                self.progress(&events);
            }
            let patience = self.config.patience;
            if shutdown.is_cancelled() {
                break Ended::Stopped;
            }
            if self.last && self.sessions.is_empty() && !self.config.forever {
                break Ended::All;
            }
            if patience > Span::ZERO && self.sessions.is_empty() && self.heard + patience <= now {
                break Ended::Patience;
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            let machines = self.sessions.values();
            let next = machines.fold(None, |next, it| earliest(next, it.machine.poll_timeout()));
            let wake = earliest(next, Some(save_at.min(tell_at)));
            timer
                .arm(wake)
                .map_err(NetError::system("setting a timer"))?;
            let in_group = async {
                match &self.group {
                    Some(group) => group.readable().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                _ = timer.expired() => {}
                _ = self.udp.readable() => {}
                _ = in_group => {}
                _ = self.udp.writable(), if full => {}
                () = shutdown.cancelled() => {}
            }
        };
        self.save();
        if ended == Ended::Stopped {
            self.leave();
        }
        Ok((self.files, ended))
    }

    /// Tells senders that we are going; they need not wait for us.
    fn leave(&mut self) {
        for session in self.sessions.values_mut() {
            session.machine.leave(Reason::User);
        }
        self.transmit(Time::ZERO);
        // Best effort: who is not told finds out.
        self.out.flush(&mut self.udp);
    }

    /// Takes what came, but not for ever; says whether there may be more.
    fn receive(&mut self, now: Time, events: &mpsc::Sender<ReceiveEvent>) -> bool {
        let mut more = false;
        // What came to the group comes first: who is asked alone must not answer before it has seen what was sent to
        // all before.
        for alone in [false, true] {
            for batch in 0..BATCHES {
                let socket = match alone {
                    true => Some(&mut self.udp),
                    false => self.group.as_mut(),
                };
                if !socket.is_some_and(|it| it.receive(&mut self.inbox)) {
                    break;
                }
                more |= batch + 1 == BATCHES;
                let mut packets = core::mem::take(&mut self.inbox.packets);
                for (from, packet) in packets.drain(..) {
                    self.take(now, from, &packet, events);
                }
                self.inbox.packets = packets;
            }
        }
        more
    }

    fn take(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &Packet,
        events: &mpsc::Sender<ReceiveEvent>,
    ) {
        if let Body::Open(open) = &packet.body {
            return self.open(now, from, packet, open, events);
        }
        let session = self.sessions.get_mut(&packet.session);
        if let (Some(session), Some(peer)) = (session, self.peers.find(from)) {
            session.machine.handle(now, peer, packet);
            if let Some(stream) = &mut session.stream {
                stream.take(&mut session.machine);
            }
            if session.sender == from {
                session.heard = now;
            }
        }
    }

    /// A session is announced: it may be ours already, one of ours begun anew, or a new one.
    fn open(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &Packet,
        open: &Open,
        events: &mpsc::Sender<ReceiveEvent>,
    ) {
        if !self.machine.believes(packet.session, open) {
            if !core::mem::replace(&mut self.disbelieved, true) {
                let _ = events.try_send(ReceiveEvent::Disbelieved(from));
            }
            return;
        }
        if self.sessions.is_empty() && self.peers.is_full() {
            // Strangers filled it; nobody is needed any more.
            self.peers = Peers::new(MOST_SENDERS);
        }
        let (id, Some(peer)) = (packet.session, self.peers.number(from)) else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(&id) {
            session.machine.handle(now, peer, packet);
            if session.sender == from {
                session.heard = now;
            }
            return;
        }
        let Some(object) = open.object.as_ref().filter(|_| !self.over.contains(&id)) else {
            return;
        };
        let silent = |session: &Session| session.heard + SILENT <= now;
        let same = self.sessions.iter().find(|(_, session)| {
            let ours = session.open.object.as_ref();
            ours.is_some_and(|it| it.digest == object.digest)
        });
        match same.map(|(&old, session)| (old, silent(session))) {
            // Whose session runs decides; a second sender of the same content has to wait.
            Some((_, false)) => return,
            Some((old, true)) => self.end(old, Some(Reason::Silent), now, events),
            None => {}
        }
        if self.sessions.len() >= MOST_SESSIONS {
            let oldest = self.sessions.iter().min_by_key(|(_, it)| it.heard);
            match oldest.filter(|(_, it)| silent(it)).map(|(&id, _)| id) {
                Some(id) => self.end(id, Some(Reason::Silent), now, events),
                None => return,
            }
        }
        let mut store = FileStore::new(self.config.folder.clone());
        let stream = Intake::of(open, &mut store);
        let mut machine = Receiver::new(self.another_life(), store);
        machine.handle(now, peer, packet);
        if let Some(Err(reason)) = stream {
            machine.leave(reason);
        }
        let mut stream = stream.and_then(Result::ok);
        if let Some(stream) = &mut stream {
            stream.take(&mut machine);
        }
        self.heard = now;
        let held = machine.progress();
        let name = machine.store().name();
        let _ = events.try_send(ReceiveEvent::Joined {
            name: name.map_or_else(String::new, |it| it.name.clone()),
            size: object.size,
            held,
            sender: from,
        });
        let session = Session {
            machine,
            sender: from,
            open: open.clone(),
            began: now,
            heard: now,
            held_before: held.0,
            verifying: false,
            stream,
        };
        self.sessions.insert(id, session);
    }

    /// The configuration of another machine.
    fn another_life(&self) -> ReceiverConfig {
        ReceiverConfig {
            incarnation: random_number() as u32,
            seed: random_number(),
            ..self.machine
        }
    }

    /// Timers, events, hashing; says whether there is more to be hashed.
    fn work(&mut self, now: Time, events: &mpsc::Sender<ReceiveEvent>) -> bool {
        let mut more = false;
        let mut ended = Vec::new();
        for (&id, session) in &mut self.sessions {
            if session.machine.poll_timeout().is_some_and(|at| at <= now) {
                session.machine.on_timeout(now);
            }
            // A piece at a time, so that packets do not wait for long.
            let hashed = session.machine.store_mut().hash_one();
            more |= matches!(hashed, Ok(true));
            if hashed.is_err() {
                session.machine.leave(Reason::NoRoom);
            }
            if session.verifying
                && let Some(right) = session.machine.store().is_right()
            {
                session.verifying = false;
                session.machine.verified(now, right);
            }
            while let Some(event) = session.machine.poll_event() {
                match event {
                    ReceiverEvent::Verify => {
                        session.verifying = true;
                        more = true;
                    }
                    ReceiverEvent::Complete => {
                        let finished = session.machine.store_mut().finish();
                        if finished.is_err() {
                            session.machine.leave(Reason::NoRoom);
                        }
                    }
                    ReceiverEvent::Closed { reason, .. } | ReceiverEvent::Refused(reason) => {
                        ended.push((id, reason));
                    }
                    _ => {}
                }
            }
        }
        self.transmit(now);
        for (id, reason) in ended {
            self.end(id, Some(reason), now, events);
        }
        more
    }

    fn transmit(&mut self, now: Time) {
        for session in self.sessions.values_mut() {
            while let Some(transmit) = session.machine.poll_transmit(now) {
                let to = match transmit.to {
                    To::One(peer) => self.peers.address(peer),
                    To::Group | To::Side => None,
                };
                let to: Arc<[SocketAddr]> = to.into_iter().collect();
                self.out.push(&to, &transmit.packet);
            }
        }
    }

    /// A session is over.
    fn end(
        &mut self,
        id: u64,
        reason: Option<Reason>,
        now: Time,
        events: &mpsc::Sender<ReceiveEvent>,
    ) {
        let Some(mut session) = self.sessions.remove(&id) else {
            return;
        };
        if self.over.len() == MOST_OVER {
            self.over.pop_front();
        }
        self.over.push_back(id);
        self.heard = now;
        let store = session.machine.store_mut();
        // What cannot be saved is received again.
        let _ = store.save();
        let name = store.name().cloned();
        let (Some(object), Some(name)) = (session.open.object, name) else {
            return;
        };
        let path = store.done().map(|path| path.to_owned());
        let error = store.error().map(ToString::to_string);
        let right = session.stream.as_ref().is_some_and(Intake::is_right);
        let path = path.filter(|_| right || session.machine.is_complete());
        let reason = reason.filter(|_| path.is_none());
        if let Some(reason @ (Reason::Silent | Reason::User | Reason::Integrity)) = reason {
            // The sender is gone, or gave up: it may come again.
            let _ = events.try_send(ReceiveEvent::Interrupted {
                name: name.name,
                reason,
            });
            return;
        }
        self.last |= name.index == name.count;
        let file = ReceivedFile {
            name,
            size: object.size,
            digest: object.digest,
            path,
            reason,
            error,
            held_before: session.held_before,
            took: now.since(session.began),
            stats: *session.machine.stats(),
        };
        let _ = events.try_send(ReceiveEvent::Done(Box::new(file.clone())));
        self.files.push(file);
    }

    fn save(&mut self) {
        for session in self.sessions.values_mut() {
            // What cannot be saved is received again in another life.
            let _ = session.machine.store_mut().save();
        }
    }

    fn progress(&self, events: &mpsc::Sender<ReceiveEvent>) {
        let latest = self.sessions.values().max_by_key(|it| it.heard);
        if let Some(session) = latest
            && let Some(name) = session.machine.store().name()
        {
            let stream = session.stream.as_ref();
            let _ = events.try_send(ReceiveEvent::Progress {
                name: name.name.clone(),
                held: stream.map_or(session.machine.progress(), Intake::progress),
                packet: session.open.packet_size,
            });
        }
    }
}
