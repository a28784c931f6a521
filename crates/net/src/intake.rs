//! The receive side of a socket that several flows come to: a network interface of the framework (`layercast-nif`), whose clients
//! are the flows. A flow is what a neighbour sends, or the packets of an association of XTP.
//!
//! While this host keeps up, a datagram is processed where the kernel wrote it. The queue of the kernel is one for all flows: a
//! host that does not keep up empties it first. Each datagram then goes to the queue of its flow without a copy, or is dropped if
//! the flow has more than its share of the buffers, and the flows have theirs processed in turns. So one that brings more than this
//! host can process loses its own datagrams, not those of others.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::ops::Range;

use layercast_core::{Span, Time};
use layercast_nif::{
    Buf, Client, ClientId, Delivery, IrqCtx, Memory, Outcome, Policy, Pool, Ring, SlotDriver,
    TxResult, Type,
};
use quinn_udp::{BATCH_SIZE, RecvMeta};

use crate::udp::{BATCHES_PER_ITERATION, Inbound, MAX_RECV, Packets, datagrams};

/// Octets of a buffer for one datagram.
const SMALL: usize = 2_048;
/// Buffers of each size, of all flows of a socket: together more than the kernel keeps, so that what it could keep for a
/// host that was held up is not dropped here.
const MOST_SMALL: usize = 4_096;
const MOST_LARGE: usize = 256;
/// An eighth of them is for flows that have fewer than this.
const LEAST: usize = 4;
/// Packets of a flow that wait in the buffers they came in; further ones are copied to small buffers if they fit.
const SWAPPED: usize = 32;
/// Datagrams of a flow that are processed before it is the turn of another one.
const QUANTUM: u64 = 16;
/// Datagrams that are processed before their results are sent.
const PROCESSED: u64 = 64;
/// A host that took this number of octets off a socket and had more each time does not keep up. The kernel keeps ten times that;
/// to it a packet is as long as a [`SMALL`] buffer at least.
const BEHIND: usize = 128 * SMALL;
/// Octets that are processed where they are before others have a turn: what a socket has of merged datagrams is more than that.
const PASSED: usize = 2 * BEHIND;
/// Batches that such a host takes off the socket for each [`PROCESSED`] datagrams.
const READ_AHEAD: usize = 32;
/// A flow that was silent for this time is none that the others have to be protected from.
const RECENT: Span = Span::from_secs(1);

/// The queues of the flows behind one socket.
pub(crate) struct Intake {
    driver: SlotDriver<u32, Flow>,
    /// The client of each number that [`Inbound::client`] gives.
    clients: Vec<Option<ClientId>>,
    /// The flow whose packet came last, the last other one, and when.
    last: [Option<(u32, Time)>; 2],
    /// Clients with packets, the next one first.
    active: VecDeque<ClientId>,
    /// Octets that came since the socket was empty and all was processed.
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

/// Datagrams of a packet, one after the other, that are of one flow.
struct Run {
    octets: Range<usize>,
    client: u32,
    is_last: bool,
}

/// Buffers of one size that no flow has.
struct Spare {
    memory: Memory,
    len: usize,
    /// The last one that was used first: it is in the cache.
    free: Pool,
    /// Buffers that may still be made.
    unmade: usize,
    /// Buffers for flows that have next to none.
    reserve: usize,
}

/// A flow as a client: what came and was not processed yet.
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
            last: [None; 2],
            active: VecDeque::new(),
            unread: 0,
            large: Spare::new(MOST_LARGE, MAX_RECV),
            small: Spare::new(MOST_SMALL, SMALL),
        }
    }

    /// Takes what `socket` has, but not forever, and has `inbound` process it; says whether there may be more. Allocates nothing per
    /// datagram. `flush` is called after some datagrams, to send what they gave rise to.
    pub fn receive<S: Packets, I: Inbound>(
        &mut self,
        now: Time,
        socket: &mut S,
        inbound: &mut I,
        mut flush: impl FnMut(&mut I, &mut S),
    ) -> bool {
        let is_behind = !self.active.is_empty() || self.unread >= BEHIND;
        let more = if is_behind && self.is_crowded(now) {
            (0..READ_AHEAD).all(|_| self.fetch(now, socket, inbound, Intake::queue))
        } else if !self.active.is_empty() {
            // What was queued comes first.
            true
        } else {
            let (mut more, before) = (true, self.unread);
            for _ in 0..BATCHES_PER_ITERATION {
                more = self.fetch(now, socket, inbound, Intake::pass);
                flush(inbound, socket);
                if !more || self.unread - before >= PASSED {
                    break;
                }
            }
            more
        };
        let waits = !self.active.is_empty() && {
            let waits = self.process(socket, inbound);
            flush(inbound, socket);
            waits
        };
        if !more && !waits {
            self.unread = 0;
        }
        more || waits
    }

    /// Whether there are several flows. What a single one brings and this host cannot process is best dropped by the kernel.
    fn is_crowded(&self, now: Time) -> bool {
        let is_recent = |last: Option<(u32, Time)>| last.is_some_and(|it| now.since(it.1) < RECENT);
        self.last.into_iter().all(is_recent)
    }

    fn note(&mut self, now: Time, client: u32) {
        let [last, other] = &mut self.last;
        if last.is_some_and(|it| it.0 != client) {
            *other = *last;
        }
        *last = Some((client, now));
    }

    /// Takes one batch off the socket and does with each packet what `with` does; `false` if there was none.
    fn fetch<S: Packets, I: Inbound>(
        &mut self,
        now: Time,
        socket: &mut S,
        inbound: &mut I,
        with: fn(&mut Intake, Time, Packet<'_, I>, &mut S, &mut I),
    ) -> bool {
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut slices = [const { None::<IoSliceMut<'_>> }; BATCH_SIZE];
        for (slice, slot) in slices.iter_mut().zip(self.driver.slots_mut()) {
            *slice = Some(IoSliceMut::new(slot));
        }
        let count = socket.take(slices, &mut meta);
        for (at, meta) in meta[..count].iter().enumerate() {
            let Some(key) = inbound.known(meta.addr) else {
                socket.count_unknown(meta);
                continue;
            };
            with(self, now, Packet { at, meta, key }, socket, inbound);
        }
        let octets = meta[..count].iter().map(|it| it.len.max(SMALL));
        self.unread += octets.sum::<usize>();
        count > 0
    }

    /// Has the packet in a slot processed there.
    fn pass<S: Packets, I: Inbound>(
        &mut self,
        now: Time,
        packet: Packet<'_, I>,
        socket: &mut S,
        inbound: &mut I,
    ) {
        let Packet { at, meta, key } = packet;
        let first = 0..meta.stride.clamp(1, MAX_RECV).min(meta.len);
        let client = self.client_of(&packet, first, socket, inbound);
        self.note(now, client);
        if let Some(slot) = self.driver.slot_mut(at) {
            socket.hand_on(key, meta, &mut slot[..meta.len], inbound);
        }
    }

    /// Gives the packet in a slot to its clients.
    fn queue<S: Packets, I: Inbound>(
        &mut self,
        now: Time,
        packet: Packet<'_, I>,
        socket: &mut S,
        inbound: &mut I,
    ) {
        let mut from = 0;
        loop {
            let run = self.run(&packet, from, socket, inbound);
            self.note(now, run.client);
            from = run.octets.end;
            let is_last = run.is_last;
            self.queue_run(now, &packet, run, socket, inbound);
            if is_last {
                break;
            }
        }
    }

    /// The datagrams from an octet on that are of one flow. The kernel merges those of one sender, which may have several flows.
    fn run<S: Packets, I: Inbound>(
        &mut self,
        packet: &Packet<'_, I>,
        from: usize,
        socket: &S,
        inbound: &I,
    ) -> Run {
        let (len, stride) = (packet.meta.len, packet.meta.stride.clamp(1, MAX_RECV));
        let datagram = |from: usize| from..len.min(from + stride);
        let client = self.client_of(packet, datagram(from), socket, inbound);
        let mut end = len;
        if I::IS_MERGED {
            end = datagram(from).end;
            while end < len && self.client_of(packet, datagram(end), socket, inbound) == client {
                end = datagram(end).end;
            }
        }
        Run {
            octets: from..end,
            client,
            is_last: end == len,
        }
    }

    fn client_of<S: Packets, I: Inbound>(
        &mut self,
        packet: &Packet<'_, I>,
        datagram: Range<usize>,
        socket: &S,
        inbound: &I,
    ) -> u32 {
        let slot = self.driver.slot_mut(packet.at);
        let datagram = slot.and_then(|slot| slot.get(datagram)).unwrap_or(&[]);
        inbound.client(packet.key, socket.inner(datagram))
    }

    fn queue_run<S: Packets, I: Inbound>(
        &mut self,
        now: Time,
        packet: &Packet<'_, I>,
        run: Run,
        socket: &mut S,
        inbound: &mut I,
    ) {
        let Packet { at, meta, key } = *packet;
        let Run {
            octets,
            client,
            is_last,
        } = run;
        let Some(id) = self.client(now, client) else {
            return;
        };
        let meta = RecvMeta {
            len: octets.len(),
            ..*meta
        };
        if let Some(flow) = self.driver.client_mut(id) {
            flow.arriving = meta;
            let waiting = flow.packets.len();
            // What is not last in its slot is copied.
            let mut small = meta.len <= SMALL && (waiting >= SWAPPED || !is_last);
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
        let ty = Type::Of(client);
        let outcome = self.driver.on_part(now, at, octets.clone(), ty, is_last);
        if !matches!(outcome, Outcome::Delivered { .. }) {
            let slot = self.driver.slot_mut(at);
            let dropped = slot.and_then(|slot| slot.get(octets)).unwrap_or(&[]);
            inbound.crowded_out(key, socket.inner(dropped), datagrams(&meta));
            socket.count_crowded_out(&meta);
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

    /// Has `inbound` process some of the packets in queues, of each flow in turn; says whether there are more.
    fn process<S: Packets, I: Inbound>(&mut self, socket: &mut S, inbound: &mut I) -> bool {
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
                        Some(key) => socket.hand_on(key, &meta, bytes, inbound),
                        None => socket.count_unknown(&meta),
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
