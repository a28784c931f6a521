use layercast_core::{
    AdaptMode, FilterKind, FlowId, FlowSpec, GroupInfo, GroupState, Layer, Level, Media, QosOption,
    QosPolicy, Refusal, RequestId, Resource, Serial, Span, Status, Time, earliest,
};
use layercast_wire::{FlowInfo, Signal};

use super::{Phase, Source, drs_of, largest};
use crate::SourceEvent;
use crate::manage::{changed, group_info};
use crate::source::pacing::paced;

/// How long the members may take to agree to a change (specs/mets.md 2.10).
const PATIENCE: Span = Span::from_secs(5);
/// How often a change that is not in force yet is repeated, so that no node forgets it.
const REFRESH: Span = Span::from_secs(2);

/// A change on its way through the tree.
#[derive(Debug)]
pub(super) struct Renegotiation {
    /// Whose answer it is; `None`: the mediator of the group proposes it.
    request: Option<RequestId>,
    number: u32,
    /// The flow as it would be.
    pub(super) flow: FlowInfo,
    /// When the change is abandoned if not all members agree; after that, when waiting for a GOP start ends.
    until: Time,
    refresh: Time,
    agreed: bool,
}

impl Renegotiation {
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(Some(self.until), Some(self.refresh))
    }
}

/// The management interface of a server (specs/mets.md 2.2): what it changes of the flow, it changes for
/// every member.
impl Source {
    /// Binds the media socket to the management socket: from here on frames are taken and requests
    /// served.
    pub fn register(&mut self) {
        self.config.registered = true;
        if self.asked {
            let room = self.room();
            self.events.push_back(SourceEvent::NeedFrames(room));
        }
    }

    /// Requests a change of the flow or of its maintenance (`changeQoS`).
    ///
    /// Exactly one [`SourceEvent::Answer`] follows; unless it is [`Status::Ok`] nothing has changed. A change
    /// of the flow is first agreed with every member and takes effect at a GOP start; media continue meanwhile.
    pub fn request(&mut self, now: Time, id: RequestId, option: QosOption) {
        match self.try_request(now, id, option) {
            Ok(true) => self.answer(id, Status::Ok),
            // The members answer.
            Ok(false) => {}
            Err(status) => self.answer(id, status),
        }
    }

    /// What there is to know of the group (`getGroupInfo`).
    pub fn group_info(&self) -> GroupInfo {
        let cells = self.config.carriage == layercast_wire::Carriage::Cells;
        let state = match self.phase {
            Phase::Live => GroupState::Open,
            Phase::Draining { .. } => GroupState::Draining,
            Phase::Lingering { .. } => GroupState::Lingering,
            Phase::Closed => GroupState::Closed,
        };
        let members = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        group_info(&self.info, cells.then_some(self.config.vci), members, state)
    }

    /// Takes no more frames; a change under way is void.
    pub(super) fn drain_until(&mut self, now: Time, until: Time) {
        self.give_up(Status::Closed);
        self.phase = Phase::Draining { until };
        self.drained(now);
    }

    /// Whether the request is done (`true`) or for the members to answer.
    fn try_request(&mut self, now: Time, id: RequestId, option: QosOption) -> Result<bool, Status> {
        if !self.config.registered {
            return Err(Status::NotRegistered);
        }
        if self.phase != Phase::Live {
            return Err(Status::Closed);
        }
        if self.change.is_some() {
            return Err(Status::Busy);
        }
        option.validate()?;
        match option {
            // How the server itself is looked after.
            QosOption::Maint | QosOption::Monitor | QosOption::Signal | QosOption::Event(_) => {
                let policy = changed(&self.policy, &option)?;
                self.set_own_policy(now, policy);
                Ok(true)
            }
            QosOption::FlowSpec(spec) => {
                let spec = self.check_spec(spec)?;
                let mut flow = self.info.clone();
                flow.respecify(spec);
                self.propose(now, Some(id), flow);
                Ok(false)
            }
            QosOption::QosPolicy(_) | QosOption::Adapt(_) | QosOption::Filter(_) => {
                let policy = changed(&self.info.policy, &option)?;
                self.check_filters(&policy)?;
                let flow = FlowInfo {
                    policy,
                    ..self.info.clone()
                };
                self.propose(now, Some(id), flow);
                Ok(false)
            }
        }
    }

    fn check_spec(&self, spec: FlowSpec) -> Result<FlowSpec, Status> {
        let invalid = |field: &str, problem: &str| {
            Err(Status::Invalid {
                field: field.into(),
                problem: problem.into(),
            })
        };
        if spec.flow_id != FlowId(0) && spec.flow_id != self.info.id {
            return invalid("flow_id", "is that of another flow");
        }
        let (is, was) = (spec.composition, self.info.spec.composition);
        if is != was {
            let problem = format!(
                "is {is} and cannot follow {was}: close the flow and open one with {is} layers"
            );
            return invalid("composition", &problem);
        }
        let by_rate = matches!(self.config.shaping, super::super::Shaping::Rate { .. });
        if by_rate && spec.layers.base.mean.0 == 0 {
            return invalid("layers", "need a base layer for a flow shaped by its rate");
        }
        // The caller knows the media; a base layer as it is advertised has its parities already.
        let known = self.info.spec.layers.base == spec.layers.base;
        let spec = match self.parities.as_ref().filter(|_| !known) {
            Some(parities) => parities.reserved(&spec),
            None => spec,
        };
        let base = spec.rate_at(Level::BASE);
        if let Some(limit) = self.config.local_limit.filter(|&limit| base > limit) {
            let (needed, available) = (base.0.into(), limit.0.into());
            return Err(Status::Admit(self.refusal(
                Resource::Link,
                needed,
                available,
            )));
        }
        Ok(FlowSpec {
            flow_id: self.info.spec.flow_id,
            ..spec
        })
    }

    /// Filters on coefficients exist for MPEG video, picture dropping where there are layers. Alternative layers pass whole, or
    /// not. What is sealed cannot be filtered on the way, and a branch has place for one filter.
    fn check_filters(&self, policy: &QosPolicy) -> Result<(), Status> {
        let spec = &self.info.spec;
        if !spec.composition.is_additive() && policy.adapt == AdaptMode::Continuous {
            return Err(Status::Invalid {
                field: "adapt".into(),
                problem: "cannot be continuous: alternative layers pass whole, or not".into(),
            });
        }
        let mpeg = matches!(spec.media, Media::Mpeg1 | Media::Mpeg2);
        let sealed = self.keyring.is_some();
        let has = |kind: &FilterKind| match kind {
            FilterKind::Jitter => true,
            _ if sealed || !spec.composition.is_additive() => false,
            FilterKind::PictureDrop => mpeg || spec.top_level() > Level::BASE,
            FilterKind::LowPass(_) | FilterKind::Drs => mpeg,
        };
        if let Some(&kind) = policy.filters.iter().find(|kind| !has(kind)) {
            return Err(Status::NoFilter(kind));
        }
        let of_network = |kind: &&FilterKind| **kind != FilterKind::Jitter;
        if policy.filters.iter().filter(of_network).count() > 1 {
            return Err(Status::Invalid {
                field: "filters".into(),
                problem: "name more than one filter for the network".into(),
            });
        }
        Ok(())
    }

    fn set_own_policy(&mut self, now: Time, policy: QosPolicy) {
        let events = policy.events.iter().copied();
        self.alarms.replace(now, events, &self.monitor);
        self.policy = policy;
    }

    /// Asks the members for a change.
    pub(super) fn propose(&mut self, now: Time, request: Option<RequestId>, mut flow: FlowInfo) {
        flow.revision = self.info.revision.wrapping_add(1);
        flow.path_delay_us = self.first_delay(&flow).as_us();
        flow.spread_us = self.pacer.spread(&paced(&flow)).as_us();
        self.changes = self.changes.wrapping_add(1);
        let number = self.changes;
        self.signals.push_back(Signal::Change {
            flow: Box::new(flow.clone()),
            change: number,
        });
        self.change = Some(Renegotiation {
            request,
            number,
            flow,
            until: now.saturating_add(PATIENCE),
            refresh: now.saturating_add(REFRESH),
            agreed: false,
        });
    }

    /// All members agree; the change takes effect at the next GOP start. A change that gives more to a source which holds
    /// a frame back, because its rate is too low for its media, takes effect immediately: the start may be behind minutes
    /// of media.
    pub(super) fn on_change_ack(&mut self, now: Time, number: u32) {
        let gop = self.spec().frame_rate.due(u64::from(self.spec().gop_n));
        let Some(change) = self.change.as_mut().filter(|it| it.number == number) else {
            self.stats.rejected += 1;
            return;
        };
        if change.agreed {
            return;
        }
        change.agreed = true;
        // A flow without GOP starts, or one that pauses, does not wait forever.
        let wait = Span::from_ps(gop.as_ps().saturating_mul(2)) + Span::from_secs(1);
        change.until = now.saturating_add(wait);
        let more = change.flow.spec.layers.base.mean > self.info.spec.layers.base.mean;
        let idle = self.scheduler.is_empty() && self.held.is_none();
        if idle || self.held.is_some() && more {
            self.enforce(now);
        }
    }

    /// Somebody refuses: nothing changes.
    pub(super) fn on_change_nak(&mut self, number: u32, refusal: Refusal) {
        if self
            .change
            .as_ref()
            .is_none_or(|change| change.number != number || change.agreed)
        {
            self.stats.rejected += 1;
            return;
        }
        self.give_up(match refusal.resource {
            Resource::Timeout => Status::TimedOut,
            _ => Status::Admit(refusal),
        });
    }

    /// Repeats a change that is not in force yet, and ends one that takes too long.
    pub(super) fn run_change(&mut self, now: Time) {
        let Some(change) = &mut self.change else {
            return;
        };
        if now >= change.until {
            match change.agreed {
                true => self.enforce(now),
                false => self.give_up(Status::TimedOut),
            }
        } else if now >= change.refresh {
            change.refresh = now.saturating_add(REFRESH);
            let (flow, change) = (Box::new(change.flow.clone()), change.number);
            self.signals.push_back(Signal::Change { flow, change });
        }
    }

    /// Whether a change waits for a GOP start.
    pub(super) fn change_is_due(&self) -> bool {
        self.change.as_ref().is_some_and(|change| change.agreed)
    }

    /// Puts a change into force from the next frame on, which is due at the next deadline.
    pub(super) fn enforce(&mut self, now: Time) {
        let Some(change) = self.change.take() else {
            return;
        };
        let from = match self.numbering.end() {
            Some(end) => end.seq.plus(1),
            None => Serial(0),
        };
        let old = std::mem::replace(&mut self.info, change.flow);
        let spec = self.info.spec.clone();
        self.scheduler.set_rate(spec.frame_rate, spec.gop_n);
        let largest = largest(&self.packetiser, self.parities.as_ref(), &spec);
        self.pacer.set_spec(now, &paced(&self.info), largest);
        if let Some(parities) = &mut self.parities {
            parities.set_spec(&spec);
        }
        if old.spec != spec || old.policy.adapt != self.info.policy.adapt {
            self.drs = drs_of(&self.info);
        }
        let period = Span::from_ms(u64::from(self.info.policy.signal_period_ms));
        self.members.set_period(period);
        self.shape(now);
        self.signals.push_back(Signal::ChangeEnd {
            flow: Box::new(self.info.clone()),
            change: change.number,
            from: Some(from),
        });
        if old.policy != self.info.policy {
            // What the server set for itself stays.
            let (mode, events) = (self.policy.mode, self.policy.events.clone());
            self.policy = QosPolicy {
                mode,
                events,
                ..self.info.policy.clone()
            };
        }
        if old.policy.filters != self.info.policy.filters {
            let filters = self.info.policy.filters.clone();
            self.events.push_back(SourceEvent::FilterChanged(filters));
        }
        self.events.push_back(SourceEvent::Renegotiated {
            flow: Box::new(self.info.clone()),
        });
        self.tell_group_rate(old.group_bps);
        if let Some(request) = change.request {
            self.answer(request, Status::Ok);
        }
    }

    /// Calls a change off.
    fn give_up(&mut self, status: Status) {
        let Some(change) = self.change.take() else {
            return;
        };
        self.signals.push_back(Signal::ChangeEnd {
            flow: Box::new(self.info.clone()),
            change: change.number,
            from: None,
        });
        if let Some(request) = change.request {
            self.answer(request, status);
        }
    }

    fn answer(&mut self, id: RequestId, status: Status) {
        self.events.push_back(SourceEvent::Answer { id, status });
    }

    /// Longest the largest base-layer frame takes through the shaper, and a tick of it
    /// (specs/mets.md 2.10).
    pub(super) fn first_delay(&self, flow: &FlowInfo) -> Span {
        let spec = paced(flow);
        self.pacer.drain(&spec, spec.layers[Layer::Base].burst)
    }

    /// Periodic signals and alarms of the server (specs/mets.md 2.9).
    pub(super) fn run_signals(&mut self, now: Time) {
        let missed = self.scheduler.missed_total();
        let told = std::mem::replace(&mut self.told_missed, missed);
        self.monitor.on_missed(missed - told);
        while let Some(raised) = self.alarms.poll(now, &self.monitor) {
            self.events.push_back(SourceEvent::Alarm(raised));
        }
        if now < self.next_signal {
            return;
        }
        let period = Span::from_ms(u64::from(self.policy.signal_period_ms.max(1)));
        while self.next_signal <= now {
            self.next_signal = self.next_signal.saturating_add(period);
        }
        if self.policy.mode == layercast_core::MaintMode::Maint {
            return;
        }
        if self.events.len() >= super::MAX_EVENTS {
            // Its window stays open: the next signal covers it too.
            self.stats.merged_signals += 1;
        } else {
            self.monitor.set_level(self.adapter.advertised().level);
            let metric = self.monitor.take_metric(now);
            self.events.push_back(SourceEvent::Metric(Box::new(metric)));
        }
    }
}
