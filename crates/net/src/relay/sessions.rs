use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;

use bytes::Bytes;
use layercast_core::Time;

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
    heard: Time,
}

/// The clients of a path.
pub struct Sessions {
    to: SocketAddr,
    max: usize,
    all: BTreeMap<SessionId, Session>,
    by_client: HashMap<SocketAddr, SessionId>,
    next: u64,
    gone_strangers: u64,
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
    pub fn new(to: SocketAddr, max: usize) -> Sessions {
        Sessions {
            to,
            max,
            all: BTreeMap::new(),
            by_client: HashMap::new(),
            next: 0,
            gone_strangers: 0,
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
        let local = SocketAddr::new(source_towards(self.to), 0);
        let socket = Udp::bind(local).ok()?;
        let id = SessionId(self.next);
        self.next += 1;
        let session = Session {
            client,
            socket,
            far: Outbox::new(self.to),
            near: Outbox::new(client),
            heard: now,
        };
        self.all.insert(id, session);
        self.by_client.insert(client, id);
        Some(id)
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

    /// The port from which the datagrams of a client go on.
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

    /// Takes what each client's socket has, but not for ever; says whether there may be more.
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
            push(&mut session.near, bytes, congestion);
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
