//! The clients of a driver, and all that a driver does for them whatever its hardware.

mod guard;
mod packets;
mod send;
mod types;

use std::collections::{BTreeMap, VecDeque};

pub use self::types::{
    ClientId, Closed, Config, Holdings, Outcome, Refill, RegError, Registration, Type, Warning,
};
use layercast_core::Time;

use crate::credit::{Meter, max_min};
use crate::transmit::{Queued, TxQueue};
use crate::{Action, Client, ClientStats, Memory, Policy, Pool, Stats, TxResult};

#[derive(Debug)]
struct Entry<T, C> {
    client: C,
    ty: Type<T>,
    policy: Policy,
    is_tap: bool,
    is_closing: bool,
    /// The adapter may write to its posted buffers.
    has_dma: bool,
    posted: Pool,
    kept: Pool,
    meter: Meter,
    stats: ClientStats,
}

#[derive(Debug)]
pub(crate) struct Clients<T, C> {
    pub memory: Memory,
    pub stats: Stats,
    config: Config,
    entries: BTreeMap<ClientId, Entry<T, C>>,
    owners: BTreeMap<Type<T>, ClientId>,
    taps: BTreeMap<Type<T>, Vec<ClientId>>,
    next: u32,
    actions: Vec<Action>,
    given: Pool,
    to_send: Pool,
    queue: TxQueue,
    wire: Option<Queued>,
    closed: VecDeque<Closed<C>>,
}

impl<T: Copy + Ord, C: Client> Clients<T, C> {
    pub fn new(memory: Memory, config: Config) -> Clients<T, C> {
        Clients {
            memory,
            stats: Stats::default(),
            config,
            entries: BTreeMap::new(),
            owners: BTreeMap::new(),
            taps: BTreeMap::new(),
            next: 0,
            actions: Vec::new(),
            given: Pool::new(),
            to_send: Pool::new(),
            queue: TxQueue::default(),
            wire: None,
            closed: VecDeque::new(),
        }
    }

    pub fn register(
        &mut self,
        now: Time,
        ty: Type<T>,
        client: C,
        has_dma: bool,
    ) -> Result<Registration, (RegError, C)> {
        if let Some(by) = self.owners.get(&ty) {
            return Err((RegError::Taken { by: *by }, client));
        }
        self.insert(now, ty, client, has_dma, false)
    }

    pub fn tap(
        &mut self,
        now: Time,
        ty: Type<T>,
        client: C,
    ) -> Result<Registration, (RegError, C)> {
        if client.policy() != Policy::PeekOnly {
            return Err((RegError::TapOwns, client));
        }
        self.insert(now, ty, client, false, true)
    }

    fn insert(
        &mut self,
        now: Time,
        ty: Type<T>,
        client: C,
        has_dma: bool,
        is_tap: bool,
    ) -> Result<Registration, (RegError, C)> {
        if client.threads() == Some(0) {
            return Err((RegError::NoThreads, client));
        }
        let (policy, empties) = (client.policy(), client.empties());
        let id = ClientId(self.next);
        self.next += 1;
        let entry = Entry {
            client,
            ty,
            policy,
            is_tap,
            is_closing: false,
            has_dma,
            posted: Pool::new(),
            kept: Pool::new(),
            meter: Meter::new(now, u32::try_from(empties).unwrap_or(u32::MAX)),
            stats: ClientStats::default(),
        };
        self.entries.insert(id, entry);
        match is_tap {
            true => self.taps.entry(ty).or_default().push(id),
            false => drop(self.owners.insert(ty, id)),
        }
        if policy != Policy::PeekOnly && self.config.refill == Refill::Eager {
            for _ in 0..empties {
                let Some(buf) = self.take_empty(id) else {
                    break;
                };
                if let Err((_, buf)) = self.post(id, buf) {
                    self.put_empty(id, buf);
                }
            }
        }
        let warning = match (policy, empties) {
            (Policy::PeekOnly, 1..) => Some(Warning::UselessPool),
            (Policy::SwapOrReturn | Policy::MustReturn, 0) => Some(Warning::EmptyPool),
            _ => None,
        };
        Ok(Registration { id, warning })
    }

    /// Begins to unregister: what is queued to be sent comes back now, what the adapter has when it is done.
    pub fn unregister(&mut self, id: ClientId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.is_closing = true;
        for buf in self.queue.cancel(id) {
            self.tx_done(id, buf, TxResult::Cancelled);
        }
        self.try_close(id);
    }

    /// The adapter writes to buffers of the client no longer.
    pub fn stop_dma(&mut self, ty: Type<T>) {
        if let Some(id) = self.owners.get(&ty).copied() {
            if let Some(entry) = self.entries.get_mut(&id).filter(|it| it.is_closing) {
                entry.has_dma = false;
            }
            self.try_close(id);
        }
    }

    fn try_close(&mut self, id: ClientId) {
        let on_wire = self.wire.as_ref().is_some_and(|it| it.client == id);
        let is_over = |it: &Entry<T, C>| it.is_closing && !it.has_dma && !on_wire;
        if !self.entries.get(&id).is_some_and(is_over) {
            return;
        }
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        match entry.is_tap {
            true => {
                if let Some(taps) = self.taps.get_mut(&entry.ty) {
                    taps.retain(|it| *it != id);
                }
            }
            false => drop(self.owners.remove(&entry.ty)),
        }
        let Entry {
            client,
            stats,
            kept: mut buffers,
            mut posted,
            ..
        } = entry;
        buffers.extend(posted.drain());
        self.closed.push_back(Closed {
            id,
            client,
            buffers,
            stats,
        });
    }

    pub fn poll_closed(&mut self) -> Option<Closed<C>> {
        self.closed.pop_front()
    }

    /// The client that packets of a type are for.
    pub fn owner(&self, ty: Type<T>) -> Option<(ClientId, Policy)> {
        let id = self
            .owners
            .get(&ty)
            .or_else(|| self.owners.get(&Type::Default))?;
        Some((*id, self.entries.get(id)?.policy))
    }

    pub fn drain_actions(&mut self) -> std::vec::Drain<'_, Action> {
        self.actions.drain(..)
    }

    pub fn client(&self, id: ClientId) -> Option<&C> {
        self.entries.get(&id).map(|entry| &entry.client)
    }

    pub fn client_mut(&mut self, id: ClientId) -> Option<&mut C> {
        self.entries.get_mut(&id).map(|entry| &mut entry.client)
    }

    pub fn client_stats(&self, id: ClientId) -> Option<&ClientStats> {
        self.entries.get(&id).map(|entry| &entry.stats)
    }

    pub fn holdings(&self, id: ClientId) -> Holdings {
        let on_wire = self.wire.as_ref().is_some_and(|it| it.client == id);
        let (posted, kept) = match self.entries.get(&id) {
            Some(entry) => (entry.posted.len(), entry.kept.len()),
            None => (0, 0),
        };
        Holdings {
            posted,
            kept,
            queued: self.queue.count(id),
            on_wire: usize::from(on_wire),
        }
    }

    /// Divides `total` buffers among the clients that own buffers, by what they needed since the last call.
    pub fn divide(&mut self, now: Time, total: u32) -> Vec<(ClientId, u32)> {
        let owning = self
            .entries
            .iter_mut()
            .filter(|(_, it)| it.policy != Policy::PeekOnly);
        let (ids, mut shares): (Vec<_>, Vec<_>) = owning
            .map(|(id, entry)| (*id, entry.meter.wanted(now)))
            .unzip();
        max_min(total, &mut shares);
        ids.into_iter().zip(shares).collect()
    }

    /// Ends all: each client with its buffers.
    pub fn shut_down(mut self) -> Vec<Closed<C>> {
        if let Some(Queued { client, buf, .. }) = self.wire.take() {
            self.tx_done(client, buf, TxResult::Cancelled);
        }
        while let Some(Queued { client, buf, .. }) = self.queue.pop() {
            self.tx_done(client, buf, TxResult::Cancelled);
        }
        let ids: Vec<ClientId> = self.entries.keys().copied().collect();
        for id in ids {
            if let Some(entry) = self.entries.get_mut(&id) {
                (entry.is_closing, entry.has_dma) = (true, false);
            }
            self.try_close(id);
        }
        std::mem::take(&mut self.closed).into()
    }
}

impl<T, C> Drop for Clients<T, C> {
    fn drop(&mut self) {
        let wire = self.wire.take();
        let queued = std::iter::from_fn(|| self.queue.pop());
        wire.into_iter().chain(queued).for_each(|it| it.buf.free());
    }
}
