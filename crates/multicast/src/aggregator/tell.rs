//! Reports of an aggregator to the sender.

use layercast_wire::multicast::{Content, Report, Spans, State};

use super::*;
use crate::receipt::receipt;

impl Aggregator {
    /// A receiver can take data again; reports it if the sender waits for it.
    pub(super) fn ready(&mut self, missing: Spans) {
        let Some(collecting) = &self.collecting else {
            return;
        };
        if core::mem::take(&mut self.busy) {
            let report = self.report(collecting, State::Ready(missing));
            self.upstream(Body::Report(Box::new(report)));
        }
    }

    /// Forwards a need that the sender does not know yet.
    pub(super) fn pass_on(&mut self, report: &Report, state: State) {
        let Some(collecting) = &self.collecting else {
            return;
        };
        let report = Report {
            stamp: report.stamp,
            held_us: report.held_us,
            ..self.report(collecting, state)
        };
        self.stats.sent += 1;
        self.upstream(Body::Report(Box::new(report)));
    }

    /// Makes a report of this collection.
    fn report(&self, collecting: &Collecting, state: State) -> Report {
        let alive = self.children.iter();
        let alive = alive.filter(|it| !matches!(it.status, Status::Failed(_)));
        Report {
            member: self.config.member,
            sync: collecting.sync,
            round: collecting.round,
            stamp: collecting.stamp,
            held_us: 0,
            loss: alive.clone().map(|it| it.loss).max().unwrap_or(0),
            buffer: alive.map(|it| it.buffer).min().unwrap_or(0),
            more: false,
            tally: self.tally(),
            state,
        }
    }

    /// Reports what the receivers have and lack.
    pub(super) fn tell(&mut self, now: Time) {
        let tally = self.tally();
        let (Some(session), Some(collecting)) = (&mut self.session, &mut self.collecting) else {
            return;
        };
        if tally.alive == 0 {
            return;
        }
        collecting.reported = true;
        if session.geometry.is_none() {
            let joined = self.children.iter();
            let joined = joined.filter(|it| it.status == Status::Joined);
            let levels = joined.map(|it| it.levels);
            collecting.summary.levels = levels.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)));
        }
        let complete = session.geometry.is_some() && tally.complete == tally.alive;
        session.complete |= complete;
        let counts = session.terms.content == Content::Counts;
        let mut states = collecting.summary.states(counts);
        let busy = self.children.iter().any(|it| it.busy == Some(true));
        if complete {
            let key = self.config.receipt_key.as_ref();
            let member = self.config.member;
            let receipt = receipt(key, session.id, member, &session.digest);
            states = vec![State::Complete { receipt }];
        } else if busy && collecting.summary.is_whole() {
            // No other receiver needs anything.
            self.busy = true;
            states = vec![State::Busy];
        }
        let Some(collecting) = &self.collecting else {
            return;
        };
        let report = self.report(collecting, State::Busy);
        let held = now.since(collecting.since);
        let held_us = u32::try_from(held.as_us()).unwrap_or(u32::MAX);
        let last = states.len().saturating_sub(1);
        for (at, state) in states.into_iter().enumerate() {
            self.stats.sent += 1;
            let report = Report {
                more: at < last,
                held_us,
                state,
                ..report.clone()
            };
            self.upstream(Body::Report(Box::new(report)));
        }
    }
}
