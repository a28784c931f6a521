use layercast_core::Span;
use thiserror::Error;

/// A peak cell rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peak {
    /// Interval between cells, T_PCR.
    pub period: Span,
    /// Cell delay variation tolerance: how much too early a cell may arrive.
    pub tolerance: Span,
}

/// A sustainable cell rate and its largest burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sustained {
    /// Mean interval between cells, T_SCR.
    pub period: Span,
    /// Length of the longest burst at the peak rate in cells, MBS.
    pub burst: u32,
}

/// Treatment of CLP = 1 by the sustainable rate of a VBR contract (ATM Forum UNI 3.0).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Conformance {
    /// The rate applies to CLP = 0 only; excess cells are discarded.
    A,
    /// The rate applies to CLP = 0 only; excess cells are tagged with CLP = 1.
    B,
    /// The rate applies to all cells.
    C,
}

/// Traffic contract of a circuit by the ATM Forum's service categories (specs/vbr-atm-lan.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellContract {
    /// Constant bit rate.
    Cbr(Peak),
    /// Variable bit rate.
    Vbr {
        /// Peak rate, for all cells.
        peak: Peak,
        /// Sustainable rate, for all cells or for those with CLP = 0.
        sustained: Sustained,
        /// To which cells the sustainable rate applies, and what happens to excess cells.
        conformance: Conformance,
    },
    /// Unspecified bit rate: policed like a constant one, but without a reservation.
    Ubr(Peak),
}

/// Reason why a contract of cell rates is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CellContractError {
    /// A value is zero.
    #[error("{0} must be more than zero")]
    Zero(&'static str),
    /// The sustainable rate exceeds the peak rate.
    #[error("a cell each {sustained} on average is faster than the peak, one each {peak}")]
    Sustained {
        /// Mean interval between cells.
        sustained: Span,
        /// Least interval between cells.
        peak: Span,
    },
}

impl CellContract {
    /// The peak rate.
    pub fn peak(&self) -> Peak {
        match *self {
            CellContract::Cbr(peak) | CellContract::Ubr(peak) => peak,
            CellContract::Vbr { peak, .. } => peak,
        }
    }

    /// Checks that the values are consistent.
    pub fn validate(&self) -> Result<(), CellContractError> {
        let peak = self.peak().period;
        if peak == Span::ZERO {
            return Err(CellContractError::Zero("the period of the peak rate"));
        }
        match self {
            CellContract::Vbr { sustained, .. } => sustained.validate(peak),
            CellContract::Cbr(_) | CellContract::Ubr(_) => Ok(()),
        }
    }
}

impl Sustained {
    /// Checks that the values are consistent with a peak of one cell per `peak`.
    pub fn validate(&self, peak: Span) -> Result<(), CellContractError> {
        if self.burst == 0 {
            return Err(CellContractError::Zero("the burst"));
        }
        if self.period < peak {
            return Err(CellContractError::Sustained {
                sustained: self.period,
                peak,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Upc;

    #[test]
    fn a_contract_that_is_none_is_refused() {
        let vbr = |peak, period, burst| CellContract::Vbr {
            peak: Peak {
                period: Span::from_us(peak),
                tolerance: Span::ZERO,
            },
            sustained: Sustained {
                period: Span::from_us(period),
                burst,
            },
            conformance: Conformance::A,
        };
        assert!(matches!(
            vbr(0, 1, 1).validate(),
            Err(CellContractError::Zero(_))
        ));
        assert!(matches!(
            vbr(1, 1, 0).validate(),
            Err(CellContractError::Zero(_))
        ));
        assert!(matches!(
            vbr(2, 1, 1).validate(),
            Err(CellContractError::Sustained { .. })
        ));
        assert!(Upc::new(&vbr(0, 1, 1)).is_err());
        assert_eq!(vbr(1, 1, 1).validate(), Ok(()));
    }
}
