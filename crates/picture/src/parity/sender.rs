use layercast_core::Time;
use layercast_fec::{Matrix, MatrixCode};
use layercast_wire::ONE_CELL;

use super::control::{FecControl, FecControlError};
use super::{ParityConfig, ParityError, sent_parities};

/// A parity cell to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parity {
    /// T: it is none of a column.
    pub is_diagonal: bool,
    /// Data cells of the block.
    pub fill: u8,
    pub octets: [u8; ONE_CELL],
}

/// The sending side: running parities of the block, no cell is kept.
#[derive(Debug)]
pub(crate) struct ParitySender {
    config: ParityConfig,
    matrix: Matrix,
    parities: Vec<u8>,
    fill: usize,
    opened: Option<Time>,
    /// The code of the blocks to come, and the last message that asked for one.
    next: Option<MatrixCode>,
    seq: Option<u16>,
    /// Times the code was changed.
    pub changes: u64,
}

impl ParitySender {
    pub fn new(config: ParityConfig) -> Result<ParitySender, ParityError> {
        config.widest()?;
        let matrix = config.matrix(config.code)?;
        let parities = vec![0; matrix.parity_cells() * ONE_CELL];
        Ok(ParitySender {
            config,
            matrix,
            parities,
            fill: 0,
            opened: None,
            next: None,
            seq: None,
            changes: 0,
        })
    }

    /// The code of the block that is open.
    pub fn code(&self) -> MatrixCode {
        self.matrix.shape().code
    }

    /// Adds a cell; whether the block is full.
    pub fn push(&mut self, now: Time, octets: &[u8; ONE_CELL]) -> bool {
        self.opened.get_or_insert(now);
        self.matrix.add(&mut self.parities, self.fill, octets);
        self.fill += 1;
        self.fill == self.matrix.data_cells()
    }

    /// When the block is to be closed, full or not.
    pub fn next_timeout(&self) -> Option<Time> {
        let opened = self.opened?;
        Some(opened.saturating_add(self.config.deadline))
    }

    /// Ends the block: its parities. A code that was asked for begins with the next block.
    pub fn close(&mut self, mut put: impl FnMut(Parity)) {
        if self.fill == 0 {
            return;
        }
        let columns = self.matrix.shape().columns;
        for number in sent_parities(&self.matrix, self.fill) {
            let mut octets = [0; ONE_CELL];
            octets.copy_from_slice(&self.parities[number * ONE_CELL..][..ONE_CELL]);
            put(Parity {
                is_diagonal: number >= columns,
                fill: self.fill as u8,
                octets,
            });
        }
        self.fill = 0;
        self.opened = None;
        self.parities.fill(0);
        self.change();
    }

    /// The code that was asked for is that of the next block.
    fn change(&mut self) {
        // It was checked when it was asked for.
        let matrix = self.next.take().map(|code| self.config.matrix(code));
        if let Some(Ok(matrix)) = matrix {
            self.parities.resize(matrix.parity_cells() * ONE_CELL, 0);
            self.matrix = matrix;
            self.changes += 1;
        }
    }

    /// Takes a message that asks for a code. One that came before changes nothing.
    pub fn on_control(&mut self, control: &FecControl) -> Result<(), FecControlError> {
        let (rows, columns) = (self.config.rows, self.config.columns);
        if (usize::from(control.rows), usize::from(control.columns)) != (rows, columns) {
            return Err(FecControlError::Geometry {
                asked: (control.rows.into(), control.columns.into()),
                agreed: (rows, columns),
            });
        }
        if self.config.control.is_none() {
            return Err(FecControlError::Fixed(self.code()));
        }
        self.config.matrix(control.code)?;
        let is_new = |last: u16| (1..0x8000).contains(&control.seq.wrapping_sub(last));
        if self.seq.is_some_and(|last| !is_new(last)) {
            return Ok(());
        }
        self.seq = Some(control.seq);
        self.next = (control.code != self.code()).then_some(control.code);
        if self.fill == 0 {
            self.change();
        }
        Ok(())
    }
}
