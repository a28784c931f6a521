use layercast_fec::{Matrix, MatrixBlock, MatrixCode};
use layercast_wire::ONE_CELL;

use super::sent_parities;

/// The block that is being received, and what is certain of it.
#[derive(Debug)]
pub(super) struct Block {
    cells: MatrixBlock,
    /// Cells that came, not those that were recovered.
    came: Vec<bool>,
    /// Modes 1 and 2 can both come.
    has_modes: bool,
    /// Place of its first cell in the sequence.
    pub start: u64,
    /// Nothing is missing since a cell whose place is certain.
    pub is_sure: bool,
    /// Data cells, if a parity or the last possible data cell shows it.
    fill: Option<usize>,
    /// The place of its parities is certain: two of its cells that follow each other show where one kind ends.
    pub is_pinned: bool,
    /// Place behind the last cell that came; places between are missing.
    pub at: usize,
    /// All data up to `at` came.
    is_whole: bool,
    /// A parity that is none of a column came.
    has_diagonals: bool,
    /// The block before had such parities.
    expects_diagonals: bool,
    /// Another mode was asked for, and may begin with any block.
    pub is_changing: bool,
    /// Virtual cells are put.
    is_filled: bool,
}

/// What a cell of the sequence is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Data,
    /// Data cells of the block, and whether it is none of a column.
    Parity(usize, bool),
}

/// Where a cell belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In this block.
    Here,
    /// In the next one, which begins at this place; whether that is certain.
    Next(usize, bool),
    /// Nowhere: the numbers contradict each other.
    Nowhere,
}

impl Block {
    pub fn new(matrix: Matrix, has_modes: bool, expects_diagonals: bool) -> Block {
        Block {
            came: vec![false; matrix.data_cells() + matrix.parity_cells()],
            cells: MatrixBlock::new(matrix),
            has_modes,
            start: 0,
            is_sure: false,
            fill: None,
            is_pinned: false,
            at: 0,
            is_whole: true,
            has_diagonals: false,
            expects_diagonals,
            is_changing: false,
            is_filled: false,
        }
    }

    /// Begins a block at this place.
    pub fn begin(&mut self, start: u64, is_sure: bool) {
        // A short block of which all parities are lost shows no mode.
        if self.fill.is_some() {
            self.expects_diagonals = self.has_diagonals;
        }
        self.cells.clear();
        self.came.fill(false);
        (self.start, self.is_sure) = (start, is_sure);
        (self.fill, self.is_pinned, self.at) = (None, false, 0);
        (self.is_whole, self.has_diagonals, self.is_filled) = (true, false, false);
    }

    fn matrix(&self) -> &Matrix {
        self.cells.matrix()
    }

    fn data_cells(&self) -> usize {
        self.matrix().data_cells()
    }

    /// Cells that a block has at most.
    pub fn most(&self) -> usize {
        self.data_cells() + self.matrix().parity_cells()
    }

    /// Column parities and all parities of a block with this number of data cells.
    fn parities(&self, fill: usize) -> (usize, usize) {
        let columns = self.matrix().shape().columns;
        let sent = || sent_parities(self.matrix(), fill);
        (sent().filter(|&it| it < columns).count(), sent().count())
    }

    /// The code that the parities of the block showed. `end`: where the next one begins, if that is certain.
    pub fn seen(&self, end: Option<usize>) -> Option<MatrixCode> {
        let code = self.matrix().shape().code;
        if self.has_diagonals || !self.has_modes {
            return Some(code);
        }
        let (columns, _) = self.parities(self.fill?);
        (end == Some(self.fill? + columns)).then_some(MatrixCode::Columns)
    }

    /// Data cells that column parities alone would not bring back, and data cells.
    pub fn column_losses(&self) -> (u64, u64) {
        let fill = self.fill.unwrap_or(self.at).min(self.data_cells());
        let columns = self.matrix().shape().columns;
        let mut residual = 0;
        for column in 0..columns.min(fill) {
            let rows = (column..fill).step_by(columns);
            let lost = rows.filter(|&at| !self.came[at]).count() as u64;
            let has_parity = self.came[self.data_cells() + column];
            if lost > 1 || !has_parity {
                residual += lost;
            }
        }
        (residual, fill as u64)
    }

    /// Where a cell at place `at` belongs. `before` is the cell directly before it, if that came.
    pub fn place(&self, at: usize, kind: Kind, before: Option<Kind>) -> Place {
        let is_here = match kind {
            Kind::Data => self.fill.is_none_or(|fill| at < fill) && at < self.data_cells(),
            Kind::Parity(fill, is_diagonal) => self.is_parity(at, fill, is_diagonal, before),
        };
        if is_here {
            return Place::Here;
        }
        match (kind, before) {
            (_, None) => self.end(at),
            // Behind a parity a block ends, exactly.
            (Kind::Data, Some(Kind::Parity(_, is_diagonal))) => {
                let (short, long) = self.ends();
                let end = if is_diagonal || !self.has_modes {
                    long
                } else {
                    short
                };
                match at == end {
                    true => Place::Next(end, true),
                    false => Place::Nowhere,
                }
            }
            _ => Place::Nowhere,
        }
    }

    /// Where the block ends with column parities, and with all.
    fn ends(&self) -> (usize, usize) {
        let fill = self.fill.unwrap_or(self.data_cells());
        let (columns, all) = self.parities(fill);
        (fill + columns, fill + all)
    }

    /// Where the block ended, if a cell behind missing ones is none of it.
    fn end(&self, at: usize) -> Place {
        let (short, long) = self.ends();
        let is_certain = self.certain_fill().is_some();
        let next = |end: usize, is_certain| match at >= end {
            true => Place::Next(end, is_certain),
            false => Place::Nowhere,
        };
        match (self.has_modes, self.has_diagonals) {
            (false, _) | (true, true) => next(long, is_certain),
            (true, false) if at < long => next(short, is_certain),
            (true, false) if self.expects_diagonals => next(long, is_certain && !self.is_changing),
            (true, false) => next(short, is_certain && !self.is_changing),
        }
    }

    fn is_parity(&self, at: usize, fill: usize, is_diagonal: bool, before: Option<Kind>) -> bool {
        let fits = self.fill.is_none_or(|it| it == fill) && (1..=self.data_cells()).contains(&fill);
        let Some(index) = at.checked_sub(fill).filter(|_| fits) else {
            return false;
        };
        let (columns, all) = self.parities(fill);
        let of_kind = if is_diagonal {
            columns..all
        } else {
            0..columns
        };
        // Data behind the end would be of another block.
        let was_data = self.fill.is_some() || self.at <= fill;
        let begins = match before {
            Some(Kind::Data) => index == 0,
            Some(Kind::Parity(_, was_diagonal)) if is_diagonal && !was_diagonal => index == columns,
            _ => true,
        };
        of_kind.contains(&index) && was_data && begins
    }

    /// Takes a cell that belongs here.
    pub fn put(&mut self, at: usize, kind: Kind, before: Option<Kind>, octets: &[u8; ONE_CELL]) {
        let data_cells = self.data_cells();
        match kind {
            Kind::Data => {
                self.is_whole &= at == self.at;
                self.cells.put(at, octets);
                self.came[at] = true;
                // A full block shows what it has.
                if at + 1 == data_cells {
                    self.fill = Some(data_cells);
                }
            }
            Kind::Parity(fill, is_diagonal) => {
                // The data of a block that began behind a short one would all be among the missing cells.
                let gap = at - self.at;
                self.is_pinned |= self.is_sure && self.is_whole && fill > gap;
                self.is_whole &= self.at >= fill;
                let turns = match before {
                    Some(Kind::Data) => true,
                    Some(Kind::Parity(_, was_diagonal)) => was_diagonal != is_diagonal,
                    None => false,
                };
                self.is_pinned |= turns;
                self.fill = Some(fill);
                self.has_diagonals |= is_diagonal;
                let number = sent_parities(self.matrix(), fill).nth(at - fill);
                if let Some(number) = number {
                    self.cells.put(data_cells + number, octets);
                    self.came[data_cells + number] = true;
                }
            }
        }
        self.at = at + 1;
    }

    /// The data cells of the block, if they are certain.
    pub fn certain_fill(&self) -> Option<usize> {
        let is_complete = self.is_sure && self.is_whole && self.at >= self.data_cells();
        self.fill.filter(|_| self.is_pinned || is_complete)
    }

    /// Whether data are missing up to the last cell that came.
    fn misses(&self) -> bool {
        let fill = self.fill.unwrap_or(self.at).min(self.data_cells());
        (0..fill).any(|number| !self.cells.has(number))
    }

    /// Recovers what parities determine.
    pub fn recover(&mut self) {
        let Some(fill) = self.fill.filter(|_| self.is_pinned && self.misses()) else {
            return;
        };
        if !std::mem::replace(&mut self.is_filled, true) {
            for number in fill..self.data_cells() {
                self.cells.put(number, &[0; ONE_CELL]);
            }
            for number in 0..self.matrix().parity_cells() {
                if !self.matrix().covers(number, fill) {
                    let at = self.data_cells() + number;
                    self.cells.put(at, &[0; ONE_CELL]);
                }
            }
        }
        self.cells.recover();
    }

    /// A data cell that is there.
    pub fn cell(&self, at: usize) -> Option<[u8; ONE_CELL]> {
        if at >= self.fill.unwrap_or(self.at).min(self.data_cells()) {
            return None;
        }
        let mut octets = [0; ONE_CELL];
        octets.copy_from_slice(self.cells.cell(at)?);
        Some(octets)
    }
}
