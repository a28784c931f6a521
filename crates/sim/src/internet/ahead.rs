//! Looking ahead: what the next packets will need is loaded before they come.
//!
//! The caches do not hold a network of many thousand hosts, and events go from host to host all over it. An event would
//! wait for some fifteen loads, most of them one after the other, as each is found by the one before. So they are begun
//! some events earlier, a step at a time. It is a hint: results are the same without.

use layercast_core::prefetch;

use super::packet::{Body, PacketId};
use super::paths::NO_STEP;
use super::routes::Interface;
use super::{Internet, NodeIndex};

/// Packets from one step of what they need to the next.
const STEP: usize = 6;
/// Packets that are remembered: those of all steps.
const REMEMBERED: usize = 32;
/// Smaller networks stay in the caches by themselves: 1,311 nodes gain nothing.
const LEAST_NODES: usize = 2_000;

/// The packets that come next, as far as the calendar told of them.
#[derive(Debug)]
pub(super) struct Ahead {
    packets: [Coming; REMEMBERED],
    count: usize,
}

/// What is known of a packet that comes soon.
#[derive(Clone, Copy, Debug)]
struct Coming {
    packet: PacketId,
    to: NodeIndex,
    /// The host it is for, if it comes to that.
    host: Option<u32>,
    /// Where the packet goes that is sent for it: itself, or an answer.
    next_dst: NodeIndex,
    /// Its next step.
    step: u32,
    /// The pipe this one takes.
    pipe: Option<u32>,
}

impl Coming {
    fn new(packet: PacketId, to: NodeIndex) -> Coming {
        Coming {
            packet,
            to,
            host: None,
            next_dst: to,
            step: NO_STEP,
            pipe: None,
        }
    }
}

impl Ahead {
    /// For a network of so many nodes; none if that is small.
    pub fn new(nodes: usize) -> Option<Ahead> {
        (nodes >= LEAST_NODES).then(|| Ahead {
            packets: [Coming::new(PacketId(0), NodeIndex(0)); REMEMBERED],
            count: 0,
        })
    }

    fn add(&mut self, packet: PacketId, to: NodeIndex) {
        self.count += 1;
        self.packets[self.count % REMEMBERED] = Coming::new(packet, to);
    }

    /// The one that was told of so many steps ago.
    fn before(&mut self, steps: usize) -> &mut Coming {
        &mut self.packets[self.count.wrapping_sub(steps * STEP) % REMEMBERED]
    }
}

impl Internet {
    /// Begins to load what the packets will need that come next; called for each that comes.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        let Some(ahead) = &mut self.ahead else {
            return;
        };
        for _ in 0..2 {
            let Some((packet, to)) = self.arrivals.soon() else {
                return;
            };
            ahead.add(packet, to);
            self.packets.prepare(packet);
            self.routes.prepare(to);
            prefetch(&self.nodes[to.0 as usize]);

            let coming = ahead.before(1);
            let at = coming.to.0 as usize;
            if let Some(packet) = self.packets.find(coming.packet) {
                coming.next_dst = packet.dst;
                coming.step = packet.step;
                if packet.dst == coming.to {
                    coming.next_dst = packet.src;
                    coming.host = self.nodes[at].host;
                    self.packets.prepare_body(coming.packet);
                }
                self.paths.prepare(coming.step);
                self.routes.prepare(coming.next_dst);
                prefetch(&self.node_addresses[coming.next_dst.0 as usize]);
            }
            if let Some(host) = coming.host {
                prefetch(&self.hosts[host as usize]);
            }

            let coming = ahead.before(2);
            if let Some(host) = coming.host {
                let host = &self.hosts[host as usize];
                coming.step = host.last_step();
                self.paths.prepare(coming.step);
                host.endpoint.prepare_table();
            }
            coming.pipe = match self.paths.find(coming.step) {
                Some(step) => Some(step.pipe),
                None => {
                    let hop = self.routes.next(coming.to, coming.next_dst, coming.to);
                    hop.and_then(|hop| match hop.interface {
                        Interface::Pipe(n) => Some(n),
                        Interface::Atm(_) => None,
                    })
                }
            };
            if let Some(pipe) = coming.pipe {
                prefetch(&self.pipes[pipe as usize]);
            }

            let coming = ahead.before(3);
            if let Some(pipe) = coming.pipe {
                self.pipes[pipe as usize].prepare_queue();
            }
            if let Some(host) = coming.host
                && let Some(packet) = self.packets.find(coming.packet)
                && let Body::Tcp(segment) = &packet.body
            {
                let address = |node: NodeIndex| self.node_addresses[node.0 as usize];
                let ends = (address(packet.src), address(packet.dst));
                let host = &self.hosts[host as usize];
                host.endpoint.prepare_connection(ends, segment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::internet::Report;
    use crate::internet::scenario::Scenario;

    fn report(ahead: Option<Ahead>) -> Report {
        let scenario = r#"
            schema = "internet/1"
            name = "tree"
            run = { duration = "2s" }
            topology = { kind = "tree", depth = 2, fanout = 4, access = { rate = "10 Mbit/s", delay = "1ms", queue = "20 packets" }, trunk = { rate = "20 Mbit/s", delay = "2ms", queue = "30 packets", mtu = 1000 } }

            [[flow]]
            from = "host{1..6}"
            to = "host{11..16}"

            [[flow]]
            from = "host{1..4}"
            to = "host{5..8}"
            datagrams = { gap = "exp(2ms)", size = "1200 B" }
        "#;
        let scenario = Scenario::from_toml(scenario, Path::new(".")).unwrap();
        let mut world = Internet::new(&scenario.resolve().unwrap()).unwrap();
        world.ahead = ahead;
        world.run(&mut ())
    }

    #[test]
    fn changes_no_result() {
        let with = report(Ahead::new(LEAST_NODES));
        assert!(with.packet_hops > 10_000, "{}", with.packet_hops);
        assert_eq!(with, report(None));
    }
}
