use super::*;
use crate::Weak;

impl<S: Source> Sender<S> {
    /// Postpones a member: it is served after the others.
    pub(super) fn postpone(&mut self, at: usize) {
        self.settle(at);
        let record = self.roster.get_mut(at);
        record.status = Status::Postponed;
        record.missing = None;
        let (member, peer) = (record.id, record.peer.unwrap_or_default());
        self.send(To::One(peer), Body::Suspend { member });
        self.events.push_back(SenderEvent::Postponed(member));
    }

    /// Informs complete receivers that the session has ended for them.
    pub(super) fn release(&mut self, now: Time) {
        let round = self.round.number;
        self.send(self.destination(), Body::Release { round });
        let leaving = self.roster.iter().filter(|it| it.status == Status::Done);
        let spread = self.clock.spread(leaving.count() as u32);
        self.phase = Phase::Releasing;
        self.round.deadline = now + self.clock.wait(spread);
    }

    pub(super) fn on_released(&mut self, now: Time, at: usize) {
        let record = self.roster.get_mut(at);
        if record.status == Status::Done {
            record.status = Status::Released;
        }
        if self.phase == Phase::Releasing && self.roster.iter().all(|it| it.status != Status::Done)
        {
            self.released_all(now);
        }
    }

    pub(super) fn released_all(&mut self, now: Time) {
        // A receiver without a good-bye is complete nevertheless: its report was the receipt.
        for record in self.roster.iter_mut() {
            if record.status == Status::Done {
                record.status = Status::Released;
            }
        }
        self.proceed(now);
    }

    /// Turns to the next scope: the postponed receivers, then the busy ones.
    pub(super) fn next_scope(&mut self, now: Time) {
        let side = matches!(self.config.weak, Weak::Postpone { side: true, .. });
        let postponed = self
            .roster
            .iter()
            .position(|it| it.status == Status::Postponed);
        if self.roster.iter().any(|it| it.status == Status::Joined) {
            // A receiver joined late.
            self.turn_to(now, Scope::Main);
        } else if let Some(at) = postponed {
            // An aggregator does not forward data: its receivers get only packets to the group.
            let side = side || self.roster.get(at).weight > 1;
            self.turn_to(now, if side { Scope::Side } else { Scope::One(at) });
        } else if self.roster.iter().any(|it| it.status == Status::Busy) {
            self.round.scope = Scope::Main;
            self.round.tries = 0;
            self.phase = Phase::Waiting;
            self.patience.since = now;
            self.round.deadline = now + self.clock.wait(Span::ZERO);
        } else {
            self.finish();
        }
    }

    fn turn_to(&mut self, now: Time, scope: Scope) {
        self.round.scope = scope;
        self.round.passes = 0;
        self.begin_round();
        self.solicit(now, Ask::Everyone);
    }

    /// Polls busy receivers, and gives them up in the end.
    pub(super) fn busy_over(&mut self, now: Time) {
        let busy: Vec<usize> = (0..self.roster.len())
            .filter(|&at| self.roster.get(at).status == Status::Busy)
            .collect();
        let busy = self.charge_all(now, busy);
        if self.phase == Phase::Closed {
            return;
        }
        if !busy.is_empty() && self.round.tries < self.config.silence.tries() {
            self.round.tries += 1;
            self.round.ask = Ask::Everyone;
            self.polls.extend(busy.iter().map(|&at| at as u32));
            let wait = self.clock.wait(self.clock.spread(busy.len() as u32));
            self.round.deadline = now + wait.times(1 << self.round.tries.min(6));
            return;
        }
        for at in busy {
            self.lose(at, Reason::Silent);
            if self.phase == Phase::Closed {
                return;
            }
        }
        self.next_scope(now);
    }

    /// Receivers that still lack something are served separately, or have failed.
    pub(super) fn too_many_rounds(&mut self, now: Time) {
        let main = self.round.scope == Scope::Main;
        let separately = main && matches!(self.config.weak, Weak::Postpone { .. });
        for at in 0..self.roster.len() {
            if !self.in_scope(at) {
                continue;
            }
            if separately {
                self.postpone(at);
            } else {
                self.lose(at, Reason::Rounds);
                if self.phase == Phase::Closed {
                    return;
                }
            }
        }
        self.next_scope(now);
    }

    fn finish(&mut self) {
        let round = self.round.number;
        if !self.config.release_each {
            // A lost good-bye only costs receivers a wait; a second copy is cheap.
            for _ in 0..2 {
                self.send(To::Group, Body::Release { round });
            }
        }
        self.conclude();
    }
}
