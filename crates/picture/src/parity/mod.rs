//! Parities of the sequence of class S (specs/mpeg-picture-quality.md 2.7): a matrix of one-cell frames, row by row, then its
//! parities in the same sequence.

mod block;
mod control;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use layercast_core::Span;
use layercast_fec::{Matrix, MatrixCode, MatrixError, MatrixShape};
use layercast_wire::ONE_CELL;
use thiserror::Error;

pub use control::{FecControl, FecControlError, FecController, FecControllerConfig};
pub use receiver::ParityStats;
pub(crate) use receiver::{Ordered, ParityReceiver};
pub(crate) use sender::{Parity, ParitySender};

/// Which parities protect the one-cell frames of class S.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParityConfig {
    /// The code; with `control` that of the beginning.
    pub code: MatrixCode,
    /// N, cells of a column.
    pub rows: usize,
    /// M, cells of a row.
    pub columns: usize,
    /// Of a sender: a block that is not full after this time is closed, and its parities are sent.
    pub deadline: Span,
    /// Of a receiver: cells wait for a missing one at most this time.
    pub max_hold: Span,
    /// Modes 1 and 2 replace each other as the receiver asks, by these rules; without it the code stays.
    pub control: Option<FecControllerConfig>,
}

impl Default for ParityConfig {
    /// Live video: 4 rows and 4 columns of mode 1.
    fn default() -> ParityConfig {
        ParityConfig {
            code: MatrixCode::Columns,
            rows: 4,
            columns: 4,
            deadline: Span::from_ms(50),
            max_hold: Span::from_ms(400),
            control: None,
        }
    }
}

impl ParityConfig {
    /// The matrix of a code with this geometry.
    ///
    /// # Errors
    /// The geometry is out of range, or a block has more cells than numbers of seven bits tell apart.
    pub fn matrix(&self, code: MatrixCode) -> Result<Matrix, MatrixError> {
        let matrix = Matrix::new(MatrixShape {
            code,
            rows: self.rows,
            columns: self.columns,
            cell: ONE_CELL,
        })?;
        matrix.check_numbers()?;
        Ok(matrix)
    }

    /// The matrix of a receiver: modes 1 and 2 have the same column parities, so that the matrix of mode 2 serves both. The
    /// flag says that both can come.
    pub(crate) fn widest(&self) -> Result<(Matrix, bool), ParityError> {
        match (self.control, self.code) {
            (None, code) => Ok((self.matrix(code)?, false)),
            (Some(_), MatrixCode::Columns | MatrixCode::EvenOdd) => {
                Ok((self.matrix(MatrixCode::EvenOdd)?, true))
            }
            (Some(_), code) => Err(ParityError::Fixed(code)),
        }
    }
}

/// Why parities cannot be as they are configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ParityError {
    /// The geometry is out of range, or a block has more cells than numbers of seven bits tell apart.
    #[error(transparent)]
    Geometry(#[from] MatrixError),
    /// The code does not change.
    #[error(
        "parities of {0:?} with control: only Columns and EvenOdd replace each other; configure one of them, or no control"
    )]
    Fixed(MatrixCode),
}

/// Parities of a block that are sent when it has this number of data cells.
pub(crate) fn sent_parities(matrix: &Matrix, fill: usize) -> impl Iterator<Item = usize> + '_ {
    (0..matrix.parity_cells()).filter(move |&number| matrix.covers(number, fill))
}
