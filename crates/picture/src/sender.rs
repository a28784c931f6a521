use std::collections::VecDeque;
use std::ops::Range;

use bytes::BytesMut;
use layercast_core::{CELL_PAYLOAD, DataClass, Time, aal5_cells};
use layercast_media::{ClassStats, TsClassifier, TsHeaders};
use layercast_wire::{Cell, ONE_CELL, OneCell, Payload, Segmenter};
use serde::Serialize;

use crate::config::{Aal5PlusConfig, Aal5PlusError, Mode};
use crate::exclp::MarkedCell;
use crate::group::{
    DATA_PIECE, Flags, HEADER, HEADER_PIECE, Layout, PACKET, RECORD, Record, STUFFING, place,
};
use crate::parity::{FecControl, FecControlError, Parity, ParitySender};

/// Packets of a frame of classical AAL5.
const PLAIN_GROUP: u8 = 2;

/// What an [`Aal5Plus`] sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct SenderStats {
    /// Packets that went into cells.
    pub packets: u64,
    /// Packets without a sync byte, which did not.
    pub unaligned_packets: u64,
    /// Groups.
    pub groups: u64,
    /// Cells by class: S, I, P, B.
    pub cells: [u64; 4],
    /// Cells of headers of packets, among those of class S.
    pub header_cells: u64,
    /// Cells of parities, among those of class S.
    pub parity_cells: u64,
    /// Times another code of the parities began.
    pub parity_changes: u64,
    /// Cells that classical AAL5 takes for the same packets.
    pub plain_cells: u64,
}

/// The sending side of AAL5+: packets of a transport stream in, marked cells out (specs/mpeg-picture-quality.md 2.4).
///
/// A group of packets becomes cells with the headers of all its packets, and then its data in order: headers of pictures and
/// sound in one-cell frames of class S, the data of pictures in one AAL5 frame for each run of one class.
#[derive(Debug)]
pub struct Aal5Plus {
    config: Aal5PlusConfig,
    classifier: TsClassifier,
    packets: Vec<[u8; PACKET]>,
    layout: Layout,
    /// Runs of the data of the group, each with its end.
    runs: Vec<(DataClass, usize)>,
    /// The classes of octets of a group of [`Mode::Mark`], as ends of runs.
    marks: Vec<(DataClass, usize)>,
    headers: Vec<u8>,
    buffer: BytesMut,
    /// When the first packet of the group came.
    opened: Option<Time>,
    /// Parities of the one-cell frames.
    parity: Option<ParitySender>,
    /// Next sequence numbers of one-cell frames and of frames of pictures.
    system: u8,
    picture: u8,
    cells: VecDeque<MarkedCell>,
    stats: SenderStats,
}

impl Aal5Plus {
    /// A sender without packets.
    ///
    /// # Errors
    /// The size of a group is out of range, the mapping leaves no bit to end a frame, or the parities cannot be.
    pub fn new(config: Aal5PlusConfig) -> Result<Aal5Plus, Aal5PlusError> {
        config.validate()?;
        let parity = match config.mode {
            Mode::Separate => config.parity.map(ParitySender::new).transpose()?,
            Mode::Mark => None,
        };
        Ok(Aal5Plus {
            parity,
            config,
            classifier: TsClassifier::new(config.classifier),
            packets: Vec::new(),
            layout: Layout::default(),
            runs: Vec::new(),
            marks: Vec::new(),
            headers: Vec::new(),
            buffer: BytesMut::new(),
            opened: None,
            system: 0,
            picture: 0,
            cells: VecDeque::new(),
            stats: SenderStats::default(),
        })
    }

    /// Takes the next packet.
    ///
    /// # Errors
    /// It does not begin with a sync byte, and is not sent.
    pub fn push(&mut self, now: Time, packet: &[u8; PACKET]) -> Result<(), Aal5PlusError> {
        let Some(headers) = TsHeaders::of(packet) else {
            self.stats.unaligned_packets += 1;
            return Err(Aal5PlusError::NoSync(self.stats.packets));
        };
        let data = headers.packet + headers.pes;
        let (before, in_frame) = (self.layout.total(), self.packets.len() * PACKET);
        let (runs, marks) = (&mut self.runs, &mut self.marks);
        let result = self.classifier.push(packet, |class, range| {
            if range.end > data {
                extend(runs, class, before + range.end - data);
            }
            extend(marks, class, in_frame + range.end);
        });
        debug_assert!(result.is_ok(), "it begins with a sync byte");
        self.layout.push(data);
        self.packets.push(*packet);
        self.opened.get_or_insert(now);
        self.stats.packets += 1;
        let size = match self.config.mode {
            Mode::Separate => self.config.group,
            Mode::Mark => PLAIN_GROUP,
        };
        if self.packets.len() == usize::from(size) {
            self.send_group(now);
        }
        Ok(())
    }

    /// When [`on_timeout`](Aal5Plus::on_timeout) is due: a group, or a block of parities, has waited long enough.
    pub fn next_timeout(&self) -> Option<Time> {
        let block = self.parity.as_ref().and_then(ParitySender::next_timeout);
        [self.group_due(), block].into_iter().flatten().min()
    }

    fn group_due(&self) -> Option<Time> {
        let opened = self.opened?;
        Some(opened.saturating_add(self.config.max_wait))
    }

    /// Sends a group that has waited long enough, and the parities of such a block.
    pub fn on_timeout(&mut self, now: Time) {
        if self.group_due().is_some_and(|due| due <= now) {
            self.send_group(now);
        }
        let block = self.parity.as_ref().and_then(ParitySender::next_timeout);
        if block.is_some_and(|due| due <= now) {
            self.close_block();
        }
    }

    /// Sends what there is, as at the end of a stream.
    pub fn flush(&mut self) {
        if let Some(opened) = self.opened {
            self.send_group(opened);
        }
        self.close_block();
    }

    /// Takes a cell of the reverse circuit, on which the receiver asks for another code of the parities. It begins with the next
    /// block.
    ///
    /// # Errors
    /// It has no message, or one that cannot be followed; the parities stay as they are.
    pub fn on_control(&mut self, cell: &Cell) -> Result<(), FecControlError> {
        let control = FecControl::of_cell(cell)?;
        if (control.vpi, control.vci) != (self.config.vpi, self.config.vci) {
            return Err(FecControlError::Circuit(control.vpi, control.vci));
        }
        let parity = self.parity.as_mut();
        parity
            .ok_or(FecControlError::NoParities)?
            .on_control(&control)
    }

    fn send_group(&mut self, now: Time) {
        if self.packets.is_empty() {
            return;
        }
        let count = self.packets.len();
        let pairs = (count / 2 * aal5_cells(2 * PACKET) as usize) as u64;
        self.stats.plain_cells += pairs + (count as u64 % 2) * u64::from(aal5_cells(PACKET));
        self.stats.groups += 1;
        match self.config.mode {
            Mode::Separate => self.send_apart(now),
            Mode::Mark => self.send_marked(),
        }
        self.packets.clear();
        self.layout.clear();
        self.runs.clear();
        self.marks.clear();
        self.opened = None;
    }

    /// The next cell.
    pub fn poll_cell(&mut self) -> Option<MarkedCell> {
        self.cells.pop_front()
    }

    /// What was sent.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// What could not be read of the stream.
    pub fn class_stats(&self) -> ClassStats {
        self.classifier.stats()
    }

    fn send_apart(&mut self, now: Time) {
        let first = self.system;
        self.send_headers(now);
        let runs = std::mem::take(&mut self.runs);
        let mut begin = 0;
        for &(class, end) in &runs {
            match class {
                DataClass::System => self.send_system(now, first, begin..end),
                _ => self.send_picture(class, begin..end),
            }
            begin = end;
        }
        self.runs = runs;
    }

    /// The headers of all packets: their first four octets, then what else is header, octets by octets.
    fn send_headers(&mut self, now: Time) {
        self.headers.clear();
        for packet in &self.packets {
            self.headers.extend_from_slice(&packet[..HEADER]);
        }
        for (number, packet) in (0..).zip(&self.packets) {
            let Some(headers) = TsHeaders::of(packet) else {
                continue;
            };
            let field = &packet[HEADER..headers.packet];
            let stuffing = field.iter().rev().take_while(|&&octet| octet == STUFFING);
            let len = (field.len() - stuffing.count()).max(1).min(field.len());
            let pes = headers.packet..headers.packet + headers.pes;
            for range in [HEADER..HEADER + len, pes] {
                if range.is_empty() {
                    continue;
                }
                let record = Record {
                    packet: number,
                    at: range.start as u8,
                    len: range.len() as u8,
                    rest: 0,
                };
                self.headers.extend_from_slice(&record.encode());
                self.headers.extend_from_slice(&packet[range]);
            }
        }
        let headers = std::mem::take(&mut self.headers);
        let pieces = headers.chunks(HEADER_PIECE);
        let last = pieces.len() - 1;
        for (number, piece) in pieces.enumerate() {
            let flags = Flags {
                more: number < last,
                count: self.packets.len() as u8,
                is_data: false,
            };
            let mut octets = [0; ONE_CELL];
            octets[0] = flags.encode();
            octets[1..=piece.len()].copy_from_slice(piece);
            self.send_protected(now, octets, false);
            self.stats.header_cells += 1;
        }
        self.headers = headers;
    }

    /// Headers of pictures, and what is no video; `first` is the number of the first cell of the group.
    fn send_system(&mut self, now: Time, first: u8, range: Range<usize>) {
        let mut begin = range.start;
        while begin < range.end {
            let end = range.end.min(begin + DATA_PIECE);
            let mut octets = [0; ONE_CELL];
            let (count, rest) = place(self.system.wrapping_sub(first) & 127);
            octets[0] = Flags {
                more: false,
                count,
                is_data: true,
            }
            .encode();
            let mut filled = 1 + RECORD;
            let mut record = None;
            for (packet, part) in self.layout.parts(begin..end) {
                record.get_or_insert(Record {
                    packet: packet as u8,
                    at: part.start as u8,
                    len: (end - begin) as u8,
                    rest,
                });
                octets[filled..filled + part.len()]
                    .copy_from_slice(&self.packets[packet][part.clone()]);
                filled += part.len();
            }
            if let Some(record) = record {
                octets[1..1 + RECORD].copy_from_slice(&record.encode());
            }
            self.send_protected(now, octets, true);
            begin = end;
        }
    }

    /// Sends a one-cell frame; the last one of a block is followed by parities.
    fn send_protected(&mut self, now: Time, octets: [u8; ONE_CELL], is_data: bool) {
        self.send_one_cell(octets, is_data, 0);
        if let Some(parity) = &mut self.parity
            && parity.push(now, &octets)
        {
            self.close_block();
        }
    }

    /// Sends the parities of the block.
    fn close_block(&mut self) {
        let Some(mut parity) = self.parity.take() else {
            return;
        };
        parity.close(|it: Parity| {
            self.send_one_cell(it.octets, it.is_diagonal, it.fill);
            self.stats.parity_cells += 1;
        });
        self.stats.parity_changes = parity.changes;
        self.parity = Some(parity);
    }

    fn send_one_cell(&mut self, octets: [u8; ONE_CELL], upper: bool, cpi: u8) {
        let frame = OneCell {
            octets,
            uu: u8::from(upper) << 7 | self.system,
            cpi,
        };
        self.system = (self.system + 1) & 127;
        let mut cell = frame.to_cell(self.config.vpi, self.config.vci);
        self.config.mapping.stamp(&mut cell, DataClass::System);
        self.put(MarkedCell {
            cell,
            class: DataClass::System,
        });
    }

    /// A run of data of one class as one frame.
    fn send_picture(&mut self, class: DataClass, range: Range<usize>) {
        self.buffer.reserve(range.len());
        for (packet, part) in self.layout.parts(range) {
            self.buffer.extend_from_slice(&self.packets[packet][part]);
        }
        let uu = 1 << 7 | self.picture;
        self.picture = (self.picture + 1) & 127;
        self.send_frame(uu, |_| class);
    }

    /// Whole packets as one frame of classical AAL5.
    fn send_marked(&mut self) {
        self.buffer.reserve(self.packets.len() * PACKET);
        for packet in &self.packets {
            self.buffer.extend_from_slice(packet);
        }
        let len = self.buffer.len();
        let marks = std::mem::take(&mut self.marks);
        self.send_frame(0, |cell| {
            // A cell without an octet of the packets is like the last one with some.
            let begin = (cell * CELL_PAYLOAD).min(len - 1);
            let end = ((cell + 1) * CELL_PAYLOAD).min(len);
            let before = marks.partition_point(|&(_, to)| to <= begin);
            let through = marks.partition_point(|&(_, to)| to < end);
            let classes = marks[before..=through.max(before)].iter();
            classes.map(|&(class, _)| class).min().unwrap_or_default()
        });
        self.marks = marks;
    }

    /// The buffer as one frame, whose cells have these classes.
    fn send_frame(&mut self, uu: u8, class: impl Fn(usize) -> DataClass) {
        let payload = Payload::Bytes(self.buffer.split().freeze());
        let Some(cells) = Segmenter::pdu(payload, self.config.vpi, self.config.vci) else {
            return;
        };
        for (number, mut cell) in cells.with_user(uu, 0).enumerate() {
            let class = class(number);
            self.config.mapping.stamp(&mut cell, class);
            self.put(MarkedCell { cell, class });
        }
    }

    fn put(&mut self, cell: MarkedCell) {
        self.stats.cells[cell.class.index()] += 1;
        self.cells.push_back(cell);
    }
}

/// Adds octets of a class up to `end` to runs.
fn extend(runs: &mut Vec<(DataClass, usize)>, class: DataClass, end: usize) {
    match runs.last_mut() {
        Some((last, to)) if *last == class => *to = end,
        _ => runs.push((class, end)),
    }
}
