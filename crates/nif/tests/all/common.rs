//! A client whose behaviour a test chooses.

use layercast_core::{Span, Time};
use layercast_nif::{
    Buf, Client, Delivery, DropReason, IrqCtx, Memory, Outcome, Policy, Pool, TxResult,
};

/// A client that keeps what it gets.
#[derive(Debug)]
pub struct Probe {
    pub policy: Policy,
    pub empty: Pool,
    pub small: Pool,
    pub full: Pool,
    pub sent: Pool,
    /// The packets, as they were when they came.
    pub seen: Vec<Vec<u8>>,
    pub results: Vec<TxResult>,
    pub threads: Option<usize>,
    pub priority: f64,
    /// What it does in `receive`, after it has looked at the packet.
    pub then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    Keep,
    /// It gives the buffer back.
    Give,
    /// It sends the packet back.
    Echo,
    /// It tries to wait until the packet is sent.
    Wait,
    /// It drops the packet.
    Leak,
    Panic,
}

impl Probe {
    pub fn new(policy: Policy) -> Probe {
        Probe {
            policy,
            empty: Pool::new(),
            small: Pool::new(),
            full: Pool::new(),
            sent: Pool::new(),
            seen: Vec::new(),
            results: Vec::new(),
            threads: None,
            priority: 0.0,
            then: Then::Keep,
        }
    }

    /// With buffers that the adapter can reach.
    pub fn with(mut self, memory: &Memory, count: usize, len: usize) -> Probe {
        (0..count).for_each(|_| self.empty.put(memory.dma(len).unwrap()));
        self
    }

    pub fn and(mut self, then: Then) -> Probe {
        self.then = then;
        self
    }

    /// Buffers that it has.
    pub fn held(&self) -> usize {
        self.empty.len() + self.small.len() + self.full.len() + self.sent.len()
    }

    /// It is done with the packet that came first.
    pub fn recycle(&mut self, now: Time) -> bool {
        let Some(mut buf) = self.full.take() else {
            return false;
        };
        buf.empty(now);
        self.empty.put(buf);
        true
    }
}

impl Client for Probe {
    fn policy(&self) -> Policy {
        self.policy
    }

    fn receive(&mut self, _: Time, packet: Delivery<'_>, ctx: &mut IrqCtx<'_>) {
        let buf = match packet {
            Delivery::Owned(buf) => buf,
            Delivery::Loan(buf) => {
                self.seen.push(buf.data().unwrap().to_vec());
                assert_ne!(self.then, Then::Panic, "on purpose");
                return;
            }
        };
        self.seen.push(buf.data().unwrap().to_vec());
        ctx.charge(Span::from_us(1));
        match self.then {
            Then::Keep => self.full.put(buf),
            Then::Give => ctx.give_rx(buf),
            Then::Echo => ctx.transmit_async(buf),
            Then::Wait => self.full.put(ctx.transmit_sync(buf).0),
            Then::Leak => drop(buf),
            Then::Panic => panic!("on purpose, with {} octets", buf.cur_len()),
        }
    }

    fn take_empty(&mut self) -> Option<Buf> {
        self.empty.take()
    }

    fn put_empty(&mut self, buf: Buf) {
        self.empty.put(buf);
    }

    fn take_small(&mut self, _: usize) -> Option<Buf> {
        self.small.take()
    }

    fn empties(&self) -> usize {
        self.empty.len()
    }

    fn tx_done(&mut self, buf: Buf, result: TxResult) {
        self.results.push(result);
        self.sent.put(buf);
    }

    fn tx_priority(&self, packet: &Buf) -> f64 {
        assert!(packet.cur_len() != 13, "on purpose");
        self.priority
    }

    fn threads(&self) -> Option<usize> {
        self.threads
    }
}

pub const IP: u16 = 0x0800;
pub const ARP: u16 = 0x0806;

/// An Ethernet frame of a type with this payload.
pub fn frame(ty: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend(ty.to_be_bytes());
    frame.extend(payload);
    frame
}

pub fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_ms(n)
}

/// Why a packet was dropped.
pub fn dropped(outcome: Outcome) -> DropReason {
    match outcome {
        Outcome::Dropped { reason, .. } => reason,
        Outcome::Delivered { .. } => panic!("{outcome:?}"),
    }
}
