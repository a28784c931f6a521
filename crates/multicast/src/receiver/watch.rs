//! Observation of a receiver.

use layercast_core::{Cause, Observer, QosAction, QosEvent, Subject, TraceEvent};

use super::*;
use crate::{measure, watch};

/// The state that the observer knows.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    phase: Phase,
    /// Pending events for the user that the observer knows.
    events: usize,
    stats: ReceiverStats,
}

impl Seen {
    pub fn nothing() -> Seen {
        Seen {
            phase: Phase::Idle,
            events: 0,
            stats: ReceiverStats::default(),
        }
    }

    /// The user has read an event.
    pub fn taken(&mut self) {
        self.events = self.events.saturating_sub(1);
    }
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Joined => "joined",
            Phase::Complete => "complete",
            Phase::Closed => "closed",
        }
    }
}

impl<T: Store> Receiver<T> {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            node: &self.name,
            machine: "receiver",
        }
    }

    /// Data packets of the session that were lost, as far as is known.
    pub(super) fn missing(&self) -> u64 {
        self.session.as_ref().map_or(0, |it| it.missing)
    }

    /// Tells a monitor of a packet that came; `before` it there were this number of duplicates and missing packets.
    #[inline]
    pub(super) fn measure_arrival<O: Observer>(
        &mut self,
        now: Time,
        packet: &Packet,
        (duplicates, missing): (u64, u64),
        obs: &mut O,
    ) {
        if !obs.measures() {
            return;
        }
        let mut measured = self.measured;
        let takes_part = matches!(self.phase, Phase::Joined | Phase::Complete);
        let session = self.session.as_ref().filter(|_| takes_part);
        let session = session.map(|it| it.id);
        let subject = self.subject();
        if session.is_some() {
            measured.follow(obs, now, subject, (session, QosEvent::IN));
        }
        let again = self.stats.duplicates > duplicates;
        let came = (QosAction::Received, again);
        measure::packet(measured, obs, now, subject, packet, came);
        let more = self.missing().saturating_sub(missing);
        measured.missing(obs, now, subject, more);
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
        let mut seen = self
            .seen
            .take()
            .unwrap_or_else(|| Box::new(Seen::nothing()));
        let flow = watch::flow(self.session.as_ref().map_or(0, |it| it.id));
        let subject = self.subject();
        let (then, stats) = (&seen.stats, &self.stats);
        let counts = [
            (Cause::Unknown, then.strangers, stats.strangers),
            (Cause::Duplicate, then.duplicates, stats.duplicates),
            (Cause::Malformed, then.malformed, stats.malformed),
            (Cause::BufferOverflow, then.overflow, stats.overflow),
        ];
        watch::dropped(obs, now, subject, flow, &counts);
        let mut decide = |what, value: i64, reason| {
            obs.on(now, subject, || TraceEvent::Decision {
                flow,
                what,
                value,
                reason,
            });
        };
        let more = |then: u64, now: u64| now.saturating_sub(then) as i64;
        match more(then.rebuilt, stats.rebuilt) {
            0 => {}
            blocks => decide("rebuild", blocks, "enough symbols came"),
        }
        match more(then.suppressed, stats.suppressed) {
            0 => {}
            reports => decide("suppress", reports, "the sender knows already"),
        }
        for event in self.events.iter().skip(seen.events) {
            if let Some((what, value, reason)) = words(event) {
                decide(what, value, reason);
            }
        }
        let phases = (seen.phase.name(), self.phase.name());
        watch::state(obs, now, subject, flow, phases);
        *seen = Seen {
            phase: self.phase,
            events: self.events.len(),
            stats: self.stats,
        };
        self.seen = Some(seen);
    }
}

/// Describes an event as a decision: name, number, reason.
fn words(event: &ReceiverEvent) -> Option<(&'static str, i64, &'static str)> {
    Some(match event {
        ReceiverEvent::Joined => ("join", 0, "announced"),
        ReceiverEvent::Refused(reason) => ("refuse", 0, reason.name()),
        // Such an event comes for nearly each packet of a stream.
        ReceiverEvent::Readable => return None,
        ReceiverEvent::Verify => ("verify", 0, "all packets are present"),
        ReceiverEvent::Complete => ("complete", 0, "the digest is right"),
        ReceiverEvent::Corrupt => ("corrupt", 0, "the digest is wrong"),
        ReceiverEvent::Postponed => ("postponed", 0, "served after the others"),
        ReceiverEvent::Closed { complete, reason } => {
            ("close", i64::from(!*complete), reason.name())
        }
    })
}
