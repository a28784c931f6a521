use std::collections::VecDeque;

use layercast_core::{
    CellRate, FilterKind, FlowId, LeaveReason, Level, MaintMode, Metric, Observer, QosEvent,
    Quality, Span, Subject, Time, TraceEvent,
};
use layercast_qos::Advice;
use layercast_wire::{AdapterKind, AdapterMsg, Carriage, LinkPdu, MemberReport, Signal};

use super::{Session, Sink};
use crate::measure;
use crate::sink::adapter::{Adapted, promised};
use crate::{LevelReason, SinkEvent};

/// Upcalls waiting for the user from which on periodic signals are merged (specs/mets.md 2.9).
pub(super) const MAX_UPCALLS: usize = 1_024;

/// What a sink does in eras and periods: the QoS adapter, signals, alarms.
impl Sink {
    pub(super) fn on_adapter<O: Observer>(&mut self, now: Time, message: AdapterMsg, obs: &mut O) {
        let (Some(active), Some(flow)) = (&mut self.active, &self.flow) else {
            return;
        };
        if message.kind != AdapterKind::Adapt
            || message.flow != flow.id
            || message.group != flow.group
        {
            self.stats.dropped.unknown += 1;
            return;
        }
        match active.adapter.on_adapt(now, &message) {
            Adapted::Stale => self.stats.adapt_stale += 1,
            Adapted::From(from, before) => {
                self.stats.adapt += 1;
                self.events.push_back(SinkEvent::Adapt(message));
                let base = flow.spec.layers.base.mean;
                let total = |rate: CellRate| base.saturating_add(rate);
                if message.rate_max != before {
                    self.events.push_back(SinkEvent::RateChanged {
                        from: total(before),
                        to: total(message.rate_max),
                    });
                }
                self.set_level(now, from, LevelReason::Adapt, obs);
            }
        }
    }

    pub(super) fn set_level<O: Observer>(
        &mut self,
        now: Time,
        from: Level,
        reason: LevelReason,
        obs: &mut O,
    ) {
        let Some(active) = &mut self.active else {
            return;
        };
        let to = active.adapter.level();
        active.receiver.monitor.set_level(to);
        push_level(&mut self.events, from, to, reason);
        if let Some(flow) = self.flow.as_ref().filter(|_| from != to) {
            let flow = flow.id;
            obs.on(now, self.subject(), || TraceEvent::Decision {
                flow,
                what: "level",
                value: i64::from(to.get()),
                reason: match reason {
                    LevelReason::Adapt => "adapt",
                    LevelReason::Silent => "adapter silent",
                    LevelReason::Restarted => "restarted",
                    LevelReason::Closed => "closed",
                },
            });
        }
    }

    /// Starts an era: RES, and what the policy wants besides.
    pub(super) fn on_era<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.tell_monitor(now, obs);
        let (Some(active), Some(flow)) = (&mut self.active, &self.flow) else {
            return;
        };
        let congested = active.receiver.monitor.take_congestion();
        if congested != self.congested {
            self.congested = congested;
            self.events.push_back(SinkEvent::Congestion(congested));
        }
        let losing = active.receiver.take_errors(now, obs) > 0;
        let verdict = active
            .adapter
            .judge(now, congested, self.quality.as_ref(), losing);
        let (message, advice) = active.adapter.res(verdict.load, flow);
        let id = flow.id;
        self.stats.res += 1;
        self.pdus.push_back(match self.config.carriage {
            Carriage::Cells => LinkPdu::Cell(message.to_cell()),
            Carriage::Datagrams => LinkPdu::Adapter(message),
        });
        self.events.push_back(SinkEvent::Res(message));
        obs.on(now, self.subject(), || TraceEvent::Decision {
            flow: id,
            what: "res",
            value: i64::from(message.max.get()),
            reason: verdict.reason,
        });
        match advice {
            None => {}
            Some(Advice::Degraded) => self.events.push_back(SinkEvent::Degraded),
            // The owner of the path inserts the filter and answers with FILTER_CHANGED; without an answer the
            // request is repeated while congestion lasts.
            Some(Advice::InsertFilter(kind)) => self.ask_filter(id, Some(kind)),
            Some(Advice::RemoveFilter) => self.ask_filter(id, None),
            Some(Advice::MayRaise(level)) => self.events.push_back(SinkEvent::MayRaise(level)),
            Some(Advice::Disconnect) => self.leave(LeaveReason::Policy),
        }
        self.follow_zones(now);
    }

    /// Tells a QoS monitor that the flow begins, what is promised of it, and that it ends.
    pub(super) fn tell_monitor<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if !obs.measures() {
            return;
        }
        let agreed = self.held_to(now);
        let promised = match (self.session, &self.flow, &self.own) {
            (Session::Joined, Some(flow), Some(own)) => {
                let adapter = self.active.as_ref().map(|it| &it.adapter);
                let gets_all =
                    adapter.is_some_and(|it| it.gets(now, &flow.spec, flow.spec.top_level()));
                let promised = || promised(&self.config, flow, own, gets_all);
                Some((flow.id, agreed.unwrap_or_else(promised)))
            }
            (Session::Closed, ..) => None,
            _ => return,
        };
        let before = std::mem::replace(&mut self.watched, promised);
        let ends = before.filter(|(id, _)| promised.is_none_or(|(now, _)| now != *id));
        if let Some((id, _)) = ends {
            obs.probe(self.subject(), || measure::closed(id, now));
        }
        let Some((id, contract)) = promised.filter(|it| before != Some(*it)) else {
            return;
        };
        if before.is_none_or(|(known, _)| known != id) {
            obs.probe(self.subject(), || measure::opened(id, QosEvent::IN, now));
        }
        for event in QosEvent::agreed(u64::from(id.0), QosEvent::IN, now, &contract) {
            obs.probe(self.subject(), || event);
        }
    }

    /// Takes what a monitor says of the flow: the reports to the source tell it.
    pub fn set_quality(&mut self, quality: Option<Quality>) {
        self.quality = quality;
    }

    fn ask_filter(&mut self, flow: FlowId, filter: Option<FilterKind>) {
        let member = self.member();
        self.signals.push_back(Signal::Filter {
            flow,
            member,
            filter,
        });
    }

    /// A filter in the network was put into the way of this member, or taken away.
    pub(super) fn on_filtered(&mut self, filter: Option<FilterKind>) {
        let Some(active) = &mut self.active else {
            return;
        };
        active.adapter.set_filtered(filter.is_some());
        let mut filters = self.config.policy.filters.clone();
        filters.retain(|own| Some(*own) != filter);
        filters.extend(filter);
        self.events.push_back(SinkEvent::FilterChanged(filters));
    }

    /// Reports to the source and signals to the user.
    pub(super) fn on_report(&mut self, now: Time) {
        let (Some(active), Some(flow)) = (&mut self.active, &self.flow) else {
            return;
        };
        let monitor = &active.receiver.monitor;
        let quantile = |q| monitor.delays().quantile(q).map_or(0.0, Span::as_ms_f64);
        let (delay_ms_p50, delay_ms_p99) = (quantile(0.5), quantile(0.99));
        let stats = active.receiver.stats();
        let report = MemberReport {
            level: active.adapter.level(),
            wanted: Some(self.config.level),
            rate: flow
                .spec
                .layers
                .base
                .mean
                .saturating_add(active.adapter.rate()),
            frames: stats.played,
            lost: stats.lost,
            late: stats.late.base + stats.late.e1 + stats.late.e2,
            delay_ms_p50,
            delay_ms_p99,
            playout_ms: active.receiver.playout().as_ms_f64(),
            packets: stats.repair.map(|repair| repair.packets),
            marked: stats.marked,
            outage_ms: stats.outage_ms,
            end_to_end_ms: active.receiver.recent_delays(now),
            source_late_ms: stats.source_late_ms,
            late_stopped: stats.late_stopped,
            source_clock: stats.source_clock,
            quality: self.quality,
            answer: self.answered(),
            most_bps: self.most_taken(),
            silence: stats.silence,
        };
        if self.session == Session::Joined {
            let flow = flow.id;
            let member = self.member();
            self.signals.push_back(Signal::Report {
                flow,
                member,
                report: Box::new(report),
            });
        }
        if self.config.policy.mode == MaintMode::Maint {
            return;
        }
        if self.events.len() >= MAX_UPCALLS {
            // Its window stays open: the next signal covers it too.
            self.stats.merged_signals += 1;
        } else if let Some(active) = &mut self.active {
            let metric = active.receiver.monitor.take_metric(now);
            self.events.push_back(SinkEvent::Metric(Box::new(metric)));
        }
    }

    /// Tells which alarms fire.
    pub(super) fn on_alarms<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let (Some(active), Some(flow)) = (&mut self.active, &self.flow) else {
            return;
        };
        let flow = flow.id;
        while let Some(raised) = active.alarms.poll(now, &active.receiver.monitor) {
            self.events.push_back(SinkEvent::Alarm(raised));
            let subject = Subject {
                node: &self.config.node,
                machine: "sink",
            };
            obs.on(now, subject, || TraceEvent::Decision {
                flow,
                what: "alarm",
                value: raised.value as i64,
                reason: metric_name(raised.alarm.metric),
            });
        }
    }

    pub(super) fn report_period(&self) -> Span {
        Span::from_ms(u64::from(self.config.policy.signal_period_ms.max(1)))
    }
}

pub(super) fn push_level(
    events: &mut VecDeque<SinkEvent>,
    from: Level,
    to: Level,
    reason: LevelReason,
) {
    if from != to {
        events.push_back(SinkEvent::Level { from, to, reason });
    }
}

fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Loss => "loss",
        Metric::Late => "late",
        Metric::Delay => "delay",
        Metric::Jitter => "jitter",
        Metric::Rate => "rate",
    }
}
