//! One monitor of quality of service for every transport (Zitterbart, User-to-User QoS, PfHSN 1996).
//!
//! ```text
//! protocol -> QosEvent -> Producer | ring | Consumer -> Monitor -> Signal, Report
//!                             \-- request line --/
//! ```
//!
//! A protocol reports [`QosEvent`]s. They go through a ring of its own, or directly, to a [`Monitor`]: a state machine that
//! measures throughput, delay, jitter and errors of each connection and direction over short windows, compares them with the
//! [`Contract`] and signals when a [`Zone`] changes. See docs/src/specs/user-to-user-qos.md.
//!
//! ```
//! use layercast_core::{QosAction, QosEvent, Span, Time};
//! use layercast_monitor::{Contract, Direction, Monitor, MonitorConfig, Term, Zone};
//!
//! let mut monitor = Monitor::new(MonitorConfig::default()).unwrap();
//! let open = QosEvent::new(7, QosAction::Open, QosEvent::OUT, Time::ZERO);
//! monitor.handle_event(Time::ZERO, &open);
//! let contract = Contract { throughput: Some(Term::agreed(8_000.0)), ..Contract::default() };
//! monitor.set_contract(Time::ZERO, 7, Direction::Out, contract).unwrap();
//! for n in 1..=8 {
//!     let now = Time::ZERO + Span::from_ms(100 * n);
//!     monitor.handle_event(now, &QosEvent::new(7, QosAction::Sent, QosEvent::OUT, now).packet(100, 100, 100 * n));
//! }
//! monitor.on_timeout(Time::ZERO + Span::from_ms(1_001));
//! let signal = monitor.poll_signal().unwrap();
//! assert_eq!((signal.zone_to, signal.measured), (Zone::Red, 6_400.0));
//! ```

#![allow(unexpected_cfgs, reason = "loom is no configuration that cargo knows")]

mod comparison;
mod connection;
mod delay;
mod descriptor;
mod direction;
mod errors;
mod line;
mod monitor;
mod observe;
mod report;
mod ring;
mod signals;
pub mod study;
mod sync;
mod window;

pub use comparison::Comparison;
pub use delay::Method;
pub use descriptor::{Descriptor, LossReport, RttSource, SeqUnit};
pub use direction::Direction;
pub use layercast_core::{Contract, ContractError, Parameter, Term, Zone};
pub use layercast_core::{QosAction, QosEvent, QosInfo};
pub use line::{RequestLine, Rule};
pub use monitor::{Monitor, MonitorConfig, MonitorConfigError, MonitorCounts};
pub use observe::{Watched, Watching, WatchingError};
pub use report::{
    Compared, ConnectionCounts, ConnectionReport, DelayReport, DirectionReport, WindowReport,
};
pub use ring::{CAPACITY, Consumer, Producer, RingError, ring};
pub use signals::Signal;
