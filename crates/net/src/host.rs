use std::collections::BTreeMap;

use layercast_core::{PortId, Span, Stream, Time, earliest};
use layercast_link::host::{HostStats, ReceiveCosts, SendCosts, Stalls};
use layercast_mets::{HostConfig, Station, circuit};
use layercast_wire::LinkPdu;
use serde::Serialize;

/// Work done within this time is passed on immediately: a timer for each cell would cost more than the cell.
const GRAIN: Span = Span::from_us(250);

/// Most circuits that are reckoned with: peers choose their numbers.
const MAX_CIRCUITS: usize = 1_024;

/// Another host in place of this one: the "virtual NIC" of specs/mets.md 3.3. The machines of the simulator's
/// hosts, run in real time, say when each PDU leaves or arrives and which ones find the interface full;
/// no processor time is burnt.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct HostEmulation {
    /// What it costs to send what the sources of the node have.
    pub send: SendCosts,
    /// What it costs to take in what neighbours send.
    pub receive: ReceiveCosts,
    /// Stalls per second, for each circuit or flow that is received.
    pub stall_rate: f64,
    /// The longest of these stalls; lengths are uniform up to it.
    pub stall_max: Span,
    /// Stalls at given times, in order.
    pub stalls: Vec<(Time, Span)>,
    /// Of the random stalls.
    pub seed: u64,
}

/// What an emulated host did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct EmulatedStats {
    /// Cells of media sent.
    pub sent_cells: u64,
    /// Time from the first of these cells that was ready to the last one sent, in microseconds.
    pub sent_for_us: u64,
    /// Cells that arrived at its interface.
    pub received_cells: u64,
    /// Counters of the interface.
    pub interface: HostStats,
}

impl HostEmulation {
    fn stalls(&self) -> bool {
        self.stall_rate > 0.0 || !self.stalls.is_empty()
    }

    /// What the host costs its station.
    pub(crate) fn costs(&self) -> HostConfig {
        let receives = self.stalls() || self.receive != ReceiveCosts::default();
        HostConfig {
            send: self.send,
            receive: receives.then_some(self.receive),
            grain: GRAIN,
            ..HostConfig::default()
        }
    }
}

/// The emulated host of a running node: its stalls, and what arrived at it. Its costs are in the station.
pub(crate) struct EmulatedHost {
    config: HostEmulation,
    /// Whether receiving costs something.
    receives: bool,
    /// The random stalls of each circuit or flow, and when the next begins.
    random: BTreeMap<(PortId, u32), (Option<Time>, Stalls)>,
    /// Of `config.stalls`, those that have begun.
    begun: usize,
    received_cells: u64,
}

impl EmulatedHost {
    /// The host; `None` if it neither costs anything nor stalls.
    pub fn new(config: HostEmulation) -> Option<EmulatedHost> {
        let costs = config.costs();
        let receives = costs.receive.is_some();
        let host = EmulatedHost {
            config,
            receives,
            random: BTreeMap::new(),
            begun: 0,
            received_cells: 0,
        };
        (receives || costs.send != SendCosts::default()).then_some(host)
    }

    /// A unit arrives on the link of a port.
    pub fn arrived(&mut self, now: Time, port: PortId, pdu: &LinkPdu) {
        if !self.receives {
            return;
        }
        if let Some(circuit) = circuit(pdu)
            && self.config.stall_rate > 0.0
            && self.random.len() < MAX_CIRCUITS
        {
            self.random.entry((port, circuit)).or_insert_with(|| {
                let name = format!("{}/{circuit}/stalls", port.0);
                let stream = Stream::new(self.config.seed, &name);
                let (rate, longest) = (self.config.stall_rate, self.config.stall_max);
                let mut stalls = Stalls::new(rate, longest, stream);
                (stalls.wait().map(|wait| now + wait), stalls)
            });
        }
        self.received_cells += u64::from(pdu.cells());
    }

    /// Begins the stalls that are due.
    pub fn on_timeout(&mut self, now: Time, station: &mut Station) {
        // A stall that begins late ends in time.
        let mut stall = |at: Time, length: Span| station.stall(now, (at + length).since(now));
        while let Some((at, length)) = self.config.stalls.get(self.begun)
            && *at <= now
        {
            stall(*at, *length);
            self.begun += 1;
        }
        for (next, stalls) in self.random.values_mut() {
            while let Some(at) = next.filter(|at| *at <= now) {
                stall(at, stalls.length());
                *next = stalls.wait().map(|wait| at + wait);
            }
        }
    }

    /// When the next stall begins.
    pub fn next_timeout(&self) -> Option<Time> {
        let scripted = self.config.stalls.get(self.begun).map(|(at, _)| *at);
        let random = self.random.values().map(|(next, _)| *next);
        earliest(scripted, random.fold(None, earliest))
    }

    /// What it did.
    pub fn stats(&self, station: &Station) -> EmulatedStats {
        let sent = station.sent();
        EmulatedStats {
            sent_cells: sent.cells,
            sent_for_us: sent.span.as_us(),
            received_cells: self.received_cells,
            interface: station.received().unwrap_or_default(),
        }
    }
}
