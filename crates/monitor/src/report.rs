//! Snapshots of what is measured. A value that is not known is absent, never 0.

use layercast_core::{Contract, Judged, Parameter, Quality, Zone};
use serde::Serialize;

use crate::delay::Method;
use crate::direction::Direction;

/// A connection at an instant.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ConnectionReport {
    /// The connection.
    pub conn: u64,
    /// Its transport, if the connection was seen to open.
    pub transport: Option<&'static str>,
    /// When, in nanoseconds of the producer's clock.
    pub t_ns: u64,
    /// Whether it is over.
    pub closed: bool,
    /// There was no event of it for some time, so its values are old.
    pub stale: bool,
    /// The worst zone; grey while stale.
    pub zone: Zone,
    /// What was counted.
    pub counts: ConnectionCounts,
    /// Inbound, outbound.
    pub directions: [DirectionReport; 2],
}

impl ConnectionReport {
    /// What a direction gets of what was agreed; `None`: nothing was.
    pub fn quality(&self, dir: Direction) -> Option<Quality> {
        let direction = self.direction(dir);
        let zone = |zone: Zone| if self.stale { Zone::Grey } else { zone };
        let judged = |parameter: Parameter| {
            let it = direction.compared[parameter as usize]?;
            Some(Judged {
                agreed: it.contract,
                measured: it.measured,
                zone: zone(it.zone),
            })
        };
        (!direction.contract.is_empty()).then(|| Quality {
            zone: zone(direction.zone),
            throughput_bps: judged(Parameter::Throughput),
            delay_s: judged(Parameter::Delay),
            jitter_s: judged(Parameter::Jitter),
            error_rate: judged(Parameter::ErrorRate),
        })
    }

    /// One direction.
    pub fn direction(&self, dir: Direction) -> &DirectionReport {
        &self.directions[dir as usize]
    }
}

/// What was counted of a connection since it opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ConnectionCounts {
    /// Events taken.
    pub events: u64,
    /// Events that the ring had no place for.
    pub events_lost: u64,
    /// Events before one that was taken earlier, or after the time of the monitor.
    pub clamped: u64,
    /// Events that mean nothing.
    pub malformed: u64,
    /// Reports of the peer, or parts of them, that cannot be.
    pub bad_reports: u64,
    /// Sums of a direction that went backwards.
    pub bad_totals: u64,
    /// Negotiated values that are none.
    pub bad_contracts: u64,
    /// Probes without an answer of their own.
    pub probes_lost: u64,
    /// Probes in packets that were sent again.
    pub probes_discarded: u64,
    /// Answers to no probe.
    pub probes_unmatched: u64,
    /// Signals sent.
    pub signals: u64,
}

/// One direction of a connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DirectionReport {
    /// Packets so far.
    pub packets: u64,
    /// Bits on the wire so far, those of lost events included if the transport tells sums.
    pub bits: u64,
    /// Bits of user data so far, each once.
    pub user_bits: u64,
    /// Bits handed to the user so far.
    pub delivered_bits: u64,
    /// Bits missing so far.
    pub error_bits: u64,
    /// The same by the formula of the paper, which counts a gap in each report.
    pub error_bits_literal: u64,
    /// Data that came after their deadline.
    pub deadlines_missed: u64,
    /// Packets with a wrong checksum, where the transport tells.
    pub checksum_failures: u64,
    /// Gaps in the sequence numbers, where the transport tells.
    pub gaps: u64,
    /// The three windows, from the shortest on.
    pub windows: [WindowReport; 3],
    /// The delay.
    pub delay: Option<DelayReport>,
    /// Jitter by RFC 3550 in nanoseconds; only where the contract has one.
    pub jitter_ns: Option<f64>,
    /// The largest so far.
    pub max_jitter_ns: Option<f64>,
    /// Largest less least delay of the window of comparison, in nanoseconds.
    pub spread_ns: Option<u64>,
    /// The worst zone of its parameters.
    pub zone: Zone,
    /// What was negotiated.
    pub contract: Contract,
    /// The last comparison of each parameter of the contract.
    pub compared: [Option<Compared>; 4],
}

/// What is known of a delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct DelayReport {
    /// The last one, in nanoseconds.
    pub current_ns: i64,
    /// The largest so far, by the same method.
    pub max_ns: i64,
    /// How it was found.
    pub method: Method,
    /// How many there were.
    pub samples: u64,
}

/// The last time, as long as the window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct WindowReport {
    /// Its length in nanoseconds.
    pub window_ns: u64,
    /// Packets in it.
    pub packets: u64,
    /// bit/s on the wire, what is sent again included; unknown while the connection is stale.
    pub throughput_bps: Option<f64>,
    /// bit/s of user data, each once.
    pub goodput_bps: Option<f64>,
    /// bit/s between the first and the last packet in it; unknown of fewer than two instants.
    pub burst_bps: Option<f64>,
    /// Missing bits by offered bits.
    pub error_rate: Option<f64>,
    /// Fewer than four packets, or the connection is younger than the window.
    pub low_confidence: bool,
    /// Events of the window were lost; sums heal, counts do not.
    pub gap: bool,
}

/// A value beside its contract.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Compared {
    /// What.
    pub parameter: Parameter,
    /// The negotiated value of that window.
    pub contract: f64,
    /// What was measured in the window that makes the zone: of the last `n` windows the `k`-th worst.
    pub measured: f64,
    /// As a share; null: infinite.
    pub deviation: f64,
    /// The zone that follows; grey before there are `k` windows.
    pub zone: Zone,
}
