use std::ops::AddAssign;

use layercast_atm::{ClassStats, Drops, UpcStats};
use layercast_core::{Span, Time};
use layercast_wire::{Cell, Ipv4Packet};
use layercast_workload::app::Record;
use serde::Serialize;

use super::generated::GeneratorReport;
use super::series::Point;
use crate::summary::{FilterSummary, FlowSummary, HostSummary, QueueSummary};

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// Events so far.
    pub events: u64,
    /// Packets moved over a link or LAN so far.
    pub packet_hops: u64,
    /// Cells moved over an ATM link so far.
    pub cell_hops: u64,
}

/// Why a run ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The caller stopped the run.
    Interrupted,
    /// The budget of events was reached.
    EventBudget,
    /// The budget of packets in flight was reached.
    PacketBudget,
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Simulated time.
    pub seconds: f64,
    /// Why the result is partial; `None` if it is complete.
    pub stopped: Option<Stopped>,
    /// Events.
    pub events: u64,
    /// Packets moved over a link or LAN.
    pub packet_hops: u64,
    /// Cells moved over an ATM link.
    pub cell_hops: u64,
    /// The flows, in the order of the scenario.
    pub flows: Vec<FlowReport>,
    /// The generators of transfers; missing without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorReport>,
    /// The queues: one for each direction of a link, and for each LAN.
    pub queues: Vec<QueueReport>,
    /// The applications of the workload.
    pub applications: Vec<ApplicationReport>,
    /// Packets dropped by nodes.
    pub node_drops: NodeDrops,
    /// The ATM backbone, over the whole run; `None` without one.
    pub atm: Option<AtmReport>,
    /// The METS nodes, over the whole run; missing without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mets: Option<MetsReport>,
}

/// The METS nodes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MetsReport {
    /// Flows and their receivers.
    pub flows: Vec<FlowSummary>,
    /// Both directions of each peering.
    pub peerings: Vec<PeeringReport>,
    /// Queues of packets of other protocols at links with a class queue, after the warm-up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassReport>,
    /// Filters in switches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterSummary>,
    /// Hosts with a cost profile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostSummary>,
    /// PDUs and signals that changed by encoding and decoding (`wire_check`).
    pub wire_errors: u64,
}

/// A direction of a peering: the packets sent are those delivered, lost and under way.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PeeringReport {
    /// The queue of the sending node; `link` is the network behind it.
    #[serde(flatten)]
    pub port: QueueSummary,
    /// Packets under way at the end.
    pub under_way: u64,
    /// What the port estimates of the path at the end, with `rate = "auto"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathReport>,
}

/// The path behind a port that estimates its rate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PathReport {
    /// Rate of the port in bit/s; `None`: nothing has shown a limit.
    pub rate_bps: Option<u64>,
    /// Whether other flows keep a queue on the path.
    pub competes: bool,
    /// Time in the queues of the path, in seconds.
    pub queue: f64,
    /// Number of cuts of the rate.
    pub cuts: u64,
}

/// Packets of other protocols at a link with a class queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassReport {
    /// Name of the link, such as `left->right`.
    pub name: String,
    /// Packets offered.
    pub offered: u64,
    /// Packets dropped because the queue was full.
    pub dropped_full: u64,
    /// Mean time from the arrival to the entry into the link, in seconds.
    pub mean_wait: f64,
    /// Largest number of packets in the queue.
    pub max_waiting: u32,
    /// Packets in the queue at the end.
    pub waiting: u32,
}

/// The ATM backbone.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AtmReport {
    /// One for each direction of a link.
    pub queues: Vec<CellQueueReport>,
    /// One for each router or host at the backbone.
    pub adapters: Vec<AdapterReport>,
    /// The traffic contracts.
    pub contracts: Vec<ContractReport>,
    /// Cells of an unknown circuit.
    pub unknown_vc: u64,
    /// Packets dropped because they got no circuit.
    pub packets_discarded: u64,
    /// Frames with a cell in the network at the end.
    pub frames_under_way: u64,
}

/// A traffic contract.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ContractReport {
    /// Name of the contract, or of its flow.
    pub flow: String,
    /// Counters of the policer; `None` without one.
    pub upc: Option<UpcStats>,
    /// Packets dropped because the queue of the shaper was full.
    pub dropped_full: u64,
    /// Mean time of a packet from its arrival to its first cell, in seconds.
    pub mean_wait: f64,
    /// Largest number of packets in the queue of the shaper.
    pub max_waiting: u32,
}

/// An output port, in cells; received = sent + dropped + queued.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CellQueueReport {
    /// Name of the queue, such as `w1->e1`.
    pub name: String,
    /// Cells received.
    pub received: u64,
    /// Cells sent.
    pub sent: u64,
    /// Cells dropped.
    pub dropped: u64,
    /// Cells dropped, by cause.
    pub drops: Drops,
    /// Cells of circuits with a delay level.
    pub levels: ClassStats,
    /// Largest queue, in cells.
    pub max_len: u32,
    /// Share of the time in which the link was sending.
    pub utilisation: f64,
}

/// The circuits of a router or host, and the frames that it sent and received.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AdapterReport {
    /// Name of the router or host.
    pub router: String,
    /// Circuits requested.
    pub requests: u64,
    /// Of these, requests for more than best effort.
    pub elevated: u64,
    /// Largest number of circuits requested within one second of the clock.
    pub peak_requests: u64,
    /// Circuits set up.
    pub ready: u64,
    /// Packets without a circuit that found an idle one.
    pub hits: u64,
    /// Packets without a circuit that found no idle one.
    pub misses: u64,
    /// Requests that were refused and became best effort.
    pub fallbacks: u64,
    /// Of these, requests that found an idle best-effort circuit; they are not in `hits`.
    pub fallback_hits: u64,
    /// Requests refused without a fallback.
    pub failures: u64,
    /// Circuits at the end.
    pub circuits: u64,
    /// Largest number of circuits.
    pub max_circuits: u64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Of these, frames that did not arrive.
    pub frames_lost: u64,
    /// Cells of the frames sent.
    pub cells_sent: u64,
    /// Of these, cells dropped by policers and queues.
    pub cells_lost: u64,
    /// Frames received complete.
    pub frames: u64,
    /// Damaged frames received.
    pub damaged: u64,
    /// Incomplete frames whose remaining cells did not arrive in time.
    pub expired: u64,
}

/// A flow, after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowReport {
    /// Name of the flow.
    pub name: String,
    /// Name of the sending host.
    pub source: String,
    /// Name of the receiving host; `None` for multicast, whose receivers are listed.
    pub destination: Option<String>,
    /// Start of the flow in seconds.
    pub start: f64,
    /// Bytes delivered to the receiving application; of multicast, to all receivers together.
    pub bytes: u64,
    /// The same in bit/s, over the time from the warm-up, or the start, to the completion; of a transfer that is not complete, to
    /// the end of the run; of datagrams, to the stop or the last arrival after it.
    pub goodput_bps: f64,
    /// Datagrams sent; of TCP, segments, retransmissions included.
    pub sent: u64,
    /// User bytes that TCP or XTP gave to the network, retransmissions included; `None` for datagrams.
    pub offered_bytes: Option<u64>,
    /// Datagrams received; of TCP, segments that the sender received.
    pub received: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast retransmits of TCP: times at which duplicate acknowledgements showed a loss.
    pub fast_retransmits: u64,
    /// Reductions of the window of TCP for marks (ECN).
    pub ecn_reductions: u64,
    /// Mean one-way delay of datagrams in seconds; `None` for TCP.
    pub mean_delay: Option<f64>,
    /// Arrival of the last byte of a bounded transfer, in seconds; of multicast, at the last receiver. `None` if
    /// the transfer is not complete.
    pub completed: Option<f64>,
    /// Failure of the connection of a transfer that is not complete, in seconds. Its counters are those of that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<f64>,
    /// The receivers, of multicast.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receivers: Vec<ReceiverReport>,
}

/// A receiver of a multicast flow.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReceiverReport {
    /// Name of the host.
    pub name: String,
    /// Time of its admission in seconds; without acknowledgements, of its first packet.
    pub joined: Option<f64>,
    /// The first byte of the stream that it receives.
    pub first_byte: Option<u64>,
    /// Bytes delivered to the application, after the warm-up.
    pub bytes: u64,
    /// The same in bit/s, over the time from the warm-up, or the join, to the completion or the end of the run.
    pub goodput_bps: f64,
    /// Time at which it had all bytes from the first on, in seconds; without acknowledgements, at which it
    /// received the end.
    pub completed: Option<f64>,
    /// Why it does not receive everything.
    pub failed: Option<String>,
}

/// One direction of a link, after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueReport {
    /// Name of the queue, such as `left->right`, or of the LAN.
    pub name: String,
    /// Packets offered.
    pub offered: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped_full: u64,
    /// Packets dropped early: by RED, or by a queue discipline.
    pub dropped_red: u64,
    /// Packets lost on the link.
    pub lost: u64,
    /// Packets lost because the link was down.
    #[serde(skip_serializing_if = "is_zero")]
    pub down: u64,
    /// Packets marked (ECN).
    pub marked: u64,
    /// Packets that arrived twice.
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicated: u64,
    /// Share of the time in which the link was sending.
    pub utilisation: f64,
    /// Mean number of packets in the queue at an arrival.
    pub mean_waiting: f64,
    /// Mean time from the arrival to the start of transmission, in seconds.
    pub mean_wait: f64,
    /// Largest number of packets in the queue.
    pub max_waiting: u32,
    /// The queue discipline; missing without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discipline: Option<DisciplineReport>,
}

/// A queue with a discipline, after the warm-up. Packets offered are those sent, dropped and waiting at the end.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DisciplineReport {
    /// Name of the discipline, such as `codel`.
    pub name: String,
    /// Packets in the queue at the end.
    pub waiting: u32,
    /// Times from the arrival to the start of transmission.
    pub sojourn: SojournReport,
    /// Its bands, the first one first; missing where it has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<BandReport>,
}

/// One band of a discipline, after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BandReport {
    /// Its name: its classes, or what its packets are.
    pub name: String,
    /// Packets whose transmission has begun.
    pub sent: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Times from the arrival to the start of transmission.
    pub sojourn: SojournReport,
}

/// Times in a queue of the packets sent, in seconds; `None` without any. Quantiles are within 1.6 %, or 1 us.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SojournReport {
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An application.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ApplicationReport {
    /// Name of the application.
    pub name: String,
    /// Conversations started.
    pub started: u64,
    /// Conversations that ended.
    pub ended: u64,
}

/// Packets dropped by nodes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct NodeDrops {
    /// Packets whose hop limit was reached.
    pub ttl: u64,
    /// Packets without a route.
    pub no_route: u64,
    /// Packets larger than the MTU of the next link that may not be fragmented; only packets of programs are.
    pub too_big: u64,
    /// Packets dropped because the queue of the processor was full.
    pub busy: u64,
    /// Packets at a host that is not their destination, or without a process for them.
    pub not_mine: u64,
}

impl AddAssign for NodeDrops {
    fn add_assign(&mut self, other: NodeDrops) {
        let NodeDrops {
            ttl,
            no_route,
            too_big,
            busy,
            not_mine,
        } = other;
        self.ttl += ttl;
        self.no_route += no_route;
        self.too_big += too_big;
        self.busy += busy;
        self.not_mine += not_mine;
    }
}

/// A measurement of an application (specs/insane-simulator.md 2.11).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Sample {
    /// When it was made.
    pub at: Time,
    /// Which application, by its place in the workload.
    pub application: u32,
    /// Site of the user, from 0.
    pub site: u32,
    /// What was measured.
    pub record: Record,
}

/// What a run tells while it continues.
pub trait Watch {
    /// A measurement of an application.
    fn sample(&mut self, sample: &Sample);

    /// A packet that a link or LAN took, if all are to be [captured](crate::internet::Internet::capture); the number is that of
    /// [`Internet::interfaces`](crate::internet::Internet::interfaces).
    fn packet(&mut self, at: Time, interface: u32, packet: &Ipv4Packet) {
        let _ = (at, interface, packet);
    }

    /// A cell that begins to be sent on an ATM link, if [cells are captured](crate::internet::Internet::capture_cells); the
    /// number is that of [`Internet::interfaces`](crate::internet::Internet::interfaces).
    fn cell(&mut self, at: Time, interface: u32, cell: &Cell) {
        let _ = (at, interface, cell);
    }

    /// What a flow or a queue is now, if a [series](crate::internet::Internet::run_with_series) is taken.
    fn point(&mut self, point: &Point<'_>) {
        let _ = point;
    }

    /// Whether to continue; asked every few thousand events.
    fn progress(&mut self, progress: Progress) -> bool {
        let _ = progress;
        true
    }
}

/// Without a watcher.
impl Watch for () {
    fn sample(&mut self, _: &Sample) {}
}

/// A mean of times without rounding.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct MeanSpan {
    sum: u128,
    count: u64,
}

impl MeanSpan {
    pub(crate) fn add(&mut self, span: Span) {
        self.sum += u128::from(span.as_ps());
        self.count += 1;
    }

    /// In seconds; zero of none.
    pub(crate) fn seconds(self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.sum as f64 / count as f64 / 1e12,
        }
    }
}
