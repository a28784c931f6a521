//! Packets under way: one entry however many copies of it there are, used again when the last is gone.

use bytes::Bytes;
use layercast_core::Time;
use layercast_multicast::{Peer, To};
use layercast_wire::multicast::Packet;

/// What is under way.
#[derive(Debug)]
pub(super) enum Cargo {
    /// A packet.
    Plain(Packet),
    /// A packet of a code: FEC header and octets; those of a source packet name the item it protects.
    Coded(Bytes),
}

/// A packet under way.
#[derive(Debug)]
pub(super) struct Item {
    pub cargo: Cargo,
    pub from: Peer,
    pub to: To,
    /// When it was sent first.
    pub sent: Time,
    pub octets: u32,
    /// Copies.
    users: u32,
    /// How often the entry was used.
    life: u32,
}

/// All packets under way.
#[derive(Debug, Default)]
pub(super) struct Items {
    all: Vec<Item>,
    free: Vec<u32>,
}

/// Octets that name an item in the payload of a code.
pub(super) const NAME: usize = 8;

impl Items {
    /// A new one, with one user.
    pub fn add(&mut self, cargo: Cargo, from: Peer, to: To, sent: Time, octets: u32) -> u32 {
        let mut item = Item {
            cargo,
            from,
            to,
            sent,
            octets,
            users: 1,
            life: 0,
        };
        match self.free.pop() {
            Some(at) => {
                let old = &mut self.all[at as usize];
                item.life = old.life.wrapping_add(1);
                *old = item;
                at
            }
            None => {
                self.all.push(item);
                self.all.len() as u32 - 1
            }
        }
    }

    pub fn get(&self, at: u32) -> &Item {
        &self.all[at as usize]
    }

    /// Adds `more` users.
    pub fn share(&mut self, at: u32, more: u32) {
        self.all[at as usize].users += more;
    }

    /// One user less.
    pub fn done(&mut self, at: u32) {
        let item = &mut self.all[at as usize];
        item.users -= 1;
        if item.users == 0 {
            self.free.push(at);
        }
    }

    /// The name under which a code carries it.
    pub fn name(&self, at: u32) -> [u8; NAME] {
        let name = u64::from(self.get(at).life) << 32 | u64::from(at);
        name.to_be_bytes()
    }

    /// The item of a name, unless it is gone.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        let name = u64::from_be_bytes(name.try_into().ok()?);
        let item = self.all.get(name as u32 as usize)?;
        (item.users > 0 && item.life == (name >> 32) as u32).then_some(name as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_used_again_and_old_names_are_not_known_then() {
        let mut items = Items::default();
        let add = |items: &mut Items| {
            let cargo = Cargo::Coded(Bytes::new());
            items.add(cargo, Peer(0), To::Group, Time::ZERO, 1)
        };
        let at = add(&mut items);
        let name = items.name(at);
        assert_eq!(items.find(&name), Some(at));
        items.share(at, 1);
        items.done(at);
        assert_eq!(items.find(&name), Some(at));
        items.done(at);
        assert_eq!(items.find(&name), None);
        assert_eq!(add(&mut items), at);
        assert_eq!(items.find(&name), None);
    }
}
