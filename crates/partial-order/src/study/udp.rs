//! An application above UDP that puts SDUs in order itself: it waits for a missing SDU for a while, then skips it.

use std::collections::{BTreeMap, BTreeSet};

use layercast_core::{Span, Time};

use super::path::Direction;
use super::run::{Delays, FlowRun};
use super::{Run, Setting, StudyError};
use crate::order::{Order, Sdu};

/// Bytes of a header with number and flow.
const HEADER: usize = 8;

struct Application<'a> {
    setting: &'a Setting,
    order: Order,
    /// Numbers of each flow that were delivered or skipped, from `first` on.
    done: Vec<BTreeSet<u64>>,
    first: Vec<u64>,
    waiting: BTreeMap<Sdu, Time>,
    flows: Vec<FlowRun>,
    delays: Delays,
}

pub(super) fn run(setting: &Setting, patience: Span) -> Result<Run, StudyError> {
    let count = setting.flows.len();
    let mut forward = Direction::new(&setting.path, true, "forward", setting.seed);
    let end = Time::ZERO + Span::from_secs_f64(setting.seconds);
    let mut sent: Vec<(Time, Sdu)> = Vec::new();
    for flow in 0..count {
        let numbers = (0..).map(|number| (setting.due(flow, number), Sdu { flow, number }));
        sent.extend(numbers.take_while(|&(due, _)| due < end));
    }
    sent.sort_unstable();
    let mut application = Application {
        setting,
        order: setting.order()?,
        done: vec![BTreeSet::new(); count],
        first: vec![0; count],
        waiting: BTreeMap::new(),
        flows: vec![FlowRun::default(); count],
        delays: Delays::new(count),
    };
    let mut arrivals = Vec::new();
    for (due, sdu) in sent {
        application.flows[sdu.flow].submitted += 1;
        let bytes = usize::from(setting.flows[sdu.flow].bytes) + HEADER;
        arrivals.extend(forward.carry(bytes, due).map(|at| (at, sdu)));
    }
    // The path keeps the sequence: arrivals ascend.
    for (at, sdu) in arrivals {
        application.skip_until(at, patience);
        application.arrive(sdu, at);
    }
    application.skip_until(Time::from_ps(u64::MAX), patience);
    let mut flows = application.flows;
    for flow in &mut flows {
        flow.lost = flow.submitted - flow.delivered;
    }
    Ok(application.delays.finish(flows, &forward, true))
}

impl Application<'_> {
    fn missing(&self, sdu: Sdu) -> Vec<Sdu> {
        let chains = 0..self.order.chains();
        let before = chains.flat_map(|flow| {
            (self.first[flow]..self.order.need(sdu, flow)).map(move |number| Sdu { flow, number })
        });
        before
            .filter(|it| !self.done[it.flow].contains(&it.number))
            .collect()
    }

    fn settle(&mut self, sdu: Sdu) {
        let Sdu { flow, number } = sdu;
        self.done[flow].insert(number);
        while self.done[flow].remove(&self.first[flow]) {
            self.first[flow] += 1;
        }
    }

    fn arrive(&mut self, sdu: Sdu, now: Time) {
        if sdu.number < self.first[sdu.flow] || self.done[sdu.flow].contains(&sdu.number) {
            self.flows[sdu.flow].late += 1;
            return;
        }
        self.waiting.insert(sdu, now);
        self.release(now);
    }

    fn release(&mut self, now: Time) {
        while let Some(sdu) = self
            .waiting
            .keys()
            .copied()
            .find(|&sdu| self.missing(sdu).is_empty())
        {
            self.waiting.remove(&sdu);
            self.settle(sdu);
            self.flows[sdu.flow].delivered += 1;
            self.delays
                .delivered(self.setting, sdu.flow, sdu.number, now);
        }
    }

    /// Skips what SDUs waited for too long.
    fn skip_until(&mut self, until: Time, patience: Span) {
        while let Some((arrived, sdu)) = self.waiting.iter().map(|(&sdu, &at)| (at, sdu)).min() {
            let due = arrived + patience;
            if due > until {
                return;
            }
            for missing in self.missing(sdu) {
                if !self.waiting.contains_key(&missing) {
                    self.settle(missing);
                }
            }
            self.release(due);
        }
    }
}
