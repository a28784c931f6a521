use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::cpu::ThreadId;
use crate::{Buf, Pool};

/// Which buffer a client wants its packets in (specs/network-interface-framework.md 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Any buffer, in exchange for an empty one.
    SwapOrReturn,
    /// One that it gave itself.
    MustReturn,
    /// None: it looks at the packet during the interrupt.
    PeekOnly,
}

/// A packet for a client.
#[derive(Debug)]
pub enum Delivery<'a> {
    /// The buffer is the client's from now on.
    Owned(Buf),
    /// The buffer remains the driver's; it cannot outlive the call.
    Loan(&'a Buf),
}

/// What became of a packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TxResult {
    /// It is on its way.
    Sent,
    /// The adapter failed to send it.
    Failed,
    /// Its client was unregistered before.
    Cancelled,
}

/// A subsystem that uses a network interface.
///
/// The driver calls it in the interrupt: it may count, drop, queue, wake a thread, change a priority, or process the packet
/// to completion. Nothing in it can block. If it panics, the driver continues without it.
pub trait Client {
    /// Which buffers it wants; constant.
    fn policy(&self) -> Policy;

    /// A packet arrived.
    fn receive(&mut self, now: Time, packet: Delivery<'_>, ctx: &mut IrqCtx<'_>);

    /// An empty buffer for a packet, if there is one.
    fn take_empty(&mut self) -> Option<Buf>;

    /// Takes back a buffer that [`take_empty`](Self::take_empty) gave and that was not used.
    fn put_empty(&mut self, buf: Buf);

    /// A buffer for a packet of `len` octets that is small beside the buffers of the ring; `None` delivers it as any other.
    fn take_small(&mut self, len: usize) -> Option<Buf> {
        let _ = len;
        None
    }

    /// Buffers that [`take_empty`](Self::take_empty) could give now.
    fn empties(&self) -> usize;

    /// A buffer that was to be sent comes back.
    fn tx_done(&mut self, buf: Buf, result: TxResult);

    /// How urgent a packet to be sent is; the highest is the first, where the driver orders by priority.
    fn tx_priority(&self, packet: &Buf) -> f64 {
        let _ = packet;
        0.0
    }

    /// Threads that process its packets; a client that needs none processes them in the interrupt.
    fn threads(&self) -> Option<usize> {
        None
    }
}

/// What the host of a driver has to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A thread has work.
    Wake(ThreadId),
    /// A thread has another priority.
    SetPriority(ThreadId, u8),
    /// The interrupt takes this much longer.
    Charge(Span),
    /// A thread that waits for this packet can continue.
    Sent(Ticket),
}

/// A packet that a thread waits for until it is sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub(crate) u64);

/// The call would have to wait, and an interrupt cannot.
#[derive(Debug)]
pub struct WouldBlock(
    /// The packet.
    pub Buf,
);

/// What a client can do while it receives.
#[derive(Debug)]
pub struct IrqCtx<'a> {
    pub(crate) actions: &'a mut Vec<Action>,
    pub(crate) given: &'a mut Pool,
    pub(crate) sent: &'a mut Pool,
}

impl IrqCtx<'_> {
    /// Lets a thread continue.
    pub fn wake(&mut self, thread: ThreadId) {
        self.actions.push(Action::Wake(thread));
    }

    /// Changes the priority of a thread.
    pub fn set_priority(&mut self, thread: ThreadId, priority: u8) {
        self.actions.push(Action::SetPriority(thread, priority));
    }

    /// Says what the work in the interrupt costs.
    pub fn charge(&mut self, time: Span) {
        self.actions.push(Action::Charge(time));
    }

    /// Gives the driver an emptied buffer for the next packet.
    pub fn give_rx(&mut self, buf: Buf) {
        self.given.put(buf);
    }

    /// Sends a packet after the call.
    pub fn transmit_async(&mut self, buf: Buf) {
        self.sent.put(buf);
    }

    /// Gives the packet back: an interrupt cannot wait.
    pub fn transmit_sync(&mut self, buf: Buf) -> WouldBlock {
        WouldBlock(buf)
    }
}
