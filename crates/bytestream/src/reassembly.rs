use std::collections::BTreeMap;

use bytes::Bytes;
use layercast_core::RangeSet;
use layercast_wire::{MAX_SACK, Payload};

use crate::Chain;

/// What a stored piece costs at least, in bytes: a sender of single bytes with holes between them
/// must not cost us more than one of whole segments.
const LEAST_COST: usize = 256;

/// What arrived beyond a hole, waiting for it to be filled.
///
/// Most streams have no holes most of the time: what it takes to hold anything is apart, and stays for the next hole.
#[derive(Default, Debug)]
pub struct Reassembly {
    holds_any: bool,
    held: Option<Box<Held>>,
}

impl Reassembly {
    /// Whether it holds nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.holds_any
    }

    /// Offset after the last byte held.
    pub fn end(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.end())
    }

    /// Keeps the bytes at `from`, as far as they are new and `budget` bytes suffice.
    pub fn insert(&mut self, from: u64, payload: &Payload, budget: usize) {
        let held = self.held.get_or_insert_default();
        held.insert(from, payload, budget);
        self.holds_any = !held.islands.is_empty();
    }

    /// Appends to `chain` what follows its end; gives how many bytes.
    pub fn drain_into(&mut self, chain: &mut Chain) -> usize {
        let before = chain.end();
        let end = self.drain(before, |piece| chain.push(piece));
        (end - before) as usize
    }

    /// Gives what follows `at` without a hole to `each`; tells where it ends.
    #[inline]
    pub fn drain(&mut self, at: u64, each: impl FnMut(Payload)) -> u64 {
        let Some(held) = self.held.as_mut().filter(|_| self.holds_any) else {
            return at;
        };
        let end = held.drain(at, each);
        self.holds_any = !held.islands.is_empty();
        end
    }

    /// What is held, without holes, in order.
    pub fn islands(&self) -> &RangeSet {
        const NONE: &RangeSet = &RangeSet::new();
        self.held.as_ref().map_or(NONE, |held| &held.islands)
    }

    /// The islands to report, the one of the latest segment first (RFC 2018 4).
    #[inline]
    pub fn reports(&self) -> &[(u64, u64)] {
        match &self.held {
            Some(held) if self.holds_any => &held.reports.0[..held.reports.1],
            _ => &[],
        }
    }

    /// Bytes of memory beside the bytes themselves.
    pub fn memory(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.memory())
    }
}

#[derive(Default, Debug)]
struct Held {
    pieces: BTreeMap<u64, Payload>,
    islands: RangeSet,
    cost: usize,
    /// A byte of each island that was reported lately, the last first.
    recent: [u64; MAX_SACK],
    /// These islands, each once, and how many they are.
    reports: ([(u64, u64); MAX_SACK], usize),
}

impl Held {
    /// Offset after the last byte held.
    fn end(&self) -> u64 {
        self.islands.iter().next_back().map_or(0, |(_, end)| end)
    }

    /// Keeps the bytes at `from`, as far as they are new and `budget` bytes suffice.
    fn insert(&mut self, from: u64, payload: &Payload, budget: usize) {
        let to = from + payload.len() as u64;
        // Each gap becomes a piece of its own; pieces never overlap.
        while let Some((start, end)) = { self.islands.gaps(from, to).next() } {
            let piece = payload.slice((start - from) as usize..(end - from) as usize);
            let cost = piece.len().max(LEAST_COST);
            if self.cost + cost > budget {
                break;
            }
            self.cost += cost;
            self.keep(start, compact(piece, payload.len()));
            self.islands.insert(start, end);
        }
        debug_assert_eq!(
            self.pieces.is_empty(),
            self.islands.is_empty(),
            "pieces and islands are the same bytes"
        );
        let Some(island) = self.islands.holding(from) else {
            return;
        };
        // Most often the island that was reported last has grown by a segment.
        let (reports, count) = &mut self.reports;
        if *count > 0
            && reports[0].0 == island.0
            && reports[1..*count]
                .iter()
                .all(|it| it.1 < island.0 || it.0 > island.1)
        {
            reports[0] = island;
            return;
        }
        self.report(from);
        self.find_reports();
    }

    /// Zeros that follow zeros become one piece with them.
    fn keep(&mut self, start: u64, piece: Payload) {
        if let Payload::Zeros(more) = piece
            && let Some((&at, Payload::Zeros(last))) = self.pieces.range_mut(..start).next_back()
            && at + u64::from(*last) == start
            && let Some(sum) = last.checked_add(more)
        {
            let costs = |len: u32| (len as usize).max(LEAST_COST);
            self.cost -= costs(*last) + costs(more) - costs(sum);
            *last = sum;
            return;
        }
        self.pieces.insert(start, piece);
    }

    /// Puts `at` at the front of what to report.
    fn report(&mut self, at: u64) {
        let island = self.islands.holding(at);
        let same = |&other: &u64| self.islands.holding(other) == island;
        let place = self.recent.iter().position(same);
        self.recent[..=place.unwrap_or(MAX_SACK - 1)].rotate_right(1);
        self.recent[0] = at;
    }

    /// Gives what follows `at` without a hole to `each`; tells where it ends.
    fn drain(&mut self, at: u64, mut each: impl FnMut(Payload)) -> u64 {
        let mut end = at;
        while let Some(entry) = self.pieces.first_entry() {
            if *entry.key() > end {
                break;
            }
            let (start, piece) = entry.remove_entry();
            self.cost -= piece.len().max(LEAST_COST);
            let stop = start + piece.len() as u64;
            if stop > end {
                each(piece.slice((end - start) as usize..piece.len()));
                end = stop;
            }
        }
        self.islands.remove_below(end);
        if self.islands.is_empty() {
            debug_assert!(
                self.pieces.is_empty() && self.cost == 0,
                "no bytes have no cost"
            );
            *self = Held::default();
        } else {
            self.find_reports();
        }
        end
    }

    fn find_reports(&mut self) {
        let (reports, count) = &mut self.reports;
        *count = 0;
        for &at in &self.recent {
            if let Some(island) = self.islands.holding(at)
                && !reports[..*count].contains(&island)
            {
                reports[*count] = island;
                *count += 1;
            }
        }
    }

    /// Bytes of memory beside the bytes themselves.
    fn memory(&self) -> usize {
        size_of::<Held>()
            + self.islands.memory()
            + self.pieces.len() * 2 * size_of::<(u64, Payload)>()
    }
}

/// A small piece of a large buffer is copied, so that it does not hold on to all of it.
fn compact(piece: Payload, whole: usize) -> Payload {
    match piece {
        Payload::Bytes(bytes) if bytes.len() < whole.max(2 * LEAST_COST) / 2 => {
            Payload::Bytes(Bytes::copy_from_slice(&bytes))
        }
        piece => piece,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &'static [u8]) -> Payload {
        Payload::Bytes(Bytes::from_static(bytes))
    }

    #[test]
    fn overlapping_pieces_become_one_stream() {
        let mut held = Reassembly::default();
        held.insert(4, &text(b"456"), 10_000);
        held.insert(9, &text(b"9"), 10_000);
        held.insert(2, &text(b"23456789a"), 10_000);
        held.insert(2, &text(b"xxxxx"), 10_000);
        let mut chain = Chain::new(0);
        assert_eq!(held.drain_into(&mut chain), 0);
        chain.push(text(b"01"));
        assert_eq!(held.drain_into(&mut chain), 9);
        assert_eq!(chain.slice(0, 11), text(b"0123456789a"));
        let cost = held.held.as_ref().map(|held| held.cost);
        assert!(held.is_empty() && cost == Some(0));
    }

    #[test]
    fn the_latest_island_is_reported_first() {
        let mut held = Reassembly::default();
        for at in [10, 20, 30, 40, 50] {
            held.insert(at, &Payload::Zeros(5), 10_000);
        }
        let reports =
            |held: &Reassembly| -> Vec<u64> { held.reports().iter().map(|it| it.0).collect() };
        assert_eq!(reports(&held), [50, 40, 30, 20]);
        held.insert(25, &Payload::Zeros(5), 10_000);
        assert_eq!(held.reports().first(), Some(&(20, 35)));
        assert_eq!(reports(&held), [20, 50, 40]);
    }

    #[test]
    fn single_bytes_cannot_exhaust_memory() {
        let mut held = Reassembly::default();
        for at in 0..100_000 {
            held.insert(2 * at + 1, &text(b"x"), 65_536);
        }
        let pieces = held.held.as_ref().map_or(0, |held| held.pieces.len());
        assert_eq!(pieces, 65_536 / LEAST_COST);
        assert_eq!(held.islands().len(), pieces);
    }
}
