use bytes::{Bytes, BytesMut};
use layercast_core::{AAL5_TRAILER, CELL_PAYLOAD, aal5_cells};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::adapter::ADAPTER_LEN;
use crate::frame_crc::{self, BEFORE_CRC, FrameCrc};
use crate::{
    ADAPTER_VCI, AdapterError, AdapterMsg, Cell, Flags, FrameType, METS_HEADER, MetsError,
    MetsHeader, MetsPacket, OneCell, Payload, Pti,
};

/// Most payload bytes of a METS packet carried in cells: 32 KiB in one AAL5 frame (specs/mets.md 2.6).
pub const MAX_CELL_PAYLOAD: usize = 32_768;

/// Longest padded AAL5 frame: 65535 bytes and the trailer, in whole cells.
const MAX_PADDED: usize = aal5_cells(65_535) as usize * CELL_PAYLOAD;

/// Which cell of an AAL5 frame has the user-to-user bit set (specs/mets.md 6.2, item 1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// The last one, as ITU-T I.363.5 has it.
    #[default]
    Last,
    /// The first one, as the papers have it; where the frame ends follows from the METS header.
    /// Every fragment but the last must then be full ([`MAX_CELL_PAYLOAD`]).
    First,
}

/// Cuts a PDU into the cells of one AAL5 frame, one at a time and without allocating.
#[derive(Clone)]
pub struct Segmenter {
    vpi: u8,
    vci: u16,
    mark: Mark,
    congestion: bool,
    user: [u8; 2],
    head: [u8; ADAPTER_LEN],
    head_len: usize,
    payload: Payload,
    at: usize,
    padded: usize,
    crc: FrameCrc,
}

/// Why a packet cannot go into one AAL5 frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SegmentError {
    /// Above [`MAX_CELL_PAYLOAD`].
    #[error("METS payload of {0} bytes does not fit one AAL5 frame (32768)")]
    TooLong(usize),
    /// With [`Mark::First`], a fragment before the last that is not full.
    #[error("METS fragment of {0} bytes before the last is not full (32768)")]
    Partial(usize),
}

/// An AAL5 frame that arrived whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The bytes, without padding and trailer.
    pub bytes: Bytes,
    /// Whether any of its cells experienced congestion.
    pub congestion: bool,
    /// Cells that were lost and stand as zeros; see [`Reassembler::repairing`].
    pub dummies: u32,
    /// CPCS user-to-user octet.
    pub uu: u8,
    /// Common part indicator.
    pub cpi: u8,
}

/// Why cells did not make a frame (specs/mets.md 7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
pub enum ReassemblyError {
    /// The CRC-32 is wrong.
    #[error("AAL5 frame with a wrong CRC-32")]
    Crc,
    /// The length does not go with the number of cells: some were lost, or frames ran together.
    #[error("AAL5 frame with a length that contradicts its cells")]
    Length,
    /// No end within 65535 bytes.
    #[error("AAL5 frame without end within 65535 bytes")]
    TooLong,
    /// With [`Mark::First`], a cell that belongs to no frame.
    #[error("cell outside any AAL5 frame")]
    Orphan,
}

/// Puts the cells of one virtual circuit together again; holds at most 65535 bytes and a trailer.
#[derive(Debug)]
pub struct Reassembler {
    mark: Mark,
    buffer: BytesMut,
    congestion: bool,
    repair: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Before the first cell of a frame.
    Idle,
    /// In a frame; with [`Mark::First`], of `len` bytes.
    Open { len: Option<usize> },
    /// In a frame already reported as bad.
    Skip,
}

impl Segmenter {
    /// The cells of a METS packet on the circuit (`vpi`, `vci`).
    pub fn mets(
        packet: &MetsPacket,
        vpi: u8,
        vci: u16,
        mark: Mark,
    ) -> Result<Segmenter, SegmentError> {
        let len = packet.payload.len();
        if len > MAX_CELL_PAYLOAD {
            return Err(SegmentError::TooLong(len));
        }
        let full = len == MAX_CELL_PAYLOAD || packet.header.flags.contains(Flags::LAST);
        if mark == Mark::First && !full {
            return Err(SegmentError::Partial(len));
        }
        let head = packet.header.encode();
        let payload = packet.payload.clone();
        Ok(Segmenter {
            congestion: packet.congestion,
            ..Segmenter::new(&head, payload, vpi, vci, mark)
        })
    }

    /// The cells of any PDU on the circuit (`vpi`, `vci`), the last of them marked; none if no frame has that length: of
    /// no bytes, or more than 65535.
    pub fn pdu(pdu: Payload, vpi: u8, vci: u16) -> Option<Segmenter> {
        let fits = (1..=usize::from(u16::MAX)).contains(&pdu.len());
        fits.then(|| Segmenter::new(&[], pdu, vpi, vci, Mark::Last))
    }

    /// The same with these octets in the trailer: CPCS user-to-user, and the common part indicator.
    #[must_use]
    pub fn with_user(self, uu: u8, cpi: u8) -> Segmenter {
        Segmenter {
            user: [uu, cpi],
            ..self
        }
    }

    fn new(head: &[u8], payload: Payload, vpi: u8, vci: u16, mark: Mark) -> Segmenter {
        let mut buffer = [0; ADAPTER_LEN];
        buffer[..head.len()].copy_from_slice(head);
        let padded = aal5_cells(head.len() + payload.len()) as usize * CELL_PAYLOAD;
        Segmenter {
            vpi,
            vci,
            mark,
            congestion: false,
            user: [0; 2],
            head: buffer,
            head_len: head.len(),
            payload,
            at: 0,
            padded,
            crc: FrameCrc::new(),
        }
    }
}

impl Iterator for Segmenter {
    type Item = Cell;

    fn next(&mut self) -> Option<Cell> {
        if self.at >= self.padded {
            return None;
        }
        let mut bytes = [0; CELL_PAYLOAD];
        let mut filled = 0;
        if self.at < self.head_len {
            filled = (self.head_len - self.at).min(CELL_PAYLOAD);
            bytes[..filled].copy_from_slice(&self.head[self.at..self.at + filled]);
        }
        let from = (self.at + filled) - self.head_len;
        self.payload.copy_from(from, &mut bytes[filled..]);

        let first = self.at == 0;
        self.at += CELL_PAYLOAD;
        let last = self.at == self.padded;
        if last {
            let len = (self.head_len + self.payload.len()) as u16;
            bytes[40..42].copy_from_slice(&self.user);
            bytes[42..44].copy_from_slice(&len.to_be_bytes());
            let crc = bytes.first_chunk().map(|last| self.crc.finish(last));
            bytes[BEFORE_CRC..].copy_from_slice(&crc.unwrap_or_default().to_be_bytes());
        } else {
            self.crc.update(&bytes);
        }
        let marked = match self.mark {
            Mark::Last => last,
            Mark::First => first,
        };
        Some(Cell {
            vpi: self.vpi,
            vci: self.vci,
            pti: Pti::data(self.congestion, marked),
            clp: false,
            payload: bytes,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.padded - self.at) / CELL_PAYLOAD;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Segmenter {}

impl Reassembler {
    /// A reassembler for one virtual circuit.
    pub fn new(mark: Mark) -> Reassembler {
        Reassembler {
            mark,
            buffer: BytesMut::new(),
            congestion: false,
            repair: false,
            state: State::Idle,
        }
    }

    /// A reassembler that fills frames that lost cells in their middle with dummy cells of zeros,
    /// instead of giving them up (specs/mets.md 2.6).
    ///
    /// Only a METS packet whose first and last cell are there and agree about its length is filled;
    /// its CRC says nothing then. Cells carry no numbers, so that where cells are missing is not
    /// known: the dummies stand before the last cell. With [`Mark::First`] nothing tells a last
    /// cell from another, and nothing is filled.
    pub fn repairing(mark: Mark) -> Reassembler {
        Reassembler {
            repair: true,
            ..Reassembler::new(mark)
        }
    }

    /// Takes the next cell of the circuit; gives the frame it completes, or says what went wrong.
    ///
    /// A bad frame is reported once. With [`Mark::First`], a one-cell frame that cuts an
    /// unfinished one short is delivered; the gap in the sequence numbers shows the other.
    pub fn push(&mut self, cell: &Cell) -> Option<Result<Frame, ReassemblyError>> {
        if !cell.pti.is_data() {
            return None;
        }
        match self.mark {
            Mark::Last => self.push_until_last(cell),
            Mark::First => self.push_from_first(cell),
        }
    }

    /// Gives up the frame in progress, as when its last cell cannot come any more; whether there was one.
    pub fn abandon(&mut self) -> bool {
        let was_open = std::mem::replace(&mut self.state, State::Idle) != State::Idle;
        self.buffer.clear();
        was_open
    }

    fn push_until_last(&mut self, cell: &Cell) -> Option<Result<Frame, ReassemblyError>> {
        let last = cell.pti.auu();
        if self.state == State::Skip {
            if last {
                self.state = State::Idle;
            }
            return None;
        }
        if self.state == State::Idle {
            self.open(None);
        }
        self.append(cell);
        if last {
            return Some(self.close(None));
        }
        if self.buffer.len() >= MAX_PADDED {
            self.state = State::Skip;
            self.buffer.clear();
            return Some(Err(ReassemblyError::TooLong));
        }
        None
    }

    fn push_from_first(&mut self, cell: &Cell) -> Option<Result<Frame, ReassemblyError>> {
        let mut cut_short = None;
        if cell.pti.auu() {
            if matches!(self.state, State::Open { .. }) {
                cut_short = Some(Err(ReassemblyError::Length));
            }
            let Some(len) = length_in_header(&cell.payload) else {
                self.state = State::Skip;
                return Some(Err(ReassemblyError::Length));
            };
            self.open(Some(len));
        }
        match self.state {
            State::Idle => Some(Err(ReassemblyError::Orphan)),
            State::Skip => None,
            State::Open { len } => {
                self.append(cell);
                let padded = len.map_or(0, |len| aal5_cells(len) as usize * CELL_PAYLOAD);
                if self.buffer.len() >= padded {
                    Some(self.close(len))
                } else {
                    cut_short
                }
            }
        }
    }

    fn open(&mut self, len: Option<usize>) {
        self.buffer.clear();
        self.congestion = false;
        self.state = State::Open { len };
    }

    fn append(&mut self, cell: &Cell) {
        self.buffer.extend_from_slice(&cell.payload);
        self.congestion |= cell.pti.congestion();
    }

    fn close(&mut self, expected: Option<usize>) -> Result<Frame, ReassemblyError> {
        self.state = State::Idle;
        let dummies = self.fill();
        let mut frame = self.buffer.split();
        let Some(trailer) = frame.last_chunk::<AAL5_TRAILER>() else {
            return Err(ReassemblyError::Length);
        };
        let [uu, cpi, ..] = *trailer;
        let len = usize::from(u16::from_be_bytes([trailer[2], trailer[3]]));
        let cells = frame.len() / CELL_PAYLOAD;
        // Length zero is an abort (I.363.5), not a frame.
        if len == 0 || aal5_cells(len) as usize != cells || expected.is_some_and(|e| e != len) {
            return Err(ReassemblyError::Length);
        }
        if dummies == 0 && !frame_crc::is_whole(&frame) {
            return Err(ReassemblyError::Crc);
        }
        frame.truncate(len);
        Ok(Frame {
            bytes: frame.freeze(),
            congestion: self.congestion,
            dummies,
            uu,
            cpi,
        })
    }

    /// Puts dummy cells before the last one if that makes the frame what both its ends say it is;
    /// gives how many.
    fn fill(&mut self) -> u32 {
        let cells = self.buffer.len() / CELL_PAYLOAD;
        if !self.repair || self.mark != Mark::Last || cells < 2 {
            return 0;
        }
        let last = self.buffer.len() - CELL_PAYLOAD;
        let trailer = &self.buffer[self.buffer.len() - AAL5_TRAILER..];
        let len = usize::from(u16::from_be_bytes([trailer[2], trailer[3]]));
        let told = self.buffer.first_chunk().and_then(packet_length);
        let missing = (aal5_cells(len) as usize).saturating_sub(cells);
        if missing == 0 || told != Some(len) {
            return 0;
        }
        self.buffer.resize(last + (missing + 1) * CELL_PAYLOAD, 0);
        self.buffer
            .copy_within(last..last + CELL_PAYLOAD, last + missing * CELL_PAYLOAD);
        self.buffer[last..last + CELL_PAYLOAD].fill(0);
        self.buffer[FLAGS_AT] |= Flags::DUMMY.0;
        missing as u32
    }
}

/// Offset of the flags in the METS header, in octets.
const FLAGS_AT: usize = 2;

/// The length of the whole media packet that starts with these bytes, if it is the only one of its
/// frame: then the header tells it.
fn packet_length(first: &[u8; CELL_PAYLOAD]) -> Option<usize> {
    let header = MetsHeader::decode(first).ok()?;
    let whole = header.flags.contains(Flags::FIRST) && header.flags.contains(Flags::LAST);
    let len = METS_HEADER + usize::try_from(header.alf_len).ok()?;
    (whole && header.kind.layer().is_some()).then_some(len)
}

/// The length of the PDU that starts with these bytes, if its header tells one that fits a frame.
fn length_in_header(first: &[u8; CELL_PAYLOAD]) -> Option<usize> {
    if FrameType(u16::from_be_bytes([first[0], first[1]])).is_adapter() {
        return Some(ADAPTER_LEN);
    }
    let header = MetsHeader::decode(first).ok()?;
    let payload = if header.flags.contains(Flags::LAST) {
        header.alf_len.checked_sub(header.offset)? as usize
    } else {
        MAX_CELL_PAYLOAD
    };
    (1..=MAX_CELL_PAYLOAD)
        .contains(&payload)
        .then_some(METS_HEADER + payload)
}

/// The METS packet in an AAL5 frame.
pub fn packet_of(frame: Frame) -> Result<MetsPacket, MetsError> {
    MetsPacket::decode(frame.bytes, frame.congestion)
}

impl AdapterMsg {
    /// The message as the one cell it takes on [`ADAPTER_VCI`].
    pub fn to_cell(&self) -> Cell {
        let frame = OneCell {
            octets: self.encode(),
            uu: 0,
            cpi: 0,
        };
        frame.to_cell(0, ADAPTER_VCI)
    }

    /// The message in a cell of [`ADAPTER_VCI`].
    pub fn from_cell(cell: &Cell) -> Result<AdapterMsg, AdapterError> {
        match OneCell::read(&cell.payload) {
            Ok(frame) => AdapterMsg::decode(&frame.octets),
            Err(ReassemblyError::Length) => {
                let len = u16::from_be_bytes([cell.payload[42], cell.payload[43]]);
                Err(AdapterError::Length(usize::from(len)))
            }
            Err(_) => Err(AdapterError::Crc),
        }
    }
}
