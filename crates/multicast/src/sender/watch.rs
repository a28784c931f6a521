//! Observation of a sender.

use layercast_core::{Cause, Observer, QosAction, QosEvent, Subject, TraceEvent};

use super::*;
use crate::{measure, watch};

/// The state that the observer knows.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    phase: Phase,
    /// Pending events for the user that the observer knows.
    events: usize,
    stats: SenderStats,
}

impl Seen {
    pub fn nothing() -> Seen {
        Seen {
            phase: Phase::Idle,
            events: 0,
            stats: SenderStats::default(),
        }
    }

    /// The user has read an event.
    pub fn taken(&mut self) {
        self.events = self.events.saturating_sub(1);
    }
}

impl<S: Source> Sender<S> {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            node: &self.name,
            machine: "sender",
        }
    }

    /// Tells a monitor of a packet that came, and of the round trip if it `answers` a poll.
    #[inline]
    pub(super) fn measure_arrival<O: Observer>(
        &mut self,
        now: Time,
        packet: &Packet,
        answers: bool,
        obs: &mut O,
    ) {
        if !obs.measures() {
            return;
        }
        let (measured, subject) = (self.measured, self.subject());
        let came = (QosAction::Received, false);
        measure::packet(measured, obs, now, subject, packet, came);
        if let Body::Report(report) = &packet.body
            && answers
            && let Some(round_trip) = self.clock.round_trip(now, report.stamp)
        {
            let held = Span::from_us(report.held_us.into());
            measured.answered(obs, now, subject, round_trip.saturating_sub(held));
        }
    }

    /// Tells a monitor of a packet that leaves.
    #[inline]
    pub(super) fn measure_departure<O: Observer>(
        &mut self,
        now: Time,
        packet: &Packet,
        obs: &mut O,
    ) {
        if !obs.measures() {
            return;
        }
        let again = matches!(&packet.body, Body::Data(data) if data.round > 0);
        let mut measured = self.measured;
        let session = (Some(self.session), QosEvent::OUT);
        measured.follow(obs, now, self.subject(), session);
        let sent = (QosAction::Sent, again);
        measure::packet(measured, obs, now, self.subject(), packet, sent);
        self.measured = measured;
    }

    /// Reports the changes since the last call to the observer.
    #[inline]
    pub(super) fn watch<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if obs.measures() && self.phase == Phase::Closed && self.out.is_empty() {
            let mut measured = self.measured;
            measured.follow(obs, now, self.subject(), (None, 0));
            self.measured = measured;
        }
        if !obs.enabled() {
            return;
        }
        let (flow, subject) = (watch::flow(self.session), self.subject());
        let (then, stats) = (&self.seen.stats, &self.stats);
        let counts = [
            (Cause::Unknown, then.strangers, stats.strangers),
            (Cause::Stale, then.stale, stats.stale),
            (Cause::Malformed, then.forged, stats.forged),
        ];
        watch::dropped(obs, now, subject, flow, &counts);
        for event in self.events.iter().skip(self.seen.events) {
            let (what, value, reason) = words(event);
            obs.on(now, subject, || TraceEvent::Decision {
                flow,
                what,
                value,
                reason,
            });
        }
        let phases = (self.seen.phase.name(), self.phase.name());
        watch::state(obs, now, subject, flow, phases);
        self.seen = Seen {
            phase: self.phase,
            events: self.events.len(),
            stats: self.stats,
        };
    }
}

/// Describes an event as a decision: name, number, reason.
fn words(event: &SenderEvent) -> (&'static str, i64, &'static str) {
    let number = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    // A member's number is a hash of 64 bits; its bits are kept.
    let id = |member: MemberId| member.0 as i64;
    match event {
        SenderEvent::Opened { yes, .. } => ("open", (*yes).into(), "receivers that take part"),
        SenderEvent::Joined(member) => ("join", id(*member), "late join"),
        SenderEvent::PassDone { needy, .. } => {
            ("pass", (*needy).into(), "receivers that lack something")
        }
        SenderEvent::Released { upto } => ("release", number(*upto), "all receivers have it"),
        SenderEvent::Repair { from, .. } => ("repair", number(*from), "a receiver lacks it"),
        SenderEvent::Handshake { missing } => ("handshake", (*missing).into(), "missing answers"),
        SenderEvent::Busy(member) => ("wait", id(*member), "the receiver is busy"),
        SenderEvent::Postponed(member) => ("postpone", id(*member), "the receiver lacks too much"),
        SenderEvent::Delivered(member) => ("delivered", id(*member), "the digest is right"),
        SenderEvent::Ejected { member, .. } => {
            ("eject", id(*member), "slower than the minimum rate")
        }
        SenderEvent::Failed { member, reason } => ("fail", id(*member), reason.name()),
        SenderEvent::Degraded { group_rate } => (
            "degraded",
            number(*group_rate),
            "no single receiver is the cause",
        ),
        SenderEvent::Rate(rate) => ("rate", number(rate.as_bps()), "reports of the receivers"),
        SenderEvent::Closed(Ok(())) => ("close", 0, "delivered"),
        SenderEvent::Closed(Err(failure)) => match failure {
            Failure::NoReceivers => ("close", 1, "no receivers"),
            Failure::Refused => ("close", 1, "all refused"),
            Failure::Integrity => ("close", 1, "group integrity"),
            Failure::Mtu(_) => ("close", 1, "the path drops packets of this size"),
            Failure::User => ("close", 1, "the user"),
            Failure::Content(_) => ("close", 1, "the content"),
        },
    }
}
