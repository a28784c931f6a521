use layercast_core::{Span, Time};

use super::wire::{Carried, Session};

/// Which start of the other end is heard.
///
/// Anybody can send a datagram in the name of the peer, and bit errors change a session. So another session takes the
/// place of the one that is heard at its second datagram, and only if nothing of the one that is heard came for
/// [`QUIET`](Peer::QUIET). A peer whose place was taken has it back in the same way.
#[derive(Default, Debug)]
pub(super) struct Peer {
    session: Option<Session>,
    heard_at: Time,
    /// Another session, and its first datagram, which is delivered with the second.
    candidate: Option<(Session, Carried)>,
}

/// What becomes of a datagram.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// It is of the session that is heard.
    Heard,
    /// Its session is heard from now on. The earlier datagram of it comes first.
    Begins(Option<Carried>),
    /// It is of another session, and is dropped unless that one begins with the next datagram.
    Dropped,
}

impl Peer {
    /// Silence after which another session is heard. A program does not start again in less, and a path does not
    /// delay datagrams of a former start for longer.
    pub const QUIET: Span = Span::from_ms(100);

    /// The session that is heard.
    pub fn session(&self) -> Option<Session> {
        self.session
    }

    /// Judges a datagram of `session` that arrives `now`.
    pub fn admit(&mut self, now: Time, session: Session, carried: &Carried) -> Admission {
        if self.session == Some(session) {
            self.heard_at = now;
            self.candidate = None;
            return Admission::Heard;
        }
        let is_quiet = self.session.is_none() || now.since(self.heard_at) >= Peer::QUIET;
        match self.candidate.take_if(|it| it.0 == session) {
            Some((_, first)) if is_quiet => self.begin(now, session, Some(first)),
            None if self.session.is_none() => self.begin(now, session, None),
            Some(same) => {
                self.candidate = Some(same);
                Admission::Dropped
            }
            None => {
                self.candidate = Some((session, carried.clone()));
                Admission::Dropped
            }
        }
    }

    fn begin(&mut self, now: Time, session: Session, first: Option<Carried>) -> Admission {
        (self.session, self.heard_at) = (Some(session), now);
        self.candidate = None;
        Admission::Begins(first)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn ms(at: u64) -> Time {
        Time::ZERO + Span::from_ms(at)
    }

    fn carried(byte: u8) -> Carried {
        Carried::Plain(Bytes::copy_from_slice(&[byte]))
    }

    #[test]
    fn a_session_takes_the_place_of_a_silent_one_with_its_second_datagram() {
        let [one, two, stray] = [1, 2, 3].map(Session::new);
        let mut peer = Peer::default();
        let admits =
            |peer: &mut Peer, at, session, byte| peer.admit(ms(at), session, &carried(byte));
        assert_eq!(admits(&mut peer, 0, one, 0), Admission::Begins(None));
        // While the peer is heard, no other session takes its place.
        for at in (10..1_000).step_by(10) {
            assert_eq!(admits(&mut peer, at, two, 0), Admission::Dropped);
            assert_eq!(admits(&mut peer, at, one, 0), Admission::Heard);
        }
        // One datagram is not enough, nor two of different sessions.
        assert_eq!(admits(&mut peer, 2_000, stray, 1), Admission::Dropped);
        assert_eq!(admits(&mut peer, 2_001, two, 2), Admission::Dropped);
        let first = Some(carried(2));
        assert_eq!(admits(&mut peer, 2_002, two, 3), Admission::Begins(first));
        // What is late of the former start changes nothing.
        assert_eq!(admits(&mut peer, 2_003, one, 0), Admission::Dropped);
        assert_eq!(admits(&mut peer, 2_004, one, 0), Admission::Dropped);
        assert_eq!(admits(&mut peer, 2_005, two, 0), Admission::Heard);
        // A peer whose place was taken has it back.
        assert_eq!(admits(&mut peer, 2_200, one, 4), Admission::Dropped);
        let first = Some(carried(4));
        assert_eq!(admits(&mut peer, 2_210, one, 5), Admission::Begins(first));
    }
}
