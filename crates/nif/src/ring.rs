use std::marker::PhantomData;
use std::mem;
use std::ops::Range;

use layercast_core::Time;

use crate::clients::{Config, Outcome, Refill, Type};
use crate::{
    Buf, Client, Delivery, Driver, DropReason, Hardware, Memory, Order, OutOfMemory, Policy, Pool,
};

/// The type of an Ethernet frame: the 16 bits after the addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EtherType(
    /// The number.
    pub u16,
);

/// An adapter with one ring for all packets; the driver finds out for which client each is (late demultiplexing).
#[derive(Debug)]
pub struct Ring<T = EtherType> {
    types: PhantomData<T>,
    slots: Pool,
    slot_len: usize,
    /// The first filled slot.
    first: usize,
    filled: usize,
}

/// A driver of an Ethernet adapter (specs/network-interface-framework.md 2.5).
pub type RingDriver<C> = Driver<Ring, C>;

/// A driver of anything that fills slots, in any order, whose packets are distinguished by something beside them: a socket by the
/// address of the sender.
pub type SlotDriver<T, C> = Driver<Ring<T>, C>;

/// Octets before the payload of a frame.
const HEADER: usize = 14;
/// Smaller numbers are lengths (IEEE 802.3), not types.
const LEAST_TYPE: u16 = 0x0600;

impl<T: Copy + Ord> Hardware for Ring<T> {
    type Type = T;
    const WRITES_TO_CLIENTS: bool = false;
}

impl Ring {
    /// How such a driver works by default: it takes a buffer in the interrupt, and copies what fills less than an eighth.
    pub const CONFIG: Config = Config {
        refill: Refill::Lazy,
        order: Order::Fcfs,
        copy_break: 8,
    };
}

/// The type that a frame says it has; `None` if it is no frame.
pub fn classify(frame: &[u8]) -> Option<Type<EtherType>> {
    let header = frame.first_chunk::<HEADER>()?;
    let [.., high, low] = *header;
    Some(match u16::from_be_bytes([high, low]) {
        length if length < LEAST_TYPE => Type::Default,
        number => Type::Of(EtherType(number)),
    })
}

impl<T: Copy + Ord, C: Client> SlotDriver<T, C> {
    /// A driver whose ring has `slots` slots of `slot_len` octets, in memory of its own and its clients.
    pub fn new(
        memory: Memory,
        (slots, slot_len): (usize, usize),
        config: Config,
    ) -> Result<SlotDriver<T, C>, OutOfMemory> {
        let mut ring = Ring {
            types: PhantomData,
            slots: Pool::new(),
            slot_len,
            first: 0,
            filled: 0,
        };
        for _ in 0..slots {
            ring.slots.put(memory.dma(slot_len)?);
        }
        Ok(Driver::with(ring, memory, config))
    }

    /// Slots of the ring. Their number never changes.
    pub fn slots(&self) -> usize {
        self.hardware.slots.len()
    }

    /// The space of each slot, for something that fills them; those whose packets wait among them.
    pub fn slots_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.hardware.slots.iter_mut().map(Buf::space_mut)
    }

    /// The space of one slot.
    pub fn slot_mut(&mut self, at: usize) -> Option<&mut [u8]> {
        self.hardware.slots.get_mut(at).map(Buf::space_mut)
    }

    /// The packet of `ty` that was put into the slot `at` by [`slots_mut`](Self::slots_mut), `len` octets of it, goes to its client.
    pub fn on_slot(&mut self, now: Time, at: usize, len: usize, ty: Type<T>) -> Outcome {
        self.on_part(now, at, 0..len, ty, true)
    }

    /// The packet of `ty` that is a part of what was put into the slot `at` goes to its client. It is copied, unless it
    /// `is_last`: the rest of the slot is of other packets, which follow.
    pub fn on_part(
        &mut self,
        now: Time,
        at: usize,
        part: Range<usize>,
        ty: Type<T>,
        is_last: bool,
    ) -> Outcome {
        self.clients.stats.received += 1;
        let slot = self.hardware.slots.get_mut(at);
        match slot.map(|slot| slot.set_part(part)) {
            None => self.clients.drop_packet(None, DropReason::RingOverrun),
            Some(Err(_)) => self.clients.drop_packet(None, DropReason::BadFrame),
            Some(Ok(())) => self.serve(now, at, Some(ty), is_last),
        }
    }

    /// Gives the packet in a slot to its client, with the slot if that `may_leave` the ring.
    fn serve(&mut self, now: Time, at: usize, ty: Option<Type<T>>, may_leave: bool) -> Outcome {
        let Driver {
            clients,
            hardware: Ring {
                slots, slot_len, ..
            },
        } = self;
        let Some(ty) = ty else {
            return clients.drop_packet(None, DropReason::BadFrame);
        };
        let Some(slot) = slots.get_mut(at) else {
            return clients.drop_packet(None, DropReason::RingOverrun);
        };
        clients.show(now, ty, slot);
        let Some((id, policy)) = clients.owner(ty) else {
            return clients.drop_packet(None, DropReason::NoClient);
        };
        if let Err(reason) = clients.arrived(id) {
            return clients.drop_packet(Some(id), reason);
        }
        if policy == Policy::PeekOnly {
            return clients.deliver(now, id, Delivery::Loan(slot), false);
        }
        if let Some(mut small) = clients.procure_small(id, slot.cur_len(), *slot_len)
            && small.copy_from(slot).is_ok()
        {
            return clients.deliver(now, id, Delivery::Owned(small), true);
        }
        let mut empty = match clients.procure(id) {
            Ok(buf) => buf,
            Err(reason) => return clients.drop_packet(Some(id), reason),
        };
        let is_slot = policy == Policy::SwapOrReturn && empty.is_dma();
        let is_small = empty.max_len() < *slot_len;
        if is_slot && !is_small && may_leave {
            let full = mem::replace(slot, empty);
            return clients.deliver(now, id, Delivery::Owned(full), false);
        }
        // A small buffer that the adapter could reach would be a slot for small packets only.
        if (is_slot && is_small) || empty.copy_from(slot).is_err() {
            clients.unused(id, empty);
            return clients.drop_packet(Some(id), DropReason::TooSmall);
        }
        clients.deliver(now, id, Delivery::Owned(empty), true)
    }
}

impl<C: Client> RingDriver<C> {
    /// Slots whose packets wait for the interrupt.
    pub fn filled(&self) -> usize {
        self.hardware.filled
    }

    /// The adapter writes a frame to the ring. A reason if it cannot.
    pub fn on_wire(&mut self, frame: &[u8]) -> Result<(), DropReason> {
        self.clients.stats.received += 1;
        let ring = &mut self.hardware;
        let free = (ring.first + ring.filled) % ring.slots.len().max(1);
        let is_full = ring.filled == ring.slots.len();
        let slot = ring.slots.get_mut(free).filter(|_| !is_full);
        let reason = match slot.map(|slot| slot.copy_in(frame)) {
            None => DropReason::RingOverrun,
            Some(Err(_)) => DropReason::BadFrame,
            Some(Ok(())) => {
                ring.filled += 1;
                return Ok(());
            }
        };
        self.clients.drop_packet(None, reason);
        Err(reason)
    }

    /// The interrupt, one packet of it: takes the next packet out of the ring.
    pub fn service(&mut self, now: Time) -> Option<Outcome> {
        if self.hardware.filled == 0 {
            return None;
        }
        let at = self.hardware.first;
        let slot = self.hardware.slots.get(at);
        let ty = slot.and_then(Buf::data).and_then(classify);
        let outcome = self.serve(now, at, ty, true);
        self.hardware.first = (at + 1) % self.hardware.slots.len();
        self.hardware.filled -= 1;
        Some(outcome)
    }

    /// [`on_wire`](Self::on_wire) and the interrupt for it, where no packet waits.
    pub fn on_frame(&mut self, now: Time, frame: &[u8]) -> Outcome {
        match self.on_wire(frame) {
            Err(reason) => Outcome::Dropped {
                client: None,
                reason,
            },
            Ok(()) => loop {
                let outcome = self.service(now);
                if let (Some(outcome), 0) = (outcome, self.hardware.filled) {
                    return outcome;
                }
            },
        }
    }

    /// The packets in the ring that wait, the first one first.
    pub fn waiting(&self) -> impl Iterator<Item = &Buf> {
        let ring = &self.hardware;
        (0..ring.filled).filter_map(|at| ring.slots.get((ring.first + at) % ring.slots.len()))
    }
}
