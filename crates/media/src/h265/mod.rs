//! H.265 (ITU-T Rec. H.265 | ISO/IEC 23008-2) in Annex B form: access units, their layers by their NAL unit headers
//! (7.4.2.2), and what a receiver of some of the layers writes.

mod layers;
mod params;
mod references;
pub(crate) mod stream;
mod writer;

pub(crate) use layers::{Layers, Unit, picture_of};
pub(crate) use params::{Slice, codec_parameter, size_in};
pub(crate) use references::References;
pub(crate) use stream::{AccessUnit, Cutter};
pub(crate) use writer::H265Writer;

/// `nal_unit_type` (table 7-1), as far as it matters here.
pub(crate) mod nal {
    pub const RASL_N: u8 = 8;
    pub const RASL_R: u8 = 9;
    /// Types up to this one are even if no picture of the same temporal layer refers to them.
    pub const LAST_NON_REFERENCE: u8 = 14;
    pub const FIRST_IRAP: u8 = 16;
    pub const IDR_W_RADL: u8 = 19;
    pub const IDR_N_LP: u8 = 20;
    pub const LAST_IRAP: u8 = 23;
    pub const LAST_PICTURE: u8 = 31;
    pub const VPS: u8 = 32;
    pub const SPS: u8 = 33;
    pub const PPS: u8 = 34;
    pub const DELIMITER: u8 = 35;
    pub const END_OF_SEQUENCE: u8 = 36;
    pub const END_OF_STREAM: u8 = 37;
    pub const FILLER: u8 = 38;
    pub const PREFIX_SEI: u8 = 39;
    pub const SUFFIX_SEI: u8 = 40;

    /// The type in the two bytes of a NAL unit header, and the layer of an extension that it belongs to; `None` of what is
    /// no NAL unit.
    pub fn head(nal: &[u8]) -> Option<(u8, u8)> {
        match *nal {
            [first, second, ..] if first & 0x80 == 0 && second & 7 != 0 => {
                Some((first >> 1, (first & 1) << 5 | second >> 3))
            }
            _ => None,
        }
    }
}
