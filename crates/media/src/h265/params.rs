use bytes::Bytes;
use layercast_core::FrameRate;
use memchr::memmem;

use super::nal;
use crate::mpeg::bits::BitReader;
use crate::sets::{MAX_SET, Sets, reduced};

/// Bytes of a slice segment in which what is read of its header must end.
const SLICE_HEADER: usize = 512;
/// Limits of the standard (7.4.3): larger numbers are no parameter sets.
const MAX_SPS: usize = 16;
const MAX_PPS: usize = 64;
const MAX_REFERENCE_SETS: u32 = 64;
const MAX_PICTURES: u32 = 16;
const MAX_LONG_TERM: u32 = 32;
/// Largest distance of pictures in display order.
const MAX_STEP: u32 = 1 << 15;
/// Largest picture believed, in samples of a row or a column.
const MAX_SIDE: u32 = 65_535;

/// The parameter sets of a stream: as they came, and what is needed of them.
#[derive(Debug)]
pub(crate) struct ParameterSets {
    sets: Sets,
    sps: Box<[Option<Sps>; MAX_SPS]>,
    pps: Box<[Option<Pps>; MAX_PPS]>,
    /// From a VPS: a stream says its rate there, in the SPS, or nowhere.
    rate: Option<FrameRate>,
    unread: u64,
}

/// What is needed of an SPS (7.3.2.2).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sps {
    width: u32,
    height: u32,
    rate: Option<FrameRate>,
    separate_planes: bool,
    /// Bits of `slice_pic_order_cnt_lsb`.
    order_bits: u32,
    /// Pictures that may be decoded before one that is displayed earlier.
    reorder: u32,
    tail: Option<Tail>,
}

/// What is needed of the second half of an SPS, which is not believed where it cannot be read.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Tail {
    candidates: Vec<ReferenceSet>,
    /// `lt_ref_pic_poc_lsb_sps` and `used_by_curr_pic_lt_sps_flag`; `None`: there are no long-term references.
    long_term: Option<Vec<(u32, bool)>>,
}

/// Pictures that one may refer to (7.4.8): how far they are ahead in the count of pictures in display order, and whether this
/// one does.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct ReferenceSet {
    behind: Vec<(i32, bool)>,
    ahead: Vec<(i32, bool)>,
}

/// Width and height of the pictures of an access unit in Annex B form, if it has an SPS of the base layer that can be read.
pub(crate) fn size_in(unit: &[u8]) -> Option<(u32, u32)> {
    let (_, sps) = Sps::read(&mut BitReader::new(&sps_in(unit)?, 0))?;
    Some((sps.width, sps.height))
}

/// The codec of an access unit in Annex B form as ISO/IEC 14496-15, E.3 writes it, such as `hev1.1.6.L93.B0`; `None` without an SPS.
pub(crate) fn codec_parameter(unit: &[u8]) -> Option<String> {
    // Two octets of the NAL unit header, one of numbers, then profile_tier_level (7.3.3).
    let set = sps_in(unit)?;
    let [_, _, _, profile, a, b, c, d, constraints @ .., level] = set.first_chunk::<15>()?;
    let space = ["", "A", "B", "C"][usize::from(profile >> 6)];
    let tier = if profile & 0x20 == 0 { 'L' } else { 'H' };
    let compatible = u32::from_be_bytes([*a, *b, *c, *d]).reverse_bits();
    let mut text = format!("hev1.{space}{}.{compatible:X}.{tier}{level}", profile & 31);
    let used = constraints
        .iter()
        .rposition(|&it| it != 0)
        .map_or(0, |it| it + 1);
    for octet in &constraints[..used] {
        text.push_str(&format!(".{octet:X}"));
    }
    Some(text)
}

/// The first SPS of the base layer in an access unit, without emulation prevention.
fn sps_in(unit: &[u8]) -> Option<Vec<u8>> {
    let starts = memmem::find_iter(unit, &[0, 0, 1]).map(|at| at + 3);
    let mut sets = starts.filter_map(|at| {
        let nal = unit.get(at..)?;
        (nal::head(nal)? == (nal::SPS, 0)).then_some(nal)
    });
    let set = sets.next()?;
    let end = memmem::find(set, &[0, 0, 1]).unwrap_or(set.len());
    Some(unescaped(&set[..end.min(MAX_SET)]))
}

/// What is needed of a PPS (7.3.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pps {
    sps: u8,
    output_flag: bool,
    extra_bits: u32,
}

/// What a sequence parameter set says about the video.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VideoFormat {
    pub width: u32,
    pub height: u32,
    /// `None` without timing information.
    pub rate: Option<FrameRate>,
}

/// The place of a picture in display order and what it refers to, from its first slice segment (7.3.6.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Slice {
    /// `slice_pic_order_cnt_lsb`, and its modulus.
    pub lsb: u32,
    pub modulus: u32,
    pub reorder: u32,
    /// How far pictures are ahead that it names, and whether it refers to them.
    pub near: Vec<(i32, bool)>,
    /// The same by the low bits of their count.
    pub far: Vec<(u32, bool)>,
}

impl Default for ParameterSets {
    fn default() -> ParameterSets {
        ParameterSets {
            sets: Sets::default(),
            sps: Box::default(),
            pps: Box::new([None; MAX_PPS]),
            rate: None,
            unread: 0,
        }
    }
}

impl ParameterSets {
    /// Takes a VPS, SPS or PPS. One that cannot be read is counted and not kept.
    pub fn take(&mut self, set: &[u8]) {
        let kind = nal::head(set).map_or(0, |(kind, _)| kind);
        let number = match set.len() <= MAX_SET {
            true => self.parse(kind, &unescaped(set)),
            false => None,
        };
        match number {
            Some(number) => drop(self.sets.keep(kind, number, set)),
            None => self.unread += 1,
        }
    }

    fn parse(&mut self, kind: u8, set: &[u8]) -> Option<u32> {
        let mut bits = BitReader::new(set, 0);
        match kind {
            nal::VPS => {
                let number = BitReader::new(set, 0).take(4)?;
                // Optional, and far behind: a VPS without is one all the same.
                self.rate = vps_rate(&mut bits).or(self.rate);
                Some(number)
            }
            nal::SPS => {
                let (number, sps) = Sps::read(&mut bits)?;
                *self.sps.get_mut(number as usize)? = Some(sps);
                Some(number)
            }
            nal::PPS => {
                let number = bits.exp_golomb()?;
                let pps = Pps {
                    sps: u8::try_from(bits.exp_golomb()?).ok()?,
                    output_flag: bits.skip(1).and_then(|()| bits.flag())?,
                    extra_bits: bits.take(3)?,
                };
                *self.pps.get_mut(number as usize)? = Some(pps);
                Some(number)
            }
            _ => None,
        }
    }

    /// Whether a decoder can start with them.
    pub fn are_complete(&self) -> bool {
        let kinds = [nal::VPS, nal::SPS, nal::PPS];
        kinds.into_iter().all(|kind| self.sets.have(kind))
    }

    /// Sets that came and could not be read.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// All sets: VPS, SPS, PPS.
    pub fn all(&self) -> impl Iterator<Item = &Bytes> {
        self.sets.all()
    }

    /// Size and rate, as the SPS with the lowest number says.
    pub fn format(&self) -> Option<VideoFormat> {
        let sps = self.sps.iter().flatten().next()?;
        Some(VideoFormat {
            width: sps.width,
            height: sps.height,
            rate: sps.rate.or(self.rate),
        })
    }

    /// Reads the first slice segment of a picture; `None` if its parameter sets are unknown.
    pub fn slice(&self, segment: &[u8]) -> Option<Slice> {
        let (kind, _) = nal::head(segment)?;
        let front = unescaped(&segment[..segment.len().min(SLICE_HEADER)]);
        let mut bits = BitReader::new(&front, 0);
        let is_first = bits.flag()?;
        if !is_first {
            return None;
        }
        if (nal::FIRST_IRAP..=nal::LAST_IRAP).contains(&kind) {
            bits.skip(1)?;
        }
        let number = bits.exp_golomb()? as usize;
        let pps = self.pps.get(number)?.as_ref()?;
        let sps = self.sps.get(usize::from(pps.sps))?.as_ref()?;
        bits.skip(pps.extra_bits)?;
        bits.exp_golomb()?; // slice_type
        bits.skip(u32::from(pps.output_flag) + 2 * u32::from(sps.separate_planes))?;
        let mut slice = Slice {
            lsb: 0,
            modulus: 1 << sps.order_bits,
            reorder: sps.reorder,
            near: Vec::new(),
            far: Vec::new(),
        };
        if !matches!(kind, nal::IDR_W_RADL | nal::IDR_N_LP) {
            slice.lsb = bits.take(sps.order_bits)?;
            let tail = sps.tail.as_ref()?;
            slice.near = tail.near(&mut bits)?;
            slice.far = tail.far(&mut bits, sps.order_bits)?;
        }
        Some(slice)
    }
}

/// Bits that number one of `count` things.
fn bits_for(count: usize) -> u32 {
    count.next_power_of_two().trailing_zeros()
}

impl Tail {
    fn near(&self, bits: &mut BitReader) -> Option<Vec<(i32, bool)>> {
        let chosen;
        let set = match bits.flag()? {
            true => {
                let index = bits.take(bits_for(self.candidates.len()))?;
                self.candidates.get(index as usize)?
            }
            false => {
                chosen = ReferenceSet::read(bits, &self.candidates, true)?;
                &chosen
            }
        };
        Some([&set.behind[..], &set.ahead].concat())
    }

    fn far(&self, bits: &mut BitReader, order_bits: u32) -> Option<Vec<(u32, bool)>> {
        let Some(known) = &self.long_term else {
            return Some(Vec::new());
        };
        let of_known = match known.is_empty() {
            true => 0,
            false => bits.exp_golomb()?,
        };
        let count = of_known.checked_add(bits.exp_golomb()?)?;
        if count > MAX_LONG_TERM {
            return None;
        }
        let mut found = Vec::new();
        for index in 0..count {
            found.push(match index < of_known {
                true => *known.get(bits.take(bits_for(known.len()))? as usize)?,
                false => (bits.take(order_bits)?, bits.flag()?),
            });
            if bits.flag()? {
                bits.exp_golomb()?;
            }
        }
        Some(found)
    }
}

impl ReferenceSet {
    /// `st_ref_pic_set` (7.3.7, 7.4.8): the next one behind these, or that of a slice.
    fn read(bits: &mut BitReader, before: &[ReferenceSet], is_slice: bool) -> Option<ReferenceSet> {
        if !before.is_empty() && bits.flag()? {
            return ReferenceSet::predicted(bits, before, is_slice);
        }
        let mut count = || bits.exp_golomb().filter(|it| *it <= MAX_PICTURES);
        let (behind, ahead) = (count()?, count()?);
        let mut side = |count: u32, sign: i32| -> Option<Vec<(i32, bool)>> {
            let mut at = 0;
            let mut found = Vec::new();
            for _ in 0..count {
                let step = bits.exp_golomb().filter(|it| *it < MAX_STEP)? as i32 + 1;
                at += sign * step;
                found.push((at, bits.flag()?));
            }
            Some(found)
        };
        Some(ReferenceSet {
            behind: side(behind, -1)?,
            ahead: side(ahead, 1)?,
        })
    }

    /// One that differs from another by a shift, and by pictures that are left out.
    fn predicted(
        bits: &mut BitReader,
        before: &[ReferenceSet],
        is_slice: bool,
    ) -> Option<ReferenceSet> {
        let back = match is_slice {
            true => bits.exp_golomb()? as usize,
            false => 0,
        };
        let from = &before[before.len().checked_sub(back.checked_add(1)?)?];
        let sign = if bits.flag()? { -1 } else { 1 };
        let shift = sign * (bits.exp_golomb().filter(|it| *it < MAX_STEP)? as i32 + 1);
        let count = from.behind.len() + from.ahead.len();
        let mut flags = Vec::with_capacity(count + 1);
        for _ in 0..=count {
            let used = bits.flag()?;
            flags.push((used, used || bits.flag()?));
        }
        // All of the other set, and the picture that it was of.
        let of = |all: &[(i32, bool)], first: usize| -> Vec<(i32, (bool, bool))> {
            let shifted = all.iter().zip(&flags[first..]);
            shifted
                .map(|((at, _), flags)| (at + shift, *flags))
                .collect()
        };
        let behind = of(&from.behind, 0);
        let ahead = of(&from.ahead, from.behind.len());
        let itself = [(shift, flags[count])];
        let side = |order: Vec<&(i32, (bool, bool))>, sign: i32| -> Vec<(i32, bool)> {
            let of_side = order
                .into_iter()
                .filter(|(at, (_, kept))| at * sign > 0 && *kept);
            of_side.map(|&(at, (used, _))| (at, used)).collect()
        };
        let set = ReferenceSet {
            behind: side(
                ahead.iter().rev().chain(&itself).chain(&behind).collect(),
                -1,
            ),
            ahead: side(
                behind.iter().rev().chain(&itself).chain(&ahead).collect(),
                1,
            ),
        };
        let most = MAX_PICTURES as usize;
        (set.behind.len() <= most && set.ahead.len() <= most).then_some(set)
    }
}

impl Sps {
    fn read(bits: &mut BitReader) -> Option<(u32, Sps)> {
        bits.skip(4)?;
        let sub_layers = bits.take(3)?;
        bits.skip(1)?;
        profile_tier_level(bits, sub_layers)?;
        let number = bits.exp_golomb()?;
        let chroma = bits.exp_golomb()?;
        let separate_planes = chroma == 3 && bits.flag()?;
        let (mut width, mut height) = (bits.exp_golomb()?, bits.exp_golomb()?);
        if width > MAX_SIDE || height > MAX_SIDE {
            return None;
        }
        if bits.flag()? {
            // In samples of chroma (table 6-1).
            let (across, down) = match chroma {
                1 => (2, 2),
                2 => (2, 1),
                _ => (1, 1),
            };
            let mut edge = || bits.exp_golomb().filter(|it| *it <= MAX_SIDE);
            let [left, right, top, bottom] = [edge()?, edge()?, edge()?, edge()?];
            width = width.saturating_sub(across * (left + right));
            height = height.saturating_sub(down * (top + bottom));
        }
        bits.exp_golomb()?; // bit depths
        bits.exp_golomb()?;
        let order_bits = bits.exp_golomb()?.checked_add(4).filter(|it| *it <= 16)?;
        let all_said = bits.flag()?;
        let mut reorder = 0;
        for _ in 0..if all_said { sub_layers + 1 } else { 1 } {
            bits.exp_golomb()?;
            reorder = bits.exp_golomb()?;
            bits.exp_golomb()?;
        }
        let sps = Sps {
            width,
            height,
            rate: None,
            separate_planes,
            order_bits,
            reorder: reorder.min(MAX_PICTURES),
            tail: None,
        };
        let tail = Tail::read(bits, order_bits);
        let rate = tail.as_ref().and_then(|_| vui_rate(bits));
        Some((number, Sps { rate, tail, ..sps }))
    }
}

/// Without the two bytes of the header, and without `emulation_prevention_three_byte` (7.3.1.1).
fn unescaped(nal: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(nal.len());
    let mut zeros = 0;
    for &byte in nal.get(2..).unwrap_or_default() {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
    out
}

/// `profile_tier_level` (7.3.3).
fn profile_tier_level(bits: &mut BitReader, sub_layers: u32) -> Option<()> {
    const PROFILE: u32 = 88;
    const LEVEL: u32 = 8;
    bits.skip(PROFILE + LEVEL)?;
    let mut present = 0;
    for _ in 0..sub_layers {
        present += PROFILE * bits.take(1)? + LEVEL * bits.take(1)?;
    }
    if sub_layers > 0 {
        bits.skip(2 * (8 - sub_layers))?;
    }
    bits.skip(present)
}

/// Pictures per second of a clock that ticks once a picture.
fn rate(bits: &mut BitReader) -> Option<FrameRate> {
    let (ticks, scale) = (bits.take(32)?, bits.take(32)?);
    let (num, den) = reduced(scale, ticks)?;
    Some(FrameRate { num, den })
}

/// The timing information of a VPS (7.3.2.1).
fn vps_rate(bits: &mut BitReader) -> Option<FrameRate> {
    bits.skip(12)?;
    let sub_layers = bits.take(3)?;
    bits.skip(17)?;
    profile_tier_level(bits, sub_layers)?;
    let all_said = bits.flag()?;
    for _ in 0..if all_said { sub_layers + 1 } else { 1 } {
        for _ in 0..3 {
            bits.exp_golomb()?;
        }
    }
    let max_layer = bits.take(6)?;
    let layer_sets = bits.exp_golomb()?.min(1_023);
    bits.skip(layer_sets * (max_layer + 1))?;
    match bits.flag()? {
        true => rate(bits),
        false => None,
    }
}

impl Tail {
    /// From behind `sps_max_latency_increase_plus1` up to `vui_parameters_present_flag` (7.3.2.2).
    fn read(bits: &mut BitReader, order_bits: u32) -> Option<Tail> {
        for _ in 0..6 {
            bits.exp_golomb()?;
        }
        if bits.flag()? && bits.flag()? {
            scaling_lists(bits)?;
        }
        bits.skip(2)?;
        if bits.flag()? {
            bits.skip(8)?;
            bits.exp_golomb()?;
            bits.exp_golomb()?;
            bits.skip(1)?;
        }
        let count = bits.exp_golomb().filter(|it| *it <= MAX_REFERENCE_SETS)?;
        let mut tail = Tail::default();
        for _ in 0..count {
            let next = ReferenceSet::read(bits, &tail.candidates, false)?;
            tail.candidates.push(next);
        }
        if bits.flag()? {
            let count = bits.exp_golomb().filter(|it| *it <= MAX_LONG_TERM)?;
            let long_term = (0..count).map(|_| Some((bits.take(order_bits)?, bits.flag()?)));
            tail.long_term = Some(long_term.collect::<Option<_>>()?);
        }
        bits.skip(2)?;
        Some(tail)
    }
}

/// The timing information of an SPS, from `vui_parameters_present_flag` on (E.2.1).
fn vui_rate(bits: &mut BitReader) -> Option<FrameRate> {
    if !bits.flag()? {
        return None;
    }
    const EXTENDED_SAR: u32 = 255;
    if bits.flag()? && bits.take(8)? == EXTENDED_SAR {
        bits.skip(32)?;
    }
    if bits.flag()? {
        bits.skip(1)?;
    }
    if bits.flag()? {
        bits.skip(4)?;
        if bits.flag()? {
            bits.skip(24)?;
        }
    }
    if bits.flag()? {
        bits.exp_golomb()?;
        bits.exp_golomb()?;
    }
    bits.skip(3)?;
    if bits.flag()? {
        for _ in 0..4 {
            bits.exp_golomb()?;
        }
    }
    match bits.flag()? {
        true => rate(bits),
        false => None,
    }
}

/// `scaling_list_data` (7.3.4).
fn scaling_lists(bits: &mut BitReader) -> Option<()> {
    for size in 0..4 {
        for _ in (0..6).step_by(if size == 3 { 3 } else { 1 }) {
            if !bits.flag()? {
                bits.exp_golomb()?;
                continue;
            }
            if size > 1 {
                bits.exp_golomb()?;
            }
            for _ in 0..64.min(1 << (4 + 2 * size)) {
                bits.exp_golomb()?;
            }
        }
    }
    Some(())
}
