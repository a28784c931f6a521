//! Transport protocols as sans-I/O machines: METS source and sink ([`mets`]).

pub mod mets;
