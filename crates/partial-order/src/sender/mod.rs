//! The sender of a connection: one POC_S for each flow, and the handshake (specs/partial-order-transport.md 2.5).

mod flow;
mod options;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use layercast_core::{
    Machine, Observer, QosAction, QosConnection, QosEvent, QosTransport, Serial, Span, Subject,
    Time, earliest,
};

use crate::config::{Config, ConfigError};
use crate::event::{SenderEvent, SenderStats};
use crate::measure;
use crate::order::Sdu;
use crate::pdu::{Body, Pdu, Reject};
use crate::watch;
pub use flow::WindowRule;
use flow::{Answer, FlowSender};
pub use options::{SenderOptions, SubmitError};

/// First interval of the retries of OPEN and CLOSE; it doubles.
const RETRY: Span = Span::from_ms(100);
/// Retries of OPEN.
const OPEN_TRIES: u32 = 6;
/// Longest interval between two CLOSE, unless the round trip is longer: of 40 in [`PEER_TIMEOUT`] one is answered also
/// where the path loses every second datagram.
const SLOWEST_CLOSE: Span = Span::from_ms(250);
/// Longest interval between two requests without an answer.
pub(crate) const SLOWEST: Span = Span::from_secs(1);
/// How long a peer that owes an answer may be silent; the receiver gives up a sender that is silent for this time.
pub const PEER_TIMEOUT: Span = Span::from_secs(10);
/// A receiver from which nothing came for this time is asked for an ACK_RES, so that both ends notice a peer that is
/// gone also while the application submits nothing.
pub const KEEP_ALIVE: Span = Span::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Opening,
    Open,
    Closing,
    Over,
}

/// The sender of a connection.
#[derive(Debug)]
pub struct Sender {
    config: Config,
    options: SenderOptions,
    flows: Vec<FlowSender>,
    phase: Phase,
    /// Next OPEN or CLOSE, and the interval after it.
    retry: Option<(Time, Span)>,
    tries: u32,
    /// The token of the last RETRY, and how many were accepted.
    token: (u64, u32),
    heard: Time,
    /// When the last request to a silent receiver left.
    probed: Time,
    out: VecDeque<Pdu>,
    events: VecDeque<SenderEvent>,
    bytes: BytesMut,
    bad_pdu: u64,
    measured: QosConnection,
}

impl Sender {
    /// A sender that sends OPEN first; `strict_paper` connections have no handshake and are open.
    pub fn new(config: Config, options: SenderOptions, now: Time) -> Result<Sender, ConfigError> {
        config.check(options.max_pdu)?;
        let flows = config
            .flows
            .iter()
            .map(|flow| FlowSender::new(flow, &options))
            .collect();
        let strict = config.strict_paper;
        let mut sender = Sender {
            config,
            options,
            flows,
            phase: if strict { Phase::Open } else { Phase::Opening },
            retry: None,
            tries: 0,
            token: (0, 0),
            heard: now,
            probed: now,
            out: VecDeque::new(),
            events: VecDeque::new(),
            bytes: BytesMut::new(),
            bad_pdu: 0,
            measured: QosConnection::new(QosTransport::PartialOrder),
        };
        if !strict {
            sender.retry = Some((now, RETRY));
            sender.on_timeout(now);
        }
        Ok(sender)
    }

    /// A sender whose receiver has the same configuration by other means: it sends no OPEN.
    pub fn opened(
        config: Config,
        options: SenderOptions,
        now: Time,
    ) -> Result<Sender, ConfigError> {
        let mut sender = Sender::new(config, options, now)?;
        sender.out.clear();
        sender.retry = None;
        sender.phase = Phase::Open;
        Ok(sender)
    }

    /// Accepts an SDU and gives its number; SDUs are submitted in a sequence that the order permits.
    pub fn submit(&mut self, flow: usize, payload: Bytes, now: Time) -> Result<u64, SubmitError> {
        if self.phase != Phase::Open {
            return Err(SubmitError::NotOpen);
        }
        let Some(own) = self.flows.get(flow) else {
            return Err(SubmitError::Beyond { flow });
        };
        let most = usize::from(self.config.flows[flow].max_sdu);
        if payload.len() > most {
            return Err(SubmitError::TooBig {
                bytes: payload.len(),
                most,
            });
        }
        if own.paused {
            return Err(SubmitError::Paused { flow });
        }
        if self
            .config
            .order
            .length(flow)
            .is_some_and(|length| own.next >= length)
        {
            return Err(SubmitError::Beyond { flow });
        }
        self.skip_paused(
            Sdu {
                flow,
                number: own.next,
            },
            now,
        )?;
        if self.flows[flow].is_full() {
            self.flows[flow].refuse();
            return Err(SubmitError::Full { flow });
        }
        Ok(self.send_new(flow, payload, false, now))
    }

    /// Numbers of paused flows that precede `sdu` are sent without an SDU.
    fn skip_paused(&mut self, sdu: Sdu, now: Time) -> Result<(), SubmitError> {
        for other in (0..self.flows.len()).filter(|&other| other != sdu.flow) {
            while self.flows[other].paused
                && self.flows[other].next < self.config.order.horizon(sdu, other)
            {
                if self.flows[other].is_full() {
                    self.flows[other].refuse();
                    return Err(SubmitError::Full { flow: other });
                }
                self.send_new(other, Bytes::new(), true, now);
            }
        }
        Ok(())
    }

    fn send_new(&mut self, flow: usize, payload: Bytes, skip: bool, now: Time) -> u64 {
        let strict = self.config.strict_paper;
        let (number, mut body, ack) = self.flows[flow].send(payload, skip, now);
        if let Body::Data { sent, .. } = &mut body
            && self.config.infer
            && !strict
        {
            sent.extend(self.flows.iter().map(|flow| flow.wire(flow.next)));
        }
        let stamp = if !strict && (ack || self.stamps_all()) {
            stamp(now)
        } else {
            0
        };
        self.push(flow, stamp, body);
        number
    }

    /// Play-out deadlines need the submission time of each SDU.
    fn stamps_all(&self) -> bool {
        self.config.flows.iter().any(|flow| flow.playout.is_some())
    }

    /// A flow has no SDUs for a while: its numbers do not hold the other flows.
    pub fn pause(&mut self, flow: usize) {
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.paused = true;
        }
    }

    /// A paused flow has SDUs again; its next SDU takes the next free number.
    pub fn resume(&mut self, flow: usize) {
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.paused = false;
        }
    }

    /// Ends the connection after all SDUs are settled.
    pub fn close(&mut self, now: Time) {
        if matches!(self.phase, Phase::Opening | Phase::Open) {
            self.phase = Phase::Closing;
            self.heard = now;
            self.tries = 0;
            self.retry = Some((now, self.close_interval()));
            self.flows.iter_mut().for_each(|flow| flow.close(now));
            self.on_timeout(now);
        }
    }

    /// Gives the connection up: SDUs that are not acknowledged may be lost, and the receiver gets a message once.
    pub fn abort(&mut self) {
        if self.phase != Phase::Over {
            let strict = self.config.strict_paper;
            self.phase = Phase::Over;
            self.retry = None;
            self.flows.iter_mut().for_each(FlowSender::stop);
            self.out.clear();
            if !strict {
                self.push(0, 0, Body::Reject(Reject::Ended));
            }
        }
    }

    fn close_interval(&self) -> Span {
        self.flows
            .iter()
            .map(FlowSender::interval)
            .max()
            .unwrap_or(RETRY)
    }

    /// Takes a datagram.
    pub fn handle(&mut self, now: Time, datagram: Bytes) {
        let Ok(pdu) = Pdu::decode(datagram) else {
            self.bad_pdu += 1;
            return;
        };
        if pdu.connection != self.config.connection || self.phase == Phase::Over {
            self.bad_pdu += 1;
            return;
        }
        let flow = usize::from(pdu.flow);
        let answer = match pdu.body {
            Body::OpenAck(windows) => {
                self.heard = now;
                return self.opened_by(&windows);
            }
            Body::CloseAck if self.phase == Phase::Closing => {
                return self.finish(SenderEvent::Closed);
            }
            Body::Reject(reason) => return self.finish(SenderEvent::Rejected(reason)),
            Body::Retry(token) => return self.open_again(token),
            Body::AckRes(report) => Answer {
                report,
                requested: true,
                stamp: pdu.stamp,
            },
            Body::Fnack(report) => Answer {
                report,
                requested: false,
                stamp: pdu.stamp,
            },
            _ => {
                self.bad_pdu += 1;
                return;
            }
        };
        let Some(state) = self.flows.get_mut(flow) else {
            self.bad_pdu += 1;
            return;
        };
        let strict = self.config.strict_paper;
        let Some(gone) = state.answered(&answer, stamp(now), strict, now) else {
            return;
        };
        self.heard = now;
        if !gone.is_empty() && !strict {
            self.push(flow, 0, Body::Gone(gone));
        }
        self.send_again(flow);
        if self.flows[flow].writable() && self.phase == Phase::Open {
            self.events.push_back(SenderEvent::Writable { flow });
        }
    }

    /// Repeats OPEN with a token. The number of tokens is limited, since each is answered by a longer datagram.
    fn open_again(&mut self, token: u64) {
        let (last, taken) = self.token;
        if self.phase != Phase::Opening || token == last || taken >= OPEN_TRIES {
            self.bad_pdu += 1;
            return;
        }
        self.token = (token, taken + 1);
        let open = self.open();
        self.push(0, 0, open);
    }

    fn open(&self) -> Body {
        Body::Open {
            token: self.token.0,
            config: self.config.to_bytes(),
        }
    }

    fn send_again(&mut self, flow: usize) {
        let all = self.stamps_all() && !self.config.strict_paper;
        while let Some((body, first_sent)) = self.flows[flow].next_again() {
            self.push(flow, if all { stamp(first_sent) } else { 0 }, body);
        }
    }

    fn opened_by(&mut self, windows: &[u16]) {
        if windows.len() != self.flows.len() || windows.contains(&0) {
            self.bad_pdu += 1;
        } else if self.phase == Phase::Opening {
            self.phase = Phase::Open;
            self.retry = None;
            for (flow, &most) in self.flows.iter_mut().zip(windows) {
                flow.limit(most);
            }
            self.events.push_back(SenderEvent::Opened);
        }
    }

    fn finish(&mut self, event: SenderEvent) {
        self.phase = Phase::Over;
        self.retry = None;
        self.flows.iter_mut().for_each(FlowSender::stop);
        self.events.push_back(event);
    }

    /// Runs the timers that are due.
    pub fn on_timeout(&mut self, now: Time) {
        if self.phase == Phase::Over {
            return;
        }
        if self.dead_at().is_some_and(|at| now >= at) {
            return self.finish(SenderEvent::PeerDead);
        }
        for flow in 0..self.flows.len() {
            if let Some(highest) = self.flows[flow].ask(self.options.backoff, now) {
                let strict = self.config.strict_paper;
                let body = Body::AckReq {
                    highest: (!strict).then_some(highest),
                };
                self.push(flow, if strict { 0 } else { stamp(now) }, body);
            }
        }
        if self.probe_at().is_some_and(|at| now >= at) {
            self.probed = now;
            self.flows[0].note_request(now);
            self.push(0, stamp(now), Body::AckReq { highest: None });
        }
        if let Some((at, interval)) = self.retry
            && now >= at
        {
            self.tries += 1;
            let body = match self.phase {
                Phase::Opening if self.tries > OPEN_TRIES => {
                    return self.finish(SenderEvent::PeerDead);
                }
                Phase::Opening => self.open(),
                // The paper has no CLOSE: the connection ends when the last SDU is acknowledged.
                _ if self.config.strict_paper => {
                    if self.flows.iter().all(FlowSender::is_empty) {
                        return self.finish(SenderEvent::Closed);
                    }
                    self.retry = Some((now + interval, interval));
                    return;
                }
                _ => Body::Close(self.flows.iter().map(|flow| flow.wire(flow.next)).collect()),
            };
            self.push(0, 0, body);
            let slower = match self.phase {
                Phase::Opening => interval.times(2).min(SLOWEST.max(interval)),
                _ if self.tries > 3 => interval.times(2).min(SLOWEST_CLOSE.max(interval)),
                _ => interval,
            };
            self.retry = Some((now + interval, slower));
        }
    }

    /// When a silent receiver is asked whether it is there, if no flow asks it anyway; connections in the paper's form
    /// have no such request.
    fn probe_at(&self) -> Option<Time> {
        let probes = self.phase == Phase::Open
            && !self.config.strict_paper
            && self.flows.iter().all(|flow| flow.next_ask().is_none());
        probes.then(|| self.heard.max(self.probed) + KEEP_ALIVE)
    }

    /// When a peer that owes an answer counts as dead.
    fn dead_at(&self) -> Option<Time> {
        let owed = self.phase == Phase::Closing || self.flows.iter().any(FlowSender::is_asking);
        let since = self
            .flows
            .iter()
            .filter_map(FlowSender::asking_since)
            .min()
            .unwrap_or(self.heard);
        owed.then(|| self.heard.max(since) + PEER_TIMEOUT)
    }

    /// When [`on_timeout`](Sender::on_timeout) is due.
    pub fn next_timeout(&self) -> Option<Time> {
        if self.phase == Phase::Over {
            return None;
        }
        let asks = self.flows.iter().filter_map(FlowSender::next_ask).min();
        let requests = earliest(asks, self.probe_at());
        earliest(
            earliest(requests, self.retry.map(|(at, _)| at)),
            self.dead_at(),
        )
    }

    /// The next datagram.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        let pdu = self.out.pop_front()?;
        pdu.encode(&mut self.bytes);
        Some(self.bytes.split().freeze())
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    /// What it counted of a flow.
    pub fn stats(&self, flow: usize) -> SenderStats {
        self.flows[flow].stats()
    }

    /// PDUs that are malformed or of another connection.
    pub fn bad_pdus(&self) -> u64 {
        self.bad_pdu
    }

    /// What the connection was opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether SDUs may be submitted.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Tells a monitor that the connection begins, or is over.
    fn measure_ends<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let over = self.phase == Phase::Over && self.out.is_empty();
        let number = (!over).then_some(self.config.connection.into());
        let connection = (number, QosEvent::OUT);
        self.measured.follow(obs, now, Self::subject(), connection);
    }

    fn subject() -> Subject<'static> {
        watch::subject("sender")
    }

    fn push(&mut self, flow: usize, stamp: u32, body: Body) {
        let connection = self.config.connection;
        self.out.push_back(Pdu {
            flow: flow as u16,
            connection,
            stamp,
            body,
        });
    }
}

/// Microseconds modulo 2^32, never 0: 0 is no stamp.
pub(crate) fn stamp(now: Time) -> u32 {
    (now.as_us() as u32).max(1)
}

/// The distance of a wire number from a count that is near it.
pub(crate) fn unwrap(number: Serial, near: u64, initial: Serial) -> Option<u64> {
    let reference = initial.plus(near as u32);
    near.checked_add_signed(i64::from(number.diff(reference)))
}

impl Machine for Sender {
    type Input = Bytes;
    type Transmit = Bytes;
    type Event = SenderEvent;

    fn handle<O: Observer>(&mut self, now: Time, input: Bytes, obs: &mut O) {
        watch::packet(&input, false, "sender", now, obs);
        self.measure_ends(now, obs);
        let came = (QosAction::Received, false);
        measure::pdu(self.measured, obs, now, Self::subject(), &input, came);
        Sender::handle(self, now, input);
        if obs.measures()
            && let Some(round_trip) = self.flows.iter_mut().find_map(|flow| flow.sampled.take())
        {
            let subject = Self::subject();
            self.measured.answered(obs, now, subject, round_trip);
        }
        self.measure_ends(now, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        Sender::on_timeout(self, now);
        self.measure_ends(now, obs);
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Bytes> {
        let datagram = Sender::poll_transmit(self)?;
        watch::packet(&datagram, true, "sender", now, obs);
        let connection = (Some(self.config.connection.into()), QosEvent::OUT);
        self.measured.follow(obs, now, Self::subject(), connection);
        let sent = (QosAction::Sent, false);
        measure::pdu(self.measured, obs, now, Self::subject(), &datagram, sent);
        self.measure_ends(now, obs);
        Some(datagram)
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        Sender::poll_event(self)
    }

    fn next_timeout(&self) -> Option<Time> {
        Sender::next_timeout(self)
    }
}
