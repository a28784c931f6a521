use layercast_core::{Span, Time};

use crate::{CellContractError, Gcra, Sustained};

/// Sends the cells of a circuit so that a policer of its contract finds nothing (vbr-atm-lan.md 2.7).
///
/// It keeps the policer's two buckets and says when a cell or a PDU may go; the driver sends it then and
/// says so. A circuit uses cells or PDUs, as its adapter can; both may be mixed. With a burst of one cell it
/// spaces cells at the sustainable rate.
#[derive(Debug)]
pub struct CellShaper {
    peak_period: Span,
    peak: Gcra,
    sustained: Gcra,
}

impl CellShaper {
    /// For a peak of one cell each `peak_period`, without tolerance, and a sustainable rate.
    pub fn new(peak_period: Span, sustained: &Sustained) -> Result<CellShaper, CellContractError> {
        sustained.validate(peak_period)?;
        Ok(CellShaper {
            peak_period,
            peak: Gcra::new(peak_period, Span::ZERO),
            sustained: Gcra::with_burst(sustained.period, sustained.burst, peak_period),
        })
    }

    /// When a cell that is ready at `ready` may go: a dual leaky bucket.
    pub fn next_cell(&self, ready: Time) -> Time {
        ready.max(self.peak.next()).max(self.sustained.next())
    }

    /// A cell goes, not before [`CellShaper::next_cell`].
    pub fn send_cell(&mut self, at: Time) {
        self.send_pdu(at, 1);
    }

    /// When a PDU may go whole at the peak rate; never if it is longer than the burst.
    pub fn next_pdu(&self, ready: Time, cells: u32) -> Option<Time> {
        let earliest = self.sustained.earliest(cells, self.peak_period)?;
        Some(ready.max(self.peak.next()).max(earliest))
    }

    /// A PDU begins to go, not before [`CellShaper::next_pdu`].
    pub fn send_pdu(&mut self, at: Time, cells: u32) {
        self.peak.commit_n(at, cells);
        self.sustained.commit_n(at, cells);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Cell, CellContract, Conformance, FrameId, Peak, Upc, Vcid, Verdict};

    fn policer(peak: Span, sustained: Sustained) -> Upc {
        let contract = CellContract::Vbr {
            peak: Peak {
                period: peak,
                tolerance: Span::ZERO,
            },
            sustained,
            conformance: Conformance::C,
        };
        Upc::new(&contract).expect("a good contract")
    }

    fn passes(upc: &mut Upc, at: Time) -> bool {
        let mut cell = Cell::of(FrameId(1), Vcid(1), 0, 1);
        upc.police(at, &mut cell) == Verdict::Pass
    }

    proptest! {
        #[test]
        fn nothing_shaped_is_discarded_and_nothing_waits_in_vain(
            peak in 1u64..50, more in 0u64..200, burst in 1u32..60,
            pdus in prop::collection::vec((0u64..20_000, 1u32..80, any::<bool>()), 1..60),
        ) {
            let sustained = Sustained { period: Span::from_ps(peak + more), burst };
            let peak = Span::from_ps(peak);
            let mut shaper = CellShaper::new(peak, &sustained).expect("a good contract");
            let mut upc = policer(peak, sustained);
            let mut ready = Time::ZERO;
            for (gap, cells, whole) in pdus {
                ready += Span::from_ps(gap);
                match shaper.next_pdu(ready, cells).filter(|_| whole) {
                    Some(at) => {
                        let (p, s) = (shaper.peak, shaper.sustained);
                        let sooner = at.saturating_sub(Span::from_ps(1));
                        let fits = p.peek(sooner) && s.peek_n(sooner, cells, peak);
                        prop_assert!(at == ready || !fits);
                        shaper.send_pdu(at, cells);
                        for index in 0..cells {
                            prop_assert!(passes(&mut upc, at + peak.times(u64::from(index))));
                        }
                    }
                    None => {
                        prop_assert!(!whole || cells > burst && more > 0);
                        for _ in 0..cells {
                            let at = shaper.next_cell(ready);
                            let sooner = at.saturating_sub(Span::from_ps(1));
                            let fits = shaper.peak.peek(sooner) && shaper.sustained.peek(sooner);
                            prop_assert!(at == ready || !fits);
                            shaper.send_cell(at);
                            prop_assert!(passes(&mut upc, at));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bursts_go_at_the_peak_and_the_rest_at_the_sustainable_rate() {
        // vbr-atm-lan.md 3: PDUs of 9188 octets, 192 cells, MBS 1000.
        let sustained = Sustained {
            period: Span::from_ns(42_400),
            burst: 1_000,
        };
        let peak = Span::from_ns(2_726);
        let mut shaper = CellShaper::new(peak, &sustained).expect("a good contract");
        let mut begun = Vec::new();
        for _ in 0..50 {
            let at = shaper
                .next_pdu(Time::ZERO, 192)
                .expect("shorter than the burst");
            shaper.send_pdu(at, 192);
            begun.push(at);
        }
        let at_peak = begun
            .windows(2)
            .take_while(|pair| pair[0] + peak.times(192) == pair[1]);
        assert_eq!(at_peak.count() + 1, 1_000 / 192);
        let steady = begun[49].since(begun[48]);
        assert_eq!(steady, sustained.period.times(192));
        assert_eq!(shaper.next_pdu(Time::ZERO, 1_001), None);
        // With a burst of one, all cells are that far apart.
        let spaced = Sustained {
            burst: 1,
            ..sustained
        };
        let mut shaper = CellShaper::new(peak, &spaced).expect("a good contract");
        shaper.send_cell(Time::ZERO);
        assert_eq!(shaper.next_cell(Time::ZERO), Time::ZERO + sustained.period);
    }
}
