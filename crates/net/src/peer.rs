use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use layercast_wire::{ChannelStats, Signal};
use quinn::{Endpoint, Incoming, VarInt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::channel::{SignalChannel, SignalReceiver, SignalSender};
use crate::connection::{Connection, Counters, Greeted, HELLO_WITHIN, LINGER, PeerEvent, no_hello};
use crate::error::CallError;
use crate::hello::Hello;
use crate::identity::Identity;
use crate::places::{Place, Places};
use crate::quic::QuicChannel;
use crate::remote::{Bearer, Remote, Renewal};
use crate::tcp::TcpChannel;
use crate::xtp::{XtpChannel, XtpDoor};

/// Signals that may wait for the node; beyond that, neighbours wait on their connections.
const MAX_INCOMING: usize = 256;
/// First and longest pause between two calls to an upstream neighbour.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Longest pause between two calls to a node where another neighbour has our name: that may be gone, and the name is
/// free soon.
const WHILE_NAME_IN_USE: Duration = Duration::from_millis(500);
/// A connection that lasted this long was stable: the next call comes soon.
const STABLE: Duration = Duration::from_secs(5);
/// Simultaneous callers that are refused with an explanation; a new one replaces the oldest.
const MAX_DECLINED: usize = 16;
/// How long the last packets of a listening node may take to leave.
const FAREWELL: Duration = Duration::from_millis(50);

/// Starts and watches the connections of a node, and brings what they say into one queue.
#[derive(Debug)]
pub(crate) struct Peers {
    hello: Hello,
    /// Whose certificate callees are shown on protected links.
    identity: Option<Arc<Identity>>,
    /// Where callers on protected links come in.
    endpoint: Option<Endpoint>,
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
    /// Connections that greet with `hello`, and the queue of what they say; without an identity
    /// only in the clear.
    pub fn new(
        hello: Hello,
        identity: Option<Arc<Identity>>,
    ) -> (Peers, mpsc::Receiver<PeerEvent>) {
        let (events, queue) = mpsc::channel(MAX_INCOMING);
        let peers = Peers {
            hello,
            identity,
            endpoint: None,
            events,
            counters: Arc::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            stop: CancellationToken::new(),
            next: Arc::default(),
        };
        (peers, queue)
    }

    /// What went wrong so far.
    pub fn stats(&self) -> ChannelStats {
        self.counters.read()
    }

    /// Takes callers in the clear, at most `max` at a time. They have to say hello first, and then
    /// get ours from the node.
    pub fn listen(&self, listener: TcpListener, max: usize) {
        let (tasks, closing) = (self.tasks.clone(), self.closing.clone());
        let (counters, connection) = (Arc::clone(&self.counters), self.connection());
        let (places, declined) = (Places::new(max), Places::new(MAX_DECLINED));
        self.tasks.spawn(async move {
            while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
                let Ok((stream, addr)) = accepted else {
                    // Out of file descriptors, most likely: some will be closed.
                    sleep(BACKOFF.0).await;
                    continue;
                };
                let channel = TcpChannel::new(stream);
                match places.take(addr.ip()) {
                    Ok(place) => {
                        counters.accepted.fetch_add(1, Ordering::Relaxed);
                        tasks.spawn(take(connection.clone(), channel, addr, place));
                    }
                    Err(why) => match declined.take(addr.ip()) {
                        Ok(place) => {
                            let connection = connection.clone();
                            let error = CallError::TurnedAway(why.to_string());
                            let message = why.to_string();
                            tasks.spawn(refuse(connection, channel, (addr, place), message, error));
                        }
                        Err(_) => drop(counters.rejected.fetch_add(1, Ordering::Relaxed)),
                    },
                }
            }
        });
    }

    /// Takes callers in the clear that call over XTP, at most `max` at a time; until the socket breaks.
    pub fn listen_xtp(&self, door: XtpDoor, max: usize) {
        let (tasks, closing) = (self.tasks.clone(), self.closing.clone());
        let (counters, connection) = (Arc::clone(&self.counters), self.connection());
        let (places, declined) = (Places::new(max), Places::new(MAX_DECLINED));
        self.tasks.spawn(async move {
            while let Some(Ok((channel, addr))) = closing.run_until_cancelled(door.accept()).await {
                match places.take(addr.ip()) {
                    Ok(place) => {
                        counters.accepted.fetch_add(1, Ordering::Relaxed);
                        tasks.spawn(take(connection.clone(), channel, addr, place));
                    }
                    Err(why) => match declined.take(addr.ip()) {
                        Ok(place) => {
                            let connection = connection.clone();
                            let error = CallError::TurnedAway(why.to_string());
                            let message = why.to_string();
                            tasks.spawn(refuse(connection, channel, (addr, place), message, error));
                        }
                        Err(_) => {
                            counters.rejected.fetch_add(1, Ordering::Relaxed);
                            channel.refuse();
                        }
                    },
                }
            }
        });
    }

    /// Takes callers on protected links, at most `max` at a time.
    pub fn listen_protected(&mut self, endpoint: Endpoint, max: usize) {
        self.endpoint = Some(endpoint.clone());
        let (tasks, closing) = (self.tasks.clone(), self.closing.clone());
        let (counters, connection) = (Arc::clone(&self.counters), self.connection());
        let places = Places::new(max);
        self.tasks.spawn(async move {
            while let Some(Some(incoming)) = closing.run_until_cancelled(endpoint.accept()).await {
                if incoming.may_retry() {
                    // A caller that is not reachable at its address costs nothing.
                    let _ = incoming.retry();
                    continue;
                }
                let Ok(place) = places.take(incoming.remote_address().ip()) else {
                    counters.rejected.fetch_add(1, Ordering::Relaxed);
                    // Costs no handshake; callers know what CONNECTION_REFUSED means.
                    incoming.refuse();
                    continue;
                };
                counters.accepted.fetch_add(1, Ordering::Relaxed);
                tasks.spawn(take_protected(connection.clone(), incoming, place));
            }
        });
    }

    /// Answers callers over TCP with `message` and nothing else.
    pub fn decline(&self, listener: TcpListener, message: String) {
        let (tasks, closing) = (self.tasks.clone(), self.closing.clone());
        let connection = self.connection();
        let places = Places::new(MAX_DECLINED);
        self.tasks.spawn(async move {
            while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
                let Ok((stream, addr)) = accepted else {
                    sleep(BACKOFF.0).await;
                    continue;
                };
                if let Ok(place) = places.take(addr.ip()) {
                    let (channel, message) = (TcpChannel::new(stream), message.clone());
                    let error = CallError::Unreachable("called over TCP".into());
                    let refusal =
                        refuse(connection.clone(), channel, (addr, place), message, error);
                    tasks.spawn(refusal);
                }
            }
        });
    }

    /// Calls the upstream neighbour number `index`, and again whenever it is lost; from the address
    /// `from`, if there is a choice. Before each further call its URL is read again, if that is possible.
    pub fn call(&self, index: usize, mut remote: Remote, from: Option<IpAddr>) {
        let connection = self.connection();
        let identity = self.identity.clone();
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            let mut backoff = Backoff::default();
            while !closing.is_cancelled() {
                let begun = Instant::now();
                let addr = remote.addr;
                let outcome = match (&remote.bearer, &identity) {
                    (Bearer::Quic(trust), Some(identity)) => {
                        match QuicChannel::connect(addr, from, identity, trust).await {
                            Ok(channel) => connection.run(channel, addr, Some(index)).await,
                            Err(error) => Err(error),
                        }
                    }
                    (Bearer::Quic(_), None) => {
                        Err(CallError::Unreachable("we have no identity".into()))
                    }
                    (Bearer::Xtp, _) => match XtpChannel::connect(addr, from).await {
                        Ok(channel) => connection.run(channel, addr, Some(index)).await,
                        Err(error) => Err(error),
                    },
                    (Bearer::Tcp, _) => match TcpChannel::connect(addr, from).await {
                        Ok(channel) => connection.run(channel, addr, Some(index)).await,
                        Err(error) => Err(CallError::NoAnswer(error.to_string())),
                    },
                };
                let mut longest = BACKOFF.1;
                if let Err(error) = outcome {
                    if matches!(error, CallError::NameInUse { .. }) {
                        longest = WHILE_NAME_IN_USE;
                    }
                    connection.fail(addr, Some(index), error).await;
                }
                let pause = backoff.after(begun.elapsed(), longest);
                closing.run_until_cancelled(sleep(pause)).await;
                let renewal = remote.renewal.as_ref().map(Renewal::look);
                let renewed = match renewal {
                    Some(looking) => closing.run_until_cancelled(looking).await.flatten(),
                    None => None,
                };
                if let Some(renewed) = renewed {
                    (remote.addr, remote.bearer) = (renewed.addr, renewed.bearer.clone());
                    let renewed = Box::new(renewed);
                    let _ = connection.events.send(PeerEvent::Renewed { renewed }).await;
                }
            }
        });
    }

    /// Ends all connections, whose senders must have been dropped; what is queued for the
    /// neighbours still goes out, if they read it soon.
    pub async fn close(mut self, mut queue: mpsc::Receiver<PeerEvent>) -> ChannelStats {
        self.closing.cancel();
        self.tasks.close();
        let drain = async { while queue.recv().await.is_some() {} };
        tokio::select! {
            () = self.tasks.wait() => {}
            () = drain => {}
            () = sleep(LINGER) => {}
        }
        self.stop.cancel();
        if let Some(endpoint) = self.endpoint.take() {
            // Those that did not close by themselves shall not have to find out.
            endpoint.close(VarInt::from_u32(0), b"");
            let _ = timeout(FAREWELL, endpoint.wait_idle()).await;
        }
        self.counters.read()
    }

    fn connection(&self) -> Connection {
        Connection {
            events: self.events.clone(),
            counters: Arc::clone(&self.counters),
            stop: self.stop.clone(),
            next: Arc::clone(&self.next),
            hello: self.hello.clone(),
        }
    }
}

/// The pauses between the calls to a neighbour.
struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { next: BACKOFF.0 }
    }
}

impl Backoff {
    /// How long to wait after a call that `lasted` this long: twice as long after each, but not longer than
    /// `longest` from then on; after a stable connection as short as at first.
    fn after(&mut self, lasted: Duration, longest: Duration) -> Duration {
        if lasted > STABLE {
            self.next = BACKOFF.0;
        }
        let pause = self.next;
        self.next = (pause * 2).min(longest);
        pause
    }
}

/// Reads the hello of a caller in the clear, and runs its connection.
async fn take<C: SignalChannel>(
    connection: Connection,
    channel: C,
    addr: SocketAddr,
    place: Place,
) {
    let by = (Instant::now() + HELLO_WITHIN, HELLO_WITHIN);
    let evicted = place.evicted();
    let greeting = connection.greet(channel, addr, None, by);
    let greeted = unless(evicted, greeting).await;
    enter(&connection, (addr, place), greeted).await;
}

/// The same of a caller over QUIC, whose handshake comes first.
async fn take_protected(connection: Connection, incoming: Incoming, mut place: Place) {
    let addr = incoming.remote_address();
    let until = Instant::now() + HELLO_WITHIN;
    let evicted = place.evicted();
    let greeting = async {
        let channel = timeout_at(until, QuicChannel::accept(incoming)).await;
        let channel = channel.map_err(|_| no_hello(HELLO_WITHIN))??;
        if let Some(Err(why)) = channel.identity().map(|shown| place.show(shown)) {
            answer(channel, why.to_string()).await;
            return Err(CallError::TurnedAway(why.to_string()));
        }
        let by = (until, HELLO_WITHIN);
        connection.greet(channel, addr, None, by).await
    };
    let greeted = unless(evicted, greeting).await;
    enter(&connection, (addr, place), greeted).await;
}

/// The outcome of `work`; none if another caller takes the place before.
async fn unless<T>(evicted: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        outcome = work => Some(outcome),
        () = evicted => None,
    }
}

/// Runs the connection of a caller whose hello was read while it held its place.
async fn enter<C: SignalChannel>(
    connection: &Connection,
    (addr, mut place): (SocketAddr, Place),
    greeted: Option<Result<Greeted<C>, CallError>>,
) {
    match greeted {
        Some(Ok(greeted)) if place.prove() => connection.converse(greeted).await,
        Some(Err(error)) => connection.fail(addr, None, error).await,
        // Evicted. An attacker may cause thousands a second: they are counted, not reported one by one.
        Some(Ok(_)) | None => drop(connection.counters.rejected.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Refuses a caller with a `message`; the node gets the `error`.
async fn refuse<C: SignalChannel>(
    connection: Connection,
    channel: C,
    (addr, place): (SocketAddr, Place),
    message: String,
    error: CallError,
) {
    match unless(place.evicted(), answer(channel, message)).await {
        Some(()) => connection.fail(addr, None, error).await,
        None => drop(connection.counters.rejected.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Answers the hello of a caller with `message` and nothing else.
async fn answer<C: SignalChannel>(channel: C, message: String) {
    let (mut receiver, mut sender) = channel.split();
    // Closing with unread input would reset the connection and lose our words.
    let _ = timeout(HELLO_WITHIN, receiver.recv()).await;
    let _ = sender.send(&[Signal::Error { message }]).await;
    sender.close().await;
    let drain = async { while let Ok(Some(_)) = receiver.recv().await {} };
    let _ = timeout(LINGER, drain).await;
}

impl Drop for Peers {
    /// A node that is dropped in the middle leaves no connection and no listener behind.
    fn drop(&mut self) {
        self.closing.cancel();
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests;
