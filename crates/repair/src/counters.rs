use crate::arrivals::{Belief, Place};
use crate::seen::{SPAN, Seen};

/// The counters of one direction of a link, as its receiving end knows them.
#[derive(Debug)]
pub(crate) struct Counters {
    /// The counter after the newest one that is known to have been sent.
    pub next: u64,
    /// Nothing is known of counters below.
    pub floor: u64,
    /// Counters of datagrams that arrived.
    pub arrived: Seen,
    /// Content that was delivered, by its first counter.
    pub delivered: Seen,
    belief: Belief,
}

impl Counters {
    /// Nothing is known of the counters below `next`.
    pub fn new(next: u64) -> Counters {
        Counters {
            next,
            floor: next,
            arrived: Seen::below(next),
            delivered: Seen::below(next),
            belief: Belief::default(),
        }
    }

    /// The counter, if it is believed, and whether all begins again there: nothing is known of those below.
    pub fn place(&mut self, counter: u64) -> Option<(u64, bool)> {
        match self.belief.place(counter, self.next)? {
            Place::At(counter) => Some((counter, false)),
            Place::Back(counter) => {
                *self = Counters::new(counter);
                Some((counter, true))
            }
        }
    }

    /// All counters below `next` were sent; gives the former next one if that is news.
    pub fn advance(&mut self, next: u64) -> Option<u64> {
        if next <= self.next {
            return None;
        }
        self.arrived.advance(next);
        self.delivered.advance(next);
        Some(std::mem::replace(&mut self.next, next))
    }

    /// A datagram with this counter arrives; whether it is the first one.
    pub fn arrive(&mut self, counter: u64) -> bool {
        let first =
            self.arrived.holds(counter) && counter >= self.floor && !self.arrived.get(counter);
        if first {
            self.arrived.set(counter);
        }
        first
    }

    /// The newest counter, and how many up to it a report knows of that speaks of none below `floor`.
    pub fn known(&self, floor: u64) -> (u64, u16) {
        (self.next - 1, (self.next - floor).min(SPAN) as u16)
    }
}
