use std::collections::HashMap;
use std::net::SocketAddr;

use layercast_core::PortId;
use layercast_protect::{LinkKey, LinkOpener, OpenError};
use layercast_repair::MemberId;

/// The origin of datagrams: the owner of each address, and the opener of its datagrams.
#[derive(Default)]
pub(crate) struct Sources {
    slots: Vec<Option<Source>>,
    by_addr: HashMap<SocketAddr, usize>,
    last: Option<(SocketAddr, SourceId)>,
}

/// An address that belongs to a neighbour.
struct Source {
    addr: SocketAddr,
    port: PortId,
    /// `None`: in the clear.
    opener: Option<LinkOpener>,
}

/// One of the sources, until sources are added or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourceId {
    slot: usize,
    pub port: PortId,
}

impl SourceId {
    /// What it is called where it is a member of a group.
    pub fn member(self) -> MemberId {
        self.slot as MemberId
    }

    /// What it is called as a client of the socket.
    pub fn client(self) -> u32 {
        self.slot as u32
    }
}

impl Sources {
    /// Datagrams from `addr` belong to `port`, sealed with `key` if there is one.
    pub fn insert(&mut self, addr: SocketAddr, port: PortId, key: Option<&LinkKey>) -> SourceId {
        self.remove(addr);
        let source = Source {
            addr,
            port,
            opener: key.map(LinkOpener::new),
        };
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.slots.len());
        match self.slots.get_mut(slot) {
            Some(place) => *place = Some(source),
            None => self.slots.push(Some(source)),
        }
        self.by_addr.insert(addr, slot);
        SourceId { slot, port }
    }

    /// Accepts from `addr` also what is sealed with `key`.
    pub fn add_key(&mut self, addr: SocketAddr, key: &LinkKey) {
        let slot = self
            .by_addr
            .get(&addr)
            .and_then(|&slot| self.slots.get_mut(slot));
        // On a link in the clear a key is worth nothing.
        if let Some(opener) = slot.and_then(|slot| slot.as_mut()?.opener.as_mut()) {
            opener.add(key);
        }
    }

    /// Nothing from `addr` belongs to anybody any more.
    pub fn remove(&mut self, addr: SocketAddr) {
        self.last = None;
        if let Some(slot) = self.by_addr.remove(&addr) {
            debug_assert!(self.slots[slot].is_some(), "an address has one slot");
            self.slots[slot] = None;
        }
    }

    /// Nothing belongs to `port` any more.
    pub fn remove_port(&mut self, port: PortId) {
        let of_port = |source: &&Source| source.port == port;
        let addrs = self.slots.iter().flatten().filter(of_port);
        for addr in addrs.map(|source| source.addr).collect::<Vec<_>>() {
            self.remove(addr);
        }
    }

    /// The port to which `addr` belongs.
    pub fn owner(&self, addr: SocketAddr) -> Option<PortId> {
        let slot = *self.by_addr.get(&addr)?;
        Some(self.slots.get(slot)?.as_ref()?.port)
    }

    /// Whose address this is; looked at before anything else of a datagram.
    pub fn lookup(&mut self, addr: SocketAddr) -> Option<SourceId> {
        if let Some((last, id)) = self.last
            && last == addr
        {
            return Some(id);
        }
        let slot = *self.by_addr.get(&addr)?;
        let source = self.slots.get(slot)?.as_ref()?;
        debug_assert_eq!(
            source.addr, addr,
            "the index leads to the slot of the address"
        );
        let port = source.port;
        let id = SourceId { slot, port };
        self.last = Some((addr, id));
        Some(id)
    }

    /// What is in a datagram from a source, opened in place on a protected link.
    pub fn open<'a>(
        &mut self,
        id: SourceId,
        datagram: &'a mut [u8],
    ) -> Result<&'a [u8], OpenError> {
        let source = self.slots.get_mut(id.slot).and_then(Option::as_mut);
        match source.and_then(|source| source.opener.as_mut()) {
            Some(opener) => Ok(opener.open(datagram)?),
            None => Ok(datagram),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn an_address_belongs_to_one_port_at_a_time() {
        let mut sources = Sources::default();
        sources.insert(addr(1), PortId(7), None);
        assert_eq!(sources.lookup(addr(1)).map(|id| id.port), Some(PortId(7)));
        sources.insert(addr(1), PortId(8), None);
        assert_eq!(sources.lookup(addr(1)).map(|id| id.port), Some(PortId(8)));
        sources.insert(addr(2), PortId(8), None);
        sources.remove_port(PortId(8));
        assert_eq!(
            (sources.lookup(addr(1)), sources.owner(addr(2))),
            (None, None)
        );
    }

    #[test]
    fn what_comes_over_a_protected_link_is_opened_or_refused() {
        let mut sources = Sources::default();
        let key = LinkKey::new(0, [1; 32]);
        sources.insert(addr(1), PortId(0), Some(&key));
        sources.insert(addr(2), PortId(1), None);
        let mut sealed = Vec::new();
        let mut sealer = layercast_protect::LinkSealer::new(&key);
        sealer
            .seal(&mut sealed, |out| out.extend_from_slice(b"RES"))
            .unwrap();
        let mut clear = b"RES".to_vec();
        let (protected, open) = (sources.lookup(addr(1)), sources.lookup(addr(2)));
        let (protected, open) = (protected.unwrap(), open.unwrap());
        assert!(sources.open(protected, &mut clear.clone()).is_err());
        assert_eq!(sources.open(open, &mut clear).unwrap(), b"RES");
        assert_eq!(sources.open(protected, &mut sealed).unwrap(), b"RES");
    }
}
