//! Repair of lost datagrams on one link, as two sans-I/O machines.
//!
//! The sending end ([`Repairer`]) numbers each datagram with a counter and keeps what it sent for a bounded time.
//! The receiving end ([`Requester`]) sees a loss as a gap in the counters and reports it in a [`Feedback`]. A repair
//! is the same content under a new counter, so a protected link never uses a nonce twice. The machines work on one
//! hop, with the round trip of that hop; a layer that a switch withholds has no counter and is never requested.
//!
//! Time is an argument, and datagrams are values of a type of the driver's choice, so the same machines run in the
//! simulator and on sockets. The page `docs/src/explanation/repair.md` explains the rules.

mod arrivals;
mod calm;
mod clock;
mod counters;
mod estimate;
mod group;
mod hearing;
mod message;
mod nominal;
mod parity;
mod parts;
mod path;
mod repairer;
mod requester;
mod seen;
mod stats;
mod way_back;

pub use clock::HopClock;
pub use group::{
    FEEDBACK_BPS, GroupConfig, GroupInput, GroupRepairer, GroupRequester, LEFT_ABOVE, MAX_HOLES,
    MAX_MEMBERS, MemberConfig, MemberId,
};
pub use message::{
    Arrival, Beacon, CONTENT_HEAD, Feedback, Head, HeadError, MAX_ARRIVALS, MAX_HEAD, MAX_RANGES,
    Missing, PARITY_HEAD, PART_HEAD, Parity, SHARED_HEAD, SPREAD, expand,
};
pub use parity::{Carried, Codec, MAX_BLOCKS, MAX_CONTENTS, MAX_KEPT, MAX_KEPT_OCTETS, MAX_OPEN};
pub use parts::{MAX_PARTS, Parts, split};
pub use path::{Beside, Needs, PathEstimate, PathSeen, Trunks};
pub use repairer::{
    MAX_HISTORY, MAX_HISTORY_OCTETS, MAX_QUEUED, Means, Outgoing, RepairConfig, Repairer,
    RepairerInput, Unit,
};
pub use requester::{MAX_GAPS, Requester, RequesterInput};
pub use seen::SPAN;
pub use stats::{LayerRepairs, RepairStats, RequestStats};
