//! The sending end of a connection.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use layercast_partial_order::{
    Config, MAX_PDU, Sender, SenderEvent, SenderOptions, SenderStats, SubmitError,
};
use tokio::sync::{mpsc, oneshot};

use super::carrier::{Carrier, UdpCarrier, is_due, until};
use super::{IgnoredDatagrams, PartialOrderError, QUEUE, QUIC_PDU};
use crate::clock::Clock;
use crate::identity::Identity;
use crate::quic;
use crate::random::random_number;
use crate::tls::Trust;

type Reply<T> = oneshot::Sender<Result<T, PartialOrderError>>;

enum Command {
    Submit(usize, Bytes, Reply<u64>),
    Pause(usize, bool),
    Stats(usize, oneshot::Sender<SenderStats>),
    Ignored(oneshot::Sender<IgnoredDatagrams>),
    Close(Reply<()>),
}

/// The sending end of a partial order connection.
///
/// Dropped without [`close`](Self::close) it gives the connection up: the receiver gets a message, and SDUs that are not
/// acknowledged may be lost.
#[derive(Debug)]
pub struct PartialOrderSender {
    commands: mpsc::Sender<Command>,
    flows: usize,
    /// How the connection ended.
    end: Arc<OnceLock<SenderEvent>>,
}

impl PartialOrderSender {
    /// Opens a connection to a receiver at a UDP address; PDUs are not encrypted.
    ///
    /// The number of the connection in `config` is replaced by a random one.
    ///
    /// # Errors
    /// The configuration or the socket is refused, or the receiver rejects the connection or does not answer.
    pub async fn connect(
        to: SocketAddr,
        config: Config,
    ) -> Result<PartialOrderSender, PartialOrderError> {
        let local = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let udp = UdpCarrier::bind(local.parse().expect("an address"), Some(to)).await?;
        PartialOrderSender::open(Carrier::Udp(udp), config, MAX_PDU).await
    }

    /// Opens a connection over QUIC datagrams (RFC 9221): encrypted, and the receiver proves its identity.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), or the receiver is not trusted.
    pub async fn connect_quic(
        to: SocketAddr,
        config: Config,
        identity: &Identity,
        trust: &Trust,
    ) -> Result<PartialOrderSender, PartialOrderError> {
        let (connection, endpoint) = quic::connect_datagrams(to, identity, trust).await?;
        let carrier = Carrier::Quic {
            connection,
            _endpoint: endpoint,
        };
        PartialOrderSender::open(carrier, config, QUIC_PDU).await
    }

    async fn open(
        carrier: Carrier,
        mut config: Config,
        max_pdu: usize,
    ) -> Result<PartialOrderSender, PartialOrderError> {
        config.connection = random_number() as u32;
        let flows = config.flows.len();
        let options = SenderOptions {
            max_pdu,
            ..SenderOptions::default()
        };
        let machine = Sender::new(config, options, Clock::get().now())?;
        let (commands, inbox) = mpsc::channel(QUEUE);
        let (opened, wait) = oneshot::channel();
        let end = Arc::default();
        let task = Task {
            machine,
            carrier,
            inbox,
            waiting: Vec::new(),
            opened: Some(opened),
            closing: None,
            end: Arc::clone(&end),
        };
        tokio::spawn(task.run());
        let sender = PartialOrderSender {
            commands,
            flows,
            end,
        };
        wait.await.map_err(|_| sender.cause())??;
        Ok(sender)
    }

    /// Sends an SDU of a flow and gives its number; waits while the window of the flow is exhausted.
    ///
    /// SDUs are submitted in a sequence that the order permits. If the future is dropped while the SDU waits for the
    /// window, the SDU is not sent.
    ///
    /// # Errors
    /// The SDU is refused, or the connection is over.
    pub async fn send(&self, flow: usize, sdu: impl Into<Bytes>) -> Result<u64, PartialOrderError> {
        self.check(flow)?;
        let (reply, wait) = oneshot::channel();
        self.command(Command::Submit(flow, sdu.into(), reply))
            .await?;
        wait.await.map_err(|_| self.cause())?
    }

    /// A flow has no SDUs until [`resume`](Self::resume): other flows do not wait for it.
    ///
    /// # Errors
    /// There is no such flow, or the connection is over.
    pub async fn pause(&self, flow: usize) -> Result<(), PartialOrderError> {
        self.check(flow)?;
        self.command(Command::Pause(flow, true)).await
    }

    /// A paused flow has SDUs again.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, flow: usize) -> Result<(), PartialOrderError> {
        self.check(flow)?;
        self.command(Command::Pause(flow, false)).await
    }

    /// The counters of a flow.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn stats(&self, flow: usize) -> Result<SenderStats, PartialOrderError> {
        self.check(flow)?;
        let (reply, wait) = oneshot::channel();
        self.command(Command::Stats(flow, reply)).await?;
        wait.await.map_err(|_| self.cause())
    }

    /// Counts datagrams that changed nothing.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn ignored(&self) -> Result<IgnoredDatagrams, PartialOrderError> {
        let (reply, wait) = oneshot::channel();
        self.command(Command::Ignored(reply)).await?;
        wait.await.map_err(|_| self.cause())
    }

    /// Ends the connection: waits until every SDU is delivered or lost at the receiver.
    ///
    /// # Errors
    /// The receiver does not answer, or gave the connection up.
    pub async fn close(self) -> Result<(), PartialOrderError> {
        let (reply, wait) = oneshot::channel();
        self.command(Command::Close(reply)).await?;
        wait.await.map_err(|_| self.cause())?
    }

    fn check(&self, flow: usize) -> Result<(), PartialOrderError> {
        let flows = self.flows;
        if flow < flows {
            Ok(())
        } else {
            Err(PartialOrderError::NoFlow { flow, flows })
        }
    }

    async fn command(&self, command: Command) -> Result<(), PartialOrderError> {
        let sent = self.commands.send(command).await;
        sent.map_err(|_| self.cause())
    }

    /// Why the connection is over.
    fn cause(&self) -> PartialOrderError {
        let end = self.end.get().copied();
        end.and_then(error).unwrap_or(PartialOrderError::Closed)
    }
}

/// The error of the end of a connection; `None`: it was closed.
fn error(end: SenderEvent) -> Option<PartialOrderError> {
    match end {
        SenderEvent::Rejected(reason) => Some(PartialOrderError::Rejected(reason)),
        SenderEvent::PeerDead => Some(PartialOrderError::PeerDead),
        SenderEvent::Closed | SenderEvent::Opened | SenderEvent::Writable { .. } => None,
    }
}

/// A submission that waits for the window of its flow.
type Waiting = (usize, Bytes, Reply<u64>);

struct Task {
    machine: Sender,
    carrier: Carrier,
    inbox: mpsc::Receiver<Command>,
    waiting: Vec<Waiting>,
    opened: Option<Reply<()>>,
    closing: Option<Reply<()>>,
    end: Arc<OnceLock<SenderEvent>>,
}

impl Task {
    async fn run(mut self) {
        loop {
            if is_due(self.machine.next_timeout()) {
                self.machine.on_timeout(Clock::get().now());
            }
            self.flush().await;
            if self.end.get().is_some() {
                return self.answer();
            }
            if self.waiting.len() >= QUEUE {
                self.waiting.retain(|it| !it.2.is_closed());
            }
            // Commands wait in the channel while submissions wait for a window, so both are bounded.
            let takes = self.waiting.len() < QUEUE && self.closing.is_none();
            tokio::select! {
                command = self.inbox.recv(), if takes => match command {
                    Some(command) => self.command(command),
                    // The user dropped the sender.
                    None => {
                        self.machine.abort();
                        return self.flush().await;
                    }
                },
                datagram = self.carrier.receive() => match datagram {
                    Some((datagram, _)) => self.machine.handle(Clock::get().now(), datagram),
                    None => drop(self.end.set(SenderEvent::PeerDead)),
                },
                () = until(self.machine.next_timeout()) => {}
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Submit(flow, sdu, reply) => self.submit((flow, sdu, reply)),
            Command::Pause(flow, true) => self.machine.pause(flow),
            Command::Pause(flow, false) => self.machine.resume(flow),
            Command::Stats(flow, reply) => drop(reply.send(self.machine.stats(flow))),
            Command::Ignored(reply) => {
                let flows = 0..self.machine.config().flows.len();
                let of_flows: u64 = flows.map(|flow| self.machine.stats(flow).bad_pdu).sum();
                let _ = reply.send(IgnoredDatagrams {
                    bad_pdu: self.machine.bad_pdus() + of_flows,
                    strangers: self.carrier.strangers(),
                });
            }
            Command::Close(reply) => self.closing = Some(reply),
        }
    }

    /// Submits in the sequence of the calls of each flow.
    fn submit(&mut self, (flow, sdu, reply): Waiting) {
        if reply.is_closed() {
            // The user no longer waits.
            return;
        }
        if self.waiting.iter().any(|it| it.0 == flow) {
            self.waiting.push((flow, sdu, reply));
            return;
        }
        match self.machine.submit(flow, sdu.clone(), Clock::get().now()) {
            Err(SubmitError::Full { .. }) => self.waiting.push((flow, sdu, reply)),
            done => drop(reply.send(done.map_err(PartialOrderError::from))),
        }
    }

    /// Hands on all events and datagrams of the machine.
    async fn flush(&mut self) {
        loop {
            while let Some(event) = self.machine.poll_event() {
                match event {
                    SenderEvent::Opened => {
                        if let Some(opened) = self.opened.take() {
                            let _ = opened.send(Ok(()));
                        }
                    }
                    SenderEvent::Writable { .. } => {
                        for waiting in std::mem::take(&mut self.waiting) {
                            self.submit(waiting);
                        }
                    }
                    end => drop(self.end.set(end)),
                }
            }
            // The close follows the submissions that were called before it.
            if self.closing.is_some() && self.waiting.is_empty() {
                self.machine.close(Clock::get().now());
            }
            let Some(datagram) = self.machine.poll_transmit() else {
                return;
            };
            self.carrier.send(datagram, None).await;
        }
    }

    /// Answers all that wait for the connection after its end.
    fn answer(self) {
        let cause = || self.end.get().copied().and_then(error);
        for reply in self.opened.into_iter().chain(self.closing) {
            let _ = reply.send(cause().map_or(Ok(()), Err));
        }
        for (_, _, reply) in self.waiting {
            let _ = reply.send(Err(cause().unwrap_or(PartialOrderError::Closed)));
        }
    }
}
