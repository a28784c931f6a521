//! What carries packets: links, LANs and the backbone between nodes, and the processors of nodes.
//!
//! It knows no host. What a node is to do about a packet it returns as a [`Delivery`].

pub(super) mod addresses;
mod circuit;
pub(super) mod classes;
mod dscps;
pub(super) mod ecmp;
mod forward;
mod group;
pub(super) mod hop;
pub(super) mod ideal;
pub(super) mod inbox;
mod loss;
pub(super) mod outbox;
pub(super) mod packet;
pub(super) mod paths;
pub(super) mod peered;
pub(super) mod pipe;
pub(super) mod ports;
pub(super) mod processor;
pub(super) mod routes;
mod table;
mod tap;
pub(super) mod tree;
pub(super) mod user;

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, VecDeque};

use self::classes::Classes;
use self::dscps::Dscps;
use self::inbox::Inboxes;
use self::outbox::Outbox;
use self::packet::Packets;
use self::paths::Paths;
use self::pipe::Pipe;
use self::ports::Ports;
use self::processor::NodeCpu;
use self::routes::{Addresses, Routes};
use self::tap::Captured;
use self::tree::Tree;
use super::atm::Backbone;
use super::engine::{Engine, PacketId};
use super::network::NodeIndex;
use super::report::NodeDrops;

/// All packets under way, what they are on, and the events that move them.
#[derive(Debug)]
pub(crate) struct Medium<'a> {
    pub engine: Engine<'a>,
    pub nodes: Vec<NodeState>,
    /// Some node has a processor that costs time.
    pub has_processors: bool,
    pub node_addresses: Vec<Ipv4Addr>,
    pub addresses: Addresses,
    pub pipes: Vec<Pipe>,
    pub packets: Packets,
    pub routes: Routes,
    pub paths: Paths,
    pub inboxes: Inboxes,
    /// Links with a class queue beside the ports of METS nodes.
    pub classes: Option<Box<Classes>>,
    /// Links with a queue discipline.
    pub ports: Option<Box<Ports>>,
    /// Whether there are queues in front of the pipes of some links: of classes, or with a discipline.
    pub has_queues: bool,
    pub backbone: Option<Box<Backbone>>,
    /// Largest packet on the backbone.
    pub atm_mtu: u32,
    /// The classes of flows.
    pub dscps: Dscps,
    /// The ways of packets to the group of a flow.
    trees: BTreeMap<u32, Tree>,
    /// Parts of the packet being cut.
    parts: Vec<PacketId>,
    /// Packets not yet reported to the watcher, if it wants them.
    pub captured: Option<Vec<Captured>>,
    pub drops: NodeDrops,
    /// Packets of METS nodes that links copied, by the direction of their peering.
    pub mets_copies: BTreeMap<u32, u64>,
    /// If other threads have other nodes.
    pub outbox: Option<Box<Outbox>>,
    /// What came of packets that nodes sent, to be handed over before the event ends: those to the node itself, and those
    /// with no way on.
    pub local: VecDeque<Delivery>,
    pub packet_hops: u64,
}

/// A node of the network.
#[derive(Debug)]
pub(crate) struct NodeState {
    /// Its place among the hosts, if it is one.
    pub host: Option<u32>,
    /// Its processor, if that costs time.
    pub cpu: Option<Box<NodeCpu>>,
}

/// What is to be done about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Delivery {
    /// Nothing: it is on its way, or lost.
    None,
    /// It has come to the node it is for, whole.
    Local(NodeIndex, PacketId),
    /// A packet of a real program ends at a node; its sender is to hear of it.
    Failed(NodeIndex, PacketId, Cause),
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// No way leads there.
    Net,
    /// No host has that address.
    Host,
    /// The host does not support the protocol.
    Protocol,
    /// No socket listens on the port.
    Port,
    /// It is larger than the MTU of the next link, and may not be cut.
    TooBig(u32),
    /// It has made all hops it may.
    Expired,
}

impl<'a> Medium<'a> {
    /// One in which nothing is under way, without the nodes and the backbone.
    pub fn new(
        engine: Engine<'a>,
        pipes: Vec<Pipe>,
        routes: Routes,
        addresses: Addresses,
    ) -> Medium<'a> {
        Medium {
            inboxes: Inboxes::default(),
            engine,
            nodes: Vec::new(),
            has_processors: false,
            node_addresses: Vec::new(),
            addresses,
            pipes,
            packets: Packets::default(),
            routes,
            paths: Paths::default(),
            classes: None,
            ports: None,
            has_queues: false,
            backbone: None,
            atm_mtu: 0,
            dscps: Dscps::new(),
            trees: BTreeMap::new(),
            parts: Vec::new(),
            captured: None,
            drops: NodeDrops::default(),
            mets_copies: BTreeMap::new(),
            outbox: None,
            local: VecDeque::new(),
            packet_hops: 0,
        }
    }
}
