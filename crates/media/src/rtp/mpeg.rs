use crate::Picture;
use crate::mpeg::headers::{PICTURE_CODING_EXTENSION, PictureHeader, extension_id};
use crate::mpeg::startcode::{code, start_codes};

/// The MPEG video header in front of each payload (RFC 2250, 3.4).
const HEADER: usize = 4;
/// Largest picture put together: what a METS frame holds, with room for a sequence header.
pub(crate) const MAX_PICTURE: usize = (1 << 24) - 1_024;

/// Pictures from RTP payloads of MPEG-1/2 video (RFC 2250, 3).
#[derive(Default, Debug)]
pub(crate) struct Depacketiser {
    picture: Vec<u8>,
    damaged: bool,
    pub malformed: u64,
}

impl Depacketiser {
    /// Packets are missing before the next one.
    pub fn lose(&mut self) {
        self.damaged = true;
    }

    /// Takes a payload.
    pub fn push(&mut self, payload: &[u8]) {
        let extended = payload.first().is_some_and(|byte| byte & 0x04 != 0);
        let header = if extended { 2 * HEADER } else { HEADER };
        match payload.get(header..) {
            Some(data) if self.picture.len() + data.len() <= MAX_PICTURE => {
                self.picture.extend_from_slice(data);
            }
            _ => {
                self.malformed += 1;
                self.damaged = true;
            }
        }
    }

    /// The picture is over: gives it if it is whole, and whether there was one that is not.
    pub fn end_picture(&mut self) -> (Option<Vec<u8>>, bool) {
        let picture = std::mem::take(&mut self.picture);
        let damaged = std::mem::take(&mut self.damaged);
        match picture.is_empty() {
            true => (None, false),
            false if damaged => (None, true),
            false => (Some(picture), false),
        }
    }
}

/// What the headers say that go into every MPEG video header.
#[derive(Clone, Copy, Default)]
struct Fields {
    reference: u16,
    kind: u8,
    vectors: u8,
    sequence: bool,
}

/// Cuts a picture into payloads of at most `most` bytes, whole slices where they fit. `send` also gets
/// whether it is the last.
pub(crate) fn packetise(picture: &[u8], most: usize, mut send: impl FnMut(&[u8], bool)) {
    let room = most - HEADER;
    let mut fields = Fields::default();
    // Where something begins that may begin a packet: the headers, then each slice.
    let mut starts = vec![0];
    for (at, code) in start_codes(picture) {
        let header = &picture[at..];
        match code {
            code::SEQUENCE => fields.sequence = true,
            code::PICTURE => fields.read(header),
            code::EXTENSION if extension_id(header) == Some(PICTURE_CODING_EXTENSION) => {
                // Vector ranges are in the extension (RFC 2250, section 3.4: zero in MPEG-2).
                fields.vectors = 0;
            }
            code::SLICE_FIRST..=code::SLICE_LAST => starts.push(at),
            _ => {}
        }
    }
    // Headers go with the first slice.
    if starts.len() > 1 {
        starts.remove(1);
    }
    starts.push(picture.len());
    let mut at = 0;
    let mut payload = Vec::with_capacity(most);
    while at < picture.len() {
        let limit = at + room;
        let next = starts.partition_point(|&start| start <= limit);
        let whole = starts[next - 1];
        let end = if whole > at {
            whole
        } else {
            limit.min(picture.len())
        };
        let begins = starts.binary_search(&at).is_ok();
        let ends = starts.binary_search(&end).is_ok();
        payload.clear();
        payload.extend_from_slice(&fields.header(begins, ends));
        payload.extend_from_slice(&picture[at..end]);
        // Only the first packet carries the sequence header.
        fields.sequence = false;
        at = end;
        send(&payload, at == picture.len());
    }
}

impl Fields {
    fn read(&mut self, header: &[u8]) {
        let Ok(picture) = PictureHeader::parse(header) else {
            return;
        };
        self.reference = picture.temporal_reference;
        self.kind = match picture.kind {
            Picture::I | Picture::Data => 1,
            Picture::P => 2,
            Picture::B => 3,
        };
        // full_pel and f_code, forward then backward, behind type and vbv_delay.
        let bit = |n: usize| header.get(n / 8).map_or(0, |byte| byte >> (7 - n % 8) & 1);
        let bits = |from: usize| (0..4).fold(0, |n, i| n << 1 | bit(from + i));
        let (forward, backward) = (bits(61), bits(65));
        self.vectors = match picture.kind {
            Picture::P => forward,
            Picture::B => backward << 4 | forward,
            _ => 0,
        };
    }

    fn header(&self, begins: bool, ends: bool) -> [u8; HEADER] {
        let [high, low] = self.reference.to_be_bytes();
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.sequence, 0x20) | flag(begins, 0x10) | flag(ends, 0x08);
        [high & 3, low, flags | self.kind & 7, self.vectors]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_cut_comes_together_again(
            slices in prop::collection::vec(1usize..2_000, 1..20)
        ) {
            let mut picture = vec![0, 0, 1, 0, 0x12, 0x57, 0xff, 0xf9, 0x80];
            for (n, len) in slices.iter().enumerate() {
                picture.extend_from_slice(&[0, 0, 1, n as u8 + 1]);
                picture.extend(vec![0xAA; *len]);
            }
            let mut received = Depacketiser::default();
            let mut lasts = 0;
            packetise(&picture, 700, |payload, last| {
                assert!(payload.len() <= 700 && lasts == 0);
                assert_eq!((payload[0], payload[1], payload[2] & 7), (0, 0x49, 2));
                lasts += usize::from(last);
                received.push(payload);
            });
            prop_assert_eq!(lasts, 1);
            prop_assert_eq!(received.end_picture(), (Some(picture), false));
            prop_assert_eq!(received.end_picture(), (None, false));
        }
    }
}
