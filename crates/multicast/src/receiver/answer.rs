use super::*;
use crate::receipt::receipt;
use layercast_wire::multicast::{Ask, Content, Count, DataFlags, Needs, Report, Spans};

/// Largest number of reports in one answer. What is missing beyond them is reported after their repair, so that
/// memory and the sender's time do not depend on the size of the object.
const MAX_REPORTS: usize = 1_024;

/// Largest number of blocks known to the sender that are remembered in a round.
const MAX_HEARD: usize = 1 << 14;

/// An answer that waits for its back-off.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub at: Time,
    /// When it was requested.
    asked: Time,
    what: What,
}

/// The poll being answered: its number, its stamp, and the microseconds since its arrival; zeros without a poll.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Asked {
    sync: u32,
    stamp: u64,
    held_us: u32,
}

#[derive(Clone, Debug)]
enum What {
    /// Answer to the announcement.
    Accept(Box<Body>),
    /// Answer to a poll or to the end of a pass.
    Report { sync: u32, stamp: u64 },
    /// Answer to a poll, only if more is missing than the sender knows.
    Needy {
        sync: u32,
        stamp: u64,
        heard: Vec<(u32, u16)>,
    },
}

impl Answer {
    pub fn accept(at: Time, accept: Body) -> Answer {
        Answer {
            at,
            asked: at,
            what: What::Accept(Box::new(accept)),
        }
    }
}

impl<T: Store> Receiver<T> {
    pub(super) fn on_poll(&mut self, now: Time, poll: &Poll) {
        if poll.ejected.contains(&self.config.member) {
            return self.closed(Reason::Slow);
        }
        // The session is already running: the receiver must join first.
        self.accept_now();
        self.count_loss(poll);
        if !self.follow(poll.round) && poll.round < self.object.pass.number() {
            // About a former pass: what is missing is already on its way. If not, the poll is repeated.
            return;
        }
        if poll.separate != self.postponed && !poll.handshake {
            return;
        }
        if poll.separate {
            self.postponed = true;
            self.was_busy = false;
        }
        self.upto = poll.upto;
        if let Some(stream) = &mut self.stream {
            stream.end = poll.closing.then_some(poll.upto);
        }
        let complete = self.phase == Phase::Complete;
        // The report without a poll may have been lost.
        let may_know = !core::mem::take(&mut self.object.volunteered);
        if complete && self.object.reported && may_know && !poll.handshake {
            return;
        }
        self.rearm(now);
        self.object.waited = false;
        let report = What::Report {
            sync: poll.sync,
            stamp: poll.stamp,
        };
        if poll.ask == Ask::Needy && !poll.handshake {
            return self.on_needy(now, poll);
        }
        // Replaces a waiting answer: the new one is newer, or requested immediately.
        let delay = self.uniform(poll.spread_us);
        self.answer = Some(Answer {
            at: now + delay,
            asked: now,
            what: report,
        });
        if delay == Span::ZERO {
            self.answer_now(now);
        }
    }

    /// Answers only if it lacks more than other receivers.
    fn on_needy(&mut self, now: Time, poll: &Poll) {
        if let Some(Answer {
            what: What::Needy { sync, heard, .. },
            ..
        }) = &mut self.answer
            && *sync == poll.sync
        {
            merge(heard, &poll.heard);
        } else {
            let mut heard = Vec::new();
            merge(&mut heard, &poll.heard);
            let spread = Span::from_us(poll.spread_us.into());
            self.answer = Some(Answer {
                at: now + self.truncated_exponential(spread, poll.group),
                asked: now,
                what: What::Needy {
                    sync: poll.sync,
                    stamp: poll.stamp,
                    heard,
                },
            });
        }
        if self.unheard().is_empty() && !self.object.tell_corrupt {
            self.answer = None;
            self.stats.suppressed += u64::from(self.object.lacking().next().is_some());
        }
    }

    /// What it lacks beyond the sender's knowledge.
    fn unheard(&self) -> Needs {
        let Some(Answer {
            what: What::Needy { heard, .. },
            ..
        }) = &self.answer
        else {
            return Needs::new();
        };
        let known = |block| {
            let place = heard.binary_search_by_key(&block, |&(block, _)| block);
            place.map_or(0, |place| heard[place].1)
        };
        let lacking = self.object.lacking();
        Needs::of(lacking.filter(|&(block, count)| count > known(block))).0
    }

    /// Draws a back-off between 0 and `range`, exponentially more likely late, so that few of many answer early (RFC
    /// 5401 6.1).
    fn truncated_exponential(&mut self, range: Span, group: u32) -> Span {
        let lambda = libm::log(f64::from(group.max(1))) + 1.0;
        let uniform = self.random.unit();
        let share = libm::log1p(uniform * libm::expm1(lambda)) / lambda;
        Span::from_secs_f64(range.as_secs_f64() * share)
    }

    /// Counts packets between two monitor bits, if this receiver is a reporter (RMTP FREPO).
    pub(super) fn count(&mut self, data: &Data) {
        if let Some(counting) = &mut self.counting {
            counting.received += 1;
        }
        if data.flags.has(DataFlags::START) {
            let counters = self.session.as_ref().map_or(0, |it| it.terms.counters);
            let chosen = self.random.below(65_535) < u64::from(counters);
            self.counting = chosen.then_some(Counting {
                round: data.round,
                start: data.symbol,
                received: 0,
            });
        }
        if data.flags.has(DataFlags::STOP)
            && let Some(counting) = self.counting.take()
            && counting.round == data.round
        {
            self.send(Body::Count(Count {
                member: self.config.member,
                round: counting.round,
                start: counting.start,
                stop: data.symbol,
                received: counting.received,
            }));
        }
    }

    /// Share of packets lost between the last two received polls.
    fn count_loss(&mut self, poll: &Poll) {
        let Some(session) = &mut self.session else {
            return;
        };
        if poll.sent == 0 {
            return;
        }
        let now = (poll.sent, session.came);
        if let Some((sent, came)) = session.at_poll {
            let sent = poll.sent.wrapping_sub(sent);
            let came = session.came.wrapping_sub(came).min(sent);
            if sent > 0 && sent < u32::MAX / 2 {
                session.missing += u64::from(sent - came);
                session.loss = (u64::from(sent - came) * 65_535 / u64::from(sent)) as u16;
            }
        } else {
            let lost = poll.sent.saturating_sub(session.came);
            session.missing += u64::from(lost);
            session.loss = (u64::from(lost) * 65_535 / u64::from(poll.sent)) as u16;
        }
        session.at_poll = Some(now);
    }

    /// A pass has apparently ended: reports it once, if an unsolicited report is expected.
    pub(super) fn pass_over(&mut self, now: Time, guard: Span) {
        let Some(terms) = self.session.as_ref().map(|session| session.terms) else {
            return;
        };
        let round = self.object.pass.number();
        let complete = self.phase == Phase::Complete && !self.object.reported;
        if !terms.unasked || self.busy || (self.object.answered == Some(round) && !complete) {
            return;
        }
        self.object.answered = Some(round);
        let delay = self.uniform(terms.spread_us);
        self.answer = Some(Answer {
            at: now + delay + guard,
            asked: now,
            what: What::Report { sync: 0, stamp: 0 },
        });
    }

    /// The digest is right after all: reports it without a poll, since the next one waits for all receivers.
    pub(super) fn volunteer(&mut self, now: Time) {
        if !core::mem::take(&mut self.object.told) || self.answer.is_some() {
            return;
        }
        let spread = self.session.as_ref().map_or(0, |it| it.terms.spread_us);
        let delay = self.uniform(spread);
        self.object.volunteered = true;
        self.answer = Some(Answer {
            at: now + delay,
            asked: now,
            what: What::Report { sync: 0, stamp: 0 },
        });
    }

    /// Answers the announcement immediately, if that is pending.
    pub(super) fn accept_now(&mut self) {
        if matches!(&self.answer, Some(it) if matches!(it.what, What::Accept(_)))
            && let Some(Answer {
                what: What::Accept(accept),
                ..
            }) = self.answer.take()
        {
            self.send(*accept);
        }
    }

    /// Answers; the stamp tells the sender how long that took.
    pub(super) fn answer_now(&mut self, now: Time) {
        let unheard = self.unheard();
        self.object.waited = false;
        let Some(answer) = self.answer.take() else {
            return;
        };
        let held = now.since(answer.asked);
        let asked = |sync, stamp| Asked {
            sync,
            stamp,
            held_us: u32::try_from(held.as_us()).unwrap_or(u32::MAX),
        };
        match answer.what {
            What::Accept(accept) => self.send(*accept),
            What::Needy { sync, stamp, .. } => {
                if self.object.tell_corrupt {
                    self.report_state(asked(sync, stamp));
                } else if !unheard.is_empty() {
                    self.report(asked(sync, stamp), State::Need(unheard), false);
                }
            }
            What::Report { sync, stamp } => self.report_state(asked(sync, stamp)),
        }
    }

    fn report_state(&mut self, asked: Asked) {
        if let Some(stream) = &self.stream {
            let in_order = self.session.as_ref().is_some_and(|it| it.terms.in_order);
            let levels = stream.levels(self.upto, in_order);
            return self.report(asked, levels, false);
        }
        self.object.answered = Some(self.object.pass.number());
        if self.busy {
            return self.report(asked, State::Busy, false);
        }
        if self.was_busy {
            let missing = self.missing_at_once();
            return self.report(asked, State::Ready(missing), false);
        }
        if self.phase == Phase::Complete {
            let id = self.session.as_ref().map_or(0, |session| session.id);
            let key = self.config.receipt_key.as_ref();
            let receipt = receipt(key, id, self.config.member, &self.object.digest);
            self.object.reported = true;
            return self.report(asked, State::Complete { receipt }, false);
        }
        if core::mem::take(&mut self.object.tell_corrupt) {
            return self.report(asked, State::Corrupt, false);
        }
        self.report_missing(asked);
    }

    /// Reports what is missing, in as many reports as needed.
    fn report_missing(&mut self, asked: Asked) {
        if self.out.len() >= MAX_REPORTS {
            // The answer to an earlier poll is still queued: polls must not fill the memory.
            return;
        }
        let terms = self.session.as_ref().map(|session| session.terms);
        if terms.is_some_and(|terms| terms.content == Content::Counts) {
            let most = MAX_REPORTS * layercast_wire::multicast::MAX_LIST;
            let lacking: Vec<(u32, u16)> = self.object.lacking().take(most).collect();
            let parts = lacking.chunks(layercast_wire::multicast::MAX_LIST);
            let last = parts.len().saturating_sub(1);
            for (at, part) in parts.enumerate() {
                let (needs, _) = Needs::of(part.iter().copied());
                self.report(asked, State::Need(needs), at < last);
            }
            if lacking.is_empty() {
                // Everything is present, and the digest is being verified.
                self.object.told = true;
                self.report(asked, State::Need(Needs::new()), false);
            }
            return;
        }
        let packets = self.object.held.len();
        let mut from = 0;
        for at in 1..=MAX_REPORTS {
            let (spans, all) = Spans::of(self.object.held.gaps(from, packets));
            if spans.is_empty() {
                return;
            }
            from = spans.end();
            let all = all || at == MAX_REPORTS;
            self.report(asked, State::Missing(spans), !all);
            if all {
                return;
            }
        }
    }

    /// The first missing ranges.
    pub(super) fn missing_at_once(&self) -> Spans {
        Spans::of(self.object.held.gaps(0, self.object.held.len())).0
    }

    pub(super) fn report(&mut self, asked: Asked, state: State, more: bool) {
        let loss = self.session.as_ref().map_or(0, |session| session.loss);
        self.stats.reports += 1;
        let report = Report {
            sync: asked.sync,
            round: self.object.pass.number(),
            stamp: asked.stamp,
            held_us: asked.held_us,
            loss,
            buffer: self.config.buffer,
            more,
            ..Report::alone(self.config.member, state)
        };
        self.send(Body::Report(Box::new(report)));
    }
}

/// Merges the sender's new knowledge into the known one.
fn merge(heard: &mut Vec<(u32, u16)>, news: &Needs) {
    for (block, count) in news.iter() {
        match heard.binary_search_by_key(&block, |&(block, _)| block) {
            Ok(place) => heard[place].1 = heard[place].1.max(count),
            // What is not kept is reported although the sender knows it.
            Err(place) if heard.len() < MAX_HEARD => heard.insert(place, (block, count)),
            Err(_) => {}
        }
    }
}
