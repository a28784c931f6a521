use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use layercast_core::{Off, Span, Stream, Time, earliest};
use layercast_multicast::{Receiver, ReceiverConfig, ReceiverEvent, To, VirtualStore};
use layercast_wire::multicast::{Body, Datagram, MemberId, Packet};

use super::{EmulateConfig, Emulation, Many, announced, is_file, is_last, own_socket, respond};
use crate::error::NetError;
use crate::multicast::keys::{Inbox, Keys};
use crate::multicast::outgoing::Outgoing;
use crate::multicast::peers::Peers;
use crate::udp::Udp;

/// Senders that are remembered.
const MOST_SENDERS: usize = 64;

/// Whole receivers that keep nothing of what they receive.
pub struct Mars {
    all: Vec<One>,
    peers: Peers,
    delay: Span,
    loss: f64,
    inbox: Inbox,
    /// The session of a sender's last file has begun.
    last: bool,
    totals: Emulation,
}

/// One of them.
struct One {
    config: ReceiverConfig,
    /// The session that it takes part in, or took part in last.
    session: Option<(u64, Receiver<VirtualStore>)>,
    /// It brings a file.
    counts: bool,
    closed: bool,
    keys: Keys,
    udp: Udp,
    out: Outgoing,
    random: Stream,
    /// What it will hear.
    late: VecDeque<(Time, SocketAddr, Packet)>,
}

impl Mars {
    pub fn new(
        config: &EmulateConfig,
        loss: f64,
        delay: Span,
        seed: u64,
    ) -> Result<Mars, NetError> {
        let all = (0..config.receivers).map(|number| {
            let member = MemberId(seed.wrapping_add(number.into()));
            Ok(One {
                config: ReceiverConfig::new(member, seed).with_key(config.key.as_ref()),
                session: None,
                closed: false,
                counts: false,
                keys: Keys::receiver(config.key.as_ref(), member),
                udp: own_socket()?,
                out: Outgoing::default(),
                random: Stream::new(member.0, "multicast/mars"),
                late: VecDeque::new(),
            })
        });
        Ok(Mars {
            all: all.collect::<Result<_, NetError>>()?,
            peers: Peers::new(MOST_SENDERS),
            delay,
            loss,
            inbox: Inbox::default(),
            last: false,
            totals: Emulation::default(),
        })
    }
}

impl Many for Mars {
    fn others(&mut self, count: u64) {
        self.totals.disbelieved += count;
    }

    fn hear(&mut self, now: Time, from: SocketAddr, packet: &Packet, keys: &Keys) {
        if let Some(open) = announced(packet) {
            let believed = self.all.first();
            if !believed.is_some_and(|it| it.config.believes(packet.session, open)) {
                self.totals.disbelieved += 1;
                return;
            }
            self.last |= is_last(open);
        }
        for one in &mut self.all {
            one.prepare(packet, keys);
            match one.random.chance(self.loss) {
                true => self.totals.lost += 1,
                false => one.late.push_back((now + self.delay, from, packet.clone())),
            }
        }
    }

    fn work(&mut self, now: Time) -> (bool, Option<Time>) {
        let mut next = None;
        for one in &mut self.all {
            self.inbox.keys = std::mem::take(&mut one.keys);
            while one.udp.receive(&mut self.inbox) {
                for (from, _, datagram) in std::mem::take(&mut self.inbox.came) {
                    match datagram {
                        Datagram::Packet(packet) => {
                            one.late.push_back((now + self.delay, from, packet));
                        }
                        Datagram::Path(check) => {
                            respond(&check, from, &mut self.inbox.keys, &mut one.out);
                        }
                    }
                }
            }
            one.keys = std::mem::take(&mut self.inbox.keys);
            while one.late.front().is_some_and(|(at, ..)| *at <= now)
                && let Some((_, from, packet)) = one.late.pop_front()
            {
                one.take(now, from, &packet, &mut self.peers, &mut self.totals);
            }
            one.run(now, &self.peers, &mut self.totals);
            let machine = one.session.as_ref().filter(|_| !one.closed);
            let machine = machine.and_then(|(_, machine)| machine.poll_timeout());
            next = earliest(next, machine);
            next = earliest(next, one.late.front().map(|(at, ..)| *at));
        }
        // A delayed announcement of the last file is still to be answered.
        let is_done = |one: &One| one.closed && one.late.is_empty();
        (self.last && self.all.iter().all(is_done), next)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut all = self.all.iter();
        match all.any(|it| it.udp.poll_readable(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn totals(&self) -> Emulation {
        self.totals
    }
}

impl One {
    /// A session is announced: its keys are there before the delayed announcement is taken.
    fn prepare(&mut self, packet: &Packet, keys: &Keys) {
        if announced(packet).is_some() {
            self.keys.learn(packet.session, keys);
        }
    }

    fn take(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &Packet,
        peers: &mut Peers,
        totals: &mut Emulation,
    ) {
        let Some(peer) = peers.number(from) else {
            return;
        };
        let other = self
            .session
            .as_ref()
            .is_none_or(|(id, _)| *id != packet.session);
        if other
            && let Body::Open(open) = &packet.body
            && (self.closed || self.session.is_none())
        {
            self.config.incarnation = self.config.incarnation.wrapping_add(1);
            let machine = Receiver::new(self.config, VirtualStore);
            self.session = Some((packet.session, machine));
            self.closed = false;
            self.counts = is_file(open);
            totals.joined += u64::from(self.counts);
        }
        if let Some((id, machine)) = &mut self.session
            && *id == packet.session
        {
            machine.handle(now, peer, packet, &mut Off);
            // Of a stream it takes what there is.
            while machine.take().is_some() {}
        }
    }

    fn run(&mut self, now: Time, peers: &Peers, totals: &mut Emulation) {
        let Some((_, machine)) = self.session.as_mut().filter(|_| !self.closed) else {
            return;
        };
        if machine.poll_timeout().is_some_and(|at| at <= now) {
            machine.on_timeout(now, &mut Off);
        }
        while let Some(transmit) = machine.poll_transmit(now, &mut Off) {
            if let To::One(peer) = transmit.to
                && let Some(to) = peers.way_to(peer)
            {
                let keys = &mut self.keys;
                let len = keys.len_of(&transmit.packet);
                self.out
                    .push(to, len, |out| keys.put(&transmit.packet, out));
                totals.sent += 1;
            }
        }
        while let Some(event) = machine.poll_event() {
            match event {
                ReceiverEvent::Closed { complete, .. } => {
                    self.closed = true;
                    totals.complete += u64::from(complete && self.counts);
                }
                ReceiverEvent::Refused(_) => self.closed = true,
                _ => {}
            }
        }
        // What the kernel does not take now it takes when there is more to be sent, or is asked for again.
        self.out.flush(&mut self.udp);
    }
}
