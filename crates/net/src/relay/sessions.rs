use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;

use bytes::Bytes;
use layercast_core::{AddressBudget, Time};

use crate::join::source_towards;
use crate::outbox::Outbox;
use crate::udp::{Inbound, Udp};

/// One client of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(u64);

/// A client and its socket towards the far side.
struct Session {
    client: SocketAddr,
    socket: Udp,
    far: Outbox,
    near: Outbox,
    /// What may go to the client: its address can be forged.
    budget: AddressBudget,
    heard: Time,
}

/// The clients of a path.
pub struct Sessions {
    to: SocketAddr,
    max: usize,
    from_port: u16,
    all: BTreeMap<SessionId, Session>,
    by_client: HashMap<SocketAddr, SessionId>,
    next: u64,
    gone_strangers: u64,
    /// Whether the addresses of all clients are believed.
    believe: bool,
    limited: u64,
}

/// Datagrams of the far side.
struct FromFar<'a, F> {
    id: SessionId,
    far: SocketAddr,
    take: &'a mut F,
}

impl<F: FnMut(SessionId, Bytes, bool)> Inbound for FromFar<'_, F> {
    type Key = ();

    fn known(&mut self, addr: SocketAddr) -> Option<()> {
        (addr == self.far).then_some(())
    }

    fn deliver(&mut self, (): (), datagram: Bytes, congestion: bool) {
        (self.take)(self.id, datagram, congestion);
    }
}

impl Sessions {
    /// Datagrams are forwarded to `to`; with a port of their own there is one client at a time.
    pub fn new(to: SocketAddr, max: usize, (believe, from_port): (bool, Option<u16>)) -> Sessions {
        Sessions {
            to,
            max: from_port.map_or(max, |_| 1),
            from_port: from_port.unwrap_or(0),
            all: BTreeMap::new(),
            by_client: HashMap::new(),
            next: 0,
            gone_strangers: 0,
            believe,
            limited: 0,
        }
    }

    /// The session of a client, which it gets with its first datagram; `None` if the system has no
    /// socket for it.
    pub fn for_client(&mut self, now: Time, client: SocketAddr) -> Option<SessionId> {
        if let Some(&id) = self.by_client.get(&client) {
            let session = self.all.get_mut(&id)?;
            session.heard = now;
            return Some(id);
        }
        if self.all.len() >= self.max {
            let silent = self.all.iter().min_by_key(|(_, session)| session.heard);
            let id = *silent?.0;
            let gone = self.all.remove(&id)?;
            self.gone_strangers += gone.socket.stats().unknown;
            self.by_client.remove(&gone.client);
        }
        let local = SocketAddr::new(source_towards(self.to), self.from_port);
        let socket = Udp::bind(local).ok()?;
        let id = SessionId(self.next);
        self.next += 1;
        let session = Session {
            client,
            socket,
            far: Outbox::new(self.to),
            near: Outbox::new(client),
            // Addresses of this host are not forged: the kernel takes none of them from outside.
            budget: match self.believe || client.ip().is_loopback() {
                true => AddressBudget::VALIDATED,
                false => AddressBudget::default(),
            },
            heard: now,
        };
        self.all.insert(id, session);
        self.by_client.insert(client, id);
        Some(id)
    }

    /// The same for a client from whose address a TCP connection came: it receives what is sent there.
    pub fn for_caller(&mut self, now: Time, client: SocketAddr) -> Option<SessionId> {
        let id = self.for_client(now, client)?;
        self.all.get_mut(&id)?.budget.validate();
        Some(id)
    }

    /// A client calls this host at the address `here`: its answers come from there.
    pub fn called_at(&mut self, id: SessionId, here: IpAddr) {
        if let Some(session) = self.all.get_mut(&id) {
            session.near.send_from(Some(here));
        }
    }

    /// Books a datagram of `octets` octets from a client.
    pub fn heard(&mut self, id: SessionId, octets: usize) {
        if let Some(session) = self.all.get_mut(&id) {
            session.budget.receive(octets);
        }
    }

    /// Answers that clients did not get because of the anti-amplification limit.
    pub fn limited(&self) -> u64 {
        self.limited
    }

    /// Clients seen so far.
    pub fn opened(&self) -> u64 {
        self.next
    }

    /// Datagrams that came to the socket of a client from somebody else than the far side.
    pub fn strangers(&self) -> u64 {
        let strangers = self
            .all
            .values()
            .map(|session| session.socket.stats().unknown);
        self.gone_strangers + strangers.sum::<u64>()
    }

    /// The port from which the datagrams of a client continue.
    pub fn port(&self, id: SessionId) -> Option<u16> {
        Some(self.all.get(&id)?.socket.local_addr().port())
    }

    /// The datagrams of a client go to another address from now on.
    pub fn redirect(&mut self, id: SessionId, far: SocketAddr) {
        if let Some(session) = self.all.get_mut(&id) {
            session.far = Outbox::new(far);
        }
    }

    /// Waits until `front` or the socket of a client has something to read.
    pub async fn readable(&self, front: &Udp) {
        poll_fn(|context| {
            // All are asked, so that each of them wakes us.
            let mut ready = front.poll_readable(context).is_ready();
            for session in self.all.values() {
                ready |= session.socket.poll_readable(context).is_ready();
            }
            match ready {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Takes what each client's socket has, but not forever; says whether there may be more.
    pub fn receive(&mut self, mut take: impl FnMut(SessionId, Bytes, bool)) -> bool {
        let mut more = false;
        for (&id, session) in &mut self.all {
            let mut inbound = FromFar {
                id,
                far: session.far.to(),
                take: &mut take,
            };
            more |= session.socket.receive_turn(&mut inbound);
        }
        more
    }

    /// Puts a datagram of a client on its way out; a client that is gone has none.
    pub fn send_far(&mut self, id: SessionId, bytes: &[u8], congestion: bool) {
        if let Some(session) = self.all.get_mut(&id) {
            push(&mut session.far, bytes, congestion);
        }
    }

    /// Puts an answer to a client on its way out.
    pub fn send_near(&mut self, id: SessionId, bytes: &[u8], congestion: bool) {
        if let Some(session) = self.all.get_mut(&id) {
            match session.budget.send(bytes.len()) {
                true => push(&mut session.near, bytes, congestion),
                false => self.limited += 1,
            }
        }
    }

    /// Hands everything to the kernel. What it does not take now goes with the next turn.
    pub fn flush(&mut self, front: &mut Udp) {
        for session in self.all.values_mut() {
            session.socket.flush(&mut session.far);
            front.flush(&mut session.near);
        }
    }
}

fn push(outbox: &mut Outbox, bytes: &[u8], congestion: bool) {
    outbox.push(bytes.len(), congestion, |out| out.extend_from_slice(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets that wait for a client after it sent 100 and is answered with `answers` of 100 each.
    fn answered(sessions: &mut Sessions, id: SessionId, answers: usize) -> usize {
        sessions.heard(id, 100);
        for _ in 0..answers {
            sessions.send_near(id, &[0; 100], false);
        }
        sessions.all[&id].near.waiting()
    }

    #[tokio::test]
    async fn a_client_elsewhere_gets_three_times_what_it_sent_until_it_is_validated() {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 5_000));
        let here = SocketAddr::from(([127, 0, 0, 1], 5_000));
        let mut sessions = Sessions::new(to, 8, (false, None));
        let id = sessions.for_client(Time::ZERO, elsewhere).unwrap();
        assert_eq!(answered(&mut sessions, id, 50), 300);
        assert_eq!(sessions.limited(), 47);
        // A connection came from that address.
        assert_eq!(sessions.for_caller(Time::ZERO, elsewhere), Some(id));
        assert_eq!(answered(&mut sessions, id, 50), 300 + 5_000);
        let id = sessions.for_client(Time::ZERO, here).unwrap();
        assert_eq!(answered(&mut sessions, id, 50), 5_000);
        let mut believing = Sessions::new(to, 8, (true, None));
        let id = believing.for_client(Time::ZERO, elsewhere).unwrap();
        assert_eq!(answered(&mut believing, id, 50), 5_000);
    }
}
