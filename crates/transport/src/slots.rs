use std::collections::BTreeSet;

use layercast_core::{Time, prefetch};

/// Names a tenant: its place, and the generation that tells it from those that had the place before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SlotId {
    pub slot: u32,
    pub generation: u32,
}

/// What wants to be woken.
pub(crate) trait Timed {
    /// When.
    fn next_timeout(&self) -> Option<Time>;
}

/// The places of the connections of an endpoint: found by name, woken by time. Each has a mark of its owner's.
#[derive(Debug)]
pub(crate) struct Slots<T, M> {
    slots: Vec<Slot<T, M>>,
    free: Vec<u32>,
    /// At most one entry for each tenant, never later than its deadline.
    deadlines: BTreeSet<(Time, u32)>,
    /// The first of them.
    next: Option<Time>,
}

#[derive(Debug)]
struct Slot<T, M> {
    generation: u32,
    /// When the timer of the tenant stands in the queue.
    armed: Option<Time>,
    mark: M,
    tenant: Option<Box<T>>,
}

impl<T, M> Default for Slots<T, M> {
    fn default() -> Slots<T, M> {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
            deadlines: BTreeSet::new(),
            next: None,
        }
    }
}

impl<T: Timed, M: Default> Slots<T, M> {
    /// Tenants.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The place that the next tenant gets.
    pub fn next_slot(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    pub fn insert(&mut self, tenant: T) -> SlotId {
        let slot = self.next_slot();
        if self.free.pop().is_none() {
            self.slots.push(Slot {
                generation: 0,
                armed: None,
                mark: M::default(),
                tenant: None,
            });
        }
        self.slots[slot as usize].tenant = Some(Box::new(tenant));
        self.id_of(slot)
    }

    /// Prefetches so many places at most.
    #[inline]
    pub fn prepare(&self, most: usize) {
        prefetch(&self.slots[..self.slots.len().min(most)]);
    }

    /// Prefetches whom a place belongs to.
    #[inline]
    pub fn prepare_tenant(&self, slot: u32) {
        let tenant = self.slots.get(slot as usize).map(|it| &it.tenant);
        tenant.and_then(|it| it.as_deref()).map(prefetch);
    }

    /// The marks of the first places, if there are no more than so many.
    #[inline]
    pub fn marks(&self, most: usize) -> Option<impl Iterator<Item = &M>> {
        (self.slots.len() <= most).then(|| self.slots.iter().map(|slot| &slot.mark))
    }

    /// The name of whom a place, which there is, belongs to now.
    #[inline]
    pub fn id_of(&self, slot: u32) -> SlotId {
        let generation = self.slots[slot as usize].generation;
        SlotId { slot, generation }
    }

    /// Who has a place now.
    #[inline]
    pub fn at(&self, slot: u32) -> Option<(SlotId, &T)> {
        let place = self.slots.get(slot as usize)?;
        let generation = place.generation;
        Some((SlotId { slot, generation }, place.tenant.as_deref()?))
    }

    #[inline]
    pub fn get(&self, id: SlotId) -> Option<&T> {
        let slot = self.slots.get(id.slot as usize)?;
        let here = slot.generation == id.generation;
        slot.tenant.as_deref().filter(|_| here)
    }

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
        if let Some(at) = slot.armed.take() {
            self.deadlines.remove(&(at, id.slot));
            self.next = self.deadlines.first().map(|it| it.0);
        }
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        Some((tenant, core::mem::take(&mut slot.mark)))
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
            self.move_deadline(id.slot, before, wanted);
        }
        Some(&mut self.slots[id.slot as usize].mark)
    }

    fn move_deadline(&mut self, slot: u32, before: Option<Time>, wanted: Time) {
        if let Some(at) = before {
            self.deadlines.remove(&(at, slot));
        }
        self.deadlines.insert((wanted, slot));
        self.next = self.deadlines.first().map(|it| it.0);
    }

    /// Takes the next tenant whose deadline may have come.
    pub fn due(&mut self, now: Time) -> Option<SlotId> {
        self.next.filter(|at| *at <= now)?;
        let (at, slot) = *self.deadlines.first()?;
        self.deadlines.remove(&(at, slot));
        self.next = self.deadlines.first().map(|it| it.0);
        self.slots[slot as usize].armed = None;
        Some(self.id_of(slot))
    }

    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        self.next
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!((gone.0, mark, slots.len()), (5, true, 1));
        assert!(slots.remove(a).is_none() && slots.get(a).is_none());
        assert_eq!(slots.next_slot(), a.slot);
        let c = slots.insert(Sleeper(9));
        assert_eq!((c.slot, slots.len()), (a.slot, 2));
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
}
