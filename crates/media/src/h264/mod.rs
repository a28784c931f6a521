//! H.264 (ITU-T Rec. H.264 | ISO/IEC 14496-10) in Annex B form: access units, their layers, and what a
//! receiver of some of the layers writes.

pub(crate) mod annexb;
mod layers;
mod params;
mod references;
pub(crate) mod stream;
mod tail;
mod writer;

pub(crate) use annexb::nals;
pub(crate) use layers::{Inspector, Order, Slice, UnitInfo, early_slice};
pub(crate) use references::{Missing, References};
pub(crate) use stream::{Cutter, Unit, behind_delimiter};
pub use writer::H264Writer;

/// `nal_unit_type` (table 7-1), as far as it matters here.
pub(crate) mod nal {
    pub const SLICE: u8 = 1;
    pub const PARTITION_A: u8 = 2;
    pub const PARTITION_C: u8 = 4;
    pub const IDR: u8 = 5;
    pub const SEI: u8 = 6;
    pub const SPS: u8 = 7;
    pub const PPS: u8 = 8;
    pub const DELIMITER: u8 = 9;
    pub const END_OF_SEQUENCE: u8 = 10;
    pub const END_OF_STREAM: u8 = 11;
    pub const FILLER: u8 = 12;
    pub const PREFIX: u8 = 14;
    pub const RESERVED_18: u8 = 18;
    /// A slice of a scalable or multiview extension.
    pub const EXTENSION: u8 = 20;

    /// Whether other pictures refer to the picture of a NAL unit (`nal_ref_idc`).
    pub fn is_reference(nal: &[u8]) -> bool {
        nal.first().is_some_and(|byte| byte & 0x60 != 0)
    }

    /// The type in the first byte of a NAL unit.
    pub fn kind(nal: &[u8]) -> u8 {
        nal.first().map_or(0, |byte| byte & 31)
    }
}
