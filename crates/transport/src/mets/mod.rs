//! METS, the multimedia enhanced transport system: a [`Source`] turns media frames into shaped
//! packets, a [`Sink`] turns packets back into frames played at their deadline (specs/mets.md 2).
//!
//! ```text
//! submit -> scheduler -> numbering, layer mask -> packets -> shaper -> poll_transmit
//! handle -> reassembly -> frames -> jitter filter -> play-out in order -> poll_event
//! ```
//!
//! Both hold an end of the QoS adapter: the sink sends RES each era, the source answers with ADAPT
//! (specs/mets.md 2.11).

mod control;
mod feed;
mod frame;
mod identity;
mod log;
mod manage;
mod octets;
mod sink;
mod source;

pub use control::ControlError;
pub use feed::feed;
pub use frame::{AppFrame, PlayedFrame};
pub use log::{AdapterEntry, DelayQuantiles, FlowLog, ReceiverSummary, Sample};
pub use sink::{
    Awaited, CutStarts, DropStats, Explanation, Fate, LateMs, LevelReason, PlayoutConfig,
    RepairStats, Sink, SinkConfig, SinkEvent, SinkInput, SinkProtection, SinkStats, SinkTransmit,
};
pub use source::{
    HostPacer, ParityConfig, ParityConfigError, ParityStats, Redundancy, Shaping, Source,
    SourceConfig, SourceError, SourceEvent, SourceInput, SourceProtection, SourceStats,
    SourceTransmit, SubmitError, stagger,
};
