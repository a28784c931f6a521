use std::collections::BTreeMap;

use layercast_core::{PortId, Span, Time, earliest};
use layercast_nif::cpu::{Cpu, CpuConfig, Level, ThreadSpec};
use layercast_wire::LinkPdu;
use serde::Serialize;

use super::ends_packet;

/// What receiving costs a host, and what its interface holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReceiveCosts {
    /// c_rx: interrupt and copy of a cell.
    pub cell: Span,
    /// o_rx: of a packet.
    pub packet: Span,
    /// F: cells the network interface holds; 0 = no bound.
    pub nic_cells: u32,
    /// o_u: user-level cost of a packet.
    pub deliver_packet: Span,
    /// c_u: user-level cost of a cell.
    pub deliver_cell: Span,
}

/// The receive path of a host, from the interface to the transport, and its cost.
///
/// The interface holds a bounded number of cells, which the interrupt handler takes out one by one; the handler
/// stops during stalls. A user process then takes whole packets: the cells before the last one of a packet cost
/// it nothing. A packet that lost a cell in the interface costs it nothing either, nor does the one after a
/// packet whose last cell was lost (AAL5 merges them).
#[derive(Debug)]
pub struct ReceivingHost {
    costs: ReceiveCosts,
    interrupts: Cpu<Held>,
    /// The user process, on a processor of its own: the measured costs are of both beside one another.
    user: Cpu<(PortId, LinkPdu)>,
    process: Level,
    /// Cells in the interface.
    held: u32,
    stalled_until: Time,
    /// The packet in progress of each circuit: at most as many as there are numbers.
    circuits: BTreeMap<(PortId, u16), Circuit>,
    stats: HostStats,
}

/// What is in the interface.
#[derive(Debug)]
struct Held {
    port: PortId,
    pdu: LinkPdu,
    /// What it will cost the user process.
    user: Span,
}

/// What a receiving host did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct HostStats {
    /// Cells that found the interface full.
    pub dropped_cells: u64,
    /// Most cells that were in the interface.
    pub max_cells: u32,
    /// Stalls.
    pub stalls: u64,
}

/// The packet in progress of one circuit.
#[derive(Default, Debug)]
struct Circuit {
    cells: u32,
    damaged: bool,
}

impl ReceiveCosts {
    /// The 90 MHz Pentium of specs/mets.md 3.2.
    pub const PENTIUM_1996: ReceiveCosts = ReceiveCosts {
        cell: Span::from_us(56),
        packet: Span::from_us(100),
        nic_cells: 128,
        deliver_packet: Span::from_us(300),
        deliver_cell: Span::from_us(25),
    };
}

impl ReceivingHost {
    /// An idle host.
    pub fn new(costs: ReceiveCosts) -> ReceivingHost {
        let mut user = Cpu::new(CpuConfig::default());
        ReceivingHost {
            costs,
            interrupts: Cpu::new(CpuConfig::default()),
            process: Level::Thread(user.add_thread(ThreadSpec::default())),
            user,
            held: 0,
            stalled_until: Time::ZERO,
            circuits: BTreeMap::new(),
            stats: HostStats::default(),
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> HostStats {
        self.stats
    }

    /// Takes a PDU off the link of `port`, or drops it. A driver in real time calls
    /// [`advance`](Self::advance) before, so that what is done makes room.
    pub fn arrive(&mut self, now: Time, port: PortId, pdu: LinkPdu) {
        let cells = pdu.cells();
        if self.costs.nic_cells > 0 && self.held.saturating_add(cells) > self.costs.nic_cells {
            self.stats.dropped_cells += u64::from(cells);
            if let LinkPdu::Cell(cell) = &pdu {
                self.circuit(port, cell.vci).damaged = true;
            }
            return;
        }
        self.held += cells;
        self.stats.max_cells = self.stats.max_cells.max(self.held);
        let mut cost = self.costs.cell.times(u64::from(cells));
        if ends_packet(&pdu) {
            cost += self.costs.packet;
        }
        // The decision depends on earlier packets only, not on those that arrive while it waits.
        let user = self.user_cost(port, &pdu);
        let held = Held { port, pdu, user };
        self.interrupts.push(now, Level::Irq, cost, held);
    }

    /// Switches interrupts off for `length` from now on; overlapping stalls are one.
    pub fn stall(&mut self, now: Time, length: Span) {
        self.stats.stalls += 1;
        let until = now.saturating_add(length);
        let longer = until.since(self.stalled_until.max(now));
        self.interrupts.busy_for(now, longer);
        self.stalled_until = self.stalled_until.max(until);
    }

    /// When something is next done.
    pub fn next_done(&self) -> Option<Time> {
        earliest(self.interrupts.next_timeout(), self.user.next_timeout())
    }

    /// Takes out of the interface what the interrupt handler is done with by `now`.
    pub fn advance(&mut self, now: Time) {
        while let Some((done, Held { port, pdu, user })) = self.interrupts.pop_done(now) {
            self.held -= pdu.cells();
            self.user.push(done, self.process, user, (port, pdu));
        }
    }

    /// The next PDU that reached the transport by `now`, and the port it came from.
    pub fn poll(&mut self, now: Time) -> Option<(PortId, LinkPdu)> {
        self.advance(now);
        self.user.pop_done(now).map(|(_, arrived)| arrived)
    }

    fn user_cost(&mut self, port: PortId, pdu: &LinkPdu) -> Span {
        let ReceiveCosts {
            deliver_packet,
            deliver_cell,
            ..
        } = self.costs;
        let cells = match pdu {
            LinkPdu::Mets(_) | LinkPdu::Adapter(_) => pdu.cells(),
            LinkPdu::Cell(cell) => {
                let ends = cell.pti.auu();
                let circuit = self.circuit(port, cell.vci);
                circuit.cells += 1;
                if !ends {
                    return Span::ZERO;
                }
                let cells = std::mem::take(&mut circuit.cells);
                if std::mem::take(&mut circuit.damaged) {
                    return Span::ZERO;
                }
                cells
            }
        };
        deliver_packet + deliver_cell.times(u64::from(cells))
    }

    fn circuit(&mut self, port: PortId, vci: u16) -> &mut Circuit {
        self.circuits.entry((port, vci)).or_default()
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::CELL_PAYLOAD;
    use layercast_wire::{Cell, Pti};

    use super::*;

    fn cell(last: bool) -> LinkPdu {
        LinkPdu::Cell(Cell {
            vpi: 0,
            vci: 64,
            pti: Pti::data(false, last),
            clp: false,
            payload: [0; CELL_PAYLOAD],
        })
    }

    fn us(n: u64) -> Time {
        Time::ZERO + Span::from_us(n)
    }

    const PORT: PortId = PortId(0);

    fn pentium() -> ReceivingHost {
        ReceivingHost::new(ReceiveCosts::PENTIUM_1996)
    }

    /// Runs the host until it is idle; when each PDU reached the transport.
    fn drain(host: &mut ReceivingHost) -> Vec<Time> {
        let mut done = Vec::new();
        while let Some(at) = host.next_done() {
            while host.poll(at).is_some() {
                done.push(at);
            }
        }
        done
    }

    #[test]
    fn a_packet_costs_what_the_table_says() {
        let mut host = pentium();
        host.arrive(us(0), PORT, cell(false));
        host.arrive(us(4), PORT, cell(true));
        // 2 * 56 + 100 us of interrupts, then 300 + 2 * 25 us of the user process.
        assert_eq!(drain(&mut host), [us(56), us(212 + 350)]);
    }

    #[test]
    fn cells_beyond_the_interface_are_dropped_and_their_packet_is_not_delivered() {
        let mut host = pentium();
        for _ in 0..130 {
            host.arrive(us(0), PORT, cell(false));
        }
        assert_eq!(host.stats().dropped_cells, 2);
        drain(&mut host);
        host.arrive(us(100_000), PORT, cell(true));
        assert_eq!(drain(&mut host), [us(100_156)]);
    }

    #[test]
    fn a_packet_that_came_whole_is_paid_for_though_the_next_one_is_damaged() {
        let mut host = pentium();
        host.arrive(us(0), PORT, cell(false));
        host.arrive(us(0), PORT, cell(true));
        for _ in 0..130 {
            host.arrive(us(0), PORT, cell(false));
        }
        assert_eq!(host.stats().dropped_cells, 4);
        assert_eq!(drain(&mut host)[1], us(2 * 56 + 100 + 350));
        // The damaged one costs the interrupts alone.
        host.arrive(us(20_000), PORT, cell(true));
        assert_eq!(drain(&mut host), [us(20_156)]);
    }

    #[test]
    fn stalls_hold_the_interrupts_back_and_do_not_add_up() {
        let mut host = pentium();
        host.stall(us(0), Span::from_us(1_000));
        host.stall(us(500), Span::from_us(600));
        host.arrive(us(600), PORT, cell(false));
        assert_eq!(drain(&mut host), [us(1_156)]);
    }

    #[test]
    fn a_saturated_host_takes_17_800_cells_per_second() {
        let mut host = ReceivingHost::new(ReceiveCosts {
            nic_cells: 0,
            ..ReceiveCosts::PENTIUM_1996
        });
        for _ in 0..17_857 {
            host.arrive(us(0), PORT, cell(false));
        }
        let last = drain(&mut host).pop().unwrap();
        assert_eq!(last, us(17_857 * 56));
    }

    #[test]
    fn who_asks_late_loses_no_room_and_changes_no_departure() {
        let mut host = pentium();
        for i in 0..1_000 {
            let now = us(i * 56);
            host.advance(now);
            host.arrive(now, PORT, cell(i == 999));
        }
        assert_eq!(host.stats().dropped_cells, 0);
        // The user process has the last cell immediately after the last interrupt.
        host.advance(us(1_000_000));
        assert_eq!(host.next_done(), Some(us(56)));
        assert_eq!(
            drain(&mut host).pop(),
            Some(us(1_000 * 56 + 100 + 300 + 25_000))
        );
    }

    #[test]
    fn circuits_of_two_links_are_two_though_they_have_one_number() {
        let mut host = pentium();
        for _ in 0..130 {
            host.arrive(us(0), PORT, cell(false));
        }
        drain(&mut host);
        let other = PortId(1);
        host.arrive(us(100_000), other, cell(true));
        assert_eq!(host.next_done(), Some(us(100_156)));
        assert_eq!(host.poll(us(100_156)), None);
        assert_eq!(host.poll(us(100_156 + 325)), Some((other, cell(true))));
    }
}
