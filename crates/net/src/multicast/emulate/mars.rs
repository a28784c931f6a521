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
                // The end of a session and the next announcement may have come together.
                one.run(now, &self.peers, &mut self.totals);
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
        // A sender that announces another session has done with one that is whole: its good-bye was lost.
        let is_free = self.session.as_ref().is_none_or(|(id, machine)| {
            *id != packet.session && (self.closed || machine.is_complete())
        });
        if let Body::Open(open) = &packet.body
            && is_free
        {
            totals.complete += u64::from(self.session.is_some() && !self.closed && self.counts);
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use layercast_wire::Payload;
    use layercast_wire::multicast::{
        Ask, Content, Data, DataFlags, Needs, Object, Open, Poll, Symbol, Terms,
    };

    use super::super::Emulated;
    use super::*;

    fn open(name: &str) -> Body {
        Body::Open(Box::new(Open {
            stamp: 1,
            packet_size: 1_000,
            min_release: 0,
            terms: Terms {
                content: Content::Counts,
                in_order: false,
                unasked: false,
                goodbye: false,
                spread_us: 0,
                data_wait_ms: 0,
                sender_wait_ms: 0,
                counters: 0,
            },
            object: Some(Object {
                size: 10,
                block: 1,
                scheme: 3,
                digest: [1; 32],
                name: name.to_owned().into(),
            }),
            proof: None,
        }))
    }

    /// The file follows the list of files while the process does not run.
    #[tokio::test]
    async fn the_end_of_a_session_and_the_next_announcement_may_come_together() {
        const RECEIVERS: u32 = 3;
        let delay = Span::from_ms(5);
        let config = EmulateConfig {
            group: SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 1), 9),
            interface: Ipv4Addr::LOCALHOST,
            receivers: RECEIVERS,
            kind: Emulated::Mars { loss: 0.0, delay },
            key: None,
            patience: Span::ZERO,
        };
        let data = Body::Data(Data {
            round: 0,
            flags: DataFlags::default(),
            symbol: Symbol::Source(0),
            payload: Payload::Zeros(10),
        });
        let poll = Body::Poll(Box::new(Poll {
            sync: 1,
            round: 0,
            stamp: 1,
            upto: 1,
            sent: 1,
            ask: Ask::Everyone,
            spread_us: 0,
            group: RECEIVERS,
            handshake: false,
            separate: false,
            closing: false,
            ejected: Vec::new(),
            heard: Needs::new(),
        }));
        let release = Body::Release { round: 0 };
        let list = open("0/1/@0000000000000001/");
        let file = open("1/1/@0000000000000001/a");
        for good_bye in [Some(release), None] {
            let mut mars = Mars::new(&config, 0.0, delay, 7).unwrap();
            let from = SocketAddr::from(([127, 0, 0, 1], 9));
            let first = [list.clone(), data.clone(), poll.clone()];
            let first = first.into_iter().chain(good_bye).map(|body| (1, body));
            for (session, body) in first.chain([(2, file.clone())]) {
                let packet = Packet { session, body };
                mars.hear(Time::ZERO, from, &packet, &Keys::Clear);
            }
            let (over, _) = mars.work(Time::ZERO + delay);
            assert!(!over, "the file is to come");
            let totals = mars.totals();
            assert_eq!(totals.joined, u64::from(RECEIVERS), "{totals:?}");
            // Of each session an answer to the announcement, and a report of the first one.
            assert_eq!(totals.sent, u64::from(3 * RECEIVERS), "{totals:?}");
        }
    }
}
