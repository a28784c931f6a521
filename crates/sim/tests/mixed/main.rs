//! METS nodes in internetworks, beside TCP, UDP, programs, on links, LANs and a backbone.

mod beside;
mod common;
mod conservation;
mod errors;
mod same;
