use layercast_core::{Span, Time};

use crate::cpu::ThreadId;
use crate::{Buf, Client, Delivery, IrqCtx, Memory, OutOfMemory, Policy, Pool, TxResult};

/// A client whose threads take each packet through its protocols (specs/network-interface-framework.md 2.9): it queues the
/// packet in the interrupt, and wakes a thread.
///
/// As the default client of a ring it is the paper's `LateDemuxClient`, one for each circuit its `EarlyDemuxClient`.
#[derive(Debug)]
pub struct Shepherd {
    policy: Policy,
    /// Octets of a buffer of the pool; shorter ones are for small packets.
    len: usize,
    /// Its threads; they are woken in turn.
    threads: Vec<ThreadId>,
    next_thread: usize,
    /// What a packet costs in the interrupt.
    in_interrupt: Span,
    empty: Pool,
    small: Pool,
    queue: Pool,
    free_tx: Pool,
}

impl Shepherd {
    /// A client with a pool of `buffers` buffers of `len` octets for packets.
    ///
    /// `SwapOrReturn` takes them from memory that the adapter can reach, so that they can be exchanged.
    pub fn new(
        memory: &Memory,
        policy: Policy,
        threads: Vec<ThreadId>,
        (buffers, len): (usize, usize),
    ) -> Result<Shepherd, OutOfMemory> {
        let mut empty = Pool::new();
        for _ in 0..buffers {
            empty.put(match policy {
                Policy::SwapOrReturn => memory.dma(len)?,
                Policy::MustReturn | Policy::PeekOnly => memory.linear(len)?,
            });
        }
        Ok(Shepherd {
            policy,
            len,
            threads,
            next_thread: 0,
            in_interrupt: Span::ZERO,
            empty,
            small: Pool::new(),
            queue: Pool::new(),
            free_tx: Pool::new(),
        })
    }

    /// The client with what a packet costs it in the interrupt.
    #[must_use]
    pub fn costing(mut self, in_interrupt: Span) -> Shepherd {
        self.in_interrupt = in_interrupt;
        self
    }

    /// Adds an empty buffer. One that is shorter than those of the pool is for packets that would waste one of these.
    pub fn add(&mut self, buf: Buf) {
        match buf.max_len() < self.len {
            true => self.small.put(buf),
            false => self.empty.put(buf),
        }
    }

    /// Adds a buffer to the pool for packets to be sent.
    pub fn add_tx(&mut self, buf: Buf) {
        self.free_tx.put(buf);
    }

    /// A buffer for a packet to be sent.
    pub fn take_tx(&mut self) -> Option<Buf> {
        self.free_tx.take()
    }

    /// The next packet for a thread.
    pub fn next_packet(&mut self) -> Option<Buf> {
        self.queue.take()
    }

    /// Packets that wait for a thread; bounded by the buffers of the client.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Buffers that it holds, whatever is in them.
    pub fn held(&self) -> usize {
        self.empty.len() + self.small.len() + self.queue.len() + self.free_tx.len()
    }

    /// A thread is done with a packet. A client with a [driver that posts](crate::Refill::Eager) gives the buffer to the driver.
    pub fn put(&mut self, now: Time, mut buf: Buf) {
        buf.empty(now);
        self.add(buf);
    }
}

impl Client for Shepherd {
    fn policy(&self) -> Policy {
        self.policy
    }

    fn receive(&mut self, _: Time, packet: Delivery<'_>, ctx: &mut IrqCtx<'_>) {
        ctx.charge(self.in_interrupt);
        if let Delivery::Owned(buf) = packet {
            self.queue.put(buf);
            if let Some(thread) = self.threads.get(self.next_thread) {
                ctx.wake(*thread);
                self.next_thread = (self.next_thread + 1) % self.threads.len();
            }
        }
    }

    fn take_empty(&mut self) -> Option<Buf> {
        self.empty.take()
    }

    fn put_empty(&mut self, buf: Buf) {
        self.add(buf);
    }

    fn take_small(&mut self, len: usize) -> Option<Buf> {
        match self.small.get(0) {
            Some(buf) if buf.max_len() >= len => self.small.take(),
            _ => None,
        }
    }

    fn empties(&self) -> usize {
        self.empty.len()
    }

    fn tx_done(&mut self, buf: Buf, _: TxResult) {
        self.free_tx.put(buf);
    }

    fn threads(&self) -> Option<usize> {
        Some(self.threads.len())
    }
}
