//! Time series: what flows and queues are at regular instants.

use layercast_core::{Span, Time};
use layercast_tcp::{TcpCounts, TcpInfo};

/// What a point of a series is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointKind {
    /// A flow of the scenario.
    Flow,
    /// A transfer of a generator.
    Transfer,
    /// A direction of a link, or a LAN: packets.
    Queue,
    /// A direction of a link of an ATM backbone: cells.
    Cells,
    /// A port of a METS node: cells.
    Port,
}

impl PointKind {
    /// As files name it.
    pub fn name(self) -> &'static str {
        match self {
            PointKind::Flow => "flow",
            PointKind::Transfer => "transfer",
            PointKind::Queue => "queue",
            PointKind::Cells => "cells",
            PointKind::Port => "port",
        }
    }
}

/// A flow or a queue at an instant. Counts are from the start of the run, warm-up included.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point<'a> {
    /// The instant.
    pub at: Time,
    /// What it is of.
    pub kind: PointKind,
    /// Its name; of a transfer that of its generator and, behind `#`, its number from 1 among all transfers.
    pub name: &'a str,
    /// Mean rate since the instant before, in bit/s: of a flow what its receivers got, of a transfer what was acknowledged, of a
    /// queue what was sent, with headers.
    pub rate_bps: f64,
    /// Bytes that the receivers of a flow have got.
    pub delivered: Option<u64>,
    /// The sender, of flows of TCP whose connection is there.
    pub tcp: Option<TcpState>,
    /// The queue, of queues.
    pub queue: Option<QueueState>,
}

impl<'a> Point<'a> {
    /// One of which nothing more is known.
    pub(super) fn new(at: Time, kind: PointKind, name: &'a str, rate_bps: f64) -> Point<'a> {
        Point {
            at,
            kind,
            name,
            rate_bps,
            delivered: None,
            tcp: None,
            queue: None,
        }
    }
}

/// The sender of a connection of TCP.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpState {
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `None` before the first loss.
    pub ssthresh: Option<u64>,
    /// Smoothed round trip; `None` without a sample.
    pub srtt: Option<Span>,
    /// Bytes sent and not acknowledged.
    pub in_flight: u64,
    /// Bytes of data acknowledged.
    pub acknowledged: u64,
    /// Bytes of data sent, retransmissions included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

impl TcpState {
    pub(super) fn new(info: &TcpInfo, counts: &TcpCounts) -> TcpState {
        TcpState {
            cwnd: info.cwnd,
            ssthresh: info.known_ssthresh(),
            srtt: (info.srtt > Span::ZERO).then_some(info.srtt),
            in_flight: info.flight,
            acknowledged: info.acknowledged,
            sent: counts.bytes_sent,
            retransmitted: counts.retransmitted,
            timeouts: counts.timeouts,
        }
    }
}

/// A queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueState {
    /// Packets or cells that wait, the one being sent not among them.
    pub waiting: u64,
    /// Bytes that are to be sent yet, with what is left of the packet being sent; `None` of cells.
    pub bytes: Option<u64>,
    /// Packets or cells dropped, early or because the queue was full.
    pub dropped: u64,
    /// Packets lost on the link behind it.
    pub lost: u64,
    /// Packets lost because that link was down.
    pub down: u64,
    /// Packets marked.
    pub marked: u64,
}

/// Points after which the watcher is asked whether to continue.
const LOOK: u64 = 256;

/// A series being taken: when the next points are due, and what was counted at the last.
#[derive(Debug)]
pub(super) struct Series {
    every: Span,
    count: u64,
    pub next: Time,
    pub flows: Before,
    pub transfers: Before,
    pub queues: Before,
    pub cells: Before,
    pub ports: Before,
    /// Names that are not those of the network.
    pub cell_names: Vec<String>,
    pub port_names: Vec<String>,
    /// The name of a transfer is made here.
    pub name: String,
}

impl Series {
    pub fn new(every: Span) -> Series {
        // At least a nanosecond: a span of zero would never end.
        let every = every.max(Span::from_ns(1));
        Series {
            every,
            count: 0,
            next: Time::ZERO.saturating_add(every),
            flows: Before::default(),
            transfers: Before::default(),
            queues: Before::default(),
            cells: Before::default(),
            ports: Before::default(),
            cell_names: Vec::new(),
            port_names: Vec::new(),
            name: String::new(),
        }
    }

    /// The points of now are taken.
    pub fn advance(&mut self) {
        self.next = self.next.saturating_add(self.every);
        self.count += 1;
    }

    /// Whether the watcher is to be asked now whether to continue, after each [`LOOK`] points.
    pub fn is_time_to_look(&self) -> bool {
        self.count.is_multiple_of(LOOK)
    }

    /// The time of [`LOOK`] points.
    pub fn look_every(&self) -> Span {
        self.every.mul_div(LOOK, 1)
    }

    /// The mean rate in bit/s of `bytes` since the last points.
    pub fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / self.every.as_secs_f64()
    }
}

/// Counts at the last points, by number.
#[derive(Default, Debug)]
pub(super) struct Before(Vec<u64>);

impl Before {
    /// How much a count has grown.
    pub fn grown(&mut self, number: usize, count: u64) -> u64 {
        if number >= self.0.len() {
            self.0.resize(number + 1, 0);
        }
        let before = std::mem::replace(&mut self.0[number], count);
        count.saturating_sub(before)
    }
}

/// What takes the points of a series.
pub trait PointSink {
    /// One more.
    fn point(&mut self, point: &Point<'_>);
}
