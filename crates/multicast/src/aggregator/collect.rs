use layercast_wire::multicast::{Ask, Needs, Poll, Report, State};

use super::*;

/// Largest number of missing ranges that are kept; a report with more is forged.
const MAX_RANGES: usize = 1 << 16;

/// Answers being collected.
#[derive(Clone, Debug)]
pub(super) struct Collecting {
    /// Identifies this collection.
    pub token: u64,
    /// Number of the poll being answered; 0 at the end of a pass without a poll.
    pub sync: u32,
    pub round: u16,
    /// The poll; `None` if it was not received, or there is none.
    pub poll: Option<Box<Poll>>,
    /// Stamp of the last poll, and the time of its arrival.
    pub stamp: u64,
    pub since: Time,
    pub deadline: Time,
    /// How often silent receivers were polled.
    pub asked: u32,
    pub summary: Summary,
    /// Whether the sender has received the result.
    pub reported: bool,
}

impl Collecting {
    /// When collection ends.
    pub fn deadline(&self) -> Option<Time> {
        (!self.reported && self.deadline < Time::MAX).then_some(self.deadline)
    }

    /// Whether only receivers that lack more than the sender knows are polled.
    fn needy(&self) -> bool {
        let poll = self.poll.as_ref();
        poll.is_some_and(|poll| poll.ask == Ask::Needy && !poll.handshake)
    }

    /// Whether a report answers the current request. Nothing is sent between the end of a pass and the poll after it,
    /// so a report about the one answers the other.
    fn is_answered_by(&self, report: &Report) -> bool {
        match report.sync {
            0 => report.round == self.round,
            sync => sync == self.sync,
        }
    }

    /// Whether something else was requested later.
    fn is_older_than(&self, sync: u32, round: u16) -> bool {
        match sync {
            0 => round > self.round,
            sync => sync.wrapping_sub(self.sync) as i32 > 0,
        }
    }
}

impl Aggregator {
    pub(super) fn on_poll(&mut self, now: Time, poll: &Poll) {
        if poll.ejected.contains(&self.config.member) {
            return self.close();
        }
        let same = self.collecting.as_ref().is_some_and(|it| {
            // An unsolicited report of the end of a pass is polled explicitly if it is late.
            let late = it.sync == 0 && it.round == poll.round && poll.handshake;
            it.sync == poll.sync || late
        });
        if !same {
            let spread = Span::from_us(poll.spread_us.into());
            self.begin(now, spread, poll.sync, poll.round);
        }
        let Some(collecting) = &mut self.collecting else {
            return;
        };
        (collecting.sync, collecting.stamp, collecting.since) = (poll.sync, poll.stamp, now);
        for (block, count) in poll.heard.iter() {
            collecting.summary.need(block, count);
        }
        collecting.poll = Some(Box::new(poll.clone()));
        if poll.handshake && collecting.reported {
            // The report to the sender was lost.
            return self.tell(now);
        }
        self.look(now);
    }

    fn begin(&mut self, now: Time, spread: Span, sync: u32, round: u16) {
        self.collections += 1;
        self.polls.clear();
        self.collecting = Some(Collecting {
            token: self.collections,
            sync,
            round,
            poll: None,
            stamp: 0,
            since: now,
            deadline: now + spread + self.config.wait,
            asked: 0,
            summary: Summary::default(),
            reported: false,
        });
    }

    /// A pass has ended, or a report answers a poll that was not received here.
    pub(super) fn begin_unheard(&mut self, now: Time, sync: u32, round: u16, stamp: u64) {
        let Some(session) = &self.session else {
            return;
        };
        // The request of a stream is in its poll.
        let known = session.geometry.is_some() && (sync > 0 || session.terms.unasked);
        let current = self.collecting.as_ref();
        if known && current.is_none_or(|it| it.is_older_than(sync, round)) {
            let spread = Span::from_us(session.terms.spread_us.into());
            self.begin(now, spread, sync, round);
            if let Some(collecting) = &mut self.collecting {
                collecting.stamp = stamp;
            }
            self.look(now);
        }
    }

    pub(super) fn on_report(&mut self, now: Time, at: usize, report: &Report) {
        if !self.believable(report) {
            self.stats.forged += 1;
            return;
        }
        self.stats.reports += 1;
        let child = &mut self.children[at];
        if matches!(child.status, Status::Failed(_)) {
            return;
        }
        child.loss = report.loss;
        child.buffer = report.buffer;
        match &report.state {
            State::Complete { .. } => child.status = Status::Complete,
            State::Levels {
                received,
                delivered,
                ..
            } => {
                child.levels = (
                    child.levels.0.max(*received),
                    child.levels.1.max(*delivered),
                )
            }
            State::Busy => child.busy = Some(true),
            State::Ready(spans) if child.busy.replace(false) == Some(true) => {
                return self.ready(spans.clone());
            }
            State::Corrupt if core::mem::replace(&mut child.corrupt, true) => {
                child.status = Status::Failed(Reason::Corrupt);
                return self.look(now);
            }
            _ => {}
        }
        // Complete receivers report this in the middle of a pass as well.
        let complete = matches!(report.state, State::Complete { .. });
        if report.sync > 0 || !complete || self.is_complete() {
            self.begin_unheard(now, report.sync, report.round, report.stamp);
        }
        let Some(collecting) = &mut self.collecting else {
            return;
        };
        if !collecting.is_answered_by(report) {
            return self.look(now);
        }
        // A receiver that was busy reports what it lacks at the next poll.
        if !report.more && !matches!(report.state, State::Ready(_)) {
            self.children[at].answered = collecting.token;
        }
        if collecting.summary.missing.len() > MAX_RANGES {
            self.stats.forged += 1;
            return;
        }
        let news = collecting.summary.add(&report.state);
        if report.state == State::Corrupt {
            self.lacks_all();
        }
        if self.collecting.as_ref().is_some_and(Collecting::needy) {
            if report.state == State::Corrupt {
                self.tell(now);
            } else if !news.is_empty() {
                self.pass_on(report, State::Need(news));
            }
        } else {
            self.look(now);
        }
    }

    /// The object of a receiver is corrupt: it lacks everything.
    fn lacks_all(&mut self) {
        let geometry = self.session.as_ref().and_then(|it| it.geometry);
        let (Some(geometry), Some(collecting)) = (geometry, &mut self.collecting) else {
            return;
        };
        collecting.summary.missing.insert(0, geometry.packets());
        for block in 0..geometry.blocks() {
            collecting.summary.need(block, geometry.packets_of(block));
        }
    }

    /// Whether the content of a report is possible.
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

    /// Whether all of its receivers are complete.
    fn is_complete(&self) -> bool {
        let tally = self.tally();
        tally.complete == tally.alive
    }

    fn waits_for(&self, child: &Child) -> bool {
        let token = self.collecting.as_ref().map_or(0, |it| it.token);
        child.status == Status::Joined && child.answered != token
    }

    /// Reports to the sender if all receivers have answered.
    pub(super) fn look(&mut self, now: Time) {
        let pending = self
            .collecting
            .as_ref()
            .is_some_and(|it| !it.reported && !it.needy());
        // An aggregator that joined in the middle of a session does not know all receivers yet.
        let all = self
            .config
            .expect
            .is_none_or(|expect| self.children.len() as u64 >= expect.into());
        if pending && all && !self.children.iter().any(|it| self.waits_for(it)) {
            self.tell(now);
        }
    }

    pub(super) fn collect_over(&mut self, now: Time) {
        let Some(collecting) = &mut self.collecting else {
            return;
        };
        if collecting.reported || collecting.deadline > now {
            return;
        }
        if !self.polls.is_empty() {
            collecting.deadline = now + self.config.wait;
            return;
        }
        if collecting.needy() {
            collecting.reported = true;
            return;
        }
        let token = collecting.token;
        let silent = |it: &Child| it.status == Status::Joined && it.answered != token;
        if self.children.iter().any(silent) && collecting.asked < self.config.tries {
            // A receiver with high loss is not dead: it is polled more often each time, with a longer wait.
            collecting.asked += 1;
            let asked = collecting.asked;
            collecting.deadline = now + self.config.wait.times(asked.into());
            self.next_poll = self.next_poll.max(now);
            let silent = (0..).zip(&self.children).filter(|(_, it)| silent(it));
            let silent: Vec<u32> = silent.map(|(at, _)| at).collect();
            for _ in 0..asked {
                self.polls.extend(&silent);
            }
            return;
        }
        collecting.deadline = Time::MAX;
        for child in self.children.iter_mut().filter(|it| silent(it)) {
            child.status = Status::Failed(Reason::Silent);
        }
        if !self.children.is_empty() && self.tally().alive == 0 {
            let (member, reason) = (self.config.member, Reason::Silent);
            self.upstream(Body::Leave { member, reason });
            return self.close();
        }
        self.tell(now);
    }

    /// Polls the next silent receiver.
    pub(super) fn poll_child(&mut self, now: Time) {
        let at = loop {
            let Some(at) = self.polls.pop_front() else {
                return;
            };
            // A receiver that answered an earlier copy is not polled again.
            if self.waits_for(&self.children[at as usize]) {
                break at;
            }
        };
        self.next_poll = now + self.config.delta;
        let Some(collecting) = &self.collecting else {
            return;
        };
        let mut poll = match &collecting.poll {
            Some(poll) => (**poll).clone(),
            None => Poll {
                sync: collecting.sync,
                round: collecting.round,
                stamp: collecting.stamp,
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
        let child = &self.children[at as usize];
        let peer = child.peer;
        poll.separate |= child.busy.is_some();
        (poll.spread_us, poll.handshake, poll.heard) = (0, true, Needs::new());
        self.stats.polls += 1;
        self.send(To::One(peer), Body::Poll(Box::new(poll)));
    }
}
