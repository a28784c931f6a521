use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use layercast_wire::Signal;
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::channel::{ChannelError, SignalChannel, SignalReceiver, SignalSender, TcpChannel};
use crate::hello::Hello;

/// How long a neighbour may take to say hello.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// Signals that may wait for one neighbour before it counts as one that does not read; it must hold
/// one advertisement for each flow a switch may know.
const MAX_OUTGOING: usize = 2_048;
/// Signals that may wait for the node; beyond that, neighbours wait on their connections.
const MAX_INCOMING: usize = 256;
/// First and longest pause between two calls to an upstream neighbour.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// A connection that held for so long was a good one: the next call comes soon.
const STABLE: Duration = Duration::from_secs(5);
/// How long a neighbour gets to read the last signals of a channel we close.
const LINGER: Duration = Duration::from_millis(300);

/// One connection; a neighbour that comes back gets a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PeerId(pub u64);

/// What happens on the connections of a node.
#[derive(Debug)]
pub(crate) enum PeerEvent {
    /// A neighbour said hello. `upstream` is the index of the address we called.
    Opened {
        peer: PeerId,
        addr: SocketAddr,
        hello: Hello,
        sender: PeerSender,
        upstream: Option<usize>,
    },
    /// A neighbour says something.
    Signal { peer: PeerId, signal: Signal },
    /// The connection of an opened neighbour is gone.
    Closed { peer: PeerId, reason: String },
    /// A caller, or an upstream we called, never became a neighbour.
    Failed {
        addr: SocketAddr,
        upstream: Option<usize>,
        reason: String,
    },
}

/// Where signals to a neighbour are put; dropping it closes the connection in order.
#[derive(Debug)]
pub(crate) struct PeerSender {
    queue: mpsc::Sender<Signal>,
    cut: CancellationToken,
}

/// What went wrong on the connections of a node.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ChannelStats {
    /// Connections accepted.
    pub accepted: u64,
    /// Callers turned away: no proper hello in time, wrong version, too many connections.
    pub rejected: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Neighbours cut off because they did not read what they were sent.
    pub slow: u64,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    rejected: AtomicU64,
    malformed: AtomicU64,
    slow: AtomicU64,
}

/// Starts and watches the connections of a node, and brings what they say into one queue.
#[derive(Debug)]
pub(crate) struct Peers {
    hello: Signal,
    events: mpsc::Sender<PeerEvent>,
    counters: Arc<Counters>,
    tasks: TaskTracker,
    /// No new connections.
    closing: CancellationToken,
    /// No connections at all.
    stop: CancellationToken,
    next: Arc<AtomicU64>,
}

impl Peers {
    /// Connections that greet with `hello`, and the queue of what they say.
    pub fn new(hello: Hello) -> (Peers, mpsc::Receiver<PeerEvent>) {
        let (events, queue) = mpsc::channel(MAX_INCOMING);
        let peers = Peers {
            hello: hello.signal(),
            events,
            counters: Arc::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            stop: CancellationToken::new(),
            next: Arc::default(),
        };
        (peers, queue)
    }

    /// Takes callers, at most `max` at a time. They have to say hello first, and then get ours
    /// from the node.
    pub fn listen(&self, listener: TcpListener, max: usize) {
        let (tasks, closing) = (self.tasks.clone(), self.closing.clone());
        let (counters, connection) = (Arc::clone(&self.counters), self.connection());
        let places = Arc::new(Semaphore::new(max));
        self.tasks.spawn(async move {
            while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
                let Ok((stream, addr)) = accepted else {
                    // Out of file descriptors, most likely: some will be closed.
                    sleep(BACKOFF.0).await;
                    continue;
                };
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    counters.rejected.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                counters.accepted.fetch_add(1, Ordering::Relaxed);
                tasks.spawn(take(connection.clone(), stream, addr, place));
            }
        });
    }

    /// Calls the upstream neighbour number `index` at `addr`, and again whenever it is lost;
    /// from the address `from`, if there is a choice.
    pub fn call(&self, index: usize, addr: SocketAddr, from: Option<IpAddr>) {
        let connection = self.connection();
        let hello = self.hello.clone();
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            let mut pause = BACKOFF.0;
            while !closing.is_cancelled() {
                let begun = Instant::now();
                let outcome = match TcpChannel::connect(addr, from).await {
                    Ok(channel) => connection.run(channel, addr, Some((index, &hello))).await,
                    Err(error) => Err(error.to_string()),
                };
                if let Err(reason) = outcome {
                    connection.fail(addr, Some(index), reason).await;
                }
                if begun.elapsed() > STABLE {
                    pause = BACKOFF.0;
                }
                closing.run_until_cancelled(sleep(pause)).await;
                pause = (pause * 2).min(BACKOFF.1);
            }
        });
    }

    /// Ends all connections, whose senders must have been dropped; what is queued for the
    /// neighbours still goes out, if they read it soon.
    pub async fn close(self, mut queue: mpsc::Receiver<PeerEvent>) -> ChannelStats {
        self.closing.cancel();
        self.tasks.close();
        let drain = async { while queue.recv().await.is_some() {} };
        tokio::select! {
            () = self.tasks.wait() => {}
            () = drain => {}
            () = sleep(LINGER) => {}
        }
        self.stop.cancel();
        self.counters.read()
    }

    fn connection(&self) -> Connection {
        Connection {
            events: self.events.clone(),
            counters: Arc::clone(&self.counters),
            stop: self.stop.clone(),
            next: Arc::clone(&self.next),
        }
    }
}

async fn take(
    connection: Connection,
    stream: TcpStream,
    addr: SocketAddr,
    _place: OwnedSemaphorePermit,
) {
    if let Err(reason) = connection.run(TcpChannel::new(stream), addr, None).await {
        connection.fail(addr, None, reason).await;
    }
}

/// What a connection needs to know of the others.
#[derive(Clone)]
struct Connection {
    events: mpsc::Sender<PeerEvent>,
    counters: Arc<Counters>,
    stop: CancellationToken,
    next: Arc<AtomicU64>,
}

impl Connection {
    /// Runs a connection from hello to its end; an error says why there was no proper hello.
    async fn run<C: SignalChannel>(
        &self,
        channel: C,
        addr: SocketAddr,
        upstream: Option<(usize, &Signal)>,
    ) -> Result<(), String> {
        let (mut receiver, mut sender) = channel.split();
        if let Some((_, hello)) = upstream {
            let sent = sender.send(std::slice::from_ref(hello)).await;
            sent.map_err(|error| error.to_string())?;
        }
        let hello = match timeout(HELLO_WITHIN, receiver.recv()).await {
            Err(_) => Err("no hello within 5 s".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(None)) => Err("closed before hello".to_owned()),
            Ok(Ok(Some(signal))) => Hello::from_signal(signal),
        };
        self.count_malformed(0, receiver.malformed());
        let hello = match hello {
            Ok(hello) => hello,
            Err(reason) => {
                let message = format!("expected a hello: {reason}");
                let message = message
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(200)
                    .collect();
                let _ = sender.send(&[Signal::Error { message }]).await;
                sender.close().await;
                return Err(reason);
            }
        };
        let peer = PeerId(self.next.fetch_add(1, Ordering::Relaxed));
        let (queue, mut outgoing) = mpsc::channel(MAX_OUTGOING);
        let cut = CancellationToken::new();
        let opened = PeerEvent::Opened {
            peer,
            addr,
            hello,
            sender: PeerSender {
                queue,
                cut: cut.clone(),
            },
            upstream: upstream.map(|(index, _)| index),
        };
        if self.events.send(opened).await.is_err() {
            return Ok(());
        }
        let ended = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok(()),
            () = cut.cancelled() => Err(ChannelError::Slow),
            ended = self.write(&mut sender, &mut outgoing) => ended,
            ended = self.read(peer, &mut receiver) => ended,
        };
        if outgoing.is_closed() && ended.is_ok() {
            // Closing with unread input would reset the connection and lose our last words.
            let _ = timeout(LINGER, self.read(peer, &mut receiver)).await;
        }
        if matches!(ended, Err(ChannelError::Slow)) {
            self.counters.slow.fetch_add(1, Ordering::Relaxed);
        }
        let reason = ended.map_or_else(|error| error.to_string(), |()| "closed".to_owned());
        let _ = self.events.send(PeerEvent::Closed { peer, reason }).await;
        Ok(())
    }

    async fn write<S: SignalSender>(
        &self,
        sender: &mut S,
        outgoing: &mut mpsc::Receiver<Signal>,
    ) -> Result<(), ChannelError> {
        let mut batch = Vec::new();
        while outgoing.recv_many(&mut batch, 64).await > 0 {
            sender.send(&batch).await?;
            batch.clear();
        }
        sender.close().await;
        Ok(())
    }

    async fn read<R: SignalReceiver>(
        &self,
        peer: PeerId,
        receiver: &mut R,
    ) -> Result<(), ChannelError> {
        loop {
            let before = receiver.malformed();
            let received = receiver.recv().await;
            self.count_malformed(before, receiver.malformed());
            let Some(signal) = received? else {
                return Ok(());
            };
            if self
                .events
                .send(PeerEvent::Signal { peer, signal })
                .await
                .is_err()
            {
                return Ok(());
            }
        }
    }

    fn count_malformed(&self, before: u32, after: u32) {
        let count = u64::from(after - before);
        self.counters.malformed.fetch_add(count, Ordering::Relaxed);
    }

    async fn fail(&self, addr: SocketAddr, upstream: Option<usize>, reason: String) {
        if upstream.is_none() {
            self.counters.rejected.fetch_add(1, Ordering::Relaxed);
        }
        let failed = PeerEvent::Failed {
            addr,
            upstream,
            reason,
        };
        let _ = self.events.send(failed).await;
    }
}

impl PeerSender {
    /// Queues a signal. A neighbour whose queue is full is cut off: it gets everything in order,
    /// or nothing more.
    pub fn send(&self, signal: Signal) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(signal) {
            self.cut.cancel();
        }
    }
}

impl Counters {
    fn read(&self) -> ChannelStats {
        ChannelStats {
            accepted: self.accepted.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            malformed: self.malformed.load(Ordering::Relaxed),
            slow: self.slow.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Peers {
    /// A node that is dropped in the middle leaves no connection and no listener behind.
    fn drop(&mut self) {
        self.closing.cancel();
        self.stop.cancel();
    }
}
