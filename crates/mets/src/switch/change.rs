use layercast_core::{CellRate, FlowId, Observer, PortId, Serial, Time, TraceEvent};
use layercast_wire::{FlowInfo, Member, Refusal, Resource, Signal};

use crate::switch::{Switch, subject};

/// A change of a flow that was proposed and is not in force yet.
#[derive(Debug)]
pub(crate) struct Change {
    pub number: u32,
    /// The flow as it would be.
    pub flow: FlowInfo,
    /// What was reserved for it is given up then.
    pub until: Time,
    /// Members downstream that have not answered.
    waiting: Vec<(PortId, Member)>,
}

/// How a flow is renegotiated (specs/mets.md 2.2, 2.10): what is more is reserved tentatively at every hop,
/// the answers are merged on their way up, and the source says how it ended.
impl Switch {
    /// The source asks whether a change can be had.
    pub(crate) fn on_change<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        info: FlowInfo,
        number: u32,
        obs: &mut O,
    ) {
        let until = now.saturating_add(self.config.tentative);
        let id = info.id;
        let Some(flow) = self.flows.by_id(id).filter(|flow| {
            flow.upstream == from && flow.ending.is_none() && info.succeeds(&flow.info)
        }) else {
            self.stats.rejected_signals.unknown += 1;
            return;
        };
        let repeated = flow
            .change
            .as_mut()
            .filter(|change| change.number == number);
        if let Some(change) = repeated {
            change.until = until;
            let mut ports: Vec<PortId> = change.waiting.iter().map(|(port, _)| *port).collect();
            ports.dedup();
            for port in ports {
                self.tell_change(id, port);
            }
            return self.agree_if_all_did(id);
        }
        self.void_change(id);
        if let Err(refusal) = self.reserve_change(id, &info) {
            obs.on(now, subject(&self.config), || TraceEvent::Decision {
                flow: id,
                what: "refuse_change",
                value: i64::from(number),
                reason: "a reservation cannot be raised",
            });
            self.void_change(id);
            return self.answer_change(id, number, Some(refusal));
        }
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let branches = flow.branches.iter();
        let waiting = branches
            .flat_map(|branch| {
                let members = branch.members.iter();
                members.map(|member| (branch.port, member.clone()))
            })
            .collect();
        flow.change = Some(Change {
            number,
            flow: info,
            until,
            waiting,
        });
        let ports: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
        for port in ports {
            self.tell_change(id, port);
        }
        self.agree_if_all_did(id);
    }

    /// Somebody below agrees, or does not.
    pub(crate) fn on_change_answer(
        &mut self,
        from: PortId,
        id: FlowId,
        member: &Member,
        number: u32,
        refusal: Option<Refusal>,
    ) {
        let known = self.flows.by_id(id);
        let change = known.and_then(|flow| flow.change.as_mut());
        let Some(change) = change.filter(|change| change.number == number) else {
            self.stats.rejected_signals.answer += 1;
            return;
        };
        let before = change.waiting.len();
        change
            .waiting
            .retain(|(port, other)| *port != from || other != member);
        if change.waiting.len() == before {
            // Said before, or by somebody who came since.
            return;
        }
        match refusal {
            Some(refusal) => {
                self.void_change(id);
                self.answer_change(id, number, Some(refusal));
            }
            None => self.agree_if_all_did(id),
        }
    }

    /// The change is in force, or void.
    pub(crate) fn on_change_end<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        info: FlowInfo,
        number: u32,
        first: Option<Serial>,
        obs: &mut O,
    ) {
        let id = info.id;
        let Some(flow) = self.flows.by_id(id).filter(|flow| flow.upstream == from) else {
            self.stats.rejected_signals.unknown += 1;
            return;
        };
        let in_force = first.is_some() && info.succeeds(&flow.info);
        if !in_force && !info.is_same(&flow.info) {
            self.stats.rejected_signals.unknown += 1;
            return;
        }
        match in_force {
            true => self.adopt(now, info, obs),
            false => self.void_change(id),
        }
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let branches: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
        for &port in &branches {
            let Some(flow) = self.flow_towards(id, port) else {
                return;
            };
            self.signal(
                port,
                Signal::ChangeEnd {
                    flow: Box::new(flow),
                    change: number,
                    from: first,
                },
            );
        }
        if in_force {
            // Those that may join later, or again.
            self.advertise(id, |port| port != from && !branches.contains(&port));
        }
    }

    /// A flow is now what `info` says. Branches whose base layer was not reserved before, because
    /// the question never came here, are given up if it does not fit.
    pub(crate) fn adopt<O: Observer>(&mut self, now: Time, info: FlowInfo, obs: &mut O) {
        let id = info.id;
        let base = info.spec.layers.base.mean;
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let asked = flow.change.take().is_some_and(|it| it.flow.is_same(&info));
        let ports: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
        for port in ports {
            let fits = match asked {
                true => Ok(base),
                false => self.fits(id, &info, port, false),
            };
            let refusal = match fits {
                Ok(base) => {
                    if let Some(branch) = self.flows.by_id(id).and_then(|flow| flow.branch(port)) {
                        branch.base = base;
                        branch.extra = CellRate(0);
                    }
                    continue;
                }
                Err(refusal) => refusal,
            };
            let why = "the flow grew while the link was lost";
            self.revoke(now, id, port, refusal, why, obs);
        }
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        flow.selector.set_spec(&info.spec);
        flow.info = info;
        self.renew_filters(now, id);
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let ports: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
        for port in ports {
            self.regrant(now, port, "the flow was renegotiated", obs);
        }
    }

    /// Calls a change off: what was reserved for it is free again.
    pub(crate) fn void_change(&mut self, id: FlowId) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        flow.change = None;
        for branch in &mut flow.branches {
            branch.extra = CellRate(0);
        }
    }

    /// Gives up changes of which nothing was heard for too long.
    pub(crate) fn expire_changes(&mut self, now: Time) {
        for id in self.flows.ids() {
            let due = |change: &mut Change| change.until <= now;
            let flow = self.flows.by_id(id);
            let Some(change) = flow.and_then(|flow| flow.change.take_if(due)) else {
                continue;
            };
            self.void_change(id);
            let waited = self.config.tentative.as_ms();
            if let Some((port, _)) = change.waiting.first() {
                let neighbour = self.ports.get(*port).map(|port| port.config.name.clone());
                let refusal = Refusal {
                    node: neighbour.unwrap_or_default(),
                    ..self.refusal(Resource::Timeout, waited, 0)
                };
                self.answer_change(id, change.number, Some(refusal));
            }
            let Some(flow) = self.flows.by_id(id) else {
                continue;
            };
            let ports: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
            for port in ports {
                let Some(flow) = self.flow_towards(id, port) else {
                    continue;
                };
                self.signal(
                    port,
                    Signal::ChangeEnd {
                        flow: Box::new(flow),
                        change: change.number,
                        from: None,
                    },
                );
            }
        }
    }

    /// Removes the members that are gone from those awaited: they cannot answer any more.
    pub(crate) fn excuse(&mut self, id: FlowId, gone: impl Fn(PortId, &Member) -> bool) {
        let flow = self.flows.by_id(id);
        let Some(change) = flow.and_then(|flow| flow.change.as_mut()) else {
            return;
        };
        let before = change.waiting.len();
        change.waiting.retain(|(port, member)| !gone(*port, member));
        if change.waiting.len() < before {
            self.agree_if_all_did(id);
        }
    }

    /// Somebody joins while a change is under way: it must have room for that too, and is asked.
    pub(crate) fn include(
        &mut self,
        id: FlowId,
        port: PortId,
        member: &Member,
    ) -> Result<(), Refusal> {
        let flow = self.flows.by_id(id);
        let Some(change) = flow.and_then(|flow| flow.change.as_mut()) else {
            return Ok(());
        };
        let info = change.flow.clone();
        if !change.waiting.is_empty() {
            change.waiting.push((port, member.clone()));
        }
        let base = self.fits(id, &info, port, false)?;
        if let Some(branch) = self.flows.by_id(id).and_then(|flow| flow.branch(port)) {
            branch.extra = base.saturating_sub(branch.base);
        }
        Ok(())
    }

    /// Passes a change that is under way on to a port.
    pub(crate) fn tell_change(&mut self, id: FlowId, port: PortId) {
        let delay = self.hop_delay_of_change(id, port);
        let flow = self.flows.by_id(id);
        let Some(change) = flow.and_then(|flow| flow.change.as_ref()) else {
            return;
        };
        let mut flow = change.flow.clone();
        flow.path_delay_us = flow.path_delay_us.saturating_add(delay.as_us());
        let change = change.number;
        let flow = Box::new(flow);
        self.signal(port, Signal::Change { flow, change });
    }

    fn hop_delay_of_change(&self, id: FlowId, port: PortId) -> layercast_core::Span {
        let flow = self.flows.slot_of(id).and_then(|slot| self.flows.get(slot));
        let change = flow.and_then(|flow| flow.change.as_ref());
        change.map_or_else(Default::default, |change| {
            self.hop_delay(&change.flow.spec, port)
        })
    }

    /// Reserves on every branch what the flow would need more.
    fn reserve_change(&mut self, id: FlowId, info: &FlowInfo) -> Result<(), Refusal> {
        let Some(flow) = self.flows.by_id(id) else {
            return Ok(());
        };
        let ports: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
        for port in ports {
            let base = self.fits(id, info, port, false)?;
            if let Some(branch) = self.flows.by_id(id).and_then(|flow| flow.branch(port)) {
                branch.extra = base.saturating_sub(branch.base);
            }
        }
        Ok(())
    }

    fn agree_if_all_did(&mut self, id: FlowId) {
        let flow = self.flows.by_id(id);
        let change = flow.and_then(|flow| flow.change.as_ref());
        if let Some(change) = change.filter(|change| change.waiting.is_empty()) {
            let number = change.number;
            self.answer_change(id, number, None);
        }
    }

    fn answer_change(&mut self, flow: FlowId, change: u32, refusal: Option<Refusal>) {
        let myself = Member {
            name: self.config.name.clone(),
            id: self.config.id,
        };
        let Some(known) = self.flows.by_id(flow) else {
            return;
        };
        let member = known.joined_as.clone().unwrap_or(myself);
        let upstream = known.upstream;
        let answer = match refusal {
            None => Signal::ChangeAck {
                flow,
                member,
                change,
            },
            Some(refusal) => Signal::ChangeNak {
                flow,
                member,
                change,
                refusal,
            },
        };
        self.signal(upstream, answer);
    }
}
