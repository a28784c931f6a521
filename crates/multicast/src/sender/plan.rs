use layercast_wire::multicast::Symbol;

use crate::Geometry;

/// What is to be sent in a pass.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Plan {
    items: Vec<Item>,
    /// Items before this index are done.
    at: usize,
    /// Complete blocks with parities that follow: they become items one by one, since a large object has millions.
    rest: Option<Rest>,
}

/// Blocks that follow, each with a number of parities.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Rest {
    geometry: Geometry,
    block: u32,
    parities: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    /// Source packets from the first number up to the second.
    Sources(u64, u64),
    /// A number of fresh parities of a block.
    Parities(u32, u32),
    /// Source packets from the first number up to the second, for a single member.
    Alone(u64, u64, u32),
}

impl Plan {
    /// All source packets, with `parities` after each block.
    pub fn everything(geometry: &Geometry, parities: u16) -> Plan {
        let mut plan = Plan::default();
        if parities == 0 {
            plan.sources(0, geometry.packets());
        } else {
            plan.rest = Some(Rest {
                geometry: *geometry,
                block: 0,
                parities,
            });
            plan.refill();
        }
        plan
    }

    /// Adds the next block of the rest once all items are done.
    fn refill(&mut self) {
        if self.at < self.items.len() {
            return;
        }
        let Some(rest) = self.rest.take() else {
            return;
        };
        let block = rest.block;
        if block < rest.geometry.blocks() {
            self.items.clear();
            self.at = 0;
            let (first, end) = rest.geometry.range(block);
            self.sources(first, end);
            self.parities(block, rest.parities.into());
            self.rest = Some(Rest {
                block: block + 1,
                ..rest
            });
        }
    }

    /// Adds source packets.
    pub fn sources(&mut self, from: u64, to: u64) {
        if from < to {
            self.items.push(Item::Sources(from, to));
        }
    }

    /// Adds source packets for a single member.
    pub fn alone(&mut self, from: u64, to: u64, member: u32) {
        if from < to {
            self.items.push(Item::Alone(from, to, member));
        }
    }

    /// Adds parities.
    pub fn parities(&mut self, block: u32, count: u32) {
        if count > 0 {
            self.items.push(Item::Parities(block, count));
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        let done = self.rest.as_ref().is_none_or(Rest::is_over);
        self.at == self.items.len() && done
    }

    /// Packets left.
    pub fn left(&self) -> u64 {
        let rest = self.rest.as_ref().map_or(0, Rest::left);
        let items = &self.items[self.at..];
        let items = items
            .iter()
            .map(|item| match *item {
                Item::Sources(from, to) | Item::Alone(from, to, _) => to - from,
                Item::Parities(_, count) => count.into(),
            })
            .sum::<u64>();
        items + rest
    }

    /// The first remaining source packet and 1 + the last.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        let ranges = self.items[self.at..].iter().filter_map(|item| match *item {
            Item::Sources(from, to) | Item::Alone(from, to, _) => Some((from, to)),
            Item::Parities(..) => None,
        });
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The single member that the next packet is for.
    pub fn for_whom(&self) -> Option<u32> {
        match self.items.get(self.at)? {
            Item::Alone(_, _, member) => Some(*member),
            _ => None,
        }
    }

    /// Returns the next packet, and the single member that it is for.
    pub fn next(
        &mut self,
        geometry: &Geometry,
        fresh: &mut Fresh,
    ) -> Option<(Symbol, Option<u32>)> {
        let whom = self.for_whom();
        let item = self.items.get_mut(self.at)?;
        let (symbol, done) = match item {
            Item::Sources(from, to) | Item::Alone(from, to, _) => {
                debug_assert!(*from < *to, "an item that is not done has packets");
                *from += 1;
                (Symbol::Source(*from - 1), from == to)
            }
            Item::Parities(block, count) => {
                debug_assert!(*count > 0, "an item that is not done has packets");
                *count -= 1;
                (fresh.next(geometry, *block), *count == 0)
            }
        };
        self.at += usize::from(done);
        self.refill();
        Some((symbol, whom))
    }
}

impl Rest {
    fn is_over(&self) -> bool {
        self.block >= self.geometry.blocks()
    }

    /// Number of its packets.
    fn left(&self) -> u64 {
        let blocks = u64::from(self.geometry.blocks().saturating_sub(self.block));
        let (first, _) = self.geometry.range(self.block);
        self.geometry.packets() - first + blocks * u64::from(self.parities)
    }
}

/// The next parity of each block that was never sent.
///
/// When a code has no further parities, all symbols of the block are repeated in turn: a receiver that lacks m of
/// them gets m new ones within one turn.
#[derive(Clone, Default, Debug)]
pub(crate) struct Fresh {
    most: u32,
    sent: Vec<u32>,
}

impl Fresh {
    /// For a code with `most` parities per block.
    pub fn new(geometry: &Geometry, most: u32) -> Fresh {
        let blocks = if most == 0 { 0 } else { geometry.blocks() };
        Fresh {
            most,
            sent: vec![0; blocks as usize],
        }
    }

    fn next(&mut self, geometry: &Geometry, block: u32) -> Symbol {
        let sent = &mut self.sent[block as usize];
        let number = *sent;
        let (first, end) = geometry.range(block);
        let sources = (end - first) as u32;
        // After the parities come the sources, then the parities again.
        let turn = sources + self.most;
        debug_assert!(number < turn, "a turn has each symbol once");
        *sent = if number + 1 == turn { 0 } else { number + 1 };
        match number.checked_sub(self.most) {
            Some(source) => Symbol::Source(first + u64::from(source)),
            None => Symbol::Parity {
                block,
                index: number,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parities_are_fresh_until_there_are_no_more() {
        let geometry = Geometry::new(50, 10, 3).unwrap();
        let mut fresh = Fresh::new(&geometry, 2);
        let mut plan = Plan::everything(&geometry, 1);
        assert_eq!(plan.left(), 7);
        let first: Vec<_> =
            core::iter::from_fn(|| Some(plan.next(&geometry, &mut fresh)?.0)).collect();
        let source = Symbol::Source;
        let parity = |block, index| Symbol::Parity { block, index };
        let wanted = [
            source(0),
            source(1),
            source(2),
            parity(0, 0),
            source(3),
            source(4),
            parity(1, 0),
        ];
        assert_eq!(first, wanted);
        plan.parities(1, 5);
        let again: Vec<_> =
            core::iter::from_fn(|| Some(plan.next(&geometry, &mut fresh)?.0)).collect();
        let wanted = [
            parity(1, 1),
            source(3),
            source(4),
            parity(1, 0),
            parity(1, 1),
        ];
        assert_eq!(again, wanted);
        assert!(plan.is_empty());
    }
}
