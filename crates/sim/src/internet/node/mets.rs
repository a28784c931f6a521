//! METS nodes at hosts and routers: what they send to their neighbours are packets of the network.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use layercast_core::{AnyObserver, Rate, Span};
use layercast_link::Framed;
use layercast_wire::UDP_IP_HEADER;

use crate::internet::atm;
use crate::internet::engine::{Engine, Source};
use crate::internet::error::NetworkError;
use crate::internet::medium::Medium;
use crate::internet::medium::hop::Interface;
use crate::internet::medium::packet::{Body, METS, TTL};
use crate::internet::network::{MetsNetwork, Network, NodeIndex};
use crate::internet::report::{MetsReport, PathReport, PeeringReport};
use crate::kernel::SourceId;
use crate::stations::Stations;
use crate::wires;

/// The METS nodes.
pub(crate) struct Mets {
    stations: Stations<'static>,
    /// For each direction of a peering where it begins and where it ends.
    ends: Vec<[NodeIndex; 2]>,
    /// For when it acts next.
    source: SourceId,
}

impl fmt::Debug for Mets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mets").field("ends", &self.ends).finish()
    }
}

impl Mets {
    /// The METS nodes of a network, with nothing on their links.
    pub fn new(
        network: &Network,
        nodes: &MetsNetwork,
        medium: &mut Medium,
    ) -> Result<Mets, NetworkError> {
        let mut machines = (*nodes.machines).clone();
        let mut ends = Vec::with_capacity(2 * machines.links.len());
        for (n, link) in machines.links.iter().enumerate() {
            let [a, b] = link.ends.map(|end| nodes.nodes[end]);
            for (place, (from, to)) in [(0, (a, b)), (1, (b, a))] {
                let Some(delay) = delay(medium, network, from, to) else {
                    let name = |node: NodeIndex| network.nodes[node.0 as usize].name.clone();
                    return Err(NetworkError::NoPeering {
                        from: name(from),
                        to: name(to),
                    });
                };
                ends.push([from, to]);
                let ports = &mut machines.nodes[link.ends[place]].ports;
                if let Some(port) = ports.iter_mut().find(|port| port.link == n) {
                    (port.config.delay, port.out.delay) = (delay, delay);
                }
            }
        }
        let source = medium.engine.add(Source::Mets, "");
        let carrier = wires::Medium::network;
        let mut stations = Stations::new(Arc::new(machines), AnyObserver::default(), carrier);
        stations.plan_scenario();
        medium.engine.kernel.schedule(source, stations.next());
        Ok(Mets {
            stations,
            ends,
            source,
        })
    }

    /// What is due at the nodes happens.
    pub fn wake(&mut self, medium: &mut Medium) {
        let Engine { now, obs, .. } = &mut medium.engine;
        // The nodes have the observer while they act.
        std::mem::swap(&mut self.stations.obs, obs);
        self.stations.advance(*now);
        std::mem::swap(&mut self.stations.obs, obs);
        for (wire, framed) in self.stations.leaving.drain(..) {
            let [src, dst] = self.ends[wire];
            let bytes = (framed.encoded_len() + UDP_IP_HEADER) as u32;
            let body = Body::Mets(Box::new(framed), wire as u32);
            medium.originate((src, dst), bytes, body);
        }
        let next = self.stations.next();
        medium.engine.kernel.schedule(self.source, next);
    }

    /// A packet of a node came to its neighbour.
    pub fn arrived(&mut self, wire: u32, framed: Framed, engine: &mut Engine) {
        std::mem::swap(&mut self.stations.obs, &mut engine.obs);
        self.stations.comes(engine.now, wire as usize, framed);
        std::mem::swap(&mut self.stations.obs, &mut engine.obs);
        engine.kernel.schedule(self.source, self.stations.next());
    }

    /// What the METS nodes found so far, over the whole run.
    pub fn report(&mut self, medium: &Medium) -> MetsReport {
        self.stations.now = medium.engine.now;
        let summary = self.stations.summary();
        let mut under_way = BTreeMap::new();
        for wire in medium.packets.mets() {
            *under_way.entry(wire as usize).or_insert(0) += 1;
        }
        let wires = &self.stations.wires;
        let peerings = summary.queues.into_iter().enumerate();
        let peerings = peerings.map(|(wire, mut port)| {
            let under_way = under_way.get(&wire).copied().unwrap_or_default();
            let known = port.link.delivered + under_way;
            port.link.duplicated = medium
                .mets_copies
                .get(&(wire as u32))
                .copied()
                .unwrap_or_default();
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
