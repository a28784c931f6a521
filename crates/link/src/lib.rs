//! A link as sans-I/O machines.
//!
//! A [`Queue`] precedes a line: it discards by layer or by class, marks congestion and knows when each unit leaves. A
//! [`Link`] connects two ports: delay, jitter, loss and duplicates. A [`LinkRepair`] is one end of a link whose lost
//! datagrams are sent again. A [`Path`] is a queue and a link for datagrams of any kind. What the hosts at the ends cost is in
//! [`host`].
//!
//! ```
//! use layercast_core::{Machine, Off, Rate, Span, Time};
//! use layercast_link::{Path, PathConfig, PathDatagram};
//!
//! // 1000 octets through a bottleneck of 1 Mbit/s.
//! let config = PathConfig { rate: Some(Rate::from_bps(1_000_000)), ..PathConfig::default() };
//! let mut path = Path::new(config, 1, "there").unwrap();
//! path.handle(Time::ZERO, PathDatagram { item: "media", wire_len: 1_000, congestion: false }, &mut Off);
//! let (at, arrived) = loop {
//!     let at = path.next_timeout().unwrap();
//!     path.on_timeout(at, &mut Off);
//!     if let Some(arrived) = path.poll_transmit(at, &mut Off) {
//!         break (at, arrived);
//!     }
//! };
//! assert_eq!((at, arrived.item), (Time::ZERO + Span::from_ms(8), "media"));
//! ```

mod awaiting;
mod by_class;
mod clock;
mod config;
pub mod host;
mod impair;
mod link;
mod loss;
mod measured;
mod outages;
mod path;
mod queue;
mod repair;
mod schedule;

pub use awaiting::Awaiting;
pub use clock::{clock_hop, clock_report};
pub use config::{ConfigError, Discard, PortStats, QueueConfig};
pub use impair::{Fate, Impair, Jitter, LinkConfig};
pub use link::{Link, LinkInput, LinkStats};
pub use loss::{Loss, LossProcess};
pub use measured::{LatePromise, Measured, MeasuredStats, News, Reservation};
pub use outages::Outages;
pub use path::{Path, PathConfig, PathDatagram, PathStats};
pub use queue::{Carried, Departure, FrameFate, Queue, Unit};
pub use repair::{
    ADAPTER_LASTS, Framed, LinkRepair, LinkRepairStats, RepairEnd, RepairRole, SHARE_BUDGETS,
    carried, compare_paths, octet_codec, pdu_codec, share_budgets,
};
pub use schedule::{RateSchedule, RateStep};
