use layercast_core::{Span, Time};

/// Outages further apart than this are single events; closer together they are jitter of the path.
const APART: Span = Span::from_secs(30);
/// After the first frame everything counts as jitter for this time: nothing is known of the path.
const SETTLED: Span = Span::from_secs(5);
/// Delays that are high for longer are a path that has become longer.
const LONGEST: Span = Span::from_secs(4);

/// Tells single outages of a path from its jitter.
///
/// In an outage the delay rises above the playout delay and falls back to what it was before. The frames that it held up
/// say nothing of the jitter before and after it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct OutageDetector {
    start: Option<Time>,
    /// When delays were high last.
    last: Option<Time>,
    running: Option<Running>,
}

/// Delays are high.
#[derive(Clone, Copy, Debug)]
struct Running {
    began: Time,
    /// The playout delay before, in picoseconds.
    level: i64,
    is_single: bool,
}

impl OutageDetector {
    /// Whether the frame that came at `now` with `delay` was held up by a single outage; the playout delay is
    /// `playout` (both in picoseconds).
    pub fn on_arrival(&mut self, now: Time, delay: i64, playout: i64) -> bool {
        let start = *self.start.get_or_insert(now);
        if let Some(running) = self.running {
            if delay > running.level && now.since(running.began) < LONGEST {
                return running.is_single;
            }
            (self.running, self.last) = (None, Some(now));
            return false;
        }
        if delay <= playout {
            return false;
        }
        let is_single = match self.last {
            Some(last) => now.since(last) >= APART,
            None => now.since(start) >= SETTLED,
        };
        self.running = Some(Running {
            began: now,
            level: playout,
            is_single,
        });
        is_single
    }

    /// The same with delays that count from elsewhere.
    pub fn shifted(self, shifted: impl Fn(i64) -> i64) -> OutageDetector {
        let running = self.running.map(|running| Running {
            level: shifted(running.level),
            ..running
        });
        OutageDetector { running, ..self }
    }
}
