use layercast_core::RangeSet;
use layercast_wire::Payload;
use layercast_wire::multicast::{Report, State};
use thiserror::Error;

use super::plan::{Fresh, Plan};
use super::*;
use crate::{Repair, Virtual};

/// Why a packet is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SendError {
    /// As many packets are kept as there is room for; comes again after `Released`.
    #[error("the window is full")]
    WouldBlock,
    /// Longer than a packet.
    #[error("{0} octets are more than a packet holds")]
    TooLong(usize),
    /// Not a stream, or not open, or ended.
    #[error("the stream is not open")]
    NotOpen,
}

/// A stream: what is kept of it, and how far everybody is.
#[derive(Clone, Default, Debug)]
pub(super) struct StreamWork {
    /// Packets from `base` on.
    kept: VecDeque<Payload>,
    pub base: u64,
    /// The first number that was never sent.
    sent: u64,
    repair: Plan,
    /// 1 + the highest number sent before the last poll (FRM lseq).
    lseq: u64,
    /// Poll after which an answer can show that a repair failed (FRM svdsync).
    svdsync: u32,
    window: u64,
    ended: bool,
    /// What receivers are told that it is.
    pub about: Option<Object>,
    /// When the interval of ejection began, and what was released then.
    pub interval: Option<(Time, u64)>,
    /// How long the last wait was that found nothing outstanding.
    idle: Span,
}

impl StreamWork {
    /// Whether there is something to be sent.
    pub fn has_more(&self) -> bool {
        !self.repair.is_empty() || self.sent < self.next()
    }

    pub fn next(&self) -> u64 {
        self.base + self.kept.len() as u64
    }
}

impl Sender<Virtual> {
    /// A sender of a stream of packets (FRM). `session` tells sessions apart: let it be random.
    pub fn stream(
        session: u64,
        config: SenderConfig,
        members: Members,
    ) -> Result<Sender<Virtual>, ConfigError> {
        if !matches!(config.trigger, Trigger::Timer { .. }) {
            return Err(ConfigError::Trigger);
        }
        let window = u64::from(config.window);
        let mut sender = Sender::with(session, config, members, Virtual::new(0, 0))?;
        sender.stream = Some(Box::new(StreamWork {
            window,
            ..StreamWork::default()
        }));
        Ok(sender)
    }

    /// The same, announced as an object: receivers know its name, size and digest before it begins, and can tell whether
    /// they have it when it has ended.
    pub fn announcing(mut self, object: Object) -> Sender<Virtual> {
        if let Some(stream) = &mut self.stream {
            stream.about = Some(object);
        }
        self
    }
}

impl<S: Source> Sender<S> {
    /// Takes the next packet of the stream; it is kept until everybody who counts has it.
    pub fn send_packet(&mut self, payload: Payload) -> Result<(), SendError> {
        let longest = usize::from(self.config.packet_size);
        let open = self.phase == Phase::Collecting;
        let stream = self.stream.as_mut().filter(|stream| open && !stream.ended);
        let stream = stream.ok_or(SendError::NotOpen)?;
        if payload.len() > longest {
            return Err(SendError::TooLong(payload.len()));
        }
        if stream.kept.len() as u64 >= stream.window {
            return Err(SendError::WouldBlock);
        }
        stream.kept.push_back(payload);
        Ok(())
    }

    /// Nothing follows: the session closes when everybody has everything.
    pub fn end(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.ended = true;
        }
    }

    /// Packets of the stream that are kept, and how many may be.
    pub fn window(&self) -> (u64, u64) {
        let stream = self.stream.as_ref();
        stream.map_or((0, 0), |it| (it.kept.len() as u64, it.window))
    }

    /// Whether nothing follows what was sent.
    pub(super) fn stream_ended(&self) -> bool {
        let stream = self.stream.as_ref();
        stream.is_some_and(|it| it.ended && it.sent == it.next())
    }

    /// 1 + the highest number ever sent.
    pub(super) fn upto(&self) -> u64 {
        match &self.stream {
            Some(stream) => stream.sent,
            None => self.object.geometry.packets(),
        }
    }

    pub(super) fn begin_stream(&mut self, now: Time) {
        self.fit_window();
        self.stream_round(now);
    }

    /// Outstanding data must fit into every receiver that counts (fully-reliable-multicast.md 6).
    pub(super) fn fit_window(&mut self) {
        let least = self.counted().map(|it| u64::from(it.buffer)).min();
        if let Some(stream) = &mut self.stream {
            let own = u64::from(self.config.window);
            stream.window = own.min(least.unwrap_or(own)).max(1);
        }
    }

    /// The next poll.
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

    /// Whether the timer must run out before the list is evaluated.
    pub(super) fn waits_for_timer(&self) -> bool {
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

    /// Packets of a stream are those that are repaired, then new ones; none during a handshake.
    pub(super) fn next_of_stream(&mut self, now: Time) -> Option<Transmit> {
        if self.round.tries > 0 || !self.pacer.ready(now) {
            return None;
        }
        let stream = self.stream.as_mut()?;
        let (number, whom) = loop {
            let mut none = Fresh::default();
            match stream.repair.next(&self.object.geometry, &mut none) {
                Some((Symbol::Source(number), whom)) if number >= stream.base => {
                    break (number, Some(whom));
                }
                // It was released meanwhile.
                Some(_) => {}
                None if stream.sent < stream.next() => {
                    stream.sent += 1;
                    break (stream.sent - 1, None);
                }
                None => return None,
            }
        };
        let payload = stream.kept.get((number - stream.base) as usize)?.clone();
        let flags = match whom.is_some() {
            true => DataFlags::AGAIN,
            false => DataFlags::default(),
        };
        let peer = whom
            .flatten()
            .and_then(|at| self.roster.get(at as usize).peer);
        let to = peer.map_or(To::Group, To::One);
        let data = Data {
            round: 0,
            flags,
            symbol: Symbol::Source(number),
            payload,
        };
        Some(self.data(now, to, data))
    }

    /// Whether levels are what they can be; they never move backwards (fully-reliable-multicast.md 7).
    pub(super) fn levels_fit(&self, at: usize, report: &Report) -> bool {
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

    pub(super) fn take_levels(&mut self, at: usize, report: &Report) {
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

    /// All have answered, or will not: FRM's main loop (2.3).
    pub(super) fn evaluate_stream(&mut self, now: Time) {
        if self.round.largest > Span::ZERO {
            self.clock.largest_was(self.round.largest);
        }
        self.clock.round_over();
        let Some((received, delivered)) = self.minima() else {
            // Nobody counts any more, and the condition allows it.
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
        // Who was expelled does not count any more.
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

    /// Those that count.
    fn counted(&self) -> impl Iterator<Item = &Record> {
        let joined = self.roster.iter().filter(|it| it.status == Status::Joined);
        joined.filter(|it| !self.config.best_effort.contains(&it.id))
    }

    /// Smallest rseq and dseq of those that count.
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
