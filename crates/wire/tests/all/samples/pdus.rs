//! Valid PDUs for tests and for the fuzz corpus.

use layercast_core::{CellRate, FlowId, GroupId, Level, LevelSet, NodeId, Serial};
use layercast_wire::{
    AdapterKind, AdapterMsg, Flags, FrameType, MetsHeader, MetsPacket, Passing, Payload, Sound,
    Waited,
};

/// A whole frame in one packet.
pub fn packet(kind: FrameType, payload: Payload) -> MetsPacket {
    fragment(kind, payload.len() as u32, 0, payload)
}

/// A fragment of a frame of `alf_len` bytes.
pub fn fragment(kind: FrameType, alf_len: u32, offset: u32, payload: Payload) -> MetsPacket {
    let mut flags = Flags::default();
    if offset == 0 {
        flags |= Flags::FIRST;
    }
    if offset as usize + payload.len() == alf_len as usize {
        flags |= Flags::LAST;
    }
    if kind == FrameType::BL {
        flags |= Flags::GOP_START;
    }
    MetsPacket {
        header: MetsHeader {
            kind,
            flags,
            flow: FlowId(7),
            seq: Serial(0xffff_fffe),
            timestamp_us: 1_234_567,
            e1_count: 3,
            e2_count: 8,
            alf_len,
            offset,
            waited: Waited::default(),
            sound: Sound::default(),
            passing: Passing::default(),
        },
        payload,
        congestion: false,
    }
}

/// RES of a branch that wants `max`.
pub fn adapter(kind: AdapterKind, max: Level) -> AdapterMsg {
    AdapterMsg {
        kind,
        group: GroupId(1),
        flow: FlowId(7),
        era: Serial(3),
        origin: NodeId(9),
        min: max.down(),
        max,
        hops: 2,
        levels: LevelSet::EMPTY,
        rate_min: CellRate(960),
        rate_max: CellRate(2_880),
        residual: CellRate(4_000),
        drain: CellRate(if kind == AdapterKind::Res { 16_071 } else { 0 }),
    }
}
