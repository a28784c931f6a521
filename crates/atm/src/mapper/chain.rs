use std::collections::VecDeque;

use layercast_core::{RequestId, Time};

use super::PacketRef;
use crate::policy::ConversationType;
use crate::{AtmAddress, Tag, Vcid};

/// No slot.
const NONE: u32 = u32::MAX;

/// Where a circuit is in its life; each stage ends a fixed time after `since`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Asked for; packets wait.
    Waiting,
    /// Asked for; the packets are given up, the answer is still awaited.
    Abandoned,
    /// In use.
    Bound,
    /// Idle, kept for others.
    Cached,
}

impl Stage {
    pub(super) const ALL: [Stage; 4] = [
        Stage::Waiting,
        Stage::Abandoned,
        Stage::Bound,
        Stage::Cached,
    ];
}

/// Who may use an idle circuit: those who go the same way with the same tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PoolKey {
    pub hop: AtmAddress,
    pub tag: Tag,
}

#[derive(Debug)]
pub(super) struct Circuit {
    pub stage: Stage,
    /// Start of the stage, or last use if bound.
    pub since: Time,
    /// The conversation, if waiting or bound.
    pub key: u128,
    pub kind: ConversationType,
    pub pool: PoolKey,
    /// Its number, if bound or cached.
    pub vc: Vcid,
    /// The last request for it, and when that was made.
    pub request: RequestId,
    pub asked: Time,
    /// Whether more than best effort was asked for.
    pub elevated: bool,
    /// Packets that wait.
    pub queue: VecDeque<PacketRef>,
    prev: u32,
    next: u32,
}

impl Circuit {
    /// A circuit that is asked for now.
    pub(super) fn new(now: Time, key: u128, kind: ConversationType, pool: PoolKey) -> Circuit {
        Circuit {
            stage: Stage::Waiting,
            since: now,
            key,
            kind,
            pool,
            vc: Vcid(0),
            request: RequestId(0),
            asked: now,
            elevated: false,
            queue: VecDeque::new(),
            prev: NONE,
            next: NONE,
        }
    }
}

/// All circuits, and of each stage a list in order of `since`: whose time is up stands in front.
#[derive(Debug)]
pub(super) struct Circuits {
    slots: Vec<Circuit>,
    free: Vec<u32>,
    chains: [Chain; Stage::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
struct Chain {
    head: u32,
    tail: u32,
    len: usize,
}

impl Circuits {
    pub(super) fn new() -> Circuits {
        let empty = Chain {
            head: NONE,
            tail: NONE,
            len: 0,
        };
        Circuits {
            slots: Vec::new(),
            free: Vec::new(),
            chains: [empty; Stage::ALL.len()],
        }
    }

    pub(super) fn get(&self, slot: u32) -> &Circuit {
        &self.slots[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Circuit {
        &mut self.slots[slot as usize]
    }

    /// How many are in this stage.
    pub(super) fn count(&self, stage: Stage) -> usize {
        self.chains[stage as usize].len
    }

    /// The longest in this stage.
    pub(super) fn oldest(&self, stage: Stage) -> Option<u32> {
        let head = self.chains[stage as usize].head;
        (head != NONE).then_some(head)
    }

    pub(super) fn insert(&mut self, circuit: Circuit) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = circuit;
                slot
            }
            None => {
                self.slots.push(circuit);
                self.slots.len() as u32 - 1
            }
        };
        self.link(slot);
        slot
    }

    /// Forgets it; its queue must be empty.
    pub(super) fn remove(&mut self, slot: u32) {
        debug_assert!(self.get(slot).queue.is_empty());
        self.unlink(slot);
        self.free.push(slot);
    }

    /// Puts it last into `stage`, which it enters at `since`: nobody there is later.
    pub(super) fn enter(&mut self, slot: u32, stage: Stage, since: Time) {
        self.unlink(slot);
        let circuit = self.get_mut(slot);
        (circuit.stage, circuit.since) = (stage, since);
        self.link(slot);
    }

    /// Notes that a bound circuit was used.
    pub(super) fn touch(&mut self, slot: u32, now: Time) {
        if self.chains[Stage::Bound as usize].tail == slot {
            self.get_mut(slot).since = now;
        } else {
            self.enter(slot, Stage::Bound, now);
        }
    }

    fn link(&mut self, slot: u32) {
        let stage = self.get(slot).stage;
        let chain = &mut self.chains[stage as usize];
        let tail = std::mem::replace(&mut chain.tail, slot);
        chain.len += 1;
        if tail == NONE {
            chain.head = slot;
        } else {
            debug_assert!(self.get(tail).since <= self.get(slot).since);
            self.get_mut(tail).next = slot;
        }
        let circuit = self.get_mut(slot);
        (circuit.prev, circuit.next) = (tail, NONE);
    }

    fn unlink(&mut self, slot: u32) {
        let Circuit {
            stage, prev, next, ..
        } = *self.get(slot);
        let chain = &mut self.chains[stage as usize];
        chain.len -= 1;
        if prev == NONE {
            chain.head = next;
        }
        if next == NONE {
            chain.tail = prev;
        }
        if prev != NONE {
            self.get_mut(prev).next = next;
        }
        if next != NONE {
            self.get_mut(next).prev = prev;
        }
    }
}
