//! One end of an association (xtp.md 2.5): what it sends, what it receives, and the handshake that clears up doubt.

mod close;
mod input;
mod output;
mod status;
mod timers;

use core::net::SocketAddr;
use std::collections::VecDeque;

use layercast_core::{Serial, Span, Time};
use layercast_wire::{
    Payload, XtpDiagCode, XtpDiagValue, XtpKey, XtpOptions, XtpService, XtpTrafficSpec,
};

use super::config::INITIAL_ALLOC;
use super::incoming::Incoming;
use super::outgoing::{LAST_SEQ, Outgoing, TAG};
use super::rate::Credit;
use super::rtt::Rtt;
use super::{Chunk, SendOptions, XtpConfig, XtpCounts, XtpError, XtpFailure, XtpInfo, XtpSocket};

/// Priority of what has none, and of status.
const UNSORTED: u32 = 1 << 16;
const STATUS: u32 = 0;

/// A status that was asked for and not answered.
#[derive(Clone, Copy, Debug)]
struct Request {
    sync: Serial,
    at: Time,
    /// What had been sent by then.
    sent: u64,
}

/// The synchronizing handshake (xtp.md 2.11): until it is answered no data are sent.
#[derive(Clone, Copy, Debug)]
struct Handshake {
    /// Any echo from here on answers it.
    first: Serial,
    tries: u32,
    /// When the next try is due.
    deadline: Time,
}

/// A delivery that the peer is to tell of.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    at: u64,
    sync: Serial,
    /// Status was asked for since, whose answer cannot be told from that of the delivery.
    blurred: bool,
}

/// What is due to be sent.
#[derive(Clone, Copy, Default, Debug)]
struct Due {
    /// FIRST, once more or for the first time.
    first: bool,
    answer: bool,
    /// The answer, or a question, is to tell the traffic.
    traffic: bool,
    /// The question about the traffic wants an answer.
    traffic_asks: bool,
    probe: bool,
    /// What is lost for good is to be told.
    skip: bool,
    /// The end of the stream is to be told.
    close: bool,
    /// A delivery is to be asked for again.
    delivery: bool,
    diag: Option<(XtpDiagCode, XtpDiagValue)>,
}

/// What the endpoint is to be told, with what its user is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    Connected,
    Delivered(u64),
    PeerClosed,
    ReaderGone(u64),
    Traffic,
    TrafficRefused,
    Closed,
    Failed(XtpFailure),
}

/// What happened that an endpoint counts.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) retransmitted: u64,
    pub(crate) handshakes: u64,
    pub(crate) beyond: u64,
    pub(crate) duplicates: u64,
    pub(crate) violations: u64,
    pub(crate) unsupported: u64,
    pub(crate) stray_diags: u64,
}

#[derive(Debug)]
pub(crate) struct Context {
    local: XtpSocket,
    remote: XtpSocket,
    own: XtpKey,
    /// As packets to the peer carry it.
    key: XtpKey,
    /// Keys by which the peer may name us that it has chosen.
    theirs: [Option<XtpKey>; 1],
    initiator: bool,
    config: XtpConfig,
    pub(crate) service: XtpService,

    /// Came from a listener and waits to be accepted.
    pub(crate) passive: bool,
    /// The user has said good-bye.
    pub(crate) released: bool,
    inactive: Option<Time>,
    failed: bool,
    heard: bool,
    last_heard: Time,

    // What we send.
    out: Outgoing,
    alloc: u64,
    alloc_known: bool,
    max_data: usize,
    credit: Credit,
    /// Rate control lets nothing go before.
    blocked_until: Option<Time>,
    out_traffic: XtpTrafficSpec,
    peer_traffic: XtpTrafficSpec,
    /// The peer has not told that it knows our traffic.
    traffic_unsure: Option<Serial>,
    write_closed: bool,
    /// The peer reads no more, or has everything.
    writer_done: bool,
    wants_room: bool,
    /// The user waits for the answer to everything.
    pub(crate) wants_settled: bool,
    edge: bool,
    asked_since: u32,
    delivery: Option<Delivery>,

    // The handshake and its timers.
    sync: Serial,
    requests: VecDeque<Request>,
    handshake: Option<Handshake>,
    unanswered_since: Option<Time>,
    last_sent: Time,
    /// Answers that changed nothing, in a row.
    idle_answers: u32,
    rtt: Rtt,
    violations: u32,

    // What we receive.
    inc: Incoming,
    read_closed: bool,
    /// Told to the user.
    told_end: bool,
    told_readable: bool,
    ended: bool,
    echo: Serial,
    peer_edge: bool,
    /// Deliveries that the peer waits for: its synchronizing value, and the byte.
    owed_deliveries: VecDeque<(Serial, u64)>,
    /// Nobody has proved that packets to the peer arrive: it may be a victim (xtp.md 7).
    unproven: Option<(u64, u64)>,

    due: Due,
    news: VecDeque<News>,
    pub(crate) counts: XtpCounts,
    pub(crate) tally: Tally,
}

/// Who a context is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) local: XtpSocket,
    pub(crate) remote: XtpSocket,
    pub(crate) own: XtpKey,
    /// The key of the initiator, if that is not us.
    pub(crate) theirs: Option<XtpKey>,
    /// Synchronizing values follow this one, below 2^30: that of a responder is a secret, whose echo proves that
    /// the initiator is where it says.
    pub(crate) sync: Serial,
}

impl Context {
    pub(crate) fn new(now: Time, ends: Ends, config: &XtpConfig) -> Context {
        let initiator = ends.theirs.is_none();
        let one_way = matches!(
            config.service,
            XtpService::DATAGRAM | XtpService::ACKED_DATAGRAM
        );
        let mut context = Context {
            local: ends.local,
            remote: ends.remote,
            own: ends.own,
            key: ends.theirs.map_or(ends.own, XtpKey::returned),
            theirs: [ends.theirs],
            initiator,
            service: config.service,
            passive: !initiator,
            released: false,
            inactive: None,
            failed: false,
            heard: false,
            last_heard: now,
            out: Outgoing::default(),
            alloc: match config.reservation {
                true => 0,
                false => u64::from(config.window.min(INITIAL_ALLOC)),
            },
            alloc_known: false,
            max_data: config.max_data as usize,
            credit: Credit::new(),
            blocked_until: None,
            out_traffic: XtpTrafficSpec::default(),
            peer_traffic: XtpTrafficSpec::default(),
            traffic_unsure: None,
            write_closed: false,
            writer_done: false,
            wants_room: false,
            wants_settled: false,
            edge: false,
            asked_since: 0,
            delivery: None,
            sync: ends.sync,
            requests: VecDeque::new(),
            handshake: None,
            unanswered_since: None,
            last_sent: now,
            idle_answers: 0,
            rtt: Rtt::new(config.first_wait, config.least_wait),
            violations: 0,
            inc: Incoming::new(config.window, config.hold),
            // Nobody answers a datagram with data.
            read_closed: initiator && one_way,
            told_end: initiator && one_way,
            told_readable: false,
            ended: false,
            echo: Serial(0),
            peer_edge: false,
            owed_deliveries: VecDeque::new(),
            unproven: (!initiator).then_some((0, 0)),
            due: Due {
                first: initiator,
                ..Due::default()
            },
            news: VecDeque::new(),
            counts: XtpCounts::default(),
            tally: Tally::default(),
            config: config.clone(),
        };
        context.propose();
        context
    }

    pub(crate) fn own_key(&self) -> XtpKey {
        self.own
    }

    pub(crate) fn remote(&self) -> XtpSocket {
        self.remote
    }

    pub(crate) fn local(&self) -> XtpSocket {
        self.local
    }

    /// The keys and addresses by which packets of the peer may find us.
    pub(crate) fn peer_keys(&self) -> impl Iterator<Item = (SocketAddr, XtpKey)> + use<> {
        let net = self.remote.net;
        self.theirs.into_iter().flatten().map(move |key| (net, key))
    }

    pub(crate) fn is_inactive(&self) -> bool {
        self.inactive.is_some()
    }

    /// Whether nobody needs it any more.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.released && self.inactive.is_some_and(|until| until <= now)
    }

    /// Queues as much of `data` as there is room for; gives how much.
    pub(crate) fn send(&mut self, data: &Payload, how: &SendOptions) -> Result<usize, XtpError> {
        if self.write_closed || self.writer_done || self.is_inactive() {
            return Err(XtpError::Shut);
        }
        if data.is_empty() && how.tag.is_none() {
            return Err(XtpError::Empty);
        }
        let tag = how.tag.map_or(0, |_| TAG);
        let room = u64::from(self.config.send_buffer).saturating_sub(self.out.held()) as usize;
        // A tag that no byte can follow is of no use.
        if room <= tag {
            self.wants_room = true;
            return Ok(0);
        }
        let taken = data.len().min(room - tag);
        if self.out.end() + (tag + taken) as u64 >= LAST_SEQ {
            return Err(XtpError::Exhausted);
        }
        let whole = taken == data.len();
        self.wants_room = !whole;
        // What does not fit ends nothing yet.
        let how = SendOptions {
            end_of_message: how.end_of_message && whole,
            tell_delivery: how.tell_delivery && whole,
            ..*how
        };
        let loose = how.no_error_control || !self.config.error_control;
        let open = how.no_checksum || !self.config.checksum;
        let flags = XtpOptions::NOERR.when(loose)
            | XtpOptions::NOCHECK.when(open)
            | XtpOptions::SORT.when(how.priority.is_some());
        self.out
            .push(&data.slice(0..taken), &how, flags, self.max_data);
        Ok(taken)
    }

    /// Up to `max` bytes of one message that arrived.
    pub(crate) fn receive(&mut self, max: usize) -> Option<Chunk> {
        let chunk = self.inc.receive(max);
        if chunk.is_none() {
            self.told_readable = false;
            return None;
        }
        if self.inc.unread() == 0 {
            self.told_readable = false;
        }
        self.answer_deliveries();
        if self.inc.has_opened(self.max_data as u64) && !self.read_closed {
            self.due.answer = true;
        }
        chunk
    }

    /// Offers buffers to a sender that uses reservation.
    pub(crate) fn post(&mut self, bytes: usize) {
        self.inc.posted = self.inc.posted.saturating_add(bytes as u64);
        if self.inc.reserved {
            self.due.answer = true;
        }
    }

    /// Starts the handshake, whose answer tells how things are.
    pub(crate) fn probe(&mut self, now: Time) {
        if !self.is_inactive() && self.handshake.is_none() {
            self.start_handshake(now);
        }
    }

    /// What can be received now, and whether the end of the stream follows it.
    pub(crate) fn available(&self) -> (usize, bool) {
        (self.inc.unread() as usize, self.inc.is_complete())
    }

    /// The user is to be told; what waits to be told already is told once.
    fn tell(&mut self, news: News) {
        if !self.news.contains(&news) {
            self.news.push_back(news);
        }
    }

    pub(crate) fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Whether data came that the user has not heard of.
    pub(crate) fn is_newly_readable(&mut self) -> bool {
        let readable = self.inc.unread() > 0 && !self.read_closed;
        readable && !std::mem::replace(&mut self.told_readable, true)
    }

    /// Whether the user waits for room, and there is enough to wake him.
    pub(crate) fn is_newly_writable(&mut self) -> bool {
        let buffer = u64::from(self.config.send_buffer);
        let enough = match u64::from(self.config.wake_room) {
            0 => buffer.div_ceil(3),
            room => room.min(buffer),
        };
        let tell = self.wants_room
            && buffer.saturating_sub(self.out.held()) >= enough
            && !self.writer_done
            && !self.is_inactive();
        self.wants_room &= !tell;
        tell
    }

    /// Whether the user waits for the answer to everything, and it is there.
    pub(crate) fn is_newly_settled(&mut self) -> bool {
        let sent = !self.due.first && self.out.una() == self.out.end();
        let tell = self.wants_settled && sent && self.requests.is_empty() && !self.due.probe;
        self.wants_settled &= !tell;
        tell
    }

    /// How urgent is what it would send next: less comes first.
    pub(crate) fn urgency(&self) -> u32 {
        let due = &self.due;
        if due.answer || due.probe || due.first || due.diag.is_some() {
            return STATUS;
        }
        let next = self.out.next_unsent().map(|index| self.out.segment(index));
        match next.filter(|it| it.flags.has(XtpOptions::SORT)) {
            Some(it) => u32::from(it.sort),
            None => UNSORTED,
        }
    }

    pub(crate) fn traffic(&self) -> XtpTrafficSpec {
        self.peer_traffic
    }

    /// A snapshot for the curious.
    pub(crate) fn info(&self) -> XtpInfo {
        let counts = XtpCounts {
            bytes_sent: self.out.next(),
            bytes_acked: self.out.una(),
            bytes_received: self.inc.received(),
            ..self.counts
        };
        XtpInfo {
            inactive: self.is_inactive(),
            local: self.local,
            remote: self.remote,
            counts,
            unsent: self.out.end() - self.out.next(),
            flight: self.out.next() - self.out.una(),
            unread: self.inc.unread(),
            alloc: self.alloc,
            srtt: self.rtt.smoothed(),
            wait: self.rtt.wait(),
            max_data: self.max_data as u32,
            limit: self.credit.agreed(),
            peer_traffic: self.peer_traffic,
            memory: size_of::<Context>()
                + self.out.memory()
                + self.inc.memory()
                + self.requests.capacity() * size_of::<Request>()
                + self.owed_deliveries.capacity() * size_of::<(Serial, u64)>(),
        }
    }

    /// Whether we opened it for data that are answered by none.
    fn is_one_way(&self) -> bool {
        let services = [XtpService::DATAGRAM, XtpService::ACKED_DATAGRAM];
        self.initiator && services.contains(&self.service)
    }

    /// How long the answer to this try is waited for.
    fn wait(&self, tries: u32) -> Span {
        self.rtt.wait().times(1 << tries.min(6))
    }
}
