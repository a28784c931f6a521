use layercast_core::Stream;
use layercast_fec::{Matrix, MatrixBlock, MatrixCode, MatrixShape};
use serde::{Deserialize, Serialize};

use super::SettingError;

/// Octets of a protected cell: a one-cell frame of AAL5+ without its trailer.
const CELL: usize = 40;
/// Most blocks of a run that are decoded.
const MAX_BLOCKS: u32 = 50_000_000;
/// Most cells of a block of which each pattern is tried.
const MAX_PATTERN: usize = 20;

/// Cells of which some are lost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum MatrixLoss {
    /// Each cell for itself, or in bursts.
    Random {
        /// Mean share of the cells that is lost.
        rate: f64,
        /// Mean number of cells that are lost in a row (Gilbert); 1: each for itself.
        burst: f64,
    },
    /// This number of cells of each block, anywhere.
    Exactly {
        /// Lost cells of a block.
        cells: u32,
    },
    /// The same number of data cells in each of some columns, anywhere in these.
    Columns {
        /// Columns that lose cells.
        columns: u32,
        /// Lost data cells of each of them.
        cells: u32,
    },
    /// Each pattern of lost cells once.
    Every,
    /// This number of cells in a row; a run for each place in a block where they can begin.
    Burst {
        /// Lost cells.
        cells: u32,
    },
}

/// Cells behind a parity matrix (Q7, Q8).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixSetting {
    /// The code.
    pub code: MatrixCode,
    /// N, cells of a column.
    pub rows: usize,
    /// M, cells of a row.
    pub columns: usize,
    /// What is lost.
    pub loss: MatrixLoss,
    /// Blocks; bursts at each place need none.
    #[serde(default)]
    pub blocks: u32,
    /// Seed.
    #[serde(default)]
    pub seed: u64,
}

/// What came back.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct MatrixRun {
    /// Parity cells in data cells, in percent.
    pub overhead_percent: f64,
    /// Data cells.
    pub data_cells: u64,
    /// Lost data cells.
    pub lost_cells: u64,
    /// Lost data cells that did not come back.
    pub residual_cells: u64,
    /// The same as a share of the data cells.
    pub residual: f64,
    /// Blocks, or bursts.
    pub trials: u64,
    /// Those after which all data were there.
    pub whole: u64,
    /// Of [`MatrixLoss::Every`]: lost data cells that did not come back, over all patterns with no lost cell, with one, and so on.
    pub by_lost: Vec<u64>,
}

impl MatrixSetting {
    /// Sends blocks and loses cells.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn run(&self) -> Result<MatrixRun, SettingError> {
        let matrix = Matrix::new(MatrixShape {
            code: self.code,
            rows: self.rows,
            columns: self.columns,
            cell: CELL,
        })?;
        let range = |what, value, range| Err(SettingError::Range { what, value, range });
        // Of blocks that lose cells at random, those that lose none are not decoded.
        let touched = match self.loss {
            MatrixLoss::Random { rate, .. } => {
                let cells = (matrix.data_cells() + matrix.parity_cells()) as f64;
                f64::from(self.blocks) * (rate * cells).min(1.0)
            }
            _ => f64::from(self.blocks),
        };
        if touched > f64::from(MAX_BLOCKS) {
            return range("blocks", touched, "at most 50 000 000 with losses");
        }
        let mut channel = Channel::new(matrix, self.seed);
        match self.loss {
            MatrixLoss::Random { rate, .. } if !(rate > 0.0 && rate <= 0.5) => {
                return range("rate", rate, "more than 0, at most 0.5");
            }
            MatrixLoss::Random { burst, .. } if !(1.0..=1e6).contains(&burst) => {
                return range("burst", burst, "1 to 10^6");
            }
            MatrixLoss::Random { rate, burst } => channel.random(rate, burst, self.blocks),
            MatrixLoss::Columns { columns, .. } if columns as usize > self.columns => {
                return range("columns", columns.into(), "at most those of a block");
            }
            MatrixLoss::Columns { cells, .. } if cells as usize > self.rows => {
                return range("cells", cells.into(), "at most those of a column");
            }
            MatrixLoss::Every if channel.size() > MAX_PATTERN => {
                return range("cells", channel.size() as f64, "at most 20 of a block");
            }
            MatrixLoss::Columns { columns, cells } => {
                let shape = (self.rows, self.columns);
                channel.columns(shape, columns as usize, cells as usize, self.blocks);
            }
            MatrixLoss::Every => channel.every(),
            MatrixLoss::Exactly { cells } | MatrixLoss::Burst { cells }
                if cells as usize > channel.size() =>
            {
                return range("cells", cells.into(), "at most those of a block");
            }
            MatrixLoss::Exactly { cells } => channel.exactly(cells as usize, self.blocks),
            MatrixLoss::Burst { cells } => channel.bursts(cells as usize),
        }
        Ok(channel.report())
    }
}

/// Blocks with the same octets, and what was lost of them.
struct Channel {
    cells: Vec<[u8; CELL]>,
    data: usize,
    block: MatrixBlock,
    lost: Vec<bool>,
    random: Stream,
    run: MatrixRun,
}

impl Channel {
    fn new(matrix: Matrix, seed: u64) -> Channel {
        let mut random = Stream::new(seed, "matrix");
        let data = matrix.data_cells();
        let mut cells: Vec<[u8; CELL]> = (0..data)
            .map(|_| std::array::from_fn(|_| random.below(256) as u8))
            .collect();
        let mut parities = vec![0; matrix.parity_cells() * CELL];
        for (number, cell) in cells.iter().enumerate() {
            matrix.add(&mut parities, number, cell);
        }
        cells.extend_from_slice(parities.as_chunks().0);
        Channel {
            run: MatrixRun {
                overhead_percent: 100.0 * matrix.parity_cells() as f64 / data as f64,
                ..MatrixRun::default()
            },
            lost: vec![false; cells.len()],
            cells,
            data,
            block: MatrixBlock::new(matrix),
            random,
        }
    }

    fn size(&self) -> usize {
        self.cells.len()
    }

    /// Blocks one after the other, with losses at random places.
    fn random(&mut self, rate: f64, burst: f64, blocks: u32) {
        let end = self.size() as u64 * u64::from(blocks);
        let size = self.size() as u64;
        // Of cells that are lost each for itself, two may follow each other.
        let is_alone = burst <= 1.0;
        let begins = match is_alone {
            true => rate,
            false => rate / (burst * (1.0 - rate)),
        };
        let mut at = self.gap(begins);
        let mut current = 0;
        while at < end {
            let number = at / size;
            if number != current {
                self.decode();
                current = number;
            }
            self.lost[(at % size) as usize] = true;
            at += 1;
            if is_alone || self.random.chance(1.0 / burst) {
                at += self.gap(begins) + u64::from(!is_alone);
            }
        }
        self.decode();
        self.run.trials = blocks.into();
        self.run.data_cells = self.data as u64 * u64::from(blocks);
        // Blocks without losses were not decoded: `whole` counts those that were not whole until here.
        self.run.whole = self.run.trials - self.run.whole;
    }

    /// Cells that come before the next loss, of which each begins with this probability.
    fn gap(&mut self, begins: f64) -> u64 {
        let unit = self.random.unit().max(f64::MIN_POSITIVE);
        (unit.ln() / (-begins).ln_1p()) as u64
    }

    /// Decodes a block with the losses that are marked, and counts it if it is not whole.
    fn decode(&mut self) -> bool {
        let is_whole = self.decode_block();
        self.run.whole += u64::from(!is_whole);
        self.lost.fill(false);
        is_whole
    }

    fn decode_block(&mut self) -> bool {
        let lost = self.lost[..self.data].iter().filter(|lost| **lost).count();
        self.run.lost_cells += lost as u64;
        if lost == 0 {
            return true;
        }
        self.block.clear();
        for (number, cell) in self.cells.iter().enumerate() {
            if !self.lost[number] {
                self.block.put(number, cell);
            }
        }
        self.block.recover();
        let mut data = self.cells[..self.data].iter().enumerate();
        let is_right = |(number, cell): (usize, &[u8; CELL])| {
            self.block.cell(number).is_none_or(|found| found == cell)
        };
        assert!(data.all(is_right), "a cell that was never sent came back");
        self.run.residual_cells += self.block.missing() as u64;
        self.block.missing() == 0
    }

    /// Each block loses the same number of cells.
    fn exactly(&mut self, count: usize, blocks: u32) {
        for _ in 0..blocks {
            for _ in 0..count {
                let mut at = self.random.below(self.size() as u64) as usize;
                while std::mem::replace(&mut self.lost[at], true) {
                    at = self.random.below(self.size() as u64) as usize;
                }
            }
            self.decode();
        }
        self.run.trials = blocks.into();
        self.run.data_cells = self.data as u64 * u64::from(blocks);
        self.run.whole = self.run.trials - self.run.whole;
    }

    /// Each block loses the same number of data cells in each of some columns.
    fn columns(&mut self, (rows, all): (usize, usize), columns: usize, count: usize, blocks: u32) {
        let mut chosen = vec![false; all];
        for _ in 0..blocks {
            chosen.fill(false);
            for _ in 0..columns {
                let mut column = self.random.below(all as u64) as usize;
                while std::mem::replace(&mut chosen[column], true) {
                    column = self.random.below(all as u64) as usize;
                }
                for _ in 0..count {
                    let mut at = self.random.below(rows as u64) as usize * all + column;
                    while std::mem::replace(&mut self.lost[at], true) {
                        at = self.random.below(rows as u64) as usize * all + column;
                    }
                }
            }
            self.decode();
        }
        self.run.trials = blocks.into();
        self.run.data_cells = self.data as u64 * u64::from(blocks);
        self.run.whole = self.run.trials - self.run.whole;
    }

    /// Each pattern of lost cells.
    fn every(&mut self) {
        let size = self.size();
        self.run.by_lost = vec![0; size + 1];
        for pattern in 0..1_u32 << size {
            for (number, lost) in self.lost.iter_mut().enumerate() {
                *lost = pattern >> number & 1 != 0;
            }
            let before = self.run.residual_cells;
            self.run.whole += u64::from(self.decode_block());
            let left = self.run.residual_cells - before;
            self.run.by_lost[pattern.count_ones() as usize] += left;
        }
        self.run.trials = 1 << size;
        self.run.data_cells = (self.data as u64) << size;
    }

    /// A burst at each place of a block; it may continue in the next block.
    fn bursts(&mut self, count: usize) {
        let size = self.size();
        for begin in 0..size {
            let end = begin + count;
            self.lost[begin..end.min(size)].fill(true);
            let mut is_whole = self.decode_block();
            self.lost.fill(false);
            if end > size {
                self.lost[..end - size].fill(true);
                is_whole &= self.decode_block();
                self.lost.fill(false);
            }
            self.run.whole += u64::from(is_whole);
        }
        self.run.trials = size as u64;
        self.run.data_cells = (2 * self.data * size) as u64;
    }

    fn report(mut self) -> MatrixRun {
        self.run.residual = self.run.residual_cells as f64 / self.run.data_cells.max(1) as f64;
        self.run
    }
}
