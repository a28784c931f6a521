//! What a trace of traffic says of the model behind it: pages of the Web out of TCP connections, the two
//! states of video out of its packets (specs/insane-workloads.md 4; thesis, appendices A and B).

mod connection;
mod http;
mod stats;
mod video;

pub use connection::{Connection, ConnectionError};
pub use http::{Http, HttpOptions, Popularity, Sample, Selected, http};
pub use stats::{Line, Summary, Tail};
pub use video::{Packet, State, StateSummary, Video, VideoOptions, video};

#[cfg(test)]
mod tests;
