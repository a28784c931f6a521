//! Many receivers in one process, to try a sender with: the emulators of rmtp-large-scale.md 2.9.

mod lares;
mod mars;

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::task::Poll;

use layercast_core::{Span, earliest};
use layercast_wire::multicast::{Body, Open, Packet};
use tokio_util::sync::CancellationToken;

use self::lares::Lares;
use self::mars::Mars;
use super::name::FileName;
use super::session::Inbox;
use crate::clock::Clock;
use crate::error::NetError;
use crate::random::random_number;
use crate::timer::Timer;
use crate::udp::Udp;

/// Batches taken off the socket of the group before something else is done.
const BATCHES: usize = 8;

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
    /// Gives up when no sender was heard for so long; zero: never.
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
enum Many {
    Mars(Mars),
    Lares(Box<Lares>),
}

/// Takes part until the last file of a sender is over, or `shutdown`. Must be called within a tokio runtime.
///
/// # Errors
/// The group cannot be joined, or the system refuses sockets or timers.
pub async fn emulate_receivers(
    config: EmulateConfig,
    shutdown: CancellationToken,
) -> Result<Emulation, NetError> {
    let joined = Udp::join_group(config.group, config.interface);
    let group = SocketAddr::from(config.group);
    let mut udp = joined.map_err(|source| NetError::Group { group, source })?;
    let seed = random_number();
    let mut many = match config.kind {
        Emulated::Mars { loss, delay } => Many::Mars(Mars::new(&config, loss, delay, seed)?),
        Emulated::Lares { gap } => Many::Lares(Box::new(Lares::new(&config, gap, seed)?)),
    };
    let clock = Clock::get();
    let mut timer = Timer::new().map_err(NetError::system("creating a timer"))?;
    let mut inbox = Inbox::default();
    let mut heard = clock.now();
    loop {
        let now = clock.now();
        timer.served(now);
        let more = (0..BATCHES).all(|_| udp.receive(&mut inbox));
        for (from, packet) in inbox.packets.drain(..) {
            heard = now;
            match &mut many {
                Many::Mars(mars) => mars.hear(now, from, &packet),
                Many::Lares(lares) => lares.hear(now, from, &packet),
            }
        }
        let (over, next) = match &mut many {
            Many::Mars(mars) => mars.work(now),
            Many::Lares(lares) => lares.work(now),
        };
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
        let own = poll_fn(|context| {
            let ready = match &many {
                Many::Mars(mars) => mars
                    .sockets()
                    .any(|it| it.poll_readable(context).is_ready()),
                Many::Lares(lares) => lares.socket().poll_readable(context).is_ready(),
            };
            match ready {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        tokio::select! {
            _ = timer.expired() => {}
            _ = udp.readable() => {}
            () = own => {}
            () = shutdown.cancelled() => {}
        }
    }
    Ok(match many {
        Many::Mars(mars) => mars.told,
        Many::Lares(lares) => lares.told,
    })
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

/// The announcement in a packet.
fn announced(packet: &Packet) -> Option<&Open> {
    match &packet.body {
        Body::Open(open) => Some(open),
        _ => None,
    }
}
