//! When a controller computes its state.

use layercast_core::{Span, Time};

/// Times at regular distances, which are caught up with as packets come and leave: between them nothing that a controller looks at changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Updates {
    every: Span,
    pub next: Time,
}

impl Updates {
    /// At all multiples of `every` but 0.
    pub fn new(every: Span) -> Updates {
        Updates {
            every,
            next: Time::ZERO.saturating_add(every),
        }
    }

    /// The next one that is due at `now`. One of a controller at rest changes nothing: those that are due are left out then.
    pub fn due(&mut self, now: Time, is_at_rest: bool) -> Option<Time> {
        if self.next > now {
            return None;
        }
        if is_at_rest {
            let missed = now.since(self.next).as_ps() / self.every.as_ps();
            self.next = self.next.saturating_add(self.every.times(missed + 1));
            return None;
        }
        let at = self.next;
        self.next = at.saturating_add(self.every);
        Some(at)
    }
}
