use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use layercast_core::{FlowId, Layer, Level, NodeId, Resource, Span, Time};
use layercast_protect::{
    Claimant, Grantee, GroupKey, MEDIA_OVERHEAD, MediaCipher, Place, Proof, ProofError, Random,
    Signer, SourceKey, WallClock, grant,
};
use layercast_wire::{FlowInfo, Identity, Member, MetsHeader, Payload};

use super::SourceProtection;
use crate::identity::FLOW_DOMAIN;

/// From handing out a key to using it: long enough for it to be there first.
const GRACE: Span = Span::from_secs(1);
/// Least time between two requests of one member: each costs two signatures.
const PATIENCE: Span = Span::from_ms(250);
/// Packets under one key after which a new one is due, half of what AES-GCM allows (RFC 9001, B.1.1).
const REKEY_AFTER: u64 = 1 << 27;

/// The source's end of end-to-end protection: seals media, keeps the list of permitted readers, and hands out
/// the keys.
#[derive(Debug)]
pub(super) struct Keyring {
    signer: Signer,
    tokens: bool,
    clock: WallClock,
    random: Random,
    flow: FlowId,
    name: String,
    current: GroupKey,
    cipher: MediaCipher,
    /// The key of the next epoch, and from when on a GOP may begin it.
    next: Option<(Time, GroupKey)>,
    holders: BTreeMap<Member, Holder>,
    /// Grants to be made: the member, and whether for the next epoch.
    due: BTreeSet<(Member, bool)>,
    /// Members to be refused a key, with the reason.
    denied: BTreeMap<Member, Resource>,
    /// Somebody has a key who should not.
    stale: bool,
    sealed: u64,
}

/// A member that has the key.
#[derive(Clone, Copy, Debug)]
struct Holder {
    exchange: [u8; 32],
    /// The owner of the token; `None` where none is needed.
    owner: Option<SourceKey>,
    level: Level,
    /// Until then, in seconds since 1970.
    expires: u64,
    asked: Time,
}

/// The answer to a member's request for a key.
#[derive(Debug)]
pub(super) enum Answer {
    /// The key, sealed for it.
    Grant(Vec<u8>),
    /// What it is missing.
    Denied(Resource),
}

impl Keyring {
    pub fn new(protection: &SourceProtection, info: &FlowInfo) -> Keyring {
        let mut random = Random::new(&protection.random.0);
        let current = GroupKey::new(protection.born as u32, &random.draw());
        Keyring {
            signer: Signer::from_seed(&protection.identity.0),
            tokens: protection.tokens,
            clock: protection.clock,
            flow: info.id,
            name: info.name.clone(),
            cipher: MediaCipher::new(&current),
            current,
            random,
            next: None,
            holders: BTreeMap::new(),
            due: BTreeSet::new(),
            denied: BTreeMap::new(),
            stale: false,
            sealed: 0,
        }
    }

    /// What the wall clock of the host shows from now on.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        self.clock = clock;
    }

    /// Signs the flow.
    pub fn sign(&self, info: &mut FlowInfo) {
        let mut identity = Identity {
            key: self.signer.public().0.to_vec().into(),
            signature: Vec::new().into(),
            tokens: self.tokens,
        };
        info.identity = Some(identity.clone());
        let signature = self.signer.sign(FLOW_DOMAIN, &info.signed_part());
        identity.signature = signature.to_vec().into();
        info.identity = Some(identity);
    }

    /// The number of the epoch in use.
    pub fn epoch(&self) -> u32 {
        self.current.epoch()
    }

    /// Whether a member may join with this proof; if not, what it is missing.
    pub fn admits(&self, now: Time, member: &Member, proof: Option<&[u8]>) -> Result<(), Resource> {
        match proof {
            _ if !self.tokens => Ok(()),
            Some(proof) => self.check(now, member, proof).map(|_| ()),
            None => Err(Resource::Token),
        }
    }

    fn check(&self, now: Time, member: &Member, proof: &[u8]) -> Result<Proof, Resource> {
        let claimant = Claimant {
            flow_name: &self.name,
            flow: self.flow,
            member: &member.name,
            id: member.id,
            now: self.clock.at(now),
        };
        Proof::check(proof, &self.signer.public(), &claimant).map_err(ProofError::resource)
    }

    /// A member wants the key; gives whether it gets it.
    pub fn on_request(&mut self, now: Time, member: &Member, request: &[u8]) -> bool {
        let known = self.holders.get(member);
        if known.is_some_and(|holder| now < holder.asked.saturating_add(PATIENCE)) {
            return false;
        }
        let holder = match self.holder(now, member, request) {
            Ok(holder) => holder,
            Err(resource) => {
                self.denied.insert(member.clone(), resource);
                return false;
            }
        };
        self.denied.remove(member);
        self.holders.insert(member.clone(), holder);
        self.due.insert((member.clone(), false));
        if self.next.is_some() {
            self.due.insert((member.clone(), true));
        }
        true
    }

    fn holder(&self, now: Time, member: &Member, request: &[u8]) -> Result<Holder, Resource> {
        Ok(if self.tokens {
            let proof = self.check(now, member, request)?;
            let owner = proof.holder();
            if self.is_taken(member, owner) {
                return Err(Resource::NameInUse);
            }
            Holder {
                exchange: proof.exchange,
                owner: Some(owner),
                level: proof.claims().level,
                expires: proof.claims().expires,
                asked: now,
            }
        } else {
            Holder {
                exchange: request.try_into().map_err(|_| Resource::Token)?,
                owner: None,
                level: Level::FULL,
                expires: u64::MAX,
                asked: now,
            }
        })
    }

    /// Whether the holder of another token has the name of a member.
    fn is_taken(&self, member: &Member, owner: SourceKey) -> bool {
        let first = Member {
            name: member.name.clone(),
            id: NodeId(0),
        };
        let named = self.holders.range(first..);
        let mut named = named.take_while(|(other, _)| other.name == member.name);
        named.any(|(_, holder)| holder.owner != Some(owner))
    }

    /// A member is no more, or was not heard of for too long: it must not read on.
    pub fn on_gone(&mut self, member: &Member) {
        if self.holders.remove(member).is_some() {
            self.stale = true;
            self.due.retain(|(other, _)| other != member);
        }
        self.denied.remove(member);
    }

    /// Looks after expired tokens and begins a new epoch if one is due; called now and then.
    pub fn upkeep(&mut self, now: Time) {
        let unix = self.clock.at(now);
        let expired =
            |(member, holder): (&Member, &Holder)| (holder.expires <= unix).then(|| member.clone());
        let expired: Vec<Member> = self.holders.iter().filter_map(expired).collect();
        for member in expired {
            self.on_gone(&member);
            self.denied.insert(member, Resource::TokenExpired);
        }
        if (self.stale || self.sealed >= REKEY_AFTER) && self.next.is_none() {
            self.stale = false;
            // By the clock, so that epochs grow also where the source has started again; members tell
            // neighbouring ones apart by their low octet.
            let before = self.current.epoch();
            let mut epoch = (unix as u32).max(before.wrapping_add(1));
            epoch += u32::from(epoch as u8 == before as u8);
            let key = GroupKey::new(epoch, &self.random.draw());
            self.next = Some((now.saturating_add(GRACE), key));
            let members = self.holders.keys();
            self.due
                .extend(members.map(|member| (member.clone(), true)));
        }
    }

    /// A GOP starts: here the next epoch may begin. Gives whether it does.
    pub fn on_gop_start(&mut self, now: Time) -> bool {
        let Some((_, key)) = self.next.take_if(|(from, _)| *from <= now) else {
            return false;
        };
        self.cipher = MediaCipher::new(&key);
        self.current = key;
        self.sealed = 0;
        let due = std::mem::take(&mut self.due);
        self.due
            .extend(due.into_iter().map(|(member, _)| (member, false)));
        true
    }

    /// The next answer to send, with its receiver.
    pub fn poll(&mut self) -> Option<(Member, Answer)> {
        if let Some((member, resource)) = self.denied.pop_first() {
            return Some((member, Answer::Denied(resource)));
        }
        while let Some((member, next)) = self.due.pop_first() {
            let key = match (&self.next, next) {
                (Some((_, key)), true) => key,
                _ => &self.current,
            };
            let Some(holder) = self.holders.get(&member) else {
                continue;
            };
            let grantee = Grantee {
                flow: self.flow,
                member: &member.name,
                exchange: &holder.exchange,
            };
            let key = key.up_to(holder.level);
            // It fails for keys no honest member has.
            if let Ok(grant) = grant(&self.signer, &grantee, &key, self.random.draw()) {
                return Some((member, Answer::Grant(grant)));
            }
        }
        None
    }

    /// The media of a packet, sealed; `buffer` has room for it.
    pub fn seal(
        &mut self,
        layer: Layer,
        header: &MetsHeader,
        media: &Payload,
        buffer: &mut BytesMut,
    ) -> Option<Bytes> {
        let (start, len) = (buffer.len(), media.len());
        match media {
            Payload::Bytes(bytes) => buffer.extend_from_slice(bytes),
            Payload::Zeros(_) => buffer.resize(start + len, 0),
        }
        let place = Place {
            flow: header.flow,
            seq: header.seq,
            offset: header.offset,
        };
        let header = header.fixed().encode();
        let trailer = self
            .cipher
            .seal(layer, place, &header, &mut buffer[start..]);
        buffer.extend_from_slice(&trailer.ok()?);
        self.sealed += 1;
        Some(buffer.split().freeze())
    }
}

/// Octets that sealing adds to each packet.
pub(super) const OVERHEAD: usize = MEDIA_OVERHEAD;
