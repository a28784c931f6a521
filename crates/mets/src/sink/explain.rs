use std::collections::VecDeque;

use layercast_core::{Layer, PerLayer, Serial, Span, Time};

use super::gaps::Gap;

/// Explanations that are kept: more than half a minute of pictures.
const KEPT: usize = 1_024;

/// What became of a frame, or of consecutive frames that are missing, and what held it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Number of the first frame.
    pub first: Serial,
    /// Number of the last one; the same if it is about one frame.
    pub last: Serial,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was handed over.
    Played {
        /// Its layer.
        layer: Layer,
        /// Whether it is sound.
        sound: bool,
        /// When it was here whole.
        arrived: Time,
        /// How long the playout delay held it, from its arrival to its deadline.
        playout: Span,
        /// How long missing frames before it held it, from its deadline to its hand-over: of its chain, or of the other, which it
        /// may be ahead of by a bound only.
        order: Span,
        /// These frames, if there are any.
        awaited: Option<Awaited>,
        /// Whether a fast start sent it.
        again: bool,
    },
    /// It arrived when it could not be played any more.
    Late {
        /// Its layer.
        layer: Layer,
        /// When it was here whole.
        arrived: Time,
        /// How long after its deadline; zero if a frame behind it was played before.
        by: Span,
    },
    /// These frames were not here when the frame behind them was handed over.
    Missing {
        /// Frames of granted layers.
        lost: PerLayer<u32>,
        /// Frames of layers that were not granted.
        withheld: PerLayer<u32>,
    },
}

/// Frames that others waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Awaited {
    /// Number of the first one.
    pub first: Serial,
    /// Number of the last one.
    pub last: Serial,
    /// How many of each layer are missing.
    pub frames: PerLayer<u32>,
}

/// The explanations of the last frames.
#[derive(Default, Debug)]
pub(super) struct Explanations {
    kept: VecDeque<Explanation>,
    /// Explanations that were given up.
    before: u64,
}

impl Explanations {
    pub fn add(&mut self, explanation: Explanation) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.before += 1;
        }
        self.kept.push_back(explanation);
    }

    /// Notes that frames between `last` and `next` are missing.
    pub fn missing(&mut self, last: Serial, next: Serial, gap: &Gap) {
        if next.diff(last) > 1 {
            self.add(Explanation {
                first: last.plus(1),
                last: Serial(next.0.wrapping_sub(1)),
                fate: Fate::Missing {
                    lost: gap.lost,
                    withheld: gap.withheld,
                },
            });
        }
    }

    /// The newest explanation of frame `seq`.
    pub fn of(&self, seq: Serial) -> Option<Explanation> {
        let mut kept = self.kept.iter().rev();
        let is_of = |it: &&Explanation| seq.diff(it.first) >= 0 && it.last.diff(seq) >= 0;
        kept.find(is_of).copied()
    }

    /// Those that are kept from number `from` on, and the number after the last.
    pub fn since(&self, from: u64) -> (impl Iterator<Item = &Explanation>, u64) {
        let skip = usize::try_from(from.saturating_sub(self.before)).unwrap_or(usize::MAX);
        let end = self.before + self.kept.len() as u64;
        (self.kept.iter().skip(skip), end)
    }
}
