use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Span, Time};
use layercast_wire::{Control, MAX_APP};
use thiserror::Error;

/// How long a message may go unanswered before it is sent again.
const RESEND: Span = Span::from_secs(2);
/// Messages on their way at one time.
const WINDOW: usize = 8;
/// Messages that may wait, those on their way included.
const MAX_WAITING: usize = 64;

/// Why a control message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ControlError {
    /// Longer than [`MAX_APP`] bytes.
    #[error("control message of {0} bytes is longer than {MAX_APP}")]
    TooLong(usize),
    /// Too many messages wait for the other end; try again later.
    #[error("{MAX_WAITING} control messages wait already")]
    Full,
    /// No such member, or the flow is closed.
    #[error("no member is joined that could receive a control message")]
    NotConnected,
}

/// One end of a control socket (specs/mets.md 2.2): messages of the application, in order and once, over
/// hops that may break.
///
/// Go-back-N with cumulative answers. The sender names its counter and says which message was not
/// answered yet; there a receiver begins that does not know the counter.
#[derive(Default, Debug)]
pub(super) struct ControlSocket {
    /// Names our counter; fixed by the first message.
    session: Option<u32>,
    /// Number of the first message of `waiting`.
    first: u32,
    waiting: VecDeque<Bytes>,
    /// Messages of `waiting` that are on their way.
    flying: usize,
    resend_at: Option<Time>,
    /// Counter of the other end, and the message expected from it.
    expected: Option<(u32, u32)>,
    /// The other end waits for an answer.
    owes: bool,
}

impl ControlSocket {
    /// Takes a message for the other end.
    pub fn send(&mut self, now: Time, message: Bytes) -> Result<(), ControlError> {
        if message.len() > MAX_APP {
            return Err(ControlError::TooLong(message.len()));
        }
        if self.waiting.len() >= MAX_WAITING {
            return Err(ControlError::Full);
        }
        // Two lives of one application do not begin in the same microsecond.
        self.session.get_or_insert(now.as_us() as u32);
        self.waiting.push_back(message);
        Ok(())
    }

    /// The next thing to send while the way is open; call until `None`.
    pub fn poll(&mut self, now: Time) -> Option<Control> {
        if let Some((session, next)) = self.expected.filter(|_| self.owes) {
            self.owes = false;
            return Some(Control::Taken { session, next });
        }
        let session = self.session?;
        if self.flying >= WINDOW {
            return None;
        }
        let message = self.waiting.get(self.flying)?;
        let control = Control::Data {
            session,
            number: self.first.wrapping_add(self.flying as u32),
            oldest: self.first,
            data: message.clone().into(),
        };
        self.flying += 1;
        self.resend_at.get_or_insert(now.saturating_add(RESEND));
        Some(control)
    }

    /// Takes what the other end sent; gives a message for the application if it is the next one and
    /// the application has `room` for it.
    pub fn on_control(&mut self, now: Time, control: Control, room: bool) -> Option<Bytes> {
        match control {
            Control::Data {
                session,
                number,
                oldest,
                data,
            } => {
                let next = match self.expected {
                    Some((known, next)) if known == session => next,
                    _ => oldest,
                };
                let taken = number == next && room;
                self.expected = Some((session, next.wrapping_add(u32::from(taken))));
                self.owes = true;
                taken.then_some(data.0)
            }
            Control::Taken { session, next } => {
                self.on_taken(now, session, next);
                None
            }
        }
    }

    fn on_taken(&mut self, now: Time, session: u32, next: u32) {
        let taken = next.wrapping_sub(self.first) as usize;
        if self.session != Some(session) || !(1..=self.flying).contains(&taken) {
            return;
        }
        self.waiting.drain(..taken);
        self.first = next;
        self.flying -= taken;
        self.resend_at = (self.flying > 0).then(|| now.saturating_add(RESEND));
    }

    /// The way is open again: whatever was on it may be lost.
    pub fn reopen(&mut self) {
        self.flying = 0;
        self.resend_at = None;
    }

    /// Gives whether what was sent is to be sent again.
    pub fn on_timeout(&mut self, now: Time) -> bool {
        let due = self.resend_at.is_some_and(|at| at <= now);
        if due {
            self.reopen();
        }
        due
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.resend_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::Stream;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn message(n: u32) -> Bytes {
        Bytes::copy_from_slice(&n.to_be_bytes())
    }

    proptest! {
        // Hops keep the order; a hop that breaks loses what is on it, and is then mended.
        #[test]
        fn every_message_arrives_once_and_in_order(seed in any::<u64>(), count in 1u32..120) {
            let mut random = Stream::new(seed, "loss");
            let (mut a, mut b) = (ControlSocket::default(), ControlSocket::default());
            let (mut sent, mut got, mut ms) = (0, Vec::new(), 1);
            while got.len() < count as usize {
                prop_assert!(ms < 10_000_000, "{} of {count}", got.len());
                while sent < count && a.send(at(ms), message(sent)).is_ok() {
                    sent += 1;
                }
                let broken = random.chance(0.3);
                let room = !random.chance(0.1);
                a.on_timeout(at(ms));
                while let Some(control) = a.poll(at(ms)) {
                    if !(broken && random.chance(0.5)) {
                        got.extend(b.on_control(at(ms), control, room));
                    }
                }
                while let Some(control) = b.poll(at(ms)) {
                    if !broken {
                        prop_assert_eq!(a.on_control(at(ms), control, true), None);
                    }
                }
                ms += 500;
            }
            prop_assert_eq!(got, (0..count).map(message).collect::<Vec<_>>());
        }

        #[test]
        fn whatever_the_other_end_says_memory_stays_bounded(
            said in prop::collection::vec((any::<bool>(), 0u32..3, 0u32..70), 0..200),
        ) {
            let mut socket = ControlSocket::default();
            for (data, session, number) in said {
                let _ = socket.send(at(0), message(0));
                while socket.poll(at(0)).is_some() {}
                let control = match data {
                    true => Control::Data { session, number, oldest: 0, data: message(number).into() },
                    false => Control::Taken { session, next: number },
                };
                socket.on_control(at(0), control, true);
                prop_assert!(socket.waiting.len() <= MAX_WAITING);
                prop_assert!(socket.flying <= socket.waiting.len().min(WINDOW));
            }
        }
    }

    #[test]
    fn a_receiver_that_started_anew_goes_on_where_it_is() {
        let (mut a, mut b) = (ControlSocket::default(), ControlSocket::default());
        for n in 0..3 {
            a.send(at(5), message(n)).unwrap();
            let data = a.poll(at(5)).unwrap();
            assert_eq!(b.on_control(at(5), data, true), Some(message(n)));
            a.on_control(at(5), b.poll(at(5)).unwrap(), true);
        }
        let mut b = ControlSocket::default();
        a.send(at(6), message(3)).unwrap();
        assert_eq!(
            b.on_control(at(6), a.poll(at(6)).unwrap(), true),
            Some(message(3))
        );
        // And a sender that started again counts from zero.
        let mut a = ControlSocket::default();
        a.send(at(7), message(9)).unwrap();
        assert_eq!(
            b.on_control(at(7), a.poll(at(7)).unwrap(), true),
            Some(message(9))
        );
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let mut socket = ControlSocket::default();
        let long = Bytes::from(vec![0; MAX_APP + 1]);
        assert_eq!(
            socket.send(at(0), long),
            Err(ControlError::TooLong(MAX_APP + 1))
        );
        for n in 0..MAX_WAITING as u32 {
            assert_eq!(socket.send(at(0), message(n)), Ok(()));
        }
        assert_eq!(socket.send(at(0), message(0)), Err(ControlError::Full));
    }
}
