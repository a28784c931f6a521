use layercast_core::{Layer, PerLayer, Span, Time};

use super::gaps::{GapCounter, Mark};

/// A gap is accounted for by the first whole frame behind it. If none comes for this long, parts of frames tell of it.
const NO_FRAME: Span = Span::from_secs(1);

/// What is known of a gap that no whole frame ends, from frames of which only parts come.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    /// When the last whole frame came.
    whole: Time,
    /// The newest frame behind it of which a part came.
    newest: Option<Mark>,
    /// Frames of the gap whose loss was reported.
    reported: PerLayer<u32>,
}

impl Broken {
    pub fn new(now: Time) -> Broken {
        Broken {
            whole: now,
            newest: None,
            reported: PerLayer::default(),
        }
    }

    /// A part of a frame came.
    pub fn part(&mut self, mark: Mark) {
        if self.newest.is_none_or(|it| mark.seq.is_after(it.seq)) {
            self.newest = Some(mark);
        }
    }

    /// A whole frame came.
    pub fn whole(&mut self, now: Time, mark: Mark) {
        self.whole = now;
        self.newest.take_if(|it| !it.seq.is_after(mark.seq));
    }

    /// Frames behind the last one of `gaps` that are missing and were not reported.
    pub fn news(&mut self, now: Time, gaps: &GapCounter) -> u32 {
        let Some(newest) = self.newest else { return 0 };
        if gaps.last().is_none() || now.since(self.whole) < NO_FRAME {
            return 0;
        }
        let lost = gaps.gap_before(newest).lost;
        let news = Layer::ALL.map(|layer| {
            let told = &mut self.reported[layer];
            let news = lost[layer].saturating_sub(*told);
            *told += news;
            news
        });
        news.into_iter().fold(0, u32::saturating_add)
    }

    /// The frames of the gap whose loss was reported: it is accounted for now.
    pub fn take_reported(&mut self) -> PerLayer<u32> {
        std::mem::take(&mut self.reported)
    }
}
