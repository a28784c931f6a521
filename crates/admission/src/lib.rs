//! Measurement-based admission control: a link promises "at most 0.1 % of the bits later than 16 ms over 12 h", and
//! calls declare a peak rate.
//!
//! [`Mbac`] admits a call if the measured rate and its declared peak fit on the link. The rate is the maximum over a
//! window. Two levels of control set the window: it grows once the rate reaches a trigger, and the trigger follows
//! the share of late bits (C. Casetti, J. Kurose, D. Towsley, A New Algorithm for Measurement-based Admission Control in
//! Integrated Services Packet Networks, PfHSN 1996; specs/admission-control.md). The same machine has the algorithm
//! that the paper extends ([`MbacConfig::jdsz`]), and for comparison the rules of Floyd and of Gibbens and Kelly.
//!
//! # Driving the machine
//!
//! [`Mbac`] is sans-I/O. The driver reports what enters and leaves the queue of the link ([`Mbac::on_arrival`],
//! [`Mbac::on_transmit`]), calls [`Mbac::handle_timeout`] at [`Mbac::poll_timeout`], and drains [`Mbac::poll_event`].
//! At one instant a sample ends before a window, and both before a request is tested. A driver may be late: all that
//! is due is done in order at the next call.
//!
//! ```
//! use layercast_admission::{CallId, Decision, Mbac, MbacConfig, Reason, TSpec};
//! use layercast_core::{Rate, Span, Time};
//!
//! let link = Rate::from_bps(10_000_000);
//! let mut mbac = Mbac::new(MbacConfig::new(link), Time::ZERO)?;
//! let call = |call| CallId { path: 0, call };
//! // Two calls declare 6 Mbit/s each: the second is refused while nothing is measured.
//! let spec = TSpec::peak(Rate::from_bps(6_000_000))?;
//! assert!(matches!(mbac.request(Time::ZERO, call(1), &spec)?, Decision::Admit { .. }));
//! let Decision::Reject(why) = mbac.request(Time::ZERO, call(2), &spec)? else { panic!() };
//! assert_eq!((why.reason, why.headroom), (Reason::Rate, Rate::from_bps(4_000_000)));
//! // The first one sends 1 Mbit/s. After a window both fit.
//! for sample in 1..=2 {
//!     let now = Time::ZERO + Span::from_ms(500 * sample);
//!     mbac.on_arrival(now, 500_000, false);
//!     mbac.on_transmit(now, 500_000);
//!     mbac.handle_timeout(now);
//! }
//! let now = Time::ZERO + Span::from_secs(1);
//! assert!(matches!(mbac.request(now, call(2), &spec)?, Decision::Admit { .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`study`] has the link of the paper as a fluid, and a version with packets.

mod config;
mod delay;
mod descriptor;
mod event;
mod levels;
mod machine;
mod measure;
mod promise;
pub mod study;

pub use config::{
    Arithmetic, ConfigError, DelayTest, Estimator, Levels, MbacConfig, Now, Promise, Rule,
};
pub use descriptor::{OnOff, TSpec, TSpecError};
pub use event::{
    CallError, CallId, Counts, Decision, Event, Outcome, Reason, Rejection, Report, Size, Why,
};
pub use machine::Mbac;
