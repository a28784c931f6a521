//! POC_S: numbering, the send buffer, the window and recovery of one flow.

use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Serial, Span, Time};

use super::{SLOWEST, SenderOptions, unwrap};
use crate::config::{FlowConfig, RTT_BOUNDS};
use crate::event::SenderStats;
use crate::pdu::{Body, Report};

/// An unacknowledged tail of a silent flow is asked for after this time.
const TAIL_IDLE: Span = Span::from_secs(1);
/// Requests without an answer before they slow down.
const PATIENCE: u32 = 3;

/// How many unacknowledged SDUs a flow may have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WindowRule {
    /// Tenths of the request period `n`; 40 is the paper's best value, `W = 4n`.
    Tenths(u32),
    /// A fixed number.
    Fixed(u16),
}

impl Default for WindowRule {
    fn default() -> WindowRule {
        WindowRule::Tenths(40)
    }
}

#[derive(Debug)]
struct Entry {
    number: u64,
    payload: Bytes,
    skip: bool,
    first_sent: Time,
    last_again: Option<Time>,
}

/// An ACK_RES (`requested`) or a FNACK.
pub(super) struct Answer {
    pub(super) report: Report,
    pub(super) requested: bool,
    pub(super) stamp: u32,
}

#[derive(Debug)]
pub(super) struct FlowSender {
    initial: Serial,
    period: Span,
    rule: WindowRule,
    most: usize,
    pub(super) next: u64,
    buffer: VecDeque<Entry>,
    again: VecDeque<u64>,
    pub(super) paused: bool,
    closing: bool,
    /// New DATA PDUs since the last Ack bit.
    unasked: u64,
    request_period: u64,
    window: usize,
    rtt: Span,
    /// When the next ACK_REQ leaves.
    lock: Option<Time>,
    /// ACK_REQs since the last answer, and when the first of them left.
    unanswered: u32,
    asking_since: Option<Time>,
    idle_since: Time,
    wanted: bool,
    /// Of strict connections: the number with the Ack bit that is timed (Karn's rule).
    timed: Option<(u64, Time)>,
    /// The last round trip, until it is taken.
    pub(super) sampled: Option<Span>,
    stats: SenderStats,
}

impl FlowSender {
    pub(super) fn new(config: &FlowConfig, options: &SenderOptions) -> FlowSender {
        let mut flow = FlowSender {
            initial: config.initial,
            period: config.period,
            rule: options.window,
            most: usize::from(config.max_window),
            next: 0,
            buffer: VecDeque::new(),
            again: VecDeque::new(),
            paused: false,
            closing: false,
            unasked: 0,
            request_period: 1,
            window: 1,
            rtt: options.initial_rtt,
            lock: None,
            unanswered: 0,
            asking_since: None,
            idle_since: Time::ZERO,
            wanted: false,
            timed: None,
            sampled: None,
            stats: SenderStats::default(),
        };
        flow.resize();
        flow
    }

    /// The window follows the round trip: `n = floor(RTT · PF) + 1`, `W = 4n`.
    fn resize(&mut self) {
        self.rtt = self.rtt.clamp(RTT_BOUNDS.0, RTT_BOUNDS.1);
        self.request_period = self.rtt.as_ps() / self.period.as_ps() + 1;
        let wanted = match self.rule {
            WindowRule::Tenths(tenths) => self.request_period * u64::from(tenths) / 10,
            WindowRule::Fixed(window) => u64::from(window),
        };
        self.window = usize::try_from(wanted)
            .unwrap_or(usize::MAX)
            .clamp(1, self.most);
    }

    /// The receiver has buffers for this many SDUs only.
    pub(super) fn limit(&mut self, most: u16) {
        self.most = self.most.min(usize::from(most));
        self.resize();
    }

    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() >= self.window
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Somebody waits for room.
    pub(super) fn refuse(&mut self) {
        self.wanted = true;
        self.stats.refused += 1;
    }

    pub(super) fn writable(&mut self) -> bool {
        let now = self.wanted && !self.is_full();
        self.wanted &= !now;
        now
    }

    pub(super) fn wire(&self, number: u64) -> Serial {
        self.initial.plus(number as u32)
    }

    /// Lock timer: 1.1 RTT.
    pub(super) fn interval(&self) -> Span {
        self.rtt.mul_div(11, 10).max(RTT_BOUNDS.0)
    }

    pub(super) fn send(&mut self, payload: Bytes, skip: bool, now: Time) -> (u64, Body, bool) {
        let number = self.next;
        self.next += 1;
        self.stats.submitted += u64::from(!skip);
        self.buffer.push_back(Entry {
            number,
            payload: payload.clone(),
            skip,
            first_sent: now,
            last_again: None,
        });
        self.unasked += 1;
        let ack = self.unasked >= self.request_period || self.is_full();
        if ack {
            self.unasked = 0;
            if self.timed.is_none() {
                self.timed = Some((number, now));
            }
        }
        self.idle_since = now;
        if self.is_full() && self.lock.is_none() {
            self.lock = Some(now + self.interval());
        }
        let body = Body::Data {
            number: self.wire(number),
            ack,
            again: false,
            skip,
            sent: Vec::new(),
            payload,
        };
        (number, body, ack)
    }

    pub(super) fn close(&mut self, now: Time) {
        self.closing = true;
        if !self.is_empty() && self.lock.is_none() {
            self.lock = Some(now + self.interval());
        }
    }

    pub(super) fn stop(&mut self) {
        self.buffer.clear();
        self.again.clear();
        self.lock = None;
        self.asking_since = None;
        self.unanswered = 0;
    }

    /// Takes an answer: frees, and prepares what is sent again. Gives the numbers that are gone; `None`: the answer
    /// contradicts the state and changes nothing.
    pub(super) fn answered(
        &mut self,
        answer: &Answer,
        clock: u32,
        strict: bool,
        now: Time,
    ) -> Option<Vec<Serial>> {
        let before_first = self.initial.plus(u32::MAX);
        // Numbers below `heard` are reported on.
        let heard = if answer.report.last == before_first && self.next < u64::from(u32::MAX) {
            Some(0)
        } else {
            unwrap(answer.report.last, self.next, self.initial).map(|last| last + 1)
        };
        let Some(heard) = heard.filter(|&heard| heard <= self.next) else {
            self.stats.bad_pdu += 1;
            return None;
        };
        let mut list = Vec::with_capacity(answer.report.list.len());
        for &number in &answer.report.list {
            match unwrap(number, self.next, self.initial) {
                Some(number) if number < heard => list.push(number),
                _ => {
                    self.stats.bad_pdu += 1;
                    return None;
                }
            }
        }
        list.sort_unstable();
        list.dedup();
        if answer.requested {
            self.stats.ack_res += 1;
        } else {
            self.stats.fnack += 1;
        }
        self.sample(answer, heard, clock, strict, now);
        self.lock = None;
        self.unanswered = 0;
        self.asking_since = None;
        self.buffer
            .retain(|entry| entry.number >= heard || list.binary_search(&entry.number).is_ok());
        let gone = list
            .iter()
            .filter(|number| {
                self.buffer
                    .binary_search_by_key(number, |entry| &entry.number)
                    .is_err()
            })
            .map(|&number| self.wire(number))
            .collect::<Vec<_>>();
        self.stats.gone += gone.len() as u64;

        // The receiver cannot list what it never heard of: after a request, all that left before the request and is
        // above its last number is missing too (F3).
        let locked = self.is_full() || self.closing || now >= self.idle_since + TAIL_IDLE;
        let tail = answer.requested && locked;
        let sent_before_request = |first_sent: Time| {
            if answer.stamp == 0 {
                strict && first_sent + self.rtt <= now
            } else {
                let age = clock.wrapping_sub(answer.stamp);
                now.since(first_sent).as_us() > u64::from(age)
            }
        };
        for entry in &mut self.buffer {
            let due = if entry.number < heard {
                true
            } else {
                tail && sent_before_request(entry.first_sent)
            };
            // Hold-off: once a round trip (F5).
            let held_off = entry.last_again.is_some_and(|last| now < last + self.rtt);
            if due && !held_off {
                entry.last_again = Some(now);
                self.again.push_back(entry.number);
            }
        }
        if self.is_full() || (self.closing && !self.buffer.is_empty()) {
            self.lock = Some(now + self.interval());
        }
        Some(gone)
    }

    fn sample(&mut self, answer: &Answer, heard: u64, clock: u32, strict: bool, now: Time) {
        let sample = if strict {
            match self.timed {
                Some((number, sent)) if heard == number + 1 => {
                    let entry = self.buffer.iter().find(|entry| entry.number == number);
                    self.timed = None;
                    entry
                        .filter(|entry| entry.last_again.is_none())
                        .map(|_| now.since(sent))
                }
                Some((number, _)) if heard > number => {
                    self.timed = None;
                    None
                }
                _ => None,
            }
        } else if answer.stamp != 0 {
            Some(Span::from_us(u64::from(clock.wrapping_sub(answer.stamp))))
        } else {
            None
        };
        self.sampled = sample;
        if let Some(sample) = sample {
            let sample = sample.clamp(RTT_BOUNDS.0, RTT_BOUNDS.1);
            self.rtt = self.rtt.mul_div(7, 8) + sample.mul_div(1, 8);
            self.resize();
        }
    }

    /// The next DATA PDU that is sent again, with its first time.
    pub(super) fn next_again(&mut self) -> Option<(Body, Time)> {
        loop {
            let number = self.again.pop_front()?;
            if let Ok(at) = self
                .buffer
                .binary_search_by_key(&number, |entry| entry.number)
            {
                let entry = &self.buffer[at];
                self.stats.retransmitted += 1;
                let body = Body::Data {
                    number: self.initial.plus(number as u32),
                    ack: false,
                    again: true,
                    skip: entry.skip,
                    sent: Vec::new(),
                    payload: entry.payload.clone(),
                };
                return Some((body, entry.first_sent));
            }
        }
    }

    /// When the next ACK_REQ leaves.
    pub(super) fn next_ask(&self) -> Option<Time> {
        let tail = (!self.buffer.is_empty()).then(|| self.idle_since + TAIL_IDLE);
        self.lock.or(tail)
    }

    /// Whether an ACK_REQ is without an answer.
    pub(super) fn is_asking(&self) -> bool {
        self.unanswered > 0
    }

    pub(super) fn asking_since(&self) -> Option<Time> {
        self.asking_since
    }

    /// An ACK_REQ leaves that owes nothing to the window.
    pub(super) fn note_request(&mut self, now: Time) {
        self.stats.ack_req += 1;
        self.unanswered += 1;
        self.asking_since = self.asking_since.or(Some(now));
    }

    /// An ACK_REQ, if one is due: the highest number sent.
    pub(super) fn ask(&mut self, backoff: bool, now: Time) -> Option<Serial> {
        if self.next_ask().is_none_or(|at| now < at) || self.buffer.is_empty() {
            return None;
        }
        self.note_request(now);
        let mut interval = self.interval();
        if backoff && self.unanswered > PATIENCE {
            let doubled = interval.times(1 << (self.unanswered - PATIENCE).min(16));
            interval = doubled.min(SLOWEST.max(interval));
        }
        self.lock = Some(now + interval);
        Some(self.wire(self.next - 1))
    }

    pub(super) fn stats(&self) -> SenderStats {
        SenderStats {
            buffered: self.buffer.len() as u64,
            window: self.window as u64,
            rtt: self.rtt,
            ..self.stats
        }
    }
}
