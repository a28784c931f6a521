//! An open connection at the receiver: what it does with each PDU.

use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Serial, Span, Time};

use super::flow::{State, Waiting};
use super::manager::{Manager, Verdict};
use crate::config::Config;
use crate::event::{LossCause, ReceiverEvent};
use crate::order::Sdu;
use crate::pdu::{Body, LIST_HEADER, Pdu, Reject, Report};
use crate::sender::{PEER_TIMEOUT, stamp, unwrap};

/// Numbers that a receiver accepts beyond its oldest unsettled one, for each SDU of its buffers.
const AHEAD: u64 = 4;
/// Longest losses list before the first DATA: the answer to a request is at most three times as long.
const EARLY_LIST: usize = 6;

/// A connection that was opened.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) config: Config,
    /// The OPEN, to tell its repetition from another.
    pub(super) request: Bytes,
    pub(super) windows: Vec<u16>,
    pub(super) most_waiting: u64,
    pub(super) manager: Manager,
    pub(super) closing: bool,
    pub(super) closed: bool,
    /// The last progress before the last warning.
    pub(super) stalled: Option<Time>,
    /// The shortest transit time, microseconds of both clocks.
    pub(super) transit: Option<u32>,
    /// When the last PDU of the sender came.
    pub(super) heard: Time,
}

impl Open {
    /// Takes a PDU of this connection; false: it contradicts the state and changed nothing.
    pub(super) fn take(
        &mut self,
        flow: usize,
        stamp: u32,
        body: Body,
        max_pdu: usize,
        out: &mut VecDeque<Pdu>,
        now: Time,
    ) -> bool {
        if flow >= self.manager.flows.len() {
            return false;
        }
        match body {
            Body::Data {
                number,
                ack,
                again,
                skip,
                sent,
                payload,
            } => self.on_data(
                Arrival {
                    flow,
                    number,
                    ack,
                    again,
                    skip,
                    sent,
                    payload,
                    stamp,
                },
                max_pdu,
                out,
                now,
            ),
            Body::AckReq { highest } => {
                let it = &mut self.manager.flows[flow];
                let mut upto = u64::MAX;
                if let Some(highest) = highest {
                    let Some(sent) = unwrap(highest, it.seen, it.initial).map(|it| it + 1) else {
                        return false;
                    };
                    if it.span(sent) > AHEAD * self.most_waiting {
                        return false;
                    }
                    it.notice(sent.min(it.end.unwrap_or(u64::MAX)), now);
                    upto = sent;
                }
                self.acknowledge(flow, stamp, upto, max_pdu, out, now);
                true
            }
            Body::Gone(list) => self.on_gone(flow, &list, now),
            Body::Close(ends) => self.on_close(&ends, max_pdu, out, now),
            Body::Reject(Reject::Ended) if !self.closed => {
                self.give_up(ReceiverEvent::PeerDead, now);
                true
            }
            _ => false,
        }
    }

    fn on_data(
        &mut self,
        data: Arrival,
        max_pdu: usize,
        out: &mut VecDeque<Pdu>,
        now: Time,
    ) -> bool {
        let flow = data.flow;
        let it = &mut self.manager.flows[flow];
        let Some(number) = unwrap(data.number, it.seen, it.initial) else {
            it.stats.bad_pdu += 1;
            return false;
        };
        let beyond = it.end.is_some_and(|end| number >= end);
        if beyond || data.payload.len() > it.max_sdu || it.span(number) > AHEAD * self.most_waiting
        {
            it.stats.bad_pdu += 1;
            return false;
        }
        it.got_data = true;
        it.notice(number, now);
        it.seen = it.seen.max(number + 1);
        let echo = if data.ack && !data.again {
            data.stamp
        } else {
            0
        };
        let state = it.state(number);
        if state == State::Buffered || state.is_settled() {
            if state == State::Lost {
                it.stats.late += 1;
                self.manager
                    .events
                    .push_back(ReceiverEvent::Late { flow, number });
            } else {
                it.stats.duplicate += 1;
            }
            if data.ack {
                self.acknowledge(flow, echo, u64::MAX, max_pdu, out, now);
            }
            return true;
        }
        let patience = self.patience(&data, now);
        let it = &mut self.manager.flows[flow];
        let waiting = Waiting {
            payload: data.payload,
            skip: data.skip,
            arrived: now,
            patience,
            held: Vec::new(),
        };
        it.waiting.insert(number, waiting);
        it.set(number, State::Buffered);
        it.stats.buffered += 1;
        let verdict = self.manager.examine(Sdu { flow, number }, now);
        let mut requested = false;
        if matches!(verdict, Verdict::Request) {
            requested = self.request(flow, echo, max_pdu, out);
        }
        if !matches!(verdict, Verdict::Delivered) && self.manager.waiting() > self.most_waiting {
            // No room: it counts as missing, and the sender sends it again.
            let it = &mut self.manager.flows[flow];
            it.waiting.remove(&number);
            it.set(number, State::Missing(now));
            it.stats.buffered -= 1;
            it.stats.overflow += 1;
        }
        self.infer(flow, &data.sent, max_pdu, out, now);
        self.manager.drain(now);
        let it = &mut self.manager.flows[flow];
        it.stats.buffered_max = it.stats.buffered_max.max(it.waiting.len() as u64);
        if data.ack && !requested {
            self.acknowledge(flow, echo, u64::MAX, max_pdu, out, now);
        }
        true
    }

    /// Until when an SDU waits for missing predecessors.
    fn patience(&mut self, data: &Arrival, now: Time) -> Time {
        let it = &self.manager.flows[data.flow];
        let mut excess = Span::ZERO;
        if data.stamp != 0 {
            let transit = stamp(now).wrapping_sub(data.stamp);
            let least = match self.transit {
                Some(least) if (transit.wrapping_sub(least) as i32) >= 0 => least,
                _ => transit,
            };
            self.transit = Some(least);
            excess = Span::from_us(u64::from(transit.wrapping_sub(least)));
        }
        match it.playout {
            Some(playout) => now.saturating_add(playout.saturating_sub(excess)),
            None => now.saturating_add(it.hold),
        }
    }

    /// An arrival proves what was sent in the other flows before (specs/partial-order-transport.md 8 (3)).
    fn infer(
        &mut self,
        of: usize,
        sent: &[Serial],
        max_pdu: usize,
        out: &mut VecDeque<Pdu>,
        now: Time,
    ) {
        let mut missing = Vec::new();
        let others = sent.iter().enumerate().take(self.manager.flows.len());
        for (flow, &next) in others.filter(|it| it.0 != of) {
            let it = &mut self.manager.flows[flow];
            let Some(next) = unwrap(next, it.seen, it.initial) else {
                continue;
            };
            let end = it.end.unwrap_or(u64::MAX);
            if next <= it.seen || next > end || it.span(next) > AHEAD * self.most_waiting {
                continue;
            }
            it.notice(next, now);
            missing.clear();
            it.missing(u64::MAX, &mut missing);
            if !it.accepts(&missing) {
                self.request(flow, 0, max_pdu, out);
            }
        }
    }

    /// FNACK: all undecided missing SDUs of a flow (F1).
    fn request(&mut self, flow: usize, echo: u32, max_pdu: usize, out: &mut VecDeque<Pdu>) -> bool {
        let mut missing = Vec::new();
        self.manager.flows[flow].missing(u64::MAX, &mut missing);
        if missing.is_empty() {
            return false;
        }
        self.manager.flows[flow].stats.fnack += 1;
        let seen = self.manager.flows[flow].seen;
        let report = self.report(flow, &missing, seen, max_pdu);
        self.push(flow, echo, Body::Fnack(report), out);
        true
    }

    /// ACK_RES: what is missing is declared lost if the flow tolerates it, else listed; numbers that are not listed
    /// are decided, because the sender frees them (F1).
    fn acknowledge(
        &mut self,
        flow: usize,
        echo: u32,
        upto: u64,
        max_pdu: usize,
        out: &mut VecDeque<Pdu>,
        now: Time,
    ) {
        let mut missing = Vec::new();
        self.manager.flows[flow].missing(upto, &mut missing);
        let overdue = |&number: &u64| self.manager.is_overdue(flow, number, now);
        if !missing.is_empty()
            && missing.iter().all(overdue)
            && self.manager.flows[flow].accepts(&missing)
        {
            self.manager.declare(flow, &missing, LossCause::OwnFlow);
            missing.clear();
            self.manager.drain(now);
        }
        let it = &mut self.manager.flows[flow];
        it.stats.ack_res += 1;
        let seen = it.seen.min(upto);
        let report = self.report(flow, &missing, seen, max_pdu);
        self.push(flow, echo, Body::AckRes(report), out);
    }

    /// A list that fits a PDU. If it has to be cut, the highest number is lowered, so that nothing unlisted is freed.
    fn report(&self, flow: usize, missing: &[u64], seen: u64, max_pdu: usize) -> Report {
        let it = &self.manager.flows[flow];
        let wire = |number: u64| it.initial.plus(number as u32);
        let fits = (max_pdu - LIST_HEADER) / 4;
        let most = if it.got_data {
            fits
        } else {
            fits.min(EARLY_LIST)
        };
        let last = missing.get(most).copied().unwrap_or(seen);
        Report {
            last: wire(last.wrapping_sub(1)),
            list: missing
                .iter()
                .take(most)
                .map(|&number| wire(number))
                .collect(),
        }
    }

    fn on_gone(&mut self, flow: usize, list: &[Serial], now: Time) -> bool {
        let it = &self.manager.flows[flow];
        let mut gone: Vec<u64> = list
            .iter()
            .filter_map(|&number| unwrap(number, it.seen, it.initial))
            .collect();
        gone.retain(|&number| {
            number < it.seen && !it.is_done(number) && it.state(number).is_absent()
        });
        gone.sort_unstable();
        gone.dedup();
        if !gone.is_empty() {
            let violated = !it.accepts(&gone);
            self.manager.declare(flow, &gone, LossCause::SenderGone);
            if violated {
                self.manager
                    .events
                    .push_back(ReceiverEvent::QosViolated { flow });
            }
            self.manager.drain(now);
        }
        true
    }

    fn on_close(
        &mut self,
        ends: &[Serial],
        max_pdu: usize,
        out: &mut VecDeque<Pdu>,
        now: Time,
    ) -> bool {
        if ends.len() != self.manager.flows.len() {
            return false;
        }
        if self.closed {
            self.push(0, 0, Body::CloseAck, out);
            return true;
        }
        let unwrapped: Option<Vec<u64>> = ends
            .iter()
            .zip(&self.manager.flows)
            .map(|(&end, it)| {
                let end = unwrap(end, it.seen, it.initial)?;
                (end >= it.seen && it.span(end) <= AHEAD * self.most_waiting).then_some(end)
            })
            .collect();
        let Some(unwrapped) = unwrapped else {
            return false;
        };
        for (flow, &end) in unwrapped.iter().enumerate() {
            let it = &mut self.manager.flows[flow];
            it.notice(end, now);
            it.end = Some(end);
            self.manager.advance(flow);
        }
        self.closing = true;
        self.manager.drain(now);
        for flow in 0..self.manager.flows.len() {
            if !self.is_complete(flow) {
                self.acknowledge(flow, 0, u64::MAX, max_pdu, out, now);
            }
        }
        true
    }

    fn is_complete(&self, flow: usize) -> bool {
        let it = &self.manager.flows[flow];
        it.end.is_some_and(|end| it.base >= end)
    }

    /// Closes once everything is settled.
    pub(super) fn finish(&mut self, out: &mut VecDeque<Pdu>) {
        let complete = (0..self.manager.flows.len()).all(|flow| self.is_complete(flow));
        if self.closing && !self.closed && complete {
            self.closed = true;
            self.manager.events.push_back(ReceiverEvent::Closed);
            self.push(0, 0, Body::CloseAck, out);
        }
    }

    /// Ends the connection without its sender: SDUs that wait are delivered, missing ones before them are lost.
    pub(super) fn give_up(&mut self, event: ReceiverEvent, now: Time) {
        if self.closed {
            return;
        }
        let mut missing = Vec::new();
        for flow in 0..self.manager.flows.len() {
            missing.clear();
            self.manager.flows[flow].missing(u64::MAX, &mut missing);
            if !missing.is_empty() {
                self.manager.declare(flow, &missing, LossCause::Closed);
            }
            let it = &mut self.manager.flows[flow];
            it.end = Some(it.seen);
            self.manager.advance(flow);
        }
        self.manager.drain(now);
        self.closed = true;
        self.manager.events.push_back(event);
    }

    /// When a silent sender counts as dead; one in the paper's form may be silent.
    pub(super) fn dead_at(&self) -> Option<Time> {
        let watched = !self.closed && !self.config.strict_paper;
        watched.then(|| self.heard.saturating_add(PEER_TIMEOUT))
    }

    fn push(&self, flow: usize, stamp: u32, body: Body, out: &mut VecDeque<Pdu>) {
        let connection = self.config.connection;
        let stamp = if self.config.strict_paper { 0 } else { stamp };
        out.push_back(Pdu {
            flow: flow as u16,
            connection,
            stamp,
            body,
        });
    }
}

/// A DATA PDU.
struct Arrival {
    flow: usize,
    number: Serial,
    ack: bool,
    again: bool,
    skip: bool,
    sent: Vec<Serial>,
    payload: Bytes,
    stamp: u32,
}
