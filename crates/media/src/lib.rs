//! Video clips as layered frames (specs/mets.md 2.6): MPEG-1/2 elementary and program streams, frame-size
//! traces and synthetic clips come in as [`Frame`]s of BL, E1 and E2; [`StreamWriter`] turns received frames
//! back into a stream that any decoder accepts.
//!
//! ```
//! use layercast_media::{Clip, Synthetic};
//! use layercast_core::{FrameRate, Layer};
//!
//! let clip = Clip::synthetic(Synthetic::Canyon, FrameRate { num: 24, den: 1 }, 240, 1);
//! assert_eq!(clip.frames[0].layer(), Layer::Base);
//! assert_eq!((clip.flow_spec().gop_n, clip.flow_spec().gop_m), (12, 3));
//! ```

mod advice;
mod av1;
mod bare;
mod classes;
mod clip;
mod error;
mod filter;
mod foreign;
mod h264;
mod h265;
mod ivf;
mod levels;
mod live;
mod map;
mod model;
mod mpeg;
mod order;
mod output;
mod rates;
mod repeat;
mod rtp;
mod sets;
mod synthetic;
mod timeline;
mod trace;
mod ts;
mod vp8;
mod vp9;
mod vpx;
mod writer;

pub use advice::{Advice, advice};
pub use av1::{Av1Config, av1_sample};
pub use classes::{
    ClassCensus, ClassReport, ClassShare, ClassStats, ClassifierConfig, GopStructure,
    PictureSequence, PictureSizes, TsClassifier, TsHeaders, TsSyncLost, VideoPictures,
};
pub use clip::{Clip, ClipInfo, Container, Frame, Picture, StoredRenditions};
pub use error::MediaError;
pub use filter::{
    CoefficientFilter, DropRule, FilterError, FilterRule, FilterStats, Filtered, FlowFilter,
    FlowFilterStats, PictureDrop, RuleError, Shaping,
};
pub use foreign::{Foreign, Remedy, Way, identify};
pub use h264::H264Writer;
pub use ivf::IvfUnits;
pub use levels::LevelSummary;
pub use live::{
    BreakCause, Estimate, GopWatch, Ingest, IngestStats, InputLoss, LONG_GOP, LiveClock, LiveLoad,
    LoadReport, LongGop, MediaTimeline, Overload, PaceChange, PaceMeter, Restart, SpecMeter, Stamp,
    TOO_SLOW, TimedFrame,
};
pub use map::{Map, MapError};
pub use mpeg::sniff::{comes_live, is_transport_stream, recognise};
pub use output::{FlowWriter, OutputForm, Received, Undecodable, misnamed};
pub use rates::{
    DataSummary, LayerSummary, PictureCounts, RenditionSummary, Summary, renditions_of,
};
pub use rtp::{
    RtpNote, RtpPacket, RtpReceiver, RtpSender, RtpSession, RtpSource, RtpStats, SdpError,
    session_description,
};
pub use synthetic::Synthetic;
pub use ts::{
    AacConfig, AccessUnit, AccessUnits, AdtsHeader, Rendition, RenditionId, RenditionNote,
    Renditions, StreamChange, StreamState, TS_PACKET, TsMux, TsSplitter, TsStats, TsWriter,
    UnitKind, VideoCodec, codec_parameter, has_aac, nal_units, video_programs,
};
pub use writer::{StreamWriter, WriterStats};
