//! Source and sink of METS as sans-I/O machines ([`mets`]).

pub mod mets;
