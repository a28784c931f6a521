use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use layercast_multicast::Peer;

/// The addresses behind the numbers of machines.
#[derive(Debug)]
pub struct Peers {
    most: usize,
    /// In the form in which packets are sent there: those for one address leave together.
    addresses: Vec<Arc<[SocketAddr]>>,
    numbers: HashMap<SocketAddr, Peer>,
}

impl Peers {
    /// Room for `most` addresses.
    pub fn new(most: usize) -> Peers {
        Peers {
            most,
            addresses: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    /// Whether there is no room for more.
    pub fn is_full(&self) -> bool {
        self.addresses.len() >= self.most
    }

    /// The number of an address that has one.
    pub fn find(&self, address: SocketAddr) -> Option<Peer> {
        self.numbers.get(&address).copied()
    }

    /// The number of an address, a new one if need be; `None`: there is no room for more.
    pub fn number(&mut self, address: SocketAddr) -> Option<Peer> {
        if let Some(peer) = self.find(address) {
            return Some(peer);
        }
        if self.is_full() {
            return None;
        }
        let peer = Peer(u32::try_from(self.addresses.len()).ok()?);
        self.addresses.push(Arc::new([address]));
        self.numbers.insert(address, peer);
        Some(peer)
    }

    /// The address behind a number.
    pub fn address(&self, peer: Peer) -> Option<SocketAddr> {
        self.way_to(peer)?.first().copied()
    }

    /// The same as where a packet goes.
    pub fn way_to(&self, peer: Peer) -> Option<&Arc<[SocketAddr]>> {
        self.addresses.get(peer.0 as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_fill_the_memory() {
        let mut peers = Peers::new(2);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(peers.number(address(1)), Some(Peer(0)));
        assert_eq!(peers.number(address(2)), Some(Peer(1)));
        assert_eq!(peers.number(address(3)), None);
        assert_eq!(peers.number(address(1)), Some(Peer(0)));
        assert_eq!(peers.find(address(3)), None);
        assert_eq!(peers.address(Peer(1)), Some(address(2)));
        assert_eq!(peers.address(Peer(2)), None);
    }
}
