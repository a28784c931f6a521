use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use layercast_core::{Observer, Time, earliest};
use layercast_multicast::{ReceiverConfig, To};
use layercast_wire::multicast::{Body, Open, Packet, Reason};
use tokio::sync::mpsc;

use super::session::Session;
use super::{ReceiveEvent, ReceivedFile};
use crate::multicast::outgoing::Outgoing;
use crate::multicast::peers::Peers;
use crate::multicast::store::Folder;
use crate::random::random_number;

/// Sessions at a time: a stranger who announces many takes no more of us.
const MOST_SESSIONS: usize = 8;
/// Senders that are remembered.
const MOST_SENDERS: usize = 1 << 10;
/// Sessions that are over and may still be announced.
const MOST_OVER: usize = 64;

/// The sessions that a receiver takes part in, and what became of those that are over.
pub struct Sessions {
    /// In traces.
    name: String,
    folder: Folder,
    machine: ReceiverConfig,
    peers: Peers,
    all: BTreeMap<u64, Session>,
    over: VecDeque<u64>,
    /// It has told of an announcement by somebody without the key.
    disbelieved: bool,
    /// What the machines send.
    pub out: Outgoing,
    /// What became of files.
    pub files: Vec<ReceivedFile>,
    /// When a session began or ended last.
    pub heard: Time,
    /// The last file of its sender is over.
    pub last: bool,
}

impl Sessions {
    /// None yet; machines will be as `machine` says, and called `name` in traces; their files go to `folder`.
    pub fn new(name: String, folder: Folder, machine: ReceiverConfig) -> Sessions {
        Sessions {
            name,
            folder,
            machine,
            peers: Peers::new(MOST_SENDERS),
            all: BTreeMap::new(),
            over: VecDeque::new(),
            disbelieved: false,
            out: Outgoing::default(),
            files: Vec::new(),
            heard: Time::ZERO,
            last: false,
        }
    }

    /// Whether none runs.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Takes a packet that came from `from`.
    pub fn take(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &Packet,
        (events, obs): (&mpsc::Sender<ReceiveEvent>, &mut impl Observer),
    ) {
        if let Body::Open(open) = &packet.body {
            return self.open(now, from, (packet, open), (events, obs));
        }
        let session = self.all.get_mut(&packet.session);
        if let (Some(session), Some(peer)) = (session, self.peers.find(from)) {
            session.handle(now, (from, peer), packet, obs);
        }
    }

    /// A session is announced: it may be ours already, one of ours begun anew, or a new one.
    fn open(
        &mut self,
        now: Time,
        from: SocketAddr,
        (packet, open): (&Packet, &Open),
        (events, obs): (&mpsc::Sender<ReceiveEvent>, &mut impl Observer),
    ) {
        if !self.machine.believes(packet.session, open) {
            if !core::mem::replace(&mut self.disbelieved, true) {
                let _ = events.try_send(ReceiveEvent::Disbelieved(from));
            }
            return;
        }
        if self.all.is_empty() && self.peers.is_full() {
            // Strangers filled it; nobody is needed any more.
            self.peers = Peers::new(MOST_SENDERS);
        }
        let (id, Some(peer)) = (packet.session, self.peers.number(from)) else {
            return;
        };
        if let Some(session) = self.all.get_mut(&id) {
            return session.handle(now, (from, peer), packet, obs);
        }
        let Some(object) = open.object.as_ref().filter(|_| !self.over.contains(&id)) else {
            return;
        };
        let same = self.all.iter().find(|(_, it)| it.is_of(object));
        match same.map(|(&old, session)| (old, session.is_silent(now))) {
            // Whose session runs decides; a second sender of the same content has to wait.
            Some((_, false)) => return,
            Some((old, true)) => self.end(old, Reason::Silent, now, events),
            None => {}
        }
        if self.all.len() >= MOST_SESSIONS {
            let oldest = self.all.iter().min_by_key(|(_, it)| it.heard());
            let oldest = oldest.filter(|(_, it)| it.is_silent(now));
            match oldest.map(|(&id, _)| id) {
                Some(id) => self.end(id, Reason::Silent, now, events),
                None => return,
            }
        }
        self.heard = now;
        let session = Session::join(
            self.another_life(),
            (self.folder.clone(), &self.name),
            now,
            (from, peer),
            (packet, open),
            obs,
        );
        let _ = events.try_send(session.joined());
        self.all.insert(id, session);
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
    pub fn work(
        &mut self,
        now: Time,
        events: &mpsc::Sender<ReceiveEvent>,
        obs: &mut impl Observer,
    ) -> bool {
        let mut more = false;
        let mut ended = Vec::new();
        for (&id, session) in &mut self.all {
            let (hashing, over) = session.work(now, obs);
            more |= hashing;
            ended.extend(over.map(|reason| (id, reason)));
        }
        self.transmit(now, obs);
        for (id, reason) in ended {
            self.end(id, reason, now, events);
        }
        more
    }

    fn transmit(&mut self, now: Time, obs: &mut impl Observer) {
        for session in self.all.values_mut() {
            while let Some(transmit) = session.poll_transmit(now, obs) {
                if let To::One(peer) = transmit.to
                    && let Some(to) = self.peers.way_to(peer)
                {
                    self.out.push(to, &transmit.packet);
                }
            }
        }
    }

    /// A session is over.
    fn end(&mut self, id: u64, reason: Reason, now: Time, events: &mpsc::Sender<ReceiveEvent>) {
        let Some(session) = self.all.remove(&id) else {
            return;
        };
        if self.over.len() == MOST_OVER {
            self.over.pop_front();
        }
        self.over.push_back(id);
        self.heard = now;
        let Some(file) = session.end(now, reason) else {
            return;
        };
        if let Some(reason @ (Reason::Silent | Reason::User | Reason::Integrity)) = file.reason {
            // The sender is gone, or gave up: it may come again.
            let _ = events.try_send(ReceiveEvent::Interrupted {
                name: file.name.name,
                reason,
            });
            return;
        }
        self.last |= file.name.index == file.name.count;
        let _ = events.try_send(ReceiveEvent::Done(Box::new(file.clone())));
        self.files.push(file);
    }

    /// Whether some session is served after others.
    pub fn is_postponed(&self) -> bool {
        self.all.values().any(Session::is_postponed)
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        let all = self.all.values().map(Session::poll_timeout);
        all.fold(None, earliest)
    }

    /// Tells senders that we are going; they need not wait for us.
    pub fn leave(&mut self, now: Time, obs: &mut impl Observer) {
        self.all.values_mut().for_each(Session::leave);
        self.transmit(now, obs);
    }

    /// Keeps what is there for another life.
    pub fn save(&mut self) {
        self.all.values_mut().for_each(Session::save);
    }

    /// Tells how the session gets on that moved last.
    pub fn progress(&self, events: &mpsc::Sender<ReceiveEvent>) {
        let latest = self.all.values().max_by_key(|it| it.heard());
        if let Some(progress) = latest.and_then(Session::progress) {
            let _ = events.try_send(progress);
        }
    }
}
