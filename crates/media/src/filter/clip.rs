use layercast_core::Rate;

use super::{CoefficientFilter, FilterError, FilterStats, Shaping};
use crate::{Clip, Frame, Picture};

/// A filtered clip, and what the filter did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filtered {
    /// The clip.
    pub clip: Clip,
    /// What the filter did.
    pub stats: FilterStats,
}

impl Clip {
    /// Low-pass filters all frames, see [`Shaping::LowPass`].
    ///
    /// # Errors
    /// The number of the first frame that cannot be filtered, and why.
    pub fn low_pass(&self, k: u8) -> Result<Filtered, (usize, FilterError)> {
        self.filtered(|_, _| Shaping::LowPass(k))
    }

    /// Shapes the clip to `rate`, GOP by GOP; see [`Shaping::Drs`].
    ///
    /// Each GOP may take what `rate` gives in its time. All its frames get the bytes that cannot be
    /// dropped; what remains is shared by the bytes that can, those of I and P pictures weighted
    /// more, because other pictures inherit what they miss. If a GOP has not even room for what
    /// cannot be dropped, its frames are over their budget, and it is over the rate.
    ///
    /// # Errors
    /// The number of the first frame that cannot be filtered, and why.
    pub fn shape(&self, rate: Rate) -> Result<Filtered, (usize, FilterError)> {
        let bare = self.filtered(|_, _| Shaping::Drs { budget: 0 })?.clip;
        let needs: Vec<Need> = self.frames.iter().zip(&bare.frames).map(Need::of).collect();
        let mut gop = Gop::default();
        self.filtered(|index, spent| {
            if index == 0 || self.frames[index].gop_start {
                let frames = self.frames.iter().skip(index + 1);
                let len = 1 + frames.take_while(|frame| !frame.gop_start).count();
                let bytes = bytes_in(rate, self.info.frame_rate.due(len as u64));
                gop = Gop::new(bytes, &needs[index..index + len]);
            } else {
                gop.spend(spent.saturating_sub(needs[index - 1].bare));
            }
            let budget = gop.budget(needs[index]);
            Shaping::Drs {
                budget: u32::try_from(budget).unwrap_or(u32::MAX),
            }
        })
    }

    /// Filters all frames; `shaping` is given the number of the next and the size of the last one
    /// filtered.
    fn filtered(
        &self,
        mut shaping: impl FnMut(usize, u64) -> Shaping,
    ) -> Result<Filtered, (usize, FilterError)> {
        let mut filter = CoefficientFilter::new(Shaping::LowPass(64));
        let mut frames: Vec<Frame> = Vec::with_capacity(self.frames.len());
        for (index, frame) in self.frames.iter().enumerate() {
            let last = frames.last().map_or(0, |frame| u64::from(frame.size));
            filter.set_shaping(shaping(index, last));
            frames.push(filter.apply(frame).map_err(|error| (index, error))?);
        }
        Ok(Filtered {
            clip: Clip {
                info: self.info.clone(),
                frames,
            },
            stats: filter.stats(),
        })
    }
}

/// What a frame needs.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// Bytes that cannot be dropped.
    bare: u64,
    /// Bytes that can, weighted.
    weighted: u64,
}

impl Need {
    fn of((whole, bare): (&Frame, &Frame)) -> Need {
        Need {
            bare: u64::from(bare.size),
            weighted: u64::from(whole.size.saturating_sub(bare.size)) * weight(whole.picture),
        }
    }
}

/// How much a byte of such a picture counts against one of a B picture: a GOP inherits the errors of
/// its I picture, part of it those of a P picture. Chosen on one clip; heavier ones gain little more
/// (docs/src/how-to/filters.md).
const fn weight(picture: Picture) -> u64 {
    match picture {
        Picture::I => 8,
        Picture::P => 2,
        Picture::B | Picture::Data => 1,
    }
}

/// What is left to share among the frames left of a GOP.
#[derive(Default, Debug)]
struct Gop {
    /// Bytes beyond the bare ones; or the bytes of all frames, if they are fewer than these.
    spare: u64,
    /// Weighted bytes that could be dropped; or the bare bytes of all frames.
    sum: u64,
    /// There are not even the bare bytes.
    short: bool,
}

impl Gop {
    fn new(bytes: u64, needs: &[Need]) -> Gop {
        let bare: u64 = needs.iter().map(|need| need.bare).sum();
        let short = bytes < bare;
        Gop {
            spare: if short { bytes } else { bytes - bare },
            sum: match short {
                true => bare,
                false => needs.iter().map(|need| need.weighted).sum(),
            },
            short,
        }
    }

    /// A frame took `bytes` beyond its bare ones.
    fn spend(&mut self, bytes: u64) {
        self.spare = self.spare.saturating_sub(bytes);
    }

    /// The budget of the next frame.
    fn budget(&mut self, need: Need) -> u64 {
        let part = |of: u64| u128::from(self.spare) * u128::from(of) / u128::from(self.sum.max(1));
        let part = |of| u64::try_from(part(of)).unwrap_or(u64::MAX);
        if self.short {
            return part(need.bare);
        }
        let budget = need.bare.saturating_add(part(need.weighted));
        self.sum = self.sum.saturating_sub(need.weighted);
        budget
    }
}

/// The bytes that `rate` gives in `time`.
fn bytes_in(rate: Rate, time: layercast_core::Span) -> u64 {
    let bits = u128::from(rate.as_bps()) * u128::from(time.as_ps()) / 1_000_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
}
