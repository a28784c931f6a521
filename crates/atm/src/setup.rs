use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::policy::ConversationType;

/// A host or router on the ATM network: a small number (specs/insane-simulator.md 2.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AtmAddress(pub u16);

/// For whom an idle circuit may be used again: only for one with the same tag (specs/insane-study.md 2.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tag {
    /// Anybody: without QoS all circuits are equal.
    Any,
    /// Conversations of this type.
    Type(ConversationType),
    /// Those who were refused what they asked for: it is a best-effort circuit.
    Fallback,
}

/// Why a circuit was not set up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Error)]
pub enum RejectCause {
    /// A queue on the way has too little left at this delay level.
    #[error("no capacity at level {0}")]
    Capacity(u8),
    /// The contract contradicts itself, or asks for less delay than any level has.
    #[error("the contract cannot be kept by any level")]
    Contract,
    /// A link on the way has no free circuit number.
    #[error("no free circuit number")]
    NoVcid,
    /// No route to the address.
    #[error("unknown destination")]
    UnknownDestination,
    /// The signalling channel of a link on the way is full.
    #[error("too many signalling messages wait")]
    Congested,
    /// No answer in time.
    #[error("no answer in time")]
    Timeout,
}

impl fmt::Display for AtmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
