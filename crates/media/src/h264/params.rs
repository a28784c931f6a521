use bytes::Bytes;
use h264_reader::Context;
use h264_reader::nal::pps::PicParameterSet;
use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::nal::{Nal, RefNal};
use h264_reader::rbsp::BitRead;
use layercast_core::FrameRate;

use super::nal;
use super::tail::IgnoreTail;
use crate::sets::{MAX_SET, Sets, reduced};

/// Most PPS kept that came before the SPS they refer to.
const MAX_EARLY: usize = 16;

/// The parameter sets of a stream, parsed and as they came.
#[derive(Default, Debug)]
pub(crate) struct ParameterSets {
    context: Context,
    /// SPS before PPS.
    sets: Sets,
    /// PPS whose SPS is not known yet.
    early: Vec<Bytes>,
    /// Sets that could not be read.
    unread: u64,
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

    /// Takes an SPS or PPS; whether it is new or says something new. One that cannot be read is counted and
    /// not kept. A PPS may come before its SPS.
    pub fn take(&mut self, set: &[u8]) -> bool {
        let kind = nal::kind(set);
        let Some(number) = self.parse(kind, set) else {
            self.unread += 1;
            if kind == nal::PPS && set.len() <= MAX_SET && self.early.len() < MAX_EARLY {
                self.early.push(Bytes::copy_from_slice(set));
            }
            return false;
        };
        let news = self.sets.keep(kind, number, set);
        if kind == nal::SPS && news {
            for early in std::mem::take(&mut self.early) {
                self.unread -= 1;
                self.take(&early);
            }
        }
        news
    }

    /// Reads a set; strictly at first, and if that fails without regard to what follows its last element.
    fn parse(&mut self, kind: u8, set: &[u8]) -> Option<u32> {
        if set.len() > MAX_SET {
            return None;
        }
        let nal = RefNal::new(set, &[], true);
        match kind {
            nal::SPS => {
                let sps = SeqParameterSet::from_bits(nal.rbsp_bits())
                    .or_else(|_| SeqParameterSet::from_bits(IgnoreTail(nal.rbsp_bits())))
                    .ok()?;
                let number = u32::from(sps.id().id());
                self.context.put_seq_param_set(sps);
                Some(number)
            }
            nal::PPS => {
                let known = &self.context;
                let pps = PicParameterSet::from_bits(known, nal.rbsp_bits())
                    .or_else(|_| PicParameterSet::from_bits(known, IgnoreTail(nal.rbsp_bits())))
                    .ok()?;
                let number = nal.rbsp_bits().read_ue("pic_parameter_set_id").ok()?;
                self.context.put_pic_param_set(pps);
                Some(number)
            }
            _ => None,
        }
    }

    /// Whether there is an SPS and a PPS.
    pub fn are_complete(&self) -> bool {
        self.sets.have(nal::SPS) && self.sets.have(nal::PPS)
    }

    /// Whether slices may come in data partitions, as the Extended profile alone allows.
    pub fn have_partitions(&self) -> bool {
        const EXTENDED: u8 = 88;
        let mut all = self.context.sps();
        all.any(|sps| u8::from(sps.profile_idc) == EXTENDED)
    }

    /// Sets that came and could not be read.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// All sets, SPS first.
    pub fn all(&self) -> impl Iterator<Item = &Bytes> {
        self.sets.all()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// SPS and PPS of x264, 176x144, High profile, and a PPS of its Baseline profile.
    const SPS: &[u8] = &[
        0x67, 0x64, 0x00, 0x0B, 0xAC, 0xD9, 0x42, 0xC4, 0xEC, 0x04, 0x40, 0x00, 0x00, 0x03, 0x00,
        0x40, 0x00, 0x00, 0x0C, 0x83, 0xC5, 0x0A, 0x65, 0x80,
    ];
    const PPS: &[u8] = &[0x68, 0xEB, 0xE3, 0xCB, 0x22, 0xC0];
    const BASELINE_PPS: &[u8] = &[0x68, 0xCB, 0x83, 0xCB, 0x20];

    #[test]
    fn bytes_behind_a_parameter_set_are_ignored() {
        for tail in [&[][..], &[0x04], &[0x80], &[0x04, 0x80, 0xFF]] {
            for pps in [PPS, BASELINE_PPS] {
                let mut sets = ParameterSets::default();
                assert!(sets.take(&[SPS, tail].concat()), "{tail:?}");
                assert!(sets.take(&[pps, tail].concat()), "{tail:?}");
                assert!(sets.are_complete() && sets.unread() == 0);
                let format = sets.format().expect("a format");
                assert_eq!((format.width, format.height), (176, 144));
                assert_eq!(format.frame_rate, Some(FrameRate { num: 25, den: 1 }));
            }
        }
    }

    #[test]
    fn a_pps_may_come_before_its_sps() {
        let mut sets = ParameterSets::default();
        assert!(!sets.take(PPS));
        assert_eq!((sets.are_complete(), sets.unread()), (false, 1));
        assert!(sets.take(SPS));
        assert_eq!((sets.are_complete(), sets.unread()), (true, 0));
        assert!(!sets.take(PPS) && !sets.take(SPS), "nothing new");
    }

    #[test]
    fn sets_that_cannot_be_read_are_counted_and_memory_is_bounded() {
        let mut sets = ParameterSets::default();
        assert!(!sets.take(&SPS[..4]));
        assert!(!sets.take(&[SPS, &[7; MAX_SET]].concat()));
        for _ in 0..1_000 {
            sets.take(PPS);
        }
        assert_eq!(sets.unread(), 1_002);
        assert!(sets.early.len() <= MAX_EARLY && sets.all().next().is_none());
    }
}
