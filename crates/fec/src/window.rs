use std::collections::VecDeque;

use layercast_core::{Serial, Time};

use crate::{BlockDecoder, Header, LossCount, Shape};

/// A block that something arrived of.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Its packets; `None`: it was done with, but stays so that what comes late is known.
    pub block: Option<BlockDecoder>,
    pub shape: Option<Shape>,
    /// Which packets came, a bit each.
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

    /// Whether a packet agrees with those before; if so, what it tells of the block is taken over.
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
                // More parities than were told at first: they were asked for.
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

    /// Notes a packet; `false`: it was here before.
    pub fn see(&mut self, index: u8) -> bool {
        let (word, bit) = (usize::from(index >> 6), 1 << (index & 63));
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }

    /// Packets that came, and that must have been sent.
    pub fn count(&self) -> LossCount {
        let received = self.seen.iter().map(|it| u64::from(it.count_ones())).sum();
        let last = (0..4).rev().find(|&it| self.seen[it] != 0);
        let least = last.map_or(0, |it| {
            64 * (it as u64 + 1) - u64::from(self.seen[it].leading_zeros())
        });
        let told = self.shape.map_or(0, |it| u64::from(it.n) + u64::from(it.m));
        LossCount {
            expected: told.max(least),
            received,
        }
    }
}

/// What a block number means to a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It lies in it, at this place.
    Inside(usize),
    /// It lies so many blocks behind its end.
    Beyond(usize),
    /// It is past.
    Past,
    /// It has nothing to do with what is known: refuse it.
    Strange,
}

/// How far ahead or behind a block may be without a second packet that bears it out.
const FAR: i64 = 1_024;

/// The blocks between the oldest that is open and the newest that was heard of.
#[derive(Debug, Default)]
pub(crate) struct Window {
    base: Serial,
    started: bool,
    pub slots: VecDeque<Option<Slot>>,
    /// The first packet of another place in the sequence: the sender began anew, or somebody lies.
    candidate: Option<(Serial, u8)>,
}

impl Window {
    /// Where the block of a header lies; the first packet of all puts the window where it is.
    pub fn place(&mut self, header: &Header) -> Place {
        if !self.started {
            (self.base, self.started) = (header.block, true);
        }
        let ahead = i64::from(header.block.diff(self.base));
        if (-FAR..FAR).contains(&ahead) {
            let at = usize::try_from(ahead);
            return at.map_or(Place::Past, |at| match at < self.slots.len() {
                true => Place::Inside(at),
                false => Place::Beyond(at - self.slots.len()),
            });
        }
        let before = self.candidate.replace((header.block, header.index));
        let borne_out = before.is_some_and(|(block, index)| {
            (0..=1).contains(&header.block.diff(block))
                && (block, index) != (header.block, header.index)
        });
        match borne_out {
            // All that is open is behind now.
            true => Place::Beyond(usize::MAX),
            false => Place::Strange,
        }
    }

    /// Takes the oldest block out.
    pub fn pop(&mut self) -> Option<(Serial, Option<Slot>)> {
        let slot = self.slots.pop_front()?;
        let block = self.base;
        self.base = self.base.plus(1);
        Some((block, slot))
    }

    /// Begins anew at a block; the window is empty.
    pub fn restart(&mut self, block: Serial) {
        debug_assert!(self.slots.is_empty());
        (self.base, self.candidate) = (block, None);
    }
}
