use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;

use layercast_core::Span;
use layercast_multicast::{Failure, Members, Outcome, SenderConfig, SenderStats};
use layercast_wire::multicast::MemberId;

use crate::error::NetError;

/// The destination of a sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// An IP multicast group.
    Group {
        /// Address and port.
        group: SocketAddrV4,
        /// Address of the interface; unspecified: the system chooses.
        interface: Ipv4Addr,
        /// How many routers it crosses, plus one.
        hops: u8,
        /// A second group for receivers served after the others, which join it then; `None`: all receive that
        /// too.
        side: Option<SocketAddrV4>,
    },
    /// Each of these, all of one family.
    Hosts(Vec<SocketAddr>),
}

/// The content, its destination and the configuration of a transfer.
#[derive(Clone, Debug)]
pub struct SendConfig {
    /// Files and folders; each file is a session, one after the other.
    pub files: Vec<PathBuf>,
    /// The destination.
    pub to: Destination,
    /// The policies of the machine; its packets are made smaller where the way to somebody takes no larger ones.
    pub machine: SenderConfig,
    /// The members that may take part; after the first file, its participants are expected.
    pub members: Members,
}

/// Event of a running sender.
#[derive(Clone, Debug)]
pub enum SendEvent {
    /// The file is being read for its digest; reported four times a second.
    Reading {
        /// Its name.
        name: String,
        /// Its octets that were read, and all.
        octets: (u64, u64),
    },
    /// The session of a file is open.
    Opened {
        /// Its name.
        name: String,
        /// Its octets.
        size: u64,
        /// Receivers that take part.
        receivers: u32,
    },
    /// Four times a second.
    Progress(SendProgress),
    /// Somebody joined, got everything, was postponed or failed.
    Receiver(ReceiverReport),
    /// A receiver is refused because another one, which is there, has its name or its identity.
    NameInUse {
        /// The name.
        member: MemberId,
        /// Where the receiver is that has it.
        holder: SocketAddr,
        /// Where the other one is.
        refused: SocketAddr,
    },
    /// A receiver there says that it has no key, or another one. Nothing proves it.
    OtherKey(SocketAddr),
    /// A file is over.
    Done(Box<SentFile>),
    /// A file is not sent after all.
    Withheld(WithheldFile),
}

/// How far a file is.
#[derive(Clone, Copy, Default, Debug)]
pub struct SendProgress {
    /// Number of the pass, 0 for the first.
    pub pass: u16,
    /// Packets of the pass, and those of them that were sent.
    pub packets: (u64, u64),
    /// Octets of payload sent in the session.
    pub octets: u64,
    /// Receivers that have everything, and all that take part.
    pub receivers: (u32, u32),
}

/// What became of a receiver.
#[derive(Clone, PartialEq, Debug)]
pub struct ReceiverReport {
    /// The member.
    pub member: MemberId,
    /// What its user calls it, if it says so; its number is [that of the name](crate::member_of).
    pub name: Option<Arc<str>>,
    /// Where it was heard from.
    pub address: Option<SocketAddr>,
    /// What became of it.
    pub outcome: Outcome,
    /// From the first data packet of the session until it had everything; none before, and where no data were sent.
    pub took: Option<Span>,
    /// Packets or symbols it asked for again.
    pub repairs: u64,
    /// What it still lacked when it was last heard of, packets or symbols; of a stream (FRM) what it had not taken.
    pub lacks: u64,
    /// Share of packets it lost before decoding, last time, 0 to 1.
    pub loss: f32,
    /// Last round trip, its back-off included.
    pub round_trip: Span,
}

/// A file and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct SentFile {
    /// Its name.
    pub name: String,
    /// Its octets.
    pub size: u64,
    /// Its BLAKE3 digest.
    pub digest: [u8; 32],
    /// How long it took, from the announcement on.
    pub took: Span,
    /// Why the session ended without success.
    pub failure: Option<Failure>,
    /// Every receiver.
    pub receivers: Vec<ReceiverReport>,
    /// Addresses that were to be sent to and at which no receiver takes part.
    pub unreached: Vec<SocketAddr>,
    /// Receivers that say that they have no key, or another one.
    pub other_key: Vec<SocketAddr>,
    /// Receivers that were refused because another one has their name.
    pub in_use: Vec<SocketAddr>,
    /// Hosts that were to be sent to and that answer as receivers which are not among the listed members, with the name.
    pub other_name: BTreeMap<SocketAddr, Option<Arc<str>>>,
    /// What was counted.
    pub stats: SenderStats,
    /// Datagrams that were handed to the system.
    pub datagrams: u64,
    /// Datagrams that were no packets of ours.
    pub malformed: u64,
}

/// A file that was listed and not sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WithheldFile {
    /// Its name.
    pub name: String,
    /// Its octets when it was listed.
    pub size: u64,
    /// What is wrong with it.
    pub why: String,
}

/// What became of everything that was to be sent.
#[derive(Debug, Default)]
pub struct SendReport {
    /// Files that were to be sent.
    pub files: u32,
    /// Folders that were to be sent.
    pub folders: u32,
    /// Octets of all of them.
    pub octets: u64,
    /// The list of files, which is sent before them.
    pub manifest: Option<SentFile>,
    /// Files whose session began, in order.
    pub sent: Vec<SentFile>,
    /// Files that changed or could not be read when it was their turn.
    pub withheld: Vec<WithheldFile>,
    /// Addresses to which this host has no route, and what the system says.
    pub unroutable: BTreeMap<SocketAddr, String>,
    /// Datagrams that the system refused to send, and what it said of the last one.
    pub refused: Option<(u64, String)>,
    /// Why it ended early, if the system refused something.
    pub error: Option<NetError>,
    /// How long it took in all.
    pub took: Span,
}

impl SendReport {
    /// Whether this receiver has every file.
    pub fn has_all(&self, member: MemberId) -> bool {
        let has = |file: &SentFile| {
            let mut receivers = file.receivers.iter();
            receivers.any(|it| it.member == member && it.outcome == Outcome::Delivered)
        };
        self.sent.len() as u32 == self.files && self.sent.iter().all(has)
    }
}
