//! Many receivers in one process, to try a sender with: the emulators of specs/rmtp-large-scale.md 2.9.

mod lares;
mod mars;

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::task::{Context, Poll};

use layercast_core::{Span, Time, earliest};
use layercast_wire::multicast::{Body, Datagram, MemberId, Open, Packet, PathBody, PathCheck};
use tokio_util::sync::CancellationToken;

use self::lares::Lares;
use self::mars::Mars;
use super::keys::{Inbox, Keys};
use super::name::FileName;
use super::outgoing::Outgoing;
use crate::clock::Clock;
use crate::error::NetError;
use crate::random::random_number;
use crate::timer::Timer;
use crate::udp::Udp;

/// Receivers that are emulated, and how.
#[derive(Clone, Debug)]
pub struct EmulateConfig {
    /// The multicast group.
    pub group: SocketAddrV4,
    /// Address of the interface.
    pub interface: Ipv4Addr,
    /// How many.
    pub receivers: u32,
    /// What they do.
    pub kind: Emulated,
    /// Key that they share with the sender; only those that take part for real have receipts.
    pub key: Option<[u8; 32]>,
    /// Gives up after this time without a sender; zero: never.
    pub patience: Span,
}

/// What emulated receivers do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Emulated {
    /// Mars: each is a whole receiver, but for what it receives, which it does not keep.
    Mars {
        /// Share of the packets that each of them loses, by itself, 0 to 1.
        loss: f64,
        /// How much later it hears than the group does.
        delay: Span,
    },
    /// Lares: they say yes to all that they are asked, and hear no data.
    Lares {
        /// Between the answers of two of them.
        gap: Span,
    },
}

/// What became of emulated receivers, all files together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Emulation {
    /// Times that one took part in a session.
    pub joined: u64,
    /// Of these, those that had everything at the end.
    pub complete: u64,
    /// Packets that were dropped on purpose.
    pub lost: u64,
    /// Packets that they sent.
    pub sent: u64,
    /// Announcements that were not believed.
    pub disbelieved: u64,
}

/// The emulated receivers of a kind.
trait Many {
    /// A packet came to the group, opened with `keys`.
    fn hear(&mut self, now: Time, from: SocketAddr, packet: &Packet, keys: &Keys);

    /// Sessions that were announced under another key, or without it.
    fn others(&mut self, count: u64);

    /// What is due; whether all is over, and when to come back.
    fn work(&mut self, now: Time) -> (bool, Option<Time>);

    /// Something came to one of them alone.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()>;

    /// The totals of all receivers.
    fn totals(&self) -> Emulation;
}

/// Takes part until the last file of a sender is over, or `shutdown`. Must be called within a tokio runtime.
///
/// # Errors
/// The group cannot be joined, or the system refuses sockets or timers.
pub async fn emulate_receivers(
    config: EmulateConfig,
    shutdown: CancellationToken,
) -> Result<Emulation, NetError> {
    let seed = random_number();
    match config.kind {
        Emulated::Mars { loss, delay } => {
            run(&config, Mars::new(&config, loss, delay, seed)?, shutdown).await
        }
        Emulated::Lares { gap } => run(&config, Lares::new(&config, gap, seed)?, shutdown).await,
    }
}

async fn run(
    config: &EmulateConfig,
    mut many: impl Many,
    shutdown: CancellationToken,
) -> Result<Emulation, NetError> {
    let joined = Udp::join_group(config.group, config.interface);
    let group = SocketAddr::from(config.group);
    let mut udp = joined.map_err(|source| NetError::Group { group, source })?;
    let clock = Clock::get();
    let mut timer = Timer::new().map_err(NetError::system("creating a timer"))?;
    let keys = Keys::receiver(config.key.as_ref(), MemberId(0));
    let mut inbox = Inbox::with(keys);
    let mut heard = clock.now();
    loop {
        let now = clock.now();
        timer.served(now);
        let more = udp.receive_turn(&mut inbox);
        many.others(std::mem::take(&mut inbox.others).len() as u64);
        let mut came = std::mem::take(&mut inbox.came);
        for (from, _, datagram) in came.drain(..) {
            heard = now;
            if let Datagram::Packet(packet) = datagram {
                many.hear(now, from, &packet, &inbox.keys);
            }
        }
        inbox.came = came;
        let (over, next) = many.work(now);
        let patience = (config.patience > Span::ZERO).then(|| heard + config.patience);
        if over || shutdown.is_cancelled() || patience.is_some_and(|until| until <= now) {
            break;
        }
        if more {
            tokio::task::yield_now().await;
            continue;
        }
        let wake = earliest(next, patience);
        timer
            .arm(wake)
            .map_err(NetError::system("setting a timer"))?;
        tokio::select! {
            _ = timer.expired() => {}
            _ = udp.readable() => {}
            () = poll_fn(|context| many.poll_readable(context)) => {}
            () = shutdown.cancelled() => {}
        }
    }
    Ok(many.totals())
}

/// A sender asks whether an address is real: it is.
fn respond(check: &PathCheck, to: SocketAddr, keys: &mut Keys, out: &mut Outgoing) {
    if let PathBody::Challenge(token) = check.body {
        let response = PathCheck {
            body: PathBody::Response(token),
            ..*check
        };
        let len = keys.len_of_path(check.session);
        out.push(&[to].into(), len, |out| keys.put_path(&response, out));
    }
}

/// A socket of any port.
fn own_socket() -> Result<Udp, NetError> {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Udp::bind(any).map_err(|source| NetError::bind(any, source))
}

/// Whether a session is that of the last file of its sender.
fn is_last(open: &Open) -> bool {
    open.object.as_ref().is_some_and(|object| {
        let name = FileName::from_object(&object.name);
        name.index == name.count
    })
}

/// Whether a session brings a file, not the manifest of a transfer: only files are counted.
fn is_file(open: &Open) -> bool {
    open.object
        .as_ref()
        .is_none_or(|object| !FileName::from_object(&object.name).is_manifest())
}

/// The announcement in a packet.
fn announced(packet: &Packet) -> Option<&Open> {
    match &packet.body {
        Body::Open(open) => Some(open),
        _ => None,
    }
}
