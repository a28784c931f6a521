//! Studies: the link of the paper, its calls, and a policed source (specs/admission-control.md 2.1, 4).

mod calls;
mod fluid;
mod packets;
mod policing;
mod run;
mod series;
mod setting;

pub use policing::Policing;
pub use run::Run;
pub use series::Point;
pub use setting::{Algorithm, Declared, Peaks, Setting, StudyError, Switching};
