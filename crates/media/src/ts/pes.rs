use super::packet::{Adaptation, put};

/// The header of a PES packet (2.4.3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PesHeader {
    /// Where the payload begins.
    pub len: usize,
    pub stream_id: u8,
    /// Presentation time in ticks of 90 kHz, 33 bits.
    pub pts: Option<u64>,
    /// Decoding time, if it is given beside the presentation time.
    pub dts: Option<u64>,
}

impl PesHeader {
    /// Reads the header that begins `data`; `None` if this is not one of video or audio.
    pub fn parse(data: &[u8]) -> Option<PesHeader> {
        let &[0, 0, 1, id, _, _, flags_1, flags_2, rest] = data.first_chunk::<9>()? else {
            return None;
        };
        if flags_1 & 0xC0 != 0x80 || matches!(id, 0xBC | 0xBE | 0xBF | 0xF0..=0xF2 | 0xF8 | 0xFF) {
            return None;
        }
        let pts = (flags_2 & 0x80 != 0)
            .then(|| stamp(data.get(9..14)?))
            .flatten();
        let dts = (flags_2 & 0xC0 == 0xC0)
            .then(|| stamp(data.get(14..19)?))
            .flatten();
        Some(PesHeader {
            len: 9 + usize::from(rest),
            stream_id: id,
            pts,
            dts,
        })
    }
}

fn stamp(field: &[u8]) -> Option<u64> {
    let &[a, b, c, d, e] = field.first_chunk::<5>()?;
    let bits = |byte: u8, shift: u32| u64::from(byte) << shift;
    Some(bits(a >> 1 & 7, 30) | bits(b, 22) | bits(c >> 1, 15) | bits(d, 7) | bits(e >> 1, 0))
}

fn put_stamp(prefix: u8, ticks: u64, out: &mut Vec<u8>) {
    let t = ticks & ((1 << 33) - 1);
    out.extend_from_slice(&[
        prefix << 4 | (t >> 29) as u8 & 0x0E | 1,
        (t >> 22) as u8,
        (t >> 14) as u8 | 1,
        (t >> 7) as u8,
        (t << 1) as u8 | 1,
    ]);
}

/// Appends the packets of one picture as one video PES packet.
pub(crate) fn put_video(
    pid: u16,
    continuity: &mut u8,
    adaptation: Adaptation,
    stamps: (u64, u64),
    picture: [&[u8]; 2],
    out: &mut Vec<u8>,
) {
    put_pes(
        pid,
        FIRST_VIDEO,
        continuity,
        adaptation,
        Some(stamps),
        picture,
        out,
    );
}

/// `stream_id` of the first video stream (table 2-22).
pub(crate) const FIRST_VIDEO: u8 = 0xE0;

/// Appends the packets of one PES packet; `stamps` are presentation and decoding time.
pub(crate) fn put_pes(
    pid: u16,
    stream_id: u8,
    continuity: &mut u8,
    adaptation: Adaptation,
    stamps: Option<(u64, u64)>,
    picture: [&[u8]; 2],
    out: &mut Vec<u8>,
) {
    // Of unbounded length, as only video may be.
    let mut pes = vec![0, 0, 1, stream_id, 0, 0, 0x84];
    match stamps {
        None => pes.extend_from_slice(&[0, 0]),
        Some((pts, dts)) if pts == dts => {
            pes.extend_from_slice(&[0x80, 5]);
            put_stamp(2, pts, &mut pes);
        }
        Some((pts, dts)) => {
            pes.extend_from_slice(&[0xC0, 10]);
            put_stamp(3, pts, &mut pes);
            put_stamp(1, dts, &mut pes);
        }
    }
    let total: usize = picture.iter().map(|part| part.len()).sum();
    pes.reserve_exact(total);
    for part in picture {
        pes.extend_from_slice(part);
    }
    let mut rest = &pes[..];
    let mut first = true;
    while !rest.is_empty() {
        let field = if first {
            adaptation
        } else {
            Adaptation::default()
        };
        let taken = put(pid, first, *continuity, field, rest, out);
        *continuity = (*continuity + 1) & 15;
        rest = &rest[taken..];
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Packet, TS_PACKET};
    use super::*;

    #[test]
    fn time_stamps_read_as_they_were_written() {
        for ticks in [0u64, 1, 90_000, 0x1_2345_6789, (1 << 33) - 1] {
            let mut out = Vec::new();
            let mut continuity = 14;
            let stamps = (ticks, ticks.wrapping_sub(3_600) & ((1 << 33) - 1));
            let picture = [&[9u8; 6][..], &[7; 400]];
            put_video(
                256,
                &mut continuity,
                Adaptation::default(),
                stamps,
                picture,
                &mut out,
            );
            let packets: Vec<Packet> = out.chunks(TS_PACKET).filter_map(Packet::new).collect();
            assert_eq!((packets.len(), continuity), (3, 1));
            let header = PesHeader::parse(packets[0].payload()).expect("a header");
            assert_eq!((header.pts, header.dts), (Some(stamps.0), Some(stamps.1)));
            let video: Vec<u8> = packets.iter().flat_map(|p| p.payload()).copied().collect();
            assert_eq!(video[header.len..], [&[9u8; 6][..], &[7; 400]].concat());
        }
    }
}
