use layercast_core::{Span, Time};

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

/// Which counters are believed.
#[derive(Default, Debug)]
pub(crate) struct Belief {
    /// A counter far ahead: the next one near it is believed.
    stray: Option<u64>,
}

impl Belief {
    /// The counter, if it is believed where `next` is the next one.
    pub fn place(&mut self, counter: u64, next: u64) -> Option<u64> {
        if counter < next.saturating_add(MAX_JUMP) {
            self.stray = None;
            return Some(counter);
        }
        let confirmed = self
            .stray
            .is_some_and(|stray| counter > stray && counter - stray < MAX_GAP);
        self.stray = (!confirmed).then_some(counter);
        confirmed.then_some(counter)
    }
}
