use super::*;
use crate::receipt::receipt;
use layercast_wire::multicast::{Ask, Content, Count, DataFlags, Needs, Report, Spans};

/// Reports of one answer at most. What is missing beyond them is reported after the repair of what they say: an answer
/// must not take memory, or the sender's time, by the size of the object.
const MAX_REPORTS: usize = 1_024;

/// Blocks that are remembered of what the sender has heard of in a round.
const MAX_HEARD: usize = 1 << 14;

/// An answer that waits for its back-off.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub at: Time,
    /// When it was asked for.
    asked: Time,
    what: What,
}

/// Which poll is answered: its number and its stamp, and how many microseconds after it came; zeros: none.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Asked {
    sync: u32,
    stamp: u64,
    held_us: u32,
}

#[derive(Clone, Debug)]
enum What {
    /// To the announcement.
    Accept(Box<Body>),
    /// To a poll or the end of a pass.
    Report { sync: u32, stamp: u64 },
    /// To a poll, if it lacks more than the sender knows of.
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
        // The session runs already: first it has to take part.
        self.accept_now();
        self.count_loss(poll);
        if poll.round < self.object.round {
            // Of a pass that is over: what is missing now is on its way.
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
        if poll.round > self.object.round {
            self.object.round = poll.round;
        }
        let complete = self.phase == Phase::Complete;
        if complete && self.object.reported && !poll.handshake {
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
        // An answer that waits already is given up: this one is newer, or asked for at once.
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

    /// Answers only if it lacks more than others do.
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

    /// What it lacks more of than the sender knows.
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

    /// Between 0 and `range`, late ones exponentially more likely: few of many answer early (RFC 5401 6.1).
    fn truncated_exponential(&mut self, range: Span, group: u32) -> Span {
        let lambda = libm::log(f64::from(group.max(1))) + 1.0;
        let uniform = self.random.unit();
        let share = libm::log1p(uniform * libm::expm1(lambda)) / lambda;
        Span::from_secs_f64(range.as_secs_f64() * share)
    }

    /// Counts packets between two monitor bits, if it is one of those who do (RMTP FREPO).
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

    /// Share of packets lost between this poll and the one heard before it.
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
                session.loss = (u64::from(sent - came) * 65_535 / u64::from(sent)) as u16;
            }
        } else {
            let lost = poll.sent.saturating_sub(session.came);
            session.loss = (u64::from(lost) * 65_535 / u64::from(poll.sent)) as u16;
        }
        session.at_poll = Some(now);
    }

    /// A pass is over, as far as can be seen: it is reported on if that is expected, once.
    pub(super) fn pass_over(&mut self, now: Time, guard: Span) {
        let Some(terms) = self.session.as_ref().map(|session| session.terms) else {
            return;
        };
        let round = self.object.round;
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

    /// Answers the announcement at once, if that is still to be done.
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
        self.object.answered = Some(self.object.round);
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

    /// What is missing, in as many reports as it takes.
    fn report_missing(&mut self, asked: Asked) {
        if self.out.len() >= MAX_REPORTS {
            // The answer to an earlier poll has not left: polls must not fill the memory.
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
                // Everything is there, and the digest is still looked at.
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

    /// The first of what is missing.
    pub(super) fn missing_at_once(&self) -> Spans {
        Spans::of(self.object.held.gaps(0, self.object.held.len())).0
    }

    pub(super) fn report(&mut self, asked: Asked, state: State, more: bool) {
        let loss = self.session.as_ref().map_or(0, |session| session.loss);
        self.stats.reports += 1;
        let report = Report {
            sync: asked.sync,
            round: self.object.round,
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

/// Adds what the sender has heard of to what it had heard of before.
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
