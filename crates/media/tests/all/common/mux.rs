//! Transport streams built by hand.

use std::collections::HashMap;

/// Where the video of the streams is.
pub const VIDEO: u16 = 0x100;
/// Where the map of program 1 is.
pub const MAP: u16 = 0x1000;

const SEQUENCE: [u8; 12] = [0, 0, 1, 0xB3, 0x0b, 0, 0x90, 0x13, 0xff, 0xff, 0xe0, 0x18];
const GOP: [u8; 8] = [0, 0, 1, 0xB8, 0, 8, 0, 0x40];

/// A checksum as ISO/IEC 13818-1, annex A, has it.
pub fn crc(data: &[u8]) -> [u8; 4] {
    let step = |crc: u32| match crc >> 31 {
        0 => crc << 1,
        _ => crc << 1 ^ 0x04C1_1DB7,
    };
    let all = data.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| step(crc))
    });
    all.to_be_bytes()
}

/// A section of table `id`, in force if `current`.
pub fn section(id: u8, number: u16, current: bool, version: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = (body.len() as u16 + 9).to_be_bytes();
    let [a, b] = number.to_be_bytes();
    let flags = 0xC0 | version << 1 | u8::from(current);
    let mut section = vec![id, 0xB0 | high, low, a, b, flags, 0, 0];
    section.extend_from_slice(body);
    let crc = crc(&section);
    section.extend_from_slice(&crc);
    section
}

/// A PAT of these programs, each with the PID of its map.
pub fn pat(programs: &[(u16, u16)]) -> Vec<u8> {
    let entry = |&(number, pid): &(u16, u16)| {
        let ([a, b], [c, d]) = (number.to_be_bytes(), pid.to_be_bytes());
        [a, b, 0xE0 | c, d]
    };
    let body: Vec<u8> = programs.iter().flat_map(entry).collect();
    section(0, 1, true, 0, &body)
}

/// The map of a program: stream type, PID and descriptors of its streams; the first carries the clock.
pub fn pmt(program: u16, version: u8, current: bool, streams: &[(u8, u16, &[u8])]) -> Vec<u8> {
    let clock = streams.first().map_or(0x1FFF, |stream| stream.1);
    let [high, low] = clock.to_be_bytes();
    let mut body = vec![0xE0 | high, low, 0xF0, 0];
    for (kind, pid, descriptors) in streams {
        let [high, low] = pid.to_be_bytes();
        body.extend_from_slice(&[*kind, 0xE0 | high, low, 0xF0, descriptors.len() as u8]);
        body.extend_from_slice(descriptors);
    }
    section(2, program, current, version, &body)
}

/// Writes packets, with a continuity counter for each PID.
#[derive(Default)]
pub struct Mux {
    counters: HashMap<u16, u8>,
    pub out: Vec<u8>,
}

/// The stamps of a PES packet, in ticks of 90 kHz.
#[derive(Clone, Copy, Default)]
pub struct Times {
    pub pts: Option<u64>,
    pub dts: Option<u64>,
    pub pcr: Option<u64>,
}

impl Times {
    /// Decoding and presentation time, and a clock that is a tenth of a second before.
    pub fn at(dts: u64, pts: u64) -> Times {
        Times {
            pts: Some(pts),
            dts: Some(dts),
            pcr: Some(dts.wrapping_sub(9_000)),
        }
    }
}

fn stamp(prefix: u8, ticks: u64) -> [u8; 5] {
    [
        prefix << 4 | (ticks >> 29) as u8 & 0x0E | 1,
        (ticks >> 22) as u8,
        (ticks >> 14) as u8 | 1,
        (ticks >> 7) as u8,
        (ticks << 1) as u8 | 1,
    ]
}

impl Mux {
    /// One packet with as much of `payload` as fits; gives the rest.
    pub fn packet<'a>(
        &mut self,
        pid: u16,
        starts: bool,
        pcr: Option<u64>,
        payload: &'a [u8],
    ) -> &'a [u8] {
        let mut field = Vec::new();
        if let Some(pcr) = pcr {
            let base = pcr & ((1 << 33) - 1);
            field.push(0x10);
            field.extend_from_slice(&((base >> 1) as u32).to_be_bytes());
            field.extend_from_slice(&[(base as u8 & 1) << 7 | 0x7E, 0]);
        }
        let room = 184 - if pcr.is_some() { 8 } else { 0 };
        let (now, rest) = payload.split_at(payload.len().min(room));
        let counter = self.counters.entry(pid).or_default();
        let [high, low] = pid.to_be_bytes();
        let start = if starts { 0x40 } else { 0 };
        let has_field = now.len() < 184;
        let control = if has_field { 0x30 } else { 0x10 } | *counter;
        *counter = (*counter + 1) & 15;
        self.out
            .extend_from_slice(&[0x47, start | high, low, control]);
        if has_field {
            let len = 183 - now.len();
            self.out.push(len as u8);
            if len > 0 && field.is_empty() {
                field.push(0);
            }
            field.resize(len, 0xFF);
            self.out.extend_from_slice(&field);
        }
        self.out.extend_from_slice(now);
        rest
    }

    /// Packets that carry sections one behind the other.
    pub fn sections(&mut self, pid: u16, sections: &[&[u8]]) {
        let mut payload = [&[0][..], &sections.concat()].concat();
        payload.resize(payload.len().next_multiple_of(184), 0xFF);
        for (index, piece) in payload.chunks(184).enumerate() {
            self.packet(pid, index == 0, None, piece);
        }
    }

    /// PAT and map of one program with video of a stream type.
    pub fn tables(&mut self, kind: u8) {
        self.sections(0, &[&pat(&[(1, MAP)])]);
        self.sections(MAP, &[&pmt(1, 0, true, &[(kind, VIDEO, &[])])]);
    }

    /// A PES packet.
    pub fn pes(&mut self, pid: u16, id: u8, times: Times, data: &[u8]) {
        let (flags, stamps) = match (times.pts, times.dts) {
            (Some(pts), Some(dts)) => (0xC0, [stamp(3, pts), stamp(1, dts)].concat()),
            (Some(pts), None) => (0x80, stamp(2, pts).to_vec()),
            _ => (0, Vec::new()),
        };
        let head = [0, 0, 1, id, 0, 0, 0x84, flags, stamps.len() as u8];
        let pes = [&head[..], &stamps, data].concat();
        let mut rest = self.packet(pid, true, times.pcr, &pes);
        while !rest.is_empty() {
            rest = self.packet(pid, false, None, rest);
        }
    }
}

/// Pictures of MPEG-1 video: `gops` of I P B B P B B ..., ten pictures each.
pub fn pictures(gops: usize) -> Vec<Vec<u8>> {
    let kinds = [1u8, 2, 3, 3, 2, 3, 3, 2, 3, 3];
    let places = [0u16, 3, 1, 2, 6, 4, 5, 9, 7, 8];
    let one = |gop: usize, index: usize| {
        let low = (places[index] << 6) as u8 | kinds[index] << 3;
        let header = [0, 0, 1, 0, (places[index] >> 2) as u8, low, 0xff, 0xf8];
        let slices = (1..=9u8).flat_map(|row| {
            let filling = [0x23, row, gop as u8, index as u8, 0x80].repeat(8);
            [&[0, 0, 1, row][..], &filling].concat()
        });
        let front = match index {
            0 => [&SEQUENCE[..], &GOP].concat(),
            _ => Vec::new(),
        };
        front.into_iter().chain(header).chain(slices).collect()
    };
    (0..gops)
        .flat_map(|gop| (0..10).map(move |index| one(gop, index)))
        .collect()
}

/// Decoding and presentation time of a picture of [`pictures`].
pub fn times(index: usize) -> Times {
    let places = [0u64, 3, 1, 2, 6, 4, 5, 9, 7, 8];
    let shown = index as u64 / 10 * 10 + places[index % 10];
    Times::at(90_000 + index as u64 * 3_600, 90_000 + (shown + 2) * 3_600)
}
