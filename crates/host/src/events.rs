use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use layercast_core::Time;

/// What is to happen, in the order of time; of one instant, in the order in which it was added.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Reverse<Due<E>>>,
    next: u64,
}

#[derive(Debug)]
struct Due<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Events<E> {
    pub fn new() -> Events<E> {
        Events {
            heap: BinaryHeap::new(),
            next: 0,
        }
    }

    pub fn add(&mut self, at: Time, event: E) {
        self.heap.push(Reverse(Due {
            at,
            number: self.next,
            event,
        }));
        self.next += 1;
    }

    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(due)| due.at)
    }

    /// The next event that is due at `now`.
    pub fn pop(&mut self, now: Time) -> Option<E> {
        self.next().filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse(due)| due.event)
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Due<E>) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Due<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Due<E>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Due<E> {}
