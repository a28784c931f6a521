//! Repair on a link to a multicast group: one [`GroupRepairer`] feeds several [`GroupRequester`]s.
//!
//! Members lose different datagrams. The sending end makes parities of what any of them lacks; each parity restores one
//! datagram at every member, whichever that member lacks.

mod holes;
mod member;
mod repairer;
mod requester;

pub use holes::MAX_HOLES;
pub use member::LEFT_ABOVE;
pub use repairer::{GroupConfig, GroupInput, GroupRepairer, MAX_MEMBERS, MemberId};
pub use requester::{FEEDBACK_BPS, GroupRequester, MemberConfig};
