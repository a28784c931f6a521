use core::net::SocketAddr;
use std::collections::BTreeMap;

use layercast_core::Time;
use layercast_wire::XtpKey;

use super::ContextId;
use super::context::Context;
use layercast_bytestream::{SlotId, Slots, Timed};

impl Timed for Context {
    fn next_timeout(&self) -> Option<Time> {
        Context::next_timeout(self)
    }
}

impl From<SlotId> for ContextId {
    fn from(SlotId { slot, generation }: SlotId) -> ContextId {
        ContextId { slot, generation }
    }
}

impl From<ContextId> for SlotId {
    fn from(ContextId { slot, generation }: ContextId) -> SlotId {
        SlotId { slot, generation }
    }
}

/// All contexts of a host: found by key, by the key and address of the peer, woken by time or by priority.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The mark: the position in the queue.
    slots: Slots<Context, Option<(u32, u64)>>,
    /// Keys that peers have chosen: the full look-up (specs/xtp.md 2.4).
    by_peer: BTreeMap<(SocketAddr, XtpKey), u32>,
    /// Contexts that may have something to send: by priority, then by waiting time.
    line: BTreeMap<(u32, u64), u32>,
    turn: u64,
    /// Contexts that were removed, of which a monitor does not know.
    gone: Vec<XtpKey>,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.slots.tenants()
    }

    /// The place that the next context gets.
    pub(crate) fn next_slot(&self) -> u32 {
        self.slots.next_slot()
    }

    pub(crate) fn insert(&mut self, context: Context) -> ContextId {
        let slot = self.next_slot();
        for key in context.peer_keys() {
            self.by_peer.insert(key, slot);
        }
        self.slots.insert(context).into()
    }

    /// The abbreviated look-up: by the key we have chosen.
    pub(crate) fn by_own(&self, from: SocketAddr, key: XtpKey) -> Option<ContextId> {
        let (id, context) = self.slots.at(key.0 as u32)?;
        let here = context.own_key() == key.own() && context.takes_from(from);
        here.then_some(id.into())
    }

    /// The full look-up: by the key the peer has chosen.
    pub(crate) fn by_peer(&self, from: SocketAddr, key: XtpKey) -> Option<ContextId> {
        let &slot = self.by_peer.get(&(from, key))?;
        Some(self.slots.id_of(slot).into())
    }

    /// The context that a packet with this key is for.
    pub(crate) fn find(&self, from: SocketAddr, key: XtpKey) -> Option<ContextId> {
        match key.is_return() {
            true => self.by_own(from, key),
            false => self.by_peer(from, key),
        }
    }

    /// Notes the peer's key; `false` if another context of the same peer has it.
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

    /// The peer that has this key is none any more.
    pub(crate) fn forget_key(&mut self, id: ContextId, who: &(SocketAddr, XtpKey)) {
        if self.by_peer.get(who) == Some(&id.slot) {
            self.by_peer.remove(who);
        }
    }

    pub(crate) fn get(&self, id: ContextId) -> Option<&Context> {
        self.slots.get(id.into())
    }

    pub(crate) fn get_mut(&mut self, id: ContextId) -> Option<&mut Context> {
        self.slots.get_mut(id.into())
    }

    pub(crate) fn remove(&mut self, id: ContextId) {
        let Some((context, place)) = self.slots.remove(id.into()) else {
            return;
        };
        if context.counts.sent + context.counts.received > 0 {
            self.gone.push(context.own_key());
        }
        for key in context.peer_keys() {
            self.forget_key(id, &key);
        }
        if let Some(place) = place {
            self.line.remove(&place);
        }
    }

    /// The key of a context that was removed.
    #[inline]
    pub(crate) fn take_gone(&mut self) -> Option<XtpKey> {
        self.gone.pop()
    }

    /// A context may have something to send: it gets a place in the line, behind those as urgent as it is.
    pub(crate) fn mark_ready(&mut self, id: ContextId) {
        let Some(urgency) = self.get(id).map(Context::urgency) else {
            return;
        };
        let Some(place) = self.slots.mark_of(id.into()) else {
            return;
        };
        if place.is_some_and(|(now, _)| now == urgency) {
            return;
        }
        self.turn += 1;
        if let Some(old) = place.replace((urgency, self.turn)) {
            self.line.remove(&old);
        }
        self.line.insert((urgency, self.turn), id.slot);
    }

    /// The most urgent context that may have something to send, taken out of the line.
    pub(crate) fn pop_ready(&mut self) -> Option<ContextId> {
        let (_, slot) = self.line.pop_first()?;
        let id = self.slots.id_of(slot);
        if let Some(place) = self.slots.mark_of(id) {
            *place = None;
        }
        Some(id.into())
    }

    /// Queues the context's deadline.
    pub(crate) fn arm(&mut self, id: ContextId) {
        self.slots.arm(id.into());
    }

    /// Takes the next context whose deadline may have come.
    pub(crate) fn due(&mut self, now: Time) -> Option<ContextId> {
        self.slots.due(now).map(ContextId::from)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.slots.next_deadline()
    }
}
