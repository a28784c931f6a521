use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use layercast_core::{Observer, Span, Time, earliest};
use layercast_multicast::{ReceiverConfig, ReceiverStats, To};
use layercast_wire::multicast::manifest::Manifest;
use layercast_wire::multicast::{
    Body, Datagram, Open, PATH_LEN, Packet, PathBody, PathCheck, Reason,
};
use tokio::sync::mpsc;

use super::session::{SILENT, Session};
use super::sets::{PATIENCE, Sets};
use super::transfers::{Transfer, Transfers};
use super::validation::AddressValidation;
use super::{ReceiveEvent, ReceivedFile};
use crate::multicast::keys::{Inbox, Keys};
use crate::multicast::name::FileName;
use crate::multicast::outgoing::Outgoing;
use crate::multicast::peers::Peers;
use crate::multicast::store::{Folder, Listed, settle_folders, sync};
use crate::names::member_of;
use crate::random::random_number;

/// Sessions at a time: a stranger who announces many takes no more of us.
const MOST_SESSIONS: usize = 8;
/// Senders that are remembered.
const MOST_SENDERS: usize = 1 << 10;
/// Sessions that are over and may still be announced.
const MOST_OVER: usize = 64;
/// Senders with another key that are reported.
const MOST_REPORTED: usize = 64;
/// Why a file does not come that a sender listed before it was started again.
const GONE: &str = "its sender was started again and does not list it any more";

/// The sessions that a receiver takes part in, and what became of those that are over.
pub struct Sessions {
    /// In traces.
    name: String,
    /// The name that senders get; none: the member has only its number.
    called: Option<Bytes>,
    folder: Folder,
    machine: ReceiverConfig,
    peers: Peers,
    validation: AddressValidation,
    all: BTreeMap<u64, Session>,
    over: VecDeque<u64>,
    /// Refusals that were sent, and where to: they are repeated if the announcement is.
    refusals: VecDeque<(SocketAddr, Packet)>,
    /// Sessions with another key that were reported.
    disbelieved: VecDeque<u64>,
    /// What the machines send.
    pub out: Outgoing,
    /// What became of files.
    pub files: Vec<ReceivedFile>,
    /// Their positions by their paths, of those that are here.
    at_path: BTreeMap<PathBuf, usize>,
    /// The positions of those that are not.
    failed: Vec<usize>,
    /// When a session began or ended last.
    pub heard: Time,
    /// The files of each sender.
    pub sets: Sets,
    transfers: Transfers,
    /// Senders whose list of files could not be used.
    unlisted: BTreeSet<SocketAddr>,
}

impl Sessions {
    /// None yet; machines will be as `machine` says, and called `name` in traces; their files go to `folder`.
    pub fn new(name: String, folder: Folder, machine: ReceiverConfig) -> Sessions {
        let is_called = member_of(&name) == machine.member;
        Sessions {
            called: is_called.then(|| Bytes::copy_from_slice(name.as_bytes())),
            name,
            folder,
            machine,
            peers: Peers::new(MOST_SENDERS),
            validation: AddressValidation::new(),
            all: BTreeMap::new(),
            over: VecDeque::new(),
            refusals: VecDeque::new(),
            disbelieved: VecDeque::new(),
            out: Outgoing::default(),
            files: Vec::new(),
            at_path: BTreeMap::new(),
            failed: Vec::new(),
            heard: Time::ZERO,
            sets: Sets::default(),
            transfers: Transfers::default(),
            unlisted: BTreeSet::new(),
        }
    }

    /// Whether the list of files of a sender could not be used.
    pub fn lacks_list(&self) -> bool {
        !self.unlisted.is_empty()
    }

    /// Whether no session runs in which data came, from a sender that is still heard: anybody can announce one.
    pub fn is_idle(&self, now: Time) -> bool {
        let runs = |it: &Session| it.has_data() && now < it.heard() + PATIENCE;
        !self.all.values().any(runs)
    }

    /// When a sender was heard last, or a session began or ended.
    pub fn heard(&self) -> Time {
        let sessions = self.all.values().map(Session::heard);
        sessions.fold(self.heard, Time::max)
    }

    /// Takes what is in the inbox.
    pub fn take_all(
        &mut self,
        now: Time,
        inbox: &mut Inbox,
        (events, obs): (&mpsc::Sender<ReceiveEvent>, &mut impl Observer),
    ) {
        for (from, session) in std::mem::take(&mut inbox.others) {
            self.disbelieve(from, session, events);
        }
        let mut came = std::mem::take(&mut inbox.came);
        for (from, len, datagram) in came.drain(..) {
            let is_data =
                matches!(&datagram, Datagram::Packet(it) if matches!(it.body, Body::Data(_)));
            if !is_data || !self.validation.budgets.is_validated(&from) {
                self.validation.budgets.receive(from, len);
            }
            match datagram {
                Datagram::Packet(packet) => {
                    self.take(now, from, &packet, &mut inbox.keys, (events, obs));
                }
                Datagram::Path(check) => {
                    self.check(now, from, &check, &mut inbox.keys, (events, obs));
                }
            }
        }
        inbox.came = came;
    }

    /// A sender announces a session under another key, or in the clear where there is a key: both sides are
    /// notified.
    fn disbelieve(&mut self, from: SocketAddr, session: u64, events: &mpsc::Sender<ReceiveEvent>) {
        if self.disbelieved.contains(&session) {
            return;
        }
        if self.disbelieved.is_empty() {
            let _ = events.try_send(ReceiveEvent::Disbelieved(from));
        }
        if self.disbelieved.len() >= MOST_REPORTED {
            self.disbelieved.pop_front();
        }
        self.disbelieved.push_back(session);
        // It is longer than our answer.
        self.validation.budgets.receive(from, PATH_LEN);
        let check = PathCheck {
            session,
            body: PathBody::OtherKey,
        };
        self.path(from, &check, &mut Keys::Clear);
    }

    fn path(&mut self, to: SocketAddr, check: &PathCheck, keys: &mut Keys) {
        let len = keys.len_of_path(check.session);
        if !self.out.is_full() && self.validation.budgets.send(to, len) {
            self.out
                .push(&Arc::from([to]), len, |out| keys.put_path(check, out));
        }
    }

    /// A sender asks whether we are here, or sends back what we sent.
    fn check(
        &mut self,
        now: Time,
        from: SocketAddr,
        check: &PathCheck,
        keys: &mut Keys,
        (events, obs): (&mpsc::Sender<ReceiveEvent>, &mut impl Observer),
    ) {
        match check.body {
            PathBody::Challenge(token) => {
                let ours = self.all.get(&check.session);
                if ours.is_some_and(|it| it.is_with(from)) {
                    let response = PathCheck {
                        body: PathBody::Response(token),
                        ..*check
                    };
                    self.path(from, &response, keys);
                }
            }
            PathBody::Response(token) => {
                let announced = self.validation.came_back(from, check.session, token);
                if let Some(packet) = announced
                    && let Body::Open(open) = &packet.body
                {
                    if let Keys::Receiver(keys) = keys {
                        keys.keep(check.session);
                    }
                    self.open(now, from, (&packet, open), (events, obs));
                }
            }
            PathBody::OtherKey => {}
        }
    }

    fn take(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &Packet,
        keys: &mut Keys,
        (events, obs): (&mpsc::Sender<ReceiveEvent>, &mut impl Observer),
    ) {
        let session = self.all.get_mut(&packet.session);
        let is_known = session.is_some();
        if let (Some(session), Some(peer)) = (session, self.peers.find(from)) {
            return session.handle(now, (from, peer), packet, obs);
        }
        let Body::Open(open) = &packet.body else {
            return;
        };
        if is_known {
            return;
        }
        if self.over.contains(&packet.session) {
            return self.refuse_again(from, packet.session, keys);
        }
        if !self.machine.believes(packet.session, open) {
            return self.disbelieve(from, packet.session, events);
        }
        // Under a key an old session could be repeated by anybody who heard it: each proves that it is alive. In the
        // clear an address that was seen to be real is enough.
        let is_met =
            self.machine.announcement_key.is_none() && self.validation.budgets.is_validated(&from);
        match is_met {
            true => self.open(now, from, (packet, open), (events, obs)),
            false => self.validation.wait_for(now, from, packet, open),
        }
    }

    /// A session that was refused is announced again: the refusal was lost.
    fn refuse_again(&mut self, from: SocketAddr, session: u64, keys: &mut Keys) {
        let refused = |it: &&(SocketAddr, Packet)| it.0 == from && it.1.session == session;
        let Some((_, packet)) = self.refusals.iter().find(refused) else {
            return;
        };
        let len = keys.len_of(packet);
        if !self.out.is_full() && self.validation.budgets.send(from, len) {
            self.out
                .push(&Arc::from([from]), len, |out| keys.put(packet, out));
        }
    }

    /// A session is announced by a sender that is there: it may be one of ours begun again, or a new one.
    fn open(
        &mut self,
        now: Time,
        from: SocketAddr,
        (packet, open): (&Packet, &Open),
        (events, obs): (&mpsc::Sender<ReceiveEvent>, &mut impl Observer),
    ) {
        if self.all.is_empty() && self.peers.is_full() {
            // Strangers filled it; its entries are not needed any more.
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
            match (oldest.map(|(&id, _)| id), self.without_data(now)) {
                (Some(id), _) => self.end(id, Reason::Silent, now, events),
                (None, Some(id)) => {
                    self.end(id, Reason::Silent, now, events);
                    // Its sender may still be gathering receivers: it may come again.
                    self.over.retain(|&over| over != id);
                }
                (None, None) => return,
            }
        }
        // A sender that announces another session has done with those that are whole: its good-bye was lost.
        self.end_whole(now, Some(from), events);
        self.heard = now;
        let name = FileName::from_object(&object.name);
        if let Some(transfer) = self.transfers.find(&self.folder.path, name.batch) {
            let _ = events.try_send(listed(&transfer.manifest, self.folder.free(), from));
        }
        self.sets.began(now, from, &name, object.digest);
        let session = Session::join(
            self.another_life(),
            (
                self.folder.clone(),
                self.transfers.listed(&name),
                &self.name,
            ),
            now,
            (from, peer),
            (packet, open),
            obs,
        );
        if !name.is_manifest() {
            let _ = events.try_send(session.joined());
        }
        self.all.insert(id, session);
    }

    /// The session that makes room for a new one although its sender is not silent: it has no data after
    /// [`DATA_WITHIN`](super::session::DATA_WITHIN).
    /// It is the oldest of the host that has most of them.
    fn without_data(&self, now: Time) -> Option<u64> {
        let idle = self.all.iter().filter(|(_, it)| it.lacks_data(now));
        let idle: Vec<(u64, &Session)> = idle.map(|(&id, it)| (id, it)).collect();
        let of_host = |host: IpAddr| {
            idle.iter()
                .filter(|(_, it)| it.sender().ip() == host)
                .count()
        };
        let chosen = idle
            .iter()
            .max_by_key(|(_, it)| (of_host(it.sender().ip()), Reverse(it.began())));
        chosen.map(|&(id, _)| id)
    }

    /// Ends the sessions whose files are whole: of one sender, or of all.
    pub fn end_whole(
        &mut self,
        now: Time,
        sender: Option<SocketAddr>,
        events: &mpsc::Sender<ReceiveEvent>,
    ) {
        let is_of = |it: &Session| sender.is_none_or(|sender| it.is_with(sender));
        let whole = self.all.iter().filter(|(_, it)| is_of(it) && it.is_whole());
        let whole: Vec<u64> = whole.map(|(&id, _)| id).collect();
        for id in whole {
            self.end(id, Reason::Normal, now, events);
        }
    }

    /// Ends the sessions that are whole and whose RELEASE was lost.
    pub fn end_released(&mut self, now: Time, events: &mpsc::Sender<ReceiveEvent>) {
        let released = self.all.iter().filter(|(_, it)| it.is_released(now));
        let released: Vec<u64> = released.map(|(&id, _)| id).collect();
        for id in released {
            self.end(id, Reason::Normal, now, events);
        }
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
        keys: &mut Keys,
        events: &mpsc::Sender<ReceiveEvent>,
        obs: &mut impl Observer,
    ) -> bool {
        let mut more = false;
        let (mut ended, mut lists) = (Vec::new(), Vec::new());
        for (&id, session) in &mut self.all {
            let (hashing, over) = session.work(now, obs);
            more |= hashing;
            ended.extend(over.map(|reason| (id, reason)));
            if session.has_data() {
                self.sets.has_sent(session.sender());
            }
            lists.extend(session.take_manifest().map(|it| (session.sender(), it)));
        }
        for (sender, manifest) in lists {
            self.list(now, sender, manifest, events);
        }
        while let Some((to, session, token)) = self.validation.next(now) {
            let body = PathBody::Challenge(token);
            self.path(to, &PathCheck { session, body }, keys);
        }
        self.transmit(now, keys, obs);
        for (id, reason) in ended {
            self.end(id, reason, now, events);
        }
        more
    }

    fn transmit(&mut self, now: Time, keys: &mut Keys, obs: &mut impl Observer) {
        for session in self.all.values_mut() {
            while let Some(mut transmit) = session.poll_transmit(now, obs) {
                if let Body::Accept(accept) = &mut transmit.packet.body {
                    accept.name = self.called.clone();
                }
                let len = keys.len_of(&transmit.packet);
                if let To::One(peer) = transmit.to
                    && let Some(to) = self.peers.way_to(peer)
                    && self.validation.budgets.send(to[0], len)
                {
                    if matches!(&transmit.packet.body, Body::Accept(it) if it.refuses.is_some()) {
                        if self.refusals.len() == MOST_OVER {
                            self.refusals.pop_front();
                        }
                        self.refusals.push_back((to[0], transmit.packet.clone()));
                    }
                    self.out
                        .push(to, len, |out| keys.put(&transmit.packet, out));
                }
            }
        }
    }

    /// A session is over.
    fn end(&mut self, id: u64, reason: Reason, now: Time, events: &mpsc::Sender<ReceiveEvent>) {
        let Some(session) = self.leave_session(id) else {
            return;
        };
        self.heard = now;
        let (sender, is_manifest) = (session.sender(), session.is_manifest());
        let Some(file) = session.end(now, reason) else {
            return;
        };
        if is_manifest {
            self.end_of_list(sender, reason, (file.error, file.error_kind), events);
            self.sets.ended(now, sender, &file.name);
            return self.settle(sender, file.name.batch);
        }
        if let Some(
            reason @ (Reason::Silent | Reason::User | Reason::Integrity | Reason::Changed),
        ) = file.reason
        {
            // The sender is gone, or gave up: it may come again. If the file has changed it says so in its list.
            let _ = events.try_send(ReceiveEvent::Interrupted {
                name: file.name.name,
                reason,
            });
            return;
        }
        self.over(now, sender, file, events);
    }

    /// A file is over, here or not to be had.
    fn over(
        &mut self,
        now: Time,
        sender: SocketAddr,
        file: ReceivedFile,
        events: &mpsc::Sender<ReceiveEvent>,
    ) {
        let batch = file.name.batch;
        self.sets.ended(now, sender, &file.name);
        self.transfers.ended(batch, file.size);
        let _ = events.try_send(ReceiveEvent::Done(Box::new(file.clone())));
        // A sender that was started again announces files that are here: each counts once.
        let known = file.path.as_ref().and_then(|path| self.at_path.get(path));
        let known = known.copied().or_else(|| {
            let at = self
                .failed
                .iter()
                .position(|&at| is_same(&self.files[at], &file))?;
            Some(self.failed.swap_remove(at))
        });
        let at = known.unwrap_or(self.files.len());
        match &file.path {
            Some(path) => drop(self.at_path.insert(path.clone(), at)),
            None => self.failed.push(at),
        }
        match self.files.get_mut(at) {
            Some(there) => *there = file,
            None => self.files.push(file),
        }
        self.settle(sender, batch);
    }

    /// The session of a list of files is over: if this receiver left it, the list cannot be used.
    fn end_of_list(
        &mut self,
        sender: SocketAddr,
        reason: Reason,
        (error, kind): (Option<String>, Option<ErrorKind>),
        events: &mpsc::Sender<ReceiveEvent>,
    ) {
        let why = match (reason, error) {
            (_, Some(error)) => error,
            (Reason::Corrupt, None) => "its digest was wrong twice".into(),
            (Reason::Unsupported, None) => "it has a code or a size that is not supported".into(),
            _ => return,
        };
        if self.unlisted.len() < MOST_REPORTED {
            self.unlisted.insert(sender);
        }
        let _ = events.try_send(ReceiveEvent::BadList {
            sender,
            why,
            reason,
            kind,
        });
    }

    /// The list of files of a sender came, and its folders are made.
    fn list(
        &mut self,
        now: Time,
        sender: SocketAddr,
        manifest: Manifest,
        events: &mpsc::Sender<ReceiveEvent>,
    ) {
        self.unlisted.remove(&sender);
        let batch = manifest.batch();
        let files = manifest.files().count() as u32;
        if self.transfers.get(batch).is_none() {
            let _ = events.try_send(listed(&manifest, self.folder.free(), sender));
        }
        let transfer = self.transfers.put(&self.folder.path, manifest);
        let withdrawn: Vec<_> = transfer.withdrawn().collect();
        for (index, listed, size, cause) in withdrawn {
            if self.sets.has_ended(sender, index) {
                continue;
            }
            let file = not_sent((index, files, batch), &listed, size, cause.to_string());
            self.sets.began(now, sender, &file.name, [0; 32]);
            self.over(now, sender, file, events);
        }
    }

    /// A sender that was killed and started again lists what it sends again: files that it does not list any more are not waited for.
    pub fn give_up_former_lives(&mut self, now: Time, events: &mpsc::Sender<ReceiveEvent>) {
        for (former, [batch, newer]) in self.sets.replaced(now, SILENT) {
            let is_heard = |it: &Session| it.is_with(former) && !it.is_silent(now);
            let (Some(transfer), Some(newer)) =
                (self.transfers.get(batch), self.transfers.get(newer))
            else {
                continue;
            };
            let gone = match transfer.gone_in(newer) {
                Some(gone) if !self.all.values().any(is_heard) => gone,
                _ => continue,
            };
            let count = transfer.count();
            for (index, listed) in gone {
                if self.sets.has_ended(former, index) || self.folder.has(&listed) {
                    continue;
                }
                let mut file = not_sent((index, count, batch), &listed, listed.size, GONE.into());
                let brings = |(_, it): &(&u64, &Session)| it.brings(batch, index);
                let session = self.all.iter().find(brings).map(|(&id, _)| id);
                if let Some(session) = session.and_then(|id| self.leave_session(id)) {
                    let here = session
                        .end(now, Reason::Changed)
                        .filter(|it| it.path.is_some());
                    file = here.unwrap_or(file);
                }
                self.over(now, former, file, events);
            }
            let others = self.all.iter().filter(|(_, it)| it.is_with(former));
            let others: Vec<u64> = others.map(|(&id, _)| id).collect();
            for id in others {
                self.end(id, Reason::Silent, now, events);
            }
            self.sets.forget(former);
        }
    }

    /// Takes a session out: it may still be announced.
    fn leave_session(&mut self, id: u64) -> Option<Session> {
        let session = self.all.remove(&id)?;
        if self.over.len() == MOST_OVER {
            self.over.pop_front();
        }
        self.over.push_back(id);
        Some(session)
    }

    /// Once all files of a sender are over its folders get their permissions and times.
    fn settle(&self, sender: SocketAddr, batch: u64) {
        if let Some(transfer) = self.transfers.get(batch)
            && self.sets.is_done(sender)
        {
            settle_folders(&self.folder.path, &transfer.manifest);
        }
    }

    /// Looks on the disk for announced files that did not come: those that an earlier life of this receiver got are here.
    pub fn look_for_missing(&mut self) {
        let (transfers, folder) = (&self.transfers, &self.folder);
        self.sets.look_for_missing(|batch, did_not_come| {
            let listed = transfers.get(batch).into_iter().flat_map(Transfer::sent);
            let here = listed.filter(|(index, listed)| did_not_come(*index) && folder.has(listed));
            here.count() as u32
        });
    }

    /// No file of a sender is to come: the lists of files that are kept for another life go.
    pub fn forget_lists(&self) {
        self.transfers.forget(&self.folder.path);
    }

    /// Brings what was received to the disk.
    pub fn sync(&self) {
        if self.files.iter().any(|file| file.path.is_some()) {
            // What cannot be is received again after a crash, as its digest says.
            let _ = sync(&self.folder.path);
        }
    }

    /// Whether some session is served after others.
    pub fn is_postponed(&self) -> bool {
        self.all.values().any(Session::is_postponed)
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        let all = self.all.values().map(Session::poll_timeout);
        all.fold(self.validation.poll_timeout(), earliest)
    }

    /// Leaves all sessions: senders do not wait for this receiver.
    pub fn leave(&mut self, now: Time, keys: &mut Keys, obs: &mut impl Observer) {
        self.all.values_mut().for_each(Session::leave);
        self.transmit(now, keys, obs);
    }

    /// Keeps what is there for another life.
    pub fn save(&mut self) {
        self.all.values_mut().for_each(Session::save);
    }

    /// Reports the progress of the session that received the last packet.
    pub fn progress(&self, events: &mpsc::Sender<ReceiveEvent>) {
        let latest = self.all.values().max_by_key(|it| it.heard());
        let Some((session, mut progress)) = latest.and_then(|it| Some((it, it.progress()?))) else {
            return;
        };
        if session.is_manifest() {
            return;
        }
        if let ReceiveEvent::Progress {
            held,
            packet,
            whole,
            ..
        } = &mut progress
            && let Some(batch) = session.batch()
        {
            *whole = self.transfers.progress(batch, held.0 * u64::from(*packet));
        }
        let _ = events.try_send(progress);
    }
}

/// The event of a list of files.
fn listed(manifest: &Manifest, room: u64, sender: SocketAddr) -> ReceiveEvent {
    let files = manifest.files().count() as u32;
    ReceiveEvent::Listed {
        files,
        folders: manifest.entries().len() as u32 - files,
        octets: manifest.octets(),
        room,
        sender,
    }
}

/// A file of a transfer that does not come, and why.
fn not_sent(numbers: (u32, u32, u64), listed: &Listed, size: u64, why: String) -> ReceivedFile {
    ReceivedFile {
        name: FileName::new(numbers, listed.path.iter().map(|it| &**it)),
        size,
        digest: [0; 32],
        path: None,
        reason: Some(Reason::Changed),
        error: Some(why),
        error_kind: None,
        held_before: 0,
        moved: 0,
        took: Span::ZERO,
        stats: ReceiverStats::default(),
    }
}

/// Whether a file that did not come is the one that is over now.
fn is_same(failed: &ReceivedFile, file: &ReceivedFile) -> bool {
    let of_list = failed.digest == [0; 32] && !failed.name.path.is_empty();
    failed.name.path == file.name.path
        && failed.size == file.size
        && (of_list || failed.digest == file.digest)
}
