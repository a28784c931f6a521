use layercast_core::{Span, Time};

use crate::{CellContractError, Gcra, Sustained};

/// Spaces the cells of a circuit so that they conform to its contract (specs/vbr-atm-lan.md 2.7).
///
/// Keeps the two buckets of the policer and computes when a cell or a PDU may be sent; the driver sends it and
/// confirms. A circuit may use cells, PDUs, or both. With a burst of one cell it spaces cells at the sustainable
/// rate.
#[derive(Debug)]
pub struct CellShaper {
    peak_period: Span,
    peak: Gcra,
    sustained: Gcra,
}

impl CellShaper {
    /// Creates a shaper for a peak of one cell per `peak_period`, without tolerance, and a sustainable rate.
    pub fn new(peak_period: Span, sustained: &Sustained) -> Result<CellShaper, CellContractError> {
        sustained.validate(peak_period)?;
        Ok(CellShaper {
            peak_period,
            peak: Gcra::new(peak_period, Span::ZERO),
            sustained: Gcra::with_burst(sustained.period, sustained.burst, peak_period),
        })
    }

    /// When a cell that is ready at `ready` may be sent: a dual leaky bucket.
    pub fn next_cell(&self, ready: Time) -> Time {
        ready.max(self.peak.next()).max(self.sustained.next())
    }

    /// Confirms a cell, sent not before [`CellShaper::next_cell`].
    pub fn send_cell(&mut self, at: Time) {
        self.send_pdu(at, 1);
    }

    /// When a whole PDU may be sent at the peak rate; `None` if it is longer than the burst.
    pub fn next_pdu(&self, ready: Time, cells: u32) -> Option<Time> {
        let earliest = self.sustained.earliest(cells, self.peak_period)?;
        Some(ready.max(self.peak.next()).max(earliest))
    }

    /// Confirms the start of a PDU, not before [`CellShaper::next_pdu`].
    pub fn send_pdu(&mut self, at: Time, cells: u32) {
        self.peak.commit_n(at, cells);
        self.sustained.commit_n(at, cells);
    }
}

/// Sends PDUs as [`CellShaper`] allows, but only at the ticks of a host clock: at each tick the waiting PDUs that
/// conform are sent back to back (specs/vbr-atm-lan.md 2.7 d). Waiting loses no credit, up to the burst of the
/// contract.
#[derive(Debug)]
pub struct TickedShaper {
    shaper: CellShaper,
    tick: Span,
    /// The tick of the last PDU.
    last: Time,
}

impl TickedShaper {
    /// Creates a shaper with ticks at multiples of `tick`.
    pub fn new(shaper: CellShaper, tick: Span) -> TickedShaper {
        TickedShaper {
            shaper,
            tick,
            last: Time::ZERO,
        }
    }

    /// When a PDU that arrived at `came` is sent, after all earlier ones; it is accounted for. `None`, without
    /// effect, if it is longer than the burst.
    pub fn send_pdu(&mut self, came: Time, cells: u32) -> Option<Time> {
        let fits = self.shaper.next_pdu(Time::ZERO, cells)?;
        let mut tick = self.up(came).max(self.last);
        // It may conform only after the earlier PDUs of the tick have been sent.
        if fits > tick.max(self.shaper.peak.next()) {
            tick = self.up(fits);
        }
        let at = tick.max(self.shaper.peak.next());
        self.shaper.send_pdu(at, cells);
        self.last = tick;
        Some(at)
    }

    /// When the next cell of a PDU longer than the burst is sent; it is accounted for.
    pub fn send_cell(&mut self, ready: Time) -> Time {
        let at = self.shaper.next_cell(ready);
        self.shaper.send_cell(at);
        at
    }

    fn up(&self, at: Time) -> Time {
        let tick = self.tick.as_ps().max(1);
        Time::from_ps(at.as_ps().div_ceil(tick).saturating_mul(tick))
    }
}

/// Tags excess cells before the network does (specs/vbr-atm-lan.md 2.7 e): of a PDU that does not conform as a whole,
/// all cells except the last are tagged with CLP = 1; without its last cell the next PDU would be lost as well.
#[derive(Debug)]
pub struct TaggingShaper {
    shaper: CellShaper,
}

impl TaggingShaper {
    /// Creates a shaper for a contract whose sustainable rate applies to CLP = 0 only.
    pub fn new(shaper: CellShaper) -> TaggingShaper {
        TaggingShaper { shaper }
    }

    /// When a PDU that is ready at `ready` is sent at the peak rate, and whether all its cells except the last are
    /// tagged; it is accounted for. It waits only until its last cell conforms.
    pub fn send_pdu(&mut self, ready: Time, cells: u32) -> (Time, bool) {
        let CellShaper {
            peak_period,
            ref mut peak,
            ref mut sustained,
        } = self.shaper;
        let at = ready.max(peak.next());
        if sustained.peek_n(at, cells, peak_period) {
            self.shaper.send_pdu(at, cells);
            return (at, false);
        }
        let to_last = peak_period.times(u64::from(cells.saturating_sub(1)));
        let at = at.max(sustained.next().saturating_sub(to_last));
        peak.commit_n(at, cells);
        sustained.commit(at + to_last);
        (at, true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Cell, CellContract, CellFlags, Conformance, FrameId, Peak, Upc, Vcid, Verdict};

    fn policer(peak: Span, sustained: Sustained) -> Upc {
        policer_of(peak, sustained, Conformance::C)
    }

    fn policer_of(peak: Span, sustained: Sustained, conformance: Conformance) -> Upc {
        let contract = CellContract::Vbr {
            peak: Peak {
                period: peak,
                tolerance: Span::ZERO,
            },
            sustained,
            conformance,
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

        #[test]
        fn conforming_pdus_leave_whole_at_the_earliest_tick(
            peak in 1u64..50, more in 1u64..200, burst in 1u32..60, tick in 1u64..5_000,
            pdus in prop::collection::vec((0u64..20_000, 1u32..80), 1..60),
        ) {
            let sustained = Sustained { period: Span::from_ps(peak + more), burst };
            let [peak, tick] = [peak, tick].map(Span::from_ps);
            let shaper = || CellShaper::new(peak, &sustained).expect("a good contract");
            let (mut ticked, mut free) = (TickedShaper::new(shaper(), tick), shaper());
            let mut upc = policer(peak, sustained);
            let (mut came, mut batch) = (Time::ZERO, Time::ZERO);
            for (gap, cells) in pdus.into_iter().filter(|(_, cells)| *cells <= burst) {
                came += Span::from_ps(gap);
                let allowed = free.next_pdu(came, cells).expect("shorter than the burst");
                let (end, at) = (free.peak.next(), ticked.send_pdu(came, cells).expect("shorter than the burst"));
                // At a tick, or directly after other PDUs of the tick.
                prop_assert!(at.as_ps().is_multiple_of(tick.as_ps()) || at == end);
                if at != end {
                    batch = at;
                }
                prop_assert!(came <= batch || at == end && came <= at);
                prop_assert!(at >= allowed && at < allowed.max(end) + tick);
                free.send_pdu(at, cells);
                for index in 0..cells {
                    prop_assert!(passes(&mut upc, at + peak.times(u64::from(index))));
                }
            }
            prop_assert_eq!(ticked.send_pdu(came, burst + 1), None);
        }

        #[test]
        fn preventive_tags_avoid_tagging_and_keep_the_last_cell(
            peak in 1u64..50, more in 1u64..200, burst in 1u32..60, tags: bool,
            pdus in prop::collection::vec((0u64..20_000, 1u32..80), 1..60),
        ) {
            let sustained = Sustained { period: Span::from_ps(peak + more), burst };
            let peak = Span::from_ps(peak);
            let conformance = if tags { Conformance::B } else { Conformance::A };
            let mut upc = policer_of(peak, sustained, conformance);
            let mut shaper = TaggingShaper::new(CellShaper::new(peak, &sustained).expect("a good contract"));
            let mut ready = Time::ZERO;
            for (gap, cells) in pdus {
                ready += Span::from_ps(gap);
                let (at, marked) = shaper.send_pdu(ready, cells);
                for index in 0..cells {
                    let mut cell = Cell::of(FrameId(1), Vcid(1), index, cells);
                    if marked && !cell.is_last() {
                        cell.flags = cell.flags.with(CellFlags::LOW);
                    }
                    let low = cell.is_low();
                    let verdict = upc.police(at + peak.times(u64::from(index)), &mut cell);
                    prop_assert_eq!((verdict, cell.is_low()), (Verdict::Pass, low));
                }
            }
        }
    }

    #[test]
    fn bursts_go_at_the_peak_and_the_rest_at_the_sustainable_rate() {
        // specs/vbr-atm-lan.md 3: PDUs of 9188 octets, 192 cells, MBS 1000.
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
        // With a burst of one cell, all cells are that far apart.
        let spaced = Sustained {
            burst: 1,
            ..sustained
        };
        let mut shaper = CellShaper::new(peak, &spaced).expect("a good contract");
        shaper.send_cell(Time::ZERO);
        assert_eq!(shaper.next_cell(Time::ZERO), Time::ZERO + sustained.period);
    }
}
