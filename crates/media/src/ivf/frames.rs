use super::resync::Head;
use super::{FRAME_HEADER, MAGIC};
use crate::MediaError;
use crate::bare::MAX_FRAME;

/// Frames behind one another that show where frames are.
const CHAIN: usize = 3;
/// Times of two frames of one stream are not further apart, in ticks.
pub(super) const MAX_STEP: u64 = 1 << 31;

/// The frames of a file with their times in its ticks, and where the last one begins if it is cut. A frame that is cut within the file
/// has no octets.
#[derive(Debug, Default)]
pub(super) struct Frames<'a> {
    pub frames: Vec<(u64, &'a [u8])>,
    pub cut: Option<u64>,
}

/// A frame, and where the next one begins.
#[derive(Clone, Copy)]
struct Found<'a> {
    time: u64,
    data: &'a [u8],
    end: usize,
}

impl<'a> Frames<'a> {
    fn keep(&mut self, frame: Found<'a>) {
        if !frame.data.is_empty() {
            self.frames.push((frame.time, frame.data));
        }
    }

    fn keep_cut(&mut self, frame: Found<'a>) {
        self.frames.push((frame.time, &[]));
    }
}

/// Reads the frames that begin `at`. A frame that has fewer octets than it says takes those of the next ones for its own; behind it the
/// next place is searched from which on frames follow each other.
pub(super) fn frames(data: &[u8], mut at: usize) -> Result<Frames<'_>, MediaError> {
    let mut frames = Frames::default();
    // The last frame, and where it begins: it is whole if another one follows.
    let mut last: Option<(usize, Found)> = None;
    while at < data.len() {
        let before = last.map(|(_, it)| it.time);
        if let Some(found) = frame(data, at, before) {
            if let Some((_, whole)) = last.replace((at, found)) {
                frames.keep(whole);
            }
            at = found.end;
            continue;
        }
        if data[at..].starts_with(MAGIC) || is_too_long(&data[at..]) && last.is_none() {
            return Err(MediaError::Malformed {
                offset: at as u64,
                expected: "an IVF frame of less than 16 MiB",
            });
        }
        let from = last.map_or(at, |(start, _)| start);
        match (from + 1..data.len()).find(|&at| is_chain(data, at, before)) {
            Some(next) => {
                if let Some((_, cut)) = last.take() {
                    frames.keep_cut(cut);
                }
                at = next;
            }
            None => {
                frames.cut = Some(at as u64);
                break;
            }
        }
    }
    if let Some((_, whole)) = last {
        frames.keep(whole);
    }
    Ok(frames)
}

/// The frame that begins `at`, behind one with the time `before`; `None` if it does not fit there.
fn frame(data: &[u8], at: usize, before: Option<u64>) -> Option<Found<'_>> {
    let Head { len, time } = Head::read(data, at)?;
    let is_near = before.is_none_or(|before| time.abs_diff(before) < MAX_STEP);
    let body = at + FRAME_HEADER;
    // Added up only where it is no more than a frame has.
    let end = body + Some(len).filter(|&it| it <= MAX_FRAME && is_near)?;
    Some(Found {
        time,
        data: data.get(body..end)?,
        end,
    })
}

/// Whether the octets begin with the header of a frame that is longer than any.
fn is_too_long(data: &[u8]) -> bool {
    let len = data.first_chunk().map(|len| u32::from_le_bytes(*len));
    len.is_some_and(|len| len as usize > MAX_FRAME)
}

/// Whether frames that follow each other begin `at`: several ones, or all up to the end.
fn is_chain(data: &[u8], mut at: usize, mut before: Option<u64>) -> bool {
    for _ in 0..CHAIN {
        let found = frame(data, at, before).filter(|it| !it.data.is_empty());
        let Some(found) = found.filter(|it| before.is_none_or(|before| it.time > before)) else {
            return false;
        };
        (at, before) = (found.end, Some(found.time));
        if at == data.len() {
            return true;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames with their times, that grow, as a file has them.
    fn file(count: u64) -> Vec<Vec<u8>> {
        let octets = |n: u64| (0..200 + 7 * n).map(move |k| (31 * k + n * n) as u8 | 1);
        let one = |n: u64| {
            let mut out = Vec::new();
            super::super::put(&octets(n).collect::<Vec<u8>>(), n, &mut out);
            out
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn frames_behind_one_that_is_cut_are_found() {
        let all = file(20);
        let body = |n: usize| &all[n][FRAME_HEADER..];
        for missing in [1, 4, 8, 11, 12, 13, 100, 200] {
            let mut cut = all.clone();
            let len = cut[7].len();
            cut[7].truncate(len - missing);
            let data = cut.concat();
            let found = frames(&data, 0).expect("frames");
            assert_eq!((found.frames.len(), found.cut), (20, None), "{missing}");
            for (n, &(time, data)) in found.frames.iter().enumerate() {
                let expected = if n == 7 { &[] } else { body(n) };
                assert_eq!((time, data), (n as u64, expected), "{missing}");
            }
        }
    }

    #[test]
    fn a_file_that_ends_within_a_frame_is_read_up_to_there() {
        let data = file(5).concat();
        let last = data.len() - file(5)[4].len();
        for len in [last + 1, last + 12, last + 100, data.len() - 1] {
            let found = frames(&data[..len], 0).expect("frames");
            assert_eq!((found.frames.len(), found.cut), (4, Some(last as u64)));
        }
        assert_eq!(frames(&data, 0).expect("frames").frames.len(), 5);
    }

    #[test]
    fn octets_between_frames_cost_the_frame_before_them() {
        let mut all = file(12);
        all.insert(5, vec![0xEE; 50]);
        let data = all.concat();
        let found = frames(&data, 0).expect("frames");
        let sizes: Vec<usize> = found.frames.iter().map(|it| it.1.len()).collect();
        let expected = (0..12).map(|n| if n == 4 { 0 } else { 200 + 7 * n });
        assert_eq!(sizes, expected.collect::<Vec<_>>());
    }
}
