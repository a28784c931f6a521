use super::{MatrixCode, MatrixShape};

/// Primes of EVENODD.
const PRIMES: [usize; 6] = [3, 5, 7, 11, 13, 17];

/// A code as equations: each symbol of a parity is the XOR of symbols of data. Symbols are parts of cells of equal length;
/// they have numbers in the order of the cells.
#[derive(Clone, Debug)]
pub(super) struct Equations {
    /// Octets of a symbol, and symbols of a cell.
    symbol: usize,
    per_cell: usize,
    data_cells: usize,
    /// For each symbol of parity its symbols of data.
    terms: Vec<Vec<u16>>,
    /// For each symbol of data the symbols of parity that it is in.
    uses: Vec<Vec<u16>>,
    /// Parities that share no data with those of another part are systems of their own: the symbols of parity of each.
    systems: Vec<Vec<u16>>,
}

impl Equations {
    /// The equations of a shape; `None` if EVENODD has no prime number for it.
    pub fn of(shape: &MatrixShape) -> Option<Equations> {
        let (rows, columns) = (shape.rows, shape.columns);
        let per_cell = match shape.code {
            MatrixCode::EvenOdd => prime(rows, shape.cell)? - 1,
            _ => 1,
        };
        let at = |row: usize, column: usize| (row * columns + column) as u16;
        let mut parities: Vec<Vec<u16>> = match shape.code {
            MatrixCode::EvenOdd => even_odd(rows, columns, per_cell + 1),
            _ => (0..columns)
                .map(|column| (0..rows).map(|row| at(row, column)).collect())
                .collect(),
        };
        let down = |from: usize| {
            (0..rows)
                .map(|row| at(row, (from + row) % columns))
                .collect()
        };
        let up = |from: usize| {
            let column = |row| (from + columns * rows - row) % columns;
            (0..rows).map(|row| at(row, column(row))).collect()
        };
        match shape.code {
            MatrixCode::Columns | MatrixCode::EvenOdd => {}
            MatrixCode::TwoDiagonals => parities.extend([down(0), up(columns - 1)]),
            MatrixCode::Diagonals => parities.extend((0..columns).map(down)),
            MatrixCode::BothDiagonals => {
                parities.extend((0..columns).map(down));
                parities.extend((0..columns).map(up));
            }
        }
        let data_cells = rows * columns;
        let mut uses = vec![Vec::new(); data_cells * per_cell];
        for (parity, terms) in (0..).zip(&parities) {
            for &term in terms {
                uses[usize::from(term)].push(parity);
            }
        }
        // Columns are independent of each other where nothing else joins them.
        let systems = match shape.code {
            MatrixCode::Columns | MatrixCode::EvenOdd => {
                let column = |parity: usize| parity / per_cell % columns;
                let of = |wanted| {
                    let numbers = 0..parities.len();
                    let of_column = numbers.filter(|&parity| column(parity) == wanted);
                    of_column.map(|parity| parity as u16).collect()
                };
                (0..columns).map(of).collect()
            }
            _ => vec![(0..parities.len() as u16).collect()],
        };
        Some(Equations {
            symbol: shape.cell / per_cell,
            per_cell,
            data_cells,
            terms: parities,
            uses,
            systems,
        })
    }

    pub fn symbol(&self) -> usize {
        self.symbol
    }

    pub fn per_cell(&self) -> usize {
        self.per_cell
    }

    pub fn parity_cells(&self) -> usize {
        self.terms.len() / self.per_cell
    }

    pub fn systems(&self) -> usize {
        self.systems.len()
    }

    /// The symbols of parity of a system.
    pub fn system(&self, number: usize) -> &[u16] {
        &self.systems[number]
    }

    /// The symbols of data of a symbol of parity.
    pub fn terms(&self, parity: u16) -> &[u16] {
        &self.terms[usize::from(parity)]
    }

    /// For each symbol of a data cell the symbols of parity that it is in.
    pub fn uses(&self, cell: usize) -> &[Vec<u16>] {
        &self.uses[cell * self.per_cell..][..self.per_cell]
    }

    /// Whether one of the first `cells` data cells is in a parity cell.
    pub fn covers(&self, parity: usize, cells: usize) -> bool {
        let symbols = &self.terms[parity * self.per_cell..][..self.per_cell];
        let below = cells * self.per_cell;
        symbols
            .iter()
            .flatten()
            .any(|&term| usize::from(term) < below)
    }

    /// The number of a symbol of parity among all symbols of the block.
    pub fn place(&self, parity: u16) -> usize {
        self.data_cells * self.per_cell + usize::from(parity)
    }
}

/// The smallest prime number p, at least the number of rows, so that a cell has p - 1 parts of equal length.
fn prime(rows: usize, cell: usize) -> Option<usize> {
    let mut primes = PRIMES.into_iter();
    primes.find(|&p| p >= rows && cell.is_multiple_of(p - 1))
}

/// EVENODD of each column (specs/mpeg-picture-quality.md 2.7): row parities of all columns, then diagonal parities.
fn even_odd(rows: usize, columns: usize, p: usize) -> Vec<Vec<u16>> {
    let per_cell = p - 1;
    let symbol = |row: usize, column: usize, part: usize| {
        ((row * columns + column) * per_cell + part) as u16
    };
    let mut parities = Vec::with_capacity(2 * columns * per_cell);
    for column in 0..columns {
        for part in 0..per_cell {
            parities.push((0..rows).map(|row| symbol(row, column, part)).collect());
        }
    }
    for column in 0..columns {
        for part in 0..per_cell {
            // The diagonal, and the one that is in all parities (the adjuster). They share no symbol.
            let adjuster = (1..rows).map(|row| (row, p - 1 - row));
            let diagonal = (0..rows).map(|row| (row, (part + p - row) % p));
            let terms = adjuster
                .chain(diagonal)
                .filter(|&(_, part)| part < per_cell);
            parities.push(terms.map(|(row, part)| symbol(row, column, part)).collect());
        }
    }
    parities
}
