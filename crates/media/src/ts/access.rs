//! Access units and frames of sound out of a transport stream, for decoders that take no container.

use super::adts::{AacConfig, AdtsHeader};
use super::codec::VideoCodec;
use super::packet::{Packet, TS_PACKET};
use super::pes::PesHeader;
use super::tables::Tables;
use super::video::VideoInspector;
use crate::h264::nals;
use crate::{Av1Config, Map, h265};

/// Most octets that are gathered for a picture or a PES packet of sound.
const MAX_GATHERED: usize = 1 << 24;
/// `stream_type` of AAC with ADTS headers (ISO/IEC 13818-1, table 2-34).
const ADTS: u8 = 0x0F;
/// Sound of other formats: MPEG-1 and MPEG-2 audio, AAC in LATM, AC-3 and E-AC-3.
const OTHER_SOUND: [u8; 5] = [0x03, 0x04, 0x11, 0x81, 0x87];
/// Ticks of time stamps in a second.
const HZ: u64 = 90_000;

/// What a decoder is given at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessUnit {
    /// What it is.
    pub kind: UnitKind,
    /// When it is presented, in ticks of 90 kHz, modulo 2^33.
    pub pts: u64,
    /// When it is decoded, in the same ticks; that of presentation where the stream says no other.
    pub dts: u64,
    /// Whether a decoder can start here; of H.264 at IDR pictures, since decoders of browsers start nowhere else.
    pub is_key: bool,
    /// Its octets: with start codes (H.264 and H.265 Annex B, MPEG), the OBUs of a temporal unit (AV1), or with an ADTS header.
    pub data: Vec<u8>,
}

/// The kind of an access unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitKind {
    /// A picture.
    Video(VideoCodec),
    /// A frame of AAC sound.
    Sound {
        /// Samples per second.
        rate: u32,
        /// Channels; 0: the frame itself says (ISO/IEC 13818-7, 6.2).
        channels: u8,
    },
}

/// Takes a transport stream apart that [`FlowWriter`](crate::FlowWriter) wrote: whole packets, one program, pictures that decode.
///
/// [`end_frame`](AccessUnits::end_frame) ends the picture that is gathered, so that it need not wait for the next one.
#[derive(Debug)]
pub struct AccessUnits {
    tables: Tables,
    video: Option<(u16, VideoCodec, VideoInspector)>,
    sound: Option<u16>,
    unused_sound: bool,
    /// Octets of the picture, and its PES packets: where each begins.
    picture: Vec<u8>,
    heads: Vec<(usize, PesHeader)>,
    /// Octets of sound behind the last whole frame, and the time of the next frame.
    heard: Vec<u8>,
    sound_at: Option<u64>,
    /// The front of a packet.
    rest: Vec<u8>,
}

impl Default for AccessUnits {
    fn default() -> AccessUnits {
        AccessUnits {
            tables: Tables::of_program(None),
            video: None,
            sound: None,
            unused_sound: false,
            picture: Vec::new(),
            heads: Vec::new(),
            heard: Vec::new(),
            sound_at: None,
            rest: Vec::new(),
        }
    }
}

impl AccessUnits {
    /// The codec of the video, once the tables came.
    pub fn video(&self) -> Option<VideoCodec> {
        self.video.as_ref().map(|it| it.1)
    }

    /// Whether there is sound in a format that is not given out: another one than AAC with ADTS headers.
    pub fn has_unused_sound(&self) -> bool {
        self.unused_sound
    }

    /// Width and height of the video, once they are known.
    pub fn size(&self) -> Option<(u32, u32)> {
        let (width, height, _) = self.video.as_ref()?.2.format()?;
        Some((width, height))
    }

    /// Takes octets of the stream; `out` gets what they complete.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<AccessUnit>) {
        if !self.rest.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(TS_PACKET - self.rest.len()));
            self.rest.extend_from_slice(now);
            bytes = later;
            if self.rest.len() == TS_PACKET {
                let whole = std::mem::take(&mut self.rest);
                self.packet(&whole, out);
            }
        }
        let (packets, rest) = bytes.as_chunks::<TS_PACKET>();
        for packet in packets {
            self.packet(packet, out);
        }
        self.rest.extend_from_slice(rest);
    }

    /// What was pushed so far ends a picture.
    pub fn end_frame(&mut self, out: &mut Vec<AccessUnit>) {
        let Some((_, codec, inspector)) = &mut self.video else {
            return;
        };
        let picture = std::mem::take(&mut self.picture);
        let heads = std::mem::take(&mut self.heads);
        if heads.is_empty() {
            return;
        }
        // A unit without a time of its own is a part of the one before it, such as a second field.
        let starts = codec.syntax().units(&picture).starts.into_iter();
        let timed = starts.filter_map(|start| {
            let head = heads.iter().find(|(at, _)| *at == start)?;
            Some((start, head.1.pts?, head.1.dts))
        });
        let timed: Vec<(usize, u64, Option<u64>)> = timed.collect();
        let ends = timed.iter().skip(1).map(|it| it.0).chain([picture.len()]);
        for (&(start, pts, dts), end) in timed.iter().zip(ends) {
            let data = &picture[start..end];
            let coded = codec.refine(data, inspector.read(data, false));
            out.push(AccessUnit {
                kind: UnitKind::Video(*codec),
                pts,
                dts: dts.unwrap_or(pts),
                is_key: match codec {
                    VideoCodec::H264 => has_idr(data),
                    _ => coded.gop_start,
                },
                data: data.to_vec(),
            });
        }
    }

    fn packet(&mut self, bytes: &[u8], out: &mut Vec<AccessUnit>) {
        let Some(packet) = Packet::new(bytes) else {
            return;
        };
        if self.tables.reads(packet.pid()) {
            if self.tables.push(&packet) {
                self.choose();
            }
            return;
        }
        if packet.error() || packet.scrambled() {
            return;
        }
        let is_video = self.video.as_ref().is_some_and(|it| it.0 == packet.pid());
        if !is_video && self.sound != Some(packet.pid()) {
            return;
        }
        let mut payload = packet.payload();
        let header = match packet.starts() {
            true => PesHeader::parse(payload),
            false => None,
        };
        if let Some(header) = &header {
            payload = payload.get(header.len..).unwrap_or_default();
        }
        match is_video {
            true => self.picture(header, payload),
            false => self.sound(header, payload, out),
        }
    }

    /// The tables are other ones now.
    fn choose(&mut self) {
        let Some(map) = self.tables.map() else { return };
        let video = map
            .streams
            .iter()
            .find_map(|it| Some((it.pid, VideoCodec::of(it)?)));
        let sound = map.streams.iter().find(|it| it.kind == ADTS);
        self.sound = sound.map(|it| it.pid);
        let is_other = |kind| OTHER_SOUND.contains(&kind);
        self.unused_sound = sound.is_none() && map.streams.iter().any(|it| is_other(it.kind));
        if self.video.as_ref().map(|it| (it.0, it.1)) != video {
            self.video = video.map(|(pid, codec)| (pid, codec, codec.inspector(Map::Auto)));
            self.picture.clear();
            self.heads.clear();
        }
        self.heard.clear();
        self.sound_at = None;
    }

    fn picture(&mut self, header: Option<PesHeader>, payload: &[u8]) {
        if let Some(header) = header {
            self.heads.push((self.picture.len(), header));
        }
        if self.picture.len() + payload.len() > MAX_GATHERED {
            self.heads.clear();
            self.picture.clear();
        }
        self.picture.extend_from_slice(payload);
    }

    fn sound(&mut self, header: Option<PesHeader>, payload: &[u8], out: &mut Vec<AccessUnit>) {
        let own = header.and_then(|it| it.pts);
        // The time stamp is that of the first frame that begins in the packet.
        let begins = self.heard.len();
        self.heard.extend_from_slice(payload);
        let mut own = own.map(|pts| (begins, pts));
        let mut at = 0;
        while let Some((skipped, adts)) = AdtsHeader::find(&self.heard[at..]) {
            let start = at + skipped;
            if self.heard.len() < start + adts.len {
                at = start;
                break;
            }
            if let Some((_, pts)) = own.take_if(|(from, _)| start >= *from) {
                self.sound_at = Some(pts);
            }
            if let Some(pts) = self.sound_at {
                out.push(AccessUnit {
                    kind: UnitKind::Sound {
                        rate: adts.config.rate(),
                        channels: adts.config.channels,
                    },
                    pts,
                    dts: pts,
                    is_key: true,
                    data: self.heard[start..start + adts.len].to_vec(),
                });
                let next = pts + AacConfig::SAMPLES * HZ / u64::from(adts.config.rate());
                self.sound_at = Some(next & ((1 << 33) - 1));
            }
            at = start + adts.len;
        }
        // The next frame begins in this packet, and is not whole.
        if let Some((_, pts)) = own {
            self.sound_at = Some(pts);
        }
        self.heard.drain(..at.min(self.heard.len()));
        if self.heard.len() > MAX_GATHERED {
            self.heard.clear();
        }
    }
}

/// What RFC 6381 calls the codec of a key picture in Annex B form, such as `avc1.64001F` (RFC 6381, 3.3) or `hev1.1.6.L93.B0`
/// (ISO/IEC 14496-15, Annex E), or of a temporal unit of AV1, such as `av01.0.04M.08`. `None` if it has no parameter sets, or is of another codec.
pub fn codec_parameter(codec: VideoCodec, unit: &[u8]) -> Option<String> {
    match codec {
        VideoCodec::H264 => nals(unit).find_map(|(_, nal)| match nal {
            [kind, profile, constraints, level, ..] if kind & 31 == 7 => {
                Some(format!("avc1.{profile:02X}{constraints:02X}{level:02X}"))
            }
            _ => None,
        }),
        VideoCodec::H265 => h265::codec_parameter(unit),
        VideoCodec::Av1 => Some(Av1Config::of(unit)?.codec()),
        _ => None,
    }
}

/// The NAL units of an access unit in Annex B form, without their start codes.
pub fn nal_units(unit: &[u8]) -> impl Iterator<Item = &[u8]> + '_ {
    nals(unit).map(|(_, nal)| nal)
}

/// Whether a unit of H.264 is an IDR picture (7.4.1.2.4).
fn has_idr(unit: &[u8]) -> bool {
    nals(unit).any(|(_, nal)| nal.first().is_some_and(|kind| kind & 31 == 5))
}

#[cfg(test)]
mod tests {
    use super::super::packet::Adaptation;
    use super::super::pes::{put_pes, put_video};
    use super::super::psi::{checksum, pat, put_section};
    use super::*;

    const VIDEO: u16 = 0x100;
    const SOUND: u16 = 0x101;

    /// A map with H.264 and AAC, or with sound of another kind.
    fn tables(sound: u8) -> Vec<u8> {
        let mut out = Vec::new();
        put_section(0, &mut 0, &pat(1, 0x1000), &mut out);
        let mut map = vec![2, 0xB0, 23, 0, 1, 0xC1, 0, 0, 0xE1, 0, 0xF0, 0];
        map.extend_from_slice(&[0x1B, 0xE1, 0, 0xF0, 0, sound, 0xE1, 1, 0xF0, 0]);
        let crc = checksum(&map);
        map.extend_from_slice(&crc.to_be_bytes());
        put_section(0x1000, &mut 0, &map, &mut out);
        out
    }

    const IDR: [u8; 22] = [
        0, 0, 0, 1, 9, 0xF0, 0, 0, 0, 1, 0x67, 0x64, 0, 0x1F, 0xAC, 0, 0, 1, 0x65, 0x88, 0x84, 0x21,
    ];
    const OTHER: [u8; 9] = [0, 0, 0, 1, 0x41, 0x9A, 0x24, 0x6C, 0x41];

    fn frame(octet: u8, len: usize) -> Vec<u8> {
        // AAC LC of 48 kHz in two channels.
        let mut frame = vec![0xFF, 0xF1, 0x4C, 0x80 | (len >> 11) as u8, (len >> 3) as u8];
        frame.extend_from_slice(&[(len << 5) as u8 | 0x1F, 0xFC]);
        frame.resize(len, octet);
        frame
    }

    #[test]
    fn a_picture_is_whole_when_its_frame_ends() {
        let mut stream = tables(ADTS);
        put_video(
            VIDEO,
            &mut 0,
            Adaptation::default(),
            (7_200, 3_600),
            [&IDR, &[]],
            &mut stream,
        );
        let (mut units, mut out) = (AccessUnits::default(), Vec::new());
        // In pieces of any size.
        for piece in stream.chunks(50) {
            units.push(piece, &mut out);
        }
        assert_eq!(out, []);
        units.end_frame(&mut out);
        let unit = out.pop().expect("a picture");
        assert_eq!((unit.pts, unit.dts, unit.is_key), (7_200, 3_600, true));
        assert_eq!(&unit.data[..], &IDR[..]);
        assert_eq!(
            codec_parameter(VideoCodec::H264, &unit.data).as_deref(),
            Some("avc1.64001F")
        );
        let mut stream = Vec::new();
        put_video(
            VIDEO,
            &mut 1,
            Adaptation::default(),
            (3_600, 3_600),
            [&OTHER, &[]],
            &mut stream,
        );
        units.push(&stream, &mut out);
        units.end_frame(&mut out);
        let unit = out.pop().expect("a picture");
        assert_eq!((unit.pts, unit.is_key), (3_600, false));
    }

    #[test]
    fn frames_of_sound_have_their_own_times_also_across_packets() {
        let sound = [frame(1, 300), frame(2, 200), frame(3, 100)].concat();
        let mut stream = tables(ADTS);
        let mut counter = 0;
        for (pts, part) in [(9_000, &sound[..450]), (10_920 + 1_920, &sound[450..])] {
            let stamps = Some((pts, pts));
            put_pes(
                SOUND,
                0xC0,
                &mut counter,
                Adaptation::default(),
                stamps,
                [part, &[]],
                &mut stream,
            );
        }
        let (mut units, mut out) = (AccessUnits::default(), Vec::new());
        units.push(&stream, &mut out);
        let kind = UnitKind::Sound {
            rate: 48_000,
            channels: 2,
        };
        let seen: Vec<_> = out
            .iter()
            .map(|it| (it.kind, it.pts, it.data.len()))
            .collect();
        assert_eq!(
            seen,
            [(kind, 9_000, 300), (kind, 10_920, 200), (kind, 12_840, 100)]
        );
        assert!(!units.has_unused_sound());
    }

    #[test]
    fn sound_of_another_kind_is_named_and_left_out() {
        let (mut units, mut out) = (AccessUnits::default(), Vec::new());
        units.push(&tables(0x03), &mut out);
        assert!(units.has_unused_sound());
        assert_eq!(units.video(), Some(VideoCodec::H264));
    }

    proptest::proptest! {
        #[test]
        fn any_octets_are_safe(pieces in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 0..600), 0..12)) {
            let (mut units, mut out) = (AccessUnits::default(), Vec::new());
            units.push(&tables(ADTS), &mut out);
            for piece in pieces {
                let mut stream = Vec::new();
                put_pes(SOUND, 0xC0, &mut 0, Adaptation::default(), Some((1, 1)), [&piece, &[]], &mut stream);
                put_pes(VIDEO, 0xE0, &mut 0, Adaptation::default(), Some((1, 1)), [&piece, &[]], &mut stream);
                stream.extend_from_slice(&piece);
                units.push(&stream, &mut out);
                units.end_frame(&mut out);
            }
        }
    }
}
