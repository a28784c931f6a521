//! Reliable multicast as one sans-I/O engine: FRM, RMTP and Layercast's own profile are policies of the same machine.
//!
//! ```text
//! solicit -> collect until a deadline -> evaluate the list of receivers -> act -> next round
//! ```
//!
//! A [`Sender`] of an object reads its packets from a [`Source`]; a [`Receiver`] writes them to a [`Store`]. Both may
//! be files, memory, or empty ([`Virtual`], [`VirtualStore`]: for simulations of many receivers).
//!
//! # Driving a machine
//!
//! ```text
//! start(now)                       the sender announces its session
//! handle(now, from, &packet, obs)  a packet came; `from` is the driver's number of the address it came from
//! on_timeout(now, obs)             at or after poll_timeout()
//! poll_transmit(now, obs)          after each of these, until None: packet and destination
//! poll_event()                     after each of these, until None
//! poll_timeout()                   then: when to come back; an instant in the past means at once
//! ```
//!
//! - [`Peer`] numbers are chosen by the driver, one for each address. [`To::One`] is sent there, [`To::Group`] to the
//!   multicast address or to each receiver in turn, [`To::Side`] to a second multicast address, or like `Group` where
//!   there is none.
//! - Data leaves at the configured rate: `poll_transmit` returns `None` until it is due. A driver that cannot send
//!   does not call it, but keeps calling `on_timeout`.
//! - Packets are values; `layercast_wire::multicast` encodes them. The driver drops packets that do not decode.
//! - `now` never goes backwards.
//! - `obs` is an [`Observer`](layercast_core::Observer) of packets, drops and their causes, states and decisions;
//!   there is no observation with [`Off`](layercast_core::Off). Calls without an observer are reported by the next
//!   call with one.

mod aggregator;
mod bits;
mod coding;
mod config;
mod content;
mod event;
mod geometry;
mod measure;
mod memory;
pub mod model;
mod peer;
mod policy;
mod profile;
mod receipt;
mod receiver;
mod roster;
mod sender;
mod watch;

pub use aggregator::{Aggregator, AggregatorConfig, AggregatorStats, Summary};
pub use bits::Bits;
pub use coding::{ParityMaker, Rebuilder};
pub use config::{ConfigError, SenderConfig};
pub use content::{ContentError, Rebuilt, Source, Store, Verdict, Virtual, VirtualStore};
pub use event::{
    Delivery, Failure, Outcome, ReceiverEvent, ReceiverStats, SenderEvent, SenderStats,
};
pub use geometry::Geometry;
pub use memory::{Memory, MemoryStore};
pub use peer::{Peer, To, Transmit};
pub use policy::{
    Completion, Deadline, Members, Monitor, Opening, RateControl, Repair, Schedule, Silence,
    Trigger, Weak,
};
pub use receipt::{announcement_key, member_key};
pub use receiver::{Limits, Receiver, ReceiverConfig};
pub use sender::{SendError, Sender};
