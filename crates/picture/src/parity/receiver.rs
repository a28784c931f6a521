use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Span, Time};
use layercast_fec::MatrixCode;
use layercast_wire::{ONE_CELL, OneCell};
use serde::Serialize;

use super::block::{Block, Kind, Place};
use super::{ParityConfig, ParityError};
use crate::group::Flags;

/// Octets of pictures that wait for a missing cell at most.
const MAX_HELD: usize = 1 << 20;

/// What the parities of a receiver did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ParityStats {
    /// Parity cells.
    pub cells: u64,
    /// Data cells that came back.
    pub repaired: u64,
    /// Numbers of data cells that did not.
    pub unrepaired: u64,
    /// Data cells that came back after others had waited for them long enough; they are not delivered.
    pub late: u64,
    /// Cells that came back and are no cells of a stream, which are left out.
    pub bad: u64,
    /// Times the blocks were lost track of: numbers contradict each other, or more cells are missing than a block has.
    pub resyncs: u64,
    /// Blocks, and those of them that lost data cells.
    pub blocks: u64,
    /// Blocks that lost data cells.
    pub lossy_blocks: u64,
}

/// Those of several receivers.
impl std::ops::AddAssign for ParityStats {
    fn add_assign(&mut self, other: ParityStats) {
        self.cells += other.cells;
        self.repaired += other.repaired;
        self.unrepaired += other.unrepaired;
        self.late += other.late;
        self.bad += other.bad;
        self.resyncs += other.resyncs;
        self.blocks += other.blocks;
        self.lossy_blocks += other.lossy_blocks;
    }
}

/// An item in the order in which it was sent.
#[derive(Debug)]
pub(crate) enum Ordered {
    /// A cell that came.
    Cell(OneCell),
    /// A cell that came back: it belongs somewhere between the frames since the last one that came.
    Recovered(OneCell),
    /// A cell of data, or one of which nothing is known, that is lost.
    Hole,
    /// A frame of data of a picture, and whether it is the next of its sequence.
    Picture(Bytes, bool),
    /// A cell that is not there yet: its place in the sequence, and when it was found missing.
    Missing(u64, Time),
}

/// The receiving side: holds cells back from the first missing one on, until parities bring it back or cannot.
#[derive(Debug)]
pub(crate) struct ParityReceiver {
    max_hold: Span,
    block: Block,
    /// Blocks are followed: the place of each cell in its block is known.
    in_step: bool,
    /// The first block of a circuit begins with number 0.
    is_first: bool,
    /// The last cell, if nothing is missing behind it.
    before: Option<Kind>,
    queue: VecDeque<Ordered>,
    /// Octets of pictures in it.
    held: usize,
    /// Place of the next cell in the sequence; its low seven bits are its number.
    next: Option<u64>,
    /// Places that were given up, from the oldest on.
    given_up: VecDeque<u64>,
    /// Data cells, and those that columns alone would not have brought back, of the blocks since they were asked for.
    judged: (u64, u64),
    seen: Option<MatrixCode>,
    stats: ParityStats,
}

impl ParityReceiver {
    pub fn new(config: &ParityConfig) -> Result<ParityReceiver, ParityError> {
        let (matrix, has_modes) = config.widest()?;
        let begins_long = config.code != MatrixCode::Columns;
        Ok(ParityReceiver {
            max_hold: config.max_hold,
            block: Block::new(matrix, has_modes, begins_long),
            in_step: false,
            is_first: true,
            before: None,
            queue: VecDeque::new(),
            held: 0,
            next: None,
            given_up: VecDeque::new(),
            judged: (0, 0),
            seen: None,
            stats: ParityStats::default(),
        })
    }

    pub fn stats(&self) -> ParityStats {
        self.stats
    }

    /// Cells of a block at most: more that are missing in a row say nothing.
    pub fn most(&self) -> usize {
        self.block.most()
    }

    /// Data cells since it was asked, those that column parities alone would have left missing, and the code of the last block.
    pub fn judge(&mut self) -> Option<(u64, u64, Option<MatrixCode>)> {
        let (cells, residual) = std::mem::take(&mut self.judged);
        (cells > 0).then(|| (cells, residual, self.seen.take()))
    }

    /// Another mode was asked for, and did not show yet.
    pub fn set_changing(&mut self, is_changing: bool) {
        self.block.is_changing = is_changing;
    }

    /// Takes a frame of a picture, which waits for its turn.
    pub fn push_picture(&mut self, data: Bytes, is_next: bool) {
        self.held += data.len();
        self.queue.push_back(Ordered::Picture(data, is_next));
        if self.held > MAX_HELD {
            self.give_up(|_| true);
        }
    }

    /// Takes a cell of the sequence, in front of which `lost` are missing.
    pub fn push(&mut self, now: Time, number: u8, lost: u8, frame: OneCell) {
        let kind = match frame.cpi {
            0 => Kind::Data,
            fill => Kind::Parity(fill.into(), frame.uu & 128 != 0),
        };
        self.stats.cells += u64::from(kind != Kind::Data);
        let next = *self.next.get_or_insert(number.into());
        let place = next + u64::from(lost);
        debug_assert_eq!(place & 127, u64::from(number));
        self.next = Some(place + 1);
        for missing in next..place {
            self.queue.push_back(Ordered::Missing(missing, now));
        }
        let before = self.before.replace(kind).filter(|_| lost == 0);
        if std::mem::take(&mut self.is_first) && kind == Kind::Data && number == 0 {
            self.begin(place, true);
        }
        if usize::from(lost) >= self.most() {
            self.lose_step();
        }
        if self.in_step && !self.put(place, kind, before, &frame.octets) {
            self.lose_step();
        }
        if !self.in_step {
            self.give_up(|_| true);
            // A block begins behind a parity.
            if kind == Kind::Data && matches!(before, Some(Kind::Parity(..))) {
                self.begin(place, true);
                self.put(place, kind, None, &frame.octets);
            }
        }
        if kind == Kind::Data {
            self.queue.push_back(Ordered::Cell(frame));
        }
    }

    fn begin(&mut self, start: u64, is_sure: bool) {
        self.block.begin(start, is_sure);
        self.in_step = true;
    }

    /// Puts a cell where it belongs; `false` if its number contradicts what is known.
    fn put(
        &mut self,
        place: u64,
        kind: Kind,
        before: Option<Kind>,
        octets: &[u8; ONE_CELL],
    ) -> bool {
        let mut at = (place - self.block.start) as usize;
        match self.block.place(at, kind, before) {
            Place::Here => {}
            Place::Nowhere => return false,
            Place::Next(end, is_certain) => {
                self.close(end, is_certain);
                at -= end;
                // More is missing than the rest of a block.
                if self.block.place(at, kind, None) != Place::Here {
                    return false;
                }
            }
        }
        self.block.put(at, kind, before, octets);
        if let Kind::Parity(..) = kind {
            self.recover(self.block.at);
        }
        true
    }

    /// The block ends at this place.
    fn close(&mut self, end: usize, is_certain: bool) {
        self.block.is_pinned |= is_certain;
        self.recover(end);
        let (residual, cells) = self.block.column_losses();
        self.judged.0 += cells;
        self.judged.1 += residual;
        self.seen = self.block.seen(Some(end).filter(|_| is_certain));
        let next = self.block.start + end as u64;
        let before = self.stats.unrepaired;
        self.give_up(|place| place < next);
        self.given_up.clear();
        self.stats.blocks += 1;
        self.stats.lossy_blocks += u64::from(self.stats.unrepaired > before);
        self.block.begin(next, is_certain);
    }

    /// Takes what parities bring back into the queue, and out of it what was no data, up to this place in the block.
    fn recover(&mut self, end: usize) {
        self.block.recover();
        let (block, stats) = (&self.block, &mut self.stats);
        let fill = block.certain_fill();
        self.queue.retain_mut(|item| {
            let &mut Ordered::Missing(place, _) = item else {
                return true;
            };
            let at = (place - block.start) as usize;
            if fill.is_some_and(|fill| (fill..end).contains(&at)) {
                return false;
            }
            let Some(octets) = block.cell(at) else {
                return true;
            };
            *item = match Flags::decode(octets[0]) {
                Some(flags) => {
                    stats.repaired += 1;
                    Ordered::Recovered(OneCell {
                        octets,
                        uu: u8::from(flags.is_data) << 7 | (place & 127) as u8,
                        cpi: 0,
                    })
                }
                None => {
                    stats.bad += 1;
                    Ordered::Hole
                }
            };
            true
        });
        self.given_up.retain(|&place| {
            let is_late = block.cell((place - block.start) as usize).is_some();
            stats.late += u64::from(is_late);
            !is_late
        });
    }

    /// Missing cells of which this is true stay missing.
    fn give_up(&mut self, is_meant: impl Fn(u64) -> bool) {
        for item in &mut self.queue {
            if let &mut Ordered::Missing(place, _) = item
                && is_meant(place)
            {
                *item = Ordered::Hole;
                self.stats.unrepaired += 1;
                if self.in_step && place >= self.block.start {
                    self.given_up.push_back(place);
                }
            }
        }
    }

    /// Blocks are looked for again.
    fn lose_step(&mut self) {
        self.stats.resyncs += u64::from(self.in_step);
        self.in_step = false;
        self.given_up.clear();
        self.give_up(|_| true);
    }

    /// The sequence begins again, or is over.
    pub fn restart(&mut self) {
        self.in_step = false;
        self.given_up.clear();
        self.give_up(|_| true);
        (self.is_first, self.before, self.next) = (false, None, None);
    }

    /// When [`on_timeout`](ParityReceiver::on_timeout) is due.
    pub fn next_timeout(&self) -> Option<Time> {
        let missing = self.queue.iter().find_map(|item| match item {
            Ordered::Missing(_, since) => Some(*since),
            _ => None,
        });
        Some(missing?.saturating_add(self.max_hold))
    }

    /// Cells that were waited for long enough are given up.
    pub fn on_timeout(&mut self, now: Time) {
        while self.next_timeout().is_some_and(|due| due <= now) {
            let is_missing = |item: &Ordered| match item {
                Ordered::Missing(place, _) => Some(*place),
                _ => None,
            };
            let Some(first) = self.queue.iter().find_map(is_missing) else {
                return;
            };
            self.give_up(|place| place == first);
        }
    }

    /// The next item whose turn it is.
    pub fn poll(&mut self) -> Option<Ordered> {
        if matches!(self.queue.front()?, Ordered::Missing(..)) {
            return None;
        }
        let item = self.queue.pop_front()?;
        if let Ordered::Picture(data, _) = &item {
            self.held -= data.len();
        }
        Some(item)
    }
}
