//! Sealing and opening the datagrams of a transfer: `docs/src/reference/multicast.md`, "Under a key".

mod inbox;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use bytes::Bytes;
use layercast_protect::{FilesKey, FilesOpener, FilesSealer, FilesSession, OpenError, Speaker};
use layercast_wire::multicast::{
    Body, Datagram, MemberId, PATH_LEN, Packet, PathBody, PathCheck, SealedBy, SealedHead,
};

pub use self::inbox::Inbox;
use crate::random::{random_number, random_seed};
use crate::udp::Inbound;

/// Receivers whose keys a sender holds at most: each life of each.
const MOST_OPENERS: usize = 1 << 17;
/// Sessions whose keys a receiver holds at most.
const MOST_SESSIONS: usize = 32;
/// Addresses under other keys that are remembered until somebody looks.
const MOST_OTHERS: usize = 64;

/// The key for the datagrams of files, from the key that users share.
fn files_key(master: &[u8; 32]) -> FilesKey {
    FilesKey::new(blake3::derive_key("layercast files 2026 datagrams", master))
}

fn speaker(by: SealedBy) -> Speaker {
    match by {
        SealedBy::Sender | SealedBy::Announcement(_) => Speaker::Sender,
        SealedBy::Receiver { member, life } => Speaker::Receiver {
            member: member.0,
            life,
        },
    }
}

/// What one end seals and opens with; none: everything is in the clear.
#[derive(Debug, Default)]
pub enum Keys {
    /// Nothing is sealed.
    #[default]
    Clear,
    /// A sender's.
    Sender(Box<SenderKeys>),
    /// A receiver's.
    Receiver(Box<ReceiverKeys>),
}

/// The keys of the session of a sender.
#[derive(Debug)]
pub struct SenderKeys {
    id: u64,
    salt: [u8; 16],
    session: FilesSession,
    sealer: FilesSealer,
    openers: HashMap<(u64, u64), FilesOpener>,
}

/// The keys of a receiver.
#[derive(Debug)]
pub struct ReceiverKeys {
    key: FilesKey,
    member: MemberId,
    sessions: VecDeque<ReceiverSession>,
}

#[derive(Debug)]
struct ReceiverSession {
    id: u64,
    salt: [u8; 16],
    opener: FilesOpener,
    sealer: FilesSealer,
    life: u64,
}

impl Keys {
    /// Those of a sender of the session `id`.
    pub fn sender(master: Option<&[u8; 32]>, id: u64) -> Keys {
        let Some(master) = master else {
            return Keys::Clear;
        };
        let [salt @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = random_seed().0;
        let session = files_key(master).session(id, &salt);
        Keys::Sender(Box::new(SenderKeys {
            id,
            salt,
            sealer: session.sealer(Speaker::Sender),
            session,
            openers: HashMap::new(),
        }))
    }

    /// Those of a receiver.
    pub fn receiver(master: Option<&[u8; 32]>, member: MemberId) -> Keys {
        let Some(master) = master else {
            return Keys::Clear;
        };
        Keys::Receiver(Box::new(ReceiverKeys {
            key: files_key(master),
            member,
            sessions: VecDeque::new(),
        }))
    }

    /// Adds the keys of the session `id` that `heard` has: for many receivers in one process, of which one socket
    /// hears the announcements.
    pub fn learn(&mut self, id: u64, heard: &Keys) {
        let (Keys::Receiver(keys), Keys::Receiver(heard)) = (self, heard) else {
            return;
        };
        let is_known = keys.sessions.iter().any(|it| it.id == id);
        if is_known {
            return;
        }
        if let Some(found) = heard.sessions.iter().find(|it| it.id == id) {
            let session = keys.key.session(id, &found.salt);
            let opener = session.opener(Speaker::Sender);
            keys.insert(ReceiverSession::new(
                id,
                found.salt,
                &session,
                opener,
                keys.member,
            ));
        }
    }

    /// Whether nothing is sealed.
    pub fn is_clear(&self) -> bool {
        matches!(self, Keys::Clear)
    }

    /// The header of the next datagram of a session.
    fn head(&self, session: u64, announces: bool) -> Option<SealedHead> {
        match self {
            Keys::Clear => None,
            Keys::Sender(keys) => Some(SealedHead {
                session: keys.id,
                counter: keys.sealer.counter(),
                by: match announces {
                    true => SealedBy::Announcement(keys.salt),
                    false => SealedBy::Sender,
                },
            }),
            Keys::Receiver(keys) => {
                let found = keys.sessions.iter().find(|it| it.id == session)?;
                Some(SealedHead {
                    session,
                    counter: found.sealer.counter(),
                    by: SealedBy::Receiver {
                        member: keys.member,
                        life: found.life,
                    },
                })
            }
        }
    }

    /// Octets of a packet as it is sent.
    pub fn len_of(&self, packet: &Packet) -> usize {
        let announces = matches!(packet.body, Body::Open(_));
        let head = self.head(packet.session, announces);
        packet.encoded_len() + head.map_or(0, |head| head.overhead())
    }

    /// Octets of a check of a path as it is sent.
    pub fn len_of_path(&self, session: u64) -> usize {
        PATH_LEN + self.head(session, false).map_or(0, |head| head.overhead())
    }

    /// Appends a packet as it is sent; nothing if it cannot be sealed.
    pub fn put(&mut self, packet: &Packet, out: &mut Vec<u8>) {
        let announces = matches!(packet.body, Body::Open(_));
        self.put_sealed(packet.session, announces, out, |out| {
            packet.encode_into(out)
        });
    }

    /// Appends a check of a path as it is sent.
    pub fn put_path(&mut self, check: &PathCheck, out: &mut Vec<u8>) {
        self.put_sealed(check.session, false, out, |out| check.encode_into(out));
    }

    fn put_sealed(
        &mut self,
        session: u64,
        announces: bool,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.is_clear() {
            return write(out);
        }
        let Some(head) = self.head(session, announces) else {
            return;
        };
        let start = out.len();
        head.encode_into(out);
        let content = out.len();
        write(out);
        let sealer = match self {
            Keys::Clear => return,
            Keys::Sender(keys) => Some(&mut keys.sealer),
            Keys::Receiver(keys) => {
                let found = keys.sessions.iter_mut().find(|it| it.id == session);
                found.map(|it| &mut it.sealer)
            }
        };
        let sealed = sealer.map(|it| it.seal(out, start, content));
        if !matches!(sealed, Some(Ok(()))) {
            // Nothing leaves in the clear.
            out.truncate(start);
        }
    }

    /// Opens a sealed datagram in place; gives where its content is.
    fn open(&mut self, head: &SealedHead, bytes: &mut [u8]) -> Result<(usize, usize), OpenError> {
        let (header, sealed) = bytes.split_at_mut(head.encoded_len());
        let content = match self {
            Keys::Clear => return Err(OpenError::Forged),
            Keys::Sender(keys) => keys.open(head, header, sealed)?,
            Keys::Receiver(keys) => keys.open(head, header, sealed)?,
        };
        Ok((header.len(), header.len() + content))
    }
}

impl SenderKeys {
    fn open(
        &mut self,
        head: &SealedHead,
        header: &[u8],
        sealed: &mut [u8],
    ) -> Result<usize, OpenError> {
        let SealedBy::Receiver { member, life } = head.by else {
            return Err(OpenError::Forged);
        };
        if head.session != self.id {
            return Err(OpenError::Forged);
        }
        let key = (member.0, life);
        if let Some(opener) = self.openers.get_mut(&key) {
            return Ok(opener.open(head.counter, header, sealed)?.len());
        }
        let mut opener = self.session.opener(speaker(head.by));
        let len = opener.open(head.counter, header, sealed)?.len();
        // Only holders of the key take a place.
        if self.openers.len() >= MOST_OPENERS {
            return Err(OpenError::Forged);
        }
        self.openers.insert(key, opener);
        Ok(len)
    }
}

impl ReceiverSession {
    fn new(
        id: u64,
        salt: [u8; 16],
        session: &FilesSession,
        opener: FilesOpener,
        member: MemberId,
    ) -> ReceiverSession {
        let life = random_number();
        let us = SealedBy::Receiver { member, life };
        ReceiverSession {
            id,
            salt,
            opener,
            sealer: session.sealer(speaker(us)),
            life,
        }
    }
}

impl ReceiverKeys {
    fn open(
        &mut self,
        head: &SealedHead,
        header: &[u8],
        sealed: &mut [u8],
    ) -> Result<usize, OpenError> {
        let found = self.sessions.iter_mut().find(|it| it.id == head.session);
        let (found, salt) = match (found, head.by) {
            (_, SealedBy::Receiver { .. }) | (None, SealedBy::Sender) => {
                return Err(OpenError::Forged);
            }
            (Some(found), SealedBy::Announcement(salt)) if found.salt != salt => {
                return Err(OpenError::Forged);
            }
            (Some(found), _) => (Some(found), [0; 16]),
            (None, SealedBy::Announcement(salt)) => (None, salt),
        };
        if let Some(found) = found {
            return Ok(found.opener.open(head.counter, header, sealed)?.len());
        }
        let session = self.key.session(head.session, &salt);
        let mut opener = session.opener(Speaker::Sender);
        let len = opener.open(head.counter, header, sealed)?.len();
        let (id, member) = (head.session, self.member);
        self.insert(ReceiverSession::new(id, salt, &session, opener, member));
        Ok(len)
    }

    fn insert(&mut self, session: ReceiverSession) {
        if self.sessions.len() >= MOST_SESSIONS {
            self.sessions.pop_front();
        }
        self.sessions.push_back(session);
    }

    /// A session is taken part in: it is the last whose keys are forgotten.
    pub fn keep(&mut self, session: u64) {
        if let Some(at) = self.sessions.iter().position(|it| it.id == session)
            && let Some(found) = self.sessions.remove(at)
        {
            self.sessions.push_back(found);
        }
    }
}

#[cfg(test)]
mod tests;
