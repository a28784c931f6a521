//! The event kernel: a heap with one entry per event source, updated in place.
//!
//! An event source is anything that knows when it next wants to act: a machine with its timeout,
//! a link with the PDU at its head, a CPU with the job it is doing. There are a few per node, so
//! the heap stays small however many PDUs are under way, and nothing is allocated per event.

use layercast_core::Time;
use rustc_hash::FxHashSet;

use crate::ties::{Class, Turn, Turns};

/// An event source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceId(pub u32);

/// The pending event of every source, earliest first.
#[derive(Debug)]
pub struct Kernel {
    /// A 4-ary heap: the children of `i` are `4 i + 1 ..= 4 i + 4`.
    heap: Vec<Key>,
    sources: Vec<State>,
    turns: Turns,
    /// So that two of one name are two.
    taken: FxHashSet<Turn>,
    /// The root is vacant: its source has just gone idle, and most often another source is scheduled next that
    /// can have its place.
    vacant: bool,
}

/// What is known of a source.
#[derive(Clone, Copy, Debug)]
struct State {
    turn: Turn,
    class: Class,
    /// Its position in the heap, or `IDLE`.
    place: u32,
}

/// A pending event.
#[derive(Clone, Copy, Debug)]
struct Key {
    /// Picoseconds in the upper half, class and turn in the lower: one comparison for all.
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
    /// An empty kernel.
    pub(crate) fn new(turns: Turns) -> Kernel {
        Kernel {
            heap: Vec::new(),
            sources: Vec::new(),
            turns,
            taken: FxHashSet::default(),
            vacant: false,
        }
    }

    /// A new source with nothing pending. Of events at one instant its name decides which is first.
    pub(crate) fn add(&mut self, class: Class, name: &str) -> SourceId {
        let id = self.sources.len() as u32;
        let mut turn = self.turns.of(name, id);
        while !self.taken.insert(turn) {
            turn = turn.with(turn);
        }
        self.sources.push(State {
            turn,
            class,
            place: IDLE,
        });
        self.heap.reserve(self.sources.len());
        SourceId(id)
    }

    /// A source with nothing pending acts for somebody else from now on.
    pub(crate) fn rename(&mut self, source: SourceId, name: &str) {
        let state = &mut self.sources[source.0 as usize];
        debug_assert_eq!(
            state.place, IDLE,
            "its place in the heap is that of its old name"
        );
        state.turn = self.turns.of(name, source.0);
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
        let place = self.sources[source.0 as usize].place;
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

    #[inline]
    fn key(&self, source: SourceId, at: Time) -> Key {
        let State { turn, class, .. } = self.sources[source.0 as usize];
        let order = u128::from(at.as_ps()) << 64 | u128::from(class.turn(turn, at));
        Key {
            order,
            source: source.0,
        }
    }

    fn remove(&mut self, place: usize) {
        let old = self.heap[place];
        self.sources[old.source as usize].place = IDLE;
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
        self.sources[key.source as usize].place = place as u32;
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
    use crate::ties::Ties;

    fn drain(kernel: &mut Kernel) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| {
            let (at, source) = kernel.next()?;
            kernel.schedule(source, None);
            Some((at.as_ps(), source.0))
        })
        .collect()
    }

    fn kernel(ties: Ties, sources: u32) -> Kernel {
        let mut kernel = Kernel::new(Turns::new(ties, 1));
        for n in 0..sources {
            kernel.add(Class::Timer, &format!("timer/{n}"));
        }
        kernel
    }

    #[test]
    fn ordered_sources_go_by_their_places_whoever_was_scheduled_first() {
        let mut kernel = kernel(Ties::Ordered, 20);
        for source in (0..20).rev() {
            kernel.schedule(SourceId(source), Some(Time::from_ps(5)));
        }
        let order: Vec<u32> = drain(&mut kernel).iter().map(|event| event.1).collect();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn random_ties_favour_nobody() {
        let mut kernel = kernel(Ties::Random, 2);
        let [a, b] = [SourceId(0), SourceId(1)];
        let mut a_first = 0;
        for at in 0..1_000 {
            kernel.schedule(a, Some(Time::from_ps(at)));
            kernel.schedule(b, Some(Time::from_ps(at)));
            a_first += u32::from(drain(&mut kernel)[0].1 == a.0);
        }
        assert!((400..600).contains(&a_first), "{a_first}");
    }

    #[test]
    fn two_of_one_name_are_two() {
        let mut kernel = kernel(Ties::Random, 0);
        let [a, b] = [(); 2].map(|()| kernel.add(Class::Timer, "flow/film"));
        let mut a_first = 0;
        for at in 0..1_000 {
            kernel.schedule(b, Some(Time::from_ps(at)));
            kernel.schedule(a, Some(Time::from_ps(at)));
            a_first += u32::from(drain(&mut kernel)[0].1 == a.0);
        }
        assert!((400..600).contains(&a_first), "{a_first}");
    }

    #[test]
    fn arrivals_precede_timers() {
        let mut kernel = kernel(Ties::Random, 0);
        for n in 0..40 {
            let class = if n < 20 { Class::Timer } else { Class::Arrival };
            let source = kernel.add(class, &format!("{n}"));
            kernel.schedule(source, Some(Time::from_ps(5)));
        }
        let order = drain(&mut kernel);
        assert!(order[..20].iter().all(|event| event.1 >= 20), "{order:?}");
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec((0..12u32, prop::option::of(0..50u64)), 0..300)) {
            let mut kernel = kernel(Ties::Random, 12);
            let mut model = BTreeMap::new();
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

        /// The order of events is that of their times, however they came to be scheduled.
        #[test]
        fn the_order_of_scheduling_changes_nothing(
            times in prop::collection::vec(0..4u64, 12), order in Just((0..12usize).collect::<Vec<_>>()).prop_shuffle(),
            ordered in any::<bool>(),
        ) {
            let ties = if ordered { Ties::Ordered } else { Ties::Random };
            let [one, other] = [(0..12).collect(), order].map(|order: Vec<usize>| {
                let mut kernel = kernel(ties, 12);
                for source in order {
                    kernel.schedule(SourceId(source as u32), Some(Time::from_ps(times[source])));
                }
                drain(&mut kernel)
            });
            prop_assert_eq!(one, other);
        }
    }
}
