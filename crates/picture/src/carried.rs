//! Cells in RTP datagrams: what a server sends of a file of cells (specs/mpeg-picture-quality.md 2.2, 2.9).
//!
//! A datagram has cells of one class, so that its code point can say the class. Its payload begins with octets 8 to 15 of the
//! header of the file, so that a receiver can begin anywhere; whole cells follow. One without cells and with the marker bit
//! ends the stream.

use layercast_core::{CELL_SIZE, DataClass, Span};
use layercast_media::RtpPacket;
use layercast_wire::Cell;
use thiserror::Error;

use crate::prepared::{CellFileError, CellFileHeader};
use crate::{ExclpMapping, MarkedCell};

/// Most cells of a datagram: 1398 octets with the header of RTP.
pub const MOST_CELLS: usize = 26;
/// A datagram is sent at the latest this time after its first cell is due.
const LONGEST: Span = Span::from_ms(2);
/// A dynamic payload type (RFC 3551, 6).
const PAYLOAD_TYPE: u8 = 97;
/// Octets of the header of the file in each datagram.
const FORMAT: usize = 8;
/// Ticks of a second of the time stamps.
const CLOCK: u64 = 90_000;

/// Cells that are sent together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellBurst {
    /// The first cell, and how many.
    pub first: usize,
    /// See `first`.
    pub count: usize,
    /// When the last of them is due: then they are sent.
    pub at: Span,
    /// The class of all.
    pub class: DataClass,
}

/// Divides cells into datagrams.
pub fn cell_bursts(cells: &[(Span, MarkedCell)]) -> impl Iterator<Item = CellBurst> + '_ {
    let mut first = 0;
    std::iter::from_fn(move || {
        let (begin, cell) = cells.get(first)?;
        let fits = |(at, other): &&(Span, MarkedCell)| {
            other.class == cell.class && at.saturating_sub(*begin) <= LONGEST
        };
        let count = cells[first..]
            .iter()
            .take(MOST_CELLS)
            .take_while(fits)
            .count();
        let burst = CellBurst {
            first,
            count,
            at: cells[first + count - 1].0,
            class: cell.class,
        };
        first += count;
        Some(burst)
    })
}

/// Writes datagrams of cells.
#[derive(Debug)]
pub struct CellWriter {
    header: CellFileHeader,
    seq: u16,
    ssrc: u32,
}

impl CellWriter {
    /// A writer of the cells of a file, with the identifier of its source in RTP.
    pub fn new(header: CellFileHeader, ssrc: u32) -> CellWriter {
        CellWriter {
            header,
            seq: 0,
            ssrc,
        }
    }

    /// The datagram of these cells into `out`; of none, the end of the stream.
    pub fn write(&mut self, at: Span, cells: &[(Span, MarkedCell)], out: &mut Vec<u8>) {
        let mut payload = [0; FORMAT + MOST_CELLS * CELL_SIZE];
        payload[..FORMAT].copy_from_slice(&self.header.format());
        let places = payload[FORMAT..].as_chunks_mut::<CELL_SIZE>().0;
        for (place, (_, cell)) in places.iter_mut().zip(cells) {
            *place = cell.cell.encode();
        }
        out.clear();
        RtpPacket {
            marker: cells.is_empty(),
            payload_type: PAYLOAD_TYPE,
            seq: self.seq,
            timestamp: (u128::from(at.as_ns()) * u128::from(CLOCK) / 1_000_000_000) as u32,
            ssrc: self.ssrc,
            payload: &payload[..FORMAT + cells.len().min(MOST_CELLS) * CELL_SIZE],
        }
        .encode_into(out);
        self.seq = self.seq.wrapping_add(1);
    }
}

/// Why a datagram has no cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CellDatagramError {
    /// It is no RTP, or of another payload type.
    #[error("no RTP of payload type 97")]
    Rtp,
    /// It does not say how packets went into cells.
    #[error(transparent)]
    Format(#[from] CellFileError),
    /// A part of a cell.
    #[error("{0} octets behind the last whole cell")]
    Cut(usize),
}

/// A datagram of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellDatagram<'a> {
    /// How packets went into cells.
    pub header: CellFileHeader,
    /// Number of the datagram.
    pub seq: u16,
    /// The sender.
    pub ssrc: u32,
    /// It ends the stream.
    pub is_end: bool,
    cells: &'a [[u8; CELL_SIZE]],
}

impl<'a> CellDatagram<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// It is none of cells, or cut.
    pub fn parse(data: &'a [u8]) -> Result<CellDatagram<'a>, CellDatagramError> {
        let rtp = RtpPacket::parse(data).filter(|it| it.payload_type == PAYLOAD_TYPE);
        let rtp = rtp.ok_or(CellDatagramError::Rtp)?;
        let (format, cells) = rtp
            .payload
            .split_first_chunk::<FORMAT>()
            .ok_or(CellDatagramError::Rtp)?;
        let (cells, rest) = cells.as_chunks();
        if !rest.is_empty() {
            return Err(CellDatagramError::Cut(rest.len()));
        }
        Ok(CellDatagram {
            header: CellFileHeader::of_format(format)?,
            seq: rtp.seq,
            ssrc: rtp.ssrc,
            is_end: rtp.marker && cells.is_empty(),
            cells,
        })
    }

    /// Its cells; those with a damaged header are left out, as a physical layer does (specs/mpeg-picture-quality.md 2.6).
    pub fn cells(&self) -> impl Iterator<Item = MarkedCell> + 'a {
        let whole = self.cells.iter().filter_map(|it| Cell::decode(it).ok());
        whole.map(|cell| MarkedCell::of(cell, ExclpMapping::Efci))
    }
}
