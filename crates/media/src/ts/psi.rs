use mpeg2ts_reader::mpegts_crc::sum32;

use super::packet::Packet;

/// Longest section (2.4.4.1).
const MAX_SECTION: usize = 1_024;
/// Streams of a program that are looked at.
const MAX_STREAMS: usize = 64;

/// Gathers the sections of one table from its packets.
#[derive(Clone, Default, Debug)]
pub(crate) struct Sections {
    section: Vec<u8>,
    /// The packets that carry it.
    packets: Vec<u8>,
    reading: bool,
}

impl Sections {
    /// Takes a packet of the table; gives the section it completes, with the packets that carried it,
    /// if its checksum is right.
    pub fn push(&mut self, packet: &Packet) -> Option<(&[u8], &[u8])> {
        let mut payload = packet.payload();
        if packet.starts() {
            let pointer = usize::from(*payload.first()?);
            payload = payload.get(1 + pointer..)?;
            self.section.clear();
            self.packets.clear();
            self.reading = true;
        }
        if !self.reading {
            return None;
        }
        self.section.extend_from_slice(payload);
        self.packets.extend_from_slice(packet.bytes());
        let &[_, a, b] = self.section.first_chunk()?;
        let len = 3 + usize::from(u16::from_be_bytes([a & 0x0F, b]));
        if len > MAX_SECTION {
            self.reading = false;
            return None;
        }
        if self.section.len() < len {
            return None;
        }
        self.reading = false;
        self.section.truncate(len);
        (len >= 12 && sum32(&self.section) == 0).then_some((&self.section, &self.packets))
    }
}

/// The programs of a PAT (2.4.4.3): where the map of each is.
pub(crate) fn programs(section: &[u8]) -> impl Iterator<Item = (u16, u16)> + '_ {
    let is_pat = section.first() == Some(&0) && section.len() >= 12;
    let entries = match is_pat {
        true => &section[8..section.len() - 4],
        false => &[],
    };
    entries.chunks_exact(4).filter_map(|entry| {
        let number = u16::from_be_bytes([entry[0], entry[1]]);
        let pid = u16::from_be_bytes([entry[2] & 0x1F, entry[3]]);
        // Number zero is the network, not a program.
        (number != 0).then_some((number, pid))
    })
}

/// A program map (2.4.4.8): stream types and packet identifiers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct ProgramMap {
    pub pcr_pid: u16,
    pub streams: Vec<(u8, u16)>,
}

impl ProgramMap {
    pub fn parse(section: &[u8]) -> Option<ProgramMap> {
        if *section.first()? != 2 {
            return None;
        }
        let body = section.get(8..section.len().checked_sub(4)?)?;
        let pid = |at: usize| {
            Some(u16::from_be_bytes([
                body.get(at)? & 0x1F,
                *body.get(at + 1)?,
            ]))
        };
        let len = |at: usize| {
            let bytes = [body.get(at)? & 0x0F, *body.get(at + 1)?];
            Some(usize::from(u16::from_be_bytes(bytes)))
        };
        let mut map = ProgramMap {
            pcr_pid: pid(0)?,
            streams: Vec::new(),
        };
        let mut at = 4 + len(2)?;
        while at + 5 <= body.len() && map.streams.len() < MAX_STREAMS {
            map.streams.push((body[at], pid(at + 1)?));
            at += 5 + len(at + 3)?;
        }
        Some(map)
    }
}

/// A section around `body`: header, length and checksum.
fn section(table: u8, number: u16, body: &[u8]) -> Vec<u8> {
    let len = (body.len() + 9) as u16;
    let [high, low] = len.to_be_bytes();
    let [a, b] = number.to_be_bytes();
    let mut section = vec![table, 0xB0 | high, low, a, b, 0xC1, 0, 0];
    section.extend_from_slice(body);
    let crc = sum32(&section);
    section.extend_from_slice(&crc.to_be_bytes());
    section
}

/// A PAT of one program.
pub(crate) fn pat(program: u16, map_pid: u16) -> Vec<u8> {
    let ([a, b], [c, d]) = (program.to_be_bytes(), map_pid.to_be_bytes());
    section(0, 1, &[a, b, 0xE0 | c, d])
}

/// The map of a program of one stream, which also carries the clock.
pub(crate) fn pmt(program: u16, stream_type: u8, pid: u16) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let high = 0xE0 | high;
    section(
        2,
        program,
        &[high, low, 0xF0, 0, stream_type, high, low, 0xF0, 0],
    )
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Adaptation, TS_PACKET, put};
    use super::*;

    fn packets(section: &[u8], pid: u16) -> Vec<u8> {
        let payload = [&[0][..], section].concat();
        let (mut out, mut rest, mut first) = (Vec::new(), &payload[..], true);
        while !rest.is_empty() {
            let taken = put(pid, first, 0, Adaptation::default(), rest, &mut out);
            (rest, first) = (&rest[taken..], false);
        }
        out
    }

    #[test]
    fn tables_read_as_they_were_written() {
        let (pat, pmt) = (pat(1, 0x1000), pmt(1, 0x1B, 0x100));
        let mut sections = Sections::default();
        let bytes = packets(&pat, 0);
        let packet = Packet::new(&bytes).expect("a packet");
        let (section, _) = sections.push(&packet).expect("a section");
        assert_eq!(programs(section).collect::<Vec<_>>(), [(1, 0x1000)]);
        let bytes = packets(&pmt, 0x1000);
        let packet = Packet::new(&bytes).expect("a packet");
        let (section, carried) = sections.push(&packet).expect("a section");
        assert_eq!(carried, bytes);
        let map = ProgramMap::parse(section).expect("a map");
        assert_eq!(
            (map.pcr_pid, &map.streams[..]),
            (0x100, &[(0x1B, 0x100)][..])
        );
    }

    #[test]
    fn a_long_section_comes_in_pieces_and_a_damaged_one_not_at_all() {
        let body: Vec<u8> = (0..100u16)
            .flat_map(|n| [0, n as u8, 0xE1, n as u8])
            .collect();
        let long = section(0, 1, &body);
        let mut bytes = packets(&long, 0);
        assert_eq!(bytes.len(), 3 * TS_PACKET);
        let gather = |bytes: &[u8]| {
            let mut sections = Sections::default();
            let mut done = None;
            for packet in bytes.chunks(TS_PACKET).filter_map(Packet::new) {
                done = done.or(sections.push(&packet).map(|(s, _)| s.to_vec()));
            }
            done
        };
        assert_eq!(gather(&bytes), Some(long));
        bytes[300] ^= 1;
        assert_eq!(gather(&bytes), None);
    }
}
