//! The way of a packet to its client, and of a buffer to the driver.

use std::panic::{AssertUnwindSafe, catch_unwind};

use layercast_core::Time;

use super::{ClientId, Clients, Outcome, Refill, Type};
use crate::{Buf, Client, Delivery, DropReason, IrqCtx, OutOfMemory, Policy};

impl<T: Copy + Ord, C: Client> Clients<T, C> {
    /// Lets the taps of a type look at a packet.
    pub fn show(&mut self, now: Time, ty: Type<T>, packet: &Buf) {
        let ty = match self.owners.contains_key(&ty) || self.taps.contains_key(&ty) {
            true => ty,
            false => Type::Default,
        };
        for at in 0.. {
            let Some(id) = self.taps.get(&ty).and_then(|taps| taps.get(at)).copied() else {
                break;
            };
            self.stats.tapped += 1;
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.stats.received += 1;
                match entry.stats.is_failed {
                    true => entry.stats.drops.count(DropReason::Failed),
                    false => self.call(now, id, Delivery::Loan(packet)),
                }
            }
        }
    }

    /// Counts a packet for a client; a reason to drop it before anything is tried.
    pub fn arrived(&mut self, id: ClientId) -> Result<(), DropReason> {
        let entry = self.entries.get_mut(&id).ok_or(DropReason::NoClient)?;
        entry.stats.received += 1;
        entry.meter.on_arrival();
        match entry {
            it if it.is_closing => Err(DropReason::Closed),
            it if it.stats.is_failed => Err(DropReason::Failed),
            _ => Ok(()),
        }
    }

    /// An empty buffer of the client for its packet.
    pub fn procure(&mut self, id: ClientId) -> Result<Buf, DropReason> {
        let entry = self.entries.get_mut(&id).ok_or(DropReason::NoClient)?;
        let buf = match (entry.posted.take(), self.config.refill) {
            (Some(buf), _) => return Ok(buf),
            (None, Refill::Eager) => None,
            (None, Refill::Lazy) => self.take_empty(id),
        };
        self.prepared(id, buf.ok_or(DropReason::NoBuffer)?)
            .map_err(|(_, buf)| {
                self.put_empty(id, buf);
                DropReason::NoBuffer
            })
    }

    /// A small buffer for a packet of `len` octets in a buffer of `of`, if the packet is small beside that.
    pub fn procure_small(&mut self, id: ClientId, len: usize, of: usize) -> Option<Buf> {
        let ratio = self.config.copy_break as usize;
        if ratio == 0 || len.saturating_mul(ratio) >= of {
            return None;
        }
        let small = self.guarded(id, |client| client.take_small(len))??;
        match self.prepared(id, small) {
            Ok(buf) if buf.max_len() >= len && buf.max_len() < of => Some(buf),
            Ok(buf) | Err((_, buf)) => {
                self.put_empty(id, buf);
                None
            }
        }
    }

    /// A buffer from the client, empty and of one region; notes how long the client had it.
    pub(super) fn prepared(
        &mut self,
        id: ClientId,
        mut buf: Buf,
    ) -> Result<Buf, (OutOfMemory, Buf)> {
        let held = buf.take_held();
        if buf.set_len(0).is_ok()
            && let Err(error) = buf.make_contiguous()
        {
            return Err((error, buf));
        }
        if let (Some(entry), Some(held)) = (self.entries.get_mut(&id), held) {
            entry.meter.on_return(held);
            entry.stats.longest_held = entry.stats.longest_held.max(held);
        }
        Ok(buf)
    }

    /// Takes an empty buffer for later packets; gives it back if there is no memory to make it contiguous.
    pub(super) fn post(&mut self, id: ClientId, buf: Buf) -> Result<(), (OutOfMemory, Buf)> {
        let buf = self.prepared(id, buf)?;
        match self.entries.get_mut(&id) {
            Some(entry) => entry.posted.put(buf),
            // Only the buffer of a client that exists is posted.
            None => buf.free(),
        }
        Ok(())
    }

    /// Puts a buffer back that was procured and not used.
    pub fn unused(&mut self, id: ClientId, buf: Buf) {
        match (self.config.refill, self.entries.get_mut(&id)) {
            (Refill::Eager, Some(entry)) => entry.posted.put_first(buf),
            _ => self.put_empty(id, buf),
        }
    }

    pub fn give_rx(&mut self, now: Time, id: ClientId, mut buf: Buf) -> Result<(), Buf> {
        buf.empty(now);
        match self.entries.get_mut(&id) {
            None => Err(buf),
            Some(entry) if entry.stats.is_failed => {
                entry.kept.put(buf);
                Ok(())
            }
            Some(entry) if entry.is_closing || entry.policy == Policy::PeekOnly => Err(buf),
            Some(_) => self.post(id, buf).map_err(|(_, buf)| buf),
        }
    }

    pub fn deliver(
        &mut self,
        now: Time,
        id: ClientId,
        packet: Delivery<'_>,
        is_copied: bool,
    ) -> Outcome {
        self.stats.delivered += 1;
        self.stats.copied += u64::from(is_copied);
        let packet = match packet {
            Delivery::Owned(mut buf) => {
                buf.note_received(now);
                Delivery::Owned(buf)
            }
            loan => loan,
        };
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.stats.copied += u64::from(is_copied);
        }
        self.call(now, id, packet);
        Outcome::Delivered {
            client: id,
            is_copied,
        }
    }

    pub(super) fn call(&mut self, now: Time, id: ClientId, packet: Delivery<'_>) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.stats.delivered += 1;
        let buf = match &packet {
            Delivery::Owned(buf) => buf,
            Delivery::Loan(buf) => buf,
        };
        entry.stats.octets += buf.cur_len() as u64;
        entry.stats.true_octets += buf.max_len() as u64;
        let before = self.actions.len();
        let (mut given, mut sent) = (
            std::mem::take(&mut self.given),
            std::mem::take(&mut self.to_send),
        );
        let mut ctx = IrqCtx {
            actions: &mut self.actions,
            given: &mut given,
            sent: &mut sent,
        };
        let client = &mut entry.client;
        let result = catch_unwind(AssertUnwindSafe(|| client.receive(now, packet, &mut ctx)));
        match result {
            Ok(()) => {
                for buf in given.drain() {
                    if let Err(buf) = self.give_rx(now, id, buf) {
                        self.put_empty(id, buf);
                    }
                }
                for buf in sent.drain() {
                    self.enqueue(id, buf);
                }
            }
            Err(_) => {
                self.actions.truncate(before);
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.kept.extend(given.drain().chain(sent.drain()));
                }
                self.fail(id);
            }
        }
        (self.given, self.to_send) = (given, sent);
    }

    pub fn drop_packet(&mut self, client: Option<ClientId>, reason: DropReason) -> Outcome {
        self.stats.drops.count(reason);
        if let Some(entry) = client.and_then(|id| self.entries.get_mut(&id)) {
            entry.stats.drops.count(reason);
        }
        Outcome::Dropped { client, reason }
    }
}
