use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use layercast_core::{Span, Time};
use layercast_wire::multicast::{
    Accept, Body, DataFlags, Datagram, MemberId, Packet, Report, State,
};

use super::{EmulateConfig, Emulation, Many, announced, is_file, is_last, own_socket, respond};
use crate::error::NetError;
use crate::multicast::keys::{Inbox, Keys};
use crate::multicast::outgoing::Outgoing;
use crate::udp::Udp;

/// Receivers that say yes, one after the other.
pub struct Lares {
    receivers: u32,
    first: u64,
    gap: Span,
    udp: Udp,
    out: Outgoing,
    inbox: Inbox,
    session: Option<Session>,
    /// What all of them are to say.
    sweeps: VecDeque<Sweep>,
    /// When the next one speaks.
    next: Time,
    over: bool,
    totals: Emulation,
}

/// The session that they take part in.
struct Session {
    id: u64,
    /// Its sender, in the form in which packets are sent there.
    sender: Arc<[SocketAddr]>,
    /// It is that of the last file.
    last: bool,
    /// It brings a file.
    counts: bool,
}

/// The message of all emulated receivers, and the next one to send it.
struct Sweep {
    say: Say,
    next: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Say {
    Accept { stamp: u64 },
    Complete { sync: u32, round: u16, stamp: u64 },
    GoodBye,
}

impl Lares {
    pub fn new(config: &EmulateConfig, gap: Span, seed: u64) -> Result<Lares, NetError> {
        Ok(Lares {
            receivers: config.receivers,
            first: seed,
            gap,
            udp: own_socket()?,
            out: Outgoing::default(),
            inbox: Inbox::default(),
            session: None,
            sweeps: VecDeque::new(),
            next: Time::ZERO,
            over: false,
            totals: Emulation::default(),
        })
    }

    /// Says something in its session; nothing: it is over.
    fn hear_of_session(&mut self, now: Time, packet: &Packet, say: Option<Say>) {
        let of_it = |it: &&Session| it.id == packet.session;
        let Some(session) = self.session.as_ref().filter(of_it) else {
            return;
        };
        let Some(say) = say else {
            self.over |= session.last;
            self.sweeps.clear();
            self.session = None;
            return;
        };
        // Each receiver sends each message once; those without an answer are asked again after all have
        // answered.
        let same = |it: &Sweep| match (it.say, say) {
            (Say::Accept { .. }, Say::Accept { .. }) => true,
            (Say::Complete { sync: a, .. }, Say::Complete { sync: b, .. }) => a == b,
            (a, b) => a == b,
        };
        if !self.sweeps.iter().any(same) {
            self.next = self.next.max(now);
            self.sweeps.push_back(Sweep { say, next: 0 });
        }
    }
}

impl Many for Lares {
    fn others(&mut self, count: u64) {
        self.totals.disbelieved += count;
    }

    fn hear(&mut self, now: Time, from: SocketAddr, packet: &Packet, _: &Keys) {
        if let Some(open) = announced(packet) {
            if self.session.is_none() {
                self.session = Some(Session {
                    id: packet.session,
                    sender: Arc::new([from]),
                    last: is_last(open),
                    counts: is_file(open),
                });
                self.totals.joined += u64::from(self.receivers) * u64::from(is_file(open));
            }
            return self.hear_of_session(now, packet, Some(Say::Accept { stamp: open.stamp }));
        }
        let say = match &packet.body {
            Body::Poll(poll) => Some(Say::Complete {
                sync: poll.sync,
                round: poll.round,
                stamp: poll.stamp,
            }),
            Body::Data(data) if data.flags.has(DataFlags::LAST) => Some(Say::Complete {
                sync: 0,
                round: data.round,
                stamp: 0,
            }),
            Body::Release { .. } => Some(Say::GoodBye),
            Body::Abort { .. } => None,
            _ => return,
        };
        self.hear_of_session(now, packet, say);
    }

    fn work(&mut self, now: Time) -> (bool, Option<Time>) {
        while self.udp.receive(&mut self.inbox) {
            for (from, _, datagram) in std::mem::take(&mut self.inbox.came) {
                match datagram {
                    Datagram::Packet(packet) => self.hear(now, from, &packet, &Keys::Clear),
                    Datagram::Path(check) => {
                        respond(&check, from, &mut Keys::Clear, &mut self.out);
                    }
                }
            }
        }
        while self.next <= now
            && !self.out.is_full()
            && let Some(sweep) = self.sweeps.front_mut()
            && let Some(session) = &self.session
        {
            let member = MemberId(self.first.wrapping_add(sweep.next.into()));
            let packet = Packet {
                session: session.id,
                body: sweep.say.of(member),
            };
            let len = packet.encoded_len();
            self.out
                .push(&session.sender, len, |out| packet.encode_into(out));
            self.totals.sent += 1;
            self.next += self.gap;
            sweep.next += 1;
            if sweep.next == self.receivers {
                if sweep.say == Say::GoodBye {
                    self.totals.complete += u64::from(self.receivers) * u64::from(session.counts);
                    self.over |= session.last;
                    self.session = None;
                }
                self.sweeps.pop_front();
            }
        }
        self.out.flush(&mut self.udp);
        let busy = !self.sweeps.is_empty() || !self.out.is_empty();
        let soon = self.next.max(now + Span::from_us(100));
        (self.over && self.out.is_empty(), busy.then_some(soon))
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.udp.poll_readable(context)
    }

    fn totals(&self) -> Emulation {
        self.totals
    }
}

impl Say {
    fn of(self, member: MemberId) -> Body {
        match self {
            Say::Accept { stamp } => Body::Accept(Accept {
                stamp,
                ..Accept::alone(member)
            }),
            Say::Complete { sync, round, stamp } => Body::Report(Box::new(Report {
                sync,
                round,
                stamp,
                ..Report::alone(member, State::Complete { receipt: [0; 16] })
            })),
            Say::GoodBye => Body::Released { member },
        }
    }
}
