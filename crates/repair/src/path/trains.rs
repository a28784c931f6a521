use std::ops::RangeInclusive;

use layercast_core::{Serial, Span, Time};

use super::arrivals::Report;

/// Datagrams of a train.
pub(crate) const TRAIN: u32 = 8;
/// Between two trains.
const EVERY: Span = Span::from_secs(1);
/// Two trains agree when their rates differ by no more than this share.
const AGREE: f64 = 0.25;

/// What a train shows, in bit/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    /// The rate at which it arrived.
    pub bps: f64,
    /// The rate at which it and the one before arrived, if they agree.
    pub both: Option<f64>,
}

/// Datagrams of the media that leave without a pause between them: the narrowest line of the path spaces them.
#[derive(Default, Debug)]
pub(crate) struct Trains {
    /// The first counter of the last one, and when it left.
    last: Option<(u64, Time)>,
    /// The last one was judged.
    judged: bool,
    /// At what rate the one before arrived.
    before: Option<f64>,
}

impl Trains {
    /// Whether another train may leave.
    pub fn is_due(&self, now: Time) -> bool {
        self.last.is_none_or(|(_, at)| now.since(at) >= EVERY)
    }

    pub fn leave(&mut self, now: Time, first: u64) {
        self.last = Some((first, now));
        self.judged = false;
    }

    /// The path has changed.
    pub fn forget(&mut self) {
        self.before = None;
        self.judged = true;
    }

    /// Takes a report; gives the rate at which a train arrived.
    pub fn take(&mut self, report: &Report<'_>) -> Option<Train> {
        let train = counters(self.last.filter(|_| !self.judged)?.0);
        if report.hi < *train.end() {
            return None;
        }
        let arrival = |counter: u64| {
            let back = u16::try_from(report.hi.checked_sub(counter)?).ok()?;
            report.feedback.arrivals.iter().find(|it| it.back == back)
        };
        let ends = arrival(*train.start()).zip(arrival(*train.end()));
        // A report that does not have both ends any more: nothing is known of this train.
        self.judged = true;
        let (first, last) = ends?;
        let at = |ago: u32| Serial(report.feedback.tx_us.0.wrapping_sub(ago));
        let span = at(last.ago_us).diff(at(first.ago_us)).max(1);
        let total = |counter: u64| (report.sent)(counter).map(|it| it.total);
        let octets = total(*train.end())?.checked_sub(total(*train.start())?)?;
        let bps = octets as f64 * 8e6 / f64::from(span);
        let both = self.before.replace(bps).and_then(|before| {
            let (low, high) = (bps.min(before), bps.max(before));
            (high <= low * (1.0 + AGREE)).then_some(low)
        });
        Some(Train { bps, both })
    }
}

fn counters(first: u64) -> RangeInclusive<u64> {
    first..=first + u64::from(TRAIN) - 1
}
