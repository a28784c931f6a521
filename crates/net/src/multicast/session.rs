mod report;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use layercast_core::{Observer, Span, Time};
use layercast_multicast::{
    Delivery, Failure, Outcome, Sender, SenderEvent, SenderStats, Source, To,
};
use layercast_wire::multicast::{
    Body, Datagram, Eject, MemberId, Object, Packet, PathBody, PathCheck, Reason,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::feed::Feed;
use super::keys::{Inbox, Keys};
use super::link::{Link, Routes};
use super::outgoing::Outgoing;
use super::peers::Peers;
use super::roll::{Admission, name_of};
use super::send::{ReceiverReport, SendEvent, SendProgress, SentFile};
use crate::clock::Clock;
use crate::error::NetError;

/// Receivers of a session at most: more than any one sender serves.
pub(super) const MOST_RECEIVERS: usize = 1 << 16;
/// Answers to the announcement from addresses that are not listed, which wait until the address is known to be real.
const MOST_HELD: usize = 256;
/// Receivers with another key, or with a name in use, that are reported.
const MOST_REPORTED: usize = 1_024;
/// Data that are due within this time leave together: a batch is one call of the kernel, a timer for each packet
/// costs more than the packet.
const TOGETHER: Span = Span::from_us(500);
/// Batches taken off the socket before something is sent.
const BATCHES: usize = 4;
/// How often in succession the socket may hold more before deadlines are judged nevertheless: more than fits in its buffer, so
/// that every answer that is there counts, and a flood delays nothing for long.
const UNREAD: u32 = 64;
/// Pauses before the end of a session is announced again: of the last one on a path that loses packets, and of one that
/// failed. With 30 % loss one receiver in a thousand hears none of them and of the two before.
const RELEASES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];
const ABORTS: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(40),
    Duration::from_millis(80),
];
/// Interval of progress reports.
const REPORT_PERIOD: Span = Span::from_ms(250);

/// One file on its way.
pub struct Session<'a, S> {
    link: &'a mut Link,
    sender: Sender<S>,
    /// The file, if it is sent as a stream.
    feed: Option<Feed>,
    id: u64,
    peers: Peers,
    held: HashMap<SocketAddr, Packet>,
    /// Dropped before the machine: of another session, or without a place.
    strangers: u64,
    /// Only members that the user named take part.
    is_listed: bool,
    routes: Routes,
    out: Outgoing,
    inbox: Inbox,
    /// What each has asked for again, and after which pass last: it may be asked several times then.
    repairs: BTreeMap<MemberId, (u64, Option<u16>)>,
    /// When the first data packet was sent, and how long after it each had everything.
    data_since: Option<Time>,
    took: BTreeMap<MemberId, Span>,
    /// Data packets that had been sent when receivers were asked last what they lack.
    asked: u64,
    /// Packets of the pass that runs.
    pass: (u16, u64),
    report: SentFile,
}

impl<'a, S: Source> Session<'a, S> {
    pub fn new(
        link: &'a mut Link,
        sender: Sender<S>,
        feed: Option<Feed>,
        name: String,
        (id, is_listed, keys): (u64, bool, Keys),
        object: &Object,
    ) -> Session<'a, S> {
        let mut peers = Peers::new(MOST_RECEIVERS);
        for &host in link.hosts() {
            peers.number(host);
        }
        link.roll.begin();
        Session {
            report: SentFile {
                name,
                size: object.size,
                digest: object.digest,
                took: Span::ZERO,
                failure: None,
                receivers: Vec::new(),
                unreached: Vec::new(),
                other_key: Vec::new(),
                in_use: Vec::new(),
                other_name: BTreeMap::new(),
                stats: SenderStats::default(),
                datagrams: link.udp.stats().sent,
                malformed: 0,
            },
            routes: Routes::new(link),
            link,
            sender,
            feed,
            id,
            peers,
            held: HashMap::new(),
            strangers: 0,
            is_listed,
            out: Outgoing::default(),
            inbox: Inbox::with(keys),
            repairs: BTreeMap::new(),
            data_since: None,
            took: BTreeMap::new(),
            asked: 0,
            pass: (u16::MAX, 0),
        }
    }

    /// Runs the session, the last of the transfer perhaps, to its end, or until `shutdown`.
    pub async fn run(
        mut self,
        is_last: bool,
        shutdown: &CancellationToken,
        events: &mpsc::Sender<SendEvent>,
        obs: &mut impl Observer,
    ) -> Result<SentFile, NetError> {
        let clock = Clock::get();
        let failed = NetError::system("setting a timer");
        let started = clock.now();
        let mut report_at = started;
        let mut unread = 0;
        self.sender.start(started);
        let mut result = Ok(());
        loop {
            let now = clock.now();
            self.link.timer.served(now);
            if shutdown.is_cancelled() {
                self.sender.abort(Reason::User);
            }
            let more = self.receive(now, events, obs);
            unread = if more { unread + 1 } else { 0 };
            if unread % UNREAD == 0 {
                self.sender.on_timeout(now, obs);
            }
            self.feed();
            let full = !self.transmit(now, obs);
            self.report_progress(now, events);
            if self.sender.is_closed() && self.out.is_empty() {
                break;
            }
            if report_at <= now {
                report_at = now + REPORT_PERIOD;
                let _ = events.try_send(SendEvent::Progress(self.progress()));
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            let next = self.sender.poll_timeout().unwrap_or(Time::MAX);
            let wake = match full {
                true => report_at,
                false => next.max(now + TOGETHER).min(report_at),
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
        self.repeat_end(is_last).await;
        Ok(self.finish())
    }

    /// Repeats how the session ended where packets are lost: a receiver that does not hear it waits for a sender that is
    /// gone. The announcement of the next session says that this one is over, so only that of the last is repeated.
    async fn repeat_end(&mut self, is_last: bool) {
        let stats = self.sender.stats();
        let is_lossy =
            stats.rounds > 1 || stats.again > 0 || self.sender.deliveries().any(|it| it.loss > 0);
        let (body, pauses) = match &self.report.failure {
            None if is_last && is_lossy => {
                let round = self.sender.pass();
                (Body::Release { round }, &RELEASES[..])
            }
            None | Some(Failure::NoReceivers | Failure::Refused) => return,
            Some(failure) => {
                let reason = match failure {
                    Failure::User => Reason::User,
                    Failure::Mtu(_) => Reason::Mtu,
                    Failure::Content(_) => Reason::Changed,
                    _ => Reason::Integrity,
                };
                (Body::Abort { reason }, &ABORTS[..])
            }
        };
        let packet = Packet {
            session: self.id,
            body,
        };
        let to = Arc::clone(&self.link.all);
        for &pause in pauses {
            tokio::time::sleep(pause).await;
            let keys = &mut self.inbox.keys;
            let len = keys.len_of(&packet);
            self.out.push(&to, len, |out| keys.put(&packet, out));
            // What the kernel does not take is lost; another one follows.
            self.out.flush(&mut self.link.udp);
        }
    }

    /// Takes what receivers said, but not forever; says whether there may be more.
    fn receive(
        &mut self,
        now: Time,
        events: &mpsc::Sender<SendEvent>,
        obs: &mut impl Observer,
    ) -> bool {
        let more = (0..BATCHES).all(|_| self.link.udp.receive(&mut self.inbox));
        // Announcements of other senders are not for us.
        self.inbox.others.clear();
        let mut came = std::mem::take(&mut self.inbox.came);
        for (from, len, datagram) in came.drain(..) {
            if !self.link.roll.is_listed(from) {
                self.link.budgets.receive(from, len);
            }
            match datagram {
                Datagram::Packet(packet) if packet.session == self.id => {
                    self.hear(now, from, &packet, obs);
                }
                Datagram::Path(check) if check.session == self.id => {
                    self.check(now, from, check.body, events, obs);
                }
                _ => self.strangers += 1,
            }
        }
        self.inbox.came = came;
        more
    }

    /// A receiver says something in this session.
    fn hear(&mut self, now: Time, from: SocketAddr, packet: &Packet, obs: &mut impl Observer) {
        if !is_of_one(&packet.body) {
            self.strangers += 1;
            return;
        }
        if let Body::Accept(accept) = &packet.body {
            if self.is_listed && self.sender.delivery(accept.member).is_none() {
                self.strangers += 1;
                if self.link.roll.is_listed(from) {
                    let others = &mut self.report.other_name;
                    others.insert(from, name_of(accept));
                }
                return;
            }
            let is_known = self.link.roll.is_listed(from) || self.link.budgets.is_validated(&from);
            if !is_known {
                self.path(
                    from,
                    PathBody::Challenge(self.link.tokens.of(from, self.id)),
                );
                // From host to host the address would get the file; of a group, strangers must not take all places.
                if !self.link.multicast || self.link.roll.len() >= MOST_RECEIVERS / 2 {
                    if self.held.len() < MOST_HELD {
                        self.held.insert(from, packet.clone());
                    }
                    return;
                }
            }
            match self.link.roll.admit(now, from, accept) {
                Admission::Take => {}
                Admission::Full => {
                    self.strangers += 1;
                    return;
                }
                Admission::Ask(holder) => {
                    let token = self.link.tokens.of(holder, self.id);
                    return self.path(holder, PathBody::Challenge(token));
                }
            }
            let peer = self.peers.number(from);
            if let (Some(peer), Some(&times)) = (peer, self.link.spent.get(&from)) {
                self.sender.used_up(peer, times);
            }
        }
        if let Some(peer) = self.peers.find(from) {
            self.sender.handle(now, peer, packet, obs);
            self.routes.change();
        } else {
            self.strangers += 1;
        }
    }

    /// A path is checked, by a receiver or by us.
    fn check(
        &mut self,
        now: Time,
        from: SocketAddr,
        body: PathBody,
        events: &mpsc::Sender<SendEvent>,
        obs: &mut impl Observer,
    ) {
        match body {
            PathBody::Challenge(token) => self.path(from, PathBody::Response(token)),
            PathBody::Response(token) if token == self.link.tokens.of(from, self.id) => {
                self.link.budgets.validate(from);
                for (member, refused) in self.link.roll.is_there(from) {
                    if !self.refuse(member, refused) {
                        continue;
                    }
                    let _ = events.try_send(SendEvent::NameInUse {
                        member,
                        holder: from,
                        refused,
                    });
                }
                if let Some(packet) = self.held.remove(&from) {
                    self.hear(now, from, &packet, obs);
                }
            }
            PathBody::Response(_) => self.strangers += 1,
            PathBody::OtherKey => {
                let addresses = &mut self.report.other_key;
                if !addresses.contains(&from) && addresses.len() < MOST_REPORTED {
                    addresses.push(from);
                    let _ = events.try_send(SendEvent::OtherKey(from));
                }
            }
        }
    }

    /// Another receiver has the name of the one at this address, which is notified; whether that is news.
    fn refuse(&mut self, member: MemberId, at: SocketAddr) -> bool {
        let packet = Packet {
            session: self.id,
            body: Body::Eject(Eject {
                member,
                reason: Reason::InUse,
                upto: 0,
            }),
        };
        let keys = &mut self.inbox.keys;
        let len = keys.len_of(&packet);
        if self.link.roll.is_listed(at) || self.link.budgets.send(at, len) {
            self.out
                .push(&Arc::from([at]), len, |out| keys.put(&packet, out));
        }
        let addresses = &mut self.report.in_use;
        let is_news = !addresses.contains(&at) && addresses.len() < MOST_REPORTED;
        if is_news {
            addresses.push(at);
        }
        is_news
    }

    /// Sends a check of a path, if the address may get it.
    fn path(&mut self, to: SocketAddr, body: PathBody) {
        let check = PathCheck {
            session: self.id,
            body,
        };
        let keys = &mut self.inbox.keys;
        let len = keys.len_of_path(self.id);
        if !self.out.is_full() && (self.link.roll.is_listed(to) || self.link.budgets.send(to, len))
        {
            self.out
                .push(&Arc::from([to]), len, |out| keys.put_path(&check, out));
        }
    }

    /// Gives the stream what it has room for.
    fn feed(&mut self) {
        let feed = self.feed.as_mut().filter(|_| !self.sender.is_closed());
        let Some(Err(error)) = feed.map(|feed| feed.fill(&mut self.sender)) else {
            return;
        };
        self.report.failure = Some(error.into());
        self.sender.abort(Reason::Changed);
    }

    /// Sends what may leave now; `false` if the kernel takes no more.
    fn transmit(&mut self, now: Time, obs: &mut impl Observer) -> bool {
        loop {
            while !self.out.is_full() {
                let Some(transmit) = self.sender.poll_transmit(now, obs) else {
                    return self.out.flush(&mut self.link.udp);
                };
                let keys = &mut self.inbox.keys;
                let len = keys.len_of(&transmit.packet);
                if let To::One(peer) = transmit.to
                    && let Some(address) = self.peers.address(peer)
                    && !self.link.roll.is_listed(address)
                    && !self.link.budgets.send(address, len)
                {
                    continue;
                }
                let (peers, sender) = (&self.peers, &self.sender);
                let deliveries = sender.deliveries();
                let to = self
                    .routes
                    .of(transmit.to, &transmit.packet, peers, deliveries);
                self.out
                    .push(to, len, |out| keys.put(&transmit.packet, out));
            }
            if !self.out.flush(&mut self.link.udp) {
                return false;
            }
        }
    }
}

/// Whether a receiver speaks for itself. Nothing on a socket speaks for others, and the time of a session goes by their number.
fn is_of_one(body: &Body) -> bool {
    match body {
        Body::Accept(it) => (it.weight, it.absent, it.hold_us) == (1, 0, 0),
        Body::Report(it) => it.tally.alive.saturating_add(it.tally.failed) <= 1,
        _ => true,
    }
}
