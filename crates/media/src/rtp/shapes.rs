//! What packets of codecs that are not carried look like: RTP says no codec of a dynamic payload type.

use super::codec::Foreign;
use super::packet::RtpPacket;

/// What begins a picture or a packet of sound, counted over those that begin one.
///
/// One payload says little: a codec is named if more than half of them have its shape.
#[derive(Default, Debug)]
pub(super) struct Shapes {
    /// Packets with another time stamp than the one before.
    units: u64,
    counts: [u64; ALL.len()],
    last: Option<Last>,
}

/// The packet before.
#[derive(Debug)]
struct Last {
    seq: u16,
    timestamp: u32,
    octets: usize,
    /// How long it lasts if it is Opus, in ticks of 48 kHz.
    opus: Option<u32>,
}

/// A payload, with what came before it.
struct Seen<'a> {
    payload: &'a [u8],
    /// The packet before, and the ticks since.
    before: Option<(&'a Last, u32)>,
}

/// Whether a payload has a shape.
type Tells = fn(&Seen) -> bool;

/// The shapes that are known, with what tells them; the stricter ones first.
const ALL: [(Foreign, Tells); 14] = [
    (Foreign::Parities, parities),
    (Foreign::Named("JPEG 2000 video"), jpeg2000),
    (Foreign::Named("uncompressed video"), uncompressed_video),
    (Foreign::Named("Theora video or Vorbis sound"), xiph),
    (Foreign::Named("AC-3 sound"), ac3),
    (Foreign::Named("E-AC-3 sound"), eac3),
    (Foreign::Named("AAC sound"), aac),
    (Foreign::Named("MPEG-4 part 2 video"), mpeg4),
    (Foreign::Named("MPEG sound"), mpeg_sound),
    (Foreign::Named("H.263 video"), h263),
    (Foreign::Named("DV video"), dv),
    (Foreign::Named("AAC sound (LATM)"), latm),
    (Foreign::Named("Opus sound"), opus),
    (Foreign::Named("PCM sound"), pcm),
];

impl Shapes {
    /// Takes a packet with a payload.
    pub fn add(&mut self, packet: &RtpPacket) {
        let last = self.last.replace(Last {
            seq: packet.seq,
            timestamp: packet.timestamp,
            octets: packet.payload.len(),
            opus: opus_ticks(packet.payload),
        });
        if last
            .as_ref()
            .is_some_and(|it| it.timestamp == packet.timestamp)
        {
            return;
        }
        self.units += 1;
        let follows = last
            .as_ref()
            .filter(|it| it.seq.wrapping_add(1) == packet.seq);
        let seen = Seen {
            payload: packet.payload,
            before: follows.map(|it| (it, packet.timestamp.wrapping_sub(it.timestamp))),
        };
        for (count, (_, has_shape)) in self.counts.iter_mut().zip(ALL) {
            *count += u64::from(has_shape(&seen));
        }
    }

    /// What most of them look like.
    pub fn most(&self) -> Option<Foreign> {
        let all = self.counts.iter().zip(ALL);
        let (count, (foreign, _)) = all.rev().max_by_key(|it| it.0)?;
        (count * 2 > self.units).then_some(foreign)
    }
}

/// A visual object sequence, object, layer, group or picture begins (RFC 6416, 5).
fn mpeg4(seen: &Seen) -> bool {
    matches!(
        seen.payload,
        [0, 0, 1, 0..=0x2F | 0xB0 | 0xB3 | 0xB5 | 0xB6, ..]
    )
}

/// A picture begins: its start code without the first two octets (RFC 4629, 5.1).
fn h263(seen: &Seen) -> bool {
    matches!(seen.payload, [head, _, code, ..] if head & 0xFC == 4 && code & 0xFC == 0x80)
}

/// Packets behind their lengths, or a part of one (RFC 5215, 2.2).
fn xiph(seen: &Seen) -> bool {
    let [_, _, _, flags, rest @ ..] = seen.payload else {
        return false;
    };
    let packets = match (flags >> 6, flags & 15) {
        (0, 0) | (1.., 1..) => return false,
        (0, packets) => packets,
        _ => 1,
    };
    behind_lengths(rest, packets.into())
}

/// Whether this number of packets, each behind its length in 16 bits, is all there is.
fn behind_lengths(mut rest: &[u8], packets: usize) -> bool {
    for _ in 0..packets {
        let Some((len, after)) = rest.split_first_chunk() else {
            return false;
        };
        let len = usize::from(u16::from_be_bytes(*len));
        let Some(after) = after.get(len..).filter(|_| len > 0) else {
            return false;
        };
        rest = after;
    }
    rest.is_empty()
}

/// The main header of a picture (RFC 5371, 4; ISO/IEC 15444-1, A.4).
fn jpeg2000(seen: &Seen) -> bool {
    matches!(
        seen.payload,
        [_, _, _, _, _, 0, 0, 0, 0xFF, 0x4F, 0xFF, 0x51, ..]
    )
}

/// Parts of lines behind their lengths and places (RFC 4175, 4.2).
fn uncompressed_video(seen: &Seen) -> bool {
    let Some(mut rest) = seen.payload.get(2..) else {
        return false;
    };
    let mut octets = 0;
    while let [len_high, len_low, _, _, place, _, after @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*len_high, *len_low]));
        (octets, rest) = (octets + len, after);
        if place & 0x80 == 0 {
            return octets > 0 && octets == rest.len();
        }
    }
    false
}

/// The header section of a picture in blocks of 80 octets (RFC 6469, 2).
fn dv(seen: &Seen) -> bool {
    matches!(seen.payload, [0x1F, _, 0, ..]) && seen.payload.len().is_multiple_of(80)
}

/// Headers of 16 bits with the sizes of the units behind them (RFC 3640, 3.2.1 and 3.3.6).
fn aac(seen: &Seen) -> bool {
    let Some((bits, rest)) = seen.payload.split_first_chunk() else {
        return false;
    };
    let bits = usize::from(u16::from_be_bytes(*bits));
    let Some((headers, units)) = rest.split_at_checked(bits / 8) else {
        return false;
    };
    let (headers, odd) = headers.as_chunks();
    let size = |header: &[u8; 2]| usize::from(u16::from_be_bytes(*header) >> 3);
    let octets: usize = headers.iter().map(size).sum();
    // One unit may continue in further packets.
    let fits = octets == units.len() || headers.len() == 1 && octets > units.len();
    odd.is_empty() && bits > 0 && bits.is_multiple_of(16) && fits
}

/// Frames behind their lengths, 255 for each octet that is full (ISO/IEC 14496-3, 1.7.3; RFC 6416, 6).
fn latm(seen: &Seen) -> bool {
    let mut rest = seen.payload;
    while !rest.is_empty() {
        let full = rest.iter().take_while(|&&byte| byte == 255).count();
        let Some(&last) = rest.get(full) else {
            return false;
        };
        let len = 255 * full + usize::from(last);
        match rest.get(full + 1 + len..) {
            Some(after) if len > 0 => rest = after,
            _ => return false,
        }
    }
    true
}

/// The identification of the stream of a frame, and whether a frame begins (RFC 4184, 4.1; ETSI TS 102 366, 4.4.2 and E.1.3.1).
fn frame_of_ac3(payload: &[u8]) -> Option<u8> {
    match payload {
        [_, _, 0x0B, 0x77, _, _, _, id, ..] => Some(id >> 3),
        _ => None,
    }
}

fn ac3(seen: &Seen) -> bool {
    frame_of_ac3(seen.payload).is_some_and(|id| id <= 10)
}

fn eac3(seen: &Seen) -> bool {
    frame_of_ac3(seen.payload).is_some_and(|id| id > 10)
}

/// A frame begins (RFC 2250, 3.5).
fn mpeg_sound(seen: &Seen) -> bool {
    matches!(seen.payload, [0, 0, _, _, 0xFF, 0xE0..=0xFF, ..])
}

/// The packet before lasted as long as it said (RFC 7587, 4.1).
fn opus(seen: &Seen) -> bool {
    seen.before
        .is_some_and(|(last, ticks)| last.opus == Some(ticks))
}

/// How long a packet of Opus lasts (RFC 6716, 3.1 and 3.2).
fn opus_ticks(payload: &[u8]) -> Option<u32> {
    const MOST: u32 = 5_760;
    let &first = payload.first()?;
    let frame = match first >> 3 {
        config @ 0..=11 => [480, 960, 1_920, 2_880][usize::from(config & 3)],
        config @ 12..=15 => [480, 960][usize::from(config & 1)],
        config => [120, 240, 480, 960][usize::from(config & 3)],
    };
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(payload.get(1)? & 0x3F),
    };
    Some(frames * frame).filter(|ticks| (1..=MOST).contains(ticks))
}

/// The packet before has a whole number of octets for each tick (RFC 3551, 4.5.8 to 4.5.14; RFC 3190).
fn pcm(seen: &Seen) -> bool {
    /// 64 channels of 24 bits.
    const MOST: usize = 64 * 3;
    let Some((last, ticks)) = seen.before else {
        return false;
    };
    let ticks = ticks as usize;
    ticks > 1 && last.octets.is_multiple_of(ticks) && (1..=MOST).contains(&(last.octets / ticks))
}

/// A parity with its header: it protects 1 to 20 packets at a distance of 1 to 50 (SMPTE 2022-1, 8.1).
fn parities(seen: &Seen) -> bool {
    matches!(
        seen.payload,
        [
            _,
            _,
            _,
            _,
            0x80..=0xFF,
            0,
            0,
            0,
            _,
            _,
            _,
            _,
            _,
            1..=50,
            1..=50,
            0,
            ..
        ]
    )
}
