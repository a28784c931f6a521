//! A network interface framework (specs/network-interface-framework.md): several subsystems share an adapter without a queue,
//! a software interrupt or a copy between them, and without a way to starve one another.
//!
//! A [`Driver`] finds the [`Client`] of each packet and calls it in the interrupt. A client gets a packet in a [`Buf`] only
//! against an empty one that it gave, so that a client that is slow loses its own packets and no other's. [`cpu::Cpu`] is the
//! processor that all of that runs on.

#![allow(unexpected_cfgs, reason = "loom is no configuration that cargo knows")]

mod buf;
mod client;
mod clients;
pub mod cpu;
mod credit;
mod driver;
mod pool;
mod ring;
mod shepherd;
mod stats;
pub mod study;
mod sync;
mod transmit;
mod vc;

pub use buf::{Buf, Memory, OutOfMemory, TooLong};
pub use client::{Action, Client, Delivery, IrqCtx, Policy, Ticket, TxResult, WouldBlock};
pub use clients::{
    ClientId, Closed, Config, Holdings, Outcome, Refill, RegError, Registration, Type, Warning,
};
pub use credit::max_min;
pub use driver::{Driver, Hardware};
pub use pool::Pool;
pub use ring::{EtherType, Ring, RingDriver, SlotDriver, classify};
pub use shepherd::Shepherd;
pub use stats::{ClientStats, DropReason, Drops, Stats};
pub use transmit::Order;
pub use vc::{Circuits, Vc, VcDriver};
