//! The receiving end of a connection.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use layercast_core::Span;
use layercast_partial_order::{
    Explanation, Receiver, ReceiverEvent, ReceiverOptions, ReceiverStats, Tolerance,
};
use quinn::{Connection, Endpoint, Incoming};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::carrier::{Carrier, UdpCarrier, is_due, until};
use super::{IgnoredDatagrams, PartialOrderError, QUEUE, QUIC_PDU};
use crate::clock::Clock;
use crate::identity::Identity;
use crate::multicast::Tokens;
use crate::quic;

/// How long a receiver answers a repeated CLOSE after its connection ended.
const LINGER: Span = Span::from_secs(2);
/// How long a caller over QUIC may take to its first datagram.
const OPEN_WITHIN: Duration = Duration::from_secs(3);
/// Callers over QUIC that may be on their way to their first datagram.
const MAX_CALLERS: usize = 16;

enum Query {
    Stats(usize, oneshot::Sender<ReceiverStats>),
    Ignored(oneshot::Sender<IgnoredDatagrams>),
    Explain(usize, u64, oneshot::Sender<Option<Explanation>>),
    Timeline(oneshot::Sender<Vec<Explanation>>),
    Renegotiate(usize, Tolerance, oneshot::Sender<bool>),
}

/// The receiving end of a partial order connection, for one sender.
///
/// Dropped before the end it gives the connection up, and the sender gets a message.
///
/// ```
/// use layercast_core::Span;
/// use layercast_net::{PartialOrderReceiver, PartialOrderSender};
/// use layercast_partial_order::{
///     Config, FlowConfig, Order, Policy, ReceiverEvent, ReceiverOptions, Tolerance,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let local = "127.0.0.1:0".parse()?;
/// let mut receiver = PartialOrderReceiver::bind(local, ReceiverOptions::default()).await?;
///
/// // Two pictures for each sound; one picture in ten may be lost.
/// let flows = vec![
///     FlowConfig::new(Span::from_ms(40), Tolerance::rate(0.1)),
///     FlowConfig::new(Span::from_ms(80), Tolerance::Full),
/// ];
/// let config = Config::new(0, flows, Order::blocks(&[2, 1])?, Policy::PerGroup);
/// let sender = PartialOrderSender::connect(receiver.local_addr(), config).await?;
/// sender.send(0, "a picture").await?;
/// sender.send(1, "a sound").await?;
/// sender.close().await?;
///
/// let mut delivered = Vec::new();
/// while let Some(event) = receiver.recv().await {
///     if let ReceiverEvent::Deliver { flow, payload, .. } = event {
///         delivered.push((flow, payload));
///     }
/// }
/// assert_eq!(delivered, [(0, "a picture".into()), (1, "a sound".into())]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PartialOrderReceiver {
    local: SocketAddr,
    events: mpsc::Receiver<ReceiverEvent>,
    queries: PartialOrderQueries,
}

impl PartialOrderReceiver {
    /// Waits at a UDP address for one sender: the first with a valid OPEN that proved its address. PDUs are not
    /// encrypted; [`bind_quic`](Self::bind_quic) protects against attackers on the path.
    ///
    /// # Errors
    /// The system refuses the socket.
    pub async fn bind(
        local: SocketAddr,
        options: ReceiverOptions,
    ) -> Result<PartialOrderReceiver, PartialOrderError> {
        let udp = UdpCarrier::bind(local, None).await?;
        let bound = udp.local_addr();
        let bound = bound.map_err(|error| PartialOrderError::Socket(local, error))?;
        let (receiver, task) = PartialOrderReceiver::new(bound, options);
        tokio::spawn(task.run(Carrier::Udp(udp)));
        Ok(receiver)
    }

    /// Waits at a UDP address for one QUIC connection that carries PDUs in datagrams (RFC 9221): the first whose first
    /// datagram is a valid OPEN.
    ///
    /// # Errors
    /// The system refuses the socket, or the identity cannot be used.
    pub fn bind_quic(
        local: SocketAddr,
        identity: &Identity,
        options: ReceiverOptions,
    ) -> Result<PartialOrderReceiver, PartialOrderError> {
        let failed = |error| PartialOrderError::Socket(local, error);
        let socket = std::net::UdpSocket::bind(local).map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        let endpoint = quic::listen_datagrams(socket, identity).map_err(failed)?;
        let options = ReceiverOptions {
            max_pdu: options.max_pdu.min(QUIC_PDU),
            ..options
        };
        let (receiver, task) = PartialOrderReceiver::new(bound, options);
        tokio::spawn(task.accept(endpoint));
        Ok(receiver)
    }

    fn new(local: SocketAddr, options: ReceiverOptions) -> (PartialOrderReceiver, Task) {
        let (events, received) = mpsc::channel(QUEUE);
        let (commands, inbox) = mpsc::channel(QUEUE);
        let task = Task {
            machine: Receiver::new(options),
            tokens: Tokens::new(),
            events,
            inbox,
        };
        let receiver = PartialOrderReceiver {
            local,
            events: received,
            queries: PartialOrderQueries { commands },
        };
        (receiver, task)
    }

    /// The address to send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next event; `None` after [`Closed`](ReceiverEvent::Closed) or [`PeerDead`](ReceiverEvent::PeerDead).
    ///
    /// A user that does not call it holds the sender back; after 10 s the sender gives the connection up.
    pub async fn recv(&mut self) -> Option<ReceiverEvent> {
        self.events.recv().await
    }

    /// Asks about the connection, also while another task receives.
    pub fn queries(&self) -> PartialOrderQueries {
        self.queries.clone()
    }
}

/// Questions to the receiving end of a partial order connection; they are answered after its end, too.
#[derive(Clone, Debug)]
pub struct PartialOrderQueries {
    commands: mpsc::Sender<Query>,
}

impl PartialOrderQueries {
    /// The counters of a flow; zeros before the connection is open and for a flow that it does not have.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn stats(&self, flow: usize) -> Result<ReceiverStats, PartialOrderError> {
        self.ask(|reply| Query::Stats(flow, reply)).await
    }

    /// Counts datagrams that changed nothing.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn ignored(&self) -> Result<IgnoredDatagrams, PartialOrderError> {
        self.ask(Query::Ignored).await
    }

    /// What held an SDU, if [`ReceiverOptions::explain`] is not 0.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn explain(
        &self,
        flow: usize,
        number: u64,
    ) -> Result<Option<Explanation>, PartialOrderError> {
        self.ask(|reply| Query::Explain(flow, number, reply)).await
    }

    /// The last delivered SDUs with what held them, oldest first.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn timeline(&self) -> Result<Vec<Explanation>, PartialOrderError> {
        self.ask(Query::Timeline).await
    }

    /// Applies another tolerance to later losses of a flow; false: there is no such flow, or the tolerance is invalid.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn renegotiate(
        &self,
        flow: usize,
        tolerance: Tolerance,
    ) -> Result<bool, PartialOrderError> {
        self.ask(|reply| Query::Renegotiate(flow, tolerance, reply))
            .await
    }

    async fn ask<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> Query,
    ) -> Result<T, PartialOrderError> {
        let (reply, wait) = oneshot::channel();
        let sent = self.commands.send(query(reply)).await;
        sent.map_err(|_| PartialOrderError::Closed)?;
        wait.await.map_err(|_| PartialOrderError::Closed)
    }
}

struct Task {
    machine: Receiver,
    tokens: Tokens,
    events: mpsc::Sender<ReceiverEvent>,
    inbox: mpsc::Receiver<Query>,
}

impl Task {
    /// Takes the first caller over QUIC whose first datagram opens the connection.
    async fn accept(mut self, endpoint: Endpoint) {
        let mut callers: JoinSet<Option<(Connection, Bytes)>> = JoinSet::new();
        loop {
            tokio::select! {
                incoming = endpoint.accept() => match incoming {
                    // A caller that is not reachable at its address costs nothing.
                    Some(incoming) if incoming.may_retry() => drop(incoming.retry()),
                    Some(incoming) if callers.len() < MAX_CALLERS => {
                        callers.spawn(first_datagram(incoming));
                    }
                    Some(incoming) => incoming.refuse(),
                    None => return,
                },
                Some(caller) = callers.join_next() => {
                    let Ok(Some((connection, datagram))) = caller else { continue };
                    self.machine.handle(Clock::get().now(), datagram);
                    if self.machine.config().is_some() {
                        drop(callers);
                        let carrier = Carrier::Quic { connection, _endpoint: endpoint };
                        return self.run(carrier).await;
                    }
                    // What the machine answers to others than its sender.
                    while let Some(answer) = self.machine.poll_transmit() {
                        let _ = connection.send_datagram(answer);
                    }
                },
                query = self.inbox.recv() => match query {
                    Some(query) => answer(&mut self.machine, 0, query),
                    None => return,
                },
                () = self.events.closed() => return,
            }
        }
    }

    async fn run(mut self, mut carrier: Carrier) {
        let mut from = None;
        loop {
            if is_due(self.machine.next_timeout()) {
                self.machine.on_timeout(Clock::get().now());
            }
            while let Some(datagram) = self.machine.poll_transmit() {
                carrier.send(datagram, from).await;
            }
            if !self.deliver(&carrier).await {
                break;
            }
            if self.machine.is_closed() {
                return self.linger(carrier).await;
            }
            tokio::select! {
                // A datagram that came in time counts before the timer that it was waited for.
                biased;
                query = self.inbox.recv() => match query {
                    Some(query) => answer(&mut self.machine, carrier.strangers(), query),
                    None => break,
                },
                () = self.events.closed() => break,
                datagram = carrier.receive() => match datagram {
                    Some((datagram, unproved)) => {
                        from = unproved;
                        self.handle(datagram, &mut carrier, unproved);
                    }
                    None => self.machine.disconnected(Clock::get().now()),
                },
                () = until(self.machine.next_timeout()) => {}
            }
        }
        // The user dropped the receiver, maybe before it took the last events of a connection that is closed.
        if self.machine.is_closed() {
            return self.linger(carrier).await;
        }
        self.machine.abort(Clock::get().now());
        while let Some(datagram) = self.machine.poll_transmit() {
            carrier.send(datagram, None).await;
        }
    }

    /// Takes a datagram; the sender of the OPEN that the machine accepts is the only peer from then on.
    fn handle(&mut self, datagram: Bytes, carrier: &mut Carrier, unproved: Option<SocketAddr>) {
        let now = Clock::get().now();
        let Some(from) = unproved else {
            return self.machine.handle(now, datagram);
        };
        let token = self.tokens.of(from, 0);
        self.machine.handle_unproved(now, datagram, token);
        if self.machine.config().is_some() {
            carrier.bind_to(from);
        }
    }

    /// Hands all events to the user; false: there is no user. Waiting for the user is the back-pressure: what the socket
    /// drops meanwhile is recovered. Queries are answered, since the user may wait for an answer.
    async fn deliver(&mut self, carrier: &Carrier) -> bool {
        while let Some(event) = self.machine.poll_event() {
            let place = loop {
                tokio::select! {
                    place = self.events.reserve() => break place,
                    Some(query) = self.inbox.recv() => {
                        answer(&mut self.machine, carrier.strangers(), query);
                    }
                }
            };
            match place {
                Ok(place) => place.send(event),
                Err(_) => return false,
            }
        }
        true
    }

    /// Answers a repeated CLOSE whose answer was lost, and queries; the user sees the end meanwhile.
    async fn linger(mut self, mut carrier: Carrier) {
        drop(self.events);
        let end = Clock::get().now() + LINGER;
        let mut asked = true;
        loop {
            tokio::select! {
                datagram = carrier.receive() => match datagram {
                    Some((datagram, _)) => {
                        self.machine.handle(Clock::get().now(), datagram);
                        while let Some(answer) = self.machine.poll_transmit() {
                            carrier.send(answer, None).await;
                        }
                    }
                    None => break,
                },
                query = self.inbox.recv(), if asked => match query {
                    Some(query) => answer(&mut self.machine, carrier.strangers(), query),
                    None => asked = false,
                },
                () = until(Some(end)) => break,
            }
        }
        let strangers = carrier.strangers();
        drop(carrier);
        while let Some(query) = self.inbox.recv().await {
            answer(&mut self.machine, strangers, query);
        }
    }
}

/// A connection with its first datagram; `None`: none came in time.
async fn first_datagram(incoming: Incoming) -> Option<(Connection, Bytes)> {
    let first = async {
        let connection = incoming.await.ok()?;
        let datagram = connection.read_datagram().await.ok()?;
        Some((connection, datagram))
    };
    timeout(OPEN_WITHIN, first).await.ok().flatten()
}

fn answer(machine: &mut Receiver, strangers: u64, query: Query) {
    // A user that does not wait for the answer any more loses it.
    match query {
        Query::Stats(flow, reply) => _ = reply.send(machine.stats(flow)),
        Query::Ignored(reply) => {
            let bad_pdu = machine.bad_pdus();
            _ = reply.send(IgnoredDatagrams { bad_pdu, strangers });
        }
        Query::Explain(flow, number, reply) => _ = reply.send(machine.explain(flow, number)),
        Query::Timeline(reply) => _ = reply.send(machine.timeline().cloned().collect()),
        Query::Renegotiate(flow, tolerance, reply) => {
            _ = reply.send(machine.renegotiate(flow, tolerance));
        }
    }
}
