use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use layercast_core::{Serial, Span, Time};

/// Packets before the next one of which it is known whether they were delivered, and packets after it that may wait;
/// a multiple of 64.
const REACH: u32 = 1 << 14;
/// Packets before the first one that arrived that may still come.
const BEFORE: u32 = 256;
/// Largest number of packets that wait; far fewer than `REACH`, so that the packets behind a gap stay within reach.
const MOST: usize = REACH as usize / 2;
/// Largest number of octets that wait.
const OCTETS: usize = 8 << 20;
/// Octets added to those of a packet for the memory that holds it.
const EACH: usize = 128;

/// Puts packets into the order of their numbers, each at most once.
///
/// A packet waits for those before it, at most for a given time and within a given memory. A packet that arrives
/// when the later ones are delivered is delivered immediately.
#[derive(Debug)]
pub(super) struct Order {
    /// Longest time that a packet waits.
    wait: Span,
    /// The number of the next packet; `None` before the first one.
    next: Option<Serial>,
    /// Waiting packets, by their distance from `origin`.
    held: BTreeMap<u64, Bytes>,
    octets: usize,
    /// Distance of `next` from the origin. It begins at `REACH`: distances neither wrap nor become negative.
    at: u64,
    /// When each waiting packet is delivered at the latest, in the order of arrival; entries of delivered packets
    /// are skipped.
    due: VecDeque<(Time, u64)>,
    /// Which of the last `REACH` packets before `next` were delivered, as a ring.
    delivered: Vec<u64>,
    /// A packet out of reach: the next one near it moves the order there.
    far: Option<(Serial, Bytes)>,
    ready: VecDeque<Bytes>,
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placed {
    /// It waits, or is ready in its place.
    Kept,
    /// It is ready after later ones.
    After,
    /// It had come before, and is dropped.
    Duplicate,
    /// A packet whose number is unrelated to all others is dropped.
    Strange,
}

impl Order {
    pub fn new(wait: Span) -> Order {
        Order {
            wait,
            next: None,
            held: BTreeMap::new(),
            octets: 0,
            at: u64::from(REACH),
            due: VecDeque::new(),
            delivered: vec![0; (REACH / 64) as usize],
            far: None,
            ready: VecDeque::new(),
        }
    }

    /// Adds a packet.
    pub fn put(&mut self, now: Time, number: Serial, packet: Bytes) -> Placed {
        let next = *self.next.get_or_insert_with(|| first(number));
        let ahead = number.diff(next);
        if ahead.unsigned_abs() >= REACH {
            return self.put_far(now, number, packet);
        }
        let Ok(ahead) = u64::try_from(ahead) else {
            let place = self.at - u64::from(ahead.unsigned_abs());
            if !self.mark(place) {
                return Placed::Duplicate;
            }
            self.ready.push_back(packet);
            return Placed::After;
        };
        let place = self.at + ahead;
        if self.held.contains_key(&place) {
            return Placed::Duplicate;
        }
        self.octets += packet.len() + EACH;
        self.held.insert(place, packet);
        if ahead > 0 {
            self.due.push_back((now.saturating_add(self.wait), place));
        }
        self.advance();
        if self.due.len() > 2 * REACH as usize {
            // At most `REACH` packets wait; the others are delivered.
            let at = self.at;
            self.due.retain(|it| it.1 >= at);
        }
        while self.octets > OCTETS || self.held.len() > MOST {
            self.skip_gap();
        }
        self.on_timeout(now);
        Placed::Kept
    }

    /// Adds a packet out of reach.
    fn put_far(&mut self, now: Time, number: Serial, packet: Bytes) -> Placed {
        match self.far.take() {
            Some((far, before)) if far != number && far.diff(number).unsigned_abs() < BEFORE => {
                self.restart();
                let least = if far.is_after(number) { number } else { far };
                self.next = Some(first(least));
                self.put(now, far, before);
                self.put(now, number, packet)
            }
            before => {
                self.far = Some((number, packet));
                before.map_or(Placed::Kept, |_| Placed::Strange)
            }
        }
    }

    /// Returns the next packet in order.
    pub fn poll(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    /// When the next packet has waited long enough.
    pub fn next_timeout(&self) -> Option<Time> {
        self.due.front().map(|it| it.0)
    }

    /// Gives up what packets have waited for long enough.
    pub fn on_timeout(&mut self, now: Time) {
        while let Some((_, place)) = self.due.front().copied().filter(|it| it.0 <= now) {
            while self.at <= place {
                self.skip_gap();
            }
            self.forget_due();
        }
    }

    /// Delivers all that waits, without what is missing.
    pub fn flush(&mut self) {
        while !self.held.is_empty() {
            self.skip_gap();
        }
        self.due.clear();
    }

    /// Delivers all that waits; the next packet begins a new sequence.
    pub fn restart(&mut self) {
        self.flush();
        (self.next, self.far, self.at) = (None, None, u64::from(REACH));
        self.delivered.fill(0);
    }

    /// Goes to the first packet that waits, and delivers from there.
    fn skip_gap(&mut self) {
        let Some((&place, _)) = self.held.first_key_value() else {
            return;
        };
        while self.at < place {
            self.step(false);
        }
        self.advance();
    }

    /// Delivers packets up to the next gap.
    fn advance(&mut self) {
        while let Some(packet) = self.held.remove(&self.at) {
            self.octets -= packet.len() + EACH;
            self.ready.push_back(packet);
            self.step(true);
        }
        self.forget_due();
    }

    /// Removes the times of packets that are delivered.
    fn forget_due(&mut self) {
        while self.due.front().is_some_and(|it| it.1 < self.at) {
            self.due.pop_front();
        }
    }

    /// Goes to the next number.
    fn step(&mut self, delivered: bool) {
        let (word, bit) = slot(self.at);
        match delivered {
            true => self.delivered[word] |= bit,
            false => self.delivered[word] &= !bit,
        }
        self.at += 1;
        self.next = self.next.map(|it| it.plus(1));
    }

    /// Marks a packet before the next one as delivered; `false` if it was.
    fn mark(&mut self, place: u64) -> bool {
        let (word, bit) = slot(place);
        let new = self.delivered[word] & bit == 0;
        self.delivered[word] |= bit;
        new
    }
}

/// The number to begin at where this one arrives first: those shortly before may be recovered.
fn first(number: Serial) -> Serial {
    match number.0 < BEFORE {
        true => Serial(0),
        false => Serial(number.0 - BEFORE),
    }
}

/// Word and bit of a packet in the ring.
fn slot(place: u64) -> (usize, u64) {
    let place = place % u64::from(REACH);
    ((place / 64) as usize, 1 << (place % 64))
}
