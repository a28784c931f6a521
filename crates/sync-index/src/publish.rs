//! The last result of a pair of measurement hosts, for all applications of the path (specs/available-bandwidth.md 2.7).

use std::collections::BTreeMap;

use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::outcome::{Estimate, Outcome, OutcomeKind};
use crate::service::{Service, ServiceMap};

/// Blocks after which a result is too old.
const OLD: u64 = 3;

/// A published result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Name of the path.
    pub path: String,
    /// Number of the result; 0: none yet.
    pub number: u64,
    /// Clock of the publisher, nanoseconds.
    pub t_ns: u64,
    /// Age of the result in milliseconds; null without one.
    pub age_ms: Option<f64>,
    /// Whether it is older than three blocks, or there is none: then nothing is known.
    pub stale: bool,
    /// What the last block gave; null if that is stale.
    pub outcome: Option<OutcomeKind>,
    /// Probes lost in the block, parts per million.
    pub loss_ppm: Option<u32>,
    /// The index and what belongs to it; null if the block gave none.
    pub estimate: Option<Estimate>,
    /// The best level of each service; null: none is supported, or nothing is known.
    pub levels: BTreeMap<String, Option<String>>,
}

/// Publishes results.
#[derive(Clone, Debug)]
pub struct EstimateServer {
    path: String,
    services: ServiceMap,
    every: Span,
    block: Span,
    next: Time,
    number: u64,
    last: Option<(Time, Outcome)>,
}

impl EstimateServer {
    /// A server of one path that publishes each `every`; `block` is the time of an estimate.
    pub fn new(
        path: String,
        services: ServiceMap,
        every: Span,
        block: Span,
        now: Time,
    ) -> EstimateServer {
        EstimateServer {
            path,
            services,
            every,
            block,
            next: now.saturating_add(every),
            number: 0,
            last: None,
        }
    }

    /// The time of an estimate, where it is only known from a result.
    pub fn set_block(&mut self, block: Span) {
        self.block = block;
    }

    /// Takes a result.
    pub fn on_outcome(&mut self, now: Time, outcome: Outcome) {
        self.number += 1;
        self.last = Some((now, outcome));
    }

    /// The record on demand.
    pub fn record(&self, now: Time) -> Record {
        let age = self.last.map(|(at, _)| now.since(at));
        let stale = age.is_none_or(|age| age > self.block.times(OLD));
        let outcome = self.last.map(|it| it.1).filter(|_| !stale);
        let level = |service: &Service| {
            let place = outcome.and_then(|it| service.grade(&it).ok())?;
            Some(service.level[place].name.clone())
        };
        Record {
            path: self.path.clone(),
            number: self.number,
            t_ns: now.as_ps() / 1_000,
            age_ms: age.map(Span::as_ms_f64),
            stale,
            outcome: outcome.map(|it| it.kind()),
            loss_ppm: outcome.map(|it| it.loss_ppm()),
            estimate: outcome.and_then(|it| it.estimate().copied()),
            levels: (self.services.service.iter())
                .map(|it| (it.name.clone(), level(it)))
                .collect(),
        }
    }

    /// The record of the period, if it is due.
    pub fn poll(&mut self, now: Time) -> Option<Record> {
        if now < self.next {
            return None;
        }
        self.next = now.saturating_add(self.every);
        Some(self.record(now))
    }

    /// When the next record is due.
    pub fn next_timeout(&self) -> Time {
        self.next
    }
}
