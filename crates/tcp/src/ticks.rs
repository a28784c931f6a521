use std::cell::Cell;

use layercast_core::{Span, Time};

/// The ticks of a host's periodic timer, at a phase of its own: the callout of 4.4BSD that serves
/// all connections simultaneously. Nothing runs at a tick; deadlines are only rounded to them.
#[derive(Clone, Debug)]
pub(crate) struct Ticks {
    phase: Span,
    period: Span,
    /// The tick before the time last asked about, and its number: one segment asks several times,
    /// and division is slow.
    last: Cell<(Time, u64)>,
}

impl Ticks {
    /// Ticks at `phase`, `phase + period`, ...
    pub(crate) fn new(period: Span, phase: Span) -> Ticks {
        let last = Cell::new((Time::ZERO + phase, 1));
        Ticks {
            phase,
            period,
            last,
        }
    }

    /// Ticks that there were up to and including `now`.
    #[inline]
    pub(crate) fn count(&self, now: Time) -> u64 {
        let (tick, count) = self.last.get();
        if now >= tick && now.since(tick) < self.period {
            return count;
        }
        self.count_anew(now)
    }

    fn count_anew(&self, now: Time) -> u64 {
        let start = Time::ZERO + self.phase;
        if now < start {
            return 0;
        }
        let whole = now.since(start).as_ps() / self.period.as_ps();
        let tick = start.saturating_add(self.period.times(whole));
        self.last.set((tick, whole + 1));
        whole + 1
    }

    /// The `n`-th tick after `now`, `n` from 1 on.
    pub(crate) fn after(&self, now: Time, n: u64) -> Time {
        let whole = self.count(now) + n.max(1) - 1;
        Time::ZERO
            .saturating_add(self.phase)
            .saturating_add(self.period.times(whole))
    }

    /// The ticks that last at least `span`.
    pub(crate) fn lasting(&self, span: Span) -> u64 {
        span.as_ps().div_ceil(self.period.as_ps())
    }

    /// The time that `ticks` last.
    pub(crate) fn span(&self, ticks: u64) -> Span {
        self.period.times(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_of_n_ticks_takes_up_to_n_periods() {
        let ticks = Ticks::new(Span::from_ms(500), Span::from_ms(130));
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        assert_eq!(ticks.count(at(129)), 0);
        assert_eq!(ticks.count(at(130)), 1);
        assert_eq!(ticks.after(at(0), 1), at(130));
        assert_eq!(ticks.after(at(131), 12), at(130 + 6_000));
        assert_eq!(ticks.after(at(130), 1), at(630));
        assert_eq!(ticks.lasting(Span::from_ms(501)), 2);
    }
}
