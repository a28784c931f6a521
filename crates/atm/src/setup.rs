use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::policy::ConversationType;

/// Address of a host or router on the ATM network: a small number (specs/insane-simulator.md 2.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AtmAddress(pub u16);

/// Tag of a circuit: an idle circuit is reused only with the same tag (specs/insane-study.md 2.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tag {
    /// Any conversation: without QoS all circuits are equal.
    Any,
    /// Conversations of this type.
    Type(ConversationType),
    /// Conversations whose request was refused: the circuit is best effort.
    Fallback,
}

/// Reason why a circuit was not set up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Error)]
pub enum RejectCause {
    /// A queue on the path has insufficient capacity at this delay level.
    #[error("no capacity at level {0}")]
    Capacity(u8),
    /// The contract is invalid, or requires a shorter delay than any level provides.
    #[error("no delay level can meet the contract")]
    Contract,
    /// A link on the path has no free circuit number.
    #[error("no free circuit number")]
    NoVcid,
    /// No route to the address.
    #[error("unknown destination")]
    UnknownDestination,
    /// The signalling channel of a link on the path is full.
    #[error("the signalling channel is full")]
    Congested,
    /// There was no answer in time.
    #[error("no answer in time")]
    Timeout,
}

impl fmt::Display for AtmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
