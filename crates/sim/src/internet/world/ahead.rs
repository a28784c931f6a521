//! Looking ahead: what the next packets will need is loaded before they come.
//!
//! The caches do not hold a network of many thousand hosts, and events go from host to host all over it. An event would
//! wait for some fifteen loads, most of them one after the other, as each is found by the one before. So they are begun
//! some events earlier, a step at a time, and only those that are needed most likely: the processor has room for a few
//! dozen at a time. It is a hint: results are the same without.

use layercast_core::prefetch;

use super::Internet;
use crate::internet::engine::{Arrival, INBOX, PacketId, Source};
use crate::internet::medium::ecmp::FlowMark;
use crate::internet::medium::hop::Interface;
use crate::internet::medium::packet::{Body, NO_STEP};
use crate::internet::network::NodeIndex;

/// Packets from one step of what they need to the next.
const STEP: usize = 4;
/// Packets that are remembered: those of all steps.
const REMEMBERED: usize = 32;
/// Smaller networks stay in the caches by themselves: 1,311 nodes gain nothing.
const LEAST_NODES: usize = 2_000;

/// The next packets, as far as the calendar has announced them.
#[derive(Debug)]
pub(super) struct Ahead {
    packets: [Coming; REMEMBERED],
    count: usize,
    /// Hosts whose timers were due soon when the last one was, and when the one before was.
    hosts: [[Option<u32>; 4]; 2],
}

/// What is known of a packet that comes soon.
#[derive(Clone, Copy, Debug)]
struct Coming {
    packet: PacketId,
    to: NodeIndex,
    needs: Needs,
}

/// What will be needed for a packet, as far as is known.
#[derive(Clone, Copy, Debug)]
enum Needs {
    Nothing,
    /// A host, by its number: it is for that.
    Host(u32),
    /// The link of a step.
    Step(u32),
    /// The link to a node.
    WayTo(NodeIndex, FlowMark),
    /// One link, and perhaps another, which it enters immediately.
    Pipes(u32, Option<u32>),
}

impl Needs {
    fn pipes(pipes: Option<(u32, Option<u32>)>) -> Needs {
        pipes.map_or(Needs::Nothing, |(first, second)| {
            Needs::Pipes(first, second)
        })
    }
}

impl Ahead {
    /// For a network of this many nodes; `None` if it is small.
    pub fn new(nodes: usize) -> Option<Ahead> {
        let nobody = Coming {
            packet: PacketId(0),
            to: NodeIndex(0),
            needs: Needs::Nothing,
        };
        (nodes >= LEAST_NODES).then_some(Ahead {
            packets: [nobody; REMEMBERED],
            count: 0,
            hosts: [[None; 4]; 2],
        })
    }

    fn add(&mut self, packet: PacketId, to: NodeIndex) {
        self.count += 1;
        self.packets[self.count % REMEMBERED] = Coming {
            packet,
            to,
            needs: Needs::Nothing,
        };
    }

    /// The one announced `steps` steps ago.
    fn before(&mut self, steps: usize) -> &mut Coming {
        &mut self.packets[self.count.wrapping_sub(steps * STEP) % REMEMBERED]
    }
}

impl Internet<'_> {
    /// Begins to load what the packets will need that come next; called for each that comes.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if self.ahead.is_none() {
            return;
        }
        self.prepare_next();
        if self.medium.engine.arrivals.is_late() {
            self.prepare_next();
        }
    }

    #[inline(always)]
    fn prepare_next(&mut self) {
        let Some(Arrival { packet, to, .. }) = self.medium.engine.arrivals.soon() else {
            return;
        };
        if packet == INBOX {
            return;
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.add(packet, to);
        }
        self.medium.packets.prepare(packet);
        prefetch(&self.medium.nodes[to.0 as usize]);
        self.prepare_way();
        self.prepare_link();
        self.prepare_machine();
        self.prepare_answer();
    }

    /// Begins to load the hosts whose timers are due next; called for each timer.
    pub(super) fn look_at_timers(&mut self) {
        let Some(ahead) = &mut self.ahead else {
            return;
        };
        let [first, second] = ahead.hosts;
        for host in second.into_iter().flatten() {
            self.tcp.get(host).endpoint.prepare_due();
        }
        for host in first.into_iter().flatten() {
            self.tcp.get(host).endpoint.prepare_table();
        }
        let mut hosts = [None; 4];
        for (place, source) in hosts.iter_mut().zip(self.medium.engine.kernel.soon()) {
            if let Source::Tcp(host) = self.medium.engine.source(source) {
                prefetch(self.tcp.get(host));
                *place = Some(host);
            }
        }
        ahead.hosts = [hosts, first];
    }

    /// First: the packet itself. Then its destination, or its next step.
    #[inline(always)]
    fn prepare_way(&mut self) {
        let Some(ahead) = &mut self.ahead else {
            return;
        };
        let coming = ahead.before(1);
        let Some(packet) = self.medium.packets.find(coming.packet) else {
            return;
        };
        coming.needs = if packet.dst == coming.to {
            self.medium.packets.prepare_body(coming.packet);
            match self.medium.nodes[coming.to.0 as usize].host {
                Some(host) => {
                    prefetch(self.tcp.get(host));
                    Needs::Host(host)
                }
                None => Needs::Nothing,
            }
        } else if packet.step == NO_STEP {
            self.medium.routes.prepare(coming.to);
            self.medium.routes.prepare(packet.dst);
            Needs::WayTo(packet.dst, packet.flow)
        } else {
            self.medium.paths.prepare(packet.step);
            Needs::Step(packet.step)
        };
    }

    /// Second: the way is known. Its link, or where the connections of a host are.
    #[inline(always)]
    fn prepare_link(&mut self) {
        let Some(ahead) = &mut self.ahead else {
            return;
        };
        let coming = ahead.before(2);
        match coming.needs {
            Needs::Step(step) => coming.needs = Needs::pipes(self.medium.paths.pipes(step)),
            Needs::WayTo(dst, flow) => {
                let hop = self.medium.routes.next(coming.to, dst, flow);
                if let Some(Interface::Pipe(pipe)) = hop.map(|hop| hop.interface) {
                    coming.needs = Needs::Pipes(pipe, None);
                }
            }
            Needs::Host(host) => {
                let host = self.tcp.get(host);
                host.prepare_sockets();
                host.endpoint.prepare_table();
                self.medium.paths.prepare(host.last_step());
            }
            Needs::Pipes(..) | Needs::Nothing => {}
        }
        if let Needs::Pipes(first, second) = coming.needs {
            prefetch(&self.medium.pipes[first as usize]);
            if let Some(pipe) = second {
                prefetch(&self.medium.pipes[pipe as usize]);
            }
        }
    }

    /// Third: the link, or the places of connections, are there. Its queue, or the connection and the link of an answer.
    #[inline(always)]
    fn prepare_machine(&mut self) {
        let Some(ahead) = &mut self.ahead else {
            return;
        };
        let coming = ahead.before(3);
        match coming.needs {
            Needs::Pipes(first, second) => {
                self.medium.pipes[first as usize].prepare_queue();
                if let Some(pipe) = second {
                    self.medium.pipes[pipe as usize].prepare_queue();
                }
            }
            Needs::Host(host) => {
                let host = self.tcp.get(host);
                if let Some(packet) = self.medium.packets.find(coming.packet)
                    && let Body::Tcp(segment) = &packet.body
                    && let Some(ends) = host.ends(packet.src)
                {
                    host.endpoint.prepare_connection(ends, segment);
                }
                coming.needs = Needs::pipes(self.medium.paths.pipes(host.last_step()));
                if let Needs::Pipes(first, _) = coming.needs {
                    prefetch(&self.medium.pipes[first as usize]);
                }
            }
            Needs::Step(_) | Needs::WayTo(..) | Needs::Nothing => {}
        }
    }

    /// Last: the queue of the link that an answer takes.
    #[inline(always)]
    fn prepare_answer(&mut self) {
        let coming = self.ahead.as_mut().map(|ahead| *ahead.before(4));
        if let Some(Coming {
            needs: Needs::Pipes(first, _),
            ..
        }) = coming
        {
            self.medium.pipes[first as usize].prepare_queue();
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
