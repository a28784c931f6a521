use std::collections::VecDeque;

use layercast_core::{RequestId, Time};

use super::PacketRef;
use crate::policy::ConversationType;
use crate::{AtmAddress, Tag, Vcid};

/// No slot.
const NONE: u32 = u32::MAX;

/// Stage of a circuit; each stage ends a fixed time after `since`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Requested; packets wait.
    Waiting,
    /// Requested; the packets were discarded, the answer is still expected.
    Abandoned,
    /// In use.
    Bound,
    /// Idle, available to other conversations.
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

/// Identifies interchangeable idle circuits: same next hop and same tag.
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
    /// Number of the circuit, if bound or cached.
    pub vc: Vcid,
    /// The last request for it, and its time.
    pub request: RequestId,
    pub asked: Time,
    /// Whether the request is for more than best effort.
    pub elevated: bool,
    /// Waiting packets.
    pub queue: VecDeque<PacketRef>,
    prev: u32,
    next: u32,
}

impl Circuit {
    /// A circuit that is being requested.
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

/// All circuits, and for each stage a list in the order of `since`: the next to expire is first.
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

    /// Number of circuits in this stage.
    pub(super) fn count(&self, stage: Stage) -> usize {
        self.chains[stage as usize].len
    }

    /// The circuit that has been in this stage for the longest time.
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

    /// Removes a circuit with an empty queue.
    pub(super) fn remove(&mut self, slot: u32) {
        debug_assert!(self.get(slot).queue.is_empty());
        self.unlink(slot);
        self.free.push(slot);
    }

    /// Appends a circuit to `stage`, which it enters at `since`, not before any other in it.
    pub(super) fn enter(&mut self, slot: u32, stage: Stage, since: Time) {
        self.unlink(slot);
        let circuit = self.get_mut(slot);
        (circuit.stage, circuit.since) = (stage, since);
        self.link(slot);
    }

    /// Marks a bound circuit as used.
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
