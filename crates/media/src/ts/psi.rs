use crc::{CRC_32_MPEG_2, Crc, Table};

use super::packet::{Adaptation, Packet, put};

/// The checksum of sections (ISO/IEC 13818-1, annex A).
static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_MPEG_2);
/// Longest section of any table (2.4.4.11), in bytes.
const MAX_SECTION: usize = 4_096;
/// Longest section of a PAT or PMT (2.4.4.1), in bytes.
const MAX_TABLE: usize = 1_024;
/// Shortest section with a checksum, in bytes.
const MIN_TABLE: usize = 12;
/// Fills the packet behind its last section (2.4.4).
const STUFFING: u8 = 0xFF;
/// Streams of a program that are looked at.
const MAX_STREAMS: usize = 64;
/// Sections of a PAT that are kept.
const MAX_SECTIONS: usize = 64;

/// The checksum of a section; 0 of one that has its own behind it.
pub(super) fn checksum(section: &[u8]) -> u32 {
    CRC.checksum(section)
}

/// Gathers the sections that the packets of one PID carry (2.4.4): several in a packet, one over several
/// packets, and one that ends in the packet in which the next begins.
#[derive(Clone, Default, Debug)]
pub(crate) struct Sections {
    section: Vec<u8>,
    reading: bool,
    /// Continuity counter of the last packet.
    counter: Option<u8>,
    damaged: u64,
}

impl Sections {
    /// Sections of a PAT or PMT with a wrong checksum.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Takes a packet; `found` gets each section of a PAT or PMT that it completes, if the checksum is right
    /// and the section is in force (`current_next_indicator`).
    pub fn push(&mut self, packet: &Packet, mut found: impl FnMut(&[u8])) {
        if !packet.has_payload() {
            return;
        }
        if self.counter == Some(packet.continuity()) && !packet.starts() {
            // The same packet again.
            return;
        }
        let expected = self.counter.map(|last| (last + 1) & 15);
        let continuous = expected == Some(packet.continuity());
        self.counter = Some(packet.continuity());
        if !continuous {
            self.reading = false;
        }
        let payload = packet.payload();
        if !packet.starts() {
            self.read(payload, &mut found);
            return;
        }
        let Some((&pointer, rest)) = payload.split_first() else {
            return;
        };
        let (before, behind) = rest.split_at(rest.len().min(usize::from(pointer)));
        self.read(before, &mut found);
        self.section.clear();
        self.reading = true;
        self.read(behind, &mut found);
    }

    /// Takes bytes of sections.
    fn read(&mut self, mut bytes: &[u8], found: &mut impl FnMut(&[u8])) {
        while self.reading && !bytes.is_empty() {
            if self.section.is_empty() && bytes[0] == STUFFING {
                self.reading = false;
                return;
            }
            let wanted = match self.section.first_chunk() {
                None => 3,
                Some(&[_, a, b]) => section_len(a, b),
            };
            if wanted > MAX_SECTION {
                self.reading = false;
                return;
            }
            let missing = wanted.saturating_sub(self.section.len());
            let (now, after) = bytes.split_at(missing.min(bytes.len()));
            self.section.extend_from_slice(now);
            bytes = after;
            if let Some(&[_, a, b]) = self.section.first_chunk()
                && self.section.len() == section_len(a, b)
            {
                self.complete(found);
                self.section.clear();
            }
        }
    }

    fn complete(&mut self, found: &mut impl FnMut(&[u8])) {
        let section = &self.section[..];
        let is_table = matches!(section[0], PAT_TABLE | PMT_TABLE) && section[1] & 0x80 != 0;
        if !is_table || !(MIN_TABLE..=MAX_TABLE).contains(&section.len()) {
            return;
        }
        if checksum(section) != 0 {
            self.damaged += 1;
        } else if section[5] & 1 != 0 {
            found(section);
        }
    }
}

/// Bytes of a section, as its second and third byte say.
fn section_len(a: u8, b: u8) -> usize {
    3 + usize::from(u16::from_be_bytes([a & 0x0F, b]))
}

/// `table_id` of a PAT and of a PMT (table 2-31).
const PAT_TABLE: u8 = 0;
const PMT_TABLE: u8 = 2;

/// A program association table (2.4.4.3), of one section or several.
#[derive(Clone, Default, Debug)]
pub(crate) struct Association {
    /// Version, stream, and number of the last section.
    of: Option<[u8; 4]>,
    /// By section number.
    sections: Vec<(u8, Vec<u8>)>,
}

impl Association {
    /// Takes a section; `true` if it is news.
    pub fn take(&mut self, section: &[u8]) -> bool {
        if section.first() != Some(&PAT_TABLE) || section.len() < MIN_TABLE {
            return false;
        }
        let of = Some([section[3], section[4], section[5], section[7]]);
        if self.of != of {
            (self.of, self.sections) = (of, Vec::new());
        }
        let number = section[6];
        match self.sections.binary_search_by_key(&number, |it| it.0) {
            Ok(at) if self.sections[at].1 == section => false,
            Ok(at) => {
                self.sections[at].1 = section.to_vec();
                true
            }
            Err(at) if self.sections.len() < MAX_SECTIONS => {
                self.sections.insert(at, (number, section.to_vec()));
                true
            }
            Err(_) => false,
        }
    }

    /// The programs in order, with the PID of the map of each; the network entry (number 0) is none.
    pub fn programs(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.sections().flat_map(programs)
    }

    /// Its sections in order.
    pub fn sections(&self) -> impl Iterator<Item = &[u8]> {
        self.sections.iter().map(|(_, section)| &section[..])
    }

    /// A table of one of its programs alone.
    pub fn of_program(&self, program: u16) -> Option<Vec<u8>> {
        let (_, pid) = self.programs().find(|&(number, _)| number == program)?;
        let [_, _, _, a, b, ..] = *self.sections().next()? else {
            return None;
        };
        Some(pat_of(u16::from_be_bytes([a, b]), program, pid))
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

/// A program map (2.4.4.8).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct ProgramMap {
    pub program: u16,
    pub pcr_pid: u16,
    pub streams: Vec<StreamEntry>,
}

/// A stream of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamEntry {
    /// `stream_type` (table 2-34).
    pub kind: u8,
    pub pid: u16,
    /// `format_identifier` of its registration descriptor (2.6.8), which names the codec of private streams.
    pub format: Option<[u8; 4]>,
    /// `ISO_639_language_code` of its language or subtitling descriptor (2.6.18; ETSI EN 300 468, 6.2.41).
    pub language: Option<[u8; 3]>,
    /// Tag of the DVB descriptor that names the content of a private stream (ETSI EN 300 468, table 12).
    pub dvb: Option<u8>,
}

/// `descriptor_tag` of a registration descriptor.
const REGISTRATION: u8 = 5;

/// Descriptors that begin with a language: of any stream, of DVB teletext, of DVB subtitles.
const OF_LANGUAGE: [u8; 3] = [0x0A, 0x56, 0x59];

/// Descriptor tags of teletext, subtitles, AC-3, E-AC-3, DTS and AAC.
const OF_DVB: [u8; 6] = [0x56, 0x59, 0x6A, 0x7A, 0x7B, 0x7C];

/// The descriptors of a stream as tag and body, up to one that is cut.
fn descriptors(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let [tag, len, rest @ ..] = bytes else {
            return None;
        };
        let body = rest.get(..usize::from(*len))?;
        bytes = &rest[body.len()..];
        Some((*tag, body))
    })
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
            program: u16::from_be_bytes([*section.get(3)?, *section.get(4)?]),
            pcr_pid: pid(0)?,
            streams: Vec::new(),
        };
        let mut at = 4 + len(2)?;
        while at + 5 <= body.len() && map.streams.len() < MAX_STREAMS {
            let end = at + 5 + len(at + 3)?;
            let of_stream = || descriptors(body.get(at + 5..end).unwrap_or_default());
            map.streams.push(StreamEntry {
                kind: body[at],
                pid: pid(at + 1)?,
                format: of_stream().find_map(|(tag, body)| {
                    let is_format = tag == REGISTRATION;
                    is_format.then(|| body.first_chunk().copied()).flatten()
                }),
                language: of_stream().find_map(|(tag, body)| {
                    let names = OF_LANGUAGE.contains(&tag);
                    let code = body.first_chunk().copied()?;
                    (names && code.iter().all(u8::is_ascii_alphabetic)).then_some(code)
                }),
                dvb: of_stream()
                    .map(|(tag, _)| tag)
                    .find(|tag| OF_DVB.contains(tag)),
            });
            at = end;
        }
        Some(map)
    }
}

/// The section of a map without the streams of these PIDs.
pub(crate) fn without(section: &[u8], pids: &[u16]) -> Vec<u8> {
    let Some((body, _)) = section.split_last_chunk::<4>() else {
        return section.to_vec();
    };
    let len = |at: usize| match body.get(at..at + 2) {
        Some(&[a, b]) => usize::from(u16::from_be_bytes([a & 0x0F, b])),
        _ => body.len(),
    };
    // Its header, the PID of the clock, and the descriptors of the program.
    let front = body.len().min(12 + len(10));
    let (mut out, mut at) = (body[..front].to_vec(), front);
    while at + 5 <= body.len() {
        let end = body.len().min(at + 5 + len(at + 3));
        let pid = u16::from_be_bytes([body[at + 1] & 0x1F, body[at + 2]]);
        if !pids.contains(&pid) {
            out.extend_from_slice(&body[at..end]);
        }
        at = end;
    }
    let [high, low] = (out.len() as u16 + 1).to_be_bytes();
    (out[1], out[2]) = (out[1] & 0xF0 | high, low);
    let crc = checksum(&out);
    out.extend_from_slice(&crc.to_be_bytes());
    out
}

/// A section around `body`: header, length and checksum.
fn section(table: u8, number: u16, body: &[u8]) -> Vec<u8> {
    let len = (body.len() + 9) as u16;
    let [high, low] = len.to_be_bytes();
    let [a, b] = number.to_be_bytes();
    let mut section = vec![table, 0xB0 | high, low, a, b, 0xC1, 0, 0];
    section.extend_from_slice(body);
    let crc = checksum(&section);
    section.extend_from_slice(&crc.to_be_bytes());
    section
}

/// A PAT of one program.
pub(crate) fn pat(program: u16, map_pid: u16) -> Vec<u8> {
    pat_of(1, program, map_pid)
}

/// A PAT of one program of the transport stream `stream`.
fn pat_of(stream: u16, program: u16, map_pid: u16) -> Vec<u8> {
    let ([a, b], [c, d]) = (program.to_be_bytes(), map_pid.to_be_bytes());
    section(PAT_TABLE, stream, &[a, b, 0xE0 | c, d])
}

/// Appends packets that carry `section` alone.
pub(crate) fn put_section(pid: u16, counter: &mut u8, section: &[u8], out: &mut Vec<u8>) {
    // A section begins behind its pointer, and bytes behind it are stuffing.
    let mut payload = Vec::with_capacity(1 + section.len() + 184);
    payload.push(0);
    payload.extend_from_slice(section);
    payload.resize(payload.len().next_multiple_of(184), STUFFING);
    for (index, piece) in payload.chunks(184).enumerate() {
        put(pid, index == 0, *counter, Adaptation::default(), piece, out);
        *counter = (*counter + 1) & 15;
    }
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
    use super::super::packet::TS_PACKET;
    use super::*;

    fn packets(pid: u16, section: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_section(pid, &mut 3, section, &mut out);
        out
    }

    /// The sections in packets, and how many were damaged.
    fn gather(bytes: &[u8]) -> (Vec<Vec<u8>>, u64) {
        let mut sections = Sections::default();
        let mut found = Vec::new();
        for packet in bytes.chunks(TS_PACKET).filter_map(Packet::new) {
            sections.push(&packet, |section| found.push(section.to_vec()));
        }
        (found, sections.damaged())
    }

    /// Packets whose payloads are given, each with the flag that a section begins in it.
    fn raw(payloads: &[(bool, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (counter, (starts, payload)) in payloads.iter().enumerate() {
            let mut payload = payload.clone();
            payload.resize(184, STUFFING);
            put(
                9,
                *starts,
                counter as u8,
                Adaptation::default(),
                &payload,
                &mut out,
            );
        }
        out
    }

    #[test]
    fn tables_read_as_they_were_written() {
        let (pat, pmt) = (pat(1, 0x1000), pmt(1, 0x1B, 0x100));
        let mut association = Association::default();
        let (found, _) = gather(&packets(0, &pat));
        assert!(association.take(&found[0]) && !association.take(&found[0]));
        assert_eq!(association.programs().collect::<Vec<_>>(), [(1, 0x1000)]);
        let (found, _) = gather(&packets(0x1000, &pmt));
        let map = ProgramMap::parse(&found[0]).expect("a map");
        let stream = StreamEntry {
            kind: 0x1B,
            pid: 0x100,
            format: None,
            language: None,
            dvb: None,
        };
        assert_eq!(
            (map.program, map.pcr_pid, map.streams),
            (1, 0x100, vec![stream])
        );
    }

    #[test]
    fn a_map_without_some_of_its_streams_is_a_map() {
        let entry = |kind: u8, pid: u8, descriptors: &[u8]| {
            let head = [kind, 0xE1, pid, 0xF0, descriptors.len() as u8];
            [&head[..], descriptors].concat()
        };
        let (video, sound) = (
            entry(0x24, 0, &[5, 4, b'H', b'E', b'V', b'C']),
            entry(15, 1, &[]),
        );
        let front = [0xE1, 0, 0xF0, 3, 9, 1, 7];
        let body = [&front[..], &video, &sound].concat();
        let whole = section(PMT_TABLE, 1, &body);
        let alone = without(&whole, &[0x100]);
        assert_eq!(alone, section(PMT_TABLE, 1, &[&front[..], &sound].concat()));
        assert_eq!(without(&whole, &[0x300]), whole);
        let map = ProgramMap::parse(&alone).expect("a map");
        assert_eq!((map.pcr_pid, map.streams.len()), (0x100, 1));
        // A section that says more than it holds.
        for len in 12..whole.len() {
            without(&whole[..len], &[0x100]);
        }
    }

    #[test]
    fn sections_share_packets() {
        let (first, second) = (
            section(PMT_TABLE, 1, &[7; 100]),
            section(PMT_TABLE, 2, &[8; 120]),
        );
        let other = [&[0xC0, 0xB0, 5][..], &[1; 5]].concat();
        let all = [&[0][..], &other, &first, &other, &second].concat();
        let (front, rest) = all.split_at(184);
        let found = gather(&raw(&[(true, front.to_vec()), (false, rest.to_vec())])).0;
        assert_eq!(found, [first.clone(), second.clone()]);
        // The first section ends before the pointer of the packet in which the second begins.
        let long = section(PMT_TABLE, 1, &[7; 200]);
        let (front, rest) = long.split_at(183);
        let packets = raw(&[
            (true, [&[0][..], front].concat()),
            (true, [&[rest.len() as u8][..], rest, &second].concat()),
        ]);
        assert_eq!(gather(&packets).0, [long, second.clone()]);
        // Without the first packet only the second section is whole.
        assert_eq!(gather(&packets[TS_PACKET..]).0, [second]);
    }

    #[test]
    fn a_section_with_a_packet_missing_or_not_in_force_or_damaged_is_no_table() {
        let body: Vec<u8> = (0..100u16)
            .flat_map(|n| [0, n as u8, 0xE1, n as u8])
            .collect();
        let long = section(PAT_TABLE, 1, &body);
        let bytes = packets(0, &long);
        assert_eq!(bytes.len(), 3 * TS_PACKET);
        assert_eq!(gather(&bytes), (vec![long.clone()], 0));
        let missing = [&bytes[..TS_PACKET], &bytes[2 * TS_PACKET..]].concat();
        assert_eq!(gather(&missing), (vec![], 0));
        let mut damaged = bytes.clone();
        damaged[300] ^= 1;
        assert_eq!(gather(&damaged), (vec![], 1));
        let mut next = long[..long.len() - 4].to_vec();
        next[5] &= 0xFE;
        let crc = checksum(&next).to_be_bytes();
        next.extend_from_slice(&crc);
        assert_eq!(gather(&packets(0, &next)), (vec![], 0));
    }

    #[test]
    fn a_pat_of_two_sections_is_one_table_until_its_version_changes() {
        let part = |number: u8, version: u8, program: u8| {
            let mut section = section(PAT_TABLE, 1, &[0, program, 0xE1, program]);
            section.truncate(section.len() - 4);
            (section[5], section[6], section[7]) = (0xC1 | version << 1, number, 1);
            let crc = checksum(&section).to_be_bytes();
            section.extend_from_slice(&crc);
            section
        };
        let mut association = Association::default();
        assert!(association.take(&part(1, 0, 5)) && association.take(&part(0, 0, 4)));
        let numbers = |it: &Association| it.programs().map(|(n, _)| n).collect::<Vec<_>>();
        assert_eq!(numbers(&association), [4, 5]);
        assert!(association.take(&part(0, 1, 7)));
        assert_eq!(numbers(&association), [7]);
        let alone = association.of_program(7).expect("listed");
        assert_eq!(programs(&alone).collect::<Vec<_>>(), [(7, 0x107)]);
        assert_eq!(association.of_program(8), None);
    }
}
