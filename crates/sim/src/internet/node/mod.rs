//! What nodes hold: TCP, XTP, METS nodes and real programs.
//!
//! Each takes the [medium](super::medium) and no more of the world; what its users have to know it returns.

pub(super) mod external;
mod icmp;
pub(super) mod mets;
mod stream;
pub(super) mod tcp;
pub(super) mod xtp;
