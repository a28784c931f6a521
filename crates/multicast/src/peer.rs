use layercast_wire::multicast::Packet;

/// Number of an address, assigned by the driver, which maps sockets, nodes or ports to numbers and back.
///
/// Machines bind a member to the first peer that reported for it, and drop packets of others in its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Peer(pub u32);

/// Destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum To {
    /// All receivers: the multicast address, or each receiver in turn.
    Group,
    /// Only the postponed receivers: a second multicast address, or each of them in turn.
    Side,
    /// One receiver, or the sender.
    One(Peer),
}

/// A packet to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Its destination.
    pub to: To,
    /// The packet.
    pub packet: Packet,
}
