use memchr::memmem;

use super::startcode::code;
use crate::MediaError;

/// The first video stream of a program stream.
pub(crate) struct Program {
    pub video: Vec<u8>,
    /// Where the pieces of `video` came from: offset there, offset in the file.
    pieces: Vec<(usize, usize)>,
    /// Where a last packet that is cut short begins.
    pub truncated: Option<u64>,
    /// That packet is one of the video stream.
    pub video_cut: bool,
}

impl Program {
    /// The file offset of byte `at` of the video stream.
    pub fn file_offset(&self, at: u64) -> u64 {
        let piece = self
            .pieces
            .partition_point(|&(video, _)| video as u64 <= at);
        match piece.checked_sub(1).and_then(|i| self.pieces.get(i)) {
            Some(&(video, file)) => file as u64 + (at - video as u64),
            None => at,
        }
    }
}

/// Gathers the first video stream (0xE0 to 0xEF) of an MPEG-1 system stream (ISO/IEC 11172-1) or
/// MPEG-2 program stream (ISO/IEC 13818-1, 2.5); all other streams are skipped, and so are bytes that belong to no
/// packet.
pub(crate) fn demultiplex(data: &[u8]) -> Result<Program, MediaError> {
    let mut program = Program {
        video: Vec::new(),
        pieces: Vec::new(),
        truncated: None,
        video_cut: false,
    };
    let mut stream = None;
    let mut at = 0;
    // What is first wrong is the error if there is no video.
    let mut wrong = None;
    while at < data.len() {
        let (start, id) = match next_start_code(data, at) {
            Ok(Some(found)) => found,
            Ok(None) => break,
            Err(error) => {
                wrong.get_or_insert(error);
                match resume(data, at) {
                    Some(next) => at = next,
                    None => break,
                }
                continue;
            }
        };
        if id == code::PROGRAM_END {
            at = start + 4;
            continue;
        }
        let end = match packet_end(data, start, id) {
            Ok(Some(end)) => end,
            Ok(None) => {
                program.truncated = Some(start as u64);
                data.len()
            }
            Err(error) => {
                wrong.get_or_insert(error);
                at = start + 4;
                continue;
            }
        };
        if (code::VIDEO_FIRST..=code::VIDEO_LAST).contains(&id) && *stream.get_or_insert(id) == id {
            program.video_cut = program.truncated.is_some();
            let payload = match payload_start(&data[..end], start) {
                Ok(Some(payload)) => payload,
                Ok(None) => {
                    at = end;
                    continue;
                }
                Err(error) => {
                    wrong.get_or_insert(error);
                    at = end;
                    continue;
                }
            };
            program.pieces.push((program.video.len(), payload));
            program.video.extend_from_slice(&data[payload..end]);
        }
        at = end;
    }
    if stream.is_none() {
        return Err(wrong.unwrap_or(MediaError::Truncated {
            offset: data.len() as u64,
            expected: "a packet of a video stream (00 00 01 E0 to EF) in the program stream",
        }));
    }
    Ok(program)
}

/// Where the next pack or packet begins behind bytes that belong to none.
fn resume(data: &[u8], at: usize) -> Option<usize> {
    let rest = data.get(at + 1..)?;
    memmem::find_iter(rest, &[0, 0, 1])
        .find(|&found| {
            rest.get(found + 3)
                .is_some_and(|&id| id >= code::PROGRAM_END)
        })
        .map(|found| at + 1 + found)
}

/// The start code at `at`, zero stuffing skipped; `None` at the end of the data.
fn next_start_code(data: &[u8], at: usize) -> Result<Option<(usize, u8)>, MediaError> {
    let rest = &data[at..];
    let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
    let (one, id) = (rest.get(zeros), rest.get(zeros + 1));
    match (one, id) {
        (None, _) | (Some(1), None) => Ok(None),
        (Some(1), Some(&id)) if zeros >= 2 && id >= code::PROGRAM_END => {
            Ok(Some((at + zeros - 2, id)))
        }
        _ => Err(MediaError::Malformed {
            offset: at as u64,
            expected: "a pack, system or packet start code",
        }),
    }
}

/// Where the pack header or packet ends; `None` if the data end before.
fn packet_end(data: &[u8], start: usize, id: u8) -> Result<Option<usize>, MediaError> {
    let Some(&[a, b]) = data
        .get(start + 4..start + 6)
        .and_then(|it| it.first_chunk())
    else {
        return Ok(None);
    };
    let end = if id != code::PACK {
        start + 6 + usize::from(u16::from_be_bytes([a, b]))
    } else if a >> 6 == 0b01 {
        match data.get(start + 13) {
            Some(stuffing) => start + 14 + usize::from(stuffing & 7),
            None => return Ok(None),
        }
    } else if a >> 4 == 0b0010 {
        start + 12
    } else {
        return Err(MediaError::Malformed {
            offset: start as u64 + 4,
            expected: "an MPEG-1 or MPEG-2 pack header",
        });
    };
    Ok((end <= data.len()).then_some(end))
}

/// Where the payload of the PES packet at `start` begins; `None` if the packet has none.
fn payload_start(packet: &[u8], start: usize) -> Result<Option<usize>, MediaError> {
    let mut at = start + 6;
    if let Some(0x80..=0xBF) = packet.get(at) {
        let payload = packet.get(at + 2).map(|&len| at + 3 + usize::from(len));
        return Ok(payload.filter(|&payload| payload <= packet.len()));
    }
    // MPEG-1 (ISO/IEC 11172-1, 2.4.3.3): stuffing, buffer size, time stamps.
    while packet.get(at) == Some(&0xFF) {
        at += 1;
    }
    if let Some(0x40..=0x7F) = packet.get(at) {
        at += 2;
    }
    at += match packet.get(at) {
        None => return Ok(None),
        Some(0x20..=0x2F) => 5,
        Some(0x30..=0x3F) => 10,
        Some(0x0F) => 1,
        Some(_) => {
            return Err(MediaError::Malformed {
                offset: at as u64,
                expected: "the header of a PES packet",
            });
        }
    };
    Ok((at <= packet.len()).then_some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACK_1: [u8; 12] = [0, 0, 1, 0xBA, 0x21, 0, 1, 0, 1, 0x80, 0, 1];

    fn packet(id: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 1, id];
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn the_first_video_stream_is_gathered_and_others_are_skipped() {
        let parts = [
            PACK_1.to_vec(),
            packet(0xC0, b"\x0Faudio"),
            packet(0xE1, b"\xFF\xFF\x60\x10\x0Fone"),
            packet(0xE0, b"\x0Fother"),
            packet(0xE1, b"\x80\x00\x02..two"),
            packet(0xE1, b"\x21\0\0\0\0three"),
            vec![0, 0, 1, 0xB9],
        ];
        let file = parts.concat();
        let program = demultiplex(&file).unwrap();
        assert_eq!(program.video, b"onetwothree");
        assert_eq!(program.truncated, None);
        for (at, byte) in program.video.iter().enumerate() {
            assert_eq!(file[program.file_offset(at as u64) as usize], *byte);
        }
    }

    #[test]
    fn a_cut_packet_keeps_its_bytes_and_is_reported() {
        let file = [PACK_1.to_vec(), packet(0xE0, b"\x0Fvideo")].concat();
        let program = demultiplex(&file[..file.len() - 2]).unwrap();
        assert_eq!(program.video, b"vid");
        assert_eq!((program.truncated, program.video_cut), (Some(12), true));
    }

    #[test]
    fn a_stream_without_video_or_with_foreign_bytes_is_an_error() {
        let no_video = [PACK_1.to_vec(), packet(0xC0, b"\x0Fa")].concat();
        assert!(matches!(
            demultiplex(&no_video),
            Err(MediaError::Truncated { offset: 20, .. })
        ));
        let foreign = [&PACK_1[..], b"foreign"].concat();
        assert!(matches!(
            demultiplex(&foreign),
            Err(MediaError::Malformed { offset: 12, .. })
        ));
    }
}
