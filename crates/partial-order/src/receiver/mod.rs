//! The receiver of a connection: one POC_R for each flow, and the Partial Order Manager above them.

mod connection;
mod flow;
mod manager;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use layercast_core::{
    Machine, Observer, QosAction, QosConnection, QosEvent, QosTransport, Span, Subject, Time,
    earliest,
};

use crate::config::{Config, ConfigError, MAX_PDU};
use crate::event::{ReceiverEvent, ReceiverStats};
use crate::explain::Explanation;
use crate::measure;
use crate::order::Sdu;
use crate::pdu::{Body, Pdu, Reject};
use crate::tolerance::Tolerance;
use crate::watch;
use connection::Open;
use flow::FlowReceiver;
use manager::Manager;

/// Settings of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverOptions {
    /// Most SDUs that wait, of all flows; OPEN is refused if one SDU a flow does not fit.
    pub max_waiting: u32,
    /// Largest PDU that the path carries, bytes.
    pub max_pdu: usize,
    /// A warning comes after this time without a delivery while SDUs wait.
    pub stall: Span,
    /// How many delivered SDUs can be explained; 0: nothing is recorded.
    pub explain: usize,
}

impl Default for ReceiverOptions {
    fn default() -> ReceiverOptions {
        ReceiverOptions {
            max_waiting: 4_096,
            max_pdu: MAX_PDU,
            stall: Span::from_secs(5),
            explain: 0,
        }
    }
}

/// The receiver of a connection.
#[derive(Debug)]
pub struct Receiver {
    options: ReceiverOptions,
    open: Option<Open>,
    out: VecDeque<Pdu>,
    early: VecDeque<ReceiverEvent>,
    bytes: BytesMut,
    bad_pdu: u64,
    clock: Time,
    measured: QosConnection,
}

impl Receiver {
    /// A receiver that waits for OPEN.
    pub fn new(options: ReceiverOptions) -> Receiver {
        Receiver {
            options,
            open: None,
            out: VecDeque::new(),
            early: VecDeque::new(),
            bytes: BytesMut::new(),
            bad_pdu: 0,
            clock: Time::ZERO,
            measured: QosConnection::new(QosTransport::PartialOrder),
        }
    }

    /// A receiver that has the same configuration as its sender by other means.
    pub fn opened(
        config: Config,
        options: ReceiverOptions,
        now: Time,
    ) -> Result<Receiver, ConfigError> {
        config.check(options.max_pdu)?;
        let mut receiver = Receiver::new(options);
        let request = config.to_bytes();
        receiver.open = Some(receiver.accept(config, request, now));
        Ok(receiver)
    }

    fn accept(&self, config: Config, request: Bytes, now: Time) -> Open {
        let share = (self.options.max_waiting as usize / config.flows.len())
            .clamp(1, usize::from(u16::MAX)) as u16;
        let windows: Vec<u16> = config
            .flows
            .iter()
            .map(|flow| flow.max_window.min(share))
            .collect();
        let flows = config
            .flows
            .iter()
            .enumerate()
            .map(|(flow, it)| {
                let mut made = FlowReceiver::new(it);
                made.end = config.order.length(flow);
                made
            })
            .collect();
        let mut manager = Manager::new(
            config.order.clone(),
            config.policy,
            config.opportunistic,
            flows,
            now,
        );
        manager.history.most = self.options.explain;
        (0..config.flows.len()).for_each(|flow| manager.advance(flow));
        Open {
            most_waiting: windows.iter().map(|&it| u64::from(it)).sum(),
            windows,
            request,
            manager,
            closing: false,
            closed: false,
            stalled: None,
            transit: None,
            heard: now,
            config,
        }
    }

    /// Takes a datagram.
    pub fn handle(&mut self, now: Time, datagram: Bytes) {
        self.take(now, datagram, None);
    }

    /// Takes a datagram from an address that may be forged.
    ///
    /// `token` is a value that only a receiver of datagrams at that address can know. An OPEN without it is answered by
    /// RETRY, which is no longer than the OPEN, and changes nothing (as Retry of QUIC, RFC 9000, section 8.1.2).
    pub fn handle_unproved(&mut self, now: Time, datagram: Bytes, token: u64) {
        self.take(now, datagram, Some(token));
    }

    fn take(&mut self, now: Time, datagram: Bytes, proof: Option<u64>) {
        self.clock = now;
        let Ok(pdu) = Pdu::decode(datagram) else {
            self.bad_pdu += 1;
            return;
        };
        if let Body::Open { token, config } = pdu.body {
            if self.open.is_none()
                && let Some(proof) = proof.filter(|&proof| proof != token)
            {
                return self.reply(pdu.connection, Body::Retry(proof));
            }
            return self.on_open(pdu.connection, config, now);
        }
        let Some(open) = self
            .open
            .as_mut()
            .filter(|open| open.config.connection == pdu.connection)
        else {
            self.bad_pdu += 1;
            if matches!(
                pdu.body,
                Body::Data { .. } | Body::AckReq { .. } | Body::Close(_)
            ) && self.open.is_none()
            {
                self.reply(pdu.connection, Body::Reject(Reject::Unknown));
            }
            return;
        };
        let out = &mut self.out;
        let good = open.take(
            usize::from(pdu.flow),
            pdu.stamp,
            pdu.body,
            self.options.max_pdu,
            out,
            now,
        );
        if good {
            open.heard = now;
        } else {
            self.bad_pdu += 1;
        }
        open.finish(out);
    }

    fn on_open(&mut self, connection: u32, request: Bytes, now: Time) {
        if let Some(open) = &mut self.open {
            if open.config.connection == connection && open.request == request {
                open.heard = now;
                let windows = open.windows.clone();
                self.reply(connection, Body::OpenAck(windows));
            } else {
                self.bad_pdu += 1;
            }
            return;
        }
        match Config::from_bytes(connection, request.clone())
            .and_then(|it| it.check(self.options.max_pdu).map(|()| it))
        {
            Ok(config) if config.flows.len() > self.options.max_waiting as usize => {
                self.reply(connection, Body::Reject(Reject::Resources));
            }
            Ok(config) => {
                let open = self.accept(config, request, now);
                self.early.push_back(ReceiverEvent::Opened {
                    flows: open.config.flows.len(),
                });
                let windows = open.windows.clone();
                self.open = Some(open);
                self.reply(connection, Body::OpenAck(windows));
            }
            Err(_) => {
                self.bad_pdu += 1;
                self.reply(connection, Body::Reject(Reject::Invalid));
            }
        }
    }

    fn reply(&mut self, connection: u32, body: Body) {
        self.out.push_back(Pdu {
            flow: 0,
            connection,
            stamp: 0,
            body,
        });
    }

    /// Runs the timers that are due.
    pub fn on_timeout(&mut self, now: Time) {
        self.clock = now;
        let Some(open) = &mut self.open else { return };
        if open.dead_at().is_some_and(|at| now >= at) {
            return open.give_up(ReceiverEvent::PeerDead, now);
        }
        if open.manager.flows.iter().any(|flow| flow.hold > Span::ZERO) {
            open.manager.drain(now);
            open.finish(&mut self.out);
        }
        let due = open
            .manager
            .stalls_at(self.options.stall)
            .filter(|&at| now >= at);
        if due.is_some()
            && open.stalled != Some(open.manager.last_progress)
            && let Some((sdu, waiting_for)) = open.manager.oldest(now)
        {
            open.stalled = Some(open.manager.last_progress);
            let Sdu { flow, number } = sdu;
            open.manager.events.push_back(ReceiverEvent::Stalled {
                flow,
                number,
                waiting_for,
            });
        }
    }

    /// When [`on_timeout`](Receiver::on_timeout) is due.
    pub fn next_timeout(&self) -> Option<Time> {
        let open = self.open.as_ref()?;
        let stall = open.manager.stalls_at(self.options.stall);
        let stall = stall.filter(|_| open.stalled != Some(open.manager.last_progress));
        earliest(
            earliest(stall, open.dead_at()),
            open.manager.next_patience(self.clock),
        )
    }

    /// The next datagram.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        let pdu = self.out.pop_front()?;
        pdu.encode(&mut self.bytes);
        Some(self.bytes.split().freeze())
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.early
            .pop_front()
            .or_else(|| self.open.as_mut()?.manager.events.pop_front())
    }

    /// Applies another tolerance to the losses of a flow that are declared from now on; gives whether the flow
    /// exists and the tolerance is valid.
    pub fn renegotiate(&mut self, flow: usize, tolerance: Tolerance) -> bool {
        let found = self
            .open
            .as_mut()
            .and_then(|open| open.manager.flows.get_mut(flow));
        match found.filter(|_| tolerance.is_valid()) {
            Some(flow) => {
                flow.account.renegotiate(tolerance);
                true
            }
            None => false,
        }
    }

    /// Gives up: waiting SDUs are delivered, missing ones before them are lost with cause `Closed`, and the sender gets a
    /// message once.
    pub fn abort(&mut self, now: Time) {
        let Some(open) = self.open.as_mut().filter(|open| !open.closed) else {
            return;
        };
        open.give_up(ReceiverEvent::Closed, now);
        let (connection, strict) = (open.config.connection, open.config.strict_paper);
        if !strict {
            self.reply(connection, Body::Reject(Reject::Ended));
        }
    }

    /// The path to the sender is gone: as [`abort`](Self::abort), with the event [`ReceiverEvent::PeerDead`].
    pub fn disconnected(&mut self, now: Time) {
        if let Some(open) = &mut self.open {
            open.give_up(ReceiverEvent::PeerDead, now);
        }
    }

    /// What it counted of a flow; nothing before a connection is open.
    pub fn stats(&self, flow: usize) -> ReceiverStats {
        let found = self
            .open
            .as_ref()
            .and_then(|open| open.manager.flows.get(flow));
        found.map(|flow| flow.stats).unwrap_or_default()
    }

    /// PDUs that are malformed, of another connection, or contradict its state.
    pub fn bad_pdus(&self) -> u64 {
        self.bad_pdu
    }

    /// What the sender opened.
    pub fn config(&self) -> Option<&Config> {
        self.open.as_ref().map(|open| &open.config)
    }

    /// Whether the connection was closed.
    pub fn is_closed(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.closed)
    }

    /// What held an SDU that waits, or one of the last that were delivered; `None`: it did not arrive, it is too long
    /// ago, or [`ReceiverOptions::explain`] is 0.
    pub fn explain(&self, flow: usize, number: u64) -> Option<Explanation> {
        let manager = &self.open.as_ref()?.manager;
        if manager.history.most == 0 {
            return None;
        }
        if let Some(waiting) = manager.flows.get(flow)?.waiting.get(&number) {
            return Some(Explanation {
                flow,
                number,
                arrived: waiting.arrived,
                delivered: None,
                held: waiting.held.clone(),
            });
        }
        let delivered = manager.history.last.iter().rev();
        delivered
            .clone()
            .find(|it| it.flow == flow && it.number == number)
            .cloned()
    }

    /// SDUs that arrived again, and SDUs declared lost.
    fn counted(&self) -> (u64, u64) {
        let flows = self.open.iter().flat_map(|open| &open.manager.flows);
        flows.fold((0, 0), |(again, lost), flow| {
            (again + flow.stats.duplicate, lost + flow.stats.lost)
        })
    }

    fn subject() -> Subject<'static> {
        watch::subject("receiver")
    }

    /// Tells a monitor of the SDUs that were declared lost since `before` of them were.
    fn measure_losses<O: Observer>(&self, now: Time, before: u64, obs: &mut O) {
        let more = self.counted().1.saturating_sub(before);
        self.measured.missing(obs, now, Self::subject(), more);
    }

    /// Tells a monitor that the connection begins, or is over.
    fn measure_ends<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let open = self.open.as_ref();
        let open = open.filter(|open| !open.closed || !self.out.is_empty());
        let number = open.map(|open| open.config.connection.into());
        let connection = (number, QosEvent::IN);
        self.measured.follow(obs, now, Self::subject(), connection);
    }

    /// The last delivered SDUs with what held them, oldest first: a timeline of the connection.
    pub fn timeline(&self) -> impl Iterator<Item = &Explanation> {
        self.open.iter().flat_map(|open| &open.manager.history.last)
    }
}

impl Machine for Receiver {
    type Input = Bytes;
    type Transmit = Bytes;
    type Event = ReceiverEvent;

    fn handle<O: Observer>(&mut self, now: Time, input: Bytes, obs: &mut O) {
        watch::packet(&input, false, "receiver", now, obs);
        if !obs.measures() {
            return Receiver::handle(self, now, input);
        }
        let (again, lost) = self.counted();
        let opened = self.open.is_some();
        Receiver::handle(self, now, input.clone());
        // OPEN is the first PDU of its connection, CLOSE belongs to it.
        if !opened {
            self.measure_ends(now, obs);
        }
        let came = (QosAction::Received, self.counted().0 > again);
        measure::pdu(self.measured, obs, now, Self::subject(), &input, came);
        self.measure_losses(now, lost, obs);
        self.measure_ends(now, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if !obs.measures() {
            return Receiver::on_timeout(self, now);
        }
        let lost = self.counted().1;
        Receiver::on_timeout(self, now);
        self.measure_losses(now, lost, obs);
        self.measure_ends(now, obs);
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Bytes> {
        let datagram = Receiver::poll_transmit(self)?;
        watch::packet(&datagram, true, "receiver", now, obs);
        let sent = (QosAction::Sent, false);
        measure::pdu(self.measured, obs, now, Self::subject(), &datagram, sent);
        self.measure_ends(now, obs);
        Some(datagram)
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        Receiver::poll_event(self)
    }

    fn next_timeout(&self) -> Option<Time> {
        Receiver::next_timeout(self)
    }
}
