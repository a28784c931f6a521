//! Transport protocols as sans-I/O machines: METS source and sink ([`mets`]), TCP ([`tcp`]).

pub mod mets;
pub mod tcp;
