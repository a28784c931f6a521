//! AV1 (AV1 Bitstream & Decoding Process Specification): temporal units, and the layers that their OBU headers and frame
//! headers show.

pub(crate) mod classes;
mod config;
mod header;
mod layers;
mod obu;
pub(crate) mod stream;

pub use config::{Av1Config, av1_sample};
pub(crate) use header::State;
pub(crate) use layers::{Layers, Unit, sequence_of};
pub(crate) use obu::{Head, Obu, is_annex_b, is_section_5, kind, leb128, obus, put_leb128};
