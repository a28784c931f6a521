//! RTP (RFC 3550) as live video programs speak it: MPEG transport streams and MPEG-1/2 video
//! (RFC 2250), H.264 (RFC 6184), H.265 (RFC 7798), AV1 (RTP Payload Format For AV1 1.0), VP8 (RFC 7741), VP9 (RFC 9628).

mod av1;
mod codec;
mod h264;
mod h265;
mod mpeg;
mod nal;
mod packet;
mod pictures;
mod receiver;
mod reorder;
mod sdp;
mod sender;
mod session;
mod shapes;
mod source;
mod vpx;

pub use packet::RtpPacket;
pub use receiver::{RtpReceiver, RtpStats};
pub use sdp::session_description;
pub use sender::RtpSender;
pub use session::{RtpSession, SdpError};
pub use source::{RtpNote, RtpSource};

/// Static payload type of MPEG-1/2 video (RFC 3551, 6).
pub(crate) const MPEG_VIDEO: u8 = 32;
/// Static payload type of MPEG transport streams.
pub(crate) const TRANSPORT: u8 = 33;
/// What we call codecs that have no static type.
pub(crate) const DYNAMIC: u8 = 96;
