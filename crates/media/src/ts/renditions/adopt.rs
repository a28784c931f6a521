use super::super::packet::{Packet, TS_PACKET, set_pid};
use super::super::pes::PesHeader;

/// The packets of the video in a frame of a rendition, as those of the program that receivers see: `from` is their packet
/// identifier, `to` the one in that program. `tables` are put before them.
pub(super) fn adopted(data: &[u8], from: u16, to: u16, tables: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(tables.len() + data.len());
    out.extend_from_slice(tables);
    for bytes in data.chunks_exact(TS_PACKET) {
        if Packet::new(bytes).is_some_and(|it| it.pid() == from) {
            let at = out.len();
            out.extend_from_slice(bytes);
            set_pid(&mut out[at..], to);
        }
    }
    out
}

/// When the picture in a frame is shown, in ticks of 90 kHz.
pub(super) fn shown_at(data: &[u8], pid: u16) -> Option<u64> {
    let mut packets = data.chunks_exact(TS_PACKET).filter_map(Packet::new);
    let first = packets.find(|it| it.pid() == pid && it.starts())?;
    PesHeader::parse(first.payload())?.pts
}
