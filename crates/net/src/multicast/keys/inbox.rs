//! The datagrams of a socket, opened and decoded.

use super::*;

/// What came and is not handled yet.
#[derive(Default)]
pub struct Inbox {
    /// Addresses, octets of the datagram, and what it says.
    pub came: Vec<(SocketAddr, usize, Datagram)>,
    /// Datagrams that say nothing that is known.
    pub malformed: u64,
    /// Sessions under another key, and those in the clear where a key is needed: whose they are, and their numbers.
    pub others: Vec<(SocketAddr, u64)>,
    /// What it is opened with.
    pub keys: Keys,
    /// Octets of the datagram that is being opened, and what it is: sealed, or not.
    opened: (usize, bool),
}

impl Inbox {
    /// With these keys.
    pub fn with(keys: Keys) -> Inbox {
        Inbox {
            keys,
            ..Inbox::default()
        }
    }

    fn other(&mut self, from: SocketAddr, session: u64) {
        let new = !self.others.contains(&(from, session));
        if new && self.others.len() < MOST_OTHERS {
            self.others.push((from, session));
        }
    }
}

impl Inbound for Inbox {
    type Key = SocketAddr;

    fn known(&mut self, addr: SocketAddr) -> Option<SocketAddr> {
        Some(addr)
    }

    fn open<'a>(
        &mut self,
        from: SocketAddr,
        datagram: &'a mut [u8],
    ) -> Result<&'a [u8], OpenError> {
        self.opened = (datagram.len(), false);
        if !SealedHead::is_sealed(datagram) {
            return Ok(datagram);
        }
        let Ok(head) = SealedHead::decode(datagram) else {
            self.malformed += 1;
            return Err(OpenError::Forged);
        };
        match self.keys.open(&head, datagram) {
            Ok((start, end)) => {
                self.opened.1 = true;
                Ok(&datagram[start..end])
            }
            Err(error) => {
                // Only what announces a session says that another key is in use: the rest may be of any.
                if matches!(head.by, SealedBy::Announcement(_))
                    && !matches!(error, OpenError::Replayed { .. })
                {
                    self.other(from, head.session);
                }
                Err(error)
            }
        }
    }

    fn deliver(&mut self, from: SocketAddr, content: Bytes, _: bool) {
        let (len, sealed) = self.opened;
        let Ok(datagram) = Datagram::decode(&content) else {
            self.malformed += 1;
            return;
        };
        if !sealed && !self.keys.is_clear() {
            match &datagram {
                // A hint that proves nothing is taken as such.
                Datagram::Path(PathCheck {
                    body: PathBody::OtherKey,
                    ..
                }) => {}
                Datagram::Packet(Packet {
                    session,
                    body: Body::Open(_),
                }) => return self.other(from, *session),
                _ => {
                    self.malformed += 1;
                    return;
                }
            }
        }
        self.came.push((from, len, datagram));
    }
}
