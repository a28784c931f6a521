use std::collections::BTreeMap;

use layercast_core::{PortId, Span, Stream, Time, earliest};
use layercast_switch::host::{
    HostStats, ReceiveCosts, ReceivingHost, SendCosts, SendingHost, Stalls,
};
use layercast_wire::{ADAPTER_VCI, LinkPdu};
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

/// The emulated host of a running node.
pub(crate) struct EmulatedHost {
    sending: Option<SendingHost>,
    receiving: Option<ReceivingHost>,
    config: HostEmulation,
    /// The random stalls of each circuit or flow, and when the next begins.
    random: BTreeMap<(PortId, u32), (Option<Time>, Stalls)>,
    /// Of `config.stalls`, those that have begun.
    begun: usize,
    first_sent: Option<Time>,
    stats: EmulatedStats,
}

impl EmulatedHost {
    /// The host; `None` if it neither costs anything nor stalls.
    pub fn new(config: HostEmulation) -> Option<EmulatedHost> {
        let stalls = config.stall_rate > 0.0 || !config.stalls.is_empty();
        let receives = stalls || config.receive != ReceiveCosts::default();
        let host = EmulatedHost {
            sending: SendingHost::new(config.send),
            receiving: receives.then(|| ReceivingHost::new(config.receive)),
            config,
            random: BTreeMap::new(),
            begun: 0,
            first_sent: None,
            stats: EmulatedStats::default(),
        };
        (host.sending.is_some() || host.receiving.is_some()).then_some(host)
    }

    /// Takes what a source sends, or gives it back if sending costs nothing.
    pub fn send(&mut self, now: Time, pdu: LinkPdu) -> Option<LinkPdu> {
        let Some(host) = &mut self.sending else {
            return Some(pdu);
        };
        if circuit(&pdu).is_some() {
            self.first_sent.get_or_insert(now);
        }
        host.push(now, pdu);
        None
    }

    /// Takes a unit from the link of a port, or returns it if receiving costs nothing.
    pub fn arrive(&mut self, now: Time, port: PortId, pdu: LinkPdu) -> Option<LinkPdu> {
        let Some(host) = &mut self.receiving else {
            return Some(pdu);
        };
        if let Some(circuit) = circuit(&pdu)
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
        self.stats.received_cells += u64::from(pdu.cells());
        host.advance(now);
        host.arrive(now, port, pdu);
        None
    }

    /// Begins the stalls that are due.
    pub fn on_timeout(&mut self, now: Time) {
        let Some(host) = &mut self.receiving else {
            return;
        };
        host.advance(now);
        // A stall that begins late ends in time.
        let mut stall = |at: Time, length: Span| host.stall(now, (at + length).since(now));
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

    /// The next PDU of a source that has left by `now`.
    pub fn poll_sent(&mut self, now: Time) -> Option<LinkPdu> {
        let pdu = self.sending.as_mut()?.poll(now)?;
        if let (Some(_), Some(first)) = (circuit(&pdu), self.first_sent) {
            self.stats.sent_cells += u64::from(pdu.cells());
            self.stats.sent_for_us = now.since(first).as_us();
        }
        Some(pdu)
    }

    /// The next PDU that the host has taken in by `now`, and where it came from.
    pub fn poll_received(&mut self, now: Time) -> Option<(PortId, LinkPdu)> {
        self.receiving.as_mut()?.poll(now)
    }

    /// When something is to be done.
    pub fn next_timeout(&self) -> Option<Time> {
        let sent = self.sending.as_ref().and_then(SendingHost::next_done);
        let received = self.receiving.as_ref().and_then(ReceivingHost::next_done);
        let done = earliest(sent, received).map(|at| {
            let grains = at.as_ps().div_ceil(GRAIN.as_ps());
            Time::ZERO + GRAIN.times(grains)
        });
        let scripted = self.config.stalls.get(self.begun).map(|(at, _)| *at);
        let random = self.random.values().map(|(next, _)| *next);
        earliest(earliest(done, scripted), random.fold(None, earliest))
    }

    /// What it did.
    pub fn stats(&self) -> EmulatedStats {
        EmulatedStats {
            interface: self
                .receiving
                .as_ref()
                .map_or_else(HostStats::default, ReceivingHost::stats),
            ..self.stats
        }
    }
}

/// What stalls are reckoned by: the circuit or flow of media.
fn circuit(pdu: &LinkPdu) -> Option<u32> {
    match pdu {
        LinkPdu::Cell(cell) if cell.vci == ADAPTER_VCI => None,
        LinkPdu::Cell(cell) => Some(cell.vci.into()),
        LinkPdu::Mets(packet) => Some(packet.header.flow.0),
        LinkPdu::Adapter(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::CELL_PAYLOAD;
    use layercast_wire::{Cell, Pti};

    use super::*;

    const PORT: PortId = PortId(0);

    fn cell(last: bool) -> LinkPdu {
        LinkPdu::Cell(Cell {
            vpi: 0,
            vci: 64,
            pti: Pti::data(false, last),
            clp: false,
            payload: [0; CELL_PAYLOAD],
        })
    }

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_secs(1) + Span::from_us(us)
    }

    #[test]
    fn a_host_that_costs_nothing_is_none() {
        assert!(EmulatedHost::new(HostEmulation::default()).is_none());
    }

    #[test]
    fn a_cell_leaves_when_the_sender_is_done_with_it() {
        let mut host = EmulatedHost::new(HostEmulation {
            send: SendCosts::PENTIUM_1996,
            ..HostEmulation::default()
        })
        .unwrap();
        for _ in 0..10 {
            assert_eq!(host.send(at(0), cell(false)), None);
        }
        // Eight are done after 248 us: within the first grain.
        assert_eq!(host.next_timeout(), Some(at(250)));
        let left = std::iter::from_fn(|| host.poll_sent(at(250))).count();
        assert_eq!((left, host.stats().sent_cells), (8, 8));
        // A host that only sends receives without delay.
        assert_eq!(host.arrive(at(0), PORT, cell(true)), Some(cell(true)));
    }

    #[test]
    fn an_interface_that_stalls_overflows_and_goes_on() {
        let mut host = EmulatedHost::new(HostEmulation {
            receive: ReceiveCosts::PENTIUM_1996,
            stalls: vec![(at(1_000), Span::from_ms(10))],
            ..HostEmulation::default()
        })
        .unwrap();
        assert_eq!(host.next_timeout(), Some(at(1_000)));
        // It is looked at 200 us late.
        host.on_timeout(at(1_200));
        for i in 0..200 {
            assert_eq!(host.arrive(at(1_200 + i), PORT, cell(false)), None);
        }
        let stats = host.stats();
        assert_eq!(
            (stats.received_cells, stats.interface.dropped_cells),
            (200, 72)
        );
        assert_eq!(stats.interface.stalls, 1);
        assert_eq!(host.poll_received(at(11_000)), None);
        assert_eq!(host.next_timeout(), Some(at(11_250)));
        assert_eq!(host.poll_received(at(11_056)), Some((PORT, cell(false))));
    }

    #[test]
    fn each_circuit_stalls_the_host_at_its_rate() {
        let mut host = EmulatedHost::new(HostEmulation {
            stall_rate: 100.0,
            stall_max: Span::from_us(10),
            ..HostEmulation::default()
        })
        .unwrap();
        host.arrive(at(0), PORT, cell(true));
        while let Some(next) = host.next_timeout().filter(|next| *next < at(10_000_000)) {
            host.on_timeout(next);
            while host.poll_received(next).is_some() {}
        }
        let stalls = host.stats().interface.stalls;
        assert!((900..1_100).contains(&stalls), "{stalls}");
    }
}
