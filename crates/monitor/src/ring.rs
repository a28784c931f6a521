//! The FIFO between a protocol and the monitor: one producer, one consumer, never blocking.
//!
//! The slots are words of atomics, not memory that changes hands: so there is no unsafe code, loom sees each access, and the
//! ring can lie in memory that two processes share. The words of a slot are written and read without an order; the index
//! that is published after them gives it.

use thiserror::Error;

use crate::line::{RequestLine, Rule};
use crate::sync::{Arc, AtomicU64, Ordering};
use layercast_core::{QosAction, QosEvent, QosInfo};

/// Events of a ring, if nothing else is said.
pub const CAPACITY: usize = 4_096;
/// The largest ring.
const MOST: usize = 1 << 24;
/// Connections whose lost events are counted apart.
const LOSERS: usize = 64;

/// Why there is no ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RingError {
    /// Places are found by a mask.
    #[error("capacity: {0} events are no power of two between 2 and {MOST}")]
    Capacity(usize),
}

/// A number with a cache line of its own.
#[repr(align(64))]
struct Padded(AtomicU64);

struct Shared {
    slots: Box<[[AtomicU64; QosEvent::WORDS]]>,
    /// Events taken, and events published.
    head: Padded,
    tail: Padded,
    lost: AtomicU64,
}

impl Shared {
    #[inline]
    fn slot(&self, at: u64) -> &[AtomicU64; QosEvent::WORDS] {
        &self.slots[at as usize & (self.slots.len() - 1)]
    }
}

/// A ring for `capacity` events, whose producer raises `line`.
///
/// # Errors
/// The capacity is no power of two, or too large.
pub fn ring(capacity: usize, line: &Arc<RequestLine>) -> Result<(Producer, Consumer), RingError> {
    if !capacity.is_power_of_two() || !(2..=MOST).contains(&capacity) {
        return Err(RingError::Capacity(capacity));
    }
    let slot = || std::array::from_fn(|_| AtomicU64::new(0));
    let shared = Arc::new(Shared {
        slots: std::iter::repeat_with(slot).take(capacity).collect(),
        head: Padded(AtomicU64::new(0)),
        tail: Padded(AtomicU64::new(0)),
        lost: AtomicU64::new(0),
    });
    let producer = Producer {
        ring: Arc::clone(&shared),
        line: Arc::clone(line),
        tail: 0,
        head: 0,
        lost: [(0, 0); LOSERS],
        losers: 0,
    };
    let consumer = Consumer {
        ring: shared,
        head: 0,
    };
    Ok((producer, consumer))
}

/// The protocol's end of a ring.
pub struct Producer {
    ring: Arc<Shared>,
    line: Arc<RequestLine>,
    tail: u64,
    /// The consumer has taken at least these.
    head: u64,
    /// Connections with lost events that are not yet reported, and how many; the last one counts for all others, as
    /// connection 0.
    lost: [(u64, u64); LOSERS],
    losers: usize,
}

impl Producer {
    /// Puts an event in; never waits. False: the ring is full, and the event is lost and counted.
    #[inline]
    pub fn put_element(&mut self, event: &QosEvent) -> bool {
        let was_empty = self.line.rule() == Rule::Literal && self.is_empty();
        if self.room() == 0 {
            self.lose(event.conn);
            return false;
        }
        if self.losers > 0 && !self.tell_lost(event.t_ns) {
            self.lose(event.conn);
            self.line.published(was_empty);
            return false;
        }
        self.write(event);
        self.line.published(was_empty);
        true
    }

    /// Events that were lost so far.
    pub fn events_lost(&self) -> u64 {
        self.ring.lost.load(Ordering::Relaxed)
    }

    #[inline]
    fn room(&mut self) -> u64 {
        let capacity = self.ring.slots.len() as u64;
        if self.tail - self.head == capacity {
            self.head = self.ring.head.0.load(Ordering::Acquire);
        }
        capacity - (self.tail - self.head)
    }

    fn is_empty(&self) -> bool {
        self.ring.head.0.load(Ordering::Acquire) == self.tail
    }

    #[inline]
    fn write(&mut self, event: &QosEvent) {
        let slot = self.ring.slot(self.tail);
        for (place, word) in slot.iter().zip(event.words()) {
            place.store(word, Ordering::Relaxed);
        }
        self.tail += 1;
        self.ring.tail.0.store(self.tail, Ordering::Release);
    }

    /// Says in the ring what was lost; true if a place is left after that.
    #[cold]
    fn tell_lost(&mut self, t_ns: u64) -> bool {
        while self.losers > 0 && self.room() > 0 {
            self.losers -= 1;
            let (conn, count) = self.lost[self.losers];
            let lost = QosEvent {
                t_ns,
                ..QosEvent::new(conn, QosAction::EventsLost, 0, layercast_core::Time::ZERO)
            };
            self.write(&lost.with(QosInfo::None, count, 0));
        }
        self.room() > 0
    }

    #[cold]
    fn lose(&mut self, conn: u64) {
        self.ring.lost.fetch_add(1, Ordering::Relaxed);
        let known = self.lost[..self.losers].iter().position(|it| it.0 == conn);
        let place = match known {
            Some(place) => place,
            None if self.losers < LOSERS => {
                let conn = if self.losers == LOSERS - 1 { 0 } else { conn };
                self.lost[self.losers] = (conn, 0);
                self.losers += 1;
                self.losers - 1
            }
            None => LOSERS - 1,
        };
        self.lost[place].1 += 1;
    }
}

/// The monitor's end of a ring.
pub struct Consumer {
    ring: Arc<Shared>,
    head: u64,
}

impl Consumer {
    /// The oldest event.
    #[inline]
    pub fn get_element(&mut self) -> Option<QosEvent> {
        if self.ring.tail.0.load(Ordering::Acquire) == self.head {
            return None;
        }
        let slot = self.ring.slot(self.head);
        let words = std::array::from_fn(|n| slot[n].load(Ordering::Relaxed));
        self.head += 1;
        self.ring.head.0.store(self.head, Ordering::Release);
        Some(QosEvent::from_words(words))
    }

    /// Whether nothing is in it now.
    pub fn is_empty(&self) -> bool {
        self.ring.tail.0.load(Ordering::Acquire) == self.head
    }

    /// Events that were lost so far because the ring was full.
    pub fn events_lost(&self) -> u64 {
        self.ring.lost.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer")
            .field("tail", &self.tail)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}
