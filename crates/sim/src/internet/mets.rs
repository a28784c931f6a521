//! METS nodes at hosts and routers: what they send to their neighbours are packets of the network.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use layercast_core::{AnyObserver, Rate, Span, Time};
use layercast_link::Framed;
use layercast_wire::UDP_IP_HEADER;

use super::atm;
use super::classes::Classes;
use super::error::NetworkError;
use super::hop::Interface;
use super::network::{Network, NodeIndex};
use super::packet::{Body, NO_STEP, Packet, PacketId, TTL};
use super::report::{MetsReport, PathReport, PeeringReport};
use super::source::Source;
use super::world::Internet;
use crate::kernel::SourceId;
use crate::wires::Medium;
use crate::world::World;

/// The UDP port of the METS nodes, at both ends.
pub(super) const PORT: u16 = 4_900;

/// The METS nodes.
pub(super) struct Mets {
    world: World<'static>,
    /// For each direction of a peering where it begins and where it ends.
    ends: Vec<[NodeIndex; 2]>,
    /// For when it acts next.
    source: SourceId,
    /// Datagrams on the way from the nodes to the network; empty between two events.
    leaving: VecDeque<(usize, Framed)>,
}

impl fmt::Debug for Mets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mets").field("ends", &self.ends).finish()
    }
}

impl Mets {
    /// When it acts next.
    fn next(&mut self) -> Option<Time> {
        self.world.next()
    }
}

impl Internet {
    /// Builds the METS nodes of a network and the class queues of their links.
    pub(super) fn add_mets(&mut self, network: &Network) -> Result<(), NetworkError> {
        let Some(mets) = &network.mets else {
            return Ok(());
        };
        let mut machines = (*mets.machines).clone();
        let mut ends = Vec::with_capacity(2 * machines.links.len());
        for (n, link) in machines.links.iter().enumerate() {
            let [a, b] = link.ends.map(|end| mets.nodes[end]);
            for (place, (from, to)) in [(0, (a, b)), (1, (b, a))] {
                let Some(delay) = self.delay(network, from, to) else {
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
        let source = self.source(Source::Mets);
        let mut world = World::new(Arc::new(machines), AnyObserver::default(), Medium::network);
        world.plan_scenario();
        self.kernel.schedule(source, world.next());
        self.mets = Some(Box::new(Mets {
            world,
            ends,
            source,
            leaving: VecDeque::new(),
        }));
        self.classes = Classes::new(network, |n| self.source(Source::Class(n)))?.map(Box::new);
        for pipe in self.classes.iter().flat_map(|classes| classes.pipes()) {
            self.pipes[pipe as usize].take_all();
        }
        Ok(())
    }

    /// The propagation delay from one node to another.
    fn delay(&self, network: &Network, from: NodeIndex, to: NodeIndex) -> Option<Span> {
        let (mut at, mut all) = (from, Span::ZERO);
        for _ in 0..TTL {
            let hop = self.routes.next(at, to, from)?;
            all += match hop.interface {
                Interface::Pipe(pipe) => self.pipes[pipe as usize].delay(),
                Interface::Atm(_) => atm::delay(network.atm.as_ref()?, at, hop.next)?,
            };
            at = hop.next;
            if at == to {
                return Some(all);
            }
        }
        None
    }

    /// What is due at the METS nodes happens.
    pub(super) fn wake_mets(&mut self) {
        let now = self.now;
        let Some(mets) = &mut self.mets else {
            return;
        };
        // The nodes have the observer while they act.
        std::mem::swap(&mut mets.world.obs, &mut self.obs);
        mets.world.advance(now);
        std::mem::swap(&mut mets.world.obs, &mut self.obs);
        let mut leaving = std::mem::take(&mut mets.leaving);
        leaving.extend(mets.world.leaving.drain(..));
        for (wire, framed) in leaving.drain(..) {
            self.send_mets(wire, framed);
        }
        if let Some(mets) = &mut self.mets {
            mets.leaving = leaving;
            self.kernel.schedule(mets.source, mets.next());
        }
    }

    fn send_mets(&mut self, wire: usize, framed: Framed) {
        let Some(mets) = &self.mets else {
            return;
        };
        let [src, dst] = mets.ends[wire];
        self.originate(Packet {
            src,
            dst,
            bytes: (framed.encoded_len() + UDP_IP_HEADER) as u32,
            step: NO_STEP,
            ttl: TTL,
            body: Body::Mets(Box::new(framed), wire as u32),
        });
    }

    /// A packet of a METS node came to its neighbour.
    pub(super) fn mets_arrived(&mut self, wire: u32, framed: Framed) {
        if let Some(mets) = &mut self.mets {
            std::mem::swap(&mut mets.world.obs, &mut self.obs);
            mets.world.comes(self.now, wire as usize, framed);
            std::mem::swap(&mut mets.world.obs, &mut self.obs);
            self.kernel.schedule(mets.source, mets.next());
        }
    }

    /// The direction of a peering that a packet is on.
    pub(super) fn wire_of(&self, id: PacketId) -> Option<u32> {
        match self.packets.get(id).body {
            Body::Mets(_, wire) => Some(wire),
            _ => None,
        }
    }

    /// What the METS nodes found so far, over the whole run.
    pub(super) fn mets_report(&mut self) -> Option<MetsReport> {
        let mets = self.mets.as_mut()?;
        mets.world.now = self.now;
        let summary = mets.world.summary();
        let mut under_way = BTreeMap::new();
        for wire in self.packets.mets() {
            *under_way.entry(wire as usize).or_insert(0) += 1;
        }
        let wires = &mets.world.wires;
        let peerings = summary.queues.into_iter().enumerate();
        let peerings = peerings.map(|(wire, mut port)| {
            let under_way = under_way.get(&wire).copied().unwrap_or_default();
            let known = port.link.delivered + under_way;
            port.link.lost = port.link.sent.saturating_sub(known);
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
        Some(MetsReport {
            peerings: peerings.collect(),
            flows: summary.flows,
            filters: summary.filters,
            hosts: summary.hosts,
            wire_errors: summary.wire_errors,
            classes: self.classes.iter().flat_map(|it| it.report()).collect(),
        })
    }
}
