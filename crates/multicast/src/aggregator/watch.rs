//! Observation of an aggregator.

use layercast_core::{Cause, Observer, Subject, TraceEvent};

use super::*;
use crate::watch;

/// The state that the observer knows.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    state: &'static str,
    tally: Tally,
    stats: AggregatorStats,
}

impl Seen {
    pub fn nothing() -> Seen {
        Seen {
            state: "idle",
            tally: Tally::default(),
            stats: AggregatorStats::default(),
        }
    }
}

impl Aggregator {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            node: &self.name,
            machine: "aggregator",
        }
    }

    fn state(&self) -> &'static str {
        match &self.session {
            _ if self.closed => "closed",
            Some(session) if session.complete => "complete",
            Some(session) if session.accepted => "joined",
            Some(_) => "opening",
            None => "idle",
        }
    }

    /// Reports the changes since the last call to the observer.
    #[inline]
    pub(super) fn watch<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if !obs.enabled() {
            return;
        }
        let flow = watch::flow(self.session.as_ref().map_or(0, |it| it.id));
        let (subject, tally) = (self.subject(), self.tally());
        let (then, stats) = (&self.seen.stats, &self.stats);
        let counts = [
            (Cause::Unknown, then.strangers, stats.strangers),
            (Cause::Malformed, then.forged, stats.forged),
        ];
        watch::dropped(obs, now, subject, flow, &counts);
        let numbers = [
            ("alive", self.seen.tally.alive, tally.alive),
            ("complete", self.seen.tally.complete, tally.complete),
            ("failed", self.seen.tally.failed, tally.failed),
        ];
        for (what, before, number) in numbers {
            if before != number {
                obs.on(now, subject, || TraceEvent::Decision {
                    flow,
                    what,
                    value: number.into(),
                    reason: "receivers behind the aggregator",
                });
            }
        }
        let state = self.state();
        watch::state(obs, now, subject, flow, (self.seen.state, state));
        self.seen = Seen {
            state,
            tally,
            stats: self.stats,
        };
    }
}
