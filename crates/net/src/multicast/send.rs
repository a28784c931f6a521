use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use layercast_core::{Observer, Span};
use layercast_fec::Scheme;
use layercast_multicast::{
    Failure, Members, Outcome, Sender, SenderConfig, SenderStats, Source, Trigger,
};
use layercast_wire::multicast::{MemberId, SEALED_OVERHEAD};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::feed::Feed;
use super::keys::Keys;
use super::link::Link;
use super::name::{FileName, harmless};
use super::session::Session;
use super::source::FileSource;
use crate::error::NetError;
use crate::random::random_number;

/// How often a file is announced to listed receivers if some of them had failed with the file before: they are not
/// waited for as long again.
const TRIES_AGAIN: u32 = 4;

/// Whom a sender sends to.
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
        /// A second group for those who are served after the others, who join it then; none: all hear that too.
        side: Option<SocketAddrV4>,
    },
    /// Each of these, all of one family.
    Hosts(Vec<SocketAddr>),
}

/// What is sent, to whom and how.
#[derive(Clone, Debug)]
pub struct SendConfig {
    /// The files, one session each, one after the other.
    pub files: Vec<PathBuf>,
    /// Whom to.
    pub to: Destination,
    /// The policies of the machine; its packets are made smaller where the way to somebody takes no larger ones.
    pub machine: SenderConfig,
    /// Who may take part; after the first file those are expected who took part in it.
    pub members: Members,
}

/// What a sender tells while it runs.
#[derive(Clone, Debug)]
pub enum SendEvent {
    /// The file is being read for its digest.
    Reading(String),
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
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReceiverReport {
    /// Who.
    pub member: MemberId,
    /// Where it was heard from.
    pub address: Option<SocketAddr>,
    /// What became of it.
    pub outcome: Outcome,
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
    /// What was counted.
    pub stats: SenderStats,
    /// Datagrams that were handed to the system.
    pub datagrams: u64,
    /// Datagrams that were no packets of ours.
    pub malformed: u64,
}

/// Sends files, one after the other; `shutdown` gives up, and receivers keep what they have. `obs` sees the machines.
///
/// # Errors
/// A file cannot be read, the configuration cannot be, or the system refuses sockets or timers.
pub async fn send_files(
    config: SendConfig,
    shutdown: CancellationToken,
    events: mpsc::Sender<SendEvent>,
    obs: &mut impl Observer,
) -> Result<Vec<SentFile>, NetError> {
    let mut link = Link::open(&config.to)?;
    let mut members = config.members.clone();
    let mut sent = Vec::new();
    let mut tries = config.machine.opening.tries;
    let is_listed = matches!(members, Members::Listed(_));
    let count = config.files.len() as u32;
    for (index, path) in (1..).zip(&config.files) {
        let last = path.file_name().unwrap_or(path.as_os_str());
        let name = FileName {
            index,
            count,
            name: harmless(&last.to_string_lossy()),
        };
        // Nobody has to listen, to this and to the others.
        let _ = events.try_send(SendEvent::Reading(name.name.clone()));
        let scheme = Scheme::from_number(config.machine.scheme);
        let source = read(path, name.to_object(), scheme).await?;
        let mut machine = config.machine.clone();
        machine.opening.tries = tries;
        if let Some(fits) = link.payload {
            let sealing = match machine.receipts {
                Some(_) => SEALED_OVERHEAD as u16,
                None => 0,
            };
            machine.packet_size = machine.packet_size.min(fits.saturating_sub(sealing)).max(1);
        }
        let is_stream = matches!(machine.trigger, Trigger::Timer { .. });
        let object = source.object();
        let session = random_number();
        let keys = Keys::sender(machine.receipts.as_ref(), session);
        let name = name.name;
        let file = if is_stream {
            let sender = Sender::stream(session, machine.clone(), members.clone())?;
            let feed = Feed::new(source, &object, machine.packet_size)?;
            let sender = sender.announcing(object.clone());
            let session = Session::new(
                &mut link,
                sender,
                Some(feed),
                name,
                (session, is_listed, keys),
                &object,
            );
            session.run(&shutdown, &events, obs).await?
        } else {
            let sender = Sender::object(session, machine, members.clone(), source)?;
            let session = Session::new(
                &mut link,
                sender,
                None,
                name,
                (session, is_listed, keys),
                &object,
            );
            session.run(&shutdown, &events, obs).await?
        };
        // Those that have failed are not waited for again; they may come late.
        let delivered = |it: &&ReceiverReport| it.outcome == Outcome::Delivered;
        let there = file.receivers.iter().filter(delivered).count();
        match &mut members {
            Members::Anyone { expect, .. } => *expect = Some(there.max(1) as u32),
            Members::Listed(listed) if there < listed.len() => tries = tries.min(TRIES_AGAIN),
            Members::Listed(_) => {}
        }
        let _ = events.try_send(SendEvent::Done(Box::new(file.clone())));
        sent.push(file);
        if shutdown.is_cancelled() {
            break;
        }
    }
    Ok(sent)
}

/// Reads a file for its digest, beside the loop: that may take a while.
async fn read(path: &Path, name: Bytes, scheme: Option<Scheme>) -> Result<FileSource, NetError> {
    let owned = path.to_owned();
    let open = move || FileSource::open(&owned, name, scheme);
    let opened = tokio::task::spawn_blocking(open).await;
    let opened = opened.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    opened.map_err(|source| NetError::Input {
        path: path.to_owned(),
        source,
    })
}
