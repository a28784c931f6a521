use std::collections::BTreeSet;

use layercast_core::{Time, prefetch};

/// Names a tenant: its place, and the generation that tells it from those that had the place before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId {
    /// The place.
    pub slot: u32,
    /// Tenants that the place had before.
    pub generation: u32,
}

/// What wants to be woken.
pub trait Timed {
    /// When.
    fn next_timeout(&self) -> Option<Time>;
}

/// The places of the connections of an endpoint: found by name, woken by time. Each has a mark of its owner's.
#[derive(Debug)]
pub struct Slots<T, M> {
    slots: Vec<Slot<T, M>>,
    /// The free places, and the timers of the tenants.
    rest: Box<Rest>,
    /// When the first is woken.
    next: Option<Time>,
}

#[derive(Default, Debug)]
struct Rest {
    free: Vec<u32>,
    /// At most one entry for each tenant, never later than its deadline; unused as long as there are few places.
    deadlines: BTreeSet<(Time, u32)>,
}

/// Up to this number of places is searched linearly, which costs less than keeping them sorted.
const FEW: usize = 4;

#[derive(Debug)]
struct Slot<T, M> {
    generation: u32,
    /// The time of the tenant's timer in the queue.
    armed: Option<Time>,
    mark: M,
    tenant: Option<Box<T>>,
}

impl<T, M> Default for Slots<T, M> {
    fn default() -> Slots<T, M> {
        Slots {
            slots: Vec::new(),
            rest: Box::default(),
            next: None,
        }
    }
}

impl<T: Timed, M: Default> Slots<T, M> {
    /// Tenants.
    pub fn tenants(&self) -> usize {
        self.slots.len() - self.rest.free.len()
    }

    /// The place that the next tenant gets.
    pub fn next_slot(&self) -> u32 {
        let free = self.rest.free.last();
        free.copied().unwrap_or(self.slots.len() as u32)
    }

    /// Gives a tenant a place.
    pub fn insert(&mut self, tenant: T) -> SlotId {
        let slot = self.next_slot();
        if self.rest.free.pop().is_none() {
            if self.slots.len() == FEW {
                self.rest.deadlines = self.armed().collect();
            }
            self.slots.push(Slot {
                generation: 0,
                armed: None,
                mark: M::default(),
                tenant: None,
            });
        }
        let place = &mut self.slots[slot as usize].tenant;
        debug_assert!(place.is_none(), "a free place has no tenant");
        *place = Some(Box::new(tenant));
        self.id_of(slot)
    }

    /// Prefetches at most this number of places.
    #[inline]
    pub fn prepare(&self, most: usize) {
        prefetch(&self.slots[..self.slots.len().min(most)]);
    }

    /// The tenant of a place.
    #[inline]
    pub fn tenant(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.tenant.as_deref()
    }

    /// Prefetches the tenants that are due next, a few of them.
    #[inline]
    pub fn prepare_due(&self) {
        if self.slots.len() <= FEW
            && let Some((_, slot)) = self.first()
        {
            self.tenant(slot).map(prefetch);
        }
    }

    /// The marks of all places, if there are few.
    #[inline]
    pub fn marks_of_few(&self) -> Option<impl Iterator<Item = &M>> {
        (self.slots.len() <= FEW).then(|| self.slots.iter().map(|slot| &slot.mark))
    }

    /// The name of the current tenant of an existing place.
    #[inline]
    pub fn id_of(&self, slot: u32) -> SlotId {
        let generation = self.slots[slot as usize].generation;
        SlotId { slot, generation }
    }

    /// The current tenants.
    #[inline]
    pub fn at(&self, slot: u32) -> Option<(SlotId, &T)> {
        let place = self.slots.get(slot as usize)?;
        let generation = place.generation;
        Some((SlotId { slot, generation }, place.tenant.as_deref()?))
    }

    /// The tenant of a name; `None` if it has gone.
    #[inline]
    pub fn get(&self, id: SlotId) -> Option<&T> {
        let slot = self.slots.get(id.slot as usize)?;
        let here = slot.generation == id.generation;
        slot.tenant.as_deref().filter(|_| here)
    }

    /// The same, to change it.
    #[inline]
    pub fn get_mut(&mut self, id: SlotId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let here = slot.generation == id.generation;
        slot.tenant.as_deref_mut().filter(|_| here)
    }

    /// The mark of a tenant.
    #[inline]
    pub fn mark_of(&mut self, id: SlotId) -> Option<&mut M> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let here = slot.generation == id.generation && slot.tenant.is_some();
        Some(&mut slot.mark).filter(|_| here)
    }

    /// Gives up a place: its name is never used again.
    pub fn remove(&mut self, id: SlotId) -> Option<(Box<T>, M)> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let tenant = slot.tenant.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        let (armed, mark) = (slot.armed.take(), core::mem::take(&mut slot.mark));
        self.rest.free.push(id.slot);
        if armed.is_some() {
            self.move_deadline(id.slot, armed, None);
        }
        Some((tenant, mark))
    }

    /// Queues the tenant's deadline, unless it stands there for an earlier time: then it is looked at again at that time,
    /// which is cheaper than moving it for each acknowledgement. Gives the mark.
    #[inline(always)]
    pub fn arm(&mut self, id: SlotId) -> Option<&mut M> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let tenant = slot.tenant.as_deref();
        let tenant = tenant.filter(|_| slot.generation == id.generation)?;
        if let Some(wanted) = tenant.next_timeout()
            && slot.armed.is_none_or(|at| at > wanted)
        {
            let before = slot.armed.replace(wanted);
            self.move_deadline(id.slot, before, Some(wanted));
        }
        Some(&mut self.slots[id.slot as usize].mark)
    }

    /// The deadline of a place has changed.
    fn move_deadline(&mut self, slot: u32, before: Option<Time>, now: Option<Time>) {
        if self.slots.len() > FEW {
            let deadlines = &mut self.rest.deadlines;
            let was_queued = before.is_none_or(|at| deadlines.remove(&(at, slot)));
            debug_assert!(was_queued, "each armed timer is in the queue");
            now.map(|at| deadlines.insert((at, slot)));
        }
        self.next = self.first().map(|it| it.0);
    }

    /// The first deadline, and whose it is.
    fn first(&self) -> Option<(Time, u32)> {
        if self.slots.len() > FEW {
            return self.rest.deadlines.first().copied();
        }
        self.armed().min()
    }

    /// The deadline of each place that has one.
    fn armed(&self) -> impl Iterator<Item = (Time, u32)> {
        let slots = self.slots.iter().zip(0..);
        slots.filter_map(|(slot, n)| Some((slot.armed?, n)))
    }

    /// Takes the next tenant whose deadline may have come.
    pub fn due(&mut self, now: Time) -> Option<SlotId> {
        self.next.filter(|at| *at <= now)?;
        let (at, slot) = self.first()?;
        let armed = self.slots[slot as usize].armed.take();
        debug_assert_eq!(armed, Some(at), "the queue has the time of the timer");
        self.move_deadline(slot, Some(at), None);
        Some(self.id_of(slot))
    }

    /// When the first tenant is due.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Sleeper(u64);

    impl Timed for Sleeper {
        fn next_timeout(&self) -> Option<Time> {
            Some(Time::from_ps(self.0))
        }
    }

    #[test]
    fn a_name_is_of_one_tenant_only() {
        let mut slots = Slots::<Sleeper, bool>::default();
        let (a, b) = (slots.insert(Sleeper(5)), slots.insert(Sleeper(3)));
        *slots.mark_of(a).unwrap() = true;
        slots.arm(a);
        slots.arm(b);
        let (gone, mark) = slots.remove(a).unwrap();
        assert_eq!((gone.0, mark, slots.tenants()), (5, true, 1));
        assert!(slots.remove(a).is_none() && slots.get(a).is_none());
        assert_eq!(slots.next_slot(), a.slot);
        let c = slots.insert(Sleeper(9));
        assert_eq!((c.slot, slots.tenants()), (a.slot, 2));
        assert_eq!(slots.mark_of(c), Some(&mut false));
        assert!(slots.get_mut(a).is_none() && slots.mark_of(a).is_none());
        slots.arm(c);
        let late = Time::from_ps(100);
        assert_eq!(slots.next_deadline(), Some(Time::from_ps(3)));
        assert_eq!(
            [slots.due(late), slots.due(late), slots.due(late)],
            [Some(b), Some(c), None]
        );
    }

    proptest! {
        /// Few tenants and many, which arrive, leave, and change their timers.
        #[test]
        fn wakes_like_a_sorted_list(steps in prop::collection::vec((0..4_u8, 0..9_usize, 1..60_u64), 1..200)) {
            let mut slots = Slots::<Sleeper, bool>::default();
            // The tenants, their timers, and when each will be checked.
            let mut model: Vec<(SlotId, u64, Option<u64>)> = Vec::new();
            for (what, who, at) in steps {
                let place = who % model.len().max(1);
                match what {
                    0 if model.len() < 9 => model.push((slots.insert(Sleeper(at)), at, None)),
                    1 if !model.is_empty() => {
                        let (id, ..) = model.remove(place);
                        prop_assert!(slots.remove(id).is_some());
                    }
                    2 if !model.is_empty() => {
                        let (id, wanted, armed) = &mut model[place];
                        slots.get_mut(*id).unwrap().0 = at;
                        *wanted = at;
                        slots.arm(*id);
                        *armed = Some(armed.map_or(at, |armed| armed.min(at)));
                    }
                    _ => {
                        let due = model.iter_mut().filter(|it| it.2.is_some_and(|armed| armed <= at));
                        let first = due.min_by_key(|it| (it.2, it.0.slot));
                        let found = slots.due(Time::from_ps(at));
                        prop_assert_eq!(found, first.as_ref().map(|it| it.0));
                        if let Some(first) = first {
                            first.2 = None;
                        }
                    }
                }
                let next = model.iter().filter_map(|it| it.2).min();
                prop_assert_eq!(slots.next_deadline(), next.map(Time::from_ps));
            }
        }
    }
}
