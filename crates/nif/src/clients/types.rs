use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{ClientStats, DropReason, Order, Pool};

/// Names a client of a driver; never used again after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct ClientId(pub(super) u32);

/// Which packets a client gets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Type<T> {
    /// Those of one type.
    Of(T),
    /// Those of a type that no other client has.
    Default,
}

/// When a driver takes empty buffers from a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refill {
    /// In the interrupt, when a packet is there.
    Lazy,
    /// All of them when the client is registered; later ones come with [`give_rx`](crate::Driver::give_rx).
    Eager,
}

/// How a driver treats its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// When it takes empty buffers.
    pub refill: Refill,
    /// In which order it sends.
    pub order: Order,
    /// A packet that fills less than one in this number of its buffer is copied to a small one, if its client has one
    /// ([`Client::take_small`](crate::Client::take_small)); 0: never.
    pub copy_break: u32,
}

/// Why a client was not registered; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RegError {
    /// The type is that of another client.
    #[error("the type is taken by client {}", .by.0)]
    Taken {
        /// The client that has it.
        by: ClientId,
    },
    /// It has a thread pool without a thread.
    #[error("the client has a pool of 0 threads")]
    NoThreads,
    /// A tap can only look at packets.
    #[error("a tap must have the policy PeekOnly")]
    TapOwns,
}

/// What is strange about a client that was registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warning {
    /// It has empty buffers, and no use for them.
    UselessPool,
    /// It has no empty buffer: its packets are dropped until it gives one.
    EmptyPool,
}

/// A client that was registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registration {
    /// Its name.
    pub id: ClientId,
    /// What is strange about it.
    pub warning: Option<Warning>,
}

/// A client that is unregistered, with all that the driver had of it.
#[derive(Debug)]
#[must_use = "buffers are in it"]
pub struct Closed<C> {
    /// Its name.
    pub id: ClientId,
    /// It.
    pub client: C,
    /// Its buffers that the driver held: given for packets, or left by a panic.
    pub buffers: Pool,
    /// What it got.
    pub stats: ClientStats,
}

/// What became of a packet from the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A client was called with it.
    Delivered {
        /// The client.
        client: ClientId,
        /// The driver copied it.
        is_copied: bool,
    },
    /// It was dropped.
    Dropped {
        /// The client that it was for, if it is known.
        client: Option<ClientId>,
        /// Why.
        reason: DropReason,
    },
}

/// Buffers of one client that the driver holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Holdings {
    /// Empty, for its packets.
    pub posted: usize,
    /// Left by a panic.
    pub kept: usize,
    /// To be sent.
    pub queued: usize,
    /// Being sent.
    pub on_wire: usize,
}
