//! The vocabulary every Layercast crate shares: time, rates, flow specifications and QoS
//! policies, the sans-I/O [`Machine`] contract, seeded named randomness and typed observation.
//!
//! Nothing here touches a socket, a clock, a thread or global randomness.
//!
//! ```
//! use layercast_core::quantity::Quantity;
//! use layercast_core::{Rate, Span, Time};
//!
//! let rate = Rate::parse("100 Mbit/s").unwrap();
//! assert_eq!(rate.time_for(12_500), Span::from_ms(1));
//! assert_eq!(Time::ZERO + Span::from_ms(1), Time::from_ps(1_000_000_000));
//! ```

mod amplification;
mod cells;
mod contract;
mod data_class;
mod flow;
mod layer;
mod machine;
mod manage;
mod observe;
mod order;
mod policy;
mod prefetch;
mod qos_connection;
mod qos_event;
pub mod quantity;
mod ranges;
mod rate;
mod refusal;
mod rng;
mod serial;
mod time;

pub use amplification::{AMPLIFICATION_FACTOR, AddressBudget, AddressBudgets};
pub use cells::{AAL5_TRAILER, CELL_BITS, CELL_PAYLOAD, CELL_SIZE, aal5_cells};
pub use contract::{
    Answered, Contract, ContractError, Judged, Mediation, Parameter, Quality, Term, Zone,
};
pub use data_class::DataClass;
pub use flow::{
    Commitment, Composition, FlowId, FlowSpec, FrameRate, GroupId, LayerRate, Media, NodeId,
    SpecError,
};
pub use layer::{Layer, Level, LevelSet, PerLayer};
pub use machine::{Machine, PortId, earliest};
pub use manage::{
    GroupInfo, GroupState, LayerEntry, LeaveReason, QosOption, RequestId, Role, Status,
};
pub use observe::{
    AnyObserver, Cause, EndToEnd, JsonSeq, Observer, Off, Record, Subject, TraceEvent,
};
pub use order::{Who, mix};
pub use policy::{
    AdaptMode, Alarm, AlarmOp, FilterKind, MaintMode, Metric, OnPlenty, OnScarce, PolicyError,
    QosPolicy,
};
pub use prefetch::{prefetch, prefetch_between};
pub use qos_connection::QosConnection;
pub use qos_event::{QosAction, QosEvent, QosInfo, QosTransport};
pub use ranges::RangeSet;
pub use rate::{CellRate, Rate};
pub use refusal::{MeasuredLink, Refusal, Resource, Unit};
pub use rng::Stream;
pub use serial::{Newest, Numbered, Serial};
pub use time::{Span, Time};
