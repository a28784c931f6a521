//! What MP4 and QuickTime files say of their pictures that no transport stream carries (ISO/IEC 14496-12, 8.3.2).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Most boxes that are looked at, and octets of a track header that are read.
const BOXES: usize = 4_096;
const HEADER: u64 = 96;

/// A box: what it is, and where its contents begin and end.
struct Part {
    kind: [u8; 4],
    from: u64,
    to: u64,
}

/// By how many degrees clockwise the pictures of a file are turned when they are shown: those of a phone that was held upright are.
/// `None`: they are not, or the file is none of this form.
pub fn turned(path: &Path) -> Option<u16> {
    let mut file = File::open(path).ok()?;
    let end = file.seek(SeekFrom::End(0)).ok()?;
    let first = parts(&mut file, 0, end).ok()?;
    if first.first()?.kind != *b"ftyp" {
        return None;
    }
    let movie = first.iter().find(|it| it.kind == *b"moov")?;
    let tracks = parts(&mut file, movie.from, movie.to).ok()?;
    let tracks = tracks.iter().filter(|it| it.kind == *b"trak");
    let mut headers = tracks.filter_map(|track| {
        let inner = parts(&mut file, track.from, track.to).ok()?;
        let header = inner.iter().find(|it| it.kind == *b"tkhd")?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(header.from)).ok()?;
        let most = HEADER.min(header.to.saturating_sub(header.from));
        (&mut file).take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    });
    // That of the first track with a size.
    headers.find_map(|bytes| angle(&bytes))?
}

/// The boxes between two offsets.
fn parts(file: &mut File, from: u64, to: u64) -> io::Result<Vec<Part>> {
    let (mut at, mut found) = (from, Vec::new());
    while at + 8 <= to && found.len() < BOXES {
        file.seek(SeekFrom::Start(at))?;
        let mut head = [0; 16];
        file.read_exact(&mut head[..8])?;
        let (size, kind) = head[..8].split_at(4);
        let kind = [kind[0], kind[1], kind[2], kind[3]];
        let short = u32::from_be_bytes([size[0], size[1], size[2], size[3]]);
        let (len, head) = match short {
            0 => (to - at, 8),
            1 => {
                file.read_exact(&mut head[8..])?;
                let long = head[8..]
                    .iter()
                    .fold(0, |n, &byte| n << 8 | u64::from(byte));
                (long, 16)
            }
            short => (u64::from(short), 8),
        };
        if len < head || len > to - at {
            break;
        }
        found.push(Part {
            kind,
            from: at + head,
            to: at + len,
        });
        at += len;
    }
    Ok(found)
}

/// The angle in the matrix of a track header, of one with a size; `Some(None)`: its pictures are upright.
fn angle(header: &[u8]) -> Option<Option<u16>> {
    let times = match header.first()? {
        0 => 20,
        _ => 32,
    };
    let word = |index: usize| {
        let bytes = header.get(4 + times + 16 + 4 * index..)?.first_chunk()?;
        Some(i32::from_be_bytes(*bytes))
    };
    let (a, b, width) = (word(0)?, word(1)?, word(9)?);
    if width == 0 {
        return None;
    }
    Some(match (a.signum(), b.signum()) {
        (0, 1) => Some(90),
        (-1, 0) => Some(180),
        (0, -1) => Some(270),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(kind: &[u8; 4], contents: &[u8]) -> Vec<u8> {
        let len = u32::try_from(contents.len() + 8).unwrap();
        [&len.to_be_bytes()[..], kind, contents].concat()
    }

    fn track(version: u8, matrix: (i32, i32), width: u32) -> Vec<u8> {
        let times = if version == 0 { 20 } else { 32 };
        let mut header = vec![version, 0, 0, 7];
        header.resize(4 + times + 16, 0);
        for word in [matrix.0, matrix.1, 0, -matrix.1, matrix.0, 0, 0, 0, 1 << 30] {
            header.extend_from_slice(&word.to_be_bytes());
        }
        header.extend_from_slice(&(width << 16).to_be_bytes());
        header.extend_from_slice(&(width << 16).to_be_bytes());
        boxed(b"trak", &boxed(b"tkhd", &header))
    }

    #[test]
    fn pictures_are_turned_as_the_header_of_their_track_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mp4");
        let one = 1 << 16;
        let sound = track(0, (one, 0), 0);
        for version in [0, 1] {
            for (matrix, angle) in [
                ((one, 0), None),
                ((0, one), Some(90)),
                ((-one, 0), Some(180)),
                ((0, -one), Some(270)),
            ] {
                let tracks = [&sound[..], &track(version, matrix, 320)].concat();
                let movie = boxed(b"moov", &tracks);
                let media = boxed(b"mdat", &[7; 3_000]);
                for parts in [[&movie, &media], [&media, &movie]] {
                    let parts = [&parts[0][..], parts[1]].concat();
                    let file = [boxed(b"ftyp", b"isom"), parts].concat();
                    std::fs::write(&path, &file).unwrap();
                    assert_eq!(turned(&path), angle, "{version} {matrix:?}");
                    // Cut anywhere, it is no reason to fail.
                    for cut in (0..file.len()).step_by(61) {
                        std::fs::write(&path, &file[..cut]).unwrap();
                        assert!(turned(&path).is_none_or(|it| Some(it) == angle));
                    }
                }
            }
        }
        assert_eq!(turned(Path::new("/dev/null")), None);
    }
}
