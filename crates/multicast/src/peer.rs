use layercast_wire::multicast::Packet;

/// The driver's name for an address: it maps sockets, nodes or ports to numbers and back.
///
/// Machines bind a member to the peer that spoke for it first, and drop what others say in its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Peer(pub u32);

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum To {
    /// All receivers: the multicast address, or each in turn where there is none.
    Group,
    /// Those only that were postponed: a second multicast address, or each in turn.
    Side,
    /// One of them, or the sender.
    One(Peer),
}

/// A packet to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Where to.
    pub to: To,
    /// What.
    pub packet: Packet,
}
