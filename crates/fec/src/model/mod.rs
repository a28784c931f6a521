//! What redundancy gains and costs, in closed form: the loss after decoding, the cost of reliable multicast to a star
//! and to any tree, timer-driven and selective transports, resequencing delay, and where in a tree to put codes
//! (specs/packet-level-fec.md 2.3 to 2.6; specs/where-to-use-fec.md).
//!
//! All is computed from complements (the chance that something is *not* there yet) and with `log1p` and `expm1`, so that
//! neither a million receivers nor a loss rate of 1e-12 costs digits. The functions of `libm` make the results the
//! same on every machine.

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
