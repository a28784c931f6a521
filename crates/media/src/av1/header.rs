use layercast_core::FrameRate;

use super::obu::{Obu, kind};
use crate::mpeg::bits::BitReader;
use crate::sets::reduced;

/// Value of a choice that each frame makes for itself (`SELECT_SCREEN_CONTENT_TOOLS`, `SELECT_INTEGER_MV`).
const BY_FRAME: u8 = 2;

/// What is needed of a sequence header (5.5).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Sequence {
    pub width: u32,
    pub height: u32,
    pub rate: Option<FrameRate>,
    pub profile: u8,
    /// `seq_level_idx` and `seq_tier` of the first operating point.
    pub level: u8,
    pub tier: u8,
    /// Temporal layers of the first operating point, if it names any.
    pub temporal_layers: Option<u8>,
    /// How samples are coded; `None` if the header ends before that.
    pub color: Option<Color>,
    reduced: bool,
    equal_interval: bool,
    model: Option<Model>,
    points: Vec<Point>,
    /// Bits of `current_frame_id`.
    id_bits: u32,
    screen_content: u8,
    integer_mv: u8,
    order_bits: u32,
}

/// What is needed of `color_config` (5.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Color {
    /// Bits of a sample.
    pub depth: u8,
    pub is_monochrome: bool,
    /// In columns, and in lines.
    pub subsampling: (bool, bool),
    pub sample_position: u8,
}

impl Color {
    fn read(bits: &mut BitReader, profile: u8) -> Option<Color> {
        /// BT.709, sRGB and the identity: RGB.
        const RGB: (u32, u32, u32) = (1, 13, 0);
        let is_high = bits.flag()?;
        let depth = match is_high {
            true if profile == 2 && bits.flag()? => 12,
            true => 10,
            false => 8,
        };
        let is_monochrome = profile != 1 && bits.flag()?;
        let mut described = (2, 2, 2);
        if bits.flag()? {
            described = (bits.take(8)?, bits.take(8)?, bits.take(8)?);
        }
        let is_rgb = described == RGB && !is_monochrome;
        if !is_rgb {
            bits.skip(1)?;
        }
        let subsampling = match profile {
            _ if is_monochrome => (true, true),
            _ if is_rgb => (false, false),
            0 => (true, true),
            1 => (false, false),
            _ if depth < 12 => (true, false),
            _ => {
                let columns = bits.flag()?;
                (columns, columns && bits.flag()?)
            }
        };
        let has_position = subsampling == (true, true) && !is_monochrome;
        let sample_position = if has_position { bits.take(2)? as u8 } else { 0 };
        Some(Color {
            depth,
            is_monochrome,
            subsampling,
            sample_position,
        })
    }
}

/// `decoder_model_info` (5.5.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Model {
    delay_bits: u32,
    removal_bits: u32,
    presentation_bits: u32,
}

/// An operating point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Point {
    idc: u32,
    has_model: bool,
}

/// What is needed of a frame header (5.9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    /// A key frame that is shown: nothing behind it refers to what is before it.
    pub is_start: bool,
    /// Which of the eight places for reference frames it fills.
    pub fills: u8,
}

/// What has to be known before a frame header.
#[derive(Clone, Default, Debug)]
pub(crate) struct State {
    pub sequence: Option<Sequence>,
    /// Places with a key frame: to show it again fills all of them.
    keys: u8,
}

/// Reads on behind `enable_superres`, `enable_cdef` and `enable_restoration`.
fn color_of(bits: &mut BitReader, profile: u8) -> Option<Color> {
    bits.skip(3)?;
    Color::read(bits, profile)
}

impl Sequence {
    pub fn read(payload: &[u8]) -> Option<Sequence> {
        let bits = &mut BitReader::new(payload, 0);
        let mut sequence = Sequence {
            profile: bits.take(3)? as u8,
            ..Sequence::default()
        };
        bits.skip(1)?;
        sequence.reduced = bits.flag()?;
        match sequence.reduced {
            true => sequence.level = bits.take(5)? as u8,
            false => sequence.operation(bits)?,
        }
        let (width, height) = (bits.take(4)? + 1, bits.take(4)? + 1);
        sequence.width = bits.take(width)? + 1;
        sequence.height = bits.take(height)? + 1;
        if !sequence.reduced && bits.flag()? {
            let delta = bits.take(4)? + 2;
            sequence.id_bits = bits.take(3)? + delta + 1;
        }
        bits.skip(3)?;
        (sequence.screen_content, sequence.integer_mv) = (BY_FRAME, BY_FRAME);
        if sequence.reduced {
            sequence.color = color_of(bits, sequence.profile);
            return Some(sequence);
        }
        bits.skip(4)?;
        let has_order = bits.flag()?;
        if has_order {
            bits.skip(2)?;
        }
        let choice = |bits: &mut BitReader| match bits.flag()? {
            true => Some(BY_FRAME),
            false => Some(u8::from(bits.flag()?)),
        };
        sequence.screen_content = choice(bits)?;
        if sequence.screen_content > 0 {
            sequence.integer_mv = choice(bits)?;
        }
        if has_order {
            sequence.order_bits = bits.take(3)? + 1;
        }
        sequence.color = color_of(bits, sequence.profile);
        Some(sequence)
    }

    /// Timing, decoder model and operating points.
    fn operation(&mut self, bits: &mut BitReader) -> Option<()> {
        if bits.flag()? {
            let (ticks, scale) = (bits.take(32)?, bits.take(32)?);
            self.equal_interval = bits.flag()?;
            if self.equal_interval {
                let a_picture = bits.exp_golomb()?.checked_add(1)?;
                let den = ticks.checked_mul(a_picture);
                let rate = den.and_then(|den| reduced(scale, den));
                self.rate = rate.map(|(num, den)| FrameRate { num, den });
            }
            if bits.flag()? {
                let delay_bits = bits.take(5)? + 1;
                bits.skip(32)?;
                self.model = Some(Model {
                    delay_bits,
                    removal_bits: bits.take(5)? + 1,
                    presentation_bits: bits.take(5)? + 1,
                });
            }
        }
        let has_delay = bits.flag()?;
        for _ in 0..=bits.take(5)? {
            let idc = bits.take(12)?;
            let level = bits.take(5)? as u8;
            let tier = u8::from(level > 7 && bits.flag()?);
            if self.points.is_empty() {
                (self.level, self.tier) = (level, tier);
            }
            let mut has_model = false;
            if let Some(model) = self.model {
                has_model = bits.flag()?;
                if has_model {
                    bits.skip(model.delay_bits)?;
                    bits.skip(model.delay_bits + 1)?;
                }
            }
            if has_delay && bits.flag()? {
                bits.skip(4)?;
            }
            self.points.push(Point { idc, has_model });
        }
        let temporal = self.points.first().map_or(0, |point| point.idc & 0xFF);
        self.temporal_layers = (temporal > 0).then(|| 8 - (temporal as u8).leading_zeros() as u8);
        Some(())
    }
}

impl State {
    /// Takes a unit; gives what its frame header says, if it has one that can be read.
    pub(super) fn take(&mut self, obu: &Obu) -> Option<Frame> {
        match obu.kind {
            kind::SEQUENCE => {
                self.sequence = Sequence::read(obu.payload).or(self.sequence.take());
                None
            }
            kind::FRAME | kind::FRAME_HEADER => {
                let frame = self.frame(obu)?;
                if frame.is_start {
                    self.keys = u8::MAX;
                }
                Some(frame)
            }
            _ => None,
        }
    }

    fn frame(&mut self, obu: &Obu) -> Option<Frame> {
        const KEY: u32 = 0;
        const INTRA_ONLY: u32 = 2;
        const SWITCH: u32 = 3;
        let sequence = self.sequence.as_ref()?;
        let bits = &mut BitReader::new(obu.payload, 0);
        let start = Frame {
            is_start: true,
            fills: u8::MAX,
        };
        if sequence.reduced {
            return Some(start);
        }
        let timed = sequence.model.filter(|_| !sequence.equal_interval);
        if bits.flag()? {
            // A key frame that is shown again fills all places: others behind it refer to it alone, but it does not bring
            // what it is.
            let shown = bits.take(3)?;
            let is_key = self.keys >> shown & 1 == 1;
            let fills = if is_key { u8::MAX } else { 0 };
            return Some(Frame {
                is_start: false,
                fills,
            });
        }
        let kind = bits.take(2)?;
        let is_shown = bits.flag()?;
        if let Some(model) = timed.filter(|_| is_shown) {
            bits.skip(model.presentation_bits)?;
        }
        if kind == KEY && is_shown {
            return Some(start);
        }
        if !is_shown {
            bits.skip(1)?;
        }
        let is_resilient = kind == SWITCH || bits.flag()?;
        bits.skip(1)?;
        let screen_content = match sequence.screen_content {
            BY_FRAME => bits.flag()?,
            fixed => fixed == 1,
        };
        if screen_content && sequence.integer_mv == BY_FRAME {
            bits.skip(1)?;
        }
        bits.skip(sequence.id_bits)?;
        if kind != SWITCH {
            bits.skip(1)?;
        }
        bits.skip(sequence.order_bits)?;
        let is_intra = matches!(kind, KEY | INTRA_ONLY);
        if !is_intra && !is_resilient {
            bits.skip(3)?;
        }
        if let Some(model) = sequence.model
            && bits.flag()?
        {
            let (temporal, spatial) = obu.ids.unwrap_or_default();
            for point in sequence.points.iter().filter(|it| it.has_model) {
                let is_in = point.idc >> temporal & point.idc >> (spatial + 8) & 1 == 1;
                if point.idc == 0 || is_in {
                    bits.skip(model.removal_bits)?;
                }
            }
        }
        let fills = match kind {
            SWITCH => u8::MAX,
            _ => bits.take(8)? as u8,
        };
        self.keys = match kind {
            KEY => self.keys | fills,
            _ => self.keys & !fills,
        };
        Some(Frame {
            is_start: false,
            fills,
        })
    }
}
