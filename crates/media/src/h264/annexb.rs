use memchr::memmem;

use crate::Frame;

/// The NAL units of an Annex B byte stream without their start codes and the zeros around them; where
/// each begins in `data`, its start code excluded.
pub(crate) fn nals(data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> + '_ {
    let mut starts = memmem::find_iter(data, b"\x00\x00\x01").peekable();
    std::iter::from_fn(move || {
        loop {
            let start = starts.next()? + 3;
            let end = starts.peek().copied().unwrap_or(data.len());
            let nal = trimmed(&data[start..end]);
            if !nal.is_empty() {
                return Some((start, nal));
            }
        }
    })
}

/// The frames of a byte stream, from the first one on that a receiver can start at. `take` gives the frame that a NAL unit ends, and
/// at the end, without one, the last frame.
pub(crate) fn frames(data: &[u8], take: impl FnMut(Option<&[u8]>) -> Option<Frame>) -> Vec<Frame> {
    let units = nals(data).map(|(_, nal)| Some(nal)).chain([None]);
    let frames = units.filter_map(take);
    frames.skip_while(|frame| !frame.gop_start).collect()
}

/// A NAL unit never ends in a zero byte (7.4.1): trailing zeros belong to the byte stream.
fn trimmed(nal: &[u8]) -> &[u8] {
    let zeros = nal.iter().rev().take_while(|&&byte| byte == 0).count();
    &nal[..nal.len() - zeros]
}

/// Appends a NAL unit behind a start code, a `long` one where Annex B asks for it: before parameter
/// sets and the first NAL unit of an access unit.
pub(crate) fn put(nal: &[u8], long: bool, out: &mut Vec<u8>) {
    if long {
        out.push(0);
    }
    out.extend_from_slice(&[0, 0, 1]);
    out.extend_from_slice(nal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nal_units_are_found_between_start_codes() {
        let data = [
            9, 0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 2, 0, 0, 0, 0, 1, 0, 0, 1, 0x65,
        ];
        let found: Vec<_> = nals(&data).collect();
        let expected: [(usize, &[u8]); 3] = [(5, &[0x67, 1]), (10, &[0x68, 2]), (20, &[0x65])];
        assert_eq!(found, expected);
        let mut out = Vec::new();
        put(&[0x67, 1], true, &mut out);
        put(&[0x65], false, &mut out);
        assert_eq!(out, [0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x65]);
    }
}
