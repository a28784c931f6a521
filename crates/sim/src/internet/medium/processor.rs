//! Processors of nodes: what packets cost them.

use layercast_core::{Span, Stream, Time};
use layercast_nif::cpu::{Cpu, CpuConfig, Level, ThreadSpec};

use super::packet::Body;
use super::{Delivery, Medium};
use crate::internet::engine::PacketId;
use crate::internet::network::{CpuCost, NodeIndex};
use crate::kernel::SourceId;

/// The processor of a node, with what a packet costs it.
#[derive(Debug)]
pub(crate) struct NodeCpu {
    /// Of the node.
    pub name: String,
    pub cost: CpuCost,
    cpu: Cpu<PacketId>,
    /// Its protocols, one packet after the other.
    protocols: Level,
    pub source: SourceId,
    /// What arrived and is not done.
    pub arrived: u32,
    stream: Stream,
}

impl NodeCpu {
    /// An idle one.
    pub fn new(name: &str, cost: CpuCost, source: SourceId, seed: u64) -> NodeCpu {
        let mut cpu = Cpu::new(CpuConfig::default());
        NodeCpu {
            name: name.to_owned(),
            cost,
            protocols: Level::Thread(cpu.add_thread(ThreadSpec::default())),
            cpu,
            source,
            arrived: 0,
            stream: Stream::new(seed, &format!("cpu/{name}")),
        }
    }

    /// Takes a packet; when it is done, if it is the only one.
    pub fn push(&mut self, now: Time, cost: Span, packet: PacketId) -> Option<Time> {
        let cost = match self.cost.jitter > 0.0 {
            true => {
                let factor = 1.0 + self.cost.jitter * (2.0 * self.stream.unit() - 1.0);
                Span::from_secs_f64(cost.as_secs_f64() * factor)
            }
            false => cost,
        };
        let idle = self.cpu.next_timeout().is_none();
        self.cpu.push(now, self.protocols, cost, packet);
        self.cpu.next_timeout().filter(|_| idle)
    }
}

impl Medium<'_> {
    /// The processor of a node is done with a packet.
    pub(crate) fn processed(&mut self, at: NodeIndex) -> Delivery {
        let Some(node) = self.nodes[at.0 as usize].cpu.as_deref_mut() else {
            return Delivery::None;
        };
        let done = node.cpu.pop_done(self.engine.now);
        self.engine
            .kernel
            .schedule(node.source, node.cpu.next_timeout());
        let Some((_, id)) = done else {
            return Delivery::None;
        };
        let packet = self.packets.get(id);
        if packet.src == at {
            return match packet.body {
                Body::Group(..) => {
                    self.spread(at, id);
                    Delivery::None
                }
                _ => self.send(at, id),
            };
        }
        node.arrived -= 1;
        self.process(at, id)
    }

    /// Whether sending a packet costs the processor of its node time, which continues with it then.
    #[inline]
    pub(crate) fn charge(&mut self, at: NodeIndex, id: PacketId) -> bool {
        let Some(node) = self.nodes[at.0 as usize].cpu.as_deref_mut() else {
            return false;
        };
        let CpuCost {
            per_sent,
            per_sent_byte,
            ..
        } = node.cost;
        if (per_sent, per_sent_byte) == (Span::ZERO, Span::ZERO) {
            return false;
        }
        let bytes = u64::from(self.packets.get(id).bytes);
        let cost = per_sent + per_sent_byte.times(bytes);
        let begins = node.push(self.engine.now, cost, id);
        if begins.is_some() {
            self.engine.kernel.schedule(node.source, begins);
        }
        true
    }
}
