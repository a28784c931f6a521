use layercast_core::{
    FilterKind, FlowSpec, GroupInfo, GroupState, LeaveReason, Off, QosOption, QosPolicy, Refusal,
    RequestId, Resource, Serial, Span, Status, Time,
};
use layercast_wire::{FlowInfo, Signal};

use super::{Session, Sink};
use crate::SinkEvent;
use crate::manage::{carried_over, changed, group_info, narrowed, within};

/// The management interface of a client (specs/mets.md 2.2): what it changes is its own affair.
impl Sink {
    /// Binds the media socket to the management socket: from here on requests are served, and the
    /// flow is joined as soon as it is advertised.
    pub fn register(&mut self, now: Time) {
        self.config.registered = true;
        let waits = self.session == Session::Waiting;
        if let Some(flow) = self.flow.clone().filter(|_| waits) {
            self.on_advertise(now, flow, &mut Off);
        }
    }

    /// Asks for a change of what this member gets and how it is looked after (`changeQoS`).
    ///
    /// Exactly one [`SinkEvent::Answer`] follows; unless it is [`Status::Ok`] nothing has changed.
    pub fn request(&mut self, now: Time, id: RequestId, option: QosOption) {
        let status = match self.try_request(now, option) {
            Ok(()) => Status::Ok,
            Err(status) => status,
        };
        self.events.push_back(SinkEvent::Answer { id, status });
    }

    /// What is known of the group, once its flow was advertised (`getGroupInfo`).
    pub fn group_info(&self) -> Option<GroupInfo> {
        let flow = self.flow.as_ref()?;
        let receiver = self.active.as_ref().map(|active| &active.receiver);
        let state = match self.session {
            Session::Closing { .. } => GroupState::Draining,
            Session::Closed => GroupState::Closed,
            _ => GroupState::Open,
        };
        // A client knows of itself.
        let members = u32::from(self.joined());
        let svc = receiver.map(|receiver| receiver.vci).filter(|&vci| vci > 0);
        Some(group_info(flow, svc, members, state))
    }

    /// Leaves the group: the branch is pruned, its reservations released (`leaveGroup`).
    pub fn leave(&mut self, reason: LeaveReason) {
        self.left = Some(reason);
        self.depart();
    }

    /// Why this member left, if it did: its user may not have asked, its policy may.
    pub fn left(&self) -> Option<LeaveReason> {
        self.left
    }

    fn try_request(&mut self, now: Time, option: QosOption) -> Result<(), Status> {
        if !self.config.registered {
            return Err(Status::NotRegistered);
        }
        if matches!(self.session, Session::Closing { .. } | Session::Closed) {
            return Err(Status::Closed);
        }
        option.validate()?;
        match option {
            QosOption::FlowSpec(spec) => self.change_spec(now, spec),
            option => {
                let policy = changed(&self.config.policy, &option)?;
                if let Some(flow) = &self.flow {
                    within(&flow.policy, &policy)?;
                }
                self.change_policy(now, policy)
            }
        }
    }

    fn change_spec(&mut self, now: Time, wish: FlowSpec) -> Result<(), Status> {
        if let Some(flow) = &self.flow {
            let own = own_spec(&self.config.node, flow, Some(&wish))?;
            self.own = Some(own);
        }
        self.config.spec = Some(wish);
        self.reconfigure(now);
        Ok(())
    }

    fn change_policy(&mut self, now: Time, policy: QosPolicy) -> Result<(), Status> {
        let old = &self.config.policy.filters;
        let new = policy.filters.iter();
        // The owner of the media adds the filters of the network; here there is only the jitter filter.
        let mut foreign =
            new.filter(|&&filter| filter != FilterKind::Jitter && !old.contains(&filter));
        if let Some(&kind) = foreign.next() {
            return Err(Status::NoFilter(kind));
        }
        let old = std::mem::replace(&mut self.config.policy, policy);
        if old.filters != self.config.policy.filters {
            let filters = self.config.policy.filters.clone();
            self.events.push_back(SinkEvent::FilterChanged(filters));
        }
        if old.signal_period_ms != self.config.policy.signal_period_ms {
            let next = now.saturating_add(self.report_period());
            self.next_report = self.next_report.map(|_| next);
        }
        self.reconfigure(now);
        Ok(())
    }

    /// The source asks whether a change of the flow can be had.
    pub(super) fn on_change(&mut self, flow: &FlowInfo, change: u32) {
        let member = self.member();
        let joined = matches!(self.session, Session::Joining { .. } | Session::Joined);
        if !joined {
            self.stats.dropped.unknown += 1;
            return;
        }
        let flow_id = flow.id;
        self.signals.push_back(match self.accepts(flow) {
            Ok(()) => Signal::ChangeAck {
                flow: flow_id,
                member,
                change,
            },
            Err(refusal) => Signal::ChangeNak {
                flow: flow_id,
                member,
                change,
                refusal,
            },
        });
    }

    /// A change of the flow is in force from the frame `from` on, or from the next GOP on; or what
    /// was in force stays.
    pub(super) fn renegotiated(&mut self, now: Time, flow: FlowInfo, from: Option<Serial>) {
        let known = self.flow.as_ref();
        if known.is_none_or(|known| !flow.succeeds(known)) {
            return;
        }
        // What the member itself wants of it outlives the change.
        let own = match (&self.own, &self.flow, &self.config.spec) {
            (Some(own), Some(known), Some(_)) => carried_over(&flow.spec, &known.spec, own),
            _ => flow.spec.clone(),
        };
        self.config.spec = self.config.spec.as_ref().map(|_| own.clone());
        let (old, policy) = match &self.flow {
            Some(known) => (known.policy.clone(), flow.policy.clone()),
            None => return,
        };
        if old.filters != policy.filters && self.config.policy.filters == old.filters {
            self.config.policy.filters.clone_from(&policy.filters);
            self.events
                .push_back(SinkEvent::FilterChanged(policy.filters.clone()));
        }
        if old.adapt != policy.adapt && self.config.policy.adapt == old.adapt {
            self.config.policy.adapt = policy.adapt;
        }
        self.own = Some(own);
        self.flow = Some(flow.clone());
        if let (Some(active), Some(own)) = (&mut self.active, &self.own) {
            active.adapter.reconfigure(&self.config, &flow, own);
            active.receiver.renegotiate(&self.config, own, from);
            let alarms = self.config.alarms(own);
            active.alarms.replace(now, alarms, &active.receiver.monitor);
        }
        self.events.push_back(SinkEvent::Renegotiated {
            flow: Box::new(flow),
        });
        if self.negotiated.is_some() {
            self.negotiate_again(now);
        }
    }

    /// Makes everything follow the policy and specification now in force.
    pub(super) fn reconfigure(&mut self, now: Time) {
        let (Some(active), Some(own), Some(flow)) = (&mut self.active, &self.own, &self.flow)
        else {
            return;
        };
        active.adapter.reconfigure(&self.config, flow, own);
        active.receiver.reconfigure(&self.config, own);
        let alarms = self.config.alarms(own);
        active.alarms.replace(now, alarms, &active.receiver.monitor);
    }
}

/// What a member gets of a flow: all of it, or what its own specification leaves of it.
pub(super) fn own_spec(
    node: &str,
    flow: &FlowInfo,
    wish: Option<&FlowSpec>,
) -> Result<FlowSpec, Status> {
    let Some(wish) = wish else {
        return Ok(flow.spec.clone());
    };
    let own = narrowed(&flow.spec, wish)?;
    let needed = Span::from_us(flow.path_delay_us);
    let bound = Span::from_ms(u64::from(own.delay_max_ms));
    if bound > Span::ZERO && needed > bound {
        return Err(Status::Admit(Refusal {
            node: node.into(),
            resource: Resource::Delay,
            needed: needed.as_us(),
            available: bound.as_us(),
            measured: None,
        }));
    }
    Ok(own)
}
