use super::{MAX_LIST, PacketError};

/// Half-open ranges of numbers, in order, none empty, at most [`MAX_LIST`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// None.
    pub const fn new() -> Spans {
        Spans(Vec::new())
    }

    /// Adds `from..to` at the end; gives false, and adds nothing, if it is empty, not behind the others, longer
    /// than 2^32 - 1, or one too many.
    pub fn push(&mut self, from: u64, to: u64) -> bool {
        let behind = self.0.last().is_none_or(|&(_, end)| end <= from);
        let fits = from < to && to - from <= u64::from(u32::MAX) && self.0.len() < MAX_LIST;
        if behind && fits {
            self.0.push((from, to));
        }
        behind && fits
    }

    /// As many of `ranges` as there is room for, and whether all.
    pub fn of(ranges: impl IntoIterator<Item = (u64, u64)>) -> (Spans, bool) {
        let mut spans = Spans::new();
        let all = ranges.into_iter().all(|(from, to)| spans.push(from, to));
        (spans, all)
    }

    /// The ranges.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// How many numbers.
    pub fn count(&self) -> u64 {
        self.iter().map(|(from, to)| to - from).sum()
    }

    /// 1 + the highest number; 0 if there is none.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |&(_, end)| end)
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Symbols that blocks lack: block and how many, blocks in order, no count 0, at most [`MAX_LIST`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Needs(Vec<(u32, u16)>);

impl Needs {
    /// None.
    pub const fn new() -> Needs {
        Needs(Vec::new())
    }

    /// Adds a block at the end; gives false, and adds nothing, if the count is 0, the block not behind the others,
    /// or one too many.
    pub fn push(&mut self, block: u32, count: u16) -> bool {
        let behind = self.0.last().is_none_or(|&(last, _)| last < block);
        let fits = count > 0 && self.0.len() < MAX_LIST;
        if behind && fits {
            self.0.push((block, count));
        }
        behind && fits
    }

    /// As many of `blocks` as there is room for, and whether all.
    pub fn of(blocks: impl IntoIterator<Item = (u32, u16)>) -> (Needs, bool) {
        let mut needs = Needs::new();
        let all = blocks
            .into_iter()
            .all(|(block, count)| needs.push(block, count));
        (needs, all)
    }

    /// Blocks and what they lack.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u16)> + '_ {
        self.0.iter().copied()
    }

    /// What `block` lacks.
    pub fn of_block(&self, block: u32) -> u16 {
        let place = self.0.binary_search_by_key(&block, |&(block, _)| block);
        place.map_or(0, |place| self.0[place].1)
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A list as bytes: how many (u16), then each.
pub(super) fn put_spans(spans: &Spans, out: &mut Vec<u8>) {
    out.extend_from_slice(&(spans.len() as u16).to_be_bytes());
    for (from, to) in spans.iter() {
        out.extend_from_slice(&from.to_be_bytes());
        out.extend_from_slice(&((to - from) as u32).to_be_bytes());
    }
}

pub(super) fn put_needs(needs: &Needs, out: &mut Vec<u8>) {
    out.extend_from_slice(&(needs.len() as u16).to_be_bytes());
    for (block, count) in needs.iter() {
        out.extend_from_slice(&block.to_be_bytes());
        out.extend_from_slice(&count.to_be_bytes());
    }
}

pub(super) fn get_spans(fields: &mut super::parse::Fields<'_>) -> Result<Spans, PacketError> {
    let count = fields.count()?;
    let mut spans = Spans(Vec::with_capacity(fields.room_for(count, 12)));
    for _ in 0..count {
        let (from, len) = (fields.u64()?, fields.u32()?);
        let to = from.checked_add(len.into()).ok_or(PacketError::List)?;
        if !spans.push(from, to) {
            return Err(PacketError::List);
        }
    }
    Ok(spans)
}

pub(super) fn get_needs(fields: &mut super::parse::Fields<'_>) -> Result<Needs, PacketError> {
    let count = fields.count()?;
    let mut needs = Needs(Vec::with_capacity(fields.room_for(count, 6)));
    for _ in 0..count {
        let (block, lacks) = (fields.u32()?, fields.u16()?);
        if !needs.push(block, lacks) {
            return Err(PacketError::List);
        }
    }
    Ok(needs)
}
