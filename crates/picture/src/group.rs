//! The form of a group of packets in AAL5+ (specs/mpeg-picture-quality.md 2.4).

use std::ops::Range;

/// Octets of a packet of a transport stream.
pub(crate) const PACKET: usize = 188;
/// Octets of its header.
pub(crate) const HEADER: usize = 4;
/// Octets of a one-cell frame behind the flags: the headers of a group are cut into such pieces.
pub(crate) const HEADER_PIECE: usize = 39;
/// Octets of protected data in a cell, behind flags and record.
pub(crate) const DATA_PIECE: usize = 36;
/// Octets of a record.
pub(crate) const RECORD: usize = 3;
/// What an adaptation field is filled with.
pub(crate) const STUFFING: u8 = 0xFF;

const MORE: u8 = 1;
const DATA: u8 = 1 << 5;
const VERSION: u8 = 1;

/// The first octet of a one-cell frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flags {
    /// The headers of the group continue in the next such frame.
    pub more: bool,
    /// Of headers: packets in the group. Of data: see [`place`].
    pub count: u8,
    /// Data, not headers: copy of T.
    pub is_data: bool,
}

impl Flags {
    pub fn encode(self) -> u8 {
        let data = if self.is_data { DATA } else { 0 };
        VERSION << 6 | data | (self.count & 15) << 1 | u8::from(self.more)
    }

    pub fn decode(octet: u8) -> Option<Flags> {
        (octet >> 6 == VERSION).then_some(Flags {
            more: octet & MORE != 0,
            count: octet >> 1 & 15,
            is_data: octet & DATA != 0,
        })
    }
}

/// Where octets are in a group: in this packet, from this octet on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub packet: u8,
    pub at: u8,
    pub len: u8,
    /// Four bits. Of data: see [`place`].
    pub rest: u8,
}

impl Record {
    pub fn encode(self) -> [u8; RECORD] {
        let all = u32::from(self.packet & 15) << 20
            | u32::from(self.at) << 12
            | u32::from(self.len) << 4
            | u32::from(self.rest & 15);
        let [_, octets @ ..] = all.to_be_bytes();
        octets
    }

    pub fn decode(octets: [u8; RECORD]) -> Record {
        let [a, b, c] = octets;
        let all = u32::from_be_bytes([0, a, b, c]);
        Record {
            packet: (all >> 20) as u8,
            at: (all >> 12) as u8,
            len: (all >> 4) as u8,
            rest: all as u8 & 15,
        }
    }
}

/// How many cells of the sequence a data cell is behind the first header cell of its group: the low four bits in
/// [`Flags::count`], the others in [`Record::rest`]. So data are never taken for those of another group.
pub(crate) fn place(distance: u8) -> (u8, u8) {
    (distance & 15, distance >> 4)
}

/// The distance that [`place`] divided.
pub(crate) fn distance(count: u8, rest: u8) -> u8 {
    rest << 4 | count
}

/// Which octets of the packets of a group are data, in order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Layout {
    /// Packet, first octet of its data, and how many octets are before it in the group.
    regions: Vec<(usize, usize, usize)>,
    total: usize,
}

impl Layout {
    pub fn clear(&mut self) {
        self.regions.clear();
        self.total = 0;
    }

    /// Adds the next packet, whose data begin at `at`.
    pub fn push(&mut self, at: usize) {
        self.regions.push((self.regions.len(), at, self.total));
        self.total += PACKET - at;
    }

    /// Octets of data.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Octets of data before the octet `at` of a packet; `None` if it is no data.
    pub fn before(&self, packet: usize, at: usize) -> Option<usize> {
        let &(_, begins, before) = self.regions.get(packet)?;
        (begins..PACKET).contains(&at).then(|| before + at - begins)
    }

    /// The parts of packets that a range of the data is: packet and octets.
    pub fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        // The last packet whose data begin at the range or before it.
        let first = { &self.regions }.partition_point(|&(_, _, before)| before <= range.start);
        let regions = &self.regions[first.saturating_sub(1)..];
        regions
            .iter()
            .take_while(move |&&(_, _, before)| before < range.end)
            .filter_map(move |&(packet, at, before)| {
                let from = range.start.max(before);
                let to = range.end.min(before + PACKET - at);
                (from < to).then(|| (packet, at + from - before..at + to - before))
            })
    }

    /// The data of a packet, as a range of the data of the group.
    pub fn of(&self, packet: usize) -> Range<usize> {
        let found = self.regions.get(packet);
        found.map_or(0..0, |&(_, at, before)| before..before + PACKET - at)
    }
}
