//! Transport protocols as sans-I/O machines: METS source and sink ([`mets`]), TCP ([`tcp`]), XTP ([`xtp`]).

mod chain;
pub mod mets;
mod reassembly;
pub mod tcp;
pub mod xtp;
