//! METS nodes at hosts and routers: what they send to their neighbours are packets of the network.

mod capture;
mod exchange;
mod line;
mod outcome;
mod received;
mod repair;
mod script;
mod state;
mod stations;
mod wire_check;
mod wires;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::{fmt, io};

use layercast_core::{Rate, Span};

use self::capture::Capture;
use self::line::{Line, Way};
use self::received::StreamOut;
use self::stations::Stations;
use crate::internet::atm;
use crate::internet::engine::Source;
use crate::internet::error::NetworkError;
use crate::internet::medium::Medium;
use crate::internet::medium::hop::Interface;
use crate::internet::medium::packet::{METS, TTL};
use crate::internet::medium::peered::Peered;
use crate::internet::network::{MetsNetwork, Network, NodeIndex};
use crate::internet::report::{MetsReport, PathReport, PeeringReport};
use crate::internet::series::{PointSink, QueueState};
use crate::kernel::SourceId;
use crate::summary::SimSummary;

/// What a run of METS nodes writes beside its summary.
#[derive(Default)]
pub struct Outputs<'a> {
    /// Gets a pcapng of every link direction.
    pub pcap: Option<&'a mut (dyn io::Write + Send)>,
    /// Get the streams that the receivers play, as these would write them; in the order of the scenario.
    pub streams: Vec<&'a mut (dyn io::Write + Send)>,
    /// The time between two points of a series, and what takes the points of the ports.
    pub series: Option<(Span, &'a mut (dyn PointSink + Send))>,
}

/// The METS nodes.
pub(crate) struct Mets<'a> {
    stations: Stations<'a>,
    /// For when it acts next.
    source: SourceId,
}

impl fmt::Debug for Mets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mets")
            .field("wires", &self.stations.wires)
            .finish_non_exhaustive()
    }
}

impl<'a> Mets<'a> {
    /// The METS nodes of a network, with nothing on their links.
    pub fn new(
        network: &Network,
        nodes: &MetsNetwork,
        medium: &mut Medium,
    ) -> Result<Mets<'a>, NetworkError> {
        let mut machines = (*nodes.machines).clone();
        let mut lines = Vec::with_capacity(2 * machines.links.len());
        for (n, link) in machines.links.iter().enumerate() {
            let [a, b] = link.ends.map(|end| nodes.nodes[end]);
            for (place, (from, to)) in [(0, (a, b)), (1, (b, a))] {
                let wire = 2 * n + place;
                let ports = &mut machines.nodes[link.ends[place]].ports;
                let port = ports.iter_mut().find(|port| port.link == n);
                let way = if nodes.own_links {
                    Way::Own(wire as u32)
                } else {
                    let Some(delay) = delay(medium, network, from, to) else {
                        let name = |node: NodeIndex| network.nodes[node.0 as usize].name.clone();
                        return Err(NetworkError::NoPeering {
                            from: name(from),
                            to: name(to),
                        });
                    };
                    let rate = port.and_then(|port| {
                        (port.config.delay, port.out.delay) = (delay, delay);
                        port.config.rate
                    });
                    Way::Among {
                        rate,
                        leaving: VecDeque::new(),
                    }
                };
                lines.push(Line::new(wire, (from, to), way));
            }
        }
        let source = medium.engine.add(Source::Mets, "");
        let mut stations = Stations::new(Arc::new(machines), lines);
        stations.plan_scenario();
        medium.engine.kernel.schedule(source, stations.next());
        Ok(Mets { stations, source })
    }

    /// From now on the nodes write this.
    pub fn write(&mut self, outputs: Outputs<'a>) -> io::Result<()> {
        let stations = &mut self.stations;
        if let Some(out) = outputs.pcap {
            stations.capture = Some(Capture::new(out, &stations.net, &stations.wires)?);
        }
        stations.outputs = outputs.streams.into_iter().map(StreamOut::new).collect();
        Ok(())
    }

    /// Ends what the nodes write, or tells why some of it could not be written.
    pub fn written(self) -> io::Result<()> {
        for out in self.stations.outputs {
            out.finish()?;
        }
        self.stations.capture.map_or(Ok(()), Capture::finish)
    }

    /// What is due at the nodes happens.
    pub fn wake(&mut self, medium: &mut Medium) {
        self.stations.advance(medium);
        let next = self.stations.next();
        medium.engine.kernel.schedule(self.source, next);
    }

    /// A packet of a node came to its neighbour.
    pub fn arrived(&mut self, wire: u32, datagram: Peered, medium: &mut Medium) {
        self.stations.comes(medium, wire as usize, datagram);
        let next = self.stations.next();
        medium.engine.kernel.schedule(self.source, next);
    }

    /// The names of the ports.
    pub fn port_names(&self) -> impl Iterator<Item = String> + '_ {
        self.stations.port_names()
    }

    /// What the ports are now, for a series, and the bytes that each has sent.
    pub fn port_states(&self) -> impl Iterator<Item = Option<(QueueState, u64)>> + '_ {
        self.stations.port_states()
    }

    /// Whether the links carry nothing else.
    pub fn own_links(&self) -> bool {
        let mut wires = self.stations.wires.iter();
        wires.any(|wire| wire.data.is_own())
    }

    /// What they found so far, with nothing said about packets among others of the network.
    pub fn summary(&self, medium: &Medium) -> SimSummary {
        let mut summary = self.stations.summary(medium.engine.now);
        summary.events += medium.packet_hops;
        summary
    }

    /// What the METS nodes found so far, over the whole run.
    pub fn report(&self, medium: &Medium) -> MetsReport {
        let summary = self.stations.summary(medium.engine.now);
        let mut under_way = BTreeMap::new();
        for wire in medium.packets.mets() {
            *under_way.entry(wire as usize).or_insert(0) += 1;
        }
        let wires = &self.stations.wires;
        let peerings = summary.queues.into_iter().enumerate();
        let peerings = peerings.map(|(wire, mut port)| {
            let under_way = under_way.get(&wire).copied().unwrap_or_default();
            let known = port.link.delivered + under_way;
            let copies = medium.mets_copies.get(&(wire as u32));
            port.link.duplicated = copies.copied().unwrap_or_default();
            port.link.lost = (port.link.sent + port.link.duplicated).saturating_sub(known);
            let estimate = wires[wire].repair.estimate();
            let path = estimate.map(|it| PathReport {
                rate_bps: it.rate.map(Rate::as_bps),
                competes: it.competes,
                queue: it.queue.as_secs_f64(),
                cuts: it.cuts,
            });
            PeeringReport {
                port,
                under_way,
                path,
            }
        });
        MetsReport {
            peerings: peerings.collect(),
            flows: summary.flows,
            filters: summary.filters,
            hosts: summary.hosts,
            wire_errors: summary.wire_errors,
            classes: medium.classes.iter().flat_map(|it| it.report()).collect(),
        }
    }
}

/// The propagation delay from one node to another.
fn delay(medium: &Medium, network: &Network, from: NodeIndex, to: NodeIndex) -> Option<Span> {
    let (mut at, mut all) = (from, Span::ZERO);
    let flow = medium.mark(METS, (from, to));
    for _ in 0..TTL {
        let hop = medium.routes.next(at, to, flow)?;
        all += match hop.interface {
            Interface::Pipe(pipe) => medium.pipes[pipe as usize].delay(),
            Interface::Atm(_) => atm::delay(network.atm.as_ref()?, at, hop.next)?,
        };
        at = hop.next;
        if at == to {
            return Some(all);
        }
    }
    None
}
