use layercast_core::Time;

use crate::app::{ConnId, End, HostId};

/// A completed TCP connection, as an observer of its packets sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Closed {
    /// The host that opened it.
    pub from: HostId,
    /// The other host.
    pub to: HostId,
    /// Its port.
    pub port: u16,
    /// When it was opened.
    pub start: Time,
    /// When its second end closed.
    pub end: Time,
    /// Payload from the opening host, bytes.
    pub sent: u64,
    /// Payload to the opening host, bytes.
    pub received: u64,
}

/// A connection of a conversation.
#[derive(Debug)]
pub(super) struct Open {
    pub conn: ConnId,
    pub opener: End,
    /// What is known of it so far.
    pub seen: Closed,
    /// The side that has closed.
    closed: Option<End>,
}

impl Open {
    pub fn new(now: Time, conn: ConnId, opener: End, from: HostId, to: HostId, port: u16) -> Open {
        let seen = Closed {
            from,
            to,
            port,
            start: now,
            end: now,
            sent: 0,
            received: 0,
        };
        Open {
            conn,
            opener,
            seen,
            closed: None,
        }
    }

    /// From which host to which the bytes go that an end writes.
    pub fn way(&self, end: End) -> (HostId, HostId) {
        match end == self.opener {
            true => (self.seen.from, self.seen.to),
            false => (self.seen.to, self.seen.from),
        }
    }

    /// Bytes that an end wrote.
    pub fn carry(&mut self, end: End, bytes: u64) {
        match end == self.opener {
            true => self.seen.sent += bytes,
            false => self.seen.received += bytes,
        }
    }

    /// An end closes; the connection as it was if the other end had closed before.
    pub fn close(&mut self, now: Time, end: End) -> Option<Closed> {
        self.seen.end = now;
        let over = self.closed == Some(end.other());
        self.closed = Some(end);
        over.then_some(self.seen)
    }
}
