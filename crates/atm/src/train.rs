use layercast_core::Span;

use crate::{Sustained, burst_size};

/// Octets that LLC/SNAP and the AAL5 trailer add to a packet.
const OVERHEAD: u64 = 16;
const PAYLOAD: u64 = 48;

/// A regular train of AAL5 PDUs as a host sends it: cells at the peak rate, then a gap (specs/vbr-atm-lan.md 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Train {
    /// Cells of a PDU.
    pub cells: u32,
    /// Interval between cells of a PDU.
    pub peak: Span,
    /// Gap from the end of a PDU to the start of the next.
    pub gap: Span,
}

/// Number of cells of a packet with LLC/SNAP and AAL5.
pub fn cells_of_packet(octets: u64) -> u64 {
    octets.saturating_add(OVERHEAD).div_ceil(PAYLOAD)
}

impl Train {
    /// Number of PDUs that conform as a whole from an idle bucket on, Eq (2) in closed form; `None` if unlimited.
    ///
    /// With `d = T_SCR - T_PCR`, the last cell of PDU `p` is `(p-1)(c d - gap) + (c-1) d` too early.
    pub fn accepted(&self, contract: &Sustained) -> Option<u64> {
        let each = u128::from(contract.period.saturating_sub(self.peak).as_ps());
        let cells = u128::from(self.cells);
        if each == 0 || cells == 0 {
            return None;
        }
        let Some(room) = u128::from(contract.burst).checked_sub(cells) else {
            return Some(0);
        };
        match (cells * each).checked_sub(u128::from(self.gap.as_ps())) {
            None | Some(0) => None,
            Some(deficit) => Some((1 + room * each / deficit) as u64),
        }
    }

    /// The pause after which an exhausted bucket accepts one more PDU: `c (T_SCR - T_PCR)`.
    pub fn pause_needed(&self, contract: &Sustained) -> Span {
        let each = contract.period.saturating_sub(self.peak);
        each.times(u64::from(self.cells))
    }
}

/// Largest number of cells per PDU in an unlimited regular flow, Eq (3): cells are spaced by `peak`, and `spacing` is
/// the time from the start of the last to the start of the first of the next PDU. `None` if there is no limit.
pub fn steady_cells(contract: &Sustained, peak: Span, spacing: Span) -> Option<u64> {
    let Sustained { period, burst } = *contract;
    if spacing < period {
        return Some(0);
    }
    let earned = spacing.saturating_sub(period);
    let cells = burst_size(earned, period, peak)?;
    Some(cells.min(u64::from(burst)))
}

#[cfg(test)]
mod tests {
    use layercast_core::Time;
    use proptest::prelude::*;

    use super::*;
    use crate::Gcra;

    fn contract(period: u64, burst: u32) -> Sustained {
        Sustained {
            period: Span::from_ps(period),
            burst,
        }
    }

    /// Number of whole PDUs before the first non-conforming cell, at most `most`.
    fn count(train: &Train, contract: &Sustained, most: u64) -> u64 {
        let mut gcra = Gcra::with_burst(contract.period, contract.burst, train.peak);
        let mut now = Time::ZERO;
        for pdu in 0..most {
            for _ in 0..train.cells {
                if !gcra.offer(now) {
                    return pdu;
                }
                now += train.peak;
            }
            now += train.gap;
        }
        most
    }

    proptest! {
        #[test]
        fn the_closed_form_counts_what_the_gcra_lets_pass(
            cells in 1u32..40, peak in 1u64..50, more in 0u64..200, burst in 1u32..300,
            gap in 0u64..9_000,
        ) {
            let [peak_span, gap] = [peak, gap].map(Span::from_ps);
            let train = Train { cells, peak: peak_span, gap };
            let contract = contract(peak + more, burst);
            match train.accepted(&contract) {
                Some(pdus) => prop_assert_eq!(count(&train, &contract, pdus + 1), pdus),
                None => prop_assert_eq!(count(&train, &contract, 200), 200),
            }
            let pause = train.pause_needed(&contract);
            let slow = Train { gap: pause, ..train };
            prop_assert_eq!(slow.accepted(&contract), (more > 0 && burst < cells).then_some(0));
        }

        #[test]
        fn a_steady_flow_is_as_large_as_it_can_be(
            peak in 1u64..50, more in 1u64..200, burst in 1u32..40, spacing in 0u64..9_000,
        ) {
            let contract = contract(peak + more, burst);
            let [peak, spacing] = [peak, spacing].map(Span::from_ps);
            let cells = steady_cells(&contract, peak, spacing).expect("a limit") as u32;
            let gap = spacing.saturating_sub(peak);
            let flow = |cells, most| count(&Train { cells, peak, gap }, &contract, most) == most;
            prop_assert!(cells == 0 || flow(cells, 1_000));
            // One further cell uses up the tolerance, less than 8000 ps, by at least a picosecond each time. A
            // spacing below the peak is not a train.
            prop_assert!(spacing < peak || !flow(cells + 1, 10_000));
        }
    }

    #[test]
    fn bursts_of_the_paper() {
        // specs/vbr-atm-lan.md 5.2: MTU, time from PDU to PDU, PDUs for MBS 1000 to 4000. The times are those of the
        // paper for the two large MTUs, and for the others those of a line through these, to 0.1 us: at 552
        // octets a tenth more or less changes single entries by one.
        let table = [
            (9_188, 900_000, [5, 8, 10, 13, 16, 19, 21]),
            (4_832, 600_000, [10, 16, 21, 26, 32, 37, 43]),
            (1_500, 370_500, [39, 60, 80, 100, 120, 140, 160]),
            (552, 305_200, [193, 290, 388, 485, 583, 680, 778]),
        ];
        let peak = Span::from_ns(2_726);
        for (mtu, pdu_to_pdu, accepted) in table {
            let cells = cells_of_packet(mtu);
            let train = Train {
                cells: cells as u32,
                peak,
                gap: Span::from_ns(pdu_to_pdu).saturating_sub(peak.times(cells)),
            };
            for (burst, accepted) in (1_000..).step_by(500).zip(accepted) {
                let contract = contract(42_400_000, burst);
                assert_eq!(train.accepted(&contract), Some(accepted), "{mtu} {burst}");
            }
        }
        let train = Train {
            cells: 192,
            peak,
            gap: Span::ZERO,
        };
        let contract = contract(42_400_000, 1_000);
        assert_eq!(train.pause_needed(&contract).as_us(), 7_617);
        // Start to start the same gap is a peak period longer: 7.620 ms.
        let spacing = Span::from_ns(7_617_408 + 2_726);
        assert_eq!(steady_cells(&contract, peak, spacing), Some(192));
        assert_eq!(
            steady_cells(&contract, peak, spacing.saturating_sub(Span::from_ns(1))),
            Some(191)
        );
    }
}
