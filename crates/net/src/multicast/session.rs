use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use layercast_core::{Observer, Span, Time};
use layercast_multicast::{Delivery, Outcome, Sender, SenderEvent, SenderStats, Source};
use layercast_wire::multicast::{Body, MemberId, Object, Packet, Reason};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::feed::Feed;
use super::link::{Link, Routes};
use super::outgoing::Outgoing;
use super::peers::Peers;
use super::send::{ReceiverReport, SendEvent, SendProgress, SentFile};
use crate::clock::Clock;
use crate::error::NetError;
use crate::udp::Inbound;

/// Receivers of a session at most: more than any one sender serves.
const MOST_RECEIVERS: usize = 1 << 16;
/// Data that are due within this time leave together: a batch is one call of the kernel, a timer for each packet
/// costs more than the packet.
const TOGETHER: Span = Span::from_us(500);
/// Batches taken off the socket before something is sent.
const BATCHES: usize = 4;
/// How often progress is told.
const TELL: Span = Span::from_ms(250);

/// One file on its way.
pub struct Session<'a, S> {
    link: &'a mut Link,
    sender: Sender<S>,
    /// The file, if it is sent as a stream.
    feed: Option<Feed>,
    peers: Peers,
    routes: Routes,
    out: Outgoing,
    inbox: Inbox,
    /// What each has asked for again, and after which pass last: it may be asked several times then.
    repairs: BTreeMap<MemberId, (u64, Option<u16>)>,
    /// Packets of the pass that runs.
    pass: (u16, u64),
    report: SentFile,
}

/// What came and is not handled yet.
#[derive(Default)]
pub struct Inbox {
    pub packets: Vec<(SocketAddr, Packet)>,
    /// Datagrams that are no packets of ours.
    pub malformed: u64,
}

impl Inbound for Inbox {
    type Key = SocketAddr;

    fn known(&mut self, addr: SocketAddr) -> Option<SocketAddr> {
        Some(addr)
    }

    fn deliver(&mut self, from: SocketAddr, datagram: Bytes, _: bool) {
        match Packet::decode(&datagram) {
            Ok(packet) => self.packets.push((from, packet)),
            Err(_) => self.malformed += 1,
        }
    }
}

impl<'a, S: Source> Session<'a, S> {
    pub fn new(
        link: &'a mut Link,
        sender: Sender<S>,
        feed: Option<Feed>,
        name: String,
        object: &Object,
    ) -> Session<'a, S> {
        Session {
            report: SentFile {
                name,
                size: object.size,
                digest: object.digest,
                took: Span::ZERO,
                failure: None,
                receivers: Vec::new(),
                unreached: Vec::new(),
                stats: SenderStats::default(),
                datagrams: link.udp.stats().sent,
                malformed: 0,
            },
            routes: Routes::new(link),
            link,
            sender,
            feed,
            peers: Peers::new(MOST_RECEIVERS),
            out: Outgoing::default(),
            inbox: Inbox::default(),
            repairs: BTreeMap::new(),
            pass: (u16::MAX, 0),
        }
    }

    /// Runs the session to its end, or until `shutdown`.
    pub async fn run(
        mut self,
        shutdown: &CancellationToken,
        events: &mpsc::Sender<SendEvent>,
        obs: &mut impl Observer,
    ) -> Result<SentFile, NetError> {
        let clock = Clock::get();
        let failed = NetError::system("setting a timer");
        let started = clock.now();
        let mut tell_at = started;
        self.sender.start(started);
        let mut result = Ok(());
        loop {
            let now = clock.now();
            self.link.timer.served(now);
            if shutdown.is_cancelled() {
                self.sender.abort(Reason::User);
            }
            let more = self.receive(now, obs);
            self.sender.on_timeout(now, obs);
            self.feed();
            let full = !self.transmit(now, obs);
            self.tell(events);
            if self.sender.is_closed() && self.out.is_empty() {
                break;
            }
            if tell_at <= now {
                tell_at = now + TELL;
                let _ = events.try_send(SendEvent::Progress(self.progress()));
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            let next = self.sender.poll_timeout().unwrap_or(Time::MAX);
            let wake = match full {
                true => tell_at,
                false => next.max(now + TOGETHER).min(tell_at),
            };
            result = self.link.timer.arm(Some(wake));
            if result.is_err() {
                break;
            }
            tokio::select! {
                _ = self.link.timer.expired() => {}
                // An error of the socket shows when it is used.
                _ = self.link.udp.readable() => {}
                _ = self.link.udp.writable(), if full => {}
                () = shutdown.cancelled(), if !self.sender.is_closed() => {}
            }
        }
        result.map_err(failed)?;
        self.report.took = clock.now().since(started);
        Ok(self.finish())
    }

    /// Takes what receivers said, but not for ever; says whether there may be more.
    fn receive(&mut self, now: Time, obs: &mut impl Observer) -> bool {
        let more = (0..BATCHES).all(|_| self.link.udp.receive(&mut self.inbox));
        for (from, packet) in self.inbox.packets.drain(..) {
            // Who wants to take part gets a number, strangers do not.
            let peer = match packet.body {
                Body::Accept(_) => self.peers.number(from),
                _ => self.peers.find(from),
            };
            if let Some(peer) = peer {
                self.sender.handle(now, peer, &packet, obs);
                self.routes.change();
            }
        }
        more
    }

    /// Gives the stream what it has room for.
    fn feed(&mut self) {
        let feed = self.feed.as_mut().filter(|_| !self.sender.is_closed());
        let Some(Err(error)) = feed.map(|feed| feed.fill(&mut self.sender)) else {
            return;
        };
        self.report.failure = Some(error.into());
        self.sender.abort(Reason::User);
    }

    /// Sends what may leave now; `false` if the kernel takes no more.
    fn transmit(&mut self, now: Time, obs: &mut impl Observer) -> bool {
        loop {
            while !self.out.is_full() {
                let Some(transmit) = self.sender.poll_transmit(now, obs) else {
                    return self.out.flush(&mut self.link.udp);
                };
                let (peers, sender) = (&self.peers, &self.sender);
                let deliveries = sender.deliveries();
                let to = self
                    .routes
                    .of(transmit.to, &transmit.packet, peers, deliveries);
                self.out.push(to, &transmit.packet);
            }
            if !self.out.flush(&mut self.link.udp) {
                return false;
            }
        }
    }

    fn tell(&mut self, events: &mpsc::Sender<SendEvent>) {
        while let Some(event) = self.sender.poll_event() {
            let about = match event {
                SenderEvent::Opened { yes, .. } => {
                    let _ = events.try_send(SendEvent::Opened {
                        name: self.report.name.clone(),
                        size: self.report.size,
                        receivers: yes,
                    });
                    None
                }
                SenderEvent::PassDone { round, .. } => {
                    for it in self.sender.deliveries() {
                        if it.outcome == Outcome::Pending {
                            let (repairs, last) = self.repairs.entry(it.member).or_default();
                            if last.replace(round) != Some(round) {
                                *repairs += it.at;
                            }
                        }
                    }
                    None
                }
                SenderEvent::Postponed(member) => {
                    self.routes.postpone(member);
                    Some(member)
                }
                SenderEvent::Joined(member)
                | SenderEvent::Delivered(member)
                | SenderEvent::Busy(member)
                | SenderEvent::Failed { member, .. }
                | SenderEvent::Ejected { member, .. } => Some(member),
                SenderEvent::Closed(Err(failure)) => {
                    self.report.failure.get_or_insert(failure);
                    None
                }
                _ => None,
            };
            self.routes.change();
            let found = about.and_then(|member| self.sender.delivery(member));
            if let Some(delivery) = found {
                let _ = events.try_send(SendEvent::Receiver(self.about(&delivery)));
            }
        }
    }

    fn about(&self, it: &Delivery) -> ReceiverReport {
        ReceiverReport {
            member: it.member,
            address: it.peer.and_then(|peer| self.peers.address(peer)),
            outcome: it.outcome,
            repairs: self.repairs.get(&it.member).map_or(0, |it| it.0),
            lacks: match (it.outcome, &self.feed) {
                (Outcome::Delivered, _) => 0,
                (_, Some(feed)) => feed.packets().saturating_sub(it.at),
                (_, None) => it.at,
            },
            loss: f32::from(it.loss) / f32::from(u16::MAX),
            round_trip: it.round_trip,
        }
    }

    fn progress(&mut self) -> SendProgress {
        let (pass, left) = (self.sender.pass(), self.sender.left_of_pass());
        if self.pass.0 != pass || left > self.pass.1 {
            self.pass = (pass, left);
        }
        let there = self.sender.deliveries().map(|it| it.outcome);
        let (mut done, mut all) = (0, 0);
        for outcome in there {
            done += u32::from(outcome == Outcome::Delivered);
            all += u32::from(matches!(outcome, Outcome::Delivered | Outcome::Pending));
        }
        SendProgress {
            pass,
            packets: match &self.feed {
                Some(feed) => (feed.done(&self.sender), feed.packets()),
                None => (self.pass.1 - left, self.pass.1),
            },
            octets: self.sender.stats().octets,
            receivers: (done, all),
        }
    }

    fn finish(self) -> SentFile {
        let receivers: Vec<ReceiverReport> = self
            .sender
            .deliveries()
            .map(|delivery| self.about(&delivery))
            .collect();
        let hosts = match self.link.multicast {
            true => &[][..],
            false => &self.link.all,
        };
        let unreached = hosts.iter().copied();
        let unreached = unreached
            .filter(|&host| self.peers.find(host).is_none())
            .collect();
        SentFile {
            receivers,
            unreached,
            stats: *self.sender.stats(),
            datagrams: self.link.udp.stats().sent - self.report.datagrams,
            malformed: self.inbox.malformed,
            ..self.report
        }
    }
}
