//! One end of an association (specs/xtp.md 2.5): what it sends, what it receives, and the handshake that clears up
//! doubt.

mod close;
mod input;
mod multicast;
mod output;
mod packets;
mod parts;
mod probe;
mod status;
mod timers;
mod user;

use std::collections::VecDeque;

use layercast_core::{AddressBudget, Serial, Span, Time};
use layercast_wire::{XtpKey, XtpService, XtpTrafficSpec};

use super::config::INITIAL_ALLOC;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::rate::Credit;
use super::rtt::Rtt;
use super::{XtpConfig, XtpCounts, XtpSocket};

use multicast::{Group, Membership, Role};
pub(crate) use multicast::{Part, Who, is_multicast};
pub(crate) use packets::addresses;
use parts::{Delivery, Due, Handshake, Request};
pub(crate) use parts::{Ends, News, Tally};
pub(crate) use probe::{Arrival, Departure};

/// Priority of what has none, and of status.
const UNSORTED: u32 = 1 << 16;
const STATUS: u32 = 0;

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
    role: Role,
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
    /// Rate control sends nothing before this time.
    blocked_until: Option<Time>,
    out_traffic: XtpTrafficSpec,
    peer_traffic: XtpTrafficSpec,
    /// The peer has not confirmed that it knows our traffic specification.
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
    /// Reported to the user.
    told_end: bool,
    told_readable: bool,
    ended: bool,
    echo: Serial,
    peer_edge: bool,
    /// Deliveries that the peer waits for: its synchronizing value, and the byte.
    owed_deliveries: VecDeque<(Serial, u64)>,
    /// What may be sent until the peer has shown that packets to it arrive: it may be a victim (specs/xtp.md 7).
    budget: AddressBudget,

    due: Due,
    news: VecDeque<News>,
    pub(crate) counts: XtpCounts,
    /// Octets of all packets, for a monitor.
    pub(crate) octets_sent: u64,
    pub(crate) octets_received: u64,
    pub(crate) tally: Tally,
}

impl Context {
    pub(crate) fn new(now: Time, ends: Ends, config: &XtpConfig) -> Context {
        let multicast = is_multicast(config.service);
        let role = match ends.part {
            Part::Pair => Role::Pair,
            Part::Transmitter => Role::Transmitter(Box::new(Group::new(ends.sync))),
            Part::Receiver { address, joined } => {
                let it = Membership::new(now, ends.own, address, joined);
                Role::Receiver(Box::new(it))
            }
        };
        let initiator = ends.theirs.is_none() && !matches!(role, Role::Receiver(_));
        let receives = matches!(role, Role::Receiver(_));
        let one_way = multicast
            || matches!(
                config.service,
                XtpService::DATAGRAM | XtpService::ACKED_DATAGRAM
            );
        let mut context = Context {
            local: ends.local,
            remote: ends.remote,
            own: ends.own,
            // Many receivers are distinguished by keys of their own.
            key: match ends.theirs.filter(|_| !receives) {
                Some(theirs) => theirs.returned(),
                None => ends.own,
            },
            theirs: [ends.theirs],
            initiator,
            role,
            service: config.service,
            passive: ends.theirs.is_some(),
            released: false,
            inactive: None,
            failed: false,
            heard: false,
            last_heard: now,
            out: Outgoing::default(),
            alloc: match config.reservation || multicast {
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
            write_closed: receives,
            writer_done: receives,
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
            // A datagram is not answered with data.
            read_closed: initiator && one_way,
            told_end: initiator && one_way,
            told_readable: false,
            ended: false,
            echo: Serial(0),
            peer_edge: false,
            owed_deliveries: VecDeque::new(),
            budget: match ends.theirs {
                Some(_) => AddressBudget::default(),
                // The address is that of our user.
                None => AddressBudget::VALIDATED,
            },
            due: Due {
                first: initiator,
                ..Due::default()
            },
            news: VecDeque::new(),
            counts: XtpCounts::default(),
            octets_sent: 0,
            octets_received: 0,
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

    /// The keys and addresses by which packets of the peer, or of all receivers, may find us.
    pub(crate) fn peer_keys(&self) -> Vec<Who> {
        let net = self.remote.net;
        let peer = self.theirs.into_iter().flatten().map(|key| (net, key));
        match self.group() {
            Some(group) => group.keys().collect(),
            None => peer.collect(),
        }
    }

    pub(crate) fn is_inactive(&self) -> bool {
        self.inactive.is_some()
    }

    /// Whether it may be handed out by [`accept`](super::Endpoint::accept).
    pub(crate) fn is_acceptable(&self) -> bool {
        !self.config.validate_peer || self.budget.is_validated()
    }

    /// Whether the context can be removed.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.released && self.inactive.is_some_and(|until| until <= now)
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
