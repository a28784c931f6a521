use std::collections::VecDeque;

use layercast_core::Time;

use crate::signal::CallId;

/// Calls without an answer, by the end of their time limit.
///
/// All have the same time limit, so they are in the order of arrival. Answered calls are removed lazily: when they
/// reach the front, or exceed half of the list.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queue: VecDeque<(Time, Option<CallId>)>,
    answered: usize,
}

impl Waiting {
    /// The call whose limit ends first, and when.
    #[inline]
    pub fn first(&self) -> Option<(Time, CallId)> {
        let &(end, call) = self.queue.front()?;
        Some((end, call?))
    }

    /// Adds a call that waits until `end`.
    pub fn add(&mut self, end: Time, call: CallId) {
        let place = match self.queue.back() {
            Some(&(last, _)) if last > end => self.queue.partition_point(|it| it.0 <= end),
            _ => self.queue.len(),
        };
        self.queue.insert(place, (end, Some(call)));
    }

    /// Removes a call that waits until `end`.
    pub fn remove(&mut self, end: Time, call: CallId) {
        let from = self.queue.partition_point(|it| it.0 < end);
        let mut equal = self.queue.range_mut(from..).take_while(|it| it.0 == end);
        let Some(found) = equal.find(|it| it.1 == Some(call)) else {
            return;
        };
        found.1 = None;
        self.answered += 1;
        while let Some((_, None)) = self.queue.front() {
            self.queue.pop_front();
            self.answered -= 1;
        }
        if self.answered > self.queue.len() / 2 {
            self.queue.retain(|it| it.1.is_some());
            self.answered = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::AtmAddress;

    proptest! {
        #[test]
        fn the_first_is_the_least_and_the_answered_are_few(
            steps in prop::collection::vec((any::<bool>(), 0u64..20, 0u32..10), 1..200),
        ) {
            let mut waiting = Waiting::default();
            let mut model = BTreeSet::new();
            for (comes, end, number) in steps {
                let end = Time::from_ps(end);
                let call = CallId { origin: AtmAddress(1), number };
                if !comes {
                    waiting.remove(end, call);
                    model.remove(&(end, call));
                } else if model.insert((end, call)) {
                    waiting.add(end, call);
                }
                let first = waiting.first();
                prop_assert_eq!(first.map(|it| it.0), model.first().map(|it| it.0));
                prop_assert!(first.is_none_or(|it| model.contains(&it)));
                prop_assert!(waiting.queue.len() <= 2 * model.len());
            }
        }
    }
}
