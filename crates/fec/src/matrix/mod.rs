//! Cell-matrix FEC: N rows of M cells of equal length with one or more rows of XOR parities
//! (A. Mehaoua, R. Boutaba, G. Pujolle, PfHSN'96, figure 5; `specs/packet-level-fec.md` has the codes for packets).

mod equations;
mod solver;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::xor::xor_into;
use equations::Equations;
use solver::Solver;

/// Most cells of a block with its parities that a sequence number of seven bits tells apart.
pub const MAX_NUMBERED: usize = 128;
/// Most rows and most columns.
const MAX_SIDE: usize = 64;
/// Most octets of a cell.
const MAX_CELL: usize = 65_535;

/// Which parities protect a matrix of N rows and M columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MatrixCode {
    /// Mode 1: one parity for each column. It recovers one lost cell of a column, and so a burst of M.
    Columns,
    /// Mode 2: EVENODD for each column (Blaum et al., 1995). It recovers any two lost cells of a column and its two parities,
    /// and so a burst of 2 M.
    EvenOdd,
    /// The literal reading of mode 2: a parity for each column, and one for each of the two main diagonals.
    TwoDiagonals,
    /// A parity for each column and for each diagonal that continues at the other side.
    Diagonals,
    /// The same with diagonals of both directions.
    BothDiagonals,
}

impl MatrixCode {
    /// All codes.
    pub const ALL: [MatrixCode; 5] = [
        MatrixCode::Columns,
        MatrixCode::EvenOdd,
        MatrixCode::TwoDiagonals,
        MatrixCode::Diagonals,
        MatrixCode::BothDiagonals,
    ];

    /// Its name in files and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            MatrixCode::Columns => "columns",
            MatrixCode::EvenOdd => "even-odd",
            MatrixCode::TwoDiagonals => "two-diagonals",
            MatrixCode::Diagonals => "diagonals",
            MatrixCode::BothDiagonals => "both-diagonals",
        }
    }
}

/// The size of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatrixShape {
    /// Which parities there are.
    pub code: MatrixCode,
    /// N, cells of a column.
    pub rows: usize,
    /// M, cells of a row.
    pub columns: usize,
    /// Octets of a cell.
    pub cell: usize,
}

/// Reason why a block cannot have a shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MatrixError {
    /// The number of rows, of columns or of octets is out of range.
    #[error(
        "{rows} rows and {columns} columns of cells of {cell} octets: a matrix has 1 to 64 rows and columns, and cells of 1 to 65535 octets"
    )]
    Size {
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
        /// Octets of a cell.
        cell: usize,
    },
    /// EVENODD needs a prime number p of at least N, so that a cell has p - 1 equal parts.
    #[error(
        "EVENODD of {rows} rows: no prime p from 3 to 17 is at least that and divides a cell of {cell} octets in p - 1 parts"
    )]
    NoPrime {
        /// Rows.
        rows: usize,
        /// Octets of a cell.
        cell: usize,
    },
    /// Sequence numbers of seven bits do not tell the cells of a block apart.
    #[error("a block of {0} cells with its parities: sequence numbers of 7 bits tell 128 apart")]
    Numbers(usize),
}

/// The parities of one shape. It keeps no block: it serves all blocks of a stream.
///
/// Cells are numbered in the order in which they are sent: the data row by row, then the parities.
#[derive(Clone, Debug)]
pub struct Matrix {
    shape: MatrixShape,
    equations: Equations,
}

impl Matrix {
    /// The parities of a shape.
    ///
    /// # Errors
    /// The shape is out of range, or EVENODD has no prime number for it.
    pub fn new(shape: MatrixShape) -> Result<Matrix, MatrixError> {
        let MatrixShape {
            rows,
            columns,
            cell,
            ..
        } = shape;
        let sides = 1..=MAX_SIDE;
        if !sides.contains(&rows) || !sides.contains(&columns) || !(1..=MAX_CELL).contains(&cell) {
            return Err(MatrixError::Size {
                rows,
                columns,
                cell,
            });
        }
        let equations = Equations::of(&shape).ok_or(MatrixError::NoPrime { rows, cell })?;
        Ok(Matrix { shape, equations })
    }

    /// The shape.
    pub fn shape(&self) -> MatrixShape {
        self.shape
    }

    /// Data cells of a block.
    pub fn data_cells(&self) -> usize {
        self.shape.rows * self.shape.columns
    }

    /// Parity cells of a block.
    pub fn parity_cells(&self) -> usize {
        self.equations.parity_cells()
    }

    /// Whether parity `number` depends on one of the first `cells` data cells: of a block that has no others, it is zeros
    /// otherwise.
    pub fn covers(&self, number: usize, cells: usize) -> bool {
        self.equations.covers(number, cells)
    }

    /// Checks that sequence numbers of seven bits tell the cells of a block apart.
    ///
    /// # Errors
    /// There are more than 128.
    pub fn check_numbers(&self) -> Result<(), MatrixError> {
        match self.data_cells() + self.parity_cells() {
            0..=MAX_NUMBERED => Ok(()),
            cells => Err(MatrixError::Numbers(cells)),
        }
    }

    /// Adds data cell `number` to the running parities of a block, which are zeros before the first cell: nothing else of the
    /// block needs to be kept. Cells that are never added count as zeros.
    ///
    /// `parities` are the parity cells one after the other.
    pub fn add(&self, parities: &mut [u8], number: usize, cell: &[u8]) {
        debug_assert_eq!(parities.len(), self.parity_cells() * self.shape.cell);
        debug_assert_eq!(cell.len(), self.shape.cell);
        let size = self.equations.symbol();
        let symbols = cell.chunks_exact(size).zip(self.equations.uses(number));
        for (symbol, uses) in symbols {
            for &parity in uses {
                xor_into(&mut parities[usize::from(parity) * size..][..size], symbol);
            }
        }
    }
}

/// The receiver's side of a block: cells in any order, and those that can be recovered.
#[derive(Debug)]
pub struct MatrixBlock {
    matrix: Matrix,
    /// Data and parities, one after the other.
    octets: Vec<u8>,
    is_there: Vec<bool>,
    solver: Solver,
}

impl MatrixBlock {
    /// A block of which no cell is there.
    pub fn new(matrix: Matrix) -> MatrixBlock {
        let cells = matrix.data_cells() + matrix.parity_cells();
        MatrixBlock {
            octets: vec![0; cells * matrix.shape.cell],
            is_there: vec![false; cells],
            solver: Solver::default(),
            matrix,
        }
    }

    /// Forgets all cells.
    pub fn clear(&mut self) {
        self.is_there.fill(false);
    }

    /// Puts a cell. `false` if it is there already, and is left as it is.
    pub fn put(&mut self, number: usize, cell: &[u8]) -> bool {
        debug_assert_eq!(cell.len(), self.matrix.shape.cell);
        let is_new = !std::mem::replace(&mut self.is_there[number], true);
        if is_new {
            let size = self.matrix.shape.cell;
            self.octets[number * size..][..size].copy_from_slice(cell);
        }
        is_new
    }

    /// A cell, if it is there.
    pub fn cell(&self, number: usize) -> Option<&[u8]> {
        let size = self.matrix.shape.cell;
        self.is_there[number].then(|| &self.octets[number * size..][..size])
    }

    /// Whether a cell is there.
    pub fn has(&self, number: usize) -> bool {
        self.is_there[number]
    }

    /// The parities.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// Data cells that are missing.
    pub fn missing(&self) -> usize {
        let data = &self.is_there[..self.matrix.data_cells()];
        data.iter().filter(|is_there| !**is_there).count()
    }

    /// Recovers the missing data cells that the others determine. Returns their number.
    pub fn recover(&mut self) -> usize {
        let data = self.matrix.data_cells();
        if self.missing() == 0 || self.is_there[data..].iter().all(|is_there| !is_there) {
            return 0;
        }
        let before = self.missing();
        let equations = &self.matrix.equations;
        for system in 0..equations.systems() {
            self.solver
                .solve(equations, system, &mut self.octets, &mut self.is_there);
        }
        before - self.missing()
    }
}
