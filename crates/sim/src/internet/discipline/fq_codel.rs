//! Flow queues with CoDel (RFC 8290).

use std::collections::VecDeque;

use super::codel::{Backlog, State};
use super::keyed::Keyed;
use super::{CoDelConfig, DropCause, Item, Port, QueueDiscipline, Setup};

/// What FQ-CoDel does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FqCoDelConfig {
    /// CoDel of each queue.
    pub codel: CoDelConfig,
    /// Queues, over which flows are spread by a hash; from 1 on.
    pub flows: u16,
    /// Bytes that a queue may send in its turn; `None`: the MTU of the link.
    pub quantum: Option<u32>,
}

impl Default for FqCoDelConfig {
    /// Those of RFC 8290 5.2.
    fn default() -> FqCoDelConfig {
        FqCoDelConfig {
            codel: CoDelConfig::default(),
            flows: 1_024,
            quantum: None,
        }
    }
}

/// Most packets that are dropped together where there is no room (RFC 8290 4.1).
const MOST_DROPPED: usize = 64;

/// Deficit round robin over queues with CoDel, in which queues that were empty go first.
#[derive(Debug)]
pub struct FqCoDel {
    config: FqCoDelConfig,
    setup: Setup,
    quantum: i64,
    /// By hash.
    queues: Keyed<FlowQueue>,
    /// Queues that have not had their first turn, and all others with packets.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

#[derive(Debug)]
struct FlowQueue {
    packets: Waiting,
    state: State,
    credit: i64,
    is_listed: bool,
}

#[derive(Default, Debug)]
struct Waiting {
    items: VecDeque<Item>,
    bytes: u64,
}

impl Backlog for Waiting {
    fn next(&mut self) -> Option<(Item, u64)> {
        let item = self.items.pop_front()?;
        self.bytes -= u64::from(item.bytes());
        Some((item, self.bytes))
    }
}

impl FqCoDel {
    /// For a link.
    pub fn new(config: FqCoDelConfig, setup: &Setup) -> FqCoDel {
        FqCoDel {
            config,
            setup: *setup,
            quantum: config.quantum.unwrap_or(setup.mtu).into(),
            queues: Keyed::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    /// The queue of a packet.
    fn queue_of(&mut self, item: &Item) -> u32 {
        let (config, mtu) = (&self.config, self.setup.mtu);
        let hash = item.bucket(self.setup.salt, config.flows.max(1).into());
        self.queues.place(hash, || FlowQueue {
            packets: Waiting::default(),
            state: State::new(config.codel, mtu),
            credit: 0,
            is_listed: false,
        })
    }

    /// Half of the packets of the longest queue, in bytes, go from its head.
    fn make_room(&mut self, port: &mut Port<'_>) {
        let longest = self.queues.all.iter_mut().max_by_key(|it| it.packets.bytes);
        let Some(queue) = longest else {
            return;
        };
        let half = queue.packets.items.len().div_ceil(2);
        for _ in 0..half.min(MOST_DROPPED) {
            if let Some((item, _)) = queue.packets.next() {
                port.drop(item, DropCause::Full);
            }
        }
    }
}

impl QueueDiscipline for FqCoDel {
    fn enqueue(&mut self, item: Item, port: &mut Port<'_>) {
        let place = self.queue_of(&item);
        let queue = self.queues.at(place);
        queue.packets.bytes += u64::from(item.bytes());
        queue.packets.items.push_back(item);
        if !queue.is_listed {
            queue.is_listed = true;
            queue.credit = self.quantum;
            self.new.push_back(place);
        }
        while port.is_over_limit() {
            self.make_room(port);
        }
    }

    fn dequeue(&mut self, port: &mut Port<'_>) -> Option<Item> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let place = *list.front()?;
            let queue = self.queues.at(place);
            if queue.credit <= 0 {
                queue.credit += self.quantum;
                list.pop_front();
                self.old.push_back(place);
                continue;
            }
            if let Some(item) = queue.state.dequeue(&mut queue.packets, port) {
                queue.credit -= i64::from(item.bytes());
                return Some(item);
            }
            list.pop_front();
            // Else a flow could keep others waiting by becoming new again and again (RFC 8290 4.2).
            queue.is_listed = is_new;
            if is_new {
                self.old.push_back(place);
            }
        }
    }
}
