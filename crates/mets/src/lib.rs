//! METS, the multimedia enhanced transport system (specs/mets.md).
//!
//! A [`Source`] turns media frames into shaped packets, a [`switch::Switch`] copies them to the branches that may have
//! their layer, a [`Sink`] turns packets back into frames played at their deadline:
//!
//! ```text
//! submit -> scheduler -> numbering, layer mask -> packets -> shaper -> poll_transmit
//! handle -> reassembly -> frames -> jitter filter -> play-out in order -> poll_event
//! ```
//!
//! All three hold a part of the QoS adapter: the sink sends RES each era, switches merge it, the source answers with ADAPT
//! (specs/mets.md 2.11).
//!
//! A [`Station`] holds the machines of one node: a switch with the sources on its inner side, or the sinks of a host on
//! its one link, with the pacer and the costs of the host. It moves what they say to one another. A driver gives it
//! the input of its links and sends its output: `sim` in virtual time, `net` on sockets.

mod control;
mod feed;
mod frame;
mod groups;
mod heard_clock;
mod host;
mod identity;
mod log;
mod manage;
mod measure;
mod negotiation;
mod octets;
mod played_stream;
mod route;
mod sink;
mod source;
mod station;
pub mod switch;

/// By how much the era of an ADAPT may differ from that of the last one without a second one that confirms it: after three eras of
/// silence any era is taken, and a source sends some ADAPTs in an era.
const ERAS_AHEAD: u32 = 64;

pub use control::ControlError;
pub use feed::feed;
pub use frame::{AppFrame, PlayedFrame};
pub use heard_clock::HeardClock;
pub use host::{HostConfig, SentCells, circuit};
pub use log::{AdapterEntry, AgreedEntry, DelayQuantiles, FlowLog, ReceiverSummary, Sample};
pub use negotiation::group_level;
pub use played_stream::{PlayedStream, StreamKind};
pub use sink::{
    Awaited, CutStarts, DropStats, Explanation, Fate, LateMs, LevelReason, PlayoutConfig,
    RepairStats, Sink, SinkConfig, SinkEvent, SinkInput, SinkProtection, SinkStats, SinkTransmit,
};
pub use source::{
    HostPacer, ParityConfig, ParityConfigError, ParityStats, Redundancy, Shaping, Source,
    SourceConfig, SourceError, SourceEvent, SourceInput, SourceProtection, SourceStats,
    SourceTransmit, SubmitError, stagger,
};
pub use station::{Part, Station, StationConfig, StationEvent, StationStats};

/// The input of a station: it has the links of a switch.
pub type StationInput = switch::SwitchInput;
/// The output of a station: PDUs and signals on its links.
pub type StationTransmit = switch::SwitchTransmit;
