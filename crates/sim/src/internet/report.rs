use std::ops::AddAssign;

use layercast_atm::{ClassStats, Drops, UpcStats};
use layercast_core::{Span, Time};
use layercast_wire::{Cell, Ipv4Packet};
use layercast_workload::app::Record;
use serde::Serialize;

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

/// Why a run ended before its time; its report is partial.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The caller wanted it.
    Interrupted,
    /// More events than the budget allows.
    EventBudget,
    /// More packets under way than the budget allows.
    PacketBudget,
}

/// What a run found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Simulated seconds.
    pub seconds: f64,
    /// Why it is partial; none if it is whole.
    pub stopped: Option<Stopped>,
    /// Events.
    pub events: u64,
    /// Packets moved over a link or LAN.
    pub packet_hops: u64,
    /// Cells moved over an ATM link.
    pub cell_hops: u64,
    /// One for each flow, in their order.
    pub flows: Vec<FlowReport>,
    /// One for each direction of a link, and for each LAN.
    pub queues: Vec<QueueReport>,
    /// One for each application of the workload.
    pub applications: Vec<ApplicationReport>,
    /// Packets that no queue dropped, but a node.
    pub node_drops: NodeDrops,
    /// The ATM backbone, of the whole run.
    pub atm: Option<AtmReport>,
}

/// What a backbone did.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AtmReport {
    /// One for each direction of a link.
    pub queues: Vec<CellQueueReport>,
    /// One for each router.
    pub adapters: Vec<AdapterReport>,
    /// One for each contract.
    pub contracts: Vec<ContractReport>,
    /// Cells that came on a circuit that is not.
    pub unknown_vc: u64,
    /// Packets that got no circuit.
    pub packets_discarded: u64,
    /// Frames of which a cell was somewhere at the end.
    pub frames_under_way: u64,
}

/// What became of the cells of a contract.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ContractReport {
    /// Its name, that of its flow if it is of one.
    pub flow: String,
    /// What the policer saw, if there is one.
    pub upc: Option<UpcStats>,
    /// Packets dropped because too many waited for their cells to be spaced.
    pub dropped_full: u64,
    /// Mean time of packets from coming to their first cell, in seconds.
    pub mean_wait: f64,
    /// Most packets that waited.
    pub max_waiting: u32,
}

/// The counts of an output port, in cells; received = sent + dropped + queued.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CellQueueReport {
    /// Such as `w1->e1`.
    pub name: String,
    /// That came to it.
    pub received: u64,
    /// That it sent.
    pub sent: u64,
    /// That it dropped.
    pub dropped: u64,
    /// The same by cause.
    pub drops: Drops,
    /// Those of circuits with a delay level.
    pub levels: ClassStats,
    /// Most that waited.
    pub max_len: u32,
    /// Share of the time the link was sending.
    pub utilisation: f64,
}

/// The circuits of a router or host, the frames that it sent, and those that came to it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AdapterReport {
    /// Its name.
    pub router: String,
    /// Circuits asked for.
    pub requests: u64,
    /// Those of them that asked for more than best effort.
    pub elevated: u64,
    /// Most circuits asked for within one second of the clock.
    pub peak_requests: u64,
    /// Circuits given.
    pub ready: u64,
    /// Packets without circuit that found an idle one.
    pub hits: u64,
    /// Packets without circuit that found none.
    pub misses: u64,
    /// Requests that were refused and became best effort.
    pub fallbacks: u64,
    /// Those of them that found an idle best-effort circuit; not among the hits.
    pub fallback_hits: u64,
    /// Requests that were refused for good.
    pub failures: u64,
    /// Circuits at the end.
    pub circuits: u64,
    /// Most circuits at one time.
    pub max_circuits: u64,
    /// Frames of packets that it sent.
    pub frames_sent: u64,
    /// Those of them that did not arrive.
    pub frames_lost: u64,
    /// Cells of the frames that it sent.
    pub cells_sent: u64,
    /// Those of them that were dropped on the way, by policers and queues.
    pub cells_lost: u64,
    /// Frames that arrived whole.
    pub frames: u64,
    /// Times that what arrived was no whole frame.
    pub damaged: u64,
    /// Times that cells waited too long for the rest of their frame.
    pub expired: u64,
}

/// What became of a flow, after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// Name of the sending host.
    pub source: String,
    /// Name of the receiving host; none for multicast, whose receivers are listed.
    pub destination: Option<String>,
    /// Start of the flow in seconds; `completed - start` is the flow completion time.
    pub start: f64,
    /// Bytes given to the receiving application; of multicast, to all of them together.
    pub bytes: u64,
    /// These in bit/s of the time between warm-up, or start, and stop.
    pub goodput_bps: f64,
    /// Datagrams sent; of TCP, segments, retransmissions included.
    pub sent: u64,
    /// User bytes that TCP or XTP gave to the network, those sent again included; none for datagrams.
    pub offered_bytes: Option<u64>,
    /// Datagrams that arrived; of TCP, segments that came back to the sender.
    pub received: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Mean time of a datagram from sender to receiver in seconds; none for TCP.
    pub mean_delay: Option<f64>,
    /// When the last byte of a bounded transfer arrived, in seconds; of multicast, at the last of all receivers.
    pub completed: Option<f64>,
    /// What became of each receiver, of multicast.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receivers: Vec<ReceiverReport>,
}

/// One receiver of a flow to many.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReceiverReport {
    /// Its host.
    pub name: String,
    /// When it was let in, in seconds; without acknowledgements, when it heard of the flow.
    pub joined: Option<f64>,
    /// The first byte of the stream that it gets.
    pub first_byte: Option<u64>,
    /// Bytes given to the application, after the warm-up.
    pub bytes: u64,
    /// These in bit/s of the time between warm-up, or joining, and stop.
    pub goodput_bps: f64,
    /// When it had everything from its first byte on, in seconds; without acknowledgements, when it heard of the end.
    pub completed: Option<f64>,
    /// Why it does not get everything.
    pub failed: Option<String>,
}

/// What one direction of a link did, after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueReport {
    /// Such as `left->right`, or the name of a LAN.
    pub name: String,
    /// Packets offered.
    pub offered: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Dropped because the queue was full.
    pub dropped_full: u64,
    /// Dropped early.
    pub dropped_red: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Share of the time the link was sending.
    pub utilisation: f64,
    /// Mean number of packets waiting when one came.
    pub mean_waiting: f64,
    /// Mean time from coming to the start of sending, in seconds.
    pub mean_wait: f64,
    /// Most packets that waited.
    pub max_waiting: u32,
}

/// What the conversations of an application measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ApplicationReport {
    /// Its name.
    pub name: String,
    /// Conversations started.
    pub started: u64,
    /// Conversations over by the end.
    pub ended: u64,
}

/// Packets dropped by nodes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct NodeDrops {
    /// Out of hops.
    pub ttl: u64,
    /// No way to the destination.
    pub no_route: u64,
    /// Larger than the next link takes, and not to be cut; only real packets are.
    pub too_big: u64,
    /// Came to a processor with as many waiting as it takes.
    pub busy: u64,
    /// Arrived at a host that is not its destination, or without a process that waits for it.
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
