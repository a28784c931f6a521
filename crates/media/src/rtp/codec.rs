use super::av1::shows_av1;
use super::h264::H264;
use super::h265::H265;
use super::nal::{NalCodec, Shape, aggregated};
use super::packet::RtpPacket;
use super::shapes::Shapes;
use super::vpx::{shows_vp8, shows_vp9};
use super::{MPEG_VIDEO, TRANSPORT};
use crate::h264::nal;
use crate::h265;
use crate::ts::packet::{SYNC, TS_PACKET};

/// Whether an application assigns a payload type (RFC 3551, 3 and 6). Those of the first range are unassigned, and of use where the others
/// do not suffice: browsers take them.
fn is_assigned(payload_type: u8) -> bool {
    matches!(payload_type, 35..=63 | 96..=127)
}

/// One packet in this number may violate the syntax of the codec for which a stream is taken.
const ODD_SHARE: u64 = 10;

/// Packets after which a codec is called another one than that of the stream.
const OTHER_PACKETS: u64 = 16;

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
    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Carried::Transport => "MPEG-TS",
            Carried::Mpeg => "MPEG-1/2 video",
            Carried::H264 => "H.264",
            Carried::H265 => "H.265",
            Carried::Av1 => "AV1",
            Carried::Vp8 => "VP8",
            Carried::Vp9 => "VP9",
        }
    }

    /// Whether it has no static payload type.
    pub fn is_dynamic(self) -> bool {
        !matches!(self, Carried::Transport | Carried::Mpeg)
    }
}

/// What a source carries that cannot be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Foreign {
    /// A codec of this name.
    Named(&'static str),
    /// Parities of the packets of another port (SMPTE 2022-1).
    Parities,
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
    /// Parameter sets of H.266.
    h266: u64,
    /// Payloads that are none of the codec.
    odd: u64,
    odd_of_h265: u64,
    odd_of_av1: u64,
    odd_of_vp8: u64,
    odd_of_vp9: u64,
    odd_of_h266: u64,
    shapes: Shapes,
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
        if is_transport(payload) {
            self.transport += 1;
            return;
        }
        // MPEG-2 may have an extension of four octets.
        if let [_, _, _, _, 0, 0, 1, code, ..] | [_, _, _, _, _, _, _, _, 0, 0, 1, code, ..] =
            payload
        {
            self.mpeg += u64::from(matches!(code, 0..=0xAF | 0xB3 | 0xB8));
        }
        self.shapes.add(packet);
        let count = |shown: Option<bool>, certain: &mut u64, odd: &mut u64| match shown {
            Some(true) => *certain += 1,
            Some(false) => {}
            None => *odd += 1,
        };
        count(h264(payload), &mut self.h264, &mut self.odd);
        count(of_h265(payload), &mut self.h265, &mut self.odd_of_h265);
        count(shows_av1(payload), &mut self.av1, &mut self.odd_of_av1);
        count(shows_vp8(payload), &mut self.vp8, &mut self.odd_of_vp8);
        count(shows_vp9(payload), &mut self.vp9, &mut self.odd_of_vp9);
        count(shows_h266(payload), &mut self.h266, &mut self.odd_of_h266);
    }

    /// Whether it fits a codec of which this number of payloads is none.
    fn fits(&self, odd: u64) -> bool {
        odd * ODD_SHARE <= self.packets
    }

    fn is_h266(&self) -> bool {
        self.h266 > self.h265 && self.fits(self.odd_of_h266)
    }

    /// Which of AV1, VP8 and VP9 it shows: key frames, among payloads that are those of the codec. Much of theirs looks like NAL units.
    pub fn shown(&self) -> Option<Carried> {
        let all = [
            (self.av1, self.odd_of_av1, Carried::Av1),
            (self.vp8, self.odd_of_vp8, Carried::Vp8),
            (self.vp9, self.odd_of_vp9, Carried::Vp9),
        ];
        let fitting = all.into_iter().filter(|it| it.0 > 0 && self.fits(it.1));
        let most = fitting.max_by_key(|it| it.0)?;
        is_assigned(self.payload_type).then_some(most.2)
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
            payload_type if !is_assigned(payload_type) => return None,
            _ => {}
        }
        if self.transport * 2 > self.packets {
            return Some(Carried::Transport);
        }
        if self.shapes.most().is_some() || self.is_h266() {
            return None;
        }
        if let Some(shown) = self.shown() {
            return Some(shown);
        }
        let is_h265 =
            self.fits(self.odd_of_h265) && (self.h265 > self.h264 || !self.fits(self.odd));
        let (certain_ones, odd, carried) = match is_h265 {
            true => (self.h265, self.odd_of_h265, Carried::H265),
            false => (self.h264, self.odd, Carried::H264),
        };
        let enough = certain_ones > 0 || self.packets >= plausible;
        (enough && self.fits(odd)).then_some(carried)
    }

    /// The codec that it shows for certain, if that is another one than `than`.
    pub fn other(&self, than: Carried, payload_type: u8) -> Option<&'static str> {
        if self.packets < OTHER_PACKETS {
            return None;
        }
        match self.carried(OTHER_PACKETS, u64::MAX) {
            Some(carried) => (carried != than && self.is_strong()).then(|| carried.name()),
            None => match self.foreign(payload_type) {
                Foreign::Unknown => None,
                other => Some(other.name()),
            },
        }
    }

    /// What it looks like.
    pub fn foreign(&self, payload_type: u8) -> Foreign {
        if !is_assigned(payload_type) {
            return of_static(payload_type).map_or(Foreign::Unknown, Foreign::Named);
        }
        let other = match self.is_h266() {
            true => Foreign::Named("H.266 video"),
            false => Foreign::Unknown,
        };
        self.shapes.most().unwrap_or(other)
    }
}

/// The codec of a static payload type (RFC 3551, tables 4 and 5).
fn of_static(payload_type: u8) -> Option<&'static str> {
    Some(match payload_type {
        0 | 8 => "G.711 sound",
        3 => "GSM sound",
        4 => "G.723 sound",
        5 | 6 | 16 | 17 => "DVI4 sound",
        7 => "LPC sound",
        9 => "G.722 sound",
        10 | 11 => "uncompressed sound",
        12 => "QCELP sound",
        13 | 19 => "comfort noise",
        14 => "MPEG sound",
        15 => "G.728 sound",
        18 => "G.729 sound",
        25 => "CelB video",
        26 => "JPEG video",
        28 => "nv video",
        31 => "H.261 video",
        34 => "H.263 video",
        _ => return None,
    })
}

impl Foreign {
    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Foreign::Named(name) => name,
            Foreign::Parities => "parities of SMPTE 2022-1",
            Foreign::Unknown => "a codec that is not known",
        }
    }
}

/// Whether a payload is packets of a transport stream.
pub(super) fn is_transport(payload: &[u8]) -> bool {
    let (whole, rest) = payload.as_chunks::<TS_PACKET>();
    !whole.is_empty() && rest.is_empty() && whole.iter().all(|it| it[0] == SYNC)
}

/// Whether a payload is one of H.264 (RFC 6184), and whether it shows that for certain: a sequence parameter set or
/// the beginning of an IDR picture.
fn h264(payload: &[u8]) -> Option<bool> {
    let certain = |kind| matches!(kind, nal::IDR | nal::SPS);
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

/// Whether a payload is one of H.266 in its lowest layer, and whether it begins with a parameter set (RFC 9328, 4.3).
fn shows_h266(payload: &[u8]) -> Option<bool> {
    const VPS: u8 = 14;
    const PPS: u8 = 16;
    const TOGETHER: u8 = 28;
    let kind = |head: &[u8]| match *head {
        [0, second, ..] if second & 7 != 0 => Some(second >> 3),
        _ => None,
    };
    let unit = match kind(payload)? {
        TOGETHER => kind(payload.get(4..)?)?,
        kind => kind,
    };
    Some((VPS..=PPS).contains(&unit))
}
