mod rounds;

use layercast_wire::Payload;
use thiserror::Error;

use super::plan::{Fresh, Plan};
use super::*;
use crate::Virtual;

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
}
