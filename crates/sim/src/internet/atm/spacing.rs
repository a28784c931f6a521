//! When the cells of a flow with a contract leave the adapter.

use layercast_atm::{
    CellContract, CellContractError, CellShaper, Peak, Sustained, TaggingShaper, TickedShaper,
};
use layercast_core::{Span, Time};

use crate::internet::network::{ContractTerms, Shape};

/// When the next cell may go.
#[derive(Debug)]
pub(super) enum Spacing {
    /// At a fixed distance after the previous one; `None`: as fast as the link allows.
    Even { period: Option<Span>, next: Time },
    /// By both rates.
    Cells(CellShaper),
    /// Packets begin when all their cells may go at the peak rate.
    Packets(CellShaper, Span),
    /// The same at ticks of a clock.
    Ticks(TickedShaper, Span),
    /// At the peak rate, marked if they do not conform.
    Tagged(TaggingShaper, Span),
}

/// How the cells of a packet go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When the first does.
    pub at: Time,
    /// The distance of the others, if that is settled.
    pub even: Option<Span>,
    /// All but the last may be discarded first.
    pub low: bool,
}

impl Spacing {
    pub fn new(terms: &ContractTerms) -> Result<Spacing, CellContractError> {
        let Peak { period: peak, .. } = terms.contract.peak();
        let sustained = match terms.contract {
            CellContract::Vbr { sustained, .. } => sustained,
            // The peak is all there is to keep.
            CellContract::Cbr(_) | CellContract::Ubr(_) => {
                let (period, burst) = (peak, 1);
                Sustained { period, burst }
            }
        };
        let shaper = CellShaper::new(peak, &sustained)?;
        let even = |period| Spacing::Even {
            period,
            next: Time::ZERO,
        };
        Ok(match terms.shape {
            Shape::None => even(None),
            Shape::Peak => even(Some(peak)),
            Shape::Sustained => even(Some(sustained.period)),
            Shape::Cells => Spacing::Cells(shaper),
            Shape::Packets => Spacing::Packets(shaper, peak),
            Shape::Softclock(tick) => Spacing::Ticks(TickedShaper::new(shaper, tick), peak),
            Shape::Tagged => Spacing::Tagged(TaggingShaper::new(shaper), peak),
        })
    }

    /// How a packet goes that came at `came` and is the next.
    pub fn begin(&mut self, now: Time, came: Time, cells: u32, cell_time: Span) -> Pace {
        let (at, even) = match self {
            Spacing::Even { period, next } => {
                let (at, period) = ((*next).max(now), period.unwrap_or(cell_time));
                *next = at + period.times(u64::from(cells));
                (at, Some(period))
            }
            Spacing::Cells(shaper) => (next_cell(shaper, now), None),
            Spacing::Packets(shaper, peak) => match shaper.next_pdu(now, cells) {
                Some(at) => {
                    shaper.send_pdu(at, cells);
                    (at, Some(*peak))
                }
                // Longer than the burst: it never fits as a whole.
                None => (next_cell(shaper, now), None),
            },
            Spacing::Ticks(shaper, peak) => match shaper.send_pdu(came, cells) {
                Some(at) => (at, Some(*peak)),
                None => (shaper.send_cell(now), None),
            },
            Spacing::Tagged(shaper, peak) => {
                let (at, low) = shaper.send_pdu(now, cells);
                let even = Some(*peak);
                return Pace { at, even, low };
            }
        };
        let low = false;
        Pace { at, even, low }
    }

    /// When the cell after one that goes now does.
    pub fn after(&mut self, now: Time, even: Option<Span>) -> Time {
        match (even, self) {
            (Some(period), _) => now + period,
            (None, Spacing::Cells(shaper) | Spacing::Packets(shaper, _)) => next_cell(shaper, now),
            (None, Spacing::Ticks(shaper, _)) => shaper.send_cell(now),
            // Their packets have a settled distance.
            (None, Spacing::Even { .. } | Spacing::Tagged(..)) => now,
        }
    }
}

/// Takes the next cell of a shaper.
fn next_cell(shaper: &mut CellShaper, now: Time) -> Time {
    let at = shaper.next_cell(now);
    shaper.send_cell(at);
    at
}
