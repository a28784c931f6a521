//! The receive side of a socket that several neighbours send to: a network interface of the framework (`layercast-nif`), whose
//! clients are the neighbours.
//!
//! While this host keeps up, a datagram is processed where the kernel wrote it. The queue of the kernel is one for all neighbours: a
//! host that does not keep up empties it first. Each datagram then goes to the queue of its neighbour without a copy, or is dropped
//! if the neighbour has more than its share of the buffers, and the neighbours have theirs processed in turns. So one that sends
//! more than this host can process loses its own datagrams, not those of others.

use std::collections::VecDeque;
use std::io::IoSliceMut;

use layercast_core::{Span, Time};
use layercast_nif::{
    Buf, Client, ClientId, Delivery, IrqCtx, Memory, Outcome, Policy, Pool, Ring, SlotDriver,
    TxResult, Type,
};
use quinn_udp::{BATCH_SIZE, RecvMeta};

use crate::udp::{BATCHES_PER_ITERATION, Inbound, MAX_RECV, Udp, datagrams};

/// Octets of a buffer for one datagram.
const SMALL: usize = 2_048;
/// Buffers of each size, of all neighbours of a socket: together more than the kernel keeps, so that what it could keep for a
/// host that was held up is not dropped here.
const MOST_SMALL: usize = 4_096;
const MOST_LARGE: usize = 256;
/// An eighth of them is for neighbours that have fewer than this.
const LEAST: usize = 4;
/// Packets of a neighbour that wait in the buffers they came in; further ones are copied to small buffers if they fit.
const SWAPPED: usize = 32;
/// Datagrams of a neighbour that are processed before it is the turn of another one.
const QUANTUM: u64 = 16;
/// Datagrams that are processed before their results are sent.
const PROCESSED: u64 = 64;
/// A host that took this number of packets off a socket and had more each time does not keep up. The
/// kernel keeps ten times that.
const BEHIND: usize = 128;
/// Batches that such a host takes off the socket for each [`PROCESSED`] datagrams.
const READ_AHEAD: usize = 32;
/// A neighbour that sent nothing for this time loses nothing.
const RECENT: Span = Span::from_secs(1);

/// The queues of the neighbours behind one socket.
pub(crate) struct Intake {
    driver: SlotDriver<u32, Flow>,
    /// The client of each number that [`Inbound::client`] gives.
    clients: Vec<Option<ClientId>>,
    /// When the last packet of each came.
    last: Vec<Option<Time>>,
    /// Clients with packets, the next one first.
    active: VecDeque<ClientId>,
    /// Packets that came since the socket was empty and all were processed.
    unread: usize,
    large: Spare,
    small: Spare,
}

/// A packet in a slot.
struct Packet<'a, I: Inbound> {
    at: usize,
    meta: &'a RecvMeta,
    key: I::Key,
}

/// Buffers of one size that no neighbour has.
struct Spare {
    memory: Memory,
    len: usize,
    /// The last one that was used first: it is in the cache.
    free: Pool,
    /// Buffers that may still be made.
    unmade: usize,
    /// Buffers for neighbours that have next to none.
    reserve: usize,
}

/// A neighbour as a client: what it sent and what was not processed yet.
#[derive(Default)]
struct Flow {
    /// The buffer for its next packet.
    offered: Option<Buf>,
    /// The same, if it is small.
    offered_small: Option<Buf>,
    /// What the kernel says of the packet that arrives.
    arriving: RecvMeta,
    packets: Pool,
    about: VecDeque<RecvMeta>,
    /// Large and small buffers that it has.
    large: usize,
    small: usize,
    /// Datagrams that it was given more or less than its turns.
    credit: i64,
}

impl Client for Flow {
    fn policy(&self) -> Policy {
        Policy::SwapOrReturn
    }

    fn receive(&mut self, _: Time, packet: Delivery<'_>, _: &mut IrqCtx<'_>) {
        if let Delivery::Owned(buf) = packet {
            match is_large(&buf) {
                true => self.large += 1,
                false => self.small += 1,
            }
            self.packets.put(buf);
            self.about.push_back(self.arriving);
        }
    }

    fn take_empty(&mut self) -> Option<Buf> {
        self.offered.take()
    }

    fn put_empty(&mut self, buf: Buf) {
        match is_large(&buf) {
            true => self.offered = Some(buf),
            false => self.offered_small = Some(buf),
        }
    }

    fn take_small(&mut self, _: usize) -> Option<Buf> {
        self.offered_small.take()
    }

    fn empties(&self) -> usize {
        usize::from(self.offered.is_some())
    }

    /// Nothing is sent by this driver.
    fn tx_done(&mut self, buf: Buf, _: TxResult) {
        buf.free();
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let offered = [self.offered.take(), self.offered_small.take()];
        offered.into_iter().flatten().for_each(Buf::free);
    }
}

fn is_large(buf: &Buf) -> bool {
    buf.max_len() > SMALL
}

impl Spare {
    fn new(count: usize, len: usize) -> Spare {
        Spare {
            memory: Memory::new((count * len) as u64),
            len,
            free: Pool::new(),
            unmade: count,
            reserve: count / 8,
        }
    }

    /// A buffer for a client that has `held` of them. It may have as many as are left: others find some, however much it sends
    /// (dynamic thresholds of Choudhury and Hahne, 1998).
    fn take(&mut self, held: usize) -> Option<Buf> {
        let left = self.free.len() + self.unmade;
        if held >= LEAST && held + self.reserve >= left {
            return None;
        }
        if let Some(buf) = self.free.take() {
            return Some(buf);
        }
        self.unmade = self.unmade.checked_sub(1)?;
        // Only large ones are exchanged with the buffers that the kernel writes to.
        match self.len > SMALL {
            true => self.memory.dma(self.len).ok(),
            false => self.memory.linear(self.len).ok(),
        }
    }

    fn put(&mut self, buf: Buf) {
        self.free.put_first(buf);
    }
}

impl Intake {
    pub fn new() -> Intake {
        let memory = Memory::new((BATCH_SIZE * MAX_RECV) as u64);
        let driver = SlotDriver::new(memory, (BATCH_SIZE, MAX_RECV), Ring::CONFIG);
        Intake {
            driver: driver.expect("the memory has room for the ring"),
            clients: Vec::new(),
            last: Vec::new(),
            active: VecDeque::new(),
            unread: 0,
            large: Spare::new(MOST_LARGE, MAX_RECV),
            small: Spare::new(MOST_SMALL, SMALL),
        }
    }

    /// Takes what `udp` has, but not forever, and has `inbound` process it; says whether there may be more. Allocates nothing per
    /// datagram. `flush` is called after some datagrams, to send what they gave rise to.
    pub fn receive<I: Inbound>(
        &mut self,
        now: Time,
        udp: &mut Udp,
        inbound: &mut I,
        mut flush: impl FnMut(&mut I, &mut Udp),
    ) -> bool {
        let is_behind = !self.active.is_empty() || self.unread >= BEHIND;
        // The neighbours are looked through by a host that does not keep up, not by each.
        let more = if is_behind && self.is_crowded(now) {
            (0..READ_AHEAD).all(|_| self.fetch(now, udp, inbound, Intake::queue))
        } else if !self.active.is_empty() {
            // What was queued comes first.
            true
        } else {
            (0..BATCHES_PER_ITERATION).all(|_| {
                let some = self.fetch(now, udp, inbound, Intake::pass);
                flush(inbound, udp);
                some
            })
        };
        let waits = !self.active.is_empty() && {
            let waits = self.process(udp, inbound);
            flush(inbound, udp);
            waits
        };
        if !more && !waits {
            self.unread = 0;
        }
        more || waits
    }

    /// Whether several neighbours send. What a single one sends and this host cannot process is best dropped by the kernel.
    fn is_crowded(&self, now: Time) -> bool {
        let is_recent = |last: &&Option<Time>| last.is_some_and(|last| now.since(last) < RECENT);
        self.last.iter().filter(is_recent).nth(1).is_some()
    }

    /// Takes one batch off the socket and does with each packet what `with` does; `false` if there was none.
    fn fetch<I: Inbound>(
        &mut self,
        now: Time,
        udp: &mut Udp,
        inbound: &mut I,
        with: fn(&mut Intake, Time, Packet<'_, I>, &mut Udp, &mut I),
    ) -> bool {
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut slices = [const { None::<IoSliceMut<'_>> }; BATCH_SIZE];
        for (slice, slot) in slices.iter_mut().zip(self.driver.slots_mut()) {
            *slice = Some(IoSliceMut::new(slot));
        }
        let count = udp.take(slices, &mut meta);
        for (at, meta) in meta[..count].iter().enumerate() {
            let Some(key) = inbound.known(meta.addr) else {
                udp.count_unknown(meta);
                continue;
            };
            let number = inbound.client(key);
            if self.last.len() <= number as usize {
                self.last.resize(number as usize + 1, None);
            }
            self.last[number as usize] = Some(now);
            with(self, now, Packet { at, meta, key }, udp, inbound);
        }
        self.unread += count;
        count > 0
    }

    /// Has the packet in a slot processed there.
    fn pass<I: Inbound>(&mut self, _: Time, packet: Packet<'_, I>, udp: &mut Udp, inbound: &mut I) {
        if let Some(slot) = self.driver.slot_mut(packet.at) {
            udp.hand_on(
                packet.key,
                packet.meta,
                &mut slot[..packet.meta.len],
                inbound,
            );
        }
    }

    /// Gives the packet in a slot to its client.
    fn queue<I: Inbound>(
        &mut self,
        now: Time,
        packet: Packet<'_, I>,
        udp: &mut Udp,
        inbound: &mut I,
    ) {
        let Packet { at, meta, key } = packet;
        let number = inbound.client(key);
        let Some(id) = self.client(now, number) else {
            return;
        };
        if let Some(flow) = self.driver.client_mut(id) {
            flow.arriving = *meta;
            let waiting = flow.packets.len();
            let mut small = meta.len <= SMALL && waiting >= SWAPPED;
            if !small && flow.offered.is_none() {
                flow.offered = self.large.take(flow.large);
                small = meta.len <= SMALL && flow.offered.is_none();
            }
            if small && flow.offered_small.is_none() {
                flow.offered_small = self.small.take(flow.small);
            }
            if waiting == 0 {
                self.active.push_back(id);
            }
        }
        let outcome = self.driver.on_slot(now, at, meta.len, Type::Of(number));
        if !matches!(outcome, Outcome::Delivered { .. }) {
            inbound.crowded_out(key, datagrams(meta));
            udp.count_crowded_out(meta);
            self.active.pop_back_if(|last| {
                let client = self.driver.client(*last);
                client.is_none_or(|flow| flow.packets.is_empty())
            });
        }
    }

    /// The client with a number, which is registered when it sends for the first time.
    fn client(&mut self, now: Time, number: u32) -> Option<ClientId> {
        let place = number as usize;
        if self.clients.len() <= place {
            self.clients.resize(place + 1, None);
        }
        let slot = self.clients.get_mut(place)?;
        if slot.is_none() {
            let registered = self.driver.register(now, Type::Of(number), Flow::default());
            *slot = registered.ok().map(|it| it.id);
        }
        *slot
    }

    /// Has `inbound` process some of the packets in queues, of each neighbour in turn; says whether there are more.
    fn process<I: Inbound>(&mut self, udp: &mut Udp, inbound: &mut I) -> bool {
        let mut left = PROCESSED;
        while left > 0
            && let Some(id) = self.active.pop_front()
        {
            let Some(flow) = self.driver.client_mut(id) else {
                continue;
            };
            flow.credit += QUANTUM as i64;
            while flow.credit > 0
                && let (Some(mut buf), Some(meta)) = (flow.packets.take(), flow.about.pop_front())
            {
                let count = datagrams(&meta);
                flow.credit -= count as i64;
                left = left.saturating_sub(count);
                if let Some(bytes) = buf.data_mut() {
                    match inbound.known(meta.addr) {
                        Some(key) => udp.hand_on(key, &meta, bytes, inbound),
                        None => udp.count_unknown(&meta),
                    }
                }
                match is_large(&buf) {
                    true => {
                        flow.large -= 1;
                        self.large.put(buf);
                    }
                    false => {
                        flow.small -= 1;
                        self.small.put(buf);
                    }
                }
            }
            match flow.packets.is_empty() {
                true => flow.credit = flow.credit.min(0),
                false => self.active.push_back(id),
            }
        }
        !self.active.is_empty()
    }
}

#[cfg(test)]
mod tests;
