use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use layercast_core::{Span, Time};
use layercast_wire::multicast::{Accept, Body, DataFlags, MemberId, Packet, Report, State, Tally};

use super::{EmulateConfig, Emulation, announced, is_last, own_socket};
use crate::error::NetError;
use crate::multicast::outgoing::Outgoing;
use crate::multicast::session::Inbox;
use crate::udp::Udp;

/// Receivers that say yes, one after the other.
pub struct Lares {
    receivers: u32,
    first: u64,
    gap: Span,
    udp: Udp,
    out: Outgoing,
    inbox: Inbox,
    /// The session, its sender, and whether it is that of the last file.
    session: Option<(u64, SocketAddr, bool)>,
    /// What all of them are to say.
    sweeps: VecDeque<Sweep>,
    /// When the next one speaks.
    next: Time,
    over: bool,
    pub told: Emulation,
}

/// What all of them say, and who is the next to say it.
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
            told: Emulation::default(),
        })
    }

    pub fn socket(&self) -> &Udp {
        &self.udp
    }

    /// A packet came.
    pub fn hear(&mut self, now: Time, from: SocketAddr, packet: &Packet) {
        if let Some(open) = announced(packet) {
            if self.session.is_none() {
                self.session = Some((packet.session, from, is_last(open)));
                self.told.joined += u64::from(self.receivers);
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

    /// Says something in its session; nothing: it is over.
    fn hear_of_session(&mut self, now: Time, packet: &Packet, say: Option<Say>) {
        let Some((_, _, last)) = self.session.filter(|(id, ..)| *id == packet.session) else {
            return;
        };
        let Some(say) = say else {
            self.sweeps.clear();
            self.session = None;
            self.over |= last;
            return;
        };
        // They say each thing once; who was not heard is asked again, after all have spoken.
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

    /// What is due; whether all is over, and when to come back.
    pub fn work(&mut self, now: Time) -> (bool, Option<Time>) {
        while self.udp.receive(&mut self.inbox) {
            let packets: Vec<_> = self.inbox.packets.drain(..).collect();
            for (from, packet) in packets {
                self.hear(now, from, &packet);
            }
        }
        while self.next <= now
            && !self.out.is_full()
            && let Some(sweep) = self.sweeps.front_mut()
            && let Some((session, sender, last)) = self.session
        {
            let member = MemberId(self.first.wrapping_add(sweep.next.into()));
            let to: Arc<[SocketAddr]> = Arc::new([sender]);
            let body = sweep.say.of(member);
            self.out.push(&to, &Packet { session, body });
            self.told.sent += 1;
            self.next += self.gap;
            sweep.next += 1;
            if sweep.next == self.receivers {
                if sweep.say == Say::GoodBye {
                    self.told.complete += u64::from(self.receivers);
                    self.session = None;
                    self.over |= last;
                }
                self.sweeps.pop_front();
            }
        }
        self.out.flush(&mut self.udp);
        let busy = !self.sweeps.is_empty() || !self.out.is_empty();
        let soon = self.next.max(now + Span::from_us(100));
        (self.over && self.out.is_empty(), busy.then_some(soon))
    }
}

impl Say {
    fn of(self, member: MemberId) -> Body {
        match self {
            Say::Accept { stamp } => Body::Accept(Accept {
                member,
                incarnation: 1,
                refuses: None,
                buffer: 1,
                held: 0,
                weight: 1,
                absent: 0,
                hold_us: 0,
                stamp,
            }),
            Say::Complete { sync, round, stamp } => Body::Report(Box::new(Report {
                member,
                sync,
                round,
                stamp,
                held_us: 0,
                loss: 0,
                buffer: 1,
                more: false,
                tally: Tally {
                    alive: 1,
                    complete: 1,
                    failed: 0,
                },
                state: State::Complete { receipt: [0; 16] },
            })),
            Say::GoodBye => Body::Released { member },
        }
    }
}
