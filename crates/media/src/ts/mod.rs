//! MPEG transport streams (ISO/IEC 13818-1 | ITU-T Rec. H.222.0): packets, tables, splitting into
//! layered frames, writing what a receiver got, and putting elementary video into one.

mod access;
mod adts;
mod assembly;
mod beside;
mod closer;
mod codec;
pub(crate) mod contents;
pub(crate) mod framing;
mod headers;
mod kept;
mod mux;
pub(crate) mod packet;
mod pcr;
pub(crate) mod pes;
pub(crate) mod psi;
mod references;
mod renditions;
mod silence;
mod splitter;
mod stamps;
pub(crate) mod tables;
mod units;
mod video;
mod writer;

pub use access::{AccessUnit, AccessUnits, UnitKind, codec_parameter, nal_units};
pub use adts::{AacConfig, AdtsHeader};
pub use codec::VideoCodec;
pub use contents::DataStream;
pub use mux::TsMux;
pub use packet::TS_PACKET;
pub(crate) use renditions::parse as parse_renditions;
pub use renditions::{Rendition, RenditionId, RenditionNote, Renditions, video_programs};
pub use silence::{StreamChange, StreamState};
pub(crate) use splitter::parse;
pub use splitter::{TsSplitter, TsStats};
pub use tables::has_aac;
pub(crate) use video::{Coded, VideoInspector};
pub use writer::TsWriter;
