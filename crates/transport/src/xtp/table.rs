use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use layercast_core::Time;
use layercast_wire::XtpKey;

use super::ContextId;
use super::context::Context;

/// One place for a context; the generation tells a new tenant from an old one.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    /// When the timer of this context stands in the queue.
    armed: Option<Time>,
    /// Where it stands in the line of those that may have something to send.
    line: Option<(u32, u64)>,
    context: Option<Box<Context>>,
}

/// All contexts of a host: found by key, by the key and address of the peer, woken by time or by priority.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Keys that peers have chosen: the full look-up (xtp.md 2.4).
    by_peer: BTreeMap<(SocketAddr, XtpKey), u32>,
    deadlines: BTreeSet<(Time, u32)>,
    /// Who may have something to send: priority, then who waits longest.
    line: BTreeMap<(u32, u64), u32>,
    turn: u64,
    count: usize,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The place that the next context gets.
    pub(crate) fn next_slot(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    pub(crate) fn insert(&mut self, context: Context) -> ContextId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        for key in context.peer_keys() {
            self.by_peer.insert(key, slot);
        }
        let place = &mut self.slots[slot as usize];
        place.context = Some(Box::new(context));
        self.count += 1;
        let generation = place.generation;
        ContextId { slot, generation }
    }

    /// The abbreviated look-up: by the key we have chosen.
    pub(crate) fn by_own(&self, from: SocketAddr, key: XtpKey) -> Option<ContextId> {
        let slot = key.0 as u32;
        let place = self.slots.get(slot as usize)?;
        let context = place.context.as_deref()?;
        let here = context.own_key() == key.own() && context.takes_from(from);
        let generation = place.generation;
        here.then_some(ContextId { slot, generation })
    }

    /// The full look-up: by the key the peer has chosen.
    pub(crate) fn by_peer(&self, from: SocketAddr, key: XtpKey) -> Option<ContextId> {
        let &slot = self.by_peer.get(&(from, key))?;
        let generation = self.slots[slot as usize].generation;
        Some(ContextId { slot, generation })
    }

    /// The peer has told its key; `false` if another context of the same peer has it.
    pub(crate) fn learn_key(&mut self, id: ContextId, from: SocketAddr, key: XtpKey) -> bool {
        *self.by_peer.entry((from, key)).or_insert(id.slot) == id.slot
    }

    /// The same, also if a context that is over has it.
    pub(crate) fn take_key(&mut self, id: ContextId, from: SocketAddr, key: XtpKey) -> bool {
        let other = self.by_peer(from, key).and_then(|it| self.get(it));
        if other.is_some_and(Context::is_inactive) {
            self.by_peer.remove(&(from, key));
        }
        self.learn_key(id, from, key)
    }

    /// The peer who has this key is none any more.
    pub(crate) fn forget_key(&mut self, id: ContextId, who: &(SocketAddr, XtpKey)) {
        if self.by_peer.get(who) == Some(&id.slot) {
            self.by_peer.remove(who);
        }
    }

    pub(crate) fn get(&self, id: ContextId) -> Option<&Context> {
        let slot = self.slots.get(id.slot as usize)?;
        let here = slot.generation == id.generation;
        slot.context.as_deref().filter(|_| here)
    }

    pub(crate) fn get_mut(&mut self, id: ContextId) -> Option<&mut Context> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let here = slot.generation == id.generation;
        slot.context.as_deref_mut().filter(|_| here)
    }

    pub(crate) fn remove(&mut self, id: ContextId) {
        let Some(context) = self.get(id) else {
            return;
        };
        for key in context.peer_keys() {
            self.forget_key(id, &key);
        }
        let slot = &mut self.slots[id.slot as usize];
        if let Some(at) = slot.armed.take() {
            self.deadlines.remove(&(at, id.slot));
        }
        if let Some(place) = slot.line.take() {
            self.line.remove(&place);
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.context = None;
        self.free.push(id.slot);
        self.count -= 1;
    }

    /// A context may have something to send: it gets a place in the line, behind those as urgent as it is.
    pub(crate) fn mark_ready(&mut self, id: ContextId) {
        let Some(context) = self.get(id) else {
            return;
        };
        let urgency = context.urgency();
        let slot = &mut self.slots[id.slot as usize];
        match slot.line {
            Some((now, _)) if now == urgency => return,
            Some(place) => self.line.remove(&place),
            None => None,
        };
        self.turn += 1;
        slot.line = Some((urgency, self.turn));
        self.line.insert((urgency, self.turn), id.slot);
    }

    /// The most urgent context that may have something to send, taken out of the line.
    pub(crate) fn pop_ready(&mut self) -> Option<ContextId> {
        let (_, slot) = self.line.pop_first()?;
        let place = &mut self.slots[slot as usize];
        place.line = None;
        let generation = place.generation;
        Some(ContextId { slot, generation })
    }

    /// Queues the context's deadline, unless it stands there for an earlier time.
    pub(crate) fn arm(&mut self, id: ContextId) {
        let Some(wanted) = self.get(id).and_then(Context::next_timeout) else {
            return;
        };
        let slot = &mut self.slots[id.slot as usize];
        if slot.armed.is_some_and(|at| at <= wanted) {
            return;
        }
        if let Some(at) = slot.armed.replace(wanted) {
            self.deadlines.remove(&(at, id.slot));
        }
        self.deadlines.insert((wanted, id.slot));
    }

    /// Takes the next context whose deadline may have come.
    pub(crate) fn due(&mut self, now: Time) -> Option<ContextId> {
        let &(at, slot) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        self.deadlines.remove(&(at, slot));
        let place = &mut self.slots[slot as usize];
        place.armed = None;
        let generation = place.generation;
        Some(ContextId { slot, generation })
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(at, _)| at)
    }
}
