use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::codec::VideoCodec;
use super::kept::sound;
use super::packet::{NULL, Packet, TS_PACKET};
use super::psi::StreamEntry;
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
    /// Its language, by the program map (ISO 639-2): `eng`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Bytes of its packets: 0 of a stream that the program map lists and that does not come.
    pub bytes: u64,
}

/// What packets of a transport stream carry, by their PID.
#[derive(Default, Debug)]
pub(crate) struct Contents {
    tables: Tables,
    /// Streams that do not travel as data: the video.
    others: BTreeSet<u16>,
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
                self.others.insert(pid);
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

    /// The streams, in the order of their PIDs: those that come, and those that a program map lists.
    pub fn streams(&self) -> Vec<DataStream> {
        let listed = self.tables.maps().flat_map(|map| &map.streams);
        let mut entries: BTreeMap<u16, Option<&StreamEntry>> = listed
            .filter(|it| !self.others.contains(&it.pid))
            .map(|it| (it.pid, Some(it)))
            .collect();
        for pid in self.bytes.keys() {
            entries.entry(*pid).or_default();
        }
        let of = |(pid, entry): (u16, Option<&StreamEntry>)| DataStream {
            pid,
            kind: entry.map_or_else(|| "in no program map".to_owned(), kind),
            language: entry
                .and_then(|it| it.language)
                .map(|it| String::from_utf8_lossy(&it).to_ascii_lowercase()),
            bytes: self.bytes.get(&pid).copied().unwrap_or_default(),
        };
        entries.into_iter().map(of).collect()
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
