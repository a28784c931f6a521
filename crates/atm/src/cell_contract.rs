use layercast_core::Span;
use thiserror::Error;

/// A peak cell rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peak {
    /// Time from cell to cell, T_PCR.
    pub period: Span,
    /// How much too early a cell may come: the cell delay variation tolerance.
    pub tolerance: Span,
}

/// A sustainable cell rate and how far a burst may exceed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sustained {
    /// Mean time from cell to cell, T_SCR.
    pub period: Span,
    /// Cells of the longest burst at the peak rate, MBS.
    pub burst: u32,
}

/// What the sustainable rate of a VBR contract says of cells with CLP = 1 (ATM Forum UNI 3.0).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Conformance {
    /// It is for CLP = 0 only; those that exceed it are discarded.
    A,
    /// It is for CLP = 0 only; those that exceed it are tagged as CLP = 1.
    B,
    /// It is for all cells.
    C,
}

/// What a circuit may send by the ATM Forum's service categories (specs/vbr-atm-lan.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellContract {
    /// Constant bit rate.
    Cbr(Peak),
    /// Variable bit rate.
    Vbr {
        /// For all cells.
        peak: Peak,
        /// For all or for those with CLP = 0.
        sustained: Sustained,
        /// For which, and what becomes of the others.
        conformance: Conformance,
    },
    /// Unspecified bit rate: policed like a constant one, but nothing is reserved.
    Ubr(Peak),
}

/// Why a contract of cell rates is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CellContractError {
    /// A quantity is zero.
    #[error("{0} must be more than zero")]
    Zero(&'static str),
    /// The sustainable rate is above the peak.
    #[error("a cell each {sustained} on average is faster than the peak, one each {peak}")]
    Sustained {
        /// Mean time from cell to cell.
        sustained: Span,
        /// Least time from cell to cell.
        peak: Span,
    },
}

impl CellContract {
    /// Its peak rate.
    pub fn peak(&self) -> Peak {
        match *self {
            CellContract::Cbr(peak) | CellContract::Ubr(peak) => peak,
            CellContract::Vbr { peak, .. } => peak,
        }
    }

    /// Whether its numbers go together.
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
    /// Whether it goes with a peak of one cell each `peak`.
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
