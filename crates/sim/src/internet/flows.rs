//! Flows: one connection that always has data, or a stream of datagrams.

use layercast_core::{AAL5_TRAILER, CELL_PAYLOAD, Span, Stream, Time, earliest};
use layercast_tcp::{ConnId, TcpCounts};
use layercast_xtp::{ContextId, XtpCounts};

use super::group::Group;
use super::hosts::User;
use super::network::{Bursts, Flow, Law, NodeIndex, SizeLaw, Traffic};
use super::packet::{Body, Datagram, NO_STEP, Owner, Packet, TTL};
use super::report::{FlowReport, MeanSpan};
use super::world::Internet;
use crate::kernel::SourceId;

/// The port of a flow's receiver.
const PORT: u16 = 5_001;

/// A port of its own for each flow of datagrams of a host, as long as there are enough.
fn datagram_port(flow: u32) -> u16 {
    10_000 + (flow % 30_000) as u16
}

/// What a context did, as of a connection: packets, and handshakes that time-outs began.
fn as_segments(counts: XtpCounts) -> TcpCounts {
    TcpCounts {
        sent: counts.sent,
        bytes_sent: counts.bytes_sent + counts.bytes_again,
        received: counts.received,
        retransmitted: counts.retransmitted,
        timeouts: counts.handshakes,
    }
}

#[derive(Debug)]
pub(super) struct FlowState {
    flow: Flow,
    source: SourceId,
    stream: Stream,
    /// Places of its ends among the hosts.
    ends: (u32, u32),
    /// Names of the two hosts.
    names: [Box<str>; 2],
    connection: Option<ConnId>,
    context: Option<ContextId>,
    /// Its receivers, if it has many.
    pub group: Option<Box<Group>>,
    started: bool,
    /// Counts of the connection when the warm-up ended, and when it was last looked at.
    before: TcpCounts,
    last: TcpCounts,
    sent: u64,
    received: u64,
    delay: MeanSpan,
    completed: Option<Time>,
    /// When a source of datagrams pauses next, if it does.
    pauses: Option<Time>,
}

impl FlowState {
    pub fn new(
        flow: &Flow,
        source: SourceId,
        hosts: (u32, u32),
        names: [&str; 2],
        seed: u64,
    ) -> FlowState {
        FlowState {
            stream: Stream::new(seed, &format!("flow/{}", flow.name)),
            flow: flow.clone(),
            source,
            ends: hosts,
            names: names.map(Box::from),
            connection: None,
            context: None,
            group: None,
            started: false,
            before: TcpCounts::default(),
            last: TcpCounts::default(),
            sent: 0,
            received: 0,
            delay: MeanSpan::default(),
            completed: None,
            pauses: None,
        }
    }

    /// The places of sender and receiver among the hosts.
    pub fn ends(&self) -> (u32, u32) {
        self.ends
    }

    pub fn from(&self) -> NodeIndex {
        self.flow.from
    }

    pub fn to(&self) -> NodeIndex {
        self.flow.to
    }

    pub fn source(&self) -> SourceId {
        self.source
    }

    /// Takes over what its receiver counted, but for the bytes.
    pub fn take_received(&mut self, other: &FlowState) {
        self.received = other.received;
        self.delay = other.delay;
        self.completed = other.completed;
    }

    pub fn traffic(&self) -> &Traffic {
        &self.flow.traffic
    }

    /// When the datagram after one of now is sent.
    fn next_datagram(&mut self, now: Time, gap: Law, bursts: Option<Bursts>) -> Time {
        let next = now.saturating_add(self.gap(gap));
        let Some(Bursts { on, off }) = bursts else {
            return next;
        };
        let pauses = match self.pauses {
            Some(at) => at,
            None => now.saturating_add(self.gap(on)),
        };
        if next < pauses {
            self.pauses = Some(pauses);
            return next;
        }
        self.pauses = None;
        pauses.saturating_add(self.gap(off))
    }

    fn gap(&mut self, law: Law) -> Span {
        match law {
            Law::Constant(gap) => gap,
            Law::Exponential(mean) => {
                Span::from_secs_f64(self.stream.exponential(mean.as_secs_f64()))
            }
        }
    }

    fn size(&mut self, law: SizeLaw) -> u32 {
        match law {
            SizeLaw::Constant(size) => size,
            SizeLaw::Exponential(mean) => {
                self.stream.exponential(mean).round().clamp(29.0, 65_535.0) as u32
            }
            SizeLaw::Cells { mean, most } => loop {
                // Geometric from 1 on; one that is too long is drawn again.
                let more = libm::log(1.0 - self.stream.unit()) / libm::log(1.0 - 1.0 / mean);
                let cells = 1.0 + more.floor();
                if cells <= f64::from(most) {
                    break cells as u32 * CELL_PAYLOAD as u32 - AAL5_TRAILER as u32;
                }
            },
        }
    }
}

impl Internet {
    /// A flow starts, sends its next datagram, or stops.
    pub(super) fn wake_flow(&mut self, n: u32) {
        let flow = &self.flows[n as usize];
        let over = flow.flow.stop.is_some_and(|stop| stop <= self.now);
        match flow.flow.traffic {
            Traffic::Bulk(bytes) if !over => self.open_flow(n, bytes),
            Traffic::Bulk(_) => {
                if let Some(id) = flow.connection {
                    self.shut(flow.ends.0, id);
                }
            }
            Traffic::Xtp { .. } if !over => {
                let (ends, stop, source) = (flow.ends, flow.flow.stop, flow.source);
                self.flows[n as usize].context = self.open_xtp(n, ends);
                self.kernel.schedule(source, stop);
            }
            Traffic::XtpMulticast { .. } if !over => {
                let (ends, stop, source) = (flow.ends, flow.flow.stop, flow.source);
                let begins = !std::mem::replace(&mut self.flows[n as usize].started, true);
                // An invited host gets the invitation.
                let next = self.join_group(n);
                if begins {
                    self.flows[n as usize].context = self.open_xtp(n, ends);
                }
                self.kernel.schedule(source, earliest(next, stop));
            }
            Traffic::Xtp { .. } | Traffic::XtpMulticast { .. } => {
                if let Some(id) = flow.context {
                    self.stop_xtp(flow.ends.0, id);
                }
            }
            Traffic::Datagrams { gap, size, bursts } if !over => {
                self.send_datagram(n, gap, size, bursts);
            }
            Traffic::Datagrams { .. } => {}
        }
    }

    fn open_flow(&mut self, n: u32, bytes: Option<u64>) {
        let flow = &self.flows[n as usize];
        let (from, to) = flow.ends;
        let (stop, source) = (flow.flow.stop, flow.source);
        let users = (User::Sender(n), User::Receiver(n));
        let Some(id) = self.connect((from, 0), (to, PORT), users) else {
            return;
        };
        self.flows[n as usize].connection = Some(id);
        self.write(from, id, bytes.unwrap_or(u64::MAX));
        if bytes.is_some() {
            self.shut(from, id);
        }
        self.kernel.schedule(source, stop);
    }

    fn send_datagram(&mut self, n: u32, gap: Law, size: SizeLaw, bursts: Option<Bursts>) {
        let now = self.now;
        let flow = &mut self.flows[n as usize];
        flow.sent += 1;
        let (next, bytes) = (flow.next_datagram(now, gap, bursts), flow.size(size));
        let (src, dst) = (flow.flow.from, flow.flow.to);
        self.kernel.schedule(flow.source, Some(next));
        let owner = Owner::Flow(n);
        let body = Body::Udp(Datagram {
            owner,
            sent: now,
            ports: (datagram_port(n), PORT),
            media: None,
        });
        self.originate(Packet {
            src,
            dst,
            bytes,
            step: NO_STEP,
            ttl: TTL,
            body,
        });
    }

    /// A datagram arrived where it goes.
    pub(super) fn datagram(&mut self, datagram: Datagram, bytes: u32) {
        match datagram.owner {
            Owner::Flow(n) => {
                let delay = self.now.since(datagram.sent);
                let flow = &mut self.flows[n as usize];
                flow.received += 1;
                self.flow_bytes[n as usize] += u64::from(bytes - 28);
                flow.delay.add(delay);
            }
            Owner::Conversation(slot, number) => {
                let sent = datagram.sent;
                self.tell(
                    slot,
                    number,
                    layercast_workload::app::AppInput::Datagram { sent },
                );
            }
        }
    }

    pub(super) fn flow_received(&mut self, n: u32, bytes: u64) {
        self.flow_bytes[n as usize] += bytes;
    }

    pub(super) fn flow_completed(&mut self, n: u32) {
        self.flows[n as usize].completed.get_or_insert(self.now);
    }

    /// What the connection of a flow counted; of one that is over, what was known last.
    fn count_flow(&mut self, n: usize) -> TcpCounts {
        let flow = &self.flows[n];
        let endpoint = &self.hosts[flow.ends.0 as usize].endpoint;
        let counts = flow.connection.and_then(|id| endpoint.counts(id));
        let of_xtp = flow.context.and_then(|id| self.xtp_counts(flow.ends.0, id));
        let counts = counts.or(of_xtp.map(as_segments));
        let flow = &mut self.flows[n];
        if let Some(counts) = counts {
            flow.last = counts;
        }
        flow.last
    }

    /// The connection of a flow is about to go.
    pub(super) fn flow_closes(&mut self, n: u32) {
        self.count_flow(n as usize);
        self.flows[n as usize].connection = None;
        self.flows[n as usize].context = None;
    }

    pub(super) fn restart_flow(&mut self, n: usize) {
        let before = self.count_flow(n);
        let flow = &mut self.flows[n];
        flow.before = before;
        (flow.sent, flow.received) = (0, 0);
        self.flow_bytes[n] = 0;
        flow.delay = MeanSpan::default();
        if let Some(group) = &mut flow.group {
            group.restart();
        }
    }

    pub(super) fn flow_report(&mut self, n: usize, since: Time) -> FlowReport {
        let counts = self.count_flow(n);
        let flow = &self.flows[n];
        let TcpCounts {
            sent,
            bytes_sent,
            received,
            retransmitted,
            timeouts,
        } = flow.before;
        let has_ends = !matches!(flow.flow.traffic, Traffic::Datagrams { .. });
        let from = since.max(flow.flow.start);
        let stop = flow.flow.stop.unwrap_or(self.now).min(self.now);
        let to = flow.completed.unwrap_or(stop);
        let seconds = to.min(self.now).since(from).as_secs_f64();
        FlowReport {
            name: flow.flow.name.clone(),
            source: flow.names[0].to_string(),
            destination: flow.group.is_none().then(|| flow.names[1].to_string()),
            start: flow.flow.start.as_secs_f64(),
            bytes: self.flow_bytes[n],
            goodput_bps: match seconds > 0.0 {
                true => self.flow_bytes[n] as f64 * 8.0 / seconds,
                false => 0.0,
            },
            sent: if has_ends {
                counts.sent - sent
            } else {
                flow.sent
            },
            offered_bytes: has_ends.then(|| counts.bytes_sent - bytes_sent),
            received: if has_ends {
                counts.received - received
            } else {
                flow.received
            },
            retransmitted: counts.retransmitted - retransmitted,
            timeouts: counts.timeouts - timeouts,
            mean_delay: (!has_ends).then(|| flow.delay.seconds()),
            completed: flow.completed.map(Time::as_secs_f64),
            receivers: flow
                .group
                .as_ref()
                .map_or(Vec::new(), |it| it.report((from, stop))),
        }
    }
}
