//! Packets that are lost, as an observer sees them.

use layercast_core::{Cause, FlowId, Observer, Subject, TraceEvent};

use super::Medium;
use super::packet::Body;
use super::pipe::Offered;
use crate::internet::engine::{Engine, PacketId};
use crate::internet::network::NodeIndex;

impl Medium<'_> {
    /// Whether packets or machines are seen from outside.
    pub(crate) fn is_watched(&self) -> bool {
        self.captured.is_some() || self.engine.obs.enabled()
    }

    /// A link does not deliver a packet.
    #[cold]
    pub(crate) fn lost_on(&mut self, pipe: u32, id: PacketId, offered: Offered) {
        let cause = offered.cause();
        let subject = Subject {
            node: self.pipes[pipe as usize].name(),
            machine: "link",
        };
        let flow = flow_of(&self.packets.get(id).body);
        self.engine
            .obs
            .on(self.engine.now, subject, || lost(flow, cause));
        self.packets.lose(id);
    }

    /// A link does not take a packet whose sender has its line for itself.
    #[cold]
    pub(crate) fn lost_before(&mut self, pipe: u32, cause: Cause) {
        let subject = Subject {
            node: self.pipes[pipe as usize].name(),
            machine: "link",
        };
        let Engine { now, obs, .. } = &mut self.engine;
        obs.on(*now, subject, || lost(FlowId(0), cause));
    }

    /// The processor of a node has no room for a packet.
    #[cold]
    pub(crate) fn lost_at_processor(&mut self, at: NodeIndex, id: PacketId) {
        if let Some(cpu) = &self.nodes[at.0 as usize].cpu {
            let subject = Subject {
                node: &cpu.name,
                machine: "processor",
            };
            let flow = flow_of(&self.packets.get(id).body);
            self.engine
                .obs
                .on(self.engine.now, subject, || lost(flow, Cause::NicOverflow));
        }
        self.packets.lose(id);
    }
}

fn lost(flow: FlowId, cause: Cause) -> TraceEvent<'static> {
    TraceEvent::Lost {
        flow,
        layer: None,
        count: 1,
        cause,
    }
}

/// As the sender names it: by both ports. Links do not look further into packets.
fn flow_of(body: &Body) -> FlowId {
    let (from, to) = match body {
        Body::Tcp(segment) => (segment.src_port, segment.dst_port),
        Body::Udp(datagram) => datagram.ports,
        _ => (0, 0),
    };
    FlowId(u32::from(from) << 16 | u32::from(to))
}
