//! A connection over the path.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bytes::Bytes;
use layercast_core::{Span, Time};
use serde::Serialize;

use super::path::Direction;
use super::{Setting, StudyError};
use crate::event::{ReceiverEvent, SenderEvent};
use crate::receiver::{Receiver, ReceiverOptions};
use crate::sender::{Sender, SubmitError};

/// How long a connection may need to close.
const CLOSING: Span = Span::from_secs(60);

/// What a flow of a run gave; times in milliseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct FlowRun {
    /// SDUs submitted.
    pub submitted: u64,
    /// SDUs delivered.
    pub delivered: u64,
    /// SDUs declared lost.
    pub lost: u64,
    /// Of these, by another flow.
    pub lost_by_group: u64,
    /// SDUs that came after they were declared lost.
    pub late: u64,
    /// SDUs that came again.
    pub duplicate: u64,
    /// DATA PDUs sent again.
    pub retransmitted: u64,
    /// FNACK PDUs sent.
    pub fnack: u64,
    /// ACK_REQ PDUs sent.
    pub ack_req: u64,
    /// Submissions that found the window exhausted.
    pub blocked: u64,
    /// Mean time that an SDU waited for the window.
    pub queueing_ms: f64,
    /// Average transit delay variation: mean difference of the delays of successive SDUs.
    pub atdv_ms: f64,
    /// Mean delay.
    pub delay_ms: f64,
    /// Mean distance from the mean delay.
    pub deviation_ms: f64,
    /// 95 % of the delays are below.
    pub p95_ms: f64,
    /// Most SDUs that waited together.
    pub buffered_max: u64,
    /// Smoothed round trip at the end.
    pub rtt_ms: f64,
}

/// What a run gave.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Run {
    /// Each flow.
    pub flows: Vec<FlowRun>,
    /// Mean of the flows, weighted by delivered SDUs.
    pub atdv_ms: f64,
    /// Bytes on the path from the sender, headers and PDUs sent again included.
    pub bytes: u64,
    /// PDUs from the sender that the path discarded, of all.
    pub discarded: f64,
    /// Whether the connection closed with every SDU settled.
    pub closed: bool,
    /// The longest time without a delivery, milliseconds.
    pub longest_gap_ms: f64,
    /// Hash of all deliveries and losses, with their times.
    pub trace: String,
}

/// Delays of the delivered SDUs of each flow.
pub(super) struct Delays {
    all: Vec<Vec<f64>>,
    trace: u64,
    last: Time,
    gap: Span,
}

impl Delays {
    pub(super) fn new(flows: usize) -> Delays {
        Delays {
            all: vec![Vec::new(); flows],
            trace: 0xcbf2_9ce4_8422_2325,
            last: Time::ZERO,
            gap: Span::ZERO,
        }
    }

    pub(super) fn delivered(&mut self, setting: &Setting, flow: usize, number: u64, now: Time) {
        self.all[flow].push(now.since(setting.due(flow, number)).as_ms_f64());
        self.gap = self.gap.max(now.since(self.last));
        self.last = now;
        self.mix(&[1, flow as u64, number, now.as_ps()]);
    }

    pub(super) fn lost(&mut self, flow: usize, number: u64, now: Time) {
        self.mix(&[2, flow as u64, number, now.as_ps()]);
    }

    fn mix(&mut self, values: &[u64]) {
        for byte in values.iter().flat_map(|it| it.to_le_bytes()) {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn finish(
        mut self,
        mut flows: Vec<FlowRun>,
        forward: &Direction,
        closed: bool,
    ) -> Run {
        let (mut sum, mut count) = (0.0, 0.0);
        for (flow, delays) in flows.iter_mut().zip(&mut self.all) {
            let n = delays.len().max(1) as f64;
            let steps = delays.windows(2).map(|it| (it[1] - it[0]).abs());
            flow.atdv_ms = steps.sum::<f64>() / (n - 1.0).max(1.0);
            flow.delay_ms = delays.iter().sum::<f64>() / n;
            flow.deviation_ms = delays
                .iter()
                .map(|it| (it - flow.delay_ms).abs())
                .sum::<f64>()
                / n;
            sum += flow.atdv_ms * delays.len() as f64;
            count += delays.len() as f64;
            delays.sort_by(f64::total_cmp);
            flow.p95_ms = delays.get(delays.len() * 95 / 100).copied().unwrap_or(0.0);
        }
        Run {
            flows,
            atdv_ms: if count > 0.0 { sum / count } else { 0.0 },
            bytes: forward.bytes,
            discarded: forward.discarded as f64 / forward.sent.max(1) as f64,
            closed,
            longest_gap_ms: self.gap.as_ms_f64(),
            trace: format!("{:016x}", self.trace),
        }
    }
}

enum Event {
    Submit(usize),
    ToReceiver(Bytes),
    ToSender(Bytes),
    Wake,
}

struct World<'a> {
    setting: &'a Setting,
    sender: Sender,
    receiver: Receiver,
    forward: Direction,
    back: Direction,
    /// Instant, rank, number: submissions of one instant come by flow, after packets that arrive.
    heap: BinaryHeap<Reverse<(Time, usize, u64)>>,
    events: std::collections::BTreeMap<u64, Event>,
    next_id: u64,
    wake: Option<Time>,
    /// SDUs of the application that wait for the window: their numbers.
    queued: Vec<VecDeque<u64>>,
    flows: Vec<FlowRun>,
    waited: Vec<Span>,
    delays: Delays,
    over: bool,
}

pub(super) fn run(setting: &Setting) -> Result<Run, StudyError> {
    let config = setting.config()?;
    let count = config.flows.len();
    let world = World {
        setting,
        sender: Sender::opened(config.clone(), setting.options(), Time::ZERO)?,
        receiver: Receiver::opened(config, ReceiverOptions::default(), Time::ZERO)?,
        forward: Direction::new(&setting.path, true, "forward", setting.seed),
        back: Direction::new(&setting.path, setting.path.loss_back, "back", setting.seed),
        heap: BinaryHeap::new(),
        events: std::collections::BTreeMap::new(),
        next_id: 0,
        wake: None,
        queued: vec![VecDeque::new(); count],
        flows: vec![FlowRun::default(); count],
        waited: vec![Span::ZERO; count],
        delays: Delays::new(count),
        over: false,
    };
    Ok(world.simulate())
}

impl World<'_> {
    fn simulate(mut self) -> Run {
        let end = Time::ZERO + Span::from_secs_f64(self.setting.seconds);
        for flow in 0..self.flows.len() {
            self.at(self.setting.due(flow, 0), Event::Submit(flow));
        }
        let mut next = vec![0_u64; self.flows.len()];
        let mut closing = false;
        while let Some(Reverse((now, _, id))) = self.heap.pop() {
            if now > end + CLOSING {
                break;
            }
            match self.events.remove(&id).expect("each entry has an event") {
                Event::Submit(flow) => {
                    let number = next[flow];
                    next[flow] += 1;
                    self.queued[flow].push_back(number);
                    if self.queued[flow].len() > 1 || !self.submit(flow, now) {
                        self.flows[flow].blocked += 1;
                    }
                    let due = self.setting.due(flow, number + 1);
                    if due < end {
                        self.at(due, Event::Submit(flow));
                    }
                }
                Event::ToReceiver(datagram) => self.receiver.handle(now, datagram),
                Event::ToSender(datagram) => self.sender.handle(now, datagram),
                Event::Wake => {
                    if self.wake == Some(now) {
                        self.wake = None;
                    }
                    self.sender.on_timeout(now);
                    self.receiver.on_timeout(now);
                }
            }
            self.drain(now);
            if !closing && now >= end && self.queued.iter().all(VecDeque::is_empty) {
                closing = true;
                self.sender.close(now);
                self.drain(now);
            }
            if self.over {
                break;
            }
            self.schedule(now, (now < end).then_some(end));
        }
        self.finish()
    }

    fn at(&mut self, time: Time, event: Event) {
        let rank = if let Event::Submit(flow) = event {
            1 + flow
        } else {
            0
        };
        self.events.insert(self.next_id, event);
        self.heap.push(Reverse((time, rank, self.next_id)));
        self.next_id += 1;
    }

    /// Submits the first SDU that waits; whether it was accepted.
    fn submit(&mut self, flow: usize, now: Time) -> bool {
        let Some(&number) = self.queued[flow].front() else {
            return false;
        };
        let payload = Bytes::from(vec![0; usize::from(self.setting.flows[flow].bytes)]);
        match self.sender.submit(flow, payload, now) {
            Ok(taken) => {
                debug_assert_eq!(taken, number);
                self.queued[flow].pop_front();
                self.waited[flow] += now.since(self.setting.due(flow, number));
                true
            }
            Err(error) => {
                debug_assert!(matches!(error, SubmitError::Full { .. }), "{error}");
                false
            }
        }
    }

    fn drain(&mut self, now: Time) {
        loop {
            let mut busy = false;
            while let Some(event) = self.sender.poll_event() {
                busy = true;
                match event {
                    SenderEvent::Writable { flow } => while self.submit(flow, now) {},
                    SenderEvent::Closed | SenderEvent::PeerDead | SenderEvent::Rejected(_) => {
                        self.over = true
                    }
                    SenderEvent::Opened => {}
                }
            }
            while let Some(datagram) = self.sender.poll_transmit() {
                busy = true;
                if let Some(at) = self.forward.carry(datagram.len(), now) {
                    self.at(at, Event::ToReceiver(datagram));
                }
            }
            while let Some(datagram) = self.receiver.poll_transmit() {
                busy = true;
                if let Some(at) = self.back.carry(datagram.len(), now) {
                    self.at(at, Event::ToSender(datagram));
                }
            }
            while let Some(event) = self.receiver.poll_event() {
                busy = true;
                match event {
                    ReceiverEvent::Deliver { flow, number, .. } => {
                        self.delays.delivered(self.setting, flow, number, now);
                    }
                    ReceiverEvent::Lost {
                        flow,
                        numbers,
                        cause,
                    } => {
                        if let crate::event::LossCause::Group { .. } = cause {
                            self.flows[flow].lost_by_group += numbers.len() as u64;
                        }
                        numbers
                            .iter()
                            .for_each(|&number| self.delays.lost(flow, number, now));
                    }
                    _ => {}
                }
            }
            if !busy {
                return;
            }
        }
    }

    fn schedule(&mut self, now: Time, end: Option<Time>) {
        let timers = [
            self.sender.next_timeout(),
            self.receiver.next_timeout(),
            end,
        ];
        let Some(due) = timers.into_iter().flatten().min() else {
            return;
        };
        let due = due.max(now);
        if self.wake.is_none_or(|at| due < at) {
            self.wake = Some(due);
            self.at(due, Event::Wake);
        }
    }

    fn finish(mut self) -> Run {
        for (flow, it) in self.flows.iter_mut().enumerate() {
            let (sent, got) = (self.sender.stats(flow), self.receiver.stats(flow));
            it.submitted = sent.submitted;
            it.retransmitted = sent.retransmitted;
            it.ack_req = sent.ack_req;
            it.rtt_ms = sent.rtt.as_ms_f64();
            it.delivered = got.delivered;
            it.lost = got.lost;
            it.late = got.late;
            it.duplicate = got.duplicate;
            it.fnack = got.fnack;
            it.buffered_max = got.buffered_max;
            it.queueing_ms = self.waited[flow].as_ms_f64() / sent.submitted.max(1) as f64;
        }
        let closed = self.over
            && self
                .flows
                .iter()
                .all(|it| it.delivered + it.lost == it.submitted);
        self.delays.finish(self.flows, &self.forward, closed)
    }
}
