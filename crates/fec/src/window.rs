use std::collections::VecDeque;

use layercast_core::{Serial, Time};

use crate::{BlockDecoder, Header, LossCount, Shape};

/// A block of which at least one packet arrived.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Its packets; `None` once it is closed: the slot stays to recognise late packets.
    pub block: Option<BlockDecoder>,
    pub shape: Option<Shape>,
    /// Bitmap of the packets that arrived.
    seen: [u64; 4],
    pub due: Time,
}

impl Slot {
    pub fn new(due: Time) -> Slot {
        Slot {
            block: Some(BlockDecoder::new(0)),
            shape: None,
            seen: [0; 4],
            due,
        }
    }

    /// Whether a packet is consistent with earlier ones; if so, its shape is adopted.
    pub fn admits(&mut self, header: &Header) -> bool {
        let Some(block) = &mut self.block else {
            return false;
        };
        match (self.shape, header.shape) {
            (Some(old), Some(new)) => {
                let other_code =
                    old.scheme.is_some() && new.scheme.is_some() && old.scheme != new.scheme;
                if old.n != new.n || other_code {
                    return false;
                }
                // More parities than first announced: they were requested.
                if new.m > old.m {
                    self.shape = Some(new);
                }
            }
            (Some(old), None) => return header.index < old.n,
            (None, Some(new)) => {
                self.shape = Some(new);
                block.resize(usize::from(new.n));
            }
            (None, None) => block.resize(block.n().max(usize::from(header.index) + 1)),
        }
        true
    }

    /// Marks a packet as seen; `false` if it is a duplicate.
    pub fn see(&mut self, index: u8) -> bool {
        let (word, bit) = (usize::from(index >> 6), 1 << (index & 63));
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }

    /// Packets that arrived, and packets that must have been sent.
    pub fn count(&self) -> LossCount {
        let received = self.seen.iter().map(|it| u64::from(it.count_ones())).sum();
        let last = (0..4).rev().find(|&it| self.seen[it] != 0);
        let least = last.map_or(0, |it| {
            64 * (it as u64 + 1) - u64::from(self.seen[it].leading_zeros())
        });
        let announced = self.shape.map_or(0, |it| u64::from(it.n) + u64::from(it.m));
        LossCount {
            expected: announced.max(least),
            received,
        }
    }
}

/// Position of a block number relative to the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the window, at this place.
    Inside(usize),
    /// This many blocks beyond its end.
    Beyond(usize),
    /// This many blocks before its beginning, where no block has been closed: blocks are filled in turn, and the first packet
    /// to arrive need not be of the oldest one.
    Before(usize),
    /// Before the window: of a block that is closed.
    Past,
    /// Unrelated to the known blocks; the packet is refused.
    Strange,
}

/// Largest distance of a block that is accepted without a second packet to confirm it.
const FAR: i64 = 1_024;

/// The blocks from the oldest open one to the newest seen.
#[derive(Debug, Default)]
pub(crate) struct Window {
    base: Serial,
    started: bool,
    /// Whether a block was closed since it started.
    closed: bool,
    pub slots: VecDeque<Option<Slot>>,
    /// The first packet of an unrelated block: the sender restarted, or the packet is forged.
    candidate: Option<(Serial, u8)>,
}

impl Window {
    /// Locates the block of a header; the very first packet positions the window.
    pub fn place(&mut self, header: &Header) -> Place {
        if !self.started {
            (self.base, self.started) = (header.block, true);
        }
        let ahead = i64::from(header.block.diff(self.base));
        if (-FAR..FAR).contains(&ahead) {
            return match usize::try_from(ahead) {
                Ok(at) if at < self.slots.len() => Place::Inside(at),
                Ok(at) => Place::Beyond(at - self.slots.len()),
                Err(_) if self.closed => Place::Past,
                Err(_) => Place::Before(ahead.unsigned_abs() as usize),
            };
        }
        let before = self.candidate.replace((header.block, header.index));
        let borne_out = before.is_some_and(|(block, index)| {
            (0..=1).contains(&header.block.diff(block))
                && (block, index) != (header.block, header.index)
        });
        match borne_out {
            // All open blocks are far behind.
            true => Place::Beyond(usize::MAX),
            false => Place::Strange,
        }
    }

    /// Begins `by` blocks earlier.
    pub fn begin_earlier(&mut self, by: usize) {
        for _ in 0..by {
            self.slots.push_front(None);
            self.base = Serial(self.base.0.wrapping_sub(1));
        }
    }

    /// Removes the oldest block.
    pub fn pop(&mut self) -> Option<(Serial, Option<Slot>)> {
        let slot = self.slots.pop_front()?;
        let block = self.base;
        self.closed = true;
        self.base = self.base.plus(1);
        Some((block, slot))
    }

    /// Restarts at a block; the window is empty.
    pub fn restart(&mut self, block: Serial) {
        debug_assert!(self.slots.is_empty());
        (self.base, self.candidate, self.closed) = (block, None, false);
    }
}
