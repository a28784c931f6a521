use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::policy::Service;
use crate::{AtmAddress, RejectCause, Tag, Vcid};

/// A call: who made it, and the number it has there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct CallId {
    /// Whose call it is.
    pub origin: AtmAddress,
    /// Its number among the calls of the origin.
    pub number: u32,
}

/// What neighbouring controllers tell each other (specs/insane-simulator.md 2.5).
///
/// Each fits into the payload of one cell: the longest, a set-up, takes 45 octets (call 6, address 2,
/// circuit 2, tag 1, service 1 + 4 * 8 and its kind 1), the channel 2 more for kind and sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The call it is about.
    pub call: CallId,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// Forward: a circuit is wanted.
    Setup(Setup),
    /// Backward: it is there.
    Connect,
    /// Backward: it is not, or no longer.
    Reject(RejectCause),
    /// Forward: it is not wanted any more.
    Release,
}

/// What a set-up asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Where the circuit ends.
    pub to: AtmAddress,
    /// What it asks of each output queue.
    pub service: Service,
    /// Who may use it.
    pub tag: Tag,
    /// Its number on the link this message came by.
    pub vc: Vcid,
}

/// A cell of the channel between two neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalCell {
    /// A message.
    Data {
        /// Its place in the sequence.
        seq: u8,
        /// The message.
        message: Message,
    },
    /// All before `seq` has arrived.
    Ack {
        /// The next that is expected.
        seq: u8,
    },
}

impl Ord for CallId {
    /// By origin, then number: one comparison, as maps of calls are searched for every message.
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
