//! The event kernel: a heap with one entry per event source, updated in place.
//!
//! An event source is anything that knows when it next wants to act: a machine with its timeout,
//! a link with the PDU at its head, a CPU with the job it is doing. There are a few per node, so
//! the heap stays small however many PDUs are under way, and nothing is allocated per event.

use layercast_core::{Stream, Time};
use rand_core::RngCore;

use crate::ties::Ties;
use crate::ties::draw;

/// An event source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceId(pub u32);

/// The pending event of every source, earliest first.
#[derive(Debug)]
pub struct Kernel {
    /// A 4-ary heap: the children of `i` are `4 i + 1 ..= 4 i + 4`.
    heap: Vec<Key>,
    /// The position of each source in the heap, or `IDLE`.
    place: Vec<u32>,
    /// The root is vacant: its source has just gone idle, and most often another source is scheduled next that
    /// can have its place.
    vacant: bool,
    ties: Ties,
    stream: Stream,
    /// The sources that draw from a stream of their own, and that stream.
    apart: Vec<SourceId>,
    apart_stream: Stream,
    /// The seed of ties, if they depend only on the source and the time.
    seed: Option<u64>,
    drawn: u64,
}

/// A pending event.
#[derive(Clone, Copy, Debug)]
struct Key {
    /// Picoseconds in the upper half, the tie, which is a draw or a count, in the lower: one
    /// comparison for both.
    order: u128,
    source: u32,
}

impl Key {
    fn at(self) -> Time {
        Time::from_ps((self.order >> 64) as u64)
    }
}

const ARITY: usize = 4;
const IDLE: u32 = u32::MAX;

impl Kernel {
    /// An empty kernel; random ties draw from the stream `"kernel/ties"` of `seed`.
    pub fn new(ties: Ties, seed: u64) -> Kernel {
        Kernel {
            heap: Vec::new(),
            place: Vec::new(),
            vacant: false,
            ties,
            stream: Stream::new(seed, "kernel/ties"),
            apart: Vec::new(),
            apart_stream: Stream::new(seed, "kernel/ties-apart"),
            seed: None,
            drawn: 0,
        }
    }

    /// From now on random ties depend on the sources and the instant alone, not on what else was scheduled before.
    pub fn tell_sources_apart(&mut self) {
        self.seed = Some(self.stream.next_u64());
    }

    /// A new source with nothing pending.
    pub fn add(&mut self) -> SourceId {
        self.place.push(IDLE);
        self.heap.reserve(self.place.len());
        SourceId(self.place.len() as u32 - 1)
    }

    /// Whether and how often this source is scheduled no longer matters for the random ties of others.
    pub fn set_apart(&mut self, source: SourceId) {
        if let Err(place) = self.apart.binary_search_by_key(&source.0, |it| it.0) {
            self.apart.insert(place, source);
        }
    }

    /// The earliest event; it stays pending until its source is scheduled again.
    #[inline]
    pub fn next(&mut self) -> Option<(Time, SourceId)> {
        if self.vacant {
            self.fill_root();
        }
        self.heap
            .first()
            .map(|key| (key.at(), SourceId(key.source)))
    }

    /// Those whose events come soon after the earliest, most likely.
    pub fn soon(&self) -> impl Iterator<Item = SourceId> {
        let next = self.heap.iter().skip(1).take(ARITY);
        next.map(|key| SourceId(key.source))
    }

    fn fill_root(&mut self) {
        self.vacant = false;
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.down(0, last);
        }
    }

    /// Makes `at` the pending event of `source`, or none. Scheduling it for the instant it is
    /// already scheduled for changes nothing.
    #[inline]
    pub fn schedule(&mut self, source: SourceId, at: Option<Time>) {
        let place = self.place[source.0 as usize];
        let pending = self.heap.get(place as usize).map(|key| key.at());
        if pending != at {
            self.reschedule(source, place, at);
        }
    }

    fn reschedule(&mut self, source: SourceId, place: u32, at: Option<Time>) {
        match (place, at) {
            (IDLE, None) => {}
            (IDLE, Some(at)) => {
                let key = self.key(source, at);
                if std::mem::take(&mut self.vacant) {
                    self.down(0, key);
                } else {
                    self.heap.push(key);
                    self.up(self.heap.len() - 1, key);
                }
            }
            (place, None) => self.remove(place as usize),
            (place, Some(at)) => {
                let old = self.heap[place as usize];
                let key = self.key(source, at);
                self.settle(place as usize, old, key);
            }
        }
    }

    fn key(&mut self, source: SourceId, at: Time) -> Key {
        self.drawn += 1;
        let tie = match self.ties {
            Ties::Fifo => self.drawn,
            Ties::Random => match self.seed {
                Some(seed) => draw(seed, at, source.0.into()),
                None if self.is_apart(source) => self.apart_stream.next_u64(),
                None => self.stream.next_u64(),
            },
        };
        Key {
            order: u128::from(at.as_ps()) << 64 | u128::from(tie),
            source: source.0,
        }
    }

    fn is_apart(&self, source: SourceId) -> bool {
        let found = self.apart.binary_search_by_key(&source.0, |it| it.0);
        found.is_ok()
    }

    fn remove(&mut self, place: usize) {
        let old = self.heap[place];
        self.place[old.source as usize] = IDLE;
        if place == 0 {
            // Before all others, so that no entry moves up there.
            self.heap[0].order = 0;
            self.vacant = true;
            return;
        }
        if let Some(last) = self.heap.pop()
            && place < self.heap.len()
        {
            self.settle(place, old, last);
        }
    }

    /// Puts `key` where `old` was, and from there to where it belongs.
    fn settle(&mut self, place: usize, old: Key, key: Key) {
        if key.order < old.order {
            self.up(place, key);
        } else {
            self.down(place, key);
        }
    }

    fn up(&mut self, mut place: usize, key: Key) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent].order <= key.order {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, key);
    }

    fn down(&mut self, mut place: usize, key: Key) {
        loop {
            let first = place * ARITY + 1;
            let Some(children) = self.heap.get(first..).filter(|it| !it.is_empty()) else {
                break;
            };
            let least = match children.first_chunk() {
                Some(children) => least_of(children),
                None => (1..children.len()).fold(0, |least, child| lesser(children, least, child)),
            };
            let child = children[least];
            if child.order >= key.order {
                break;
            }
            self.put(place, child);
            place = first + least;
        }
        self.put(place, key);
    }

    fn put(&mut self, place: usize, key: Key) {
        self.heap[place] = key;
        self.place[key.source as usize] = place as u32;
    }
}

/// The index of the earliest of four keys; without branches, which would be unpredictable.
fn least_of(keys: &[Key; ARITY]) -> usize {
    lesser(keys, lesser(keys, 0, 1), lesser(keys, 2, 3))
}

fn lesser(keys: &[Key], a: usize, b: usize) -> usize {
    let later = keys[b].order < keys[a].order;
    std::hint::select_unpredictable(later, b, a)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn drain(kernel: &mut Kernel) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| {
            let (at, source) = kernel.next()?;
            kernel.schedule(source, None);
            Some((at.as_ps(), source.0))
        })
        .collect()
    }

    #[test]
    fn fifo_ties_keep_the_order_of_scheduling() {
        let mut kernel = Kernel::new(Ties::Fifo, 1);
        let sources: Vec<_> = (0..20).map(|_| kernel.add()).collect();
        for &source in sources.iter().rev() {
            kernel.schedule(source, Some(Time::from_ps(5)));
        }
        let order: Vec<u32> = drain(&mut kernel).iter().map(|event| event.1).collect();
        assert_eq!(order, (0..20).rev().collect::<Vec<_>>());
    }

    #[test]
    fn random_ties_favour_nobody() {
        let mut kernel = Kernel::new(Ties::Random, 1);
        let (a, b) = (kernel.add(), kernel.add());
        let mut a_first = 0;
        for _ in 0..1_000 {
            kernel.schedule(a, Some(Time::ZERO));
            kernel.schedule(b, Some(Time::ZERO));
            a_first += u32::from(drain(&mut kernel)[0].1 == a.0);
        }
        assert!((400..600).contains(&a_first), "{a_first}");
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec((0..12u32, prop::option::of(0..50u64)), 0..300)) {
            let mut kernel = Kernel::new(Ties::Random, 7);
            let mut model = BTreeMap::new();
            for _ in 0..12 {
                kernel.add();
            }
            for (source, at) in steps {
                kernel.schedule(SourceId(source), at.map(Time::from_ps));
                match at {
                    Some(at) => model.insert(source, at),
                    None => model.remove(&source),
                };
                // Not every time: what went idle may be followed by another, unseen.
                if source % 3 == 0 {
                    let earliest = model.values().min().copied();
                    prop_assert_eq!(kernel.next().map(|event| event.0.as_ps()), earliest);
                }
            }
            let mut left: Vec<u64> = model.values().copied().collect();
            left.sort_unstable();
            let drained: Vec<u64> = drain(&mut kernel).iter().map(|event| event.0).collect();
            prop_assert_eq!(drained, left);
        }
    }
}
