//! What a monitor knows of all connections of a machine that has one after the other, such as the sessions of a transfer.

use layercast_core::{Time, Zone};
use layercast_monitor::{ConnectionReport, DirectionReport, Monitor};
use serde::Serialize;

/// All connections that a monitor has had, together (specs/user-to-user-qos.md 2.9).
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Overall {
    /// Connections that are open.
    pub open: u64,
    /// Connections that are over.
    pub closed: u64,
    /// Events that the ring had no place for: counts lack them.
    pub events_lost: u64,
    /// Reports of peers, or parts of them, that cannot be.
    pub bad_reports: u64,
    /// The worst zone of the open connections; grey: nothing was agreed, or none is open.
    pub zone: Zone,
    /// What came.
    pub inbound: OverallDirection,
    /// What left.
    pub outbound: OverallDirection,
}

/// One direction of all connections.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct OverallDirection {
    /// Packets since the start.
    pub packets: u64,
    /// Bits on the wire since the start, those of packets sent again included.
    pub bits: u64,
    /// Bits of user data since the start, each once.
    pub user_bits: u64,
    /// Bits that were missing since the start.
    pub error_bits: u64,
    /// bit/s on the wire over 1 s, of the open connections together; `None`: unknown.
    pub throughput_bps: Option<f64>,
    /// bit/s of user data over 1 s.
    pub goodput_bps: Option<f64>,
    /// Missing bits by offered bits over 10 s, the largest of the open connections.
    pub error_rate: Option<f64>,
    /// The last delay in nanoseconds, the largest of the open connections.
    pub delay_ns: Option<i64>,
    /// The largest delay since the start in nanoseconds.
    pub max_delay_ns: Option<i64>,
}

impl Overall {
    /// With a connection that is over.
    pub(crate) fn end(&mut self, report: &ConnectionReport) {
        self.closed += 1;
        self.count(report);
    }

    /// With those that `monitor` has open at `now`.
    pub(crate) fn with_open(mut self, now: Time, monitor: &mut Monitor) -> Overall {
        let open: Vec<u64> = monitor.connections().collect();
        for conn in open {
            if let Some(report) = monitor.snapshot(now, conn) {
                self.open += 1;
                self.zone = self.zone.max(report.zone);
                self.count(&report);
                let [inbound, outbound] = &report.directions;
                self.inbound.measure(inbound);
                self.outbound.measure(outbound);
            }
        }
        self
    }

    fn count(&mut self, report: &ConnectionReport) {
        self.bad_reports += report.counts.bad_reports;
        let [inbound, outbound] = &report.directions;
        self.inbound.count(inbound);
        self.outbound.count(outbound);
    }
}

impl OverallDirection {
    fn count(&mut self, it: &DirectionReport) {
        self.packets += it.packets;
        self.bits += it.bits;
        self.user_bits += it.user_bits;
        self.error_bits += it.error_bits;
        self.max_delay_ns = self.max_delay_ns.max(it.delay.map(|it| it.max_ns));
    }

    fn measure(&mut self, it: &DirectionReport) {
        let [_, second, long] = &it.windows;
        let sum = |of: Option<f64>, more: Option<f64>| match (of, more) {
            (None, one) | (one, None) => one,
            (Some(of), Some(more)) => Some(of + more),
        };
        self.throughput_bps = sum(self.throughput_bps, second.throughput_bps);
        self.goodput_bps = sum(self.goodput_bps, second.goodput_bps);
        self.error_rate = match (self.error_rate, long.error_rate) {
            (None, one) | (one, None) => one,
            (Some(one), Some(other)) => Some(one.max(other)),
        };
        self.delay_ns = self.delay_ns.max(it.delay.map(|it| it.current_ns));
    }
}
