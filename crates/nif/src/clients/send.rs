//! The way of a packet to the transmitter.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{ClientId, Clients};
use crate::transmit::{Order, Queued};
use crate::{Action, Buf, Client, Ticket, TxResult};

impl<T: Copy + Ord, C: Client> Clients<T, C> {
    /// Queues a packet; gives it back if there is no such client, or it is leaving.
    pub fn transmit(&mut self, id: ClientId, buf: Buf) -> Result<Ticket, Buf> {
        match self.entries.get(&id) {
            Some(entry) if !entry.is_closing && !entry.stats.is_failed => Ok(self.enqueue(id, buf)),
            _ => Err(buf),
        }
    }

    pub(super) fn enqueue(&mut self, id: ClientId, buf: Buf) -> Ticket {
        let priority = match self.config.order {
            Order::Fcfs => 0.0,
            Order::Priority => self.priority(id, &buf),
        };
        self.queue.push(id, buf, priority)
    }

    /// A function that panics is no reason to lose the client: its packet is the least urgent.
    pub(super) fn priority(&mut self, id: ClientId, buf: &Buf) -> f64 {
        let Some(entry) = self.entries.get_mut(&id) else {
            return f64::NEG_INFINITY;
        };
        let client = &entry.client;
        match catch_unwind(AssertUnwindSafe(|| client.tx_priority(buf))) {
            Ok(priority) if !priority.is_nan() => priority,
            _ => {
                entry.stats.bad_priorities += 1;
                f64::NEG_INFINITY
            }
        }
    }

    pub fn poll_transmit(&mut self) -> Option<(ClientId, &Buf)> {
        if self.wire.is_some() {
            return None;
        }
        self.wire = self.queue.pop();
        self.wire.as_ref().map(|it| (it.client, &it.buf))
    }

    pub fn on_tx_complete(&mut self, result: TxResult) {
        let Some(Queued {
            client,
            ticket,
            buf,
            ..
        }) = self.wire.take()
        else {
            return;
        };
        if result == TxResult::Sent {
            self.stats.sent += 1;
            if let Some(entry) = self.entries.get_mut(&client) {
                entry.stats.sent += 1;
            }
        }
        self.actions.push(Action::Sent(ticket));
        self.tx_done(client, buf, result);
        self.try_close(client);
    }

    pub(super) fn tx_done(&mut self, id: ClientId, buf: Buf, result: TxResult) {
        self.hand(id, buf, |client, buf| client.tx_done(buf, result));
    }
}
