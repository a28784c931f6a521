//! Groups: one sender, a tree, and any number of receivers, which are the machines of `layercast-multicast`
//! themselves; with losses on each link, processors and socket buffers of hosts, and codes on parts of the tree
//! (specs/fully-reliable-multicast.md, specs/rmtp-large-scale.md, specs/where-to-use-fec.md 2.5).
//! docs/src/reference/multicast-simulator.md is the manual.

mod config;
mod counts;
mod cross;
mod edge;
mod ends;
mod host;
mod item;
mod link;
mod member;
mod names;
mod net;
mod report;
pub mod scenario;
mod speaker;
mod stream;
mod tree;
mod turns;
mod world;

pub use config::{Content, Fault, FaultKind, Group, Invited};
pub use counts::{Feedback, Note, Pass};
pub use cross::{CrossCount, CrossSpec, CrossSummary};
pub use edge::{EdgeCount, EdgeSpec};
pub use host::{Costs, HostSpec};
pub use link::LinkCount;
pub use report::{
    Cpu, FeedbackSummary, GroupSummary, LinkSummary, MemberSummary, Outcomes, Quantiles, Received,
    Sent,
};
pub use speaker::AggregatorCount;
pub use stream::StreamCount;
pub use tree::{Branch, LinkSpec, Loss, count, receivers};
pub use world::{GroupError, GroupProgress, Simulation};
