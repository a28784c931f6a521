use layercast_core::{FlowId, Observer, PortId, Span, Time, TraceEvent};
use layercast_wire::Resource;

use crate::switch::flow::{Hold, Upstream};
use crate::switch::gone::Told;
use crate::switch::{Switch, SwitchEvent, subject};

/// Why a branch is taken away by time alone.
enum Overdue {
    Silent,
    Unanswered,
}

/// What happens once per RES interval: soft state expires, links are divided, demands go upstream.
impl Switch {
    pub(crate) fn run_interval<O: Observer>(&mut self, now: Time, obs: &mut O) {
        obs.on(now, subject(&self.config), || TraceEvent::Timer {
            name: "res_interval",
        });
        self.expire_requests(now, obs);
        self.expire_branches(now, obs);
        self.expire_changes(now);
        self.expire_ways(now, obs);
        self.retry_joins(now);
        let changed = self.ports.iter().filter(|port| port.regrant);
        let changed: Vec<PortId> = changed.map(|port| port.id).collect();
        for port in changed {
            self.regrant(now, port, "fair share of the link", obs);
        }
        self.run_virtual_ends(now, obs);
        for id in self.flows.ids() {
            if self.flows.by_id(id).is_some_and(|flow| flow.res_pending) {
                self.send_res(now, id, obs);
            }
        }
    }

    pub(crate) fn life(&self) -> Span {
        self.config.era.times(3)
    }

    /// Demands not renewed for three eras are void; a branch without any goes to level 0.
    fn expire_requests<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let life = self.life();
        let (mut silent, mut gone, mut left) = (Vec::new(), Vec::new(), Vec::new());
        let ports = &self.ports;
        for flow in self.flows.iter_mut() {
            let period = Span::from_ms(u64::from(flow.info.policy.signal_period_ms));
            let report_life = period.times(3).max(life);
            flow.gone.expire(now);
            flow.members.expire(now, report_life, &mut gone);
            for (member, heard) in gone.drain(..) {
                // A member is silent before its session is known to be lost: then the source hears of it.
                match ports.is_up(heard.port) {
                    true => flow.gone.add(now, member, heard, Told::No),
                    false => left.push((flow.info.id, (member, heard))),
                }
            }
            for branch in &mut flow.branches {
                let before = branch.requests.len();
                branch
                    .requests
                    .retain(|request| now.since(request.at) < life);
                if branch.requests.len() < before {
                    silent.push(branch.port);
                }
            }
        }
        for (flow, (member, heard)) in left {
            self.member_lost(now, flow, member, heard);
        }
        for port in silent {
            self.regrant(now, port, "silent for three eras", obs);
        }
    }

    fn expire_branches<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let life = self.life();
        let mut overdue: Vec<(FlowId, PortId, Overdue)> = Vec::new();
        for flow in self.flows.iter() {
            for branch in &flow.branches {
                let silent = now.since(branch.heard) >= life;
                match branch.hold {
                    Hold::Tentative { until } if until <= now => {
                        overdue.push((flow.info.id, branch.port, Overdue::Unanswered));
                    }
                    _ if silent
                        && (branch.members.is_empty() || !self.ports.is_up(branch.port)) =>
                    {
                        overdue.push((flow.info.id, branch.port, Overdue::Silent));
                    }
                    _ => {}
                }
            }
        }
        for (flow, port, why) in overdue {
            match why {
                Overdue::Silent => {
                    obs.on(now, subject(&self.config), || TraceEvent::Decision {
                        flow,
                        what: "release",
                        value: 0,
                        reason: "silent for three eras after the link was lost",
                    });
                    self.emit(SwitchEvent::BranchExpired { flow, port });
                    self.all_lost(now, flow, port);
                }
                Overdue::Unanswered => {
                    let waited = self.config.tentative.as_ms();
                    let mut refusal = self.refusal(Resource::Timeout, waited, 0);
                    let known = self.flows.by_id(flow).filter(|flow| !flow.rooted);
                    if let Some(core) = known.and_then(|flow| flow.info.core.clone()) {
                        refusal.node = core;
                    }
                    self.refuse(now, flow, port, refusal, obs);
                }
            }
            self.remove_branch(flow, port);
        }
    }

    /// A join that was never answered is sent again while somebody still wants the flow.
    fn retry_joins(&mut self, now: Time) {
        let patience = self.config.tentative;
        let unanswered = self.flows.iter().filter(|flow| match flow.link {
            Upstream::Joining { since } => now.since(since) >= patience,
            _ => false,
        });
        let unanswered: Vec<FlowId> = unanswered.map(|flow| flow.info.id).collect();
        for id in unanswered {
            self.rejoin(now, id);
        }
    }
}
