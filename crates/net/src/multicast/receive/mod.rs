//! Receiving: which sessions are taken part in, the sockets, and the time.

mod event;
mod session;
mod sessions;
mod sets;
mod transfers;
mod validation;

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use layercast_core::{AnyObserver, Observer, Span, Time, earliest};
use layercast_multicast::{Limits, ReceiverConfig};
use layercast_wire::multicast::MemberId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::event::{Ended, ReceiveEvent, ReceivedFile, Reception};
use self::sessions::Sessions;
use super::keys::{Inbox, Keys};
use super::store::Folder;
use crate::clock::Clock;
use crate::error::NetError;
use crate::timer::Timer;
use crate::udp::Udp;

/// Interval of saving progress to disk and reporting it.
const SAVE: Span = Span::from_secs(2);
const REPORT_PERIOD: Span = Span::from_ms(250);
/// Batches taken off a socket before something else is done: what the buffer of one that is full holds.
const BATCHES: usize = 64;
/// Packets of a stream that are held until they are written, at most, unless the user says another number.
pub const BUFFER: u32 = 4_096;
/// What is taken at most: 2^30 packets of 64 octets or more.
const LIMITS: Limits = Limits {
    packet_size: 64,
    ..Limits::ENGINE
};

/// The receiver's identity, its source and its destination.
#[derive(Clone, Debug)]
pub struct ReceiveConfig {
    /// Its name in traces. Senders show it if `member` is [its number](crate::member_of).
    pub name: String,
    /// Where files go.
    pub folder: Folder,
    /// The multicast group, and the address of the interface.
    pub group: Option<(SocketAddrV4, Ipv4Addr)>,
    /// The sender's second group, which is joined by those that are served after the others.
    pub side: Option<SocketAddrV4>,
    /// Where unicast is taken, and reports come from; port 0: any.
    pub listen: SocketAddr,
    /// This receiver.
    pub member: MemberId,
    /// Distinguishes receivers with the same name: random, and the same after a restart ([`receiver_identity`](crate::receiver_identity)).
    pub identity: Option<u64>,
    /// Packets of a stream (FRM) that it holds until they are written.
    pub buffer: u32,
    /// Key that it shares with senders: of its receipts, and of the announcements that it believes.
    pub key: Option<[u8; 32]>,
    /// Continues after the last file of a sender.
    pub forever: bool,
    /// Gives up after this time without a sender; zero: never.
    pub patience: Span,
}

/// A receiver and its sockets, ready to run.
pub struct FileReceiver {
    udp: Udp,
    group: Option<Udp>,
    /// The second group, and its socket while it is joined.
    side: Option<(SocketAddrV4, Ipv4Addr)>,
    aside: Option<Udp>,
    inbox: Inbox,
    sessions: Sessions,
    forever: bool,
    patience: Span,
}

impl FileReceiver {
    /// Takes the sockets. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The port is in use, or the group cannot be joined.
    pub fn bind(config: ReceiveConfig) -> Result<FileReceiver, NetError> {
        let udp = Udp::bind(config.listen).map_err(|it| NetError::bind(config.listen, it))?;
        let group = config.group.map(join).transpose()?;
        let side = config.side.zip(config.group);
        let machine = ReceiverConfig {
            buffer: config.buffer.max(1),
            identity: config.identity,
            limits: LIMITS,
            ..ReceiverConfig::new(config.member, 0).with_key(config.key.as_ref())
        };
        Ok(FileReceiver {
            udp,
            group,
            side: side.map(|(side, (_, interface))| (side, interface)),
            aside: None,
            inbox: Inbox::with(Keys::receiver(config.key.as_ref(), config.member)),
            sessions: Sessions::new(config.name, config.folder, machine),
            forever: config.forever,
            patience: config.patience,
        })
    }

    /// Where unicast comes in.
    pub fn local_addr(&self) -> SocketAddr {
        self.udp.local_addr()
    }

    /// Receives until the last file of a sender is over, or `shutdown`; partial files are kept. `obs` sees the machines.
    ///
    /// # Errors
    /// The system refuses timers, or the second group cannot be joined.
    pub async fn run(
        mut self,
        shutdown: CancellationToken,
        events: mpsc::Sender<ReceiveEvent>,
        obs: &mut (dyn Observer + Send),
    ) -> Result<Reception, NetError> {
        let obs = &mut AnyObserver::new(obs);
        let clock = Clock::get();
        let mut timer = Timer::new().map_err(NetError::system("creating a timer"))?;
        let mut save_at = clock.now() + SAVE;
        let mut report_at = clock.now();
        self.sessions.heard = clock.now();
        let ended = loop {
            let now = clock.now();
            timer.served(now);
            let mut more = self.receive(now, &events, obs);
            more |= self.sessions.work(now, &mut self.inbox.keys, &events, obs);
            self.turn_aside()?;
            let full = !self.sessions.out.flush(&mut self.udp);
            if save_at <= now {
                save_at = now + SAVE;
                self.sessions.save();
                self.sessions.end_released(now, &events);
                self.sessions.give_up_former_lives(now, &events);
            }
            if report_at <= now {
                report_at = now + REPORT_PERIOD;
                self.sessions.progress(&events);
            }
            if shutdown.is_cancelled() {
                break Ended::Stopped;
            }
            if !self.forever && self.sessions.is_idle(now) && self.sessions.sets.is_over(now) {
                break Ended::All;
            }
            if self.patience > Span::ZERO && self.sessions.heard() + self.patience <= now {
                break Ended::Patience;
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            let wake = earliest(self.sessions.poll_timeout(), Some(save_at.min(report_at)));
            timer
                .arm(wake)
                .map_err(NetError::system("setting a timer"))?;
            tokio::select! {
                _ = timer.expired() => {}
                _ = self.udp.readable() => {}
                _ = readable(self.group.as_ref()) => {}
                _ = readable(self.aside.as_ref()) => {}
                _ = self.udp.writable(), if full => {}
                () = shutdown.cancelled() => {}
            }
        };
        // Files that are whole count, although their senders have not said good-bye.
        self.sessions.end_whole(clock.now(), None, &events);
        let is_over = self.sessions.sets.is_over(clock.now());
        let ended = match ended {
            Ended::Patience if !self.forever && is_over => Ended::All,
            ended => ended,
        };
        self.sessions.save();
        self.sessions.sync();
        self.sessions.look_for_missing();
        if ended == Ended::All {
            self.sessions.forget_lists();
        }
        self.sessions.leave(clock.now(), &mut self.inbox.keys, obs);
        // The message is sent once: without it a sender finds out by polls that the receiver does not answer.
        self.sessions.out.flush(&mut self.udp);
        Ok(Reception {
            missing: self.sessions.sets.missing(),
            before: self.sessions.sets.before(),
            listed: !self.sessions.lacks_list(),
            files: self.sessions.files,
            ended,
        })
    }

    /// Joins the second group while something is served there, and leaves it then.
    fn turn_aside(&mut self) -> Result<(), NetError> {
        let wanted = self.side.filter(|_| self.sessions.is_postponed());
        if wanted.is_some() != self.aside.is_some() {
            self.aside = wanted.map(join).transpose()?;
        }
        Ok(())
    }

    /// Takes what came, but not forever; says whether there may be more.
    fn receive(
        &mut self,
        now: Time,
        events: &mpsc::Sender<ReceiveEvent>,
        obs: &mut impl Observer,
    ) -> bool {
        let mut more = false;
        // Group packets are processed first: a receiver polled individually must not answer before it has
        // processed the earlier packets to the group.
        let sockets = [
            self.group.as_mut(),
            self.aside.as_mut(),
            Some(&mut self.udp),
        ];
        for socket in sockets.into_iter().flatten() {
            for batch in 0..BATCHES {
                if !socket.receive(&mut self.inbox) {
                    break;
                }
                more |= batch + 1 == BATCHES;
                self.sessions.take_all(now, &mut self.inbox, (events, obs));
            }
        }
        more
    }
}

fn join((group, interface): (SocketAddrV4, Ipv4Addr)) -> Result<Udp, NetError> {
    Udp::join_group(group, interface).map_err(|source| NetError::Group {
        group: SocketAddr::from(group),
        source,
    })
}

/// When something came, or forever.
async fn readable(socket: Option<&Udp>) -> std::io::Result<()> {
    match socket {
        Some(socket) => socket.readable().await,
        None => pending().await,
    }
}
