use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use layercast_protect::{Fingerprint, LinkKey};
use layercast_wire::{ChannelStats, Signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::channel::{ChannelError, MOST_PULSES, SignalChannel, SignalReceiver, SignalSender};
use crate::error::CallError;
use crate::hello::Hello;
use crate::pulse::Pulse;
use crate::random::{link_key, random_number};
use crate::remote::Renewed;

/// How long a caller may take from its call to its hello, handshakes included.
pub(crate) const HELLO_WITHIN: Duration = Duration::from_secs(3);
/// How long a neighbour that we called may take to answer our hello.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Signals that may wait for one neighbour before it counts as one that does not read; it must hold
/// one advertisement for each flow a switch may know.
const MAX_OUTGOING: usize = 2_048;
/// How long a neighbour gets to read the last signals of a channel we close.
pub(crate) const LINGER: Duration = Duration::from_millis(300);

/// One connection; a neighbour that comes back gets a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PeerId(pub u64);

/// What happens on the connections of a node.
#[derive(Debug)]
pub(crate) enum PeerEvent {
    /// A neighbour said hello.
    Opened(Box<Newcomer>),
    /// A neighbour says something.
    Signal { peer: PeerId, signal: Signal },
    /// The connection of an opened neighbour is gone.
    Closed { peer: PeerId, reason: String },
    /// A caller, or an upstream we called, never became a neighbour.
    Failed {
        addr: SocketAddr,
        upstream: Option<usize>,
        error: CallError,
    },
    /// The URL of an upstream has changed: it is called there from now on.
    Renewed { renewed: Box<Renewed> },
}

/// A neighbour that said hello.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub peer: PeerId,
    pub addr: SocketAddr,
    /// The address of this host that it called, or was called from, if it is known.
    pub local: Option<IpAddr>,
    pub hello: Hello,
    pub sender: PeerSender,
    /// The index of the address we called, if we did.
    pub upstream: Option<usize>,
    /// Its identity, on a protected link.
    pub proven: Option<Proven>,
    /// The session of the counters of our datagrams, if the link is repaired. If we called, the neighbour has it.
    pub session: u16,
}

/// What is known of a neighbour on a protected link.
#[derive(Clone, Debug)]
pub(crate) struct Proven {
    /// Whose certificate it showed.
    pub identity: Fingerprint,
    /// Our key for the datagrams to it. If we called, it has it already.
    pub key: LinkKey,
}

/// Where signals to a neighbour are put; dropping it closes the connection in order.
#[derive(Debug)]
pub(crate) struct PeerSender {
    queue: mpsc::Sender<Signal>,
    cut: CancellationToken,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub accepted: AtomicU64,
    pub rejected: AtomicU64,
    malformed: AtomicU64,
    slow: AtomicU64,
}

/// What a connection needs to know of the others.
#[derive(Clone)]
pub(crate) struct Connection {
    pub events: mpsc::Sender<PeerEvent>,
    pub counters: Arc<Counters>,
    pub stop: CancellationToken,
    pub next: Arc<AtomicU64>,
    /// How we greet those we call.
    pub hello: Hello,
}

/// A neighbour whose hello was read, before the node knows it.
pub(crate) struct Greeted<C: SignalChannel> {
    receiver: C::Receiver,
    sender: C::Sender,
    addr: SocketAddr,
    local: Option<IpAddr>,
    hello: Hello,
    upstream: Option<usize>,
    proven: Option<Proven>,
    session: u16,
}

impl Connection {
    /// Runs a connection that we called from hello to its end; an error says why there was no proper hello.
    pub async fn run<C: SignalChannel>(
        &self,
        channel: C,
        addr: SocketAddr,
        upstream: Option<usize>,
    ) -> Result<(), CallError> {
        let by = (Instant::now() + ANSWER_WITHIN, ANSWER_WITHIN);
        let greeted = self.greet(channel, addr, upstream, by).await?;
        self.converse(greeted).await;
        Ok(())
    }

    /// Reads the hello of a neighbour, which is expected until an instant; the time that it had in all is named in
    /// the error.
    pub async fn greet<C: SignalChannel>(
        &self,
        channel: C,
        addr: SocketAddr,
        upstream: Option<usize>,
        (until, within): (Instant, Duration),
    ) -> Result<Greeted<C>, CallError> {
        let proven = channel.identity().map(|identity| Proven {
            identity,
            key: link_key(0),
        });
        let local = channel.local();
        let session = random_number() as u16;
        let (mut receiver, mut sender) = channel.split();
        if upstream.is_some() {
            let link_key = proven.as_ref().map(|proven| proven.key.clone());
            let hello = Hello {
                link_key,
                repair: self.hello.repair.map(|_| session),
                ..self.hello.clone()
            };
            let sent = sender.send(&[hello.signal()]).await;
            sent.map_err(|error| CallError::NoAnswer(error.to_string()))?;
        }
        let hello = match timeout_at(until, receiver.recv()).await {
            Err(_) => Err(no_hello(within)),
            Ok(Err(error)) => Err(match error {
                ChannelError::Io(_) => CallError::NoAnswer(error.to_string()),
                _ => CallError::Unreachable(error.to_string()),
            }),
            Ok(Ok(None)) if receiver.malformed() > 0 => Err(CallError::Unreachable(
                "it speaks another protocol".to_owned(),
            )),
            // A proxy of a node that is not up yet does so.
            Ok(Ok(None)) => Err(CallError::NoAnswer("closed before hello".to_owned())),
            Ok(Ok(Some(Signal::Error { message }))) => return Err(CallError::TurnedAway(message)),
            Ok(Ok(Some(Signal::NameInUse { node, name }))) => {
                return Err(CallError::NameInUse { node, name });
            }
            Ok(Ok(Some(signal))) => Hello::from_signal(signal).map_err(CallError::Unreachable),
        };
        self.count_malformed(0, receiver.malformed());
        let hello = hello.and_then(|hello| match &proven {
            Some(_) if hello.udp_port != 0 && hello.link_key.is_none() => Err(
                CallError::Unreachable("hello without a link key".to_owned()),
            ),
            Some(_) => Ok(hello),
            // What was said in the clear is no secret.
            None => Ok(Hello {
                link_key: None,
                ..hello
            }),
        });
        let hello = match hello {
            Ok(hello) => hello,
            Err(error) => {
                let message = format!("expected a hello: {error}");
                let message = message
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(200)
                    .collect();
                let _ = sender.send(&[Signal::Error { message }]).await;
                sender.close().await;
                return Err(error);
            }
        };
        Ok(Greeted {
            receiver,
            sender,
            addr,
            local,
            hello,
            upstream,
            proven,
            session,
        })
    }

    /// Runs a connection from its hello to its end.
    pub async fn converse<C: SignalChannel>(&self, greeted: Greeted<C>) {
        let Greeted {
            mut receiver,
            mut sender,
            addr,
            local,
            hello,
            upstream,
            proven,
            session,
        } = greeted;
        let peer = PeerId(self.next.fetch_add(1, Ordering::Relaxed));
        let (queue, mut outgoing) = mpsc::channel(MAX_OUTGOING);
        let cut = CancellationToken::new();
        let pulse = Pulse::new(hello.pings);
        let opened = PeerEvent::Opened(Box::new(Newcomer {
            peer,
            addr,
            local,
            hello,
            sender: PeerSender {
                queue,
                cut: cut.clone(),
            },
            upstream,
            proven,
            session,
        }));
        if self.events.send(opened).await.is_err() {
            return;
        }
        let ended = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok(()),
            () = cut.cancelled() => Err(ChannelError::Slow),
            ended = self.write(&mut sender, &mut outgoing, &pulse) => ended,
            ended = self.read(peer, &mut receiver, &pulse) => ended,
        };
        if outgoing.is_closed() {
            // Closing with unread input would reset the connection and lose our last words.
            let _ = timeout(LINGER, self.read(peer, &mut receiver, &pulse)).await;
        }
        if matches!(ended, Err(ChannelError::Slow)) {
            self.counters.slow.fetch_add(1, Ordering::Relaxed);
        }
        let reason = ended.map_or_else(|error| error.to_string(), |()| "closed".to_owned());
        let _ = self.events.send(PeerEvent::Closed { peer, reason }).await;
    }

    async fn write<S: SignalSender>(
        &self,
        sender: &mut S,
        outgoing: &mut mpsc::Receiver<Signal>,
        pulse: &Pulse,
    ) -> Result<(), ChannelError> {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                count = outgoing.recv_many(&mut batch, 64) => match count {
                    0 => break,
                    _ => sender.send(&batch).await?,
                },
                signal = pulse.due() => sender.send(&[signal]).await?,
            }
            batch.clear();
        }
        sender.close().await;
        Ok(())
    }

    async fn read<R: SignalReceiver>(
        &self,
        peer: PeerId,
        receiver: &mut R,
        pulse: &Pulse,
    ) -> Result<(), ChannelError> {
        let (mut pulses, mut second) = (0, Instant::now());
        loop {
            let before = receiver.malformed();
            let received = pulse.hear(receiver.recv()).await;
            self.count_malformed(before, receiver.malformed());
            let Some(signal) = received? else {
                return Ok(());
            };
            if pulse.takes(&signal) {
                // The node does not see these, so that its queue does not slow the sender down.
                if second.elapsed() >= Duration::from_secs(1) {
                    (pulses, second) = (0, Instant::now());
                }
                pulses += 1;
                if pulses > MOST_PULSES {
                    return Err(ChannelError::Pings);
                }
                continue;
            }
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

    /// Tells that a call came to nothing.
    pub async fn fail(&self, addr: SocketAddr, upstream: Option<usize>, error: CallError) {
        if upstream.is_none() {
            self.counters.rejected.fetch_add(1, Ordering::Relaxed);
        }
        let failed = PeerEvent::Failed {
            addr,
            upstream,
            error,
        };
        let _ = self.events.send(failed).await;
    }
}

/// Why a call ends whose hello did not come `within` its time.
pub(crate) fn no_hello(within: Duration) -> CallError {
    CallError::NoAnswer(format!("no hello within {} s", within.as_secs()))
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
    pub fn read(&self) -> ChannelStats {
        ChannelStats {
            accepted: self.accepted.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            malformed: self.malformed.load(Ordering::Relaxed),
            slow: self.slow.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
