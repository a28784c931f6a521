use std::net::SocketAddr;

use layercast_core::{Observer, Span, Time};
use layercast_multicast::{Peer, Receiver, ReceiverConfig, ReceiverEvent, Transmit};
use layercast_wire::multicast::manifest::Manifest;
use layercast_wire::multicast::{Body, Object, Open, Packet, Reason};

use super::{ReceiveEvent, ReceivedFile};
use crate::multicast::intake::Intake;
use crate::multicast::name::FileName;
use crate::multicast::store::{FileStore, Folder, Listed};

/// A session whose sender is silent for this long is taken over by another with the same content, or given up
/// for a new one.
pub const SILENT: Span = Span::from_secs(2);

/// A session without data for this long since its announcement makes room for a new one, if there are as many sessions
/// as there may be.
pub const DATA_WITHIN: Span = Span::from_secs(3);

/// A session that is whole and whose sender is silent for this long is over: its RELEASE was lost. A sender that lacks
/// the last report asks for it sooner.
pub const RELEASED_AFTER: Span = Span::from_secs(5);

/// A session that a receiver takes part in: a machine, and the file that comes.
pub struct Session {
    machine: Receiver<FileStore>,
    sender: SocketAddr,
    open: Open,
    began: Time,
    heard: Time,
    /// When all of it was here.
    whole: Option<Time>,
    held_before: u64,
    /// The announcement, while a file of the same name is read to see whether it is the same.
    pending: Option<(Peer, Packet)>,
    /// The machine waits for the digest.
    verifying: bool,
    /// The file, if it comes as a stream.
    stream: Option<Intake>,
}

impl Session {
    /// Takes part in what `sender` announces by `packet`.
    pub fn join(
        config: ReceiverConfig,
        (folder, listed, name): (Folder, Option<Listed>, &str),
        now: Time,
        (sender, peer): (SocketAddr, Peer),
        (packet, open): (&Packet, &Open),
        obs: &mut impl Observer,
    ) -> Session {
        let mut store = FileStore::new(folder, listed);
        if let Some(object) = &open.object {
            store.look_for(object);
        }
        let mut machine = Receiver::new(config, store);
        machine.set_name(name);
        let mut session = Session {
            held_before: 0,
            pending: Some((peer, packet.clone())),
            machine,
            sender,
            open: open.clone(),
            began: now,
            heard: now,
            whole: None,
            verifying: false,
            stream: None,
        };
        session.begin_if_known(now, obs);
        session
    }

    /// The machine takes the announcement once it is known whether the file is there already; `true`: it has.
    fn begin_if_known(&mut self, now: Time, obs: &mut impl Observer) -> bool {
        if self.pending.is_none() {
            return true;
        }
        if !self.machine.store_mut().read_existing() {
            return false;
        }
        if let Some((peer, packet)) = self.pending.take() {
            let stream = Intake::of(&self.open, self.machine.store_mut());
            self.machine.handle(now, peer, &packet, obs);
            match stream {
                Some(Err(reason)) => self.machine.leave(reason),
                Some(Ok(mut stream)) => {
                    stream.take(&mut self.machine);
                    self.stream = Some(stream);
                }
                None => {}
            }
            self.held_before = self.machine.progress().0;
        }
        true
    }

    /// Takes a packet of the session.
    pub fn handle(
        &mut self,
        now: Time,
        (from, peer): (SocketAddr, Peer),
        packet: &Packet,
        obs: &mut impl Observer,
    ) {
        if let Some(pending) = &mut self.pending {
            if self.sender == from && matches!(packet.body, Body::Open(_)) {
                *pending = (peer, packet.clone());
                self.heard = now;
            }
            return;
        }
        self.machine.handle(now, peer, packet, obs);
        if let Some(stream) = &mut self.stream {
            stream.take(&mut self.machine);
        }
        if self.sender == from {
            self.heard = now;
        }
    }

    /// Runs what is due, and hashes a piece; whether there is more to be hashed, and why it is over, if it is.
    pub fn work(&mut self, now: Time, obs: &mut impl Observer) -> (bool, Option<Reason>) {
        if !self.begin_if_known(now, obs) {
            return (true, None);
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.on_timeout(now, obs);
        }
        // A piece at a time, so that packets do not wait for long.
        let hashed = self.machine.store_mut().hash_one();
        let mut more = matches!(hashed, Ok(true));
        if let Err(error) = hashed {
            self.fail(error);
        }
        if self.verifying
            && let Some(right) = self.machine.store().is_right()
        {
            let finished = match right {
                true => self.machine.store_mut().finish(),
                false => Ok(true),
            };
            self.verifying = matches!(finished, Ok(false));
            more |= self.verifying;
            match finished {
                Ok(true) => self.machine.verified(now, right),
                Ok(false) => {}
                Err(error) => self.fail(error),
            }
        }
        let mut over = None;
        while let Some(event) = self.machine.poll_event() {
            match event {
                ReceiverEvent::Verify => {
                    self.verifying = true;
                    more = true;
                }
                ReceiverEvent::Closed { reason, .. } | ReceiverEvent::Refused(reason) => {
                    over.get_or_insert(reason);
                }
                _ => {}
            }
        }
        if self.whole.is_none() && (self.machine.is_complete() || self.is_right_stream()) {
            self.whole = Some(now);
        }
        (more, over)
    }

    /// Whether it is a stream whose digest is right.
    fn is_right_stream(&self) -> bool {
        self.stream.as_ref().is_some_and(Intake::is_right)
    }

    /// The system refuses something: the receiver leaves, and the sender is notified of the reason.
    fn fail(&mut self, error: std::io::Error) {
        let reason = self.machine.store_mut().failed(error);
        self.machine.leave(reason);
    }

    /// A manifest that has arrived and can be used; given once.
    pub fn take_manifest(&mut self) -> Option<Manifest> {
        self.machine.store_mut().take_manifest()
    }

    /// The number of the transfer that it is part of.
    pub fn batch(&self) -> Option<u64> {
        Some(self.name()?.batch)
    }

    /// What the sender calls it.
    fn name(&self) -> Option<FileName> {
        let store = self.machine.store();
        let announced = || Some(store.name_of(self.open.object.as_ref()?));
        store.name().cloned().or_else(announced)
    }

    /// Whether it brings the file of a transfer that has this number.
    pub fn brings(&self, batch: u64, index: u32) -> bool {
        self.name()
            .is_some_and(|it| (it.batch, it.index) == (batch, index))
    }

    /// Whether it brings the manifest of a transfer, not a file.
    pub fn is_manifest(&self) -> bool {
        self.name().is_some_and(|name| name.is_manifest())
    }

    /// The next packet that may leave.
    pub fn poll_transmit(&mut self, now: Time, obs: &mut impl Observer) -> Option<Transmit> {
        self.machine.poll_transmit(now, obs)
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.machine.poll_timeout()
    }

    /// Leaves: the sender need not wait.
    pub fn leave(&mut self) {
        self.machine.leave(Reason::User);
    }

    /// Whether it is served after the others.
    pub fn is_postponed(&self) -> bool {
        self.machine.is_postponed()
    }

    /// Keeps what is there for another life.
    pub fn save(&mut self) {
        // What cannot be saved is received again.
        let (store, held) = self.machine.store_and_held();
        let _ = store.save(held);
    }

    /// Where its sender is.
    pub fn sender(&self) -> SocketAddr {
        self.sender
    }

    /// Whether it is with the sender there.
    pub fn is_with(&self, sender: SocketAddr) -> bool {
        self.sender == sender
    }

    /// When its sender was heard last.
    pub fn heard(&self) -> Time {
        self.heard
    }

    /// Whether all of it is here, and a manifest was taken.
    pub fn is_whole(&self) -> bool {
        self.machine.is_complete() && !self.machine.store().holds_manifest()
    }

    /// Whether it is whole and its sender does not say so any more.
    pub fn is_released(&self, now: Time) -> bool {
        self.is_whole() && self.heard + RELEASED_AFTER <= now
    }

    /// Whether its sender is silent.
    pub fn is_silent(&self, now: Time) -> bool {
        self.heard + SILENT <= now
    }

    /// When it began.
    pub fn began(&self) -> Time {
        self.began
    }

    /// Packets that are there, and all.
    fn held(&self) -> (u64, u64) {
        let stream = self.stream.as_ref();
        stream.map_or_else(|| self.machine.progress(), Intake::progress)
    }

    /// Whether its sender has sent data.
    pub fn has_data(&self) -> bool {
        self.machine.stats().data > 0
    }

    /// Whether its sender has sent no data since the announcement, and had [`DATA_WITHIN`] for that.
    pub fn lacks_data(&self, now: Time) -> bool {
        let is_begun =
            self.pending.is_some() || self.held().0 > self.held_before || self.is_whole();
        !is_begun && self.began + DATA_WITHIN <= now
    }

    /// Whether it is of this content.
    pub fn is_of(&self, object: &Object) -> bool {
        let ours = self.open.object.as_ref();
        ours.is_some_and(|it| it.digest == object.digest)
    }

    /// The event of its beginning.
    pub fn joined(&self) -> ReceiveEvent {
        // The store has no name before the machine has taken the announcement.
        let object = self.open.object.as_ref();
        let name = object.map(|it| self.machine.store().name_of(it));
        ReceiveEvent::Joined {
            files: name.as_ref().map_or(1, |it| it.count),
            name: name.map_or_else(String::new, |it| it.name),
            size: self.open.object.as_ref().map_or(0, |it| it.size),
            held: self.machine.progress(),
            sender: self.sender,
        }
    }

    /// The event of its progress.
    pub fn progress(&self) -> Option<ReceiveEvent> {
        Some(ReceiveEvent::Progress {
            name: self.machine.store().name()?.name.clone(),
            held: self.held(),
            packet: self.open.packet_size,
            whole: None,
        })
    }

    /// It is over: what became of the file, if it has a name.
    pub fn end(mut self, now: Time, reason: Reason) -> Option<ReceivedFile> {
        self.save();
        let store = self.machine.store();
        let right = self.is_right_stream();
        let path = store.done().map(|path| path.to_owned());
        let path = path.filter(|_| right || self.machine.is_complete());
        let came = self.held().0.saturating_sub(self.held_before);
        let name = self.name()?;
        let object = self.open.object?;
        // What cannot be had in any folder is refused before the store sees it.
        let refused = || {
            store.name().is_none().then(|| {
                format!(
                    "this receiver does not support a file of {} octets in packets of {}, or its code",
                    object.size, self.open.packet_size
                )
            })
        };
        let error = store.error().map(ToString::to_string);
        Some(ReceivedFile {
            name,
            size: object.size,
            digest: object.digest,
            reason: path.is_none().then_some(reason),
            path,
            error: error.or_else(refused),
            error_kind: store.error().map(std::io::Error::kind),
            held_before: self.held_before,
            moved: object.size.min(came * u64::from(self.open.packet_size)),
            took: self.whole.unwrap_or(now).since(self.began),
            stats: *self.machine.stats(),
        })
    }
}
