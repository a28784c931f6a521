//! A mode of tests: what one event schedules is scheduled in a random order. No result may depend on it.

use std::cell::Cell;
use std::collections::BTreeMap;

use layercast_core::{Stream, Time};

use super::Waits;

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs `what` with calendars that are shuffled, of this thread.
pub(crate) fn shuffled<R>(seed: u64, what: impl FnOnce() -> R) -> R {
    let before = SEED.replace(Some(seed));
    let result = what();
    SEED.set(before);
    result
}

/// What was added since the last event, if it is to be shuffled.
#[derive(Debug)]
pub(super) struct Shuffled<T> {
    random: Option<Stream>,
    held: Vec<(Time, T)>,
}

impl<T> Default for Shuffled<T> {
    fn default() -> Shuffled<T> {
        Shuffled {
            random: SEED.get().map(|seed| Stream::new(seed, "shuffle")),
            held: Vec::new(),
        }
    }
}

impl<T: Waits> Shuffled<T> {
    /// Keeps an item, or gives it back if nothing is shuffled.
    pub fn keep(&mut self, at: Time, item: T) -> Option<(Time, T)> {
        if self.random.is_none() {
            return Some((at, item));
        }
        self.held.push((at, item));
        None
    }

    /// All that was kept, in a random order. Only what one sender sends for one instant stays in its order.
    pub fn take(&mut self, turns: &T::Turns) -> Vec<(Time, T)> {
        let Some(random) = &mut self.random else {
            return Vec::new();
        };
        let sent = std::mem::take(&mut self.held);
        let mut places: Vec<usize> = (0..sent.len()).collect();
        for n in (1..places.len()).rev() {
            places.swap(n, random.below(n as u64 + 1) as usize);
        }
        // The places in the new order that those of one sender for one instant get.
        let mut of_sender: BTreeMap<(Time, u64), Vec<usize>> = BTreeMap::new();
        for (n, &(at, item)) in sent.iter().enumerate() {
            let key = (at, item.turn(at, turns));
            of_sender.entry(key).or_default().push(places[n]);
        }
        for places in of_sender.values_mut() {
            places.sort_unstable_by_key(|&place| std::cmp::Reverse(place));
        }
        let mut order: Vec<(usize, (Time, T))> = sent
            .into_iter()
            .filter_map(|(at, item)| {
                let places = of_sender.get_mut(&(at, item.turn(at, turns)))?;
                Some((places.pop()?, (at, item)))
            })
            .collect();
        order.sort_unstable_by_key(|it| it.0);
        order.into_iter().map(|it| it.1).collect()
    }
}
