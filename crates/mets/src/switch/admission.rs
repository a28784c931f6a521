use layercast_core::{
    CELL_SIZE, CellRate, FlowId, FlowSpec, FrameRate, Observer, PortId, Refusal, Resource, Span,
    Time, TraceEvent,
};
use layercast_link::{Measured, News, Reservation};
use layercast_qos::{AdmissionLimits, DelayBudget, HostCost};
use layercast_wire::{FlowInfo, Via};

use crate::negotiation;
use crate::switch::flow::Flow;
use crate::switch::{Switch, SwitchEvent, subject};

/// Share of its processor that a switch gives to base layers, in permille (specs/mets.md 2.10).
const CPU_PERMILLE: u16 = 900;

/// Base-layer admission (specs/mets.md 2.10): against reservations only, so enhancement layers in use never block a
/// reservation.
impl Switch {
    /// What the base layer of a flow would reserve on a port, or why it cannot.
    /// A flow that `survived` a restart of this node or port is not tested against the measured rate of the link.
    pub(crate) fn admit(
        &self,
        id: FlowId,
        to: PortId,
        survived: bool,
    ) -> Result<CellRate, Refusal> {
        let flow = self.flows.slot_of(id).and_then(|slot| self.flows.get(slot));
        match flow {
            Some(flow) => self.fits(id, &flow.info, to, survived),
            None => Err(self.refusal(Resource::UnknownFlow, 0, 0)),
        }
    }

    /// Whether the base layer of a flow as `info` has it fits on a port, in place of what the flow
    /// has reserved there.
    ///
    /// Media go one way, so each link of the tree is tested once, in the direction of the media: on
    /// the way from the source to the core as well as on the way from there to the receivers.
    pub(crate) fn fits(
        &self,
        id: FlowId,
        info: &FlowInfo,
        to: PortId,
        survived: bool,
    ) -> Result<CellRate, Refusal> {
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
        let base = info.spec.layers.base;
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
        let mut branches = flow.branches.iter();
        let own = branches.find(|branch| branch.port == to);
        let own = own.map_or(CellRate(0), |branch| branch.reserved());
        let reserved = self.reserved(Some(to)).saturating_sub(own);
        // An estimate without traffic is one of former times: the flow shows what the path carries.
        let is_unknown = port.config.estimated && reserved == CellRate(0);
        match &port.queue.admission {
            Some(_) if survived => {}
            None if is_unknown => {}
            Some(measured) => {
                let more = base.mean.saturating_sub(own);
                measured.check(name, more, self.replaced_on(to))?;
            }
            None => {
                limits.link(name, port.config.line(), reserved, base.mean)?;
                whole.link(name, port.config.capacity(), reserved, base.mean)?;
            }
        }
        if let Some(cost) = self.config.cpu_per_cell {
            let copied = self.reserved(None).saturating_sub(own);
            limits.switch_cpu(name, cost, copied, base.mean)?;
        }
        let is_other = |other: &&Flow| other.info.id != id;
        let others = || self.flows.iter().filter(is_other);
        if let Some(cost) = self.config.sender
            && flow.upstream == PortId::LOCAL
            && (flow.branches.is_empty() || info.revision != flow.info.revision)
        {
            let sent =
                |other: &&Flow| other.upstream == PortId::LOCAL && !other.branches.is_empty();
            limits.host_cpu(
                name,
                loads(cost, others().filter(sent)),
                load(cost, &info.spec),
            )?;
        }
        if let Some(receiver) = port.config.receiver {
            let host = &port.config.name;
            let taken = |other: &&Flow| other.branches.iter().any(|branch| branch.port == to);
            let used = loads(receiver.cost, others().filter(taken));
            limits.host_cpu(host, used, load(receiver.cost, &info.spec))?;
            if let Some(safe) = receiver.safe {
                limits.receiver(host, safe, reserved, base.mean)?;
            }
        }
        let budget = DelayBudget {
            path: Span::from_us(info.path_delay_us),
            drain: self.hop_delay(&info.spec, to),
            ..DelayBudget::default()
        };
        let bound = Span::from_ms(u64::from(info.spec.delay_max_ms));
        // A way that was too long before it came here is refused where it became so.
        if budget.path <= bound && !is_unknown {
            limits.delay(name, budget, bound)?;
        }
        Ok(base.mean)
    }

    /// What this hop adds to the delay of a flow: the link, and its largest base-layer frame on the
    /// line.
    pub(crate) fn hop_delay(&self, spec: &FlowSpec, to: PortId) -> Span {
        let Some(port) = self.ports.get(to) else {
            return Span::ZERO;
        };
        let cell = port.config.line().rate().time_for(CELL_SIZE as u64);
        let drain = cell.times(u64::from(spec.layers.base.burst));
        Span::from_ps(drain.as_ps().saturating_add(port.config.delay.as_ps()))
    }

    /// A flow as it is announced on a port: with the delay of the path to it.
    pub(crate) fn flow_towards(&self, id: FlowId, to: PortId) -> Option<FlowInfo> {
        let slot = self.flows.slot_of(id)?;
        let flow = self.flows.get(slot)?;
        let mut info = flow.info.clone();
        info.via = match (&info.core, flow.rooted) {
            (None, _) | (_, false) => Via::Source,
            _ if to == flow.upstream => Via::Spine,
            _ => Via::Core,
        };
        let delay = self.hop_delay(&info.spec, to);
        info.path_delay_us = info.path_delay_us.saturating_add(delay.as_us());
        if info.core.is_none() {
            info.way.push(self.number);
        }
        let line = self.ports.get(to).and_then(|port| port.config.rate);
        if let Some(line) = line.filter(|_| info.mediation.is_some()) {
            let line = line.as_bps();
            info.path_bps = Some(info.path_bps.map_or(line, |other| other.min(line)));
        }
        Some(info)
    }

    /// Cells/s reserved for base layers on one port, or on all; tentative ones included.
    pub(crate) fn reserved(&self, on: Option<PortId>) -> CellRate {
        let branches = self.flows.iter().flat_map(|flow| &flow.branches);
        branches
            .filter(|branch| on.is_none_or(|port| branch.port == port))
            .fold(CellRate(0), |sum, branch| {
                sum.saturating_add(branch.reserved())
            })
    }

    /// What is reserved on a port for base layers in whose place higher alternative layers pass: the port does not measure them, and they come
    /// back when the port has less room.
    pub fn replaced_on(&self, port: PortId) -> CellRate {
        let flows = self.flows.iter().filter(|flow| flow.is_alternative());
        let branches = flows.flat_map(|flow| &flow.branches);
        let replaced = branches.filter(|branch| branch.port == port && branch.gate.replaces_base());
        replaced.fold(CellRate(0), |sum, branch| {
            sum.saturating_add(branch.reserved())
        })
    }

    /// Has a port ready that admits by measurement.
    pub(crate) fn open_measured(&mut self, now: Time, id: PortId) {
        let Some(port) = self
            .ports
            .get_mut(id)
            .filter(|port| port.queue.admission.is_none())
        else {
            return;
        };
        if let (Some(promise), Some(_)) = (port.config.measured, port.config.rate) {
            let capacity = port.config.capacity().rate();
            port.queue.admission = Measured::new(promise, capacity, now).map(Box::new);
            self.measured.push(id);
        }
    }

    /// Ends the samples, windows and periods of measured ports that are due.
    pub(crate) fn measure(&mut self, now: Time) {
        for &id in &self.measured {
            let port = self.ports.get_mut(id);
            let Some(port) = port.filter(|port| port.queue.admission.is_some()) else {
                continue;
            };
            // What left until now is in the samples that end now.
            port.queue.advance(now);
            if let Some(measured) = &mut port.queue.admission {
                measured.advance(now);
            }
        }
    }

    /// Tells measured ports which reservations they have, and the user what became of their promises.
    pub(crate) fn book(&mut self, now: Time) {
        for index in 0..self.measured.len() {
            let id = self.measured[index];
            let branches = self.flows.iter().filter_map(|flow| {
                let branch = flow.branches.iter().find(|branch| branch.port == id)?;
                let reservation = Reservation {
                    rate: branch.reserved(),
                    committed: branch.is_committed(),
                };
                Some((flow.info.id, reservation))
            });
            let branches = branches.collect();
            let port = self.ports.get_mut(id);
            let Some(measured) = port.and_then(|port| port.queue.admission.as_deref_mut()) else {
                continue;
            };
            measured.book(now, &branches);
            while let Some(news) = self.news_of(id) {
                self.emit(news);
            }
        }
    }

    fn news_of(&mut self, port: PortId) -> Option<SwitchEvent> {
        let config = self.ports.get_mut(port)?;
        let target_ppm = config.config.measured?.late_ppm;
        Some(match config.queue.admission.as_deref_mut()?.news()? {
            News::Ended { late_ppm, kept } => SwitchEvent::PromiseEnded {
                port,
                late_ppm,
                target_ppm,
                kept,
            },
            News::Overcommitted { excess } => SwitchEvent::Overcommitted { port, excess },
        })
    }

    /// The line of a port has another rate.
    pub(crate) fn follow_rate(&mut self, now: Time, id: PortId) {
        if let Some(port) = self.ports.get_mut(id) {
            let capacity = port.config.capacity().rate();
            if let Some(measured) = &mut port.queue.admission {
                measured.set_capacity(now, capacity);
            }
        }
        self.tell_line(id);
    }

    /// Advertises negotiated flows again on a port whose line allows another level than the members behind it know: they answer again
    /// (specs/user-to-user-qos.md 2.4). A rate that changes no level is not worth an exchange.
    fn tell_line(&mut self, port: PortId) {
        for id in self.flows.ids() {
            let told = self.flows.by_id(id).and_then(|flow| flow.told.get(&port));
            let Some(told) = told.copied() else {
                continue;
            };
            let flow = self.flow_towards(id, port);
            let is_other = |it: &FlowInfo| negotiation::level_of_line(it) != told;
            if flow.is_some_and(|it| it.mediation.is_some() && is_other(&it)) {
                self.advertise(id, |it| it == port);
            }
        }
    }

    /// Whether a flow on a measured port may have been in progress before the port began: it says so, and the
    /// neighbours of a node find out within three eras that their channel was lost or that the node started again.
    pub(crate) fn survives(&self, now: Time, id: PortId, again: bool) -> bool {
        let port = self.ports.get(id);
        let measured = port.and_then(|port| port.queue.admission.as_ref());
        again && measured.is_some_and(|it| it.is_young(now, self.config.era.times(3)))
    }

    pub(crate) fn refusal(&self, resource: Resource, needed: u64, available: u64) -> Refusal {
        Refusal {
            node: self.config.name.clone(),
            resource,
            needed,
            available,
            measured: None,
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
        if refusal.measured.is_some()
            && refusal.node == self.config.name
            && let Some(measured) = self
                .ports
                .get_mut(port)
                .and_then(|it| it.queue.admission.as_mut())
        {
            measured.refuse(CellRate(u32::try_from(refusal.needed).unwrap_or(u32::MAX)));
        }
        obs.on(now, subject(&self.config), || TraceEvent::Decision {
            flow,
            what: "refuse",
            value: i64::try_from(refusal.needed).unwrap_or(i64::MAX),
            reason: match refusal.measured {
                Some(_) => "measured rate of the link",
                None => reason(refusal.resource),
            },
        });
        self.emit(SwitchEvent::Refused {
            flow,
            port,
            refusal: refusal.clone(),
        });
        self.signal(port, layercast_wire::Signal::JoinNak { flow, refusal });
    }
}

/// Processor time per second that the base layer of a flow costs a host.
fn load(cost: HostCost, spec: &FlowSpec) -> Span {
    // Of a GOP one frame is of the base layer.
    let FrameRate { num, den } = spec.frame_rate;
    let den = den.saturating_mul(u32::from(spec.gop_n.max(1)));
    cost.load(spec.layers.base.mean, FrameRate { num, den })
}

/// Processor time per second that the base layers of some flows cost a host; a change under way counts if it
/// costs more.
fn loads<'a>(cost: HostCost, flows: impl Iterator<Item = &'a Flow>) -> Span {
    let loads = flows.filter_map(|flow| flow.specs().map(|spec| load(cost, spec)).max());
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
        Resource::Token => "no valid token",
        Resource::TokenExpired => "token expired",
        Resource::StaleProof => "proof not made now",
        Resource::NameInUse => "name in use",
        Resource::Identity => "signed by another source",
        Resource::Timeout => "no answer from upstream",
        Resource::Carriage => "cells here, datagrams there",
        Resource::WantedThroughput
        | Resource::OfferedThroughput
        | Resource::LineThroughput
        | Resource::LevelThroughput
        | Resource::WantedDelay
        | Resource::PathDelay
        | Resource::WantedJitter
        | Resource::WantedErrorRate => "not what the member wants",
    }
}
