use layercast_core::{Span, Time};
use layercast_nif::cpu::{Cpu, CpuConfig, Level, ThreadSpec};
use layercast_wire::LinkPdu;

use super::ends_packet;

/// What sending costs a host.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SendCosts {
    /// c_tx: of a cell.
    pub cell: Span,
    /// o_tx: of a packet; it falls on the packet's marked cell.
    pub packet: Span,
}

/// The processor of a sending host: one PDU after the other, each at its cost.
#[derive(Debug)]
pub struct SendingHost {
    costs: SendCosts,
    cpu: Cpu<LinkPdu>,
    process: Level,
}

impl SendCosts {
    /// The 90 MHz Pentium of specs/mets.md 3.2.
    pub const PENTIUM_1996: SendCosts = SendCosts {
        cell: Span::from_us(31),
        packet: Span::from_us(200),
    };
}

impl SendingHost {
    /// An idle host, or `None` if sending costs nothing.
    pub fn new(costs: SendCosts) -> Option<SendingHost> {
        (costs != SendCosts::default()).then(|| {
            let mut cpu = Cpu::new(CpuConfig::default());
            SendingHost {
                costs,
                process: Level::Thread(cpu.add_thread(ThreadSpec::default())),
                cpu,
            }
        })
    }

    /// Takes what a source sends.
    pub fn push(&mut self, now: Time, pdu: LinkPdu) {
        let mut cost = self.costs.cell.times(u64::from(pdu.cells()));
        if ends_packet(&pdu) {
            cost += self.costs.packet;
        }
        self.cpu.push(now, self.process, cost, pdu);
    }

    /// When the next PDU leaves.
    pub fn next_done(&self) -> Option<Time> {
        self.cpu.next_timeout()
    }

    /// The next PDU that has left by `now`.
    pub fn poll(&mut self, now: Time) -> Option<LinkPdu> {
        self.cpu.pop_done(now).map(|(_, pdu)| pdu)
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::CELL_PAYLOAD;
    use layercast_wire::{Cell, Pti};

    use super::*;

    #[test]
    fn a_sender_takes_its_time_for_each_cell_and_each_packet() {
        let mut host = SendingHost::new(SendCosts::PENTIUM_1996).unwrap();
        let start = Time::ZERO + Span::from_secs(1);
        for last in [false, false, true] {
            let cell = Cell {
                vpi: 0,
                vci: 64,
                pti: Pti::data(false, last),
                clp: false,
                payload: [0; CELL_PAYLOAD],
            };
            host.push(start, LinkPdu::Cell(cell));
        }
        let mut left = Vec::new();
        while let Some(at) = host.next_done() {
            assert!(host.poll(at).is_some());
            left.push(at.since(start).as_us());
        }
        assert_eq!(left, [31, 62, 293]);
    }

    #[test]
    fn a_host_that_costs_nothing_is_none() {
        assert!(SendingHost::new(SendCosts::default()).is_none());
    }
}
