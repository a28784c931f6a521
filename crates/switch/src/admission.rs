use layercast_core::{CellRate, FlowId, Observer, PortId, Span, Time, TraceEvent};
use layercast_qos::{self as qos, AdmissionLimits, Amount, DelayBudget};
use layercast_wire::{Refusal, Resource};

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
        let name = &self.config.name;
        let spec = &flow.info.spec;
        let base = spec.layers.base;
        let limits = AdmissionLimits {
            link_permille: port.config.bl_permille,
            cpu_permille: CPU_PERMILLE,
        };
        let whole = AdmissionLimits {
            link_permille: 1_000,
            ..limits
        };
        let reserved = self.reserved(Some(to));
        limits
            .link(name, port.config.line(), reserved, base.mean)
            .and_then(|()| whole.link(name, port.config.capacity(), reserved, base.mean))
            .and_then(|()| match self.config.cpu_per_cell {
                Some(cost) => limits.switch_cpu(name, cost, self.reserved(None), base.mean),
                None => Ok(()),
            })
            .and_then(|()| {
                let cell = port
                    .config
                    .line()
                    .rate()
                    .time_for(layercast_core::CELL_SIZE as u64);
                let budget = DelayBudget {
                    drain: cell.times(u64::from(base.burst)),
                    ..DelayBudget::default()
                };
                let bound = Span::from_ms(u64::from(spec.delay_max_ms));
                limits.delay(name, budget, bound)
            })
            .map_err(on_wire)?;
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

fn on_wire(refusal: qos::Refusal) -> Refusal {
    let amount = |amount| match amount {
        Amount::Cells(rate) => u64::from(rate.0),
        // Per second: a millisecond is a permille.
        Amount::Cpu(span) => span.as_ms(),
        Amount::Delay(span) => span.as_us(),
    };
    Refusal {
        resource: match refusal.resource {
            qos::Resource::Link => Resource::Link,
            qos::Resource::SwitchCpu => Resource::SwitchCpu,
            qos::Resource::HostCpu => Resource::HostCpu,
            qos::Resource::Receiver => Resource::ReceiverRate,
            qos::Resource::Delay => Resource::Delay,
        },
        needed: amount(refusal.needed),
        available: amount(refusal.available),
        node: refusal.node,
    }
}
