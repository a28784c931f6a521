use std::collections::VecDeque;

use layercast_core::{Span, Time};

use super::{Budget, Class, ThreadSpec, ThreadUse};

#[derive(Debug)]
pub(super) struct Job<J> {
    pub left: Span,
    /// Its place among all jobs.
    pub seq: u64,
    pub is_started: bool,
    pub lock: Option<u32>,
    /// Its logical arrival.
    pub due: Time,
    pub deadline: Time,
    pub job: J,
}

impl<J> Job<J> {
    pub fn new(came: Time, seq: u64, left: Span, lock: Option<u32>, job: J) -> Job<J> {
        Job {
            left,
            seq,
            is_started: false,
            lock,
            due: came,
            deadline: Time::MAX,
            job,
        }
    }
}

/// How urgent a thread is: the least runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Rank {
    tier: Tier,
    key: u64,
    turn: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Tier {
    Critical,
    Normal,
    Workahead,
    Background,
}

#[derive(Debug)]
pub(super) struct Thread<J> {
    pub spec: ThreadSpec,
    pub queue: VecDeque<Job<J>>,
    pub usage: ThreadUse,
    /// Its place among threads of its priority that take turns.
    pub turn: u64,
    /// What it took since its turn began.
    pub slice: Span,
    /// Since it last ran, with work.
    pub waits: Span,
    last_due: Option<Time>,
    left: Span,
    /// When the current period of its budget began.
    period: Time,
}

impl<J> Thread<J> {
    pub fn new(spec: ThreadSpec) -> Thread<J> {
        Thread {
            spec,
            queue: VecDeque::new(),
            usage: ThreadUse::default(),
            turn: 0,
            slice: Span::ZERO,
            waits: Span::ZERO,
            last_due: None,
            left: spec.budget.map_or(Span::MAX, |it| it.time),
            period: Time::ZERO,
        }
    }

    pub fn push(&mut self, now: Time, turn: u64, mut job: Job<J>) {
        if let Class::Realtime {
            interval,
            workahead,
            delay,
        } = self.spec.class
        {
            let earliest = self
                .last_due
                .map_or(now, |last| last.saturating_add(interval));
            job.due = now.max(earliest);
            job.deadline = job.due.saturating_add(delay);
            self.last_due = Some(job.due);
            let early = job.due.since(now) > interval.times(u64::from(workahead));
            self.usage.beyond_workahead += u64::from(early);
        }
        if self.queue.is_empty() {
            (self.turn, self.slice) = (turn, Span::ZERO);
        }
        self.queue.push_back(job);
    }

    /// Its rank with its next job; `None` without a job.
    pub fn rank(&self, now: Time, takes_turns: bool) -> Option<Rank> {
        let job = self.queue.front()?;
        let turn = if takes_turns { self.turn } else { job.seq };
        let (tier, key) = match self.spec.class {
            _ if self.left == Span::ZERO => (Tier::Background, 0),
            Class::Realtime { .. } if job.due <= now => (Tier::Critical, job.deadline.as_ps()),
            Class::Realtime { .. } => (Tier::Workahead, 0),
            Class::Normal => (Tier::Normal, u64::from(u8::MAX - self.spec.priority)),
            Class::Background => (Tier::Background, 0),
        };
        Some(Rank { tier, key, turn })
    }

    /// Begins a new period of its budget, if it is time.
    pub fn replenish(&mut self, now: Time) {
        let Some(Budget { time, period }) = self.spec.budget else {
            return;
        };
        let passed = now.since(self.period);
        if let Some(periods) = passed.as_ps().checked_div(period.as_ps())
            && periods > 0
        {
            self.period += period.times(periods);
            self.left = time;
        }
    }

    /// When its rank changes next without a new job: its message becomes due, its budget is replenished, or, if it runs, its budget
    /// is used up.
    pub fn next_change(&self, now: Time, runs: bool) -> Option<Time> {
        let job = self.queue.front()?;
        let budget = self.spec.budget.and_then(|it| match self.left {
            Span::ZERO if it.period > Span::ZERO => Some(self.period.saturating_add(it.period)),
            left if runs && left > Span::ZERO => Some(
                now.saturating_add(left)
                    .min(self.period.saturating_add(it.period)),
            ),
            _ => None,
        });
        let due = (job.due > now).then_some(job.due);
        budget.into_iter().chain(due).filter(|at| *at > now).min()
    }

    /// It ran for `span`.
    pub fn ran(&mut self, span: Span) {
        self.usage.used += span;
        self.slice += span;
        // Chosen and not run: nothing has been done for it.
        if span > Span::ZERO {
            self.waits = Span::ZERO;
        }
        if self.spec.budget.is_some() {
            let before = self.left;
            self.left -= span;
            self.usage.exhausted += u64::from(before > Span::ZERO && self.left == Span::ZERO);
        }
        if let Some(job) = self.queue.front_mut() {
            job.left -= span;
        }
    }

    /// Another one ran for `span`.
    pub fn waited(&mut self, span: Span) {
        if !self.queue.is_empty() {
            self.waits += span;
            self.usage.starved_for = self.usage.starved_for.max(self.waits);
        }
    }
}
