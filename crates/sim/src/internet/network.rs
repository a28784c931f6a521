use core::net::Ipv4Addr;
use std::collections::BTreeSet;
use std::sync::Arc;

use layercast_atm::{CellContract, FramePolicing, QueueConfig};
use layercast_core::{Rate, Span, Time};
use layercast_link::{Jitter, LinkConfig, Loss, Outages};
use layercast_tcp::TcpConfig;
use layercast_workload::Workload;
use layercast_workload::dist::Distribution;
use layercast_xtp::XtpConfig;

use super::discipline::{Discipline, Dscp};
pub use super::limit::Limit;
use crate::ties::Ties;

/// A node of an internetwork, by its place in [`Network::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u32);

/// An internetwork with what happens in it: what a scenario file says, with every default filled in.
#[derive(Clone, Debug)]
pub struct Network {
    /// Hosts and routers.
    pub nodes: Vec<Node>,
    /// Point-to-point links between them.
    pub links: Vec<Link>,
    /// Shared media.
    pub lans: Vec<Lan>,
    /// The ATM backbone, if there is one.
    pub atm: Option<AtmBackbone>,
    /// Connections and streams between two hosts.
    pub flows: Vec<Flow>,
    /// What makes many transfers that have no name.
    pub generators: Vec<Generator>,
    /// What may cross the backbone from a host to another, at most one for each pair.
    pub contracts: Vec<HostContract>,
    /// METS nodes at some of the nodes.
    pub mets: Option<MetsNetwork>,
    /// The applications of a population of hosts.
    pub workload: Option<Population>,
    /// How long to simulate.
    pub duration: Span,
    /// Samples before it do not count.
    pub warm_up: Span,
    /// Seed of every random stream.
    pub seed: u64,
    /// Order of events at the same instant.
    pub ties: Ties,
    /// What a run may cost.
    pub budget: Budget,
}

impl Network {
    /// Whether a node forwards.
    pub(super) fn is_router(&self, node: NodeIndex) -> bool {
        matches!(self.nodes[node.0 as usize].role, Role::Router)
    }

    /// Whether there is nothing but flows of TCP and of datagrams between two hosts.
    pub(super) fn has_only_flows(&self) -> bool {
        let is_alone =
            |traffic: &Traffic| matches!(traffic, Traffic::Bulk(_) | Traffic::Datagrams { .. });
        let has_more = self.workload.is_some()
            || self.atm.is_some()
            || self.mets.is_some()
            || !self.generators.is_empty();
        !has_more && self.flows.iter().all(|it| is_alone(&it.traffic))
    }
}

/// A host or a router.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name, unique.
    pub name: String,
    /// Its address, unique; a router has one for all its interfaces.
    pub address: Ipv4Addr,
    /// What it does with packets for others.
    pub role: Role,
    /// What each packet costs its processor.
    pub cpu: CpuCost,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Role {
    /// Sends and receives; attached to exactly one link or LAN, or by an adapter to the backbone.
    Host(Box<TcpConfig>),
    /// Forwards by static routes, the shortest paths by number of hops.
    Router,
}

/// The service time of a FIFO processor for each arriving packet, before the node acts on it, and for each
/// packet that the node itself sends, before it leaves.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct CpuCost {
    /// For each packet that arrives, its interrupt included.
    pub per_packet: Span,
    /// For each of its bytes.
    pub per_byte: Span,
    /// For each cell it came in, if it came over ATM.
    pub per_cell: Span,
    /// For each packet that the node sends.
    pub per_sent: Span,
    /// For each byte of it.
    pub per_sent_byte: Span,
    /// By which share of it each of these times is shorter or longer, uniformly.
    pub jitter: f64,
    /// Packets that arrived and wait; more are dropped.
    pub queue: Option<u32>,
}

/// A full-duplex link.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// Its ends.
    pub ends: [NodeIndex; 2],
    /// From the first end to the second, and back.
    pub ways: [Way; 2],
    /// Time a bit is under way.
    pub delay: Span,
    /// Largest IP packet.
    pub mtu: u32,
    /// When a direction is down.
    pub down: [Outages; 2],
    /// What decides which packet leaves next, and which ones are dropped; `None`: FIFO order.
    pub disciplines: [Option<Discipline>; 2],
}

/// One direction of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Way {
    /// Bits of IP packets a second, their headers included.
    pub rate: Rate,
    /// Its queue.
    pub queue: Queue,
    /// What happens to packets under way.
    pub impair: Impairments,
}

/// What happens to packets on one direction of a link.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Impairments {
    /// How they get lost.
    pub loss: Loss,
    /// Random delay on top of that of the link.
    pub jitter: Jitter,
    /// Whether jitter may change their order.
    pub reorder: bool,
    /// Probability that a packet arrives twice. A part of one that was cut does not.
    pub duplicate: f64,
}

impl Impairments {
    /// Independent losses with this probability.
    pub fn losing(p: f64) -> Impairments {
        Impairments {
            loss: match p > 0.0 {
                true => Loss::Bernoulli { p },
                false => Loss::None,
            },
            ..Impairments::default()
        }
    }

    /// Those of a link, whatever its delay is.
    pub fn of(link: LinkConfig) -> Impairments {
        Impairments {
            loss: link.loss,
            jitter: link.jitter,
            reorder: link.reorder,
            duplicate: link.duplicate,
        }
    }

    /// Those of a link with this delay.
    pub fn over(self, delay: Span) -> LinkConfig {
        LinkConfig {
            delay,
            jitter: self.jitter,
            reorder: self.reorder,
            loss: self.loss,
            duplicate: self.duplicate,
        }
    }
}

/// A FIFO queue; the packet being sent does not count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Queue {
    /// How much may wait.
    pub limit: Limit,
    /// Early drops, if any.
    pub red: Option<Red>,
    /// Packets that find more than that waiting are marked, if they are ECN-capable.
    pub mark: Option<Limit>,
}

/// Random early detection (Floyd and Jacobson 1993), gentle if asked for (Floyd 2000), in packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Red {
    /// Below it nothing is dropped early.
    pub min: f64,
    /// Above it all is, or with `gentle` above twice of it.
    pub max: f64,
    /// Probability of a drop as the average comes to `max`.
    pub max_p: f64,
    /// Weight of the newest sample in the average.
    pub weight: f64,
    /// From `max` to twice `max` the probability grows from `max_p` to 1.
    pub gentle: bool,
    /// Up to the upper threshold, ECN-capable packets are marked instead of dropped (RFC 3168 7).
    pub ecn: bool,
}

/// An idealised shared medium: first come, first served, no collisions (specs/insane-simulator.md 2.3).
#[derive(Clone, PartialEq, Debug)]
pub struct Lan {
    /// Its name.
    pub name: String,
    /// Bits of IP packets a second, of all stations together.
    pub rate: Rate,
    /// From the end of sending to the arrival.
    pub latency: Span,
    /// Largest IP packet.
    pub mtu: u32,
    /// The attached nodes.
    pub stations: Vec<NodeIndex>,
}

/// Switches, their links, and the routers and hosts at their edge.
#[derive(Clone, Debug)]
pub struct AtmBackbone {
    /// Names of the switches.
    pub switches: Vec<String>,
    /// Links between them, and from routers and hosts to them.
    pub links: Vec<AtmLink>,
    /// What every output port does.
    pub queue: AtmQueue,
    /// How IP uses circuits, such as `noqos-conv-svc` (specs/insane-study.md 2.1).
    pub policy: String,
    /// Time a controller takes for each message.
    pub signalling_delay: Span,
    /// Largest IP packet.
    pub mtu: u32,
    /// A switched circuit is idle when it carried no packet for this long.
    pub idle: Span,
    /// How long an adapter keeps cells of a frame when no other comes; none: without end.
    pub reassembly_timer: Option<Span>,
    /// All links have one rate and one clock: cells begin to leave at multiples of the cell time, and delays are rounded up
    /// to them, so that cells of several inputs come to a switch at one instant (specs/tcp-xtp-over-atm.md 2.3).
    pub slots: bool,
    /// Cells move one by one instead of as trains: the results are the same, and take longer.
    pub per_cell: bool,
}

impl AtmBackbone {
    /// The propagation delay of a link, in whole slots if there are such.
    pub(super) fn delay_of(&self, link: &AtmLink) -> Span {
        match self.slots {
            true => {
                let slot = QueueConfig::new(link.rate).cell_time;
                (Time::ZERO + link.delay)
                    .next_multiple_of(slot)
                    .since(Time::ZERO)
            }
            false => link.delay,
        }
    }
}

/// A full-duplex link that carries cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtmLink {
    /// Its ends.
    pub ends: [AtmEnd; 2],
    /// Bits of cells a second, their headers included; each way.
    pub rate: Rate,
    /// Time a bit is under way.
    pub delay: Span,
}

/// The end of an ATM link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtmEnd {
    /// A switch, by its place in [`AtmBackbone::switches`].
    Switch(u32),
    /// The only adapter of a router or host.
    Adapter(NodeIndex),
}

/// Limits of the output ports of switches and adapters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtmQueue {
    /// What becomes of frames that have lost a cell, or will.
    pub discard: Discard,
    /// Cells of one circuit.
    pub per_vc_limit: u32,
    /// Cells of all.
    pub port_limit: u32,
    /// Cells of one circuit and of all in the port of an adapter, if that is not as those of switches.
    pub adapter_limit: Option<u32>,
    /// Above this number of cells of all, cells with CLP = 1 are dropped.
    pub low_limit: u32,
    /// Circuits of a port.
    pub max_vcs: u16,
    /// Cells of a turn of a circuit with a delay level under policies of `drr`.
    pub drr_weight: u32,
}

/// Discarding of whole frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// Cells are dropped one by one.
    None,
    /// The rest of a frame that lost a cell, but for its last.
    Partial,
    /// Whole frames above this number of cells (Romanow and Floyd 1994).
    Early(u32),
}

/// Traffic from one host to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Its name, unique.
    pub name: String,
    /// The sender.
    pub from: NodeIndex,
    /// The receiver; of multicast the first.
    pub to: NodeIndex,
    /// When it starts.
    pub start: Time,
    /// By up to this it starts later, at random.
    pub start_jitter: Span,
    /// Of TCP: its connection exists from the beginning.
    pub is_established: bool,
    /// When nothing more is sent.
    pub stop: Option<Time>,
    /// The class of its packets in both directions. XTP flows of two hosts over IP have the same.
    pub dscp: Dscp,
    /// What it sends.
    pub traffic: Traffic,
}

/// Makes many TCP transfers between hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct Generator {
    /// Its name, unique.
    pub name: String,
    /// Their connections exist when they begin: no handshake.
    pub is_established: bool,
    /// The class of their packets in both directions.
    pub dscp: Dscp,
    /// Greatest lengths in bytes of the bins of its report, rising; longer ones have a bin of their own.
    pub bins: Vec<u64>,
    /// What begins when.
    pub plan: Plan,
}

/// Transfers that will be.
#[derive(Clone, PartialEq, Debug)]
pub enum Plan {
    /// All of them, in the order of their starts.
    Listed(Vec<Planned>),
    /// How they are drawn.
    Drawn(Drawn),
}

impl Plan {
    /// Whether a host takes part.
    pub(super) fn has(&self, host: NodeIndex) -> bool {
        match self {
            Plan::Listed(list) => list.iter().any(|it| it.from == host || it.to == host),
            Plan::Drawn(drawn) => {
                let mut ends = drawn.senders.iter().chain(&drawn.receivers);
                ends.any(|&end| end == host)
            }
        }
    }
}

/// A transfer that will be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// When it begins.
    pub start: Time,
    /// The host that sends.
    pub from: NodeIndex,
    /// The host that receives, another one.
    pub to: NodeIndex,
    /// Its length, above 0.
    pub bytes: u64,
}

/// How transfers are drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Drawn {
    /// Their lengths in bytes.
    pub sizes: Distribution,
    /// Hosts that send, no two alike.
    pub senders: Vec<NodeIndex>,
    /// Hosts that receive, no two alike.
    pub receivers: Vec<NodeIndex>,
    /// Which of them goes to which.
    pub pattern: Pattern,
    /// From an arrival to the next; none: all transfers of the pattern begin at the start, once.
    pub gap: Option<Law>,
    /// When it starts.
    pub start: Time,
    /// When nothing more begins.
    pub stop: Option<Time>,
    /// Most transfers.
    pub most: Option<u64>,
}

impl Drawn {
    /// Pairs of a sender and another receiver.
    pub(super) fn pairs(&self) -> u64 {
        let receivers: BTreeSet<NodeIndex> = self.receivers.iter().copied().collect();
        let both = self.senders.iter().filter(|it| receivers.contains(it));
        let all = self.senders.len() as u64 * self.receivers.len() as u64;
        all - both.count() as u64
    }
}

/// Which sender goes to which receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Any to any other.
    Random,
    /// Each to one of its own, drawn once; there are as many receivers as senders, and more than one.
    Permutation,
    /// This number of senders, or all there are, to one receiver at the same time.
    Incast(u32),
    /// Each to each other, in turn.
    AllToAll,
}

/// What the cells of all packets from one host to another may do on the backbone.
#[derive(Clone, PartialEq, Debug)]
pub struct HostContract {
    /// Its name in the report, that of its flow if it is of one.
    pub name: String,
    /// The host that sends.
    pub from: NodeIndex,
    /// The host that receives.
    pub to: NodeIndex,
    /// What they may do.
    pub terms: ContractTerms,
}

/// What cells may do on the backbone, and how they enter it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ContractTerms {
    /// The contract.
    pub contract: CellContract,
    /// How the adapter spaces cells.
    pub shape: Shape,
    /// Whether the network discards what breaks the contract.
    pub police: bool,
    /// What it judges: cells or frames.
    pub frames: FramePolicing,
    /// Packets that may wait for their cells to be spaced.
    pub queue: u32,
}

/// How an adapter spaces the cells of a flow (specs/vbr-atm-lan.md 2.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// As fast as its link takes them.
    None,
    /// At the peak rate.
    Peak,
    /// At the sustainable rate.
    Sustained,
    /// So that every cell keeps the contract.
    Cells,
    /// Whole packets at the peak rate, when all their cells keep the contract.
    Packets,
    /// The same, but they begin at ticks of a clock with this period.
    Softclock(Span),
    /// At the peak rate; of packets that do not keep the contract all cells but the last are marked (CLP = 1).
    Tagged,
}

/// What a flow sends.
#[derive(Clone, PartialEq, Debug)]
pub enum Traffic {
    /// A TCP connection that always has data: this number of bytes, or without end.
    Bulk(Option<u64>),
    /// A stream of XTP that always has data: this number of bytes, or without end.
    Xtp {
        /// How many.
        bytes: Option<u64>,
        /// The configuration of both ends.
        config: Box<XtpConfig>,
        /// What carries its packets.
        delivery: XtpDelivery,
    },
    /// A stream of XTP to a group (specs/xtp.md 2.13), which no part of comes by ATM; its packets are never cut.
    XtpMulticast {
        /// How many bytes; none: without end.
        bytes: Option<u64>,
        /// The configuration of all ends.
        config: Box<XtpConfig>,
        /// The receivers.
        receivers: Vec<Receiver>,
    },
    /// UDP datagrams.
    Datagrams {
        /// From the start of one to the start of the next.
        gap: Law,
        /// IP packets of this size in bytes, headers of 28 bytes included.
        size: SizeLaw,
        /// When they are sent; none: always.
        bursts: Option<Bursts>,
    },
}

/// One of the receivers of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receiver {
    /// Its host.
    pub node: NodeIndex,
    /// When it asks the sender to be let in; none: it listens when the flow starts, and is invited.
    pub join: Option<Time>,
}

/// Times in which a source sends, and the pauses between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bursts {
    /// How long one lasts; it begins with a datagram.
    pub on: Law,
    /// From its end to the start of the next.
    pub off: Law,
}

/// What carries packets of XTP (specs/xtp.md 2.15).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum XtpDelivery {
    /// IP, as protocol 36.
    #[default]
    Ip,
    /// AAL5 without IP, over a circuit that all contexts of the two hosts share. Both have an adapter.
    HostPair,
    /// The same over a circuit of its own.
    Context,
}

/// How a time is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// Always this.
    Constant(Span),
    /// Exponentially, with this mean.
    Exponential(Span),
}

/// How a size in bytes is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SizeLaw {
    /// Always this.
    Constant(u32),
    /// Exponentially with this mean, rounded to a byte, from 29 bytes up to 65535.
    Exponential(f64),
    /// What fills cells of AAL5, whose number is geometric from 1 on.
    Cells {
        /// Their mean number, before those above `most` are drawn again.
        mean: f64,
        /// Their largest number.
        most: u32,
    },
}

/// METS nodes, each at a host or router.
#[derive(Clone, Debug)]
pub struct MetsNetwork {
    /// Their machines. Its links are peerings, whose datagrams are packets of the internetwork; their delays are those of the
    /// paths.
    pub machines: Arc<crate::scenario::Network>,
    /// The host or router of each of its nodes.
    pub nodes: Vec<NodeIndex>,
    /// Whether packets of other protocols wait in a queue of their own at both ends of the link of a peering.
    pub classes: Vec<bool>,
    /// The class of the packets of each peering in both directions; best effort of those behind the last.
    pub dscps: Vec<Dscp>,
    /// Each peering is the link of the same place in [`Network::links`], which carries nothing else: the ports of the nodes are
    /// its lines.
    pub own_links: bool,
}

/// The applications of many hosts.
#[derive(Clone, Debug)]
pub struct Population {
    /// The applications, where they start, and how often.
    pub workload: Workload,
    /// Its hosts: what the workload calls `HostId(n)` is the n-th of them.
    pub hosts: Vec<NodeIndex>,
    /// Which of them are the servers and workstations of which site.
    pub sites: layercast_workload::Population,
}

/// Bounds of a run; one that comes to them stops with what it has, marked as partial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Events.
    pub events: u64,
    /// Packets under way or waiting, in all queues together.
    pub packets: u32,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            events: 20_000_000_000,
            packets: 4_000_000,
        }
    }
}
