use bytes::Bytes;
use layercast_core::{CELL_PAYLOAD, CELL_SIZE, aal5_cells};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::adapter::ADAPTER_LEN;
use crate::{
    AdapterError, AdapterMsg, Cell, CellError, FrameType, METS_HEADER, MetsError, MetsPacket,
};

/// Bytes that UDP and IPv4 add to a datagram.
pub const UDP_IP_HEADER: usize = 28;
/// Most cells in one datagram (specs/mets.md 3.3).
pub const DATAGRAM_CELLS: usize = 22;

/// What a link carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carriage {
    /// ATM cells; over UDP up to [`DATAGRAM_CELLS`] in a datagram.
    Cells,
    /// One METS packet, RES or ADAPT in a UDP datagram.
    #[default]
    Datagrams,
}

/// Media bytes of a METS packet in a datagram, by default (specs/mets.md 3.3).
pub const DATAGRAM_PAYLOAD: usize = 1_176;

impl Carriage {
    /// Cells that a METS packet with `payload` bytes of media takes, or counts as in a shaper
    /// (specs/mets.md 2.5).
    pub fn cost(self, payload: usize) -> u32 {
        let bytes = METS_HEADER + payload;
        match self {
            Carriage::Cells => aal5_cells(bytes),
            Carriage::Datagrams => bytes.div_ceil(CELL_PAYLOAD) as u32,
        }
    }
}

/// A PDU as it stands on a link.
///
/// On a link of cells everything is a cell, RES and ADAPT included ([`AdapterMsg::to_cell`]).
// A cell is moved by value on purpose: a box would cost an allocation for each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkPdu {
    /// A cell.
    Cell(Cell),
    /// A METS packet in a datagram of its own.
    Mets(MetsPacket),
    /// RES or ADAPT in a datagram of its own.
    Adapter(AdapterMsg),
}

/// Why a datagram is none of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// Not 1 to 22 whole cells.
    #[error("datagram of {0} bytes is not 1 to 22 cells")]
    CellDatagram(usize),
    /// Too short for a frame type.
    #[error("datagram of {0} bytes has no frame type")]
    Short(usize),
    /// A bad cell.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// A bad METS packet.
    #[error(transparent)]
    Mets(#[from] MetsError),
    /// A bad RES or ADAPT.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
}

impl LinkPdu {
    /// Bytes on the link: 53 for a cell, the UDP and IP headers included for a datagram.
    pub fn wire_len(&self) -> usize {
        match self {
            LinkPdu::Cell(_) => CELL_SIZE,
            LinkPdu::Mets(_) | LinkPdu::Adapter(_) => self.encoded_len() + UDP_IP_HEADER,
        }
    }

    /// Bytes that [`encode_into`](Self::encode_into) appends.
    pub fn encoded_len(&self) -> usize {
        match self {
            LinkPdu::Cell(_) => CELL_SIZE,
            LinkPdu::Mets(packet) => packet.encoded_len(),
            LinkPdu::Adapter(_) => ADAPTER_LEN,
        }
    }

    /// Cells, or credits: one for each 48 bytes of a datagram begun (specs/mets.md 3.3).
    pub fn cells(&self) -> u32 {
        match self {
            LinkPdu::Cell(_) => 1,
            LinkPdu::Mets(_) | LinkPdu::Adapter(_) => {
                self.encoded_len().div_ceil(CELL_PAYLOAD) as u32
            }
        }
    }

    /// Whether it experienced congestion on its way; RES and ADAPT never tell.
    pub fn congestion(&self) -> bool {
        match self {
            LinkPdu::Cell(cell) => cell.pti.congestion(),
            LinkPdu::Mets(packet) => packet.congestion,
            LinkPdu::Adapter(_) => false,
        }
    }

    /// Marks congestion experienced: EFCI of a data cell, ECN of a METS datagram.
    pub fn mark_congestion(&mut self) {
        match self {
            LinkPdu::Cell(cell) => cell.pti = cell.pti.with_congestion(),
            LinkPdu::Mets(packet) => packet.congestion = true,
            LinkPdu::Adapter(_) => {}
        }
    }

    /// Appends the PDU to `out`; a datagram of cells is several of them in a row.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        match self {
            LinkPdu::Cell(cell) => out.extend_from_slice(&cell.encode()),
            LinkPdu::Mets(packet) => packet.encode_into(out),
            LinkPdu::Adapter(message) => out.extend_from_slice(&message.encode()),
        }
    }
}

/// Decodes a datagram of a link and hands each PDU in it to `sink`; all of it, or nothing.
///
/// Payloads share the memory of `datagram`. `congestion` is the ECN mark of the datagram: it is
/// put on the METS packet, or as EFCI on every data cell in it.
pub fn decode_datagram(
    carriage: Carriage,
    datagram: Bytes,
    congestion: bool,
    sink: &mut impl FnMut(LinkPdu),
) -> Result<(), DecodeError> {
    match carriage {
        Carriage::Cells => decode_cells(&datagram, congestion, sink),
        Carriage::Datagrams => {
            sink(decode_packet(datagram, congestion)?);
            Ok(())
        }
    }
}

fn decode_cells(
    datagram: &[u8],
    congestion: bool,
    sink: &mut impl FnMut(LinkPdu),
) -> Result<(), DecodeError> {
    let cells = datagram.len() / CELL_SIZE;
    if !(1..=DATAGRAM_CELLS).contains(&cells) || !datagram.len().is_multiple_of(CELL_SIZE) {
        return Err(DecodeError::CellDatagram(datagram.len()));
    }
    for bytes in datagram.chunks_exact(CELL_SIZE) {
        Cell::check(bytes)?;
    }
    for bytes in datagram.chunks_exact(CELL_SIZE) {
        let mut pdu = LinkPdu::Cell(Cell::decode(bytes)?);
        if congestion {
            pdu.mark_congestion();
        }
        sink(pdu);
    }
    Ok(())
}

fn decode_packet(datagram: Bytes, congestion: bool) -> Result<LinkPdu, DecodeError> {
    let Some(kind) = datagram.first_chunk::<2>() else {
        return Err(DecodeError::Short(datagram.len()));
    };
    if FrameType(u16::from_be_bytes(*kind)).is_adapter() {
        Ok(LinkPdu::Adapter(AdapterMsg::decode(&datagram)?))
    } else {
        Ok(LinkPdu::Mets(MetsPacket::decode(datagram, congestion)?))
    }
}
