//! What the way back carries of the reports.

use layercast_core::{Serial, Span, Time};

use crate::estimate::LeastOf;

/// For how long the least delay of reports holds; after that the drift of the clocks shows.
const BASE: Span = Span::from_secs(10);
/// A delay counts as a queue if reports have it without a pause for this time, to within twice that.
const MOMENT: Span = Span::from_ms(250);
/// A queue of reports from which on they are too many: two reports take as long on a line of 64 kbit/s.
const LONG: Span = Span::from_ms(40);
/// Of what the way back carries, reports get one part in this number: the rest is for signalling, and drains the queue.
const PART: u64 = 2;
/// Rarer reports are in vain if they leave more than this share of the queue.
const IN_VAIN: (u64, u64) = (3, 4);
/// The longest queue of which a change shows after a moment and twice its own time.
const DRAINS: Span = Span::from_secs(1);
/// Longest time between two reports that is asked for.
const RAREST: Span = Span::from_ms(250);
/// Shorter ones are no limit.
const OFTEN: Span = Span::from_ms(15);
/// For how long a time between reports holds before a shorter one is tried, at first and at most.
const HOLD: (Span, Span) = (Span::from_secs(10), Span::from_secs(160));
/// A shorter time is this part of the one before.
const SHORTER: (u64, u64) = (3, 4);
/// The other end is notified of a change this often, and again as long as it does not follow.
const TELL: u32 = 2;
const TELL_EVERY: Span = Span::from_ms(50);

/// How often reports may come, by what the way back carries.
///
/// Reports that wait for a line show it as delay beyond the least one, which does not end. They arrive at the rate that the line has
/// for them then. The other end is asked for half as many, and more again after a time.
#[derive(Default, Debug)]
pub(crate) struct WayBack {
    /// Zero of delays.
    zero: Option<Serial>,
    /// The least delay of some seconds, and of the last moment, in microseconds.
    base: LeastOf,
    lately: LeastOf,
    /// Since when there is a queue, and reports that came since then.
    queue_since: Option<(Time, u64)>,
    /// The least time between two reports.
    every: Span,
    /// A longer time is tried: when it is judged, the queue before, and the time before.
    tried: Option<(Time, Span, Span)>,
    /// When the time was last changed, and for how long that holds.
    changed: Time,
    hold: Option<Span>,
    /// How often the other end is notified of it yet, and when it was.
    tell: u32,
    notified: Time,
}

impl WayBack {
    /// The least time between two reports that the way back carries; zero: nothing is known to limit them.
    pub fn every(&self) -> Span {
        self.every
    }

    /// Takes a report that left at `tx`, and its own promise when the next one comes.
    pub fn hear(&mut self, now: Time, tx: Serial, period: Span) {
        let delay = Serial((now.as_us() as u32).wrapping_sub(tx.0));
        let delay = i64::from(delay.diff(*self.zero.get_or_insert(delay)));
        self.base.add(now, delay, BASE);
        self.lately.add(now, delay, MOMENT);
        let queue = self.queue();
        if period < self.every && self.tell == 0 {
            self.tell = 1;
        }
        match self.tried {
            Some((until, _, _)) if now < until => return,
            Some((_, before, every)) => {
                self.tried = None;
                self.queue_since = None;
                if queue > before.mul_div(IN_VAIN.0, IN_VAIN.1) {
                    // It is no queue of reports: the way has become longer, or others fill it.
                    self.base = LeastOf::default();
                    self.base.add(now, delay, BASE);
                    self.change(now, every);
                    return;
                }
            }
            None => {}
        }
        if queue > LONG {
            let (since, count) = self.queue_since.get_or_insert((now, 0));
            let passed = now.since(*since);
            if passed >= MOMENT && *count > 0 {
                let carried = passed.mul_div(1, *count);
                self.slow(now, carried.times(PART), queue);
            } else {
                *count += 1;
            }
            return;
        }
        self.queue_since = None;
        if self.every > Span::ZERO && now.since(self.changed) >= self.hold.unwrap_or(HOLD.0) {
            let shorter = self.every.mul_div(SHORTER.0, SHORTER.1);
            let shorter = Some(shorter).filter(|it| *it > OFTEN);
            self.change(now, shorter.unwrap_or(Span::ZERO));
        }
    }

    /// For how long reports have waited without a pause.
    fn queue(&self) -> Span {
        let least = self.lately.get().zip(self.base.get());
        least.map_or(Span::ZERO, |(now, base)| Span::from_us(now.abs_diff(base)))
    }

    fn slow(&mut self, now: Time, every: Span, queue: Span) {
        let hold = self.hold.unwrap_or(HOLD.0);
        // The one before was long enough until a shorter one was tried.
        let was_tried = self.every > Span::ZERO && now.since(self.changed) < hold;
        self.hold = Some(match was_tried {
            true => hold.times(2).min(HOLD.1),
            false => HOLD.0,
        });
        let drains = queue.times(2).min(DRAINS) + MOMENT.times(2);
        self.tried = Some((now.saturating_add(drains), queue, self.every));
        self.change(now, every.max(self.every).min(RAREST));
    }

    fn change(&mut self, now: Time, every: Span) {
        if every != self.every {
            (self.every, self.tell) = (every, TELL);
        }
        self.changed = now;
    }

    /// When the other end is to be notified.
    pub fn tell_at(&self) -> Option<Time> {
        (self.tell > 0).then(|| self.notified.saturating_add(TELL_EVERY))
    }

    /// The other end is notified now.
    pub fn tells(&mut self, now: Time) {
        self.tell = self.tell.saturating_sub(1);
        self.notified = now;
    }
}

/// When a report that was due at `due` may leave, after one that left at `reported`.
pub(crate) fn not_before(due: Option<Time>, reported: Option<Time>, every: Span) -> Option<Time> {
    let free = reported.map_or(Time::ZERO, |at| at.saturating_add(every));
    due.map(|due| due.max(free))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports as the other end sends them over a line.
    struct Line {
        back: WayBack,
        now: Time,
        free: Time,
        takes: Span,
        delay: Span,
    }

    impl Line {
        fn new(takes_ms: u64) -> Line {
            Line {
                back: WayBack::default(),
                now: Time::ZERO,
                free: Time::ZERO,
                takes: Span::from_ms(takes_ms),
                delay: Span::from_ms(20),
            }
        }

        /// Sends a report every 15 ms, or as rarely as is asked for; gives the longest wait of the last five seconds, and the reports in one
        /// of them.
        fn run(&mut self, seconds: u64) -> (Span, f64) {
            let end = self.now + Span::from_secs(seconds);
            let (mut longest, mut count) = (Span::ZERO, 0);
            while self.now < end {
                self.free = self.free.max(self.now) + self.takes;
                let arrives = self.free + self.delay;
                let period = OFTEN.max(self.back.every());
                let tx = Serial(self.now.as_us() as u32);
                self.back.hear(arrives, tx, period);
                if end.since(self.now) <= Span::from_secs(5) {
                    longest = longest.max(self.free.since(self.now));
                    count += 1;
                }
                self.now += period;
            }
            (longest, f64::from(count) / 5.0)
        }
    }

    #[test]
    fn reports_fit_a_narrow_way_back_and_leave_it_half() {
        for takes in [20, 40, 80] {
            let mut line = Line::new(takes);
            let (longest, count) = line.run(10);
            assert!(longest < Span::from_ms(200), "{takes}: {longest}");
            let carries = 1e3 / takes as f64;
            assert!((0.3..0.8).contains(&(count / carries)), "{takes}: {count}");
        }
    }

    #[test]
    fn a_wide_way_back_gets_all_reports_and_one_that_is_wide_again_gets_them_again() {
        let mut line = Line::new(2);
        assert!(line.run(20).1 > 60.0);
        line.takes = Span::from_ms(40);
        line.run(20);
        assert!(line.back.every() > Span::from_ms(40));
        line.takes = Span::from_ms(2);
        line.run(300);
        assert_eq!(line.back.every(), Span::ZERO);
    }

    #[test]
    fn a_longer_way_back_costs_no_reports_for_long() {
        let mut line = Line::new(2);
        line.run(20);
        line.delay = Span::from_ms(150);
        let (_, count) = line.run(10);
        assert!(count > 60.0, "{count}");
        assert_eq!(line.back.every(), Span::ZERO);
    }
}
