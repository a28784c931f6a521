use layercast_core::{Span, Time};

/// What is reported: this much within a second.
const WORTH: Span = Span::from_ms(100);
const WITHIN: Span = Span::from_secs(1);

/// How long in all the host did not run a node whose timers were due.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct NotRun {
    time: Span,
    /// When what counts began, or was reported last.
    since: Time,
}

impl NotRun {
    /// The host did not run the node for `late` until `now`.
    pub fn add(&mut self, now: Time, late: Span) {
        if self.time < WORTH && now.since(self.since) > WITHIN {
            (self.time, self.since) = (Span::ZERO, now.saturating_sub(WITHIN));
        }
        self.time += late;
    }

    /// The time to be reported, once a second at most.
    pub fn poll(&mut self, now: Time) -> Option<Span> {
        if self.time < WORTH || now.since(self.since) < WITHIN {
            return None;
        }
        self.since = now;
        Some(std::mem::take(&mut self.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_ms(n)
    }

    #[test]
    fn a_long_stall_is_told_at_once_and_short_ones_when_they_are_much_of_a_second() {
        let mut not_run = NotRun::default();
        not_run.add(ms(5_000), Span::from_ms(1_900));
        assert_eq!(not_run.poll(ms(5_000)), Some(Span::from_ms(1_900)));
        for n in 0..4 {
            not_run.add(ms(5_100 + 50 * n), Span::from_ms(30));
            assert_eq!(not_run.poll(ms(5_100 + 50 * n)), None);
        }
        assert_eq!(not_run.poll(ms(6_000)), Some(Span::from_ms(120)));
        assert_eq!(not_run.poll(ms(7_000)), None);
    }

    #[test]
    fn a_little_now_and_then_is_not_told() {
        let mut not_run = NotRun::default();
        for n in 0..100 {
            not_run.add(ms(2_000 * n), Span::from_ms(40));
            assert_eq!(not_run.poll(ms(2_000 * n)), None);
        }
    }
}
