//! Video clips as layered frames (mets.md 2.6): MPEG-1/2 elementary and program streams, frame-size
//! traces and synthetic clips come in as [`Frame`]s of BL, E1 and E2; [`StreamWriter`] turns what
//! arrives at a receiver back into a stream that any decoder accepts.
//!
//! ```
//! use layercast_media::{Clip, Synthetic};
//! use layercast_core::{FrameRate, Layer};
//!
//! let clip = Clip::synthetic(Synthetic::Canyon, FrameRate { num: 24, den: 1 }, 240, 1);
//! assert_eq!(clip.frames[0].layer(), Layer::Base);
//! assert_eq!((clip.flow_spec().gop_n, clip.flow_spec().gop_m), (12, 3));
//! ```

mod clip;
mod error;
mod filter;
mod mpeg;
mod rates;
mod repeat;
mod synthetic;
mod trace;
mod writer;

pub use clip::{Clip, ClipInfo, Container, Frame, Picture};
pub use error::MediaError;
pub use filter::{
    CoefficientFilter, DropRule, FilterError, FilterStats, Filtered, PictureDrop, Shaping,
};
pub use rates::{LayerSummary, PictureCounts, Summary};
pub use synthetic::Synthetic;
pub use writer::{StreamWriter, WriterStats};
