use std::collections::VecDeque;

use layercast_core::{Layer, Serial, Span, Time};

use super::{Receiver, Slot};
use crate::sink::explain::Awaited;

/// How long a frame behind a gap waits for frames of a fast start: a node repairs each of its packets for 500 ms.
const FAST_HOLD: Span = Span::from_ms(600);
/// How long frames wait for the first repair of the path: two round trips of a continent, and what reports take.
const FIRST: Span = Span::from_ms(250);
/// Later, this many times the longest repair seen: repairs are lost, too, and each round takes as long as the first.
const ROUNDS: u64 = 4;
/// Gaps that are remembered after nothing waited for them any more: a frame of them may still arrive.
const MAX_GIVEN_UP: usize = 16;

/// How long frames wait, beyond their deadline, for one before them that may still be repaired.
///
/// The time is learned. A path without repairs fills no gap: there the time halves with each gap and is soon nothing.
#[derive(Debug)]
pub(super) struct Patience {
    wait: Span,
    given_up: VecDeque<GivenUp>,
    /// The longest repair in the running fast start.
    fast: Span,
}

/// Missing frames that nothing waits for any more, and when the frame behind them had arrived.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    first: Serial,
    last: Serial,
    since: Time,
}

/// What the first frame of the buffer waits for beyond its deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub awaited: Awaited,
    pub until: Time,
    /// Until then it has waited as long as repairs take.
    full: bool,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            wait: FIRST,
            given_up: VecDeque::new(),
            fast: Span::ZERO,
        }
    }
}

impl Patience {
    /// A frame that others waited for, or have waited for, arrived `took` after the frame behind it.
    pub fn learn(&mut self, took: Span) {
        let wanted = took.as_ps().saturating_mul(ROUNDS);
        self.wait = self.wait.max(Span::from_ps(wanted));
    }

    /// The longest repair in the fast start that is over.
    pub fn take_fast(&mut self) -> Option<Span> {
        let longest = std::mem::take(&mut self.fast);
        (longest > Span::ZERO).then_some(longest)
    }

    fn give_up(&mut self, hold: &Hold, since: Time, waited: bool) {
        if waited && hold.full {
            self.wait = Span::from_ps(self.wait.as_ps() / 2);
        }
        if self.given_up.len() == MAX_GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(GivenUp {
            first: hold.awaited.first,
            last: hold.awaited.last,
            since,
        });
    }

    /// For how long a frame that arrives now was missing, if others have waited for it in vain.
    fn missed(&self, now: Time, seq: Serial) -> Option<Span> {
        let holds = |gap: &&GivenUp| seq.diff(gap.first) >= 0 && gap.last.diff(seq) >= 0;
        let gap = self.given_up.iter().rev().find(holds)?;
        Some(now.since(gap.since))
    }
}

/// What the order of the media decides: which frames wait for which.
///
/// A frame whose deadline has come waits for missing frames of its own layer and of those below, as it may refer to them,
/// and for no others. A frame of a lower layer that is due ends the wait of those above it. So a missing frame of an
/// enhancement layer delays neither sound nor the base layer, and a missing frame of the base layer is waited for as long as
/// repairs take. In a fast start nothing plays to time yet, and each frame waits for all before it.
impl Receiver {
    /// What the first frame of the buffer waits for.
    pub(super) fn hold(&self) -> Option<Hold> {
        let front = self.buffer.front()?;
        let last = self.gaps.newest()?;
        let (mark, is_new) = (front.mark, front.opens || front.after_outage);
        if is_new || mark.seq.diff(last.seq) <= 1 {
            return None;
        }
        let lost = self.gaps.lost_before(mark);
        let lowest = Layer::ALL.into_iter().find(|&layer| lost[layer] > 0)?;
        let awaited = Awaited {
            first: last.seq.plus(1),
            last: Serial(mark.seq.0.wrapping_sub(1)),
            frames: lost,
        };
        if last.again {
            let until = front.came.saturating_add(FAST_HOLD);
            return Some(Hold {
                awaited,
                until,
                full: false,
            });
        }
        let most = self.jitter.longest_wait()?;
        if mark.layer < lowest {
            return None;
        }
        let patient = front.came.saturating_add(self.patience.wait.min(most));
        let below = |slot: &&Slot| slot.mark.layer < lowest;
        let due = self.buffer.iter().find(below).map(|slot| slot.deadline);
        let until = due.map_or(patient, |due| due.min(patient));
        Some(Hold {
            awaited,
            until,
            full: until == patient,
        })
    }

    /// A frame arrives that is of no use any more: a frame behind it was handed over.
    pub(super) fn note_passed(&mut self, came: Time, seq: Serial) {
        let most = self.jitter.longest_wait();
        let took = self.patience.missed(came, seq);
        if let Some(took) = took.filter(|took| most.is_some_and(|most| *took <= most)) {
            self.patience.learn(took);
        }
    }

    /// A frame takes place `at` of the buffer.
    pub(super) fn note_repair(&mut self, came: Time, at: usize) {
        let Some(behind) = self.buffer.get(at) else {
            return;
        };
        let took = came.since(behind.came);
        if self.gaps.newest().is_some_and(|last| last.again) {
            self.note_fast_repair(came, took);
        } else if self.jitter.longest_wait().is_some() {
            self.patience.learn(took);
        }
    }

    /// A frame of a fast start is complete `took` after the first frame behind it: those that play to time cross the same path.
    pub(super) fn note_fast_repair(&mut self, now: Time, took: Span) {
        self.patience.learn(took);
        self.patience.fast = self.patience.fast.max(took);
        if !self.catches_up {
            self.jitter.on_repair(now, took);
        }
    }

    /// The frame that was first in the buffer is handed over, whatever it waited for.
    pub(super) fn end_hold(&mut self, now: Time, slot: &Slot, hold: Option<Hold>) {
        let waited = self.holding.take();
        if let Some(hold) = hold {
            self.patience.give_up(&hold, slot.came, waited.is_some());
        }
        if let Some(awaited) = waited {
            self.released = Some((now, awaited));
        }
    }

    /// How long a frame with this deadline was held for frames before it, and for which.
    pub(super) fn held(&self, deadline: Time) -> Option<(Span, Awaited)> {
        let (at, awaited) = self.released?;
        (deadline < at).then(|| (at.since(deadline), awaited))
    }
}
