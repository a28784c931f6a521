use std::collections::BTreeMap;

use layercast_core::Time;

use super::ConnId;
use super::connection::{Connection, Key};
use layercast_bytestream::{SlotId, Slots, Timed};

impl Timed for Connection {
    #[inline]
    fn next_timeout(&self) -> Option<Time> {
        Connection::next_timeout(self)
    }
}

impl From<SlotId> for ConnId {
    fn from(SlotId { slot, generation }: SlotId) -> ConnId {
        ConnId { slot, generation }
    }
}

impl From<ConnId> for SlotId {
    fn from(ConnId { slot, generation }: ConnId) -> SlotId {
        SlotId { slot, generation }
    }
}

/// All connections of a host: found by name and by address, woken by time.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Slots<Connection, Mark>,
    by_key: BTreeMap<Key, u32>,
    /// Slot of the one found last: most often the next segment is for it, too (4.4BSD-Lite `tcp_last_inpcb`).
    recent: u32,
}

/// What is known of a connection without a look at it.
#[derive(Default, Debug)]
struct Mark {
    /// It is in the queue of connections that may have something to send.
    is_ready: bool,
    key: Option<Key>,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.slots.tenants()
    }

    #[inline]
    pub(crate) fn find(&mut self, key: &Key) -> Option<ConnId> {
        if let Some(slot) = self.find_of_few(key) {
            return slot.map(|slot| self.slots.id_of(slot).into());
        }
        if let Some((id, connection)) = self.slots.at(self.recent)
            && connection.key == *key
        {
            return Some(id.into());
        }
        let &slot = self.by_key.get(key)?;
        self.recent = slot;
        Some(self.slots.id_of(slot).into())
    }

    /// Where a connection is, if there are few.
    #[inline]
    fn find_of_few(&self, key: &Key) -> Option<Option<u32>> {
        let mut marks = self.slots.marks_of_few()?;
        let slot = marks.position(|mark| mark.key.as_ref() == Some(key));
        Some(slot.map(|slot| slot as u32))
    }

    /// Prefetches where the connections are, of as many as most hosts have.
    #[inline]
    pub(crate) fn prepare(&self) {
        self.slots.prepare(2);
    }

    /// Prefetches a connection, if it is easily found.
    #[inline]
    pub(crate) fn prepare_connection(&self, key: &Key, has_data: bool) {
        if let Some(Some(slot)) = self.find_of_few(key)
            && let Some(connection) = self.slots.tenant(slot)
        {
            connection.prepare(has_data);
        }
    }

    /// Prefetches the connection whose deadline is the first, if it is easily found.
    #[inline]
    pub(crate) fn prepare_due(&self) {
        self.slots.prepare_due();
    }

    pub(crate) fn insert(&mut self, connection: Connection) -> ConnId {
        let key = connection.key;
        let id = self.slots.insert(connection);
        self.by_key.insert(key, id.slot);
        if let Some(mark) = self.slots.mark_of(id) {
            mark.key = Some(key);
        }
        id.into()
    }

    #[inline]
    pub(crate) fn get(&self, id: ConnId) -> Option<&Connection> {
        self.slots.get(id.into())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        self.slots.get_mut(id.into())
    }

    pub(crate) fn remove(&mut self, id: ConnId) {
        if let Some((connection, _)) = self.slots.remove(id.into()) {
            self.by_key.remove(&connection.key);
        }
    }

    /// Marks a connection as having something to send; `true` if it was not.
    #[inline]
    pub(crate) fn mark_ready(&mut self, id: ConnId) -> bool {
        let mark = self.slots.mark_of(id.into());
        mark.is_some_and(|mark| !std::mem::replace(&mut mark.is_ready, true))
    }

    /// A connection has nothing to send for now: its deadline counts.
    #[inline]
    pub(crate) fn rest(&mut self, id: ConnId) {
        if let Some(mark) = self.slots.arm(id.into()) {
            mark.is_ready = false;
        }
    }

    /// Queues the connection's deadline.
    #[inline]
    pub(crate) fn arm(&mut self, id: ConnId) {
        self.slots.arm(id.into());
    }

    /// Takes the next connection whose deadline may have come.
    pub(crate) fn due(&mut self, now: Time) -> Option<ConnId> {
        self.slots.due(now).map(ConnId::from)
    }

    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.slots.next_deadline()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnId> + '_ {
        let slots = self.by_key.values();
        slots.map(|&slot| self.slots.id_of(slot).into())
    }
}
