//! An ATM network as sans-I/O machines: buffers and schedulers of switch ports, traffic contracts, admission,
//! signalling, and the mapping of IP to circuits.
//!
//! Specifications: specs/insane-simulator.md 2.4 to 2.6, specs/insane-study.md 2 and specs/vbr-atm-lan.md 2. A cell
//! of this crate is a small value that identifies its frame, without the 48 octets (cells on the wire are
//! `wire::Cell`).

mod admission;
mod cell;
mod cell_contract;
mod contract;
mod gcra;
mod level;
pub mod mapper;
pub mod policy;
mod queue;
mod reassembly;
mod ring;
mod run;
mod runs;
mod setup;
mod shaper;
mod share_policer;
mod shared;
pub mod signal;
mod train;
mod upc;

pub use admission::{Admission, AdmissionError, Reservation};
pub use cell::{Cell, CellFlags, FrameId, Vcid};
pub use cell_contract::{CellContract, CellContractError, Conformance, Peak, Sustained};
pub use contract::{Class, Contract, ContractError, TrafficSpec};
pub use gcra::{Gcra, burst_size, burst_tolerance};
pub use mapper::FlowMapper;
pub use queue::{
    ClassStats, Departures, Discard, Discipline, DropCause, Dropped, Drops, OutputQueue,
    QueueConfig, QueueConfigError, QueueStats, RunQueue,
};
pub use reassembly::{Outcome, Reassembler, ReassemblyStats};
pub use run::Run;
pub use runs::Runs;
pub use setup::{AtmAddress, RejectCause, Tag};
pub use shaper::{CellShaper, TaggingShaper, TickedShaper};
pub use share_policer::{ClassShares, SharePolicer, SharesError};
pub use shared::{
    Arrival, Begins, ClassDiscipline, Held, SharedBuffer, SharedBufferConfig, SharedBufferError,
    SharedClassStats, SharedPolicy, Taken,
};
pub use signal::Controller;
pub use train::{Train, cells_of_packet, steady_cells};
pub use upc::{Exceeded, ExclpAction, ExclpError, FramePolicing, Upc, UpcStats, Verdict};
