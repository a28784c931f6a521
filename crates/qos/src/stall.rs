use layercast_core::Time;

/// Tells frames that a stall of the path held up from frames that jitter did: nothing comes for longer
/// than the whole range of the jitter, then what was held up comes in one burst (the spikes of Ramjee, Kurose,
/// Towsley and Schulzrinne 1994).
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct StallDetector {
    last: Option<(Time, i64)>,
    stalled: bool,
}

impl StallDetector {
    /// Whether the frame that came at `now` with `delay` (in picoseconds) was held up by a stall, if
    /// jitter moves delays by no more than `range` (in picoseconds).
    pub fn on_arrival(&mut self, now: Time, delay: i64, range: i64) -> bool {
        let Some((before, earlier)) = self.last.replace((now, delay)) else {
            return false;
        };
        let rise = delay.saturating_sub(earlier);
        let gap = now.since(before).as_ps();
        // Behind the stall frames come in less than half the time in which they were sent.
        let at_once = rise < 0 && gap < rise.unsigned_abs();
        self.stalled = rise > range.max(0) || self.stalled && at_once;
        self.stalled
    }

    /// The same with delays that count from elsewhere.
    pub fn shifted(self, shifted: impl Fn(i64) -> i64) -> StallDetector {
        let last = self.last.map(|(at, delay)| (at, shifted(delay)));
        StallDetector { last, ..self }
    }
}
