//! Calls of clients, any of which may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{ClientId, Clients};
use crate::{Buf, Client};

impl<T: Copy + Ord, C: Client> Clients<T, C> {
    pub(super) fn put_empty(&mut self, id: ClientId, buf: Buf) {
        self.hand(id, buf, |client, buf| client.put_empty(buf));
    }

    /// Calls a client with a buffer of its own; a client that failed is not called.
    pub(super) fn hand(&mut self, id: ClientId, buf: Buf, call: impl FnOnce(&mut C, Buf)) {
        match self.entries.get_mut(&id) {
            Some(entry) if entry.stats.is_failed => entry.kept.put(buf),
            Some(_) => drop(self.guarded(id, |client| call(client, buf))),
            // The entry of a client is there as long as the driver has a buffer of it.
            None => buf.free(),
        }
    }

    pub(super) fn take_empty(&mut self, id: ClientId) -> Option<Buf> {
        self.guarded(id, Client::take_empty).flatten()
    }

    pub(super) fn guarded<R>(&mut self, id: ClientId, call: impl FnOnce(&mut C) -> R) -> Option<R> {
        let entry = self.entries.get_mut(&id).filter(|it| !it.stats.is_failed)?;
        let client = &mut entry.client;
        match catch_unwind(AssertUnwindSafe(|| call(client))) {
            Ok(result) => Some(result),
            Err(_) => {
                self.fail(id);
                None
            }
        }
    }

    pub(super) fn fail(&mut self, id: ClientId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.stats.is_failed = true;
            self.memory.salvage(&mut entry.kept);
        }
    }
}
