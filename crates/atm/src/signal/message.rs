use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::policy::Service;
use crate::{AtmAddress, RejectCause, Tag, Vcid};

/// A call: its origin, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct CallId {
    /// The node that made the call.
    pub origin: AtmAddress,
    /// Its number among the calls of the origin.
    pub number: u32,
}

/// A message between neighbouring controllers (specs/insane-simulator.md 2.5).
///
/// Each message fits into the payload of one cell: the longest, a set-up, takes 45 octets (call 6, address 2, circuit
/// 2, tag 1, service 1 + 4 * 8 and its kind 1); the channel takes 2 more for kind and sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The call.
    pub call: CallId,
    /// The content.
    pub body: Body,
}

/// Content of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// Forward: requests a circuit.
    Setup(Setup),
    /// Backward: the circuit was set up.
    Connect,
    /// Backward: the circuit was refused or has failed.
    Reject(RejectCause),
    /// Forward: the circuit is released.
    Release,
}

/// Content of a set-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Destination of the circuit.
    pub to: AtmAddress,
    /// Service requested from each output queue.
    pub service: Service,
    /// Its tag: which conversations may use it.
    pub tag: Tag,
    /// Its number on the link that this message arrived on.
    pub vc: Vcid,
}

/// A cell of the channel between two neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalCell {
    /// A message.
    Data {
        /// Sequence number.
        seq: u8,
        /// The message.
        message: Message,
    },
    /// Acknowledges all messages before `seq`.
    Ack {
        /// The next expected sequence number.
        seq: u8,
    },
}

impl Ord for CallId {
    /// By origin, then number, in one comparison: maps of calls are searched for every message.
    #[inline]
    fn cmp(&self, other: &CallId) -> Ordering {
        let key = |call: &CallId| u64::from(call.origin.0) << 32 | u64::from(call.number);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for CallId {
    #[inline]
    fn partial_cmp(&self, other: &CallId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.origin, self.number)
    }
}
