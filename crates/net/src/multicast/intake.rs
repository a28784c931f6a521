use layercast_multicast::{Geometry, Receiver, Store};
use layercast_wire::multicast::{Content, Open, Reason};

use super::store::FileStore;

/// A file that comes as a stream (FRM): packets in their order, each taken as soon as it is there.
#[derive(Debug)]
pub struct Intake {
    geometry: Geometry,
    /// The packet that is taken next.
    next: u64,
    right: bool,
}

impl Intake {
    /// What is announced, if it is a stream; its place in the folder is made, or there is a reason why not.
    pub fn of(open: &Open, store: &mut FileStore) -> Option<Result<Intake, Reason>> {
        let streams = open.terms.content == Content::Levels;
        let object = open.object.as_ref().filter(|_| streams)?;
        let geometry = Geometry::of(object, open.packet_size).map_err(|_| Reason::Unsupported);
        Some(geometry.and_then(|geometry| {
            store.begin(object, &geometry)?;
            if store.done().is_none() {
                // A stream begins at its beginning.
                store.clear();
            }
            Ok(Intake {
                geometry,
                next: 0,
                right: false,
            })
        }))
    }

    /// Takes the available packets, and checks the digest after the last one, before the sender is notified of
    /// the receipt.
    pub fn take(&mut self, machine: &mut Receiver<FileStore>) {
        while let Some(payload) = machine.take() {
            let fits = self.next < self.geometry.packets()
                && payload.len() == self.geometry.len(self.next);
            if !fits {
                return machine.leave(Reason::Corrupt);
            }
            let store = machine.store_mut();
            let there = store.done().is_some();
            if !there && let Err(reason) = store.packet(&self.geometry, self.next, &payload) {
                return machine.leave(reason);
            }
            self.next += 1;
        }
        if self.next == self.geometry.packets() && !self.right && !machine.is_closed() {
            self.look(machine);
        }
    }

    fn look(&mut self, machine: &mut Receiver<FileStore>) {
        let store = machine.store_mut();
        while matches!(store.hash_one(), Ok(true)) {}
        let right = store.done().is_some() || store.is_right() == Some(true);
        let finish = |store: &mut FileStore| {
            while !store.finish()? {}
            Ok(())
        };
        match right.then(|| finish(store)) {
            None => machine.leave(Reason::Corrupt),
            Some(Err(error)) => {
                let reason = machine.store_mut().failed(error);
                machine.leave(reason);
            }
            Some(Ok(())) => self.right = true,
        }
    }

    /// Whether all of it is there, and is what was announced.
    pub fn is_right(&self) -> bool {
        self.right
    }

    /// Packets that are there, and all.
    pub fn progress(&self) -> (u64, u64) {
        (self.next, self.geometry.packets())
    }
}
