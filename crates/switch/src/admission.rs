use layercast_core::{
    CELL_SIZE, CellRate, FlowId, FrameRate, Observer, PortId, Refusal, Resource, Span, Time,
    TraceEvent,
};
use layercast_qos::{AdmissionLimits, DelayBudget, HostCost};

use crate::flow::Flow;
use crate::{Switch, SwitchEvent, subject};

/// Share of its processor that a switch gives to base layers, in permille (mets.md 2.10).
const CPU_PERMILLE: u16 = 900;

/// Base-layer admission (mets.md 2.10): against reservations only, so enhancement layers in use
/// never stand in the way.
impl Switch {
    /// What the base layer of a flow would reserve on a port, or why it cannot.
    pub(crate) fn admit(&self, id: FlowId, to: PortId) -> Result<CellRate, Refusal> {
        let (slot, port) = (self.flows.slot_of(id), self.ports.get(to));
        let flow = slot.and_then(|slot| self.flows.get(slot));
        let (Some(flow), Some(port)) = (flow, port) else {
            return Err(self.refusal(Resource::UnknownFlow, 0, 0));
        };
        // Cells and datagrams are not translated into each other.
        if flow
            .carriage
            .is_some_and(|carriage| carriage != port.config.carriage)
            && to != PortId::LOCAL
        {
            return Err(self.refusal(Resource::Carriage, 0, 0));
        }
        let base = flow.info.spec.layers.base;
        if !self.config.admission {
            return Ok(base.mean);
        }
        let name = &self.config.name;
        let limits = AdmissionLimits {
            link_permille: port.config.bl_permille,
            cpu_permille: CPU_PERMILLE,
        };
        let whole = AdmissionLimits {
            link_permille: 1_000,
            ..limits
        };
        let reserved = self.reserved(Some(to));
        limits.link(name, port.config.line(), reserved, base.mean)?;
        whole.link(name, port.config.capacity(), reserved, base.mean)?;
        if let Some(cost) = self.config.cpu_per_cell {
            limits.switch_cpu(name, cost, self.reserved(None), base.mean)?;
        }
        if let Some(cost) = self.config.sender
            && flow.upstream == PortId::LOCAL
            && flow.branches.is_empty()
        {
            let sent =
                |other: &&Flow| other.upstream == PortId::LOCAL && !other.branches.is_empty();
            let used = load(cost, self.flows.iter().filter(sent));
            limits.host_cpu(name, used, load(cost, [flow]))?;
        }
        if let Some(receiver) = port.config.receiver {
            let host = &port.config.name;
            let taken = |other: &&Flow| other.branches.iter().any(|branch| branch.port == to);
            let used = load(receiver.cost, self.flows.iter().filter(taken));
            limits.host_cpu(host, used, load(receiver.cost, [flow]))?;
            if let Some(safe) = receiver.safe {
                limits.receiver(host, safe, reserved, base.mean)?;
            }
        }
        let cell = port.config.line().rate().time_for(CELL_SIZE as u64);
        let budget = DelayBudget {
            drain: cell.times(u64::from(base.burst)),
            ..DelayBudget::default()
        };
        let bound = Span::from_ms(u64::from(flow.info.spec.delay_max_ms));
        limits.delay(name, budget, bound)?;
        Ok(base.mean)
    }

    /// Cells/s reserved for base layers on one port, or on all; tentative ones included.
    pub(crate) fn reserved(&self, on: Option<PortId>) -> CellRate {
        let branches = self.flows.iter().flat_map(|flow| &flow.branches);
        branches
            .filter(|branch| on.is_none_or(|port| branch.port == port))
            .fold(CellRate(0), |sum, branch| sum.saturating_add(branch.base))
    }

    pub(crate) fn refusal(&self, resource: Resource, needed: u64, available: u64) -> Refusal {
        Refusal {
            node: self.config.name.clone(),
            resource,
            needed,
            available,
        }
    }

    /// Passes a refusal on to a port.
    pub(crate) fn refuse<O: Observer>(
        &mut self,
        now: Time,
        flow: FlowId,
        port: PortId,
        refusal: Refusal,
        obs: &mut O,
    ) {
        obs.on(now, subject(&self.config), || TraceEvent::Decision {
            flow,
            what: "refuse",
            value: i64::try_from(refusal.needed).unwrap_or(i64::MAX),
            reason: reason(refusal.resource),
        });
        self.emit(SwitchEvent::Refused {
            flow,
            port,
            refusal: refusal.clone(),
        });
        self.signal(port, layercast_wire::Signal::JoinNak { flow, refusal });
    }
}

/// Processor time per second that the base layers of some flows cost a host.
fn load<'a>(cost: HostCost, flows: impl IntoIterator<Item = &'a Flow>) -> Span {
    let loads = flows.into_iter().map(|flow| {
        let spec = &flow.info.spec;
        // Of a GOP one frame is of the base layer.
        let FrameRate { num, den } = spec.frame_rate;
        let den = den.saturating_mul(u32::from(spec.gop_n.max(1)));
        cost.load(spec.layers.base.mean, FrameRate { num, den })
    });
    loads.fold(Span::ZERO, |sum, load| {
        Span::from_ps(sum.as_ps().saturating_add(load.as_ps()))
    })
}

fn reason(resource: Resource) -> &'static str {
    match resource {
        Resource::Link => "bandwidth of the link",
        Resource::SwitchCpu => "processor of the switch",
        Resource::HostCpu => "processor of the host",
        Resource::ReceiverRate => "capacity of the receiver",
        Resource::Delay => "delay bound",
        Resource::TooManyMembers => "too many members",
        Resource::TooManyFlows => "too many flows",
        Resource::UnknownFlow => "no such flow",
        Resource::Policy => "policy of the flow",
        Resource::Timeout => "no answer from upstream",
        Resource::Carriage => "cells here, datagrams there",
    }
}
