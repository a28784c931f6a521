use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::codec::VideoCodec;
use super::kept::sound;
use super::packet::{NULL, Packet, TS_PACKET};
use super::psi::{ProgramMap, StreamEntry};
use super::tables::Tables;

/// Packet identifiers below this are those of tables (table 2-3; ETSI EN 300 468, 5.1.3).
const FIRST_FREE: u16 = 0x20;

/// A stream of a transport stream that travels as sound and data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DataStream {
    /// Its packet identifier (PID).
    pub pid: u16,
    /// What it is, by the program map: `AAC`, `SCTE 35`, `DVB teletext`, `H.264` of another program.
    pub kind: String,
    /// Bytes of its packets.
    pub bytes: u64,
}

/// What packets of a transport stream carry, by their PID.
#[derive(Default, Debug)]
pub(crate) struct Contents {
    tables: Tables,
    bytes: BTreeMap<u16, u64>,
    /// Bytes of tables and of stuffing.
    table_bytes: u64,
}

impl Contents {
    /// Reads whole packets, and counts them if they travel as data.
    pub fn push(&mut self, packets: &[u8], is_data: bool) {
        for packet in packets.chunks_exact(TS_PACKET).filter_map(Packet::new) {
            self.tables.push(&packet);
            let pid = packet.pid();
            if !is_data {
                continue;
            }
            match pid < FIRST_FREE || pid == NULL || self.tables.reads(pid) {
                true => self.table_bytes += TS_PACKET as u64,
                false => *self.bytes.entry(pid).or_default() += TS_PACKET as u64,
            }
        }
    }

    /// Bytes of tables and of stuffing.
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// The streams, in the order of their PIDs.
    pub fn streams(&self) -> Vec<DataStream> {
        let entry = |pid: u16| {
            let mut all = self.tables.maps().flat_map(|map: &ProgramMap| &map.streams);
            all.find(|it| it.pid == pid)
        };
        let of = |(&pid, &bytes): (&u16, &u64)| DataStream {
            pid,
            kind: entry(pid).map_or_else(|| "in no program map".to_owned(), kind),
            bytes,
        };
        self.bytes.iter().map(of).collect()
    }
}

/// What the program map says that a stream is (ISO/IEC 13818-1, table 2-34; ETSI EN 300 468, table 12; SCTE 35).
fn kind(stream: &StreamEntry) -> String {
    if let Some(codec) = VideoCodec::of(stream) {
        return codec.name().to_owned();
    }
    if let Some(codec) = sound(stream) {
        return codec.to_owned();
    }
    let name = match (stream.kind, stream.format.as_ref(), stream.dvb) {
        (_, Some(b"KLVA"), _) => "KLV metadata",
        (0x86, ..) | (_, Some(b"CUEI"), _) => "SCTE 35",
        (0x06, _, Some(0x56)) => "DVB teletext",
        (0x06, _, Some(0x59)) => "DVB subtitles",
        (0x06, ..) => "private data",
        (0x05, ..) => "private sections",
        (0x0A..=0x0D, ..) => "DSM-CC",
        (0x15, ..) => "timed metadata",
        (other, ..) => return format!("stream type 0x{other:02X}"),
    };
    name.to_owned()
}
