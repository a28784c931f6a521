//! The event loop: one entry for a packet on all links of a node that take the same time, and a draw for each.

use layercast_core::{AnyObserver, Observer, Span, Time};
use layercast_multicast::{ConfigError, Peer, Sender, To, Transmit, Virtual};
use thiserror::Error;

use super::config::{Content, Group};
use super::counts::Counts;
use super::cross::{self, Cross};
use super::edge::{EdgeDecoder, EdgeEncoder};
use super::host::Host;
use super::item::{Cargo, Items};
use super::link::{Law, Link, LinkCount};
use super::member::{Member, MemberTerms};
use super::speaker::{self, Speaker};
use super::stream::Application;
use super::tree::{NONE, Nodes};
use super::turns::Callers;
use crate::calendar::Calendar;

/// Why a group cannot be simulated.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum GroupError {
    /// The sender's policies.
    #[error(transparent)]
    Sender(#[from] ConfigError),
    /// A code.
    #[error(transparent)]
    Code(#[from] layercast_fec::ConfigError),
    /// TCP beside it.
    #[error(transparent)]
    Tcp(#[from] layercast_tcp::TcpConfigError),
}

/// What is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// A packet gets to the lower ends of the links to these nodes, unless it is lost.
    Down { item: u32, first: u32, end: u32 },
    /// A packet for one receiver gets to the lower end of the link to a node, unless it is lost.
    Along { item: u32, node: u32 },
    /// A packet gets to the upper end of the link to a node.
    Up { item: u32, node: u32 },
    /// The source's processor has a packet ready.
    Leave { item: u32 },
    /// A receiver's processor has one ready.
    Answer { item: u32, member: u32 },
    /// The source's processor has come to a packet.
    TakeAtSource { item: u32 },
    /// A receiver's processor has.
    TakeAt { item: u32, member: u32 },
    /// The sender is to be woken.
    WakeSource,
    /// A receiver is.
    Wake { member: u32 },
    /// An aggregator is.
    WakeSpeaker { speaker: u32 },
    /// The application makes its next packet.
    Submit,
    /// The process at a receiver is done with a packet.
    Served { member: u32 },
    /// A block of an encoder has been open for long enough.
    Flush { encoder: u32 },
    /// The next fault.
    Fault,
    /// A TCP connection beside the group begins.
    Connect { cross: u32, flow: u32 },
    /// A segment of one gets to its host.
    Segment { cross: u32, up: bool },
    /// TCP is to be woken.
    WakeCross { cross: u32 },
}

/// A group as it runs.
#[derive(Debug)]
pub struct Simulation<'a> {
    pub(super) obs: AnyObserver<'a>,
    pub(super) group: Group,
    pub(super) now: Time,
    pub(super) calendar: Calendar<Due>,
    pub(super) items: Items,
    pub(super) tree: Nodes,
    pub(super) laws: Vec<Law>,
    /// The link to each node but the first.
    pub(super) links: Vec<Link>,
    pub(super) link_counts: Vec<LinkCount>,
    pub(super) sender: Sender<Virtual>,
    pub(super) source: Host,
    /// When the sender is to be woken.
    pub(super) wake: Time,
    /// Packets that wait for the source's processor.
    pub(super) leaving: u32,
    pub(super) members: Vec<Member>,
    pub(super) speakers: Vec<Speaker>,
    pub(super) terms: MemberTerms,
    pub(super) hosts: Vec<Host>,
    pub(super) encoders: Vec<EdgeEncoder>,
    pub(super) decoders: Vec<EdgeDecoder>,
    pub(super) application: Option<Application>,
    pub(super) crosses: Vec<Cross>,
    pub(super) counts: Counts,
    pub(super) next_fault: usize,
    pub(super) events: u64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct GroupProgress {
    /// Simulated time.
    pub now: Time,
    /// Events.
    pub events: u64,
    /// Receivers that have everything, and of how many.
    pub complete: (u32, u32),
}

/// The sender's number as a peer; receivers follow.
pub(super) const SENDER: Peer = Peer(0);
/// Events between progress reports.
const TELL: u64 = 1 << 14;

impl<'a> Simulation<'a> {
    /// Builds the simulation, without an observer.
    pub fn new(group: Group) -> Result<Simulation<'static>, GroupError> {
        Simulation::build(group, AnyObserver::default())
    }

    /// Builds the simulation; `obs` sees the sender, receivers and aggregators, and TCP beside them.
    pub fn observed(
        group: Group,
        obs: &'a mut (dyn Observer + Send),
    ) -> Result<Simulation<'a>, GroupError> {
        Simulation::build(group, AnyObserver::new(obs))
    }

    fn build(group: Group, obs: AnyObserver<'a>) -> Result<Simulation<'a>, GroupError> {
        let mut tree = Nodes::new(&group.branches);
        let laws: Vec<Law> = group.branches.iter().map(|it| Law::new(&it.link)).collect();
        let mut copies = vec![0; laws.len()];
        let links = tree.nodes.iter().skip(1).map(|node| {
            let kind = node.kind as usize;
            copies[kind] += 1;
            let name = format!("{}.{}", group.branches[kind].name, copies[kind]);
            Link::new(&laws[kind], group.seed, &name)
        });
        let links: Vec<Link> = links.collect();
        let above = speaker::above(&tree);
        let sender = sender(&group, &tree, &above)?;
        let terms = MemberTerms {
            seed: group.seed,
            buffer: match group.content {
                Content::Stream { buffer, .. } => buffer,
                Content::Object { .. } => 0,
            },
            service: match group.content {
                Content::Stream { service, .. } => service,
                Content::Object { .. } => Span::ZERO,
            },
        };
        let (hosts, members) = members(&group, &tree, &above, &terms);
        let encoders = encoders(&group, &tree)?;
        let decoders = decoders(&group, &tree, &encoders);
        // The decoders are fixed now: the tree need not be notified.
        tree.encoders.shrink_to_fit();
        let mut simulation = Simulation {
            obs,
            now: Time::ZERO,
            calendar: Calendar::new(Callers::new(&group, &tree)),
            items: Items::default(),
            link_counts: vec![LinkCount::default(); laws.len()],
            laws,
            links,
            source: Host::new(group.source),
            sender,
            wake: Time::MAX,
            leaving: 0,
            members,
            speakers: speaker::speakers(&tree, &above),
            terms,
            hosts,
            encoders,
            decoders,
            application: Application::new(&group.content),
            crosses: cross::crosses(&group, &tree)?,
            counts: Counts::default(),
            next_fault: 0,
            events: 0,
            tree,
            group,
        };
        simulation.name_all();
        Ok(simulation)
    }

    /// Runs to the end, or until `go_on` says no.
    pub fn run(&mut self, mut go_on: impl FnMut(GroupProgress) -> bool) {
        self.run_while(&mut go_on);
    }

    fn run_while(&mut self, go_on: &mut dyn FnMut(GroupProgress) -> bool) {
        self.begin_cross();
        self.sender.start(self.now);
        self.turn_of_source();
        if let Some(fault) = self.group.faults.first() {
            self.calendar.add(fault.at, Due::Fault);
        }
        while let Some(at) = self.calendar.next() {
            if at > self.group.until || self.events >= self.group.most_events {
                self.counts.partial = true;
                return;
            }
            let Some(due) = self.calendar.take() else {
                return;
            };
            self.now = at;
            self.events += 1;
            self.run_one(due);
            if self.events.is_multiple_of(TELL) && !go_on(self.progress()) {
                self.counts.partial = true;
                return;
            }
        }
    }

    fn progress(&self) -> GroupProgress {
        GroupProgress {
            now: self.now,
            events: self.events,
            complete: (self.counts.complete, self.members.len() as u32),
        }
    }

    fn run_one(&mut self, due: Due) {
        match due {
            Due::Down { item, first, end } => self.come_down(item, first, end),
            Due::Along { item, node } => self.come_along(item, node),
            Due::Up { item, node } => self.come_up(item, node),
            Due::Leave { item } => {
                self.leaving -= 1;
                self.send_down(item);
                self.turn_of_source();
            }
            Due::Answer { item, member } => self.send_up(self.members[member as usize].node, item),
            Due::TakeAtSource { item } => {
                self.source.taken(self.items.get(item).octets);
                self.take_at_source(item);
            }
            Due::TakeAt { item, member } => {
                let host = self.members[member as usize].host;
                self.hosts[host as usize].taken(self.items.get(item).octets);
                self.take_at(member, item);
            }
            Due::WakeSource => {
                if self.wake == self.now {
                    self.wake = Time::MAX;
                    self.turn_of_source();
                }
            }
            Due::Wake { member } => self.wake_member(member),
            Due::WakeSpeaker { speaker } => self.wake_speaker(speaker),
            Due::Submit => self.submit(),
            Due::Served { member } => self.served(member),
            Due::Flush { encoder } => self.flush(encoder),
            Due::Fault => self.fault(),
            Due::Connect { cross, flow } => self.connect_cross(cross, flow),
            Due::Segment { cross, up } => self.segment_arrives(cross, up),
            Due::WakeCross { cross } => self.wake_cross(cross),
        }
    }

    /// A packet of one of the machines as an item.
    pub(super) fn item(&mut self, from: Peer, transmit: Transmit) -> u32 {
        let octets = transmit.packet.encoded_len() as u32;
        let cargo = Cargo::Plain(transmit.packet);
        self.items.add(cargo, from, transmit.to, self.now, octets)
    }

    /// The node of a peer.
    pub(super) fn node_of(&self, to: To) -> Option<u32> {
        let To::One(Peer(peer)) = to else {
            return None;
        };
        if let Some(speaker) = peer.checked_sub(speaker::FIRST) {
            return self.tree.aggregators.get(speaker as usize).copied();
        }
        match peer.checked_sub(1) {
            None => Some(0),
            Some(member) => self.tree.members.get(member as usize).copied(),
        }
    }
}

fn sender(group: &Group, tree: &Nodes, above: &[u32]) -> Result<Sender<Virtual>, ConfigError> {
    let session = 1 + (group.seed >> 1);
    let members = group.invited.members(tree, above);
    let config = group.sender.clone();
    match group.content {
        Content::Object { octets } => {
            let source = Virtual::new(octets, config.scheme);
            Sender::object(session, config, members, source)
        }
        Content::Stream { .. } => Sender::stream(session, config, members),
    }
}

/// Receivers in the order of their nodes, and their hosts.
fn members(
    group: &Group,
    tree: &Nodes,
    above: &[u32],
    terms: &MemberTerms,
) -> (Vec<Host>, Vec<Member>) {
    let (mut hosts, mut members) = (Vec::new(), Vec::with_capacity(tree.members.len()));
    let mut last = (NONE, 0);
    for (number, &node) in (0..).zip(&tree.members) {
        let kind = tree.nodes[node as usize].kind;
        let spec = group.branches[kind as usize].receiver.unwrap_or_default();
        if last.0 != kind || last.1 == spec.receivers {
            hosts.push(Host::new(spec));
            last = (kind, 0);
        }
        last.1 += 1;
        let restarts = group.faults.iter().any(|fault| {
            (fault.first..fault.end).contains(&number)
                && matches!(fault.what, super::config::FaultKind::Restart { .. })
        });
        let host = hosts.len() as u32 - 1;
        let helper = match above[node as usize] {
            NONE => None,
            speaker => Some(Peer(speaker::FIRST + speaker)),
        };
        members.push(Member::new(number, node, host, helper, terms, restarts));
    }
    (hosts, members)
}

fn encoders(group: &Group, tree: &Nodes) -> Result<Vec<EdgeEncoder>, layercast_fec::ConfigError> {
    let mut encoders = Vec::with_capacity(tree.encoders.len());
    for (at, node) in (0..).zip(&tree.nodes) {
        for port in node.ports.0..node.ports.1 {
            let spec = &tree.ports[port as usize];
            if spec.encoder != NONE {
                let edge = &group.edges[usize::from(spec.region) - 1];
                encoders.push(EdgeEncoder::new(edge, at, port)?);
            }
        }
    }
    Ok(encoders)
}

/// Decoders, each with the encoder above it.
fn decoders(group: &Group, tree: &Nodes, encoders: &[EdgeEncoder]) -> Vec<EdgeDecoder> {
    let mut decoders = Vec::with_capacity(tree.decoders.len());
    // Of each node, the encoder whose packets come to it.
    let mut above = vec![NONE; tree.nodes.len()];
    for (at, node) in tree.nodes.iter().enumerate() {
        for port in &tree.ports[node.ports.0 as usize..node.ports.1 as usize] {
            let encoder = match port.region {
                0 => NONE,
                _ if port.encoder != NONE => port.encoder,
                _ => above[at],
            };
            above[port.children.0 as usize..port.children.1 as usize].fill(encoder);
        }
        if node.decoder != NONE {
            let region = tree.decoders[node.decoder as usize];
            let edge = &group.edges[usize::from(region) - 1];
            let mut decoder = EdgeDecoder::new(edge, region);
            decoder.encoder = above[at];
            debug_assert!((above[at] as usize) < encoders.len());
            decoders.push(decoder);
        }
    }
    decoders
}
