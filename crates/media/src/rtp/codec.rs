use super::h264::{FU_A, STAP_A, aggregated};
use super::packet::RtpPacket;
use super::{MPEG_VIDEO, TRANSPORT};
use crate::h264::nal;
use crate::ts::packet::{SYNC, TS_PACKET};

/// Payload types that an application assigns (RFC 3551, 6).
const DYNAMIC: std::ops::RangeInclusive<u8> = 96..=127;
/// One packet in this number may violate the H.264 syntax in a stream that is taken for H.264.
const ODD_SHARE: u64 = 10;

/// What a source carries, of the things that can be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carried {
    Transport,
    Mpeg,
    H264,
}

/// What a source carries that cannot be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Foreign {
    H265,
    Mpeg4,
    Aac,
    /// A static payload type (RFC 3551, tables 4 and 5).
    Static(&'static str),
    Unknown,
}

/// What the packets of one source show of its codec.
#[derive(Default, Debug)]
pub(crate) struct Evidence {
    packets: u64,
    payload_type: u8,
    transport: u64,
    /// Payloads that begin with a header or a slice of MPEG video, behind their own header (RFC 2250, 3.4).
    mpeg: u64,
    /// NAL units that begin a picture to start at, or parameter sets.
    h264: u64,
    h265: u64,
    mpeg4: u64,
    aac: u64,
    /// Payloads that are none of H.264.
    odd: u64,
}

impl Evidence {
    /// Takes a packet; one without payload says nothing.
    pub fn add(&mut self, packet: &RtpPacket) {
        let payload = packet.payload;
        if payload.is_empty() {
            return;
        }
        self.packets += 1;
        self.payload_type = packet.payload_type;
        let (whole, rest) = payload.as_chunks::<TS_PACKET>();
        if !whole.is_empty() && rest.is_empty() && whole.iter().all(|it| it[0] == SYNC) {
            self.transport += 1;
            return;
        }
        // MPEG-2 may have an extension of four octets.
        if let [_, _, _, _, 0, 0, 1, code, ..] | [_, _, _, _, _, _, _, _, 0, 0, 1, code, ..] =
            payload
        {
            self.mpeg += u64::from(matches!(code, 0..=0xAF | 0xB3 | 0xB8));
        }
        match payload {
            // VPS, SPS, PPS, an aggregation packet or a fragment (RFC 7798, 4.4), of the base layer.
            [0x40 | 0x42 | 0x44 | 0x60 | 0x62, 1, ..] => self.h265 += 1,
            // Visual object sequence, group, visual object or picture (RFC 6416, 5).
            [0, 0, 1, 0xB0 | 0xB3 | 0xB5 | 0xB6, ..] => self.mpeg4 += 1,
            // AU headers of 16 bits (RFC 3640, 3.2.1), as of one AAC frame or some.
            [0, bits, ..] if bits.is_multiple_of(16) && *bits > 0 => self.aac += 1,
            _ => {}
        }
        match h264(payload) {
            Some(true) => self.h264 += 1,
            Some(false) => {}
            None => self.odd += 1,
        }
    }

    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Whether it showed what it is, beyond looking like it.
    pub fn is_strong(&self) -> bool {
        match self.payload_type {
            // Of a slice in fragments only the first has a start code.
            MPEG_VIDEO => self.mpeg * 8 > self.packets,
            TRANSPORT => self.transport * 2 > self.packets,
            _ => self.transport > 0 || self.h264 > 0,
        }
    }

    /// What it carries, if `certain` packets show it, or `plausible` packets look like it.
    pub fn carried(&self, certain: u64, plausible: u64) -> Option<Carried> {
        if self.packets < certain {
            return None;
        }
        match self.payload_type {
            MPEG_VIDEO => return Some(Carried::Mpeg),
            TRANSPORT => return Some(Carried::Transport),
            payload_type if !DYNAMIC.contains(&payload_type) => return None,
            _ => {}
        }
        if self.transport * 2 > self.packets {
            return Some(Carried::Transport);
        }
        let enough = self.h264 > 0 || self.packets >= plausible;
        let foreign = self.h265 + self.mpeg4 + self.aac > self.h264;
        let odd = self.odd * ODD_SHARE > self.packets;
        (enough && !foreign && !odd).then_some(Carried::H264)
    }

    /// What it looks like.
    pub fn foreign(&self, payload_type: u8) -> Foreign {
        if !DYNAMIC.contains(&payload_type) {
            return match payload_type {
                0 | 8 => Foreign::Static("G.711 sound"),
                3 => Foreign::Static("GSM sound"),
                9 => Foreign::Static("G.722 sound"),
                10 | 11 => Foreign::Static("uncompressed sound"),
                14 => Foreign::Static("MPEG sound"),
                18 => Foreign::Static("G.729 sound"),
                26 => Foreign::Static("JPEG video"),
                31 => Foreign::Static("H.261 video"),
                34 => Foreign::Static("H.263 video"),
                _ => Foreign::Unknown,
            };
        }
        let most = self.h265.max(self.mpeg4).max(self.aac);
        match most {
            0 => Foreign::Unknown,
            _ if most == self.h265 => Foreign::H265,
            _ if most == self.mpeg4 => Foreign::Mpeg4,
            _ => Foreign::Aac,
        }
    }
}

impl Foreign {
    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Foreign::H265 => "H.265 video",
            Foreign::Mpeg4 => "MPEG-4 part 2 video",
            Foreign::Aac => "AAC sound",
            Foreign::Static(name) => name,
            Foreign::Unknown => "a codec that is not known",
        }
    }
}

/// Whether a payload is one of H.264 (RFC 6184), and whether it shows that for certain: parameter sets or
/// the beginning of an IDR picture.
fn h264(payload: &[u8]) -> Option<bool> {
    let certain = |kind| matches!(kind, nal::IDR | nal::SPS | nal::PPS);
    let single = |kind| matches!(kind, nal::SLICE | nal::IDR..=nal::FILLER);
    let forbidden = |byte: u8| byte & 0x80 != 0;
    match *payload {
        // Some senders leave the start codes in.
        [0, 0, 1, first, ..] | [0, 0, 0, 1, first, ..] => {
            let kind = first & 0x1F;
            (!forbidden(first) && single(kind)).then_some(certain(kind))
        }
        [first, ..] if forbidden(first) => None,
        [first, header, ..] if first & 0x1F == FU_A => {
            let (kind, begins) = (header & 0x1F, header & 0x80 != 0);
            (single(kind) || kind == nal::PARTITION_A).then_some(begins && certain(kind))
        }
        [first, ..] if first & 0x1F == STAP_A => {
            let mut kinds = aggregated(payload).map(|unit| (unit[0] & 0x80, nal::kind(unit)));
            let (clear, kind) = kinds.next()?;
            let fits = clear == 0 && single(kind);
            fits.then(|| certain(kind) || kinds.any(|(_, kind)| certain(kind)))
        }
        [first, ..] if single(first & 0x1F) => Some(certain(first & 0x1F)),
        _ => None,
    }
}
