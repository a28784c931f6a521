//! Cross traffic: TCP connections with data without end that share a link with the group (specs/rmtp-large-scale.md 4,
//! R12).

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::VecDeque;

use layercast_core::{Machine, Span, Stream, Time, earliest};
use layercast_tcp::{ConnId, Endpoint, TcpConfig, TcpConfigError, TcpEvent, TcpPacket};
use layercast_wire::{IPV4_HEADER, Payload};
use rand_core::RngCore;
use serde::Serialize;

use super::config::Group;
use super::ends::AGAIN;
use super::tree::Nodes;
use super::world::{Due, Simulation};

/// TCP connections from the upper to the lower end of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct CrossSpec {
    /// Number of the branch, of which there is one copy.
    pub branch: usize,
    /// How many there are.
    pub flows: u32,
    /// Delay beside that of the link, each way.
    pub delay: Span,
    /// The TCP of both ends.
    pub tcp: TcpConfig,
}

/// What connections did while the session was open.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct CrossCount {
    /// Octets delivered by each connection.
    pub octets: Vec<u64>,
    /// Segments dropped because the queue was full, in both directions, since the start of the run.
    pub dropped: u64,
    /// Segments lost on the link, in both directions, since the start of the run.
    pub lost: u64,
}

/// TCP beside the group, while the session was open.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CrossSummary {
    /// Name of the branch that the connections share with the group.
    pub branch: String,
    /// Goodput of each connection in bit/s.
    pub goodput_bps: Vec<f64>,
    /// What was counted.
    #[serde(flatten)]
    pub count: CrossCount,
}

/// Connections as they run.
#[derive(Debug)]
pub(super) struct Cross {
    pub branch: usize,
    node: u32,
    delay: Span,
    /// The host above the link, which sends, and that below it.
    hosts: [Endpoint; 2],
    /// Segments on their way down and up.
    flying: [VecDeque<TcpPacket>; 2],
    /// The flow of each connection of the host below.
    flows: Vec<u32>,
    wake: Time,
    pub count: CrossCount,
}

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
/// Port of the first flow.
const FIRST_PORT: u16 = 5_000;
/// Flows at most: each has a port.
pub(super) const MOST_FLOWS: u32 = 10_000;
/// Connections begin within this time.
const BEGIN: Span = Span::from_secs(1);
const CHUNK: u32 = 1 << 20;

impl Cross {
    fn new(
        spec: &CrossSpec,
        number: usize,
        group: &Group,
        node: u32,
    ) -> Result<Cross, TcpConfigError> {
        let host = |name: &str| {
            let name = format!("cross/{number}/{name}");
            let mut secret = [0; 32];
            Stream::new(group.seed, &format!("group/{name}")).fill_bytes(&mut secret);
            Endpoint::new(spec.tcp.clone(), &name, &secret)
        };
        Ok(Cross {
            branch: spec.branch,
            node,
            delay: spec.delay,
            hosts: [host("above")?, host("below")?],
            flying: Default::default(),
            flows: Vec::new(),
            wake: Time::MAX,
            count: CrossCount {
                octets: vec![0; spec.flows as usize],
                ..CrossCount::default()
            },
        })
    }

    /// A connection begins.
    fn connect(&mut self, now: Time, flow: u32) {
        let port = FIRST_PORT + flow as u16;
        let to = SocketAddrV4::new(ADDRESSES[1], port);
        let begun = self.hosts[1]
            .listen(port, 1)
            .and_then(|()| self.hosts[0].connect(now, SocketAddrV4::new(ADDRESSES[0], 0), to));
        debug_assert!(begun.is_ok(), "{begun:?}");
    }

    /// An event of one end; received data count while the session is open.
    fn told(&mut self, up: bool, event: TcpEvent, counts: bool) {
        let host = &mut self.hosts[usize::from(up)];
        match event {
            TcpEvent::Connected(id) | TcpEvent::Writable(id) => fill(host, id),
            TcpEvent::Incoming(port) => {
                while let Some((id, _)) = host.accept(port) {
                    if self.flows.len() <= id.index() {
                        self.flows.resize(id.index() + 1, 0);
                    }
                    self.flows[id.index()] = u32::from(port - FIRST_PORT);
                }
            }
            TcpEvent::Readable(id) => {
                let flow = self.flows.get(id.index()).copied().unwrap_or(0);
                while let Ok(Some(data)) = host.read(id, usize::MAX) {
                    if counts && let Some(octets) = self.count.octets.get_mut(flow as usize) {
                        *octets += data.len() as u64;
                    }
                }
            }
            TcpEvent::PeerClosed(_) | TcpEvent::Closed(_) | TcpEvent::Failed(..) => {}
        }
    }
}

/// As much as there is room for.
fn fill(host: &mut Endpoint, id: ConnId) {
    while host.write(id, &Payload::Zeros(CHUNK)) == Ok(CHUNK as usize) {}
}

/// All of a group.
pub(super) fn crosses(group: &Group, tree: &Nodes) -> Result<Vec<Cross>, TcpConfigError> {
    let mut made = Vec::new();
    for (number, spec) in group.cross.iter().enumerate() {
        let node = tree
            .nodes
            .iter()
            .position(|it| it.kind as usize == spec.branch);
        if let Some(node) = node {
            made.push(Cross::new(spec, number, group, node as u32)?);
        }
    }
    Ok(made)
}

impl Simulation<'_> {
    /// When connections begin.
    pub(super) fn begin_cross(&mut self) {
        for (cross, it) in (0..).zip(&self.crosses) {
            let mut random = Stream::new(self.group.seed, &format!("group/cross/{cross}/begin"));
            for flow in 0..it.count.octets.len() as u32 {
                let at = self.now + Span::from_ps(random.below(BEGIN.as_ps()));
                self.calendar.add(at, Due::Connect { cross, flow });
            }
        }
    }

    pub(super) fn connect_cross(&mut self, cross: u32, flow: u32) {
        self.crosses[cross as usize].connect(self.now, flow);
        self.settle_cross(cross);
    }

    /// A segment is at the host at the other end.
    pub(super) fn segment_arrives(&mut self, cross: u32, up: bool) {
        let it = &mut self.crosses[cross as usize];
        if let Some(packet) = it.flying[usize::from(up)].pop_front() {
            it.hosts[usize::from(!up)].handle(self.now, packet, &mut self.obs);
            self.settle_cross(cross);
        }
    }

    pub(super) fn wake_cross(&mut self, cross: u32) {
        let it = &mut self.crosses[cross as usize];
        if it.wake == self.now {
            it.wake = Time::MAX;
            for host in &mut it.hosts {
                host.on_timeout(self.now, &mut self.obs);
            }
            self.settle_cross(cross);
        }
    }

    /// Lets both ends say what they have to say. When the session is over, so is what is compared with it.
    fn settle_cross(&mut self, cross: u32) {
        if self.counts.ended.is_some() {
            return;
        }
        let (now, counts) = (self.now, self.counts.opened.is_some());
        for up in [false, true] {
            loop {
                let it = &mut self.crosses[cross as usize];
                while let Some(event) = it.hosts[usize::from(up)].poll_event() {
                    it.told(up, event, counts);
                }
                let Some(packet) = it.hosts[usize::from(up)].poll_transmit(now, &mut self.obs)
                else {
                    break;
                };
                self.send_segment(cross, up, packet);
            }
        }
        let it = &mut self.crosses[cross as usize];
        let next = earliest(it.hosts[0].next_timeout(), it.hosts[1].next_timeout());
        if let Some(next) = next.map(|at| at.max(now + AGAIN))
            && next < it.wake
        {
            it.wake = next;
            self.calendar.add(next, Due::WakeCross { cross });
        }
    }

    /// What all of them did.
    pub(super) fn cross_summaries(&self) -> Vec<CrossSummary> {
        let open = self
            .counts
            .since_opened(self.counts.ended.unwrap_or(self.now));
        let rate = |&octets: &u64| 8.0 * octets as f64 / open.max(1e-9);
        let crosses = self.crosses.iter();
        crosses
            .map(|it| CrossSummary {
                branch: self.group.branches[it.branch].name.clone(),
                goodput_bps: it.count.octets.iter().map(rate).collect(),
                count: it.count.clone(),
            })
            .collect()
    }

    fn send_segment(&mut self, cross: u32, up: bool, packet: TcpPacket) {
        let it = &mut self.crosses[cross as usize];
        let law = &self.laws[self.tree.nodes[it.node as usize].kind as usize];
        let link = &mut self.links[it.node as usize - 1];
        let octets = (packet.segment.encoded_len() + IPV4_HEADER) as u32;
        let Some(at) = link.enter(law, self.now, octets, up) else {
            it.count.dropped += 1;
            return;
        };
        let lost = match up {
            true => link.loses_back(law, octets),
            false => link.loses(law, octets),
        };
        if lost {
            it.count.lost += 1;
            return;
        }
        it.flying[usize::from(up)].push_back(packet);
        self.calendar
            .add(at.saturating_add(it.delay), Due::Segment { cross, up });
    }
}
