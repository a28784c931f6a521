//! How long one peer may hold up the others: as long as a receiver that dies. An address is one receiver, whatever the
//! number of members in whose names it answers, so all of them share the time, the new lives and the repairs.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::Deadline;

/// New lives of a peer's members, and ends of being busy, at most.
const TURNS: u32 = 8;
/// Packets that are sent for one peer alone, in multiples of the object's: more than a receiver needs that loses seven
/// packets of eight.
const ALONE: u64 = 8;
/// A receiver reads an object for its digest at this rate at least, in octets a second.
const VERIFIED: u64 = 10_000_000;
/// A peer that has used up its time gets this share of it in the next session of a transfer: 1 / 2^n.
const LESS: u32 = 4;
/// The silence of a peer in a session that the receivers can do without, and its least in multiples of the wait for answers.
const BRIEF: Span = Span::from_secs(4);
const BRIEF_WAITS: u64 = 4;

/// What a peer has cost the others.
#[derive(Clone, Copy, Default, Debug)]
struct Charge {
    /// How long the session has waited for it, and until when that is counted.
    held: Span,
    upto: Time,
    /// The part of that since its last answer.
    silent: Span,
    turns: u32,
    packets: u64,
    /// How often it used up its time in earlier sessions, and whether it did in this one.
    before: u32,
    is_spent: bool,
}

/// The time of each peer.
#[derive(Clone, Default, Debug)]
pub(super) struct Patience {
    charges: BTreeMap<Peer, Charge>,
    /// When the wait began that is not charged yet.
    pub since: Time,
    is_brief: bool,
}

impl<S: Source> Sender<S> {
    /// A peer used up the time of the others in this number of earlier sessions of the same transfer: it gets less.
    pub fn used_up(&mut self, peer: Peer, times: u32) {
        self.patience.charges.entry(peer).or_default().before = times;
    }

    /// The receivers can do without this content, as without the list of the files that follow it: the others do not
    /// wait long for a peer that does not answer.
    pub fn be_brief(&mut self) {
        self.patience.is_brief = true;
    }

    /// Peers that have used up the time for which they may hold up the others.
    pub fn spent(&self) -> impl Iterator<Item = Peer> + '_ {
        let charges = self.patience.charges.iter();
        charges.filter(|(_, it)| it.is_spent).map(|(&peer, _)| peer)
    }

    /// Whether the time is limited: streams expel by their rate, and the waits of the papers' profiles are theirs.
    fn is_limited(&self) -> bool {
        self.stream.is_none() && matches!(self.config.deadline, Deadline::Adaptive { .. })
    }

    /// Whether there is somebody whom this peer can hold up.
    fn has_others(&self, peer: Peer) -> bool {
        self.roster.iter().any(|it| {
            it.peer.is_some_and(|other| other != peer)
                && matches!(
                    it.status,
                    Status::Joined
                        | Status::Busy
                        | Status::Postponed
                        | Status::Done
                        | Status::Released
                )
        })
    }

    /// How long a peer may hold up the others in this session.
    fn allowed(&self, before: u32) -> Span {
        let verify = Span::from_ms(self.object.object.size / (VERIFIED / 1_000));
        let all = self.config.sender_wait.mul_div(1, 4) + verify;
        all.mul_div(1, 1 << (LESS * before).min(40))
    }

    /// How long it may still do so, where that is short.
    fn rest_of(&self, charge: Charge) -> Option<Span> {
        let rest = self.allowed(charge.before).saturating_sub(charge.held);
        let brief = BRIEF.max(self.clock.wait(Span::ZERO).times(BRIEF_WAITS));
        match self.patience.is_brief {
            true => Some(rest.min(brief.saturating_sub(charge.silent))),
            false => (charge.before > 0).then_some(rest),
        }
    }

    /// The session has waited for this member until now.
    pub(super) fn charge(&mut self, now: Time, at: usize) {
        if let Some(peer) = self.roster.get(at).peer.filter(|_| self.is_limited()) {
            let since = self.patience.since;
            let charge = self.patience.charges.entry(peer).or_default();
            let held = now.since(since.max(charge.upto).min(now));
            charge.held += held;
            charge.silent += held;
            charge.upto = now;
        }
    }

    /// The member has answered.
    pub(super) fn answered(&mut self, at: usize) {
        let peer = self.roster.get(at).peer;
        if let Some(charge) = peer.and_then(|it| self.patience.charges.get_mut(&it)) {
            charge.silent = Span::ZERO;
        }
    }

    /// Charges a wait to the members for which it was, and gives up those whose peers have used up their time. Gives the
    /// others.
    pub(super) fn charge_all(&mut self, now: Time, members: Vec<usize>) -> Vec<usize> {
        for &at in &members {
            self.charge(now, at);
        }
        self.patience.since = now;
        let peers: BTreeSet<Peer> = members
            .iter()
            .filter_map(|&at| self.roster.get(at).peer)
            .collect();
        let over: BTreeSet<Peer> = peers.into_iter().filter(|&it| self.is_over(it)).collect();
        let (over, rest): (Vec<usize>, Vec<usize>) = members.into_iter().partition(|&at| {
            let peer = self.roster.get(at).peer;
            peer.is_some_and(|peer| over.contains(&peer))
        });
        for at in over {
            self.lose(at, Reason::Silent);
            if self.phase == Phase::Closed {
                break;
            }
        }
        rest
    }

    /// The time that is left to the most patiently awaited of these members, where it is short: the last wait for an answer
    /// ends with it.
    pub(super) fn brief_rest(&self, members: &[usize]) -> Option<Span> {
        let peers = members.iter().filter_map(|&at| self.roster.get(at).peer);
        let rest = peers.map(|peer| {
            let charge = self.patience.charges.get(&peer).copied();
            let rest = self.rest_of(charge.unwrap_or_default());
            (rest.unwrap_or(Span::MAX), peer)
        });
        let (rest, peer) = rest.max()?;
        let counts = self.is_limited() && rest < Span::MAX && self.has_others(peer);
        counts.then_some(rest)
    }

    /// Whether a peer has held up the others for too long.
    fn is_over(&mut self, peer: Peer) -> bool {
        let Some(charge) = self.patience.charges.get(&peer).copied() else {
            return false;
        };
        let rest = self.rest_of(charge);
        let is_long = charge.held >= self.allowed(charge.before);
        let is_over = (is_long || rest == Some(Span::ZERO)) && self.has_others(peer);
        if is_over {
            self.spend(peer);
        }
        is_over
    }

    fn spend(&mut self, peer: Peer) {
        self.patience.charges.entry(peer).or_default().is_spent = true;
    }

    /// A member begins another life, or is no longer busy: whether its peer may do that once more.
    pub(super) fn may_turn(&mut self, peer: Peer) -> bool {
        if !self.is_limited() || !self.has_others(peer) {
            return true;
        }
        let charge = self.patience.charges.entry(peer).or_default();
        charge.turns = charge.turns.saturating_add(1);
        let may = charge.turns <= TURNS;
        if !may {
            self.spend(peer);
        }
        may
    }

    /// Counts packets of a pass that one peer alone asked for, and gives it up if it has asked for too many.
    pub(super) fn charge_pass(&mut self, packets: u64) {
        let members: Vec<usize> = (0..self.roster.len())
            .filter(|&at| self.in_scope(at))
            .collect();
        let peers: BTreeSet<Option<Peer>> =
            members.iter().map(|&at| self.roster.get(at).peer).collect();
        let mut peers = peers.into_iter();
        let (Some(Some(peer)), None) = (peers.next(), peers.next()) else {
            return;
        };
        if !self.is_limited() || !self.has_others(peer) {
            return;
        }
        let most = self.object.geometry.packets().saturating_mul(ALONE);
        let charge = self.patience.charges.entry(peer).or_default();
        charge.packets = charge.packets.saturating_add(packets);
        if charge.packets <= most {
            return;
        }
        self.spend(peer);
        for at in members {
            self.lose(at, Reason::Rounds);
            if self.phase == Phase::Closed {
                return;
            }
        }
    }

    /// Peers that have answered in this round or have everything: what else they are asked as concerns lives that are over.
    pub(super) fn heard_peers(&self) -> BTreeSet<Peer> {
        let sync = self.round.sync;
        let heard = self.roster.iter().filter(|it| match it.status {
            Status::Done | Status::Released => true,
            Status::Joined | Status::Postponed => it.answered == sync,
            _ => false,
        });
        heard.filter_map(|it| it.peer).collect()
    }
}
