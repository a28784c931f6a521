//! Transport protocols as sans-I/O machines: METS source and sink ([`mets`]), TCP ([`tcp`]), XTP ([`xtp`]).

mod chain;
mod line;
pub mod mets;
mod reassembly;
mod slots;
pub mod tcp;
pub mod xtp;
