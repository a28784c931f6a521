//! The receiving host of mets.md 3.2: network interface, interrupts, stalls, user process.

use layercast_core::{Span, Time, earliest};
use layercast_wire::LinkPdu;
use serde::Serialize;

use crate::cpu::Cpu;
use crate::scenario::HostProfile;

/// What arrives at a host on its way to the transport, and what that costs.
///
/// The interface holds a bounded number of cells, which the interrupt handler takes out one by
/// one; the handler stops during stalls. A user process then takes whole packets: the cells before
/// the last one of a packet cost it nothing. A packet that lost a cell in the interface costs it
/// nothing either, nor does the one after a packet whose last cell was lost (AAL5 merges them).
#[derive(Debug)]
pub struct ReceivingHost {
    profile: HostProfile,
    /// With what each will cost the user process.
    interrupts: Cpu<(LinkPdu, Span)>,
    user: Cpu<LinkPdu>,
    /// Cells in the interface.
    held: u32,
    stalled_until: Time,
    circuits: Vec<Circuit>,
    stats: HostStats,
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
#[derive(Debug)]
struct Circuit {
    vci: u16,
    cells: u32,
    damaged: bool,
}

impl ReceivingHost {
    /// An idle host, or `None` if its profile costs nothing.
    pub fn new(profile: HostProfile) -> Option<ReceivingHost> {
        let ideal = HostProfile {
            send_cell: profile.send_cell,
            send_packet: profile.send_packet,
            switch_cell: profile.switch_cell,
            clock_tick: profile.clock_tick,
            ..HostProfile::default()
        };
        (profile != ideal).then(|| ReceivingHost {
            profile,
            interrupts: Cpu::new(),
            user: Cpu::new(),
            held: 0,
            stalled_until: Time::ZERO,
            circuits: Vec::new(),
            stats: HostStats::default(),
        })
    }

    /// What happened so far.
    pub fn stats(&self) -> HostStats {
        self.stats
    }

    /// Takes a PDU off the link, or drops it.
    pub fn arrive(&mut self, now: Time, pdu: LinkPdu) {
        let cells = pdu.cells();
        if self.profile.nic_cells > 0 && self.held.saturating_add(cells) > self.profile.nic_cells {
            self.stats.dropped_cells += u64::from(cells);
            if let LinkPdu::Cell(cell) = &pdu {
                self.circuit(cell.vci).damaged = true;
            }
            return;
        }
        self.held += cells;
        self.stats.max_cells = self.stats.max_cells.max(self.held);
        let mut cost = self.profile.receive_cell.times(u64::from(cells));
        if ends_packet(&pdu) {
            cost += self.profile.receive_packet;
        }
        // Judged by what came before it, not by what comes while it waits.
        let user = self.user_cost(&pdu);
        self.interrupts.push(now, cost, (pdu, user));
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
        earliest(self.interrupts.next_done(), self.user.next_done())
    }

    /// The next PDU that reached the transport by `now`.
    pub fn poll(&mut self, now: Time) -> Option<LinkPdu> {
        while let Some((pdu, user)) = self.interrupts.pop_done(now) {
            self.held -= pdu.cells();
            self.user.push(now, user, pdu);
        }
        self.user.pop_done(now)
    }

    fn user_cost(&mut self, pdu: &LinkPdu) -> Span {
        let HostProfile {
            deliver_packet,
            deliver_cell,
            ..
        } = self.profile;
        let cells = match pdu {
            LinkPdu::Mets(_) | LinkPdu::Adapter(_) => pdu.cells(),
            LinkPdu::Cell(cell) => {
                let ends = cell.pti.auu();
                let circuit = self.circuit(cell.vci);
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

    fn circuit(&mut self, vci: u16) -> &mut Circuit {
        let place = match self.circuits.iter().position(|circuit| circuit.vci == vci) {
            Some(place) => place,
            None => {
                self.circuits.push(Circuit {
                    vci,
                    cells: 0,
                    damaged: false,
                });
                self.circuits.len() - 1
            }
        };
        &mut self.circuits[place]
    }
}

/// Whether a packet ends with this PDU (or begins, where the first cell is marked).
pub fn ends_packet(pdu: &LinkPdu) -> bool {
    match pdu {
        LinkPdu::Cell(cell) => cell.pti.auu(),
        LinkPdu::Mets(_) | LinkPdu::Adapter(_) => true,
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

    fn pentium() -> ReceivingHost {
        ReceivingHost::new(HostProfile::pentium_1996()).unwrap()
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
    fn an_ideal_host_is_no_host() {
        assert!(ReceivingHost::new(HostProfile::default()).is_none());
    }

    #[test]
    fn a_packet_costs_what_the_table_says() {
        let mut host = pentium();
        host.arrive(us(0), cell(false));
        host.arrive(us(4), cell(true));
        // 2 * 56 + 100 us of interrupts, then 300 + 2 * 25 us of the user process.
        assert_eq!(drain(&mut host), [us(56), us(212 + 350)]);
    }

    #[test]
    fn cells_beyond_the_interface_are_dropped_and_their_packet_is_not_delivered() {
        let mut host = pentium();
        for _ in 0..130 {
            host.arrive(us(0), cell(false));
        }
        assert_eq!(host.stats().dropped_cells, 2);
        drain(&mut host);
        host.arrive(us(100_000), cell(true));
        assert_eq!(drain(&mut host), [us(100_156)]);
    }

    #[test]
    fn a_packet_that_came_whole_is_paid_for_though_the_next_one_is_damaged() {
        let mut host = pentium();
        host.arrive(us(0), cell(false));
        host.arrive(us(0), cell(true));
        for _ in 0..130 {
            host.arrive(us(0), cell(false));
        }
        assert_eq!(host.stats().dropped_cells, 4);
        assert_eq!(drain(&mut host)[1], us(2 * 56 + 100 + 350));
        // The damaged one costs the interrupts alone.
        host.arrive(us(20_000), cell(true));
        assert_eq!(drain(&mut host), [us(20_156)]);
    }

    #[test]
    fn stalls_hold_the_interrupts_back_and_do_not_add_up() {
        let mut host = pentium();
        host.stall(us(0), Span::from_us(1_000));
        host.stall(us(500), Span::from_us(600));
        host.arrive(us(600), cell(false));
        assert_eq!(drain(&mut host), [us(1_156)]);
    }

    #[test]
    fn a_saturated_host_takes_17_800_cells_per_second() {
        let mut host = ReceivingHost::new(HostProfile {
            nic_cells: 0,
            ..HostProfile::pentium_1996()
        })
        .unwrap();
        for _ in 0..17_857 {
            host.arrive(us(0), cell(false));
        }
        let last = drain(&mut host).pop().unwrap();
        assert_eq!(last, us(17_857 * 56));
    }
}
