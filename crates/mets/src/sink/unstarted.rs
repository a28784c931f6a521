use layercast_core::{Layer, PerLayer, Serial, Span, Time};
use serde::Serialize;

use super::gaps::{Gap, GapCounter, Mark};

/// GOP starts that may be cut while a receiver joins, or joins again: what follows them is no loss. If more of them in a
/// row never come whole, or for longer, the path loses them, and all of them are lost.
const CUT_STARTS: u32 = 4;
const CUT_FOR: Span = Span::from_secs(5);

/// GOP starts of which a part arrived while the receiver waited for a complete one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct CutStarts {
    /// Number of these GOP starts.
    pub starts: u64,
    /// Bytes that they have.
    pub bytes: u64,
    /// Of these, bytes that arrived.
    pub came: u64,
}

impl CutStarts {
    /// Share of their bytes that did not come, in per cent; `None` without such starts.
    pub fn lost_percent(&self) -> Option<u64> {
        let lost = self.bytes.saturating_sub(self.came);
        (self.starts > 0).then(|| (lost * 100 + self.bytes / 2) / self.bytes.max(1))
    }

    pub(super) fn add(&mut self, more: CutStarts) {
        self.starts += more.starts;
        self.bytes += more.bytes;
        self.came += more.came;
    }
}

/// The GOPs that began to come while a receiver waits for a GOP start that is whole.
#[derive(Clone, Debug)]
pub(super) struct Unstarted {
    since: Time,
    first: Mark,
    newest: Mark,
    starts: u32,
    is_loss: bool,
    /// Frames from the first start up to the newest.
    before_newest: Gap,
    /// The starts before the newest.
    cut: CutStarts,
    /// Bytes of the newest, and those that came.
    running: (u64, u64),
    /// Frames whose loss was reported.
    reported: PerLayer<u32>,
}

impl Unstarted {
    /// `first` began to come: `came` of its `bytes`.
    pub fn new(now: Time, first: Mark, bytes: u32, came: usize) -> Unstarted {
        Unstarted {
            since: now,
            first,
            newest: first,
            starts: 1,
            is_loss: false,
            before_newest: Gap::default(),
            cut: CutStarts::default(),
            running: (bytes.into(), came as u64),
            reported: PerLayer::default(),
        }
    }

    /// Another packet of a start came.
    pub fn packet(&mut self, now: Time, gaps: &GapCounter, mark: Mark, bytes: u32, came: usize) {
        if mark.seq == self.newest.seq {
            self.running.1 += came as u64;
        } else if mark.seq.is_after(self.newest.seq) {
            self.before_newest
                .add(gaps.missing_before(self.newest, mark));
            self.cut = self.cut();
            self.running = (bytes.into(), came as u64);
            self.newest = mark;
            self.starts = self.starts.saturating_add(1);
            self.is_loss |= self.starts > CUT_STARTS || now.since(self.since) >= CUT_FOR;
        }
    }

    /// Whether frame `seq` comes after the first of the starts.
    pub fn precedes(&self, seq: Serial) -> bool {
        seq.is_after(self.first.seq)
    }

    /// The starts that came so far, the newest included.
    pub fn cut(&self) -> CutStarts {
        let (bytes, came) = self.running;
        let mut cut = self.cut;
        cut.add(CutStarts {
            starts: 1,
            bytes,
            // Packets may come twice.
            came: came.min(bytes),
        });
        cut
    }

    /// The starts before the newest, which may still come whole.
    pub fn cut_before_newest(&self) -> CutStarts {
        self.cut
    }

    /// What is missing up to the newest start.
    pub fn missing(&self) -> Gap {
        match self.is_loss {
            true => self.before_newest,
            false => Gap::default(),
        }
    }

    /// Whether what does not come whole is lost: the path loses it, not the join.
    pub fn is_loss(&self) -> bool {
        self.is_loss
    }

    /// The frames that are missing up to the newest start and were not reported.
    pub fn news(&mut self) -> u32 {
        let lost = self.missing().lost;
        let reported = std::mem::replace(&mut self.reported, lost);
        let news = Layer::ALL.map(|layer| lost[layer].saturating_sub(reported[layer]));
        news.into_iter().fold(0, u32::saturating_add)
    }

    /// The frames whose loss was reported.
    pub fn reported(&self) -> PerLayer<u32> {
        self.reported
    }

    /// What is missing up to the start `whole`, which came whole.
    pub fn missing_before(&self, gaps: &GapCounter, whole: Mark) -> Gap {
        match self.is_loss {
            true if whole.seq == self.newest.seq => self.before_newest,
            true if whole.seq.is_after(self.first.seq) => gaps.missing_before(self.first, whole),
            _ => Gap::default(),
        }
    }
}
