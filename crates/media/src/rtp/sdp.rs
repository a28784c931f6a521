use core::net::IpAddr;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use layercast_core::Media;

use super::{DYNAMIC, MPEG_VIDEO, TRANSPORT};
use crate::h264::{nal, nals};
use crate::{av1, h265, vpx};

/// The session description (RFC 8866) with which a player opens an RTP stream of `media` sent to
/// `address` and `port`.
///
/// `start` is a frame that receivers can start at: of H.264 and H.265 its parameter sets go into the
/// description (RFC 6184, 8.1; RFC 7798, 7.1), of AV1 and VP9 its profile (RTP Payload Format For AV1, 7.2; RFC 9628, 7).
pub fn session_description(
    name: &str,
    media: Media,
    address: IpAddr,
    port: u16,
    start: &[u8],
) -> String {
    let family = if address.is_ipv4() { "IP4" } else { "IP6" };
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let name = if name.is_empty() { "-" } else { &name };
    let ttl = match address {
        IpAddr::V4(v4) if v4.is_multicast() => "/16",
        _ => "",
    };
    let any = if address.is_ipv4() { "0.0.0.0" } else { "::" };
    let mut text = format!(
        "v=0\r\no=- 0 0 IN {family} {any}\r\ns={name}\r\nc=IN {family} {address}{ttl}\r\nt=0 0\r\n"
    );
    let (kind, map) = match media {
        Media::H264 => (DYNAMIC, "H264/90000"),
        Media::H265 => (DYNAMIC, "H265/90000"),
        Media::Av1 => (DYNAMIC, "AV1/90000"),
        Media::Vp8 => (DYNAMIC, "VP8/90000"),
        Media::Vp9 => (DYNAMIC, "VP9/90000"),
        Media::MpegTs => (TRANSPORT, "MP2T/90000"),
        _ => (MPEG_VIDEO, "MPV/90000"),
    };
    // Writing into a String cannot fail.
    let _ = write!(
        text,
        "m=video {port} RTP/AVP {kind}\r\na=rtpmap:{kind} {map}\r\n"
    );
    if media == Media::H264 {
        let _ = write!(text, "a=fmtp:{kind} packetization-mode=1");
        let sets: Vec<&[u8]> = nals(start)
            .map(|(_, nal)| nal)
            .filter(|unit| matches!(nal::kind(unit), nal::SPS | nal::PPS))
            .collect();
        if let Some(&[_, a, b, c, ..]) = sets.first() {
            let encoded: Vec<String> = sets.iter().map(|set| STANDARD.encode(set)).collect();
            let sets = encoded.join(",");
            let _ = write!(
                text,
                ";profile-level-id={a:02X}{b:02X}{c:02X};sprop-parameter-sets={sets}"
            );
        }
        text.push_str("\r\n");
    }
    if media == Media::H265 {
        let mut format = Vec::new();
        for (name, kind) in [
            ("vps", h265::nal::VPS),
            ("sps", h265::nal::SPS),
            ("pps", h265::nal::PPS),
        ] {
            let units = nals(start).map(|(_, nal)| nal);
            let of_kind = units.filter(|unit| h265::nal::head(unit) == Some((kind, 0)));
            let encoded: Vec<String> = of_kind.map(|set| STANDARD.encode(set)).collect();
            if !encoded.is_empty() {
                format.push(format!("sprop-{name}={}", encoded.join(",")));
            }
        }
        if !format.is_empty() {
            let _ = write!(text, "a=fmtp:{kind} {}\r\n", format.join(";"));
        }
    }
    if media == Media::Av1 {
        let mut state = av1::State::default();
        av1::Unit::read(start, &mut state);
        if let Some(it) = state.sequence {
            let (profile, level, tier) = (it.profile, it.level, it.tier);
            let _ = write!(
                text,
                "a=fmtp:{kind} profile={profile};level-idx={level};tier={tier}\r\n"
            );
        }
    }
    if media == Media::Vp9
        && let Some(profile) = vpx::vp9_profile(start)
    {
        let _ = write!(text, "a=fmtp:{kind} profile-id={profile}\r\n");
    }
    text.push_str("a=recvonly\r\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_sets_go_into_the_description_of_h264() {
        let start = [
            0, 0, 0, 1, 0x67, 0x64, 0, 0x1F, 0, 0, 0, 1, 0x68, 0xEB, 0, 0, 1, 0x65, 1,
        ];
        let address = IpAddr::from([127, 0, 0, 1]);
        let text = session_description("a\nclip", Media::H264, address, 5_004, &start);
        let expected = "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=aclip\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
            m=video 5004 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1;\
            profile-level-id=64001F;sprop-parameter-sets=Z2QAHw==,aOs=\r\na=recvonly\r\n";
        assert_eq!(text, expected);
        let start = [
            0, 0, 0, 1, 0x40, 1, 0x0C, 0, 0, 0, 1, 0x42, 1, 1, 0, 0, 0, 1, 0x44, 1, 0xC1, 0, 0, 1,
            0x26, 1, 0xAF,
        ];
        let text = session_description("clip", Media::H265, address, 5_004, &start);
        assert!(
            text.contains(
                "a=rtpmap:96 H265/90000\r\na=fmtp:96 sprop-vps=QAEM;sprop-sps=QgEB;sprop-pps=RAHB\r\n"
            ),
            "{text}"
        );
        let group = IpAddr::from([239, 1, 1, 1]);
        let text = session_description("", Media::MpegTs, group, 5_004, &[]);
        assert!(text.contains("c=IN IP4 239.1.1.1/16\r\n"), "{text}");
        assert!(text.contains("m=video 5004 RTP/AVP 33\r\na=rtpmap:33 MP2T/90000\r\n"));
    }
}
