use super::av1::shows_av1;
use super::h264::H264;
use super::h265::H265;
use super::nal::{NalCodec, Shape, aggregated};
use super::packet::RtpPacket;
use super::vpx::{shows_vp8, shows_vp9};
use super::{MPEG_VIDEO, TRANSPORT};
use crate::h264::nal;
use crate::h265;
use crate::ts::packet::{SYNC, TS_PACKET};

/// Payload types that an application assigns (RFC 3551, 6).
const DYNAMIC: std::ops::RangeInclusive<u8> = 96..=127;
/// One packet in this number may violate the syntax of the codec for which a stream is taken.
const ODD_SHARE: u64 = 10;

/// What a source carries, of the things that can be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carried {
    Transport,
    Mpeg,
    H264,
    H265,
    Av1,
    Vp8,
    Vp9,
}

impl Carried {
    /// Whether it has no static payload type.
    pub fn is_dynamic(self) -> bool {
        !matches!(self, Carried::Transport | Carried::Mpeg)
    }
}

/// What a source carries that cannot be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Foreign {
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
    /// Key frames and sequences that begin.
    av1: u64,
    vp8: u64,
    vp9: u64,
    mpeg4: u64,
    aac: u64,
    /// Payloads that are none of H.264, none of H.265.
    odd: u64,
    odd_of_h265: u64,
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
            // Visual object sequence, group, visual object or picture (RFC 6416, 5).
            [0, 0, 1, 0xB0 | 0xB3 | 0xB5 | 0xB6, ..] => self.mpeg4 += 1,
            // AU headers of 16 bits (RFC 3640, 3.2.1), as of one AAC frame or some.
            [0, bits, ..] if bits.is_multiple_of(16) && *bits > 0 => self.aac += 1,
            _ => {}
        }
        let count = |shown: Option<bool>, certain: &mut u64, odd: &mut u64| match shown {
            Some(true) => *certain += 1,
            Some(false) => {}
            None => *odd += 1,
        };
        count(h264(payload), &mut self.h264, &mut self.odd);
        count(of_h265(payload), &mut self.h265, &mut self.odd_of_h265);
        self.av1 += u64::from(shows_av1(payload));
        self.vp8 += u64::from(shows_vp8(payload));
        self.vp9 += u64::from(shows_vp9(payload));
    }

    /// Which of AV1, VP8 and VP9 it shows. Payloads of other codecs do not look like their key frames, though much of theirs
    /// looks like NAL units.
    pub fn shown(&self) -> Option<Carried> {
        let all = [
            (self.av1, Carried::Av1),
            (self.vp8, Carried::Vp8),
            (self.vp9, Carried::Vp9),
        ];
        let most = all.into_iter().max_by_key(|it| it.0)?;
        let is_dynamic = DYNAMIC.contains(&self.payload_type);
        (is_dynamic && most.0 > 0).then_some(most.1)
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
            _ => {
                let shown = self.transport + self.h264 + self.h265;
                shown > 0 || self.shown().is_some()
            }
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
        if let Some(shown) = self.shown() {
            return Some(shown);
        }
        let fits = |odd: u64| odd * ODD_SHARE <= self.packets;
        let is_h265 = fits(self.odd_of_h265) && (self.h265 > self.h264 || !fits(self.odd));
        let (certain_ones, odd, carried) = match is_h265 {
            true => (self.h265, self.odd_of_h265, Carried::H265),
            false => (self.h264, self.odd, Carried::H264),
        };
        let enough = certain_ones > 0 || self.packets >= plausible;
        let foreign = self.mpeg4 + self.aac > certain_ones;
        (enough && !foreign && fits(odd)).then_some(carried)
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
        let most = self.mpeg4.max(self.aac);
        match most {
            0 => Foreign::Unknown,
            _ if most == self.mpeg4 => Foreign::Mpeg4,
            _ => Foreign::Aac,
        }
    }
}

impl Foreign {
    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
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
    // Some senders leave the start codes in.
    if let [0, 0, 1, first, ..] | [0, 0, 0, 1, first, ..] = *payload {
        let kind = first & 0x1F;
        return (!forbidden(first) && single(kind)).then_some(certain(kind));
    }
    if payload.first().is_none_or(|first| forbidden(*first)) {
        return None;
    }
    match H264::shape(payload) {
        Shape::Single(unit) => {
            let kind = nal::kind(unit);
            single(kind).then_some(certain(kind))
        }
        Shape::Fragment(part) => {
            let kind = nal::kind(part.head());
            let fits = single(kind) || kind == nal::PARTITION_A;
            fits.then_some(part.first && certain(kind))
        }
        Shape::Together(all) => {
            let mut kinds = aggregated(all).map(|unit| (unit[0], nal::kind(unit)));
            let (first, kind) = kinds.next()?;
            let fits = !forbidden(first) && single(kind);
            fits.then(|| certain(kind) || kinds.any(|(_, kind)| certain(kind)))
        }
        Shape::Malformed => None,
    }
}

/// The same of H.265 (RFC 7798): a random access picture, or parameter sets.
fn of_h265(payload: &[u8]) -> Option<bool> {
    use h265::nal::{FIRST_IRAP, LAST_IRAP, PPS, RASL_R, VPS};
    const LAST_SPECIFIED: u8 = 40;
    let certain = |kind| matches!(kind, FIRST_IRAP..=LAST_IRAP | VPS..=PPS);
    let single = |kind| matches!(kind, 0..=RASL_R | FIRST_IRAP..=LAST_IRAP | VPS..=LAST_SPECIFIED);
    // Of the lowest layer: those of extensions are rare, and would let much pass for H.265.
    let kind = |unit: &[u8]| match h265::nal::head(unit) {
        Some((kind, 0)) if single(kind) => Some(kind),
        _ => None,
    };
    let shown = |unit: &[u8]| kind(unit).map(certain);
    if let [0, 0, 1, unit @ ..] | [0, 0, 0, 1, unit @ ..] = payload {
        return shown(unit);
    }
    match H265::shape(payload) {
        Shape::Single(unit) => shown(unit),
        Shape::Fragment(part) => shown(part.head()).map(|certain| certain && part.first),
        Shape::Together(all) => {
            let mut units = aggregated(all);
            let first = shown(units.next()?)?;
            Some(first || units.any(|unit| shown(unit) == Some(true)))
        }
        Shape::Malformed => None,
    }
}
