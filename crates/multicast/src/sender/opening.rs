use super::*;
use crate::receipt::{announcement, announcement_key};
use layercast_wire::multicast::{Accept, Eject};

/// Announcements in one wait for answers, at most.
const MOST_ANNOUNCED: u32 = 10;

impl<S: Source> Sender<S> {
    /// Sends the first announcement.
    pub(super) fn open(&mut self, now: Time) {
        self.phase = Phase::Opening;
        for _ in 0..self.config.opening.copies.max(1) {
            self.announce(now, To::Group);
        }
        self.round.tries = 1;
        self.await_accepts(now);
    }

    fn await_accepts(&mut self, now: Time) {
        let times = self.announcements();
        self.round.again = times - 1;
        self.round.gap = self.config.opening.wait.mul_div(1, times.into());
        self.await_gap(now);
    }

    /// Waits until the next announcement, or the end of the back-off after the last one.
    fn await_gap(&mut self, now: Time) {
        self.round.deadline = now + self.round.gap;
        if self.round.again == 0 {
            let silent = self.roster.weigh(|status| status == Status::Invited);
            let spread = self.clock.spread(self.expected().max(silent));
            self.round.deadline += spread;
        }
    }

    /// How often the session is announced in this wait. As with polls, a small group that loses half of all packets each way
    /// answers one announcement in four: the nth wait has n, so that the time suffices.
    fn announcements(&self) -> u32 {
        let is_small = match self.config.schedule {
            Schedule::Suppress { above, .. } => self.expected().max(self.group) <= above,
            _ => false,
        };
        if is_small {
            self.round.tries.clamp(1, MOST_ANNOUNCED)
        } else {
            1
        }
    }

    /// Range of the back-off in the announcement.
    pub(super) fn announced(&self) -> Span {
        self.clock.spread(self.expected())
    }

    /// Expected number of receivers, as far as known.
    fn expected(&self) -> u32 {
        match &self.members {
            Members::Listed(list) => list.len() as u32,
            Members::Anyone { expect, .. } => expect.unwrap_or(0),
        }
    }

    pub(super) fn announce(&mut self, now: Time, to: To) {
        let stamp = self.clock.stamp(now);
        let spread = self.announced();
        let ms = |span: Span| u32::try_from(span.as_ms()).unwrap_or(u32::MAX);
        let mut open = Open {
            stamp,
            packet_size: self.config.packet_size,
            min_release: match self.config.weak {
                crate::Weak::Eject { min_release, .. } => min_release,
                _ => 0,
            },
            terms: Terms {
                content: self.config.content,
                in_order: self.config.repair == crate::Repair::GoBackN,
                unasked: matches!(
                    self.config.schedule,
                    Schedule::BackOff { unasked: true, .. }
                ),
                spread_us: u32::try_from(spread.as_us()).unwrap_or(u32::MAX),
                goodbye: self.config.release_each,
                data_wait_ms: ms(self.config.data_wait),
                sender_wait_ms: match self.config.sender_wait {
                    Span::ZERO => 0,
                    wait => ms(wait.max(spread.times(4))),
                },
                counters: self.config.rate.monitor().map_or(0, |it| it.counters),
            },
            object: match &self.stream {
                Some(stream) => stream.about.clone(),
                None => Some(self.object.object.clone()),
            },
            proof: None,
        };
        let key = self.config.receipts.as_ref().map(announcement_key);
        open.proof = key.map(|key| announcement(&key, self.session, &open));
        self.send(to, Body::Open(Box::new(open)));
    }

    pub(super) fn on_accept(&mut self, now: Time, from: Peer, accept: &Accept) {
        if accept.weight == 0 || accept.held > self.object.geometry.packets() {
            self.stats.forged += 1;
            return;
        }
        let at = match self.roster.find(accept.member) {
            Some(at) => at,
            None => match self.members {
                Members::Anyone { most, .. } if self.roster.len() as u64 >= most.into() => {
                    self.stats.strangers += 1;
                    return;
                }
                Members::Anyone { .. } if self.takes_late() || self.phase == Phase::Opening => {
                    let at = self.roster.add(accept.member, None, Status::Invited);
                    self.roster.get_mut(at).mandatory = self.config.completion.names(accept.member);
                    at
                }
                Members::Anyone { .. } => return self.too_late(from, accept.member),
                Members::Listed(_) => {
                    self.stats.strangers += 1;
                    return;
                }
            },
        };
        let record = self.roster.get(at);
        let first = matches!(record.status, Status::Invited | Status::Never);
        let same_life = record.incarnation == accept.incarnation && record.peer == Some(from);
        if !first && same_life {
            // An aggregator answers for more receivers now.
            let record = self.roster.get_mut(at);
            let more = accept.weight.saturating_sub(record.weight);
            let refuses = matches!(record.status, Status::Refused(_));
            record.says(accept);
            if self.phase == Phase::Opening {
                let heard = match refuses {
                    true => &mut self.refused,
                    false => &mut self.group,
                };
                *heard = heard.saturating_add(more);
                self.opening_answered(now);
            }
            return;
        }
        if !first && !self.may_turn(from) {
            self.stats.strangers += 1;
            return;
        }
        let record = self.roster.get(at);
        let never = record.status == Status::Never;
        let late = self.takes_late() || (never && self.stream.is_none());
        if !first && self.phase != Phase::Opening && !late {
            // It has lost its data, and the session admits no late receivers.
            self.lose(at, Reason::Late);
            self.after_answer(now);
            return self.too_late(from, accept.member);
        }
        if first && !late && self.phase != Phase::Opening {
            return self.too_late(from, accept.member);
        }
        self.take_in(now, at, from, accept);
        match self.phase {
            Phase::Opening => self.opening_answered(now),
            _ => self.after_answer(now),
        }
    }

    /// Whether a running session of an object can be joined; a stream cannot be received from its beginning.
    fn takes_late(&self) -> bool {
        self.stream.is_none() && matches!(self.members, Members::Anyone { late: true, .. })
    }

    fn too_late(&mut self, from: Peer, member: MemberId) {
        self.stats.strangers += 1;
        let reason = Reason::Late;
        let upto = 0;
        self.send(
            To::One(from),
            Body::Eject(Eject {
                member,
                reason,
                upto,
            }),
        );
    }

    /// A member begins a new incarnation.
    fn take_in(&mut self, now: Time, at: usize, from: Peer, accept: &Accept) {
        if self.counts_now(at) {
            self.round.waiting -= 1;
        }
        let round_trip = self.clock.round_trip(now, accept.stamp);
        let record = self.roster.get_mut(at);
        if self.phase == Phase::Opening {
            match record.status {
                Status::Joined => self.group = self.group.saturating_sub(record.weight),
                Status::Refused(_) => self.refused = self.refused.saturating_sub(record.weight),
                _ => {}
            }
            let heard = match accept.refuses {
                Some(_) => &mut self.refused,
                None => &mut self.group,
            };
            *heard = heard.saturating_add(accept.weight);
        }
        record.peer = Some(from);
        record.incarnation = accept.incarnation;
        record.buffer = accept.buffer;
        record.says(accept);
        // A new life counts from here.
        record.joins_again(self.stats.data);
        record.complete = 0;
        record.missing = None;
        record.corrupt = false;
        record.received = match self.stream {
            Some(_) => 0,
            None => self.object.geometry.packets() - accept.held,
        };
        record.status = match accept.refuses {
            Some(reason) => Status::Refused(reason),
            None => Status::Joined,
        };
        (record.barren, record.lacked) = ((0, 0), record.received);
        // The round trip of an aggregator includes the back-off of its receivers.
        if let Some(round_trip) = round_trip.filter(|_| accept.hold_us == 0) {
            record.rtt_us = u32::try_from(round_trip.as_us()).unwrap_or(u32::MAX);
            self.clock.largest_was(round_trip);
        }
        // It is polled with the others, unless their round has ended.
        record.answered = self.round.sync.wrapping_sub(1);
        if self.counts_now(at) {
            self.round.waiting += 1;
        }
        if self.phase != Phase::Opening && accept.refuses.is_none() {
            self.events.push_back(SenderEvent::Joined(accept.member));
        }
    }

    fn opening_answered(&mut self, now: Time) {
        let enough = match &self.members {
            Members::Listed(_) => self
                .roster
                .iter()
                .all(|it| it.status != Status::Invited && it.absent == 0),
            Members::Anyone { expect, .. } => {
                let heard = self.group.saturating_add(self.refused);
                expect.is_some_and(|expect| heard >= expect)
            }
        };
        if enough {
            self.opened(now);
        }
    }

    pub(super) fn opening_over(&mut self, now: Time) {
        let invited = |it: &Record| it.status == Status::Invited;
        let (silent, absent) = (
            self.roster.iter().any(invited),
            self.roster.iter().any(|it| it.absent > 0),
        );
        let wanted = silent || absent || matches!(self.members, Members::Anyone { .. });
        let again = self.round.again;
        if !wanted || (again == 0 && self.round.tries >= self.config.opening.tries) {
            self.opened(now);
            return;
        }
        self.announce_again(now, silent, absent);
        if again > 0 {
            self.round.again = again - 1;
            self.await_gap(now);
        } else {
            self.round.tries += 1;
            self.await_accepts(now);
        }
    }

    fn announce_again(&mut self, now: Time, silent: bool, absent: bool) {
        // A receiver that has not answered its aggregator is reached only through the group.
        let mut unknown = !silent || absent;
        for at in 0..self.roster.len() {
            let record = self.roster.get(at);
            match (record.status, record.peer) {
                (Status::Invited, Some(_)) => self.polls.push_back(at as u32),
                (Status::Invited, None) => unknown = true,
                _ => {}
            }
        }
        if unknown {
            self.polls.clear();
            self.announce(now, To::Group);
        }
    }

    fn opened(&mut self, now: Time) {
        self.polls.clear();
        let silent = self.roster.weigh(|status| status == Status::Invited);
        let yes = self.roster.weigh(|status| status == Status::Joined);
        let no = self
            .roster
            .weigh(|status| matches!(status, Status::Refused(_)));
        for record in self.roster.iter_mut() {
            if record.status == Status::Invited {
                record.status = Status::Never;
            }
        }
        let opened = SenderEvent::Opened { yes, no, silent };
        self.events.push_back(opened);
        if yes == 0 && no > 0 {
            self.give_up(Reason::Silent, Failure::Refused);
        } else if yes == 0 {
            self.give_up(Reason::Silent, Failure::NoReceivers);
        } else if !self.roster.satisfies(&self.config.completion) {
            self.give_up(Reason::Integrity, Failure::Integrity);
        } else {
            if self.takes_late() {
                self.next_open = now + ANNOUNCED;
            }
            match self.stream {
                Some(_) => self.begin_stream(now),
                None => self.begin(now),
            }
        }
    }
}
