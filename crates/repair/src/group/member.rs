use layercast_core::{Span, Time};

use crate::calm::ROUND;
use crate::hearing::Hearing;
use crate::message::Feedback;
use crate::parity::Block;
use crate::seen::Seen;

/// A member that loses a larger share than this is left to itself, until it loses less than half of it.
pub const LEFT_ABOVE: f64 = 0.25;

/// What the sending end knows of a member of its group.
#[derive(Debug)]
pub(super) struct Member {
    pub there: Hearing,
    /// Counters that it has, or whose content it has.
    has: Seen,
    /// Counters that it has reported lost.
    lost: Seen,
    /// It has all counters below, or they are over.
    done: u64,
    /// The first counter that it speaks of: what was sent before it came is missing there for good.
    first: Option<u64>,
    /// Its losses are too many: they are not repaired.
    pub left: bool,
}

impl Member {
    /// A member that comes when `next` is the next counter.
    pub fn new(next: u64) -> Member {
        let mut member = Member {
            there: Hearing::new(),
            has: Seen::new(),
            lost: Seen::new(),
            done: next,
            first: None,
            left: false,
        };
        member.advance(next);
        member
    }

    /// Counters below `next` have been sent.
    pub fn advance(&mut self, next: u64) {
        self.has.advance(next);
        self.lost.advance(next);
    }

    /// Takes what feedback says of the counters from `base` to `hi`, and by leaving out later ones; `note` sees each one that
    /// is lost for the first time, and the others tell when one left and what it was.
    pub fn take(
        &mut self,
        now: Time,
        feedback: &Feedback,
        (base, hi): (u64, u64),
        (sent_at, is_parity): (impl Fn(u64) -> Option<Time>, impl Fn(u64) -> bool),
        mut note: impl FnMut(u64),
    ) {
        let floor = (hi + 1).saturating_sub(feedback.known.into());
        self.done = self.done.max(base);
        self.first.get_or_insert(floor);
        let mut ranges = feedback.missing.iter().peekable();
        for counter in self.done.max(floor)..=hi {
            let from = |back: u16| counter + u64::from(back);
            while ranges
                .next_if(|it| hi + u64::from(it.len) <= from(it.back))
                .is_some()
            {}
            match ranges.peek().filter(|it| hi <= from(it.back)) {
                Some(range) if !range.requested => {}
                Some(_) if self.lost.get(counter) || !self.lost.holds(counter) => {}
                Some(_) => {
                    self.lost.set(counter);
                    self.settle(true, is_parity(counter));
                    note(counter);
                }
                None if self.has.holds(counter) => {
                    if !self.has.get(counter) && !self.lost.get(counter) {
                        self.settle(false, is_parity(counter));
                    }
                    self.has.set(counter);
                }
                None => {}
            }
        }
        let mut later = hi + 1;
        while let Some(sent) = sent_at(later)
            && self.there.is_overdue(now, sent, feedback, Span::ZERO)
        {
            if !self.lost.get(later) {
                self.lost.set(later);
                self.settle(true, is_parity(later));
                note(later);
            }
            later += 1;
        }
        while self.done <= hi && self.has.get(self.done) {
            self.done += 1;
        }
    }

    /// Whether it has all counters below `next`.
    pub fn has_all(&self, next: u64) -> bool {
        self.done >= next
    }

    fn settle(&mut self, lost: bool, is_parity: bool) {
        self.there.line.outcome(lost, is_parity);
        let loss = self.there.line.loss();
        let limit = match self.left {
            true => LEFT_ABOVE / 2.0,
            false => LEFT_ABOVE,
        };
        self.left = loss > limit;
    }

    /// Whether it has reported this content lost, and not got it since.
    pub fn lacks(&self, counter: u64) -> bool {
        self.lost.get(counter) && !self.has.get(counter)
    }

    /// Parities that it needs for a block besides those that it has or that are on the way.
    pub fn deficit(&self, block: &Block) -> u32 {
        let mut missing = block.contents().filter(|of| self.lacks(*of)).count() as u32;
        if missing == 0 {
            return 0;
        }
        let first = self.first.unwrap_or_default();
        missing += block.contents().filter(|of| *of < first).count() as u32;
        let got = |counter: &&u64| !self.lost.get(**counter) || self.has.get(**counter);
        let got = block.sent.iter().filter(got).count() as u32;
        missing.saturating_sub(got + block.queued)
    }

    pub fn rtt(&self) -> Span {
        self.there.line.rtt().unwrap_or(ROUND.times(3))
    }
}
