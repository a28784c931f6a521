use bytes::Bytes;
use h264_reader::Context;
use h264_reader::nal::pps::PicParameterSet;
use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::nal::{Nal, RefNal};
use h264_reader::rbsp::BitRead;
use layercast_core::FrameRate;

use super::nal;

/// Most parameter sets kept: all that have a number, 32 SPS and 256 PPS.
const MAX_SETS: usize = 288;
/// Longest parameter set believed; real ones have some tens of bytes.
const MAX_SET: usize = 4_096;

/// The parameter sets of a stream, parsed and as they came.
#[derive(Default, Debug)]
pub(crate) struct ParameterSets {
    context: Context,
    /// Type, number, bytes; SPS before PPS.
    sets: Vec<(u8, u32, Bytes)>,
}

/// What a sequence parameter set says about the video.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VideoFormat {
    pub width: u32,
    pub height: u32,
    /// `None` without timing information.
    pub frame_rate: Option<FrameRate>,
}

impl ParameterSets {
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Takes an SPS or PPS; whether it is new or says something new. One that does not parse is not
    /// kept: nothing that needs it can be understood anyway.
    pub fn take(&mut self, set: &[u8]) -> bool {
        let kind = nal::kind(set);
        let Some(number) = self.parse(kind, set) else {
            return false;
        };
        let at = self
            .sets
            .partition_point(|&(k, n, _)| (k, n) < (kind, number));
        let room = self.sets.len() < MAX_SETS;
        match self.sets.get_mut(at) {
            Some((k, n, known)) if (*k, *n) == (kind, number) => {
                let changed = known[..] != *set;
                if changed {
                    *known = Bytes::copy_from_slice(set);
                }
                changed
            }
            _ => {
                if room {
                    let set = Bytes::copy_from_slice(set);
                    self.sets.insert(at, (kind, number, set));
                }
                room
            }
        }
    }

    fn parse(&mut self, kind: u8, set: &[u8]) -> Option<u32> {
        if set.len() > MAX_SET {
            return None;
        }
        let nal = RefNal::new(set, &[], true);
        match kind {
            nal::SPS => {
                let sps = SeqParameterSet::from_bits(nal.rbsp_bits()).ok()?;
                let number = u32::from(sps.id().id());
                self.context.put_seq_param_set(sps);
                Some(number)
            }
            nal::PPS => {
                let pps = PicParameterSet::from_bits(&self.context, nal.rbsp_bits()).ok()?;
                let number = nal.rbsp_bits().read_ue("pic_parameter_set_id").ok()?;
                self.context.put_pic_param_set(pps);
                Some(number)
            }
            _ => None,
        }
    }

    /// All sets, SPS first.
    pub fn all(&self) -> impl Iterator<Item = &Bytes> {
        self.sets.iter().map(|(_, _, set)| set)
    }

    /// Size and rate as the SPS with the lowest number says.
    pub fn format(&self) -> Option<VideoFormat> {
        let sps = self.context.sps().next()?;
        let (width, height) = sps.pixel_dimensions().ok()?;
        let vui = sps.vui_parameters.as_ref();
        let timing = vui.and_then(|vui| vui.timing_info.as_ref());
        let frame_rate = timing.and_then(|timing| {
            // A tick is a field's time (E.2.1).
            let den = timing.num_units_in_tick.checked_mul(2)?;
            let (num, den) = reduced(timing.time_scale, den)?;
            Some(FrameRate { num, den })
        });
        Some(VideoFormat {
            width,
            height,
            frame_rate,
        })
    }
}

/// The fraction in lowest terms; `None` if it is none, or nothing a clock can tick.
fn reduced(num: u32, den: u32) -> Option<(u32, u32)> {
    let (mut a, mut b) = (num, den);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let (num, den) = (num.checked_div(a)?, den.checked_div(a)?);
    let plausible = num != 0 && den != 0 && num / den <= 1_000;
    plausible.then_some((num, den))
}
