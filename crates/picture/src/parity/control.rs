use layercast_core::{Span, Time};
use layercast_fec::{MatrixCode, MatrixError};
use layercast_wire::{Cell, ONE_CELL, OneCell};
use thiserror::Error;

const VERSION: u8 = 1;
/// Octets of a message; the others of its cell are zeros.
const OCTETS: usize = 14;

/// A message on the reverse circuit that asks a sender for another code (specs/mpeg-picture-quality.md 2.7): one AAL5 frame in
/// one cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FecControl {
    /// The circuit whose parities it is about.
    pub vpi: u8,
    /// The circuit.
    pub vci: u16,
    /// [`MatrixCode::Columns`] or [`MatrixCode::EvenOdd`].
    pub code: MatrixCode,
    /// N: that of the set-up, since parity cells do not name it.
    pub rows: u8,
    /// M: that of the set-up.
    pub columns: u8,
    /// A message with a number that came before changes nothing.
    pub seq: u16,
    /// The loss that is the reason, in parts per million.
    pub loss_ppm: u32,
}

/// Reason why a message is not followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FecControlError {
    /// The cell has no such message.
    #[error(
        "the cell on the reverse circuit is no control message of version 1: its CRC, version or mode is another"
    )]
    NoMessage,
    /// It is about another circuit.
    #[error("a control message for circuit {0}/{1}: this sender has another")]
    Circuit(u8, u16),
    /// Rows and columns are agreed at the set-up.
    #[error(
        "a control message asks for {asked:?} rows and columns: the set-up has {agreed:?}, and parity cells do not name others"
    )]
    Geometry {
        /// Rows and columns of the message.
        asked: (usize, usize),
        /// Those of the set-up.
        agreed: (usize, usize),
    },
    /// The sender has no control.
    #[error("parities of {0:?} do not change: configure the sender with control at the set-up")]
    Fixed(MatrixCode),
    /// The sender has no parities.
    #[error("the sender has no parities: configure them at the set-up")]
    NoParities,
    /// The geometry does not allow the code.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
}

impl FecControl {
    /// The cell on the reverse circuit.
    pub fn to_cell(&self, vpi: u8, vci: u16) -> Cell {
        let mut octets = [0; ONE_CELL];
        let [vci_high, vci_low] = self.vci.to_be_bytes();
        let mode = match self.code {
            MatrixCode::EvenOdd => 2,
            _ => 1,
        };
        let [seq_high, seq_low] = self.seq.to_be_bytes();
        octets[..9].copy_from_slice(&[
            VERSION,
            self.vpi,
            vci_high,
            vci_low,
            mode,
            self.rows,
            self.columns,
            seq_high,
            seq_low,
        ]);
        octets[9..13].copy_from_slice(&self.loss_ppm.to_be_bytes());
        let frame = OneCell {
            octets,
            uu: 0,
            cpi: 0,
        };
        frame.to_cell(vpi, vci)
    }

    /// The message in a cell.
    ///
    /// # Errors
    /// It has none.
    pub fn of_cell(cell: &Cell) -> Result<FecControl, FecControlError> {
        let frame = OneCell::read(&cell.payload).map_err(|_| FecControlError::NoMessage)?;
        let (message, rest) = frame.octets.split_at(OCTETS);
        let &[
            VERSION,
            vpi,
            vci_high,
            vci_low,
            mode,
            rows,
            columns,
            s0,
            s1,
            l0,
            l1,
            l2,
            l3,
            0,
        ] = message
        else {
            return Err(FecControlError::NoMessage);
        };
        let code = match mode {
            1 => MatrixCode::Columns,
            2 => MatrixCode::EvenOdd,
            _ => return Err(FecControlError::NoMessage),
        };
        if rest.iter().any(|&octet| octet != 0) {
            return Err(FecControlError::NoMessage);
        }
        Ok(FecControl {
            vpi,
            vci: u16::from_be_bytes([vci_high, vci_low]),
            code,
            rows,
            columns,
            seq: u16::from_be_bytes([s0, s1]),
            loss_ppm: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }
}

/// When a receiver asks for another mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FecControllerConfig {
    /// More than this loss, in parts per million, that columns alone leave over [`up_after`](Self::up_after): mode 2.
    pub up_ppm: u32,
    /// Time over which the loss is measured.
    pub up_after: Span,
    /// Less than this loss over [`down_after`](Self::down_after): mode 1.
    pub down_ppm: u32,
    /// Time over which it is measured.
    pub down_after: Span,
    /// Until a message without effect is sent again.
    pub again_after: Span,
    /// Times it is sent again at most.
    pub repeats: u8,
}

impl Default for FecControllerConfig {
    fn default() -> FecControllerConfig {
        FecControllerConfig {
            up_ppm: 100,
            up_after: Span::from_secs(1),
            down_ppm: 1,
            down_after: Span::from_secs(10),
            again_after: Span::from_ms(250),
            repeats: 3,
        }
    }
}

/// Chooses between modes 1 and 2 by the loss that column parities alone leave: of mode 2 it is the loss that mode 1 would have
/// left, so that the success of mode 2 is no reason to leave it.
#[derive(Debug)]
pub struct FecController {
    config: FecControllerConfig,
    /// What it asks for, and its number.
    wanted: MatrixCode,
    /// The code of the last block that showed one.
    seen: MatrixCode,
    seq: u16,
    /// Loss in parts per million when it was asked for.
    loss_ppm: u32,
    /// When the message is due, and how often it may still be sent.
    due: Option<Time>,
    left: u8,
    /// Begin of the window, cells and residual loss in it.
    since: Option<Time>,
    cells: u64,
    residual: u64,
    /// Since when the loss is below the lower threshold, cells and residual loss since then.
    quiet: Option<Time>,
    quiet_cells: u64,
    quiet_residual: u64,
    changes: u64,
}

impl FecController {
    /// A controller of a stream that begins with a code.
    pub fn new(config: FecControllerConfig, code: MatrixCode) -> FecController {
        FecController {
            config,
            wanted: code,
            seen: code,
            seq: 0,
            loss_ppm: 0,
            due: None,
            left: 0,
            since: None,
            cells: 0,
            residual: 0,
            quiet: None,
            quiet_cells: 0,
            quiet_residual: 0,
            changes: 0,
        }
    }

    /// The code that is asked for.
    pub fn wanted(&self) -> MatrixCode {
        self.wanted
    }

    /// Whether another code is asked for than the last block had.
    pub fn is_changing(&self) -> bool {
        self.seen != self.wanted
    }

    /// Asks for a code, as a switch or management wants it.
    pub fn ask_for(&mut self, now: Time, code: MatrixCode) {
        if code != self.wanted {
            self.ask(now, code, 0);
        }
    }

    /// Times another code was asked for.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes a block: its data cells, and those that column parities alone would not bring back. `seen` is the code that the
    /// block had, if its parities showed it.
    pub fn observe(&mut self, now: Time, cells: u64, residual: u64, seen: Option<MatrixCode>) {
        self.seen = seen.unwrap_or(self.seen);
        if !self.is_changing() {
            self.due = None;
        }
        let since = *self.since.get_or_insert(now);
        self.cells += cells;
        self.residual += residual;
        let ppm = |residual: u64, cells: u64| residual.saturating_mul(1_000_000) / cells.max(1);
        if now.since(since) >= self.config.up_after {
            let loss = ppm(self.residual, self.cells);
            if loss > self.config.up_ppm.into() && self.wanted == MatrixCode::Columns {
                self.ask(now, MatrixCode::EvenOdd, loss);
            }
            (self.since, self.cells, self.residual) = (Some(now), 0, 0);
        }
        let quiet = *self.quiet.get_or_insert(now);
        self.quiet_cells += cells;
        self.quiet_residual += residual;
        let loss = ppm(self.quiet_residual, self.quiet_cells);
        if loss >= self.config.down_ppm.into() {
            (self.quiet, self.quiet_cells, self.quiet_residual) = (Some(now), 0, 0);
        } else if now.since(quiet) >= self.config.down_after {
            if self.wanted == MatrixCode::EvenOdd {
                self.ask(now, MatrixCode::Columns, loss);
            }
            (self.quiet, self.quiet_cells, self.quiet_residual) = (Some(now), 0, 0);
        }
    }

    fn ask(&mut self, now: Time, code: MatrixCode, loss: u64) {
        self.wanted = code;
        self.seq = self.seq.wrapping_add(1);
        self.loss_ppm = loss.min(1_000_000) as u32;
        self.due = Some(now);
        self.left = 1 + self.config.repeats;
        self.changes += 1;
    }

    /// When the next message is due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.due
    }

    /// The next message, of a geometry and a circuit.
    pub fn poll(
        &mut self,
        now: Time,
        rows: u8,
        columns: u8,
        circuit: (u8, u16),
    ) -> Option<FecControl> {
        if self.due.is_none_or(|due| due > now) || self.left == 0 {
            return None;
        }
        self.left -= 1;
        self.due = (self.left > 0).then(|| now.saturating_add(self.config.again_after));
        Some(FecControl {
            vpi: circuit.0,
            vci: circuit.1,
            code: self.wanted,
            rows,
            columns,
            seq: self.seq,
            loss_ppm: self.loss_ppm,
        })
    }
}
