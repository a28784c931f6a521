use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::{Buf, ClientId, Ticket};

/// The order in which a driver sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// First come, first served, over all clients.
    #[default]
    Fcfs,
    /// The highest [priority](crate::Client::tx_priority) first, and the first of those of one priority.
    Priority,
}

/// Packets that wait for the transmitter.
#[derive(Debug, Default)]
pub(crate) struct TxQueue {
    heap: BinaryHeap<Queued>,
    next: u64,
}

#[derive(Debug)]
pub(crate) struct Queued {
    pub client: ClientId,
    pub ticket: Ticket,
    pub buf: Buf,
    priority: f64,
}

impl TxQueue {
    pub fn push(&mut self, client: ClientId, buf: Buf, priority: f64) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.heap.push(Queued {
            client,
            ticket,
            buf,
            priority,
        });
        ticket
    }

    pub fn pop(&mut self) -> Option<Queued> {
        self.heap.pop()
    }

    /// Takes out what a client has in it, in the order of sending.
    pub fn cancel(&mut self, client: ClientId) -> Vec<Buf> {
        let (mut theirs, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.heap)
            .into_iter()
            .partition(|it| it.client == client);
        self.heap = others.into();
        theirs.sort_unstable_by(|a, b| b.cmp(a));
        theirs.into_iter().map(|it| it.buf).collect()
    }

    pub fn count(&self, client: ClientId) -> usize {
        self.heap.iter().filter(|it| it.client == client).count()
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> Ordering {
        let by_priority = self.priority.total_cmp(&other.priority);
        by_priority.then_with(|| Reverse(self.ticket).cmp(&Reverse(other.ticket)))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Queued {}
