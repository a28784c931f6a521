mod rounds;

use layercast_wire::Payload;
use thiserror::Error;

use super::plan::{Fresh, Plan};
use super::*;
use crate::Virtual;

/// Reason why a packet is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SendError {
    /// The window is full; try again after `Released`.
    #[error("the window is full")]
    WouldBlock,
    /// The packet is longer than the configured size.
    #[error("{0} octets exceed the packet size of the stream")]
    TooLong(usize),
    /// Not a stream, or not open, or ended.
    #[error("the stream is not open")]
    NotOpen,
}

/// A stream: kept packets, and the progress of the receivers.
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
    /// The poll after which answers can show that a repair failed (FRM svdsync).
    svdsync: u32,
    window: u64,
    ended: bool,
    /// The description that receivers get.
    pub about: Option<Object>,
    /// When the ejection interval began, and the release level at that time.
    pub interval: Option<(Time, u64)>,
    /// The last wait that found nothing outstanding.
    idle: Span,
}

impl StreamWork {
    /// Whether there is data to send.
    pub fn has_more(&self) -> bool {
        !self.repair.is_empty() || self.sent < self.next()
    }

    pub fn next(&self) -> u64 {
        self.base + self.kept.len() as u64
    }
}

impl Sender<Virtual> {
    /// Creates a sender of a stream of packets (FRM). `session` distinguishes sessions and should be random.
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

    /// Announces the stream as an object: receivers know its name, size and digest in advance, and can verify it at
    /// the end.
    pub fn announcing(mut self, object: Object) -> Sender<Virtual> {
        if let Some(stream) = &mut self.stream {
            stream.about = Some(object);
        }
        self
    }
}

impl<S: Source> Sender<S> {
    /// Adds the next packet of the stream; it is kept until all counted receivers have it.
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

    /// Ends the stream: the session closes when all receivers have everything.
    pub fn end(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.ended = true;
        }
    }

    /// Packets of the stream that are kept, and the largest number.
    pub fn window(&self) -> (u64, u64) {
        let stream = self.stream.as_ref();
        stream.map_or((0, 0), |it| (it.kept.len() as u64, it.window))
    }

    /// Whether the stream ends after what was sent.
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

    /// Returns the next packet: repairs first, then new packets; none during a handshake.
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
