//! What a scenario means: every machine of every node, configured.

use std::sync::Arc;

use layercast_core::{NodeId, PortId, QosOption, Span, Time};
use layercast_link::{LinkConfig, RateSchedule};
use layercast_media::Clip;
use layercast_mets::switch::{PortConfig, SwitchConfig};
use layercast_mets::{AppFrame, SinkConfig, SourceConfig};
use layercast_repair::Means;
use layercast_wire::{Carriage, Payload};

use super::{FaultKind, HostProfile, NodeKind, Ties};

/// A resolved scenario: clips loaded, rates computed, a configuration for each machine.
///
/// The simulator and the socket runtime build their machines from the same values.
#[derive(Clone, Debug)]
pub struct Network {
    /// Name of the scenario.
    pub name: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// Length of the run.
    pub duration: Span,
    /// What the links carry.
    pub carriage: Carriage,
    /// Whether every PDU and signal is encoded and decoded at every hop.
    pub wire_check: bool,
    /// What decides between events of the same instant.
    pub ties: Ties,
    /// How long neighbours take to see that a node or link is gone or back.
    pub detection: Span,
    /// Hosts and switches.
    pub nodes: Vec<Node>,
    /// Links.
    pub links: Vec<NetLink>,
    /// Flows.
    pub flows: Vec<Flow>,
    /// Receivers, in the order of the scenario.
    pub receivers: Vec<Receiver>,
    /// Faults in the order of time.
    pub faults: Vec<Fault>,
    /// Requests in the order of time.
    pub requests: Vec<Request>,
}

/// A host or switch.
#[derive(Clone, Debug)]
pub struct Node {
    /// Unique.
    pub name: String,
    /// Its number, from 1.
    pub id: NodeId,
    /// What it is.
    pub kind: NodeKind,
    /// Its costs.
    pub profile: HostProfile,
    /// Its switch; a host without sources has none.
    pub switch: Option<SwitchConfig>,
    /// One port per link; the place is the [`PortId`], but that of the links of a multicast group, which is that of the first
    /// one of them.
    pub ports: Vec<Port>,
    /// The neighbours to which this node opens the session channel: those nearer to the sources.
    /// Of two neighbours exactly one has the other here.
    pub upstreams: Vec<usize>,
    /// Places in [`Network::flows`] of the flows that start here.
    pub sources: Vec<usize>,
    /// Places in [`Network::receivers`] of the receivers here.
    pub receivers: Vec<usize>,
}

/// One end of a link.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its number.
    pub id: PortId,
    /// The node at the other end.
    pub neighbour: usize,
    /// Place in [`Network::links`].
    pub link: usize,
    /// Queue, rate and carriage; its name is that of the neighbour.
    pub config: PortConfig,
    /// Delay and impairments of the direction that leaves here.
    pub out: LinkConfig,
    /// Probability that RES or ADAPT is lost in that direction.
    pub adapter_loss: f64,
}

/// A link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetLink {
    /// The two nodes.
    pub ends: [usize; 2],
    /// Their ports of this link.
    pub ports: [PortId; 2],
    /// What both ends do about losses.
    pub repair: Option<Means>,
    /// When its lines have another share of their rates.
    pub schedule: RateSchedule,
}

/// A flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Unique.
    pub name: String,
    /// The node it comes from.
    pub node: usize,
    /// Its frames, repeated or cut to what is sent.
    pub clip: Arc<Clip>,
    /// Its source.
    pub config: SourceConfig,
    /// Per node the neighbour next on the way to the source.
    pub next_hops: Vec<Option<usize>>,
}

/// A receiver.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Unique.
    pub name: String,
    /// The host it is on.
    pub node: usize,
    /// Place in [`Network::flows`] of the flow it wants.
    pub flow: usize,
    /// Its sink.
    pub config: SinkConfig,
    /// When it comes.
    pub join: Time,
    /// When it goes.
    pub leave: Option<Time>,
}

/// Something that goes wrong, or right again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When.
    pub at: Time,
    /// What.
    pub kind: FaultKind,
    /// Place of the node or link.
    pub target: usize,
}

/// What an application asks.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// When.
    pub at: Time,
    /// Of which machine.
    pub of: Asked,
    /// What.
    pub option: QosOption,
}

/// The machine that is asked; the numbers are places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The source of a flow.
    Source(usize),
    /// The sink of a receiver.
    Sink(usize),
}

impl Network {
    /// The place of the node called `name`.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }
}

impl Node {
    /// Its ports, without those links of a multicast group that share the port of another one; with their places.
    pub fn own_ports(&self) -> impl Iterator<Item = (usize, &Port)> {
        let ports = self.ports.iter().enumerate();
        ports.filter(|(place, port)| usize::from(port.id.0) == *place)
    }

    /// Its port on a link.
    pub fn port(&self, link: usize) -> Option<&Port> {
        self.ports.iter().find(|port| port.link == link)
    }
}

impl Flow {
    /// The frames in the order they are sent.
    pub fn frames(&self) -> impl Iterator<Item = AppFrame> + use<> {
        let clip = Arc::clone(&self.clip);
        (0..clip.frames.len()).map(move |index| {
            let frame = &clip.frames[index];
            AppFrame {
                layer: frame.layer(),
                gop_start: frame.gop_start,
                sound: frame.sound,
                time: frame.time,
                payload: match &frame.data {
                    Some(data) => Payload::Bytes(data.clone()),
                    None => Payload::Zeros(frame.size),
                },
            }
        })
    }
}
