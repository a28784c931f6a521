use layercast_core::Time;

use crate::arrivals::{Belief, Place};
use crate::seen::{SPAN, Seen};

/// The counters of one direction of a link, as its receiving end knows them.
#[derive(Debug)]
pub(crate) struct Counters {
    /// The counter after the newest one that is known to have been sent.
    pub next: u64,
    /// Whether counters below arrived is not known.
    known_from: u64,
    /// Counters below are not missed any more; those that come nevertheless are as good as others.
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
            known_from: next,
            floor: next,
            arrived: Seen::below(next),
            delivered: Seen::below(next),
            belief: Belief::default(),
        }
    }

    /// The counter, if it is believed, and whether all begins again there: nothing is known of those below.
    pub fn place(&mut self, now: Time, counter: u64) -> Option<(u64, bool)> {
        match self.belief.place(now, counter, self.next)? {
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

    /// Counters below `first` were for others.
    pub fn begin(&mut self, first: u64) {
        (self.known_from, self.floor) = (first, first);
    }

    /// A datagram with this counter arrives; whether it is the first one.
    pub fn arrive(&mut self, counter: u64) -> bool {
        let is_known = self.arrived.holds(counter) && counter >= self.known_from;
        let first = is_known && !self.arrived.get(counter);
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
