//! Closed-form models of redundancy: loss after decoding, cost of reliable multicast to a star and to any tree,
//! transports with timers and with selective acknowledgements, resequencing delay, and placement of codes in a tree
//! (specs/packet-level-fec.md 2.3 to 2.6; specs/where-to-use-fec.md).
//!
//! All values are computed from complements (the probability that something is *not* yet there) with `log1p` and
//! `expm1`, so that they stay accurate for a million receivers and for loss rates of 1e-12. The functions of `libm`
//! give the same results on every machine.

mod numeric;
mod placement;
mod reseq;
mod star;
mod transport;
mod tree;
mod tree_file;

pub use placement::{Effect, Plan, PlanError, Ranked, plan};
pub use reseq::{Resequencing, reseq};
pub use star::{CostKind, cost, expected, integrated, residual, residual_cost};
pub use transport::{sack_efficiency, tcp_efficiency};
pub use tree::{Branch, Tree, TreeError};
pub use tree_file::{TreeFile, TreeFileError};
