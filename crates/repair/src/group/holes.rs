use std::collections::VecDeque;

use layercast_core::{Span, Time};

/// Most gaps that a member remembers; beyond, the oldest is given up.
pub const MAX_HOLES: usize = 512;

/// Gaps in the counters of a group, oldest first. A gap stays until it is given up; what arrived of it is elsewhere.
#[derive(Default, Debug)]
pub(super) struct Holes {
    list: VecDeque<Hole>,
}

/// Consecutive counters that did not arrive in their turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    pub first: u64,
    pub end: u64,
    /// When a later counter arrived.
    pub since: Time,
    /// Contents among them that are missing.
    pub lacking: u64,
    /// Its reorder window is over.
    pub ripe: bool,
    /// It has been requested.
    pub asked: bool,
}

impl Holes {
    /// Adds the newest gap; gives one that is given up for it.
    pub fn add(&mut self, hole: Hole) -> Option<Hole> {
        self.list.push_back(hole);
        match self.list.len() > MAX_HOLES {
            true => self.list.pop_front(),
            false => None,
        }
    }

    /// Takes the oldest gap if it is older than `keep`.
    pub fn expire(&mut self, now: Time, keep: Span) -> Option<Hole> {
        let over = |hole: &Hole| hole.since.saturating_add(keep) <= now;
        self.list.front().filter(|hole| over(hole))?;
        self.list.pop_front()
    }

    /// The gap that a counter is in.
    pub fn of(&mut self, counter: u64) -> Option<&mut Hole> {
        let at = self.list.partition_point(|hole| hole.end <= counter);
        self.list.get_mut(at).filter(|hole| hole.first <= counter)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Hole> {
        self.list.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Hole> {
        self.list.iter_mut()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }
}
