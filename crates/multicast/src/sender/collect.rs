use super::*;
use crate::{Deadline, Silence};

/// A silent member whose address answers in the name of another one is asked this much less often: it is an earlier life of
/// the same receiver.
const FORMER: u32 = 4;

impl<S: Source> Sender<S> {
    /// Whether a member belongs to the current scope.
    pub(super) fn in_scope(&self, at: usize) -> bool {
        let status = self.roster.get(at).status;
        match self.round.scope {
            Scope::Main => status == Status::Joined,
            Scope::Side => status == Status::Postponed,
            Scope::One(one) => at == one && status == Status::Postponed,
        }
    }

    /// Whether its answer is awaited.
    pub(super) fn counts_now(&self, at: usize) -> bool {
        self.roster.get(at).answered != self.round.sync && self.in_scope(at)
    }

    /// Destination of packets to the scope.
    pub(super) fn destination(&self) -> To {
        match self.round.scope {
            Scope::Main => To::Group,
            Scope::Side => To::Side,
            Scope::One(at) => To::One(self.roster.get(at).peer.unwrap_or_default()),
        }
    }

    /// Begins a round: all in scope have to answer.
    pub(super) fn begin_round(&mut self) {
        self.round.sync = self.round.sync.wrapping_add(1).max(1);
        self.round.tries = 0;
        self.round.packets = 0;
        self.round.largest = Span::ZERO;
        self.round.patient = false;
        self.round.waiting = (0..self.roster.len())
            .filter(|&at| self.in_scope(at))
            .count();
        self.round.members = self.round.waiting;
        self.object.forget_hints();
        self.polls.clear();
    }

    /// Polls the scope.
    pub(super) fn solicit(&mut self, now: Time, ask: Ask) {
        self.round.ask = ask;
        self.round.asked = now;
        self.patience.since = now;
        let unasked = matches!(
            self.config.schedule,
            Schedule::BackOff { unasked: true, .. }
        ) && self.round.scope == Scope::Main
            && self.round.packets > 0;
        self.round.spread = match (ask, self.config.schedule) {
            (Ask::Needy, Schedule::Suppress { spread, .. }) => spread,
            // A receiver polled alone in the middle of its back-off answers immediately; an aggregator cannot.
            _ if unasked && self.aggregated() => self.announced(),
            _ => self.range(),
        };
        self.phase = Phase::Collecting;
        if !unasked {
            self.poll_group(now, false);
        }
        self.round.deadline = now + self.clock.wait(self.round.spread);
        self.after_answer(now);
    }

    /// Range of the back-off of polled receivers. Behind an aggregator, all its receivers answer it.
    pub(super) fn range(&self) -> Span {
        let asked = (0..self.roster.len()).filter(|&at| self.in_scope(at));
        let behind = asked.map(|at| self.roster.get(at).weight).max();
        let direct = self.round.waiting as u32;
        self.clock.spread(direct.max(behind.unwrap_or(0)))
    }

    /// Whether aggregators are in scope.
    fn aggregated(&self) -> bool {
        (0..self.roster.len()).any(|at| self.in_scope(at) && self.roster.get(at).hold_us > 0)
    }

    /// How long aggregators may delay awaited answers.
    fn hold(&self, silent: &[usize]) -> Span {
        let holds = silent.iter().map(|&at| self.roster.get(at).hold_us);
        Span::from_us(holds.max().unwrap_or(0).into())
    }

    fn poll(&mut self, now: Time, handshake: bool, spread: Span) -> Poll {
        let mut ejected = Vec::new();
        for (member, left) in &mut self.ejected {
            *left -= 1;
            ejected.push(*member);
        }
        self.ejected.retain(|(_, left)| *left > 0);
        Poll {
            sync: self.round.sync,
            round: self.round.number,
            stamp: self.clock.stamp(now),
            upto: self.upto(),
            sent: self.stats.data as u32,
            ask: self.round.ask,
            spread_us: u32::try_from(spread.as_us()).unwrap_or(u32::MAX),
            group: self.group,
            handshake,
            closing: self.stream_ended(),
            separate: self.round.scope != Scope::Main,
            ejected,
            heard: Needs::new(),
        }
    }

    pub(super) fn poll_group(&mut self, now: Time, handshake: bool) {
        self.group = self.roster.weigh(|status| status == Status::Joined);
        let poll = self.poll(now, handshake, self.round.spread);
        self.stats.polls += 1;
        self.send(self.destination(), Body::Poll(Box::new(poll)));
    }

    /// The next individual poll or announcement.
    pub(super) fn poll_one(&mut self, now: Time) -> Option<Transmit> {
        let at = loop {
            let at = self.polls.pop_front()? as usize;
            // A member that answered an earlier copy is not polled again.
            if self.phase != Phase::Collecting || self.counts_now(at) {
                break at;
            }
        };
        let gap = self.config.schedule.delta();
        self.next_poll = self.next_poll.max(now.saturating_sub(gap)) + gap;
        let peer = self.roster.get(at).peer?;
        if self.phase == Phase::Opening {
            self.announce(now, To::One(peer));
        } else {
            let poll = self.poll(now, true, Span::ZERO);
            self.stats.polls_each += 1;
            self.send(To::One(peer), Body::Poll(Box::new(poll)));
        }
        self.out.pop_front()
    }

    /// Handles silence of most receivers: the path has failed, or the rate is too high for it
    /// (specs/rmtp-large-scale.md 7).
    fn path_failed(&mut self) {
        if let Some(rate) = self.pacer.rate()
            && self.round.packets > 0
        {
            let monitor = self.config.rate.monitor();
            let least = monitor.map_or(1, |it| it.least.as_bps());
            let half = Rate::from_bps((rate.as_bps() / 2).max(least));
            if monitor.is_none() {
                self.well.get_or_insert(rate);
            }
            self.pacer.set_rate(half);
            self.events.push_back(SenderEvent::Rate(half));
        }
    }

    /// All receivers of a pass have answered: restores the rate if the path had failed.
    pub(super) fn path_works(&mut self) {
        if self.round.tries == 0
            && self.round.packets > 0
            && let Some(rate) = self.well.take()
        {
            self.pacer.set_rate(rate);
            self.events.push_back(SenderEvent::Rate(rate));
        }
    }

    /// Tells receivers in their back-off what the sender already knows.
    pub(super) fn hint(&mut self, now: Time) -> Option<Transmit> {
        let heard = self.object.heard(now + self.round.spread.mul_div(1, 16));
        let mut poll = self.poll(now, false, self.round.spread);
        poll.heard = heard;
        self.stats.polls += 1;
        self.send(self.destination(), Body::Poll(Box::new(poll)));
        self.out.pop_front()
    }

    /// A member of the scope has answered, or was removed.
    pub(super) fn settle(&mut self, at: usize) {
        if self.counts_now(at) {
            self.roster.get_mut(at).answered = self.round.sync;
            self.round.waiting -= 1;
        }
    }

    /// Removes a member.
    pub(super) fn lose(&mut self, at: usize, reason: Reason) {
        let status = self.roster.get(at).status;
        match status {
            Status::Done | Status::Released => {}
            Status::Failed(_) | Status::Refused(_) => return,
            _ => {
                self.settle(at);
                let record = self.roster.get_mut(at);
                record.status = Status::Failed(reason);
                record.missing = None;
                let member = record.id;
                self.events
                    .push_back(SenderEvent::Failed { member, reason });
            }
        }
        if self.phase != Phase::Opening && !self.roster.satisfies(&self.config.completion) {
            self.give_up(Reason::Integrity, Failure::Integrity);
        }
    }

    /// Evaluates the round once all have answered.
    pub(super) fn after_answer(&mut self, now: Time) {
        if self.phase == Phase::Collecting
            && self.round.waiting == 0
            && self.round.ask == Ask::Everyone
            && !self.waits_for_timer()
        {
            self.evaluate(now);
        }
    }

    pub(super) fn deadline_over(&mut self, now: Time) {
        if self.round.ask == Ask::Needy {
            return self.evaluate(now);
        }
        if !self.polls.is_empty() {
            // Not all have been polled yet.
            self.round.deadline = now + self.clock.wait(Span::ZERO);
            return;
        }
        let silent: Vec<usize> = (0..self.roster.len())
            .filter(|&at| self.counts_now(at))
            .collect();
        let silent = self.charge_all(now, silent);
        if self.phase == Phase::Closed {
            return;
        }
        if silent.is_empty() {
            return self.evaluate(now);
        }
        let hold = self.hold(&silent);
        let group = matches!(self.config.silence, Silence::AskGroup { .. });
        if group && hold > Span::ZERO && !self.round.patient {
            // All would answer again: the group is polled only if an aggregator is late as well.
            self.round.patient = true;
            self.round.deadline = now + hold;
            return;
        }
        let heard = self.heard_peers();
        let (silent, given_up): (Vec<usize>, Vec<usize>) = silent.into_iter().partition(|&at| {
            let all = self.config.silence.tries();
            let peer = self.roster.get(at).peer;
            let is_over = peer.is_some_and(|peer| heard.contains(&peer));
            self.round.tries < if is_over { all.div_ceil(FORMER) } else { all }
        });
        for at in given_up {
            self.lose(at, Reason::Silent);
            if self.phase == Phase::Closed {
                return;
            }
        }
        if silent.is_empty() {
            return self.evaluate(now);
        }
        self.round.tries += 1;
        self.ask_again(now, &silent);
    }

    fn ask_again(&mut self, now: Time, silent: &[usize]) {
        let hold = self.hold(silent);
        let first = self.round.tries == 1;
        for &at in silent {
            let record = self.roster.get_mut(at);
            // An aggregator may still wait for its receivers.
            record.silent += u32::from(!first || record.hold_us == 0);
        }
        // The first wait with an adaptive deadline is short: busy hosts exceed it, without a fault of the path.
        let patience = match self.config.deadline {
            Deadline::Adaptive { .. } => 3,
            // An aggregator may still wait for its receivers.
            _ if hold > Span::ZERO => 2,
            _ => 1,
        };
        if self.round.tries == patience && silent.len() * 2 > self.round.members && silent.len() > 1
        {
            self.path_failed();
        }
        match self.config.silence {
            Silence::AskEach { .. } => {
                self.next_poll = self.next_poll.max(now);
                // A host that is busy for a while is not dead, and the recent delays of answers say nothing about it.
                // Nor is a receiver with high loss dead: with half of all packets lost each way one poll in four is
                // answered, and ten fail in one round of 18. So it is polled more often, with a longer wait each
                // time.
                let patient = matches!(self.config.deadline, Deadline::Adaptive { .. });
                let tries = self.round.tries;
                let rest = self.brief_rest(silent).filter(|_| patient);
                let copies = match (patient, rest) {
                    (false, _) => 1,
                    (true, None) => tries.min(10),
                    // As many in less time.
                    (true, Some(_)) => (2 * tries).min(10),
                };
                for _ in 0..copies {
                    self.polls.extend(silent.iter().map(|&at| at as u32));
                }
                let asked = self.polls.len() as u32;
                let paced = self.clock.spread(asked);
                let mut wait = self.clock.wait(Span::ZERO);
                let all = self.config.silence.tries();
                // The other receivers get nothing meanwhile, and must not consider the sender dead.
                let most = match self.config.sender_wait {
                    Span::ZERO => Span::MAX,
                    theirs => theirs.mul_div(1, 2 * u64::from(all)),
                };
                if patient {
                    // Even on a short path a receiver that is silent for some seconds may still be busy.
                    let left = all.saturating_sub(tries).min(32);
                    let least = self.config.sender_wait.mul_div(1, 8 << left);
                    let longer = wait.times(1 << (tries - 1).min(10)).min(most);
                    let longest = rest.unwrap_or(Span::MAX).max(wait);
                    wait = wait.max(longer).max(least).min(longest);
                }
                wait = wait.max((wait + hold).min(most));
                self.round.deadline = now + paced + wait;
            }
            Silence::AskGroup { .. } => {
                self.stats.handshakes += 1;
                let missing = silent.len() as u32;
                self.events.push_back(SenderEvent::Handshake { missing });
                self.poll_group(now, true);
                let wait = self.clock.wait(self.round.spread);
                let longer = wait.times(1 << self.round.tries.min(6));
                let longer = longer.min(self.clock.largest().times(64)).max(wait);
                self.round.deadline = now + longer + hold;
            }
        }
    }
}
