use std::collections::{BTreeMap, BTreeSet};

use layercast_core::{Time, prefetch};

use super::ConnId;
use super::connection::{Connection, Key};

/// One place for a connection; the generation tells a new tenant from an old one.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    /// When the timer of this connection stands in the queue.
    armed: Option<Time>,
    /// It stands in the line of those that may have something to send.
    ready: bool,
    connection: Option<Box<Connection>>,
}

/// All connections of a host: found by name and by address, woken by time.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_key: BTreeMap<Key, u32>,
    /// Slot of the one found last: most often the next segment is for it, too (4.4BSD-Lite `tcp_last_inpcb`).
    recent: u32,
    /// At most one entry for each connection, never later than its deadline.
    deadlines: BTreeSet<(Time, u32)>,
}

/// Connections that are prefetched: one each way.
const PREPARED: usize = 2;

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    #[inline]
    pub(crate) fn find(&mut self, key: &Key) -> Option<ConnId> {
        if let Some(place) = self.slots.get(self.recent as usize)
            && let Some(connection) = &place.connection
            && connection.key == *key
        {
            let (slot, generation) = (self.recent, place.generation);
            return Some(ConnId { slot, generation });
        }
        let &slot = self.by_key.get(key)?;
        self.recent = slot;
        let generation = self.slots[slot as usize].generation;
        Some(ConnId { slot, generation })
    }

    /// Prefetches where the connections are, of as many as most hosts have.
    #[inline]
    pub(crate) fn prepare(&self) {
        prefetch(&self.slots[..self.slots.len().min(PREPARED)]);
    }

    /// Prefetches these connections.
    #[inline]
    pub(crate) fn prepare_connections(&self) {
        for slot in self.slots.iter().take(PREPARED) {
            slot.connection.as_deref().map(prefetch);
        }
    }

    pub(crate) fn insert(&mut self, connection: Connection) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        self.by_key.insert(connection.key, slot);
        let place = &mut self.slots[slot as usize];
        place.connection = Some(Box::new(connection));
        let generation = place.generation;
        ConnId { slot, generation }
    }

    #[inline]
    pub(crate) fn get(&self, id: ConnId) -> Option<&Connection> {
        let slot = self.slots.get(id.slot as usize)?;
        let here = slot.generation == id.generation;
        slot.connection.as_deref().filter(|_| here)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let here = slot.generation == id.generation;
        slot.connection.as_deref_mut().filter(|_| here)
    }

    pub(crate) fn remove(&mut self, id: ConnId) {
        let Some(key) = self.get(id).map(|connection| connection.key) else {
            return;
        };
        self.by_key.remove(&key);
        let slot = &mut self.slots[id.slot as usize];
        if let Some(at) = slot.armed.take() {
            self.deadlines.remove(&(at, id.slot));
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.ready = false;
        slot.connection = None;
        self.free.push(id.slot);
    }

    /// Marks a connection as having something to send; `true` if it was not.
    #[inline]
    pub(crate) fn mark_ready(&mut self, id: ConnId) -> bool {
        let slot = self.slots.get_mut(id.slot as usize);
        slot.is_some_and(|slot| {
            let here = slot.generation == id.generation && slot.connection.is_some();
            here && !std::mem::replace(&mut slot.ready, true)
        })
    }

    /// A connection has nothing to send for now: its deadline counts.
    #[inline]
    pub(crate) fn rest(&mut self, id: ConnId) {
        self.slots[id.slot as usize].ready = false;
        self.arm(id);
    }

    /// Queues the connection's deadline, unless it stands there for an earlier time: then it is
    /// looked at again at that time, which is cheaper than moving it for each acknowledgement.
    #[inline]
    pub(crate) fn arm(&mut self, id: ConnId) {
        let slot = &mut self.slots[id.slot as usize];
        let connection = slot.connection.as_deref();
        let Some(wanted) = connection.and_then(Connection::next_timeout) else {
            return;
        };
        if slot.armed.is_some_and(|at| at <= wanted) {
            return;
        }
        if let Some(at) = slot.armed.replace(wanted) {
            self.deadlines.remove(&(at, id.slot));
        }
        self.deadlines.insert((wanted, id.slot));
    }

    /// Takes the next connection whose deadline may have come.
    pub(crate) fn due(&mut self, now: Time) -> Option<ConnId> {
        let &(at, slot) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        self.deadlines.remove(&(at, slot));
        let place = &mut self.slots[slot as usize];
        place.armed = None;
        let generation = place.generation;
        Some(ConnId { slot, generation })
    }

    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.by_key.values().map(|&slot| ConnId {
            slot,
            generation: self.slots[slot as usize].generation,
        })
    }
}
