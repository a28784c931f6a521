use layercast_core::{Span, Time};

use crate::seen::SPAN;

/// Reorder window at the start and at least.
const LEAST_WINDOW: Span = Span::from_ms(1);
/// Reorder window at most, as long as the round trip is not known.
const MOST_WINDOW: Span = Span::from_ms(10);
/// Share of the reorder window that is forgotten each second.
const FORGET_PERCENT: u64 = 10;
/// A gap longer than this is an outage: what was sent in it is not requested.
pub(crate) const MAX_GAP: u64 = 4_096;
/// A counter farther ahead than this is believed when a second one near it follows. A nearer one leaves a gap that datagrams
/// still fill, so that one forged counter costs nothing.
const MAX_JUMP: u64 = MAX_GAP;
/// No link carries datagrams faster than one in this time: no more of them can have been lost in a silence.
const LEAST_US: u64 = 1;

/// The reorder window: how long a datagram may be overtaken before it counts as lost. It is learned from those that arrive
/// late, and forgotten slowly.
#[derive(Debug)]
pub(crate) struct Window {
    span: Span,
    at: Time,
}

impl Window {
    pub fn new() -> Window {
        Window {
            span: LEAST_WINDOW,
            at: Time::ZERO,
        }
    }

    pub fn get(&self) -> Span {
        self.span
    }

    /// A datagram arrived this much later than the one that overtook it.
    pub fn learn(&mut self, lateness: Span, rtt: Option<Span>) {
        let most = rtt.map_or(MOST_WINDOW, |rtt| rtt.mul_div(1, 4));
        let wanted = lateness.mul_div(105, 100).max(self.span);
        self.span = wanted.min(most).max(LEAST_WINDOW);
    }

    pub fn forget(&mut self, now: Time) {
        let passed = now.since(self.at);
        if passed < Span::from_ms(100) {
            return;
        }
        self.at = now;
        let part = passed.as_us().min(1_000_000) * FORGET_PERCENT;
        let forgotten = self.span.mul_div(part, 100_000_000);
        self.span = self.span.saturating_sub(forgotten).max(LEAST_WINDOW);
    }
}

/// This number of counters in a row, all below all that is remembered, are believed: those ahead were forged or damaged.
const BACK: u32 = 16;
/// The same for counters that are this far below the next one, but remembered. They may have been overtaken, so that it takes more of
/// them. None of them is left out meanwhile; only the reports go back.
const BEHIND: u64 = 64;
const BACK_BEHIND: u32 = 64;

/// Which counters are believed.
///
/// Two forged counters ahead move the next one away from those of the sender; without [`Place::Back`] all that arrives
/// would count as duplicates from then on.
#[derive(Default, Debug)]
pub(crate) struct Belief {
    /// A counter far ahead: the next one near it is believed.
    stray: Option<u64>,
    /// The last counter far behind, and how many have come in a row.
    behind: Option<(u64, u32)>,
    /// When one was believed last.
    at: Time,
}

/// A counter that is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It is near those before it, or the counters continue there.
    At(u64),
    /// It is far below those before it: the counters continue there, and nothing is known of them.
    Back(u64),
}

impl Belief {
    /// The counter, if it is believed at `now`, where `next` is the next one.
    pub fn place(&mut self, now: Time, counter: u64, next: u64) -> Option<Place> {
        let place = self.judge(now, counter, next);
        if place.is_some() {
            self.at = now;
        }
        place
    }

    fn judge(&mut self, now: Time, counter: u64, next: u64) -> Option<Place> {
        if counter.saturating_add(BEHIND) < next {
            let is_remembered = counter.saturating_add(SPAN) >= next;
            let follows = |last: u64| counter > last && counter - last < MAX_GAP;
            let count = match self.behind {
                Some((last, count)) if follows(last) => count + 1,
                _ => 1,
            };
            let is_back = count >= if is_remembered { BACK_BEHIND } else { BACK };
            self.behind = (!is_back).then_some((counter, count));
            return match is_back {
                true => Some(Place::Back(counter)),
                false => is_remembered.then_some(Place::At(counter)),
            };
        }
        if counter < next.saturating_add(MAX_JUMP) {
            (self.stray, self.behind) = (None, None);
            return Some(Place::At(counter));
        }
        let possible = now.since(self.at).as_us() / LEAST_US;
        if counter - next > MAX_JUMP.saturating_add(possible) {
            // Not even a second one makes it believable.
            return None;
        }
        let confirmed = self
            .stray
            .is_some_and(|stray| counter > stray && counter - stray < MAX_GAP);
        self.stray = (!confirmed).then_some(counter);
        confirmed.then_some(Place::At(counter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_far_behind_are_believed_when_many_come_in_a_row_and_none_near() {
        let mut belief = Belief::default();
        let (at, next) = (Time::ZERO, 1 << 40);
        for k in 0..u64::from(BACK) - 1 {
            assert_eq!(belief.place(at, 100 + 2 * k, next), None);
        }
        // One that is near: nothing was wrong.
        assert_eq!(belief.place(at, next, next), Some(Place::At(next)));
        let all: Vec<_> = (0..u64::from(BACK))
            .map(|k| belief.place(at, 200 + k, next))
            .collect();
        let last = 200 + u64::from(BACK) - 1;
        assert_eq!(all.last(), Some(&Some(Place::Back(last))));
        assert!(all[..all.len() - 1].iter().all(Option::is_none));
        // The same one again and again is no row.
        assert!((0..100).all(|_| belief.place(at, 300, next).is_none()));
    }

    #[test]
    fn a_jump_is_believed_if_a_second_one_follows_and_the_time_of_the_silence_was_enough() {
        let ms = |n| Time::ZERO + Span::from_ms(n);
        let mut belief = Belief::default();
        let next = 1 << 40;
        assert_eq!(belief.place(ms(1_000), next, next), Some(Place::At(next)));
        // 20 that nothing can have sent since: no second one confirms them.
        for k in 0..20 {
            assert_eq!(belief.place(ms(1_001), next + (1 << 30) + k, next), None);
        }
        assert_eq!(belief.place(ms(1_001), next, next), Some(Place::At(next)));
        // Half a second without any: this number can be lost.
        let far = next + 300_000;
        assert_eq!(belief.place(ms(1_501), far, next), None);
        assert_eq!(
            belief.place(ms(1_501), far + 1, next),
            Some(Place::At(far + 1))
        );
    }
}
