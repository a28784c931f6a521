//! The synchronicity index: can a path carry a real-time service now?
//!
//! A sender emits small probes exactly each `T`. A path with free capacity delivers them at the same spacing, a loaded one
//! destroys it. The receiver computes the standard deviation of the inter-arrival times in windows of `m`, and of `n` such
//! values a low percentile, xi: milliseconds, not a rate (F. Davoli, O. Khan, P. Maryni, *Estimating the available bandwidth
//! for real-time traffic over best effort networks*, PfHSN 1996; specs/available-bandwidth.md).
//!
//! ```text
//! ProbeSender --train--> path --> ProbeReceiver: Estimator --Outcome--> AdmissionGate, RateController, EstimateServer
//! ```
//!
//! All are sans-I/O: after each call drain `poll_transmit` and `poll_event`, then ask `next_timeout`.
//!
//! ```
//! use layercast_core::{Span, Time};
//! use layercast_sync_index::{Arrival, Estimator, EstimatorConfig, Event, Numbers, Outcome, ServiceMap};
//!
//! let period = Span::from_ms(10);
//! let mut estimator = Estimator::new(EstimatorConfig::default(), period, Numbers::Long)?;
//! for seq in 0..=300 {
//!     // Each second packet is 4 ms late.
//!     let late = Span::from_ms(if seq % 2 == 0 { 0 } else { 4 });
//!     let at = Time::ZERO + period.times(seq.into()) + late;
//!     estimator.arrive(Arrival::new(at, seq));
//! }
//! let outcome = std::iter::from_fn(|| estimator.poll_event())
//!     .find_map(|event| match event {
//!         Event::Outcome(outcome) => Some(outcome),
//!         _ => None,
//!     })
//!     .expect("one block");
//! let xi = outcome.estimate().expect("an index").xi_ms;
//! assert!((xi - 4.2).abs() < 0.1);
//! let services = ServiceMap::default();
//! let video = &services.service[0];
//! assert_eq!(video.level[video.grade(&outcome)?].name, "best");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calibrate;
mod config;
mod estimator;
mod inband;
mod outcome;
pub mod pdu;
mod publish;
mod queue;
mod receiver;
mod seen;
pub mod selfsim;
mod sender;
mod service;
pub mod study;

pub use calibrate::{CalibrationError, Run, calibrate};
pub use config::{
    ConfigError, EstimatorConfig, Filter, Format, MOST_LAGS, MOST_WINDOWS, Mode, PERIODS,
    ProbeConfig, check_period,
};
pub use estimator::{Arrival, Counters, Estimator, Event, Numbers, Window};
pub use inband::RtpTrain;
pub use outcome::{Estimate, LOSSY, NO_SIGNAL, Outcome, OutcomeKind};
pub use pdu::ProbeError;
pub use publish::{EstimateServer, Record};
pub use receiver::{CloseCause, Ignored, MOST_SENDERS, ProbeReceiver, ReceiverEvent};
pub use sender::{CALL_EVERY, ProbeSender, SILENCE, SenderEvent, SenderStats, TRIES};
pub use service::{
    AdmissionGate, GateEvent, RateController, Refusal, Service, ServiceError, ServiceLevel,
    ServiceMap,
};
