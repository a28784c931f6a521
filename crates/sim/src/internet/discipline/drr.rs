//! Deficit round robin (Shreedhar and Varghese 1996).

use std::collections::VecDeque;

use super::keyed::Keyed;
use super::{DropCause, Item, Port, QueueDiscipline, Setup};

/// What deficit round robin does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrrConfig {
    /// What the link is shared among.
    pub share: Share,
    /// Queues, over which flows are spread by a hash, from 1 on. Hosts have a queue each.
    pub flows: u16,
    /// Bytes that a queue may send in its turn; `None`: the MTU of the link.
    pub quantum: Option<u32>,
}

/// What packets of one queue have in common.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Share {
    /// Addresses, protocol and ports.
    #[default]
    Flow,
    /// The host that sends them.
    Source,
    /// The host that receives them.
    Destination,
}

impl Default for DrrConfig {
    fn default() -> DrrConfig {
        DrrConfig {
            share: Share::Flow,
            flows: 1_024,
            quantum: None,
        }
    }
}

/// Queues that take turns, each with as many bytes as the others.
#[derive(Debug)]
pub struct Drr {
    share: Share,
    buckets: usize,
    salt: u64,
    quantum: u64,
    /// By bucket or host.
    queues: Keyed<Turns>,
    /// Queues with packets, in the order of their turns.
    active: VecDeque<u32>,
}

#[derive(Default, Debug)]
struct Turns {
    items: VecDeque<Item>,
    bytes: u64,
    /// Bytes that it may send in this turn.
    deficit: u64,
}

impl Drr {
    /// For a link.
    pub fn new(config: DrrConfig, setup: &Setup) -> Drr {
        Drr {
            share: config.share,
            buckets: usize::from(config.flows.max(1)),
            salt: setup.salt,
            quantum: config.quantum.unwrap_or(setup.mtu).max(1).into(),
            queues: Keyed::new(),
            active: VecDeque::new(),
        }
    }

    /// The queue of a packet.
    fn queue_of(&mut self, item: &Item) -> u32 {
        let key = match self.share {
            Share::Flow => item.bucket(self.salt, self.buckets),
            Share::Source => item.source() as usize,
            Share::Destination => item.destination() as usize,
        };
        self.queues.place(key, Turns::default)
    }

    /// The packet that came last to the longest queue, in bytes, goes.
    fn make_room(&mut self, port: &mut Port<'_>) -> bool {
        let bytes = |it: &usize| self.queues.all[self.active[*it] as usize].bytes;
        let Some(nth) = (0..self.active.len()).max_by_key(bytes) else {
            return false;
        };
        let queue = self.queues.at(self.active[nth]);
        let Some(item) = queue.items.pop_back() else {
            return false;
        };
        queue.bytes -= u64::from(item.bytes());
        if queue.items.is_empty() {
            queue.deficit = 0;
            self.active.remove(nth);
        }
        port.drop(item, DropCause::Full);
        true
    }
}

impl QueueDiscipline for Drr {
    fn enqueue(&mut self, item: Item, port: &mut Port<'_>) {
        let place = self.queue_of(&item);
        let queue = self.queues.at(place);
        if queue.items.is_empty() {
            queue.deficit = self.quantum;
            self.active.push_back(place);
        }
        queue.bytes += u64::from(item.bytes());
        queue.items.push_back(item);
        while port.is_over_limit() && self.make_room(port) {}
    }

    fn dequeue(&mut self, _: &mut Port<'_>) -> Option<Item> {
        loop {
            let place = *self.active.front()?;
            let queue = self.queues.at(place);
            let bytes = queue.items.front().map_or(0, |it| u64::from(it.bytes()));
            if bytes > queue.deficit {
                queue.deficit += self.quantum;
                self.active.rotate_left(1);
                continue;
            }
            let item = queue.items.pop_front()?;
            queue.bytes -= bytes;
            queue.deficit -= bytes;
            if queue.items.is_empty() {
                queue.deficit = 0;
                self.active.pop_front();
            }
            return Some(item);
        }
    }
}
