use std::collections::BTreeMap;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::Duration;

use layercast_xtp::remote::{Parting, Server, ServerLimits, ServerStats, farewell};
use tokio::net::UnixListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::node::{TIMER, XtpNode};
use super::path::{XtpDaemonError, claim};
use super::pipe::Pipe;

/// Rounds before the other tasks of the thread have a turn.
const ROUNDS: usize = 16;
/// Events of the endpoint before clients have their turn.
const EVENTS: usize = 64;

/// An event of a daemon, for the program that runs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XtpDaemonEvent {
    /// A client asks for more than figures: its number and its process.
    Came(u32, Option<u32>),
    /// A client is gone.
    Gone(u32),
    /// A client was sent away.
    Expelled(u32, Parting),
    /// One more than there may be was sent away when it asked for more than figures, or immediately.
    TurnedAway(Parting),
}

/// XTP as a daemon (specs/xtp.md 2.14): one process has the socket and the machine, its clients in other processes of
/// the host reach it through a Unix socket, by [`XtpPlace::Daemon`](super::XtpPlace::Daemon).
///
/// Everything in it is one task. What clients may take of it is bounded ([`ServerLimits`]); one that does not read is not listened to,
/// and one that says nonsense is sent away. Only processes of the same user reach it.
pub struct XtpDaemon {
    node: XtpNode,
    server: Server,
    listener: UnixListener,
    users: BTreeMap<u32, User>,
    path: PathBuf,
    /// As long as it is there, no other daemon takes the path.
    _claim: File,
}

/// A process at the Unix socket.
struct User {
    pipe: Pipe,
    process: Option<u32>,
    /// It asked for more than figures.
    is_client: bool,
}

impl XtpDaemon {
    /// Takes the path, over from one that died. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Another daemon has it, or it is something else than a socket, or the system refuses it.
    pub fn bind(
        path: &Path,
        node: XtpNode,
        limits: ServerLimits,
    ) -> Result<XtpDaemon, XtpDaemonError> {
        let (listener, claim) = claim(path)?;
        Ok(XtpDaemon {
            server: Server::new(node.local_addr(), node.max_data(), TIMER, limits),
            node,
            listener,
            users: BTreeMap::new(),
            path: path.to_owned(),
            _claim: claim,
        })
    }

    /// The address of the socket for XTP.
    pub fn local_addr(&self) -> SocketAddr {
        self.node.local_addr()
    }

    /// Serves until `stop`; then what was accepted has `grace` to reach the peers.
    ///
    /// # Errors
    /// The socket for XTP broke.
    pub async fn run(
        mut self,
        stop: CancellationToken,
        grace: Duration,
        mut report: impl FnMut(XtpDaemonEvent),
    ) -> io::Result<ServerStats> {
        let serve = poll_fn(|context| self.poll(context, &mut report));
        tokio::select! {
            () = stop.cancelled() => {}
            broken = serve => return Err(broken),
        }
        let stats = self.server.stats(self.node.peek());
        // New clients find no daemon.
        let _ = std::fs::remove_file(&self.path);
        self.server.stop(self.node.now(), self.node.endpoint());
        let drained = poll_fn(|context| match self.poll(context, &mut report) {
            Poll::Pending if self.server.is_idle() => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
            Poll::Ready(broken) => Poll::Ready(Err(broken)),
        });
        match timeout(grace, drained).await {
            Ok(drained) => drained?,
            Err(_) => {
                self.server.abort(self.node.now(), self.node.endpoint());
                // That it broke off leaves now or not at all.
                let _ = self.node.hurry();
            }
        }
        Ok(ServerStats {
            endpoint: self.node.stats(),
            ..stats
        })
    }

    /// Moves what can be moved; ready only when the socket for XTP breaks.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        report: &mut impl FnMut(XtpDaemonEvent),
    ) -> Poll<io::Error> {
        for _ in 0..ROUNDS {
            let mut busy = self.take_clients(context, report);
            busy |= self.take_frames(context, report);
            for _ in 0..EVENTS {
                match self.node.poll_event(context) {
                    Poll::Pending => break,
                    Poll::Ready(Err(error)) => return Poll::Ready(error),
                    Poll::Ready(Ok(event)) => {
                        busy = true;
                        let now = self.node.now();
                        self.server.on_event(now, self.node.endpoint(), &event);
                    }
                }
            }
            busy |= self.give_frames(context, report);
            if !busy {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Admits waiting clients.
    fn take_clients(
        &mut self,
        context: &mut Context<'_>,
        report: &mut impl FnMut(XtpDaemonEvent),
    ) -> bool {
        let mut some = false;
        // An error concerns a client that is gone again, or the system: there may be room later.
        while let Poll::Ready(Ok((stream, _))) = self.listener.poll_accept(context) {
            some = true;
            let process = stream.peer_cred().ok().and_then(|it| it.pid());
            let process = process.map(i32::cast_unsigned);
            let mut pipe = Pipe::new(stream);
            match self.server.enter(process) {
                Ok(number) => {
                    let user = User {
                        pipe,
                        process,
                        is_client: false,
                    };
                    self.users.insert(number, user);
                }
                Err(why) => {
                    let _ = pipe.poll_write(&mut farewell(why), context);
                    report(XtpDaemonEvent::TurnedAway(why));
                }
            }
        }
        some
    }

    /// Takes what clients say, a batch of each.
    fn take_frames(
        &mut self,
        context: &mut Context<'_>,
        report: &mut impl FnMut(XtpDaemonEvent),
    ) -> bool {
        let (mut some, now) = (false, self.node.now());
        let (server, machine) = (&mut self.server, self.node.endpoint());
        self.users.retain(|&number, user| {
            let pipe = &mut user.pipe;
            let mut result = Ok(true);
            if !server.is_backed_up(number) && !pipe.has_frame() {
                result = match pipe.poll_read(context) {
                    Poll::Pending => return true,
                    Poll::Ready(Ok(more)) => {
                        some = true;
                        Ok(more)
                    }
                    Poll::Ready(Err(_)) => Ok(false),
                };
            }
            while result.is_ok() && !server.is_backed_up(number) {
                result = match pipe.frame() {
                    Ok(None) => break,
                    Ok(Some(frame)) => {
                        some = true;
                        let done = server.handle(now, machine, number, frame);
                        if !user.is_client && server.is_client(number) {
                            user.is_client = true;
                            report(XtpDaemonEvent::Came(number, user.process));
                        }
                        done.map(|()| true)
                    }
                    Err(_) => Err(Parting::Nonsense),
                };
            }
            match result {
                Ok(true) => true,
                Ok(false) => {
                    server.leave(now, machine, number);
                    if user.is_client {
                        report(XtpDaemonEvent::Gone(number));
                    }
                    false
                }
                Err(why) => {
                    let mut last = server.expel(now, machine, number, why);
                    // A client that does not read it does not need it.
                    let _ = pipe.poll_write(&mut last, context);
                    report(match why {
                        Parting::Full(_) => XtpDaemonEvent::TurnedAway(why),
                        _ => XtpDaemonEvent::Expelled(number, why),
                    });
                    false
                }
            }
        });
        some
    }

    /// Passes clients their frames; `true` if there were any: blocked clients may be served now.
    fn give_frames(
        &mut self,
        context: &mut Context<'_>,
        report: &mut impl FnMut(XtpDaemonEvent),
    ) -> bool {
        let (mut some, now) = (false, self.node.now());
        let (server, machine) = (&mut self.server, self.node.endpoint());
        self.users.retain(|&number, user| {
            let pipe = &mut user.pipe;
            loop {
                let Some(frames) = server.frames(machine, number).filter(|it| !it.is_empty())
                else {
                    return true;
                };
                match pipe.poll_write(frames, context) {
                    // There may be more that waited for room.
                    Poll::Ready(Ok(())) => some = true,
                    Poll::Pending => return true,
                    Poll::Ready(Err(_)) => {
                        server.leave(now, machine, number);
                        if user.is_client {
                            report(XtpDaemonEvent::Gone(number));
                        }
                        return false;
                    }
                }
            }
        });
        some
    }
}
