use layercast_wire::multicast::{Ask, Content, Needs, Poll, Report, State};

use super::*;
use crate::receipt::receipt;

/// Ranges that are kept of what is missing: what says more is forged.
const MAX_RANGES: usize = 1 << 16;

/// Answers that are waited for.
#[derive(Clone, Debug)]
pub(super) struct Collecting {
    /// Tells this collection from others.
    token: u64,
    /// The poll, repeated to those who are silent; none: a pass that ended.
    poll: Option<Box<Poll>>,
    round: u16,
    deadline: Time,
    summary: Summary,
    /// The sender has been told.
    told: bool,
}

impl Collecting {
    /// When answers are waited for no longer.
    pub fn deadline(&self) -> Option<Time> {
        let on = !self.told || self.poll.as_ref().is_some_and(|it| it.ask == Ask::Everyone);
        (on && self.deadline < Time::MAX).then_some(self.deadline)
    }
}

impl Aggregator {
    pub(super) fn on_poll(&mut self, now: Time, poll: &Poll) {
        if poll.ejected.contains(&self.config.member) {
            return self.close();
        }
        let token = u64::from(poll.sync);
        let spread = Span::from_us(poll.spread_us.into());
        let same = self.collecting.as_ref().is_some_and(|it| it.token == token);
        if !same {
            self.begin(now + spread + self.config.wait, token, poll.round);
            self.polls.clear();
        }
        if let Some(collecting) = &mut self.collecting {
            collecting.poll = Some(Box::new(poll.clone()));
            if poll.handshake {
                // The sender heard nothing: whoever has not answered is asked, the rest is told again.
                collecting.told = false;
                collecting.deadline = now + self.config.wait;
                self.ask_silent(now, token);
            }
        }
        self.look();
    }

    fn begin(&mut self, deadline: Time, token: u64, round: u16) {
        self.collecting = Some(Collecting {
            token,
            poll: None,
            round,
            deadline,
            summary: Summary::default(),
            told: false,
        });
    }

    pub(super) fn on_report(&mut self, now: Time, at: usize, report: &Report) {
        if !self.believable(report) {
            self.stats.forged += 1;
            return;
        }
        let token = match report.sync {
            // Passes that end unasked have tokens beyond those of polls.
            0 => (1 << 32) + u64::from(report.round),
            sync => u64::from(sync),
        };
        let current = self.collecting.as_ref().map_or(0, |it| it.token);
        let newer = report.sync == 0 && token > current;
        if newer {
            let session = self.session.as_ref();
            let spread = session.map_or(0, |it| it.terms.spread_us);
            let deadline = now + Span::from_us(spread.into()) + self.config.wait;
            self.begin(deadline, token, report.round);
        }
        self.stats.reports += 1;
        let child = &mut self.children[at];
        if matches!(child.status, Status::Failed(_)) {
            return;
        }
        child.silent = 0;
        child.loss = report.loss;
        child.buffer = report.buffer;
        let complete = matches!(report.state, State::Complete { .. });
        if complete {
            child.status = Status::Complete;
        }
        if let State::Levels {
            received,
            delivered,
            ..
        } = report.state
        {
            child.levels = (child.levels.0.max(received), child.levels.1.max(delivered));
        }
        let corrupt = report.state == State::Corrupt;
        if corrupt && core::mem::replace(&mut child.corrupt, true) {
            child.status = Status::Failed(Reason::Corrupt);
            return self.look();
        }
        let Some(collecting) = &mut self.collecting else {
            return;
        };
        if token != collecting.token && !complete {
            return;
        }
        if !report.more && token == collecting.token {
            self.children[at].answered = token;
        }
        if collecting.summary.missing.len() > MAX_RANGES {
            self.stats.forged += 1;
            return;
        }
        let mut more = collecting.summary.add(&report.state);
        if corrupt {
            more = true;
            self.lacks_all();
        }
        let needy = self.needy();
        if needy && more {
            self.tell();
        } else {
            self.look();
        }
    }

    /// Whether only those are asked who lack more than the sender knows of.
    fn needy(&self) -> bool {
        let poll = self.collecting.as_ref().and_then(|it| it.poll.as_ref());
        poll.is_some_and(|poll| poll.ask == Ask::Needy && !poll.handshake)
    }

    /// Somebody's object was corrupt: it lacks everything.
    fn lacks_all(&mut self) {
        let geometry = self.session.as_ref().and_then(|it| it.geometry);
        let (Some(geometry), Some(collecting)) = (geometry, &mut self.collecting) else {
            return;
        };
        collecting.summary.missing.insert(0, geometry.packets());
        for block in 0..geometry.blocks() {
            let (needs, _) = Needs::of([(block, geometry.packets_of(block))]);
            collecting.summary.add(&State::Need(needs));
        }
    }

    /// Whether a report says what can be so.
    fn believable(&self, report: &Report) -> bool {
        let Some(session) = &self.session else {
            return false;
        };
        let Some(geometry) = &session.geometry else {
            return match &report.state {
                State::Levels {
                    received,
                    delivered,
                    gaps,
                } => delivered <= received && (gaps.is_empty() || gaps.end() > *received),
                _ => false,
            };
        };
        !matches!(report.state, State::Levels { .. })
            && geometry.fits(session.terms.content, &report.state)
    }

    fn waits_for(&self, child: &Child) -> bool {
        let token = self.collecting.as_ref().map_or(0, |it| it.token);
        child.status == Status::Joined && child.answered != token
    }

    /// If all have answered, the sender is told.
    pub(super) fn look(&mut self) {
        let pending = self.collecting.as_ref().is_some_and(|it| !it.told);
        if pending && !self.needy() && !self.children.iter().any(|it| self.waits_for(it)) {
            self.tell();
        }
    }

    pub(super) fn collect_over(&mut self, now: Time) {
        let needy = self.needy();
        let Some(collecting) = &mut self.collecting else {
            return;
        };
        if collecting.deadline > now || !self.polls.is_empty() {
            if !self.polls.is_empty() {
                collecting.deadline = collecting.deadline.max(now + self.config.wait);
            }
            return;
        }
        if needy {
            collecting.told = true;
            return;
        }
        if !collecting.told {
            // What is known now helps already: repairs need not wait for those who are silent.
            self.tell();
        }
        let Some(collecting) = &mut self.collecting else {
            return;
        };
        let token = collecting.token;
        collecting.deadline = now + self.config.wait;
        for at in 0..self.children.len() {
            if self.waits_for(&self.children[at]) && self.children[at].silent >= self.config.tries {
                self.children[at].status = Status::Failed(Reason::Silent);
            }
        }
        if self.children.iter().any(|it| self.waits_for(it)) {
            self.ask_silent(now, token);
        } else {
            self.settle(token);
        }
    }

    /// Nobody is waited for any more.
    fn settle(&mut self, token: u64) {
        if let Some(collecting) = &mut self.collecting
            && collecting.token == token
        {
            collecting.deadline = Time::MAX;
        }
        if self.tally().alive == 0 {
            let (member, reason) = (self.config.member, Reason::Silent);
            self.upstream(Body::Leave { member, reason });
            self.close();
        }
    }

    fn ask_silent(&mut self, now: Time, token: u64) {
        self.next_poll = self.next_poll.max(now);
        self.polls.clear();
        for (at, child) in self.children.iter().enumerate() {
            if child.status == Status::Joined && child.answered != token {
                self.polls.push_back(at as u32);
            }
        }
    }

    /// Asks the next of those who are silent.
    pub(super) fn poll_child(&mut self, now: Time) {
        let Some(at) = self.polls.pop_front() else {
            return;
        };
        self.next_poll = now + self.config.delta;
        let silent = self.waits_for(&self.children[at as usize]);
        let child = &mut self.children[at as usize];
        child.silent += 1;
        let peer = child.peer;
        let Some(collecting) = self.collecting.as_ref().filter(|_| silent) else {
            return;
        };
        let mut poll = match &collecting.poll {
            Some(poll) => (**poll).clone(),
            None => Poll {
                sync: 0,
                round: collecting.round,
                stamp: 0,
                upto: 0,
                sent: 0,
                ask: Ask::Everyone,
                spread_us: 0,
                group: 1,
                handshake: true,
                separate: false,
                closing: false,
                ejected: Vec::new(),
                heard: Needs::new(),
            },
        };
        (poll.spread_us, poll.handshake, poll.heard) = (0, true, Needs::new());
        self.stats.polls += 1;
        self.send(To::One(peer), Body::Poll(Box::new(poll)));
    }

    /// Tells the sender what its receivers have and lack.
    fn tell(&mut self) {
        let tally = self.tally();
        let (Some(session), Some(collecting)) = (&mut self.session, &mut self.collecting) else {
            return;
        };
        if tally.alive == 0 {
            return;
        }
        collecting.told = true;
        let levels = self
            .children
            .iter()
            .filter(|it| it.status == Status::Joined);
        let levels = levels.map(|it| it.levels);
        if session.geometry.is_none() {
            // Who is silent counts with what it said before.
            collecting.summary.levels = levels.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)));
        }
        let complete = session.geometry.is_some() && tally.complete == tally.alive;
        session.complete |= complete;
        let states = if complete {
            let key = self.config.receipt_key.as_ref();
            let member = self.config.member;
            let receipt = receipt(key, session.id, member, &session.digest);
            vec![State::Complete { receipt }]
        } else {
            collecting
                .summary
                .states(session.terms.content == Content::Counts)
        };
        let alive = self.children.iter();
        let alive = alive.filter(|it| !matches!(it.status, Status::Failed(_)));
        let report = Report {
            member: self.config.member,
            sync: collecting.poll.as_ref().map_or(0, |it| it.sync),
            round: collecting.round,
            stamp: collecting.poll.as_ref().map_or(0, |it| it.stamp),
            loss: alive.clone().map(|it| it.loss).max().unwrap_or(0),
            buffer: alive.map(|it| it.buffer).min().unwrap_or(0),
            more: false,
            tally,
            state: State::Busy,
        };
        let last = states.len().saturating_sub(1);
        for (at, state) in states.into_iter().enumerate() {
            self.stats.sent += 1;
            let more = at < last;
            let report = Report {
                more,
                state,
                ..report.clone()
            };
            self.upstream(Body::Report(Box::new(report)));
        }
    }
}
