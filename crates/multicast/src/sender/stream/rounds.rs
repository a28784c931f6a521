//! FRM's main loop (specs/fully-reliable-multicast.md 2.3): poll, record levels, evaluate, repair.

use layercast_core::RangeSet;
use layercast_wire::multicast::{Report, State};

use super::super::*;
use crate::Repair;
use crate::sender::plan::Plan;

impl<S: Source> Sender<S> {
    pub(in crate::sender) fn begin_stream(&mut self, now: Time) {
        self.fit_window();
        self.stream_round(now);
    }

    /// Limits outstanding data to the smallest buffer of the counted receivers (specs/fully-reliable-multicast.md 6).
    pub(in crate::sender) fn fit_window(&mut self) {
        let least = self.counted().map(|it| u64::from(it.buffer)).min();
        if let Some(stream) = &mut self.stream {
            let own = u64::from(self.config.window);
            stream.window = own.min(least.unwrap_or(own)).max(1);
        }
    }

    /// Sends the next poll.
    fn stream_round(&mut self, now: Time) {
        self.begin_round();
        self.phase = Phase::Collecting;
        self.round.ask = Ask::Everyone;
        self.round.asked = now;
        self.round.spread = self.range();
        let Some(stream) = &mut self.stream else {
            return;
        };
        stream.lseq = stream.sent;
        let outstanding = stream.base < stream.next() || stream.ended;
        let wait = self.clock.wait(self.round.spread);
        let longest = match self.config.trigger {
            Trigger::Timer { idle, .. } => idle,
            Trigger::Pass => Span::ZERO,
        };
        // An idle stream is polled less and less often.
        stream.idle = match outstanding {
            true => Span::ZERO,
            false => (stream.idle.times(2)).max(wait).min(longest.max(wait)),
        };
        self.round.deadline = now + wait.max(stream.idle);
        self.poll_group(now, false);
    }

    /// Whether the timer must expire before the list is evaluated.
    pub(in crate::sender) fn waits_for_timer(&self) -> bool {
        let faithful = matches!(
            self.config.trigger,
            Trigger::Timer {
                on_complete: false,
                ..
            }
        );
        let idle = self.stream.as_ref().is_some_and(|it| it.idle > Span::ZERO);
        self.stream.is_some() && self.round.tries == 0 && !self.round.patient && (faithful || idle)
    }

    /// Whether reported levels are possible; they never decrease (specs/fully-reliable-multicast.md 7).
    pub(in crate::sender) fn levels_fit(&self, at: usize, report: &Report) -> bool {
        let (
            Some(stream),
            State::Levels {
                received,
                delivered,
                gaps,
            },
        ) = (&self.stream, &report.state)
        else {
            return false;
        };
        let record = self.roster.get(at);
        let forward = *received >= record.received && *delivered >= record.delivered;
        let gaps_fit = gaps.is_empty() || gaps.end() <= stream.sent;
        delivered <= received && *received <= stream.sent && forward && gaps_fit
    }

    pub(in crate::sender) fn take_levels(&mut self, at: usize, report: &Report) {
        let State::Levels {
            received,
            delivered,
            gaps,
        } = &report.state
        else {
            return;
        };
        let record = self.roster.get_mut(at);
        record.received = *received;
        record.delivered = *delivered;
        record.missing = (!gaps.is_empty()).then(|| {
            let mut missing = RangeSet::new();
            for (from, to) in gaps.iter() {
                missing.insert(from, to);
            }
            Box::new(missing)
        });
        self.settle(at);
    }

    /// Evaluates a round: all have answered, or will not (specs/fully-reliable-multicast.md 2.3).
    pub(in crate::sender) fn evaluate_stream(&mut self, now: Time) {
        if self.round.largest > Span::ZERO {
            self.clock.largest_was(self.round.largest);
        }
        self.clock.round_over();
        let Some((received, delivered)) = self.minima() else {
            // No receiver counts any more, and the condition allows it.
            return self.close(Err(Failure::NoReceivers));
        };
        let free = match self.config.release_on_received {
            true => received,
            false => delivered,
        };
        self.free_buffers(free);
        self.check_ejection(now, delivered);
        if self.phase == Phase::Closed {
            return;
        }
        // Expelled receivers no longer count.
        let (received, delivered) = self.minima().unwrap_or((received, delivered));
        self.repair_stream(received);
        let done = self
            .stream
            .as_ref()
            .is_some_and(|it| it.ended && delivered == it.next());
        if done {
            return self.stream_done();
        }
        self.stream_round(now);
    }

    /// The counted receivers.
    fn counted(&self) -> impl Iterator<Item = &Record> {
        let joined = self.roster.iter().filter(|it| it.status == Status::Joined);
        joined.filter(|it| !self.config.best_effort.contains(&it.id))
    }

    /// Least rseq and dseq of the counted receivers.
    fn minima(&self) -> Option<(u64, u64)> {
        self.counted()
            .map(|it| (it.received, it.delivered))
            .reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
    }

    fn free_buffers(&mut self, upto: u64) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        if upto > stream.base {
            stream.kept.drain(..(upto - stream.base) as usize);
            stream.base = upto;
            self.events.push_back(SenderEvent::Released { upto });
        }
    }

    fn repair_stream(&mut self, received: u64) {
        let selective = self.missing_plan();
        let Some(stream) = &mut self.stream else {
            return;
        };
        let proved = (self.round.sync.wrapping_sub(stream.svdsync) as i32) > 0;
        if received >= stream.lseq || !proved {
            return;
        }
        let plan = match self.config.repair {
            Repair::GoBackN => {
                let mut plan = Plan::default();
                plan.sources(received, stream.sent);
                plan
            }
            _ => selective,
        };
        if let Some((from, to)) = plan.bounds() {
            stream.repair = plan;
            stream.svdsync = self.round.sync.wrapping_add(1);
            self.stats.rounds += 1;
            self.events.push_back(SenderEvent::Repair { from, to });
        }
    }

    fn stream_done(&mut self) {
        let end = self.upto();
        for record in self.roster.iter_mut() {
            if record.status == Status::Joined && record.delivered == end {
                record.status = Status::Done;
                record.complete = record.weight;
            }
        }
        let round = self.round.number;
        self.send(To::Group, Body::Release { round });
        self.conclude();
    }
}
