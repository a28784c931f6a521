use bytes::{BufMut, Bytes, BytesMut};
use layercast_wire::{MetsPacket, Payload};

/// Memory that packets are written into, one after the other.
pub(super) const CHUNK: usize = 1 << 16;

/// A packet in octets, header and all but for what changes on the way, in a piece of `memory`.
pub(super) fn whole(memory: &mut BytesMut, packet: &MetsPacket) -> Bytes {
    reserve(memory, packet.encoded_len());
    memory.put_slice(&packet.header.fixed().encode());
    match &packet.payload {
        Payload::Bytes(bytes) => memory.put_slice(bytes),
        Payload::Zeros(len) => memory.put_bytes(0, *len as usize),
    }
    memory.split().freeze()
}

/// Makes room for `octets`: in memory that is no longer referenced, or in a new chunk.
pub(super) fn reserve(memory: &mut BytesMut, octets: usize) {
    if memory.capacity() < octets && !memory.try_reclaim(octets) {
        *memory = BytesMut::with_capacity(octets.max(CHUNK));
    }
}
