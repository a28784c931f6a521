//! Live input: from time stamps to a timeline, and from a look at the stream to a flow specification.

mod clock;
mod detect;
mod gop;
mod ingest;
mod load;
mod meter;
mod pace;
mod stamp;

pub use clock::{BreakCause, LiveClock, Restart};
pub use gop::{GopWatch, LONG_GOP, LongGop};
pub use ingest::{Ingest, IngestStats, InputLoss};
pub use load::{LiveLoad, LoadReport, Overload};
pub(crate) use meter::keep_order;
pub use meter::{Estimate, SpecMeter};
pub use pace::{PaceChange, PaceMeter, TOO_SLOW};
pub(crate) use stamp::{HZ, Timed, on_a_timeline, share_of, span_of};
pub use stamp::{MediaTimeline, Stamp, TimedFrame};
