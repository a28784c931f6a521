use layercast_core::Media;

use super::h264::H264;
use super::h265::H265;
use super::nal::packetise;
use super::packet::{RTP_HEADER, RtpPacket};
use super::{DYNAMIC, MPEG_VIDEO, TRANSPORT, mpeg};
use crate::av1;
use crate::ts::packet::TS_PACKET;

/// Bytes of a payload at most: with IPv6, UDP and RTP headers it fits an Ethernet frame.
const PAYLOAD: usize = 1_400;
/// Transport stream packets in one RTP packet, the common number.
const TS_PACKETS: usize = 7;

/// Packs a stream into RTP packets (RFC 3550).
#[derive(Debug)]
pub struct RtpSender {
    media: Media,
    seq: u16,
    ssrc: u32,
    offset: u32,
    /// Pictures of VP8 or VP9 so far.
    pictures: u16,
    /// What is known of AV1.
    state: av1::State,
}

impl RtpSender {
    /// For a stream of `media`: MPEG-1/2, H.264, H.265, AV1, VP8 or VP9 video, or an MPEG transport stream. `seed` gives the
    /// random beginnings of sequence number, time stamp and source (RFC 3550, 5.1).
    pub fn new(media: Media, seed: u64) -> RtpSender {
        RtpSender {
            media,
            seq: seed as u16,
            ssrc: (seed >> 32) as u32 ^ 0x4C43_0000,
            offset: (seed >> 16) as u32,
            pictures: (seed >> 48) as u16,
            state: av1::State::default(),
        }
    }

    /// The payload type of its packets.
    pub fn payload_type(&self) -> u8 {
        match self.media {
            Media::H264 | Media::H265 | Media::Av1 | Media::Vp8 | Media::Vp9 => DYNAMIC,
            Media::MpegTs => TRANSPORT,
            _ => MPEG_VIDEO,
        }
    }

    /// Appends the packets of a picture, or of whole transport stream packets, to `out`, and where each
    /// ends to `ends`. `ticks` is its presentation time in ticks of 90 kHz.
    pub fn send(&mut self, data: &[u8], ticks: u64, out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        let (payload_type, ssrc) = (self.payload_type(), self.ssrc);
        let timestamp = (ticks as u32).wrapping_add(self.offset);
        let seq = &mut self.seq;
        let mut put = |payload: &[u8], marker: bool| {
            let packet = RtpPacket {
                marker,
                payload_type,
                seq: *seq,
                timestamp,
                ssrc,
                payload,
            };
            out.reserve(RTP_HEADER + payload.len());
            packet.encode_into(out);
            ends.push(out.len());
            *seq = seq.wrapping_add(1);
        };
        match self.media {
            Media::H264 => packetise::<H264>(data, PAYLOAD, put),
            Media::H265 => packetise::<H265>(data, PAYLOAD, put),
            Media::Av1 => {
                let unit = av1::Unit::read(data, &mut self.state);
                let is_start = unit.is_some_and(|it| it.is_start);
                super::av1::packetise(data, is_start, PAYLOAD, put);
            }
            Media::Vp8 | Media::Vp9 => {
                self.pictures = self.pictures.wrapping_add(1);
                let is_vp9 = self.media == Media::Vp9;
                super::vpx::packetise(data, is_vp9, self.pictures, PAYLOAD, put);
            }
            Media::MpegTs => {
                for packets in data.chunks(TS_PACKETS * TS_PACKET) {
                    put(packets, false);
                }
            }
            _ => mpeg::packetise(data, PAYLOAD, put),
        }
    }
}
