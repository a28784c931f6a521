use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use super::codec::Carried;

/// Longest description read.
const MAX_TEXT: usize = 65_536;
/// Parameter sets taken at most.
const MAX_SETS: usize = 32;

/// What a session description (RFC 8866) says of the video stream that is to be received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RtpSession {
    pub(crate) payload_type: u8,
    pub(crate) carried: Carried,
    /// From `sprop-parameter-sets` of H.264 (RFC 6184, 8.1), from `sprop-vps`, `-sps` and `-pps` of H.265 (RFC 7798, 7.1).
    pub(crate) parameter_sets: Vec<Vec<u8>>,
}

/// Why a session description is of no use.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SdpError {
    /// There is no `m=video` line with RTP.
    #[error("it has no line \"m=video PORT RTP/AVP TYPE\"")]
    NoVideo,
    /// The video has a codec that cannot be received.
    #[error(
        "its video is {0}; RTP may carry H.264, H.265, AV1, VP8, VP9, MPEG-1/2 video (MPV) or MPEG-TS (MP2T): put {0} into MPEG-TS \
         (ffmpeg: -f rtp_mpegts)"
    )]
    Codec(String),
    /// A parameter set is no base64.
    #[error(
        "a parameter set (sprop-...) is {0:?}, which is no base64 (RFC 6184, 8.1; RFC 7798, 7.1)"
    )]
    ParameterSet(String),
    /// NAL units do not come in decoding order.
    #[error(
        "it sends H.265 in another order than that of decoding (sprop-max-don-diff={0}); let the sender keep the order \
         (sprop-max-don-diff=0, as ffmpeg and GStreamer do)"
    )]
    Interleaved(String),
}

impl RtpSession {
    /// Reads the description of a stream that is to be received: the first video of it.
    ///
    /// # Errors
    /// There is no video over RTP in it, or one of a codec that cannot be received.
    pub fn parse(text: &str) -> Result<RtpSession, SdpError> {
        let text = text.get(..MAX_TEXT).unwrap_or(text);
        let lines = text.lines().map(str::trim);
        let mut media = lines.skip_while(|line| !line.starts_with("m=video "));
        let first = media.next().ok_or(SdpError::NoVideo)?;
        let payload_type: u8 = first
            .split_whitespace()
            .nth(3)
            .filter(|_| first.contains(" RTP/"))
            .and_then(|kind| kind.parse().ok())
            .ok_or(SdpError::NoVideo)?;
        let (mut codec, mut parameter_sets) = (None, Vec::new());
        for line in media.take_while(|line| !line.starts_with("m=")) {
            let of_type = |prefix: &str| {
                let (kind, value) = line.strip_prefix(prefix)?.split_once(' ')?;
                (kind.parse() == Ok(payload_type)).then_some(value.trim())
            };
            if let Some(map) = of_type("a=rtpmap:") {
                codec = map.split('/').next().map(str::to_owned);
            }
            if let Some(format) = of_type("a=fmtp:") {
                for (name, value) in format.split(';').filter_map(|it| it.trim().split_once('=')) {
                    match name {
                        "sprop-max-don-diff" if value.trim() != "0" => {
                            return Err(SdpError::Interleaved(value.trim().to_owned()));
                        }
                        "sprop-parameter-sets" | "sprop-vps" | "sprop-sps" | "sprop-pps" => {
                            take_sets(value, &mut parameter_sets)?;
                        }
                        _ => {}
                    }
                }
            }
        }
        let carried = match (codec.as_deref(), payload_type) {
            (Some("H264"), _) => Carried::H264,
            (Some("H265"), _) => Carried::H265,
            (Some("AV1"), _) => Carried::Av1,
            (Some("VP8"), _) => Carried::Vp8,
            (Some("VP9"), _) => Carried::Vp9,
            (Some("MP2T"), _) | (None, super::TRANSPORT) => Carried::Transport,
            (Some("MPV"), _) | (None, super::MPEG_VIDEO) => Carried::Mpeg,
            (codec, kind) => {
                let unnamed = format!("of payload type {kind}");
                return Err(SdpError::Codec(codec.map_or(unnamed, str::to_owned)));
            }
        };
        Ok(RtpSession {
            payload_type,
            carried,
            parameter_sets,
        })
    }
}

/// Adds parameter sets in base64.
fn take_sets(text: &str, sets: &mut Vec<Vec<u8>>) -> Result<(), SdpError> {
    for set in text.split(',').filter(|it| !it.is_empty()) {
        let bytes = STANDARD.decode(set.trim());
        sets.push(bytes.map_err(|_| SdpError::ParameterSet(set.to_owned()))?);
        sets.truncate(MAX_SETS);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_description_says_of_its_video_is_read() {
        let text = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\nm=audio 5006 RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\n\
            m=video 5004 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1; \
            sprop-parameter-sets=Z2QAHw==,aOs=; profile-level-id=64001F\r\nm=audio 1 RTP/AVP 0\r\n";
        let session = RtpSession::parse(text).expect("a description");
        assert_eq!((session.payload_type, session.carried), (96, Carried::H264));
        assert_eq!(
            session.parameter_sets,
            [&[0x67, 0x64, 0, 0x1F][..], &[0x68, 0xEB]]
        );
        let text = "m=video 5004 RTP/AVP 98\na=rtpmap:98 H265/90000\na=fmtp:98 sprop-vps=QAEM; sprop-sps=QgEB;\
            sprop-pps=RAHB,RAHC; sprop-max-don-diff=0\n";
        let session = RtpSession::parse(text).expect("a description");
        assert_eq!((session.payload_type, session.carried), (98, Carried::H265));
        assert_eq!(session.parameter_sets.len(), 4);
        for (name, carried) in [
            ("AV1", Carried::Av1),
            ("VP8", Carried::Vp8),
            ("VP9", Carried::Vp9),
        ] {
            let text = format!("m=video 5004 RTP/AVP 97\na=rtpmap:97 {name}/90000\n");
            let session = RtpSession::parse(&text).expect("a description");
            assert_eq!((session.payload_type, session.carried), (97, carried));
        }
        let text = "m=video 5004 RTP/AVP 33\n";
        let session = RtpSession::parse(text).expect("a description");
        assert_eq!(
            (session.payload_type, session.carried),
            (33, Carried::Transport)
        );
    }

    #[test]
    fn what_cannot_be_received_is_named() {
        let error = |text: &str| RtpSession::parse(text).expect_err(text);
        assert_eq!(error("v=0\nm=audio 1 RTP/AVP 0\n"), SdpError::NoVideo);
        let theora = "m=video 1 RTP/AVP 96\na=rtpmap:96 theora/90000\n";
        assert_eq!(error(theora), SdpError::Codec("theora".into()));
        let h265 = "m=video 1 RTP/AVP 96\na=rtpmap:96 H265/90000\na=fmtp:96 sprop-max-don-diff=2\n";
        assert_eq!(error(h265), SdpError::Interleaved("2".into()));
        assert_eq!(
            error("m=video 1 RTP/AVP 99\n"),
            SdpError::Codec("of payload type 99".into())
        );
        let broken =
            "m=video 1 RTP/AVP 96\na=rtpmap:96 H264/90000\na=fmtp:96 sprop-parameter-sets=%%\n";
        assert_eq!(error(broken), SdpError::ParameterSet("%%".into()));
    }
}
