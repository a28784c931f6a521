use std::collections::VecDeque;

use bytes::{Buf, BytesMut};
use layercast_core::{FrameRate, Media, Serial};
use memchr::memmem;

use super::resync::{Head, Times, is_followed};
use super::{FRAME_HEADER, HEADER, Header, codec_of};
use crate::Map;
use crate::bare::{BareFrames, MAX_FRAME};
use crate::live::{HZ, Stamp, TimedFrame};

/// How a file begins that has a header of the common length.
const START: &[u8] = b"DKIF\0\0\x20\0";

/// Frames of IVF that comes through a pipe.
///
/// A stream that begins again, as that of a program that was started again, continues with its new header, also where the
/// frame before it was cut. Behind a frame that has fewer octets than it says it continues at the next place from which on
/// frames follow each other. A frame in which the header of the next one is found is left out; one that lacks fewer octets
/// than a header has is not recognised before the next one comes, and goes out.
#[derive(Debug, Default)]
pub(crate) struct IvfReader {
    map: Map,
    buffer: BytesMut,
    clock: Option<FrameRate>,
    frames: Option<BareFrames>,
    seq: Serial,
    times: Times,
    /// Nothing is known of what follows, up to a header or to frames that follow each other: how much was passed over.
    lost: Option<usize>,
    /// How much there has to be for another look at it.
    wanted: usize,
    /// No more comes.
    is_over: bool,
    out: VecDeque<TimedFrame>,
    /// Places at which something is missing or no frame.
    pub broken: u64,
}

impl IvfReader {
    /// A reader that gives layers as `map` says.
    pub fn new(map: Map) -> IvfReader {
        IvfReader {
            map,
            ..IvfReader::default()
        }
    }

    /// Whether these are the first octets of a stream.
    pub fn begins(data: &[u8]) -> bool {
        data.starts_with(b"DKIF")
    }

    /// The next frame.
    pub fn poll(&mut self) -> Option<TimedFrame> {
        self.out.pop_front()
    }

    /// The codec, once it is known.
    pub fn media(&self) -> Option<Media> {
        self.frames.as_ref().map(BareFrames::codec)
    }

    /// Frames left out since they, or what they refer to, are damaged or missing.
    pub fn incomplete(&self) -> u64 {
        self.frames.as_ref().map_or(0, |it| it.incomplete)
    }

    /// Why the map does not fit what came.
    pub fn misfit(&self) -> Option<String> {
        self.frames.as_ref()?.misfit()
    }

    /// Takes the next octets.
    pub fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
        while self.step() {}
    }

    /// The stream is over: what is there goes out.
    pub fn finish(&mut self) {
        self.is_over = true;
        while self.step() {}
    }

    /// Something is missing here.
    fn lose(&mut self) {
        self.broken += 1;
        if let Some(frames) = &mut self.frames {
            frames.lose();
        }
    }

    /// Reads a header or a frame; `false` if it is not here as a whole.
    fn step(&mut self) -> bool {
        if let Some(passed) = self.lost
            && !self.find(passed)
        {
            return false;
        }
        if self.buffer.starts_with(&START[1..]) {
            // The frame before took its first octet for its own last one.
            self.buffer = START[..1].iter().chain(&self.buffer).copied().collect();
            self.lose();
        }
        if IvfReader::begins(&self.buffer) {
            // Its length is what it says, whatever the pieces.
            let whole = Header::read(&self.buffer).map(|(_, len)| len);
            if whole.is_none_or(|len| self.buffer.len() < len) {
                return false;
            }
            self.header();
            return true;
        }
        let Some(head) = Head::read(&self.buffer, 0) else {
            return false;
        };
        let Head { len, time } = head;
        if len > MAX_FRAME || self.clock.is_none() {
            self.lose();
            self.lost = Some(0);
            return true;
        }
        if !self.times.is_near(time) {
            // Another clock, or no frame: what follows shows which.
            match is_followed(&self.buffer, 0, head) {
                Some(true) => {}
                None if !self.is_over => return false,
                _ => {
                    self.lose();
                    self.lost = Some(0);
                    return true;
                }
            }
        }
        let whole = FRAME_HEADER + len;
        if self.buffer.len() < whole {
            return false;
        }
        // It may end with the beginning of a header, and so be a cut one.
        let begun = (2..START.len()).rev();
        let begun = begun
            .into_iter()
            .find(|&n| self.buffer[..whole].ends_with(&START[..n]));
        let wanted = whole + begun.map_or(0, |n| START.len() - n);
        if self.buffer.len() < wanted && !self.is_over {
            return false;
        }
        let looked_at = &self.buffer[..wanted.min(self.buffer.len())];
        if let Some(at) = memmem::find(looked_at, START) {
            self.buffer.advance(at);
            self.lose();
            return true;
        }
        if let Some(at) = self.times.within(&self.buffer[FRAME_HEADER..whole], time) {
            match is_followed(&self.buffer, 0, head) {
                None if !self.is_over => return false,
                Some(false) => {
                    self.times.push(time);
                    self.buffer.advance(FRAME_HEADER + at);
                    self.lose();
                    return true;
                }
                _ => {}
            }
        }
        let goes_back = self.times.goes_back(time);
        self.times.push(time);
        let mut taken = None;
        if let Some(frames) = self.frames.as_mut().filter(|_| len > 0) {
            if goes_back {
                // It is not the next one: only a key frame refers to nothing before it.
                frames.lose();
            }
            self.seq = self.seq.plus(1);
            taken = frames.frame(&self.buffer[FRAME_HEADER..whole], self.seq, None);
        }
        if let (Some(frame), Some(clock)) = (taken, self.clock) {
            let stamp = Some(stamp_of(time, clock));
            self.out.push_back(TimedFrame {
                frame,
                stamp,
                arrived: None,
            });
        }
        self.buffer.advance(whole);
        true
    }

    /// Looks for a header, or for frames that follow each other, after `passed` octets without.
    fn find(&mut self, passed: usize) -> bool {
        let start = memmem::find(&self.buffer, START);
        let is_due = self.buffer.len() >= self.wanted && self.clock.is_some();
        let next = is_due.then(|| self.times.next(&self.buffer));
        let found = match next {
            Some(Ok(at)) => Some(start.map_or(at, |start| start.min(at))),
            _ => start,
        };
        if let Some(at) = found {
            self.buffer.advance(at);
            (self.lost, self.wanted) = (None, 0);
            return true;
        }
        let kept_for_start = self.buffer.len().saturating_sub(START.len() - 1);
        let gone = match next {
            Some(Err(open)) => open.min(kept_for_start),
            _ if self.clock.is_none() => kept_for_start,
            _ => 0,
        };
        self.buffer.advance(gone);
        if next.is_some() {
            // A part of what is there more, so that octets are not looked at for every piece.
            self.wanted = self.buffer.len() + self.buffer.len() / 16 + 1;
        }
        let passed = passed + gone;
        if passed > MAX_FRAME {
            // Its clock may be another one by now.
            self.times = Times::default();
        }
        self.lost = Some(passed);
        false
    }

    fn header(&mut self) {
        let read = Header::read(&self.buffer);
        let codec = read.and_then(|(header, _)| codec_of(header.fourcc));
        let known = self.media();
        match (read, codec) {
            (Some((header, len)), Some(codec)) if known.is_none_or(|known| known == codec) => {
                self.clock = Some(header.clock);
                self.times = Times::default();
                // What was before it is another stream.
                match &mut self.frames {
                    Some(frames) => frames.lose(),
                    None => self.frames = Some(BareFrames::new(codec, self.map)),
                }
                self.buffer.advance(len);
            }
            _ => {
                self.lose();
                self.buffer.advance(HEADER);
                // Only a header is known to end what is of another codec.
                self.clock = None;
                self.lost = Some(0);
            }
        }
    }
}

/// A time of a clock as a stamp, which wraps as those of transport streams do.
fn stamp_of(ticks: u64, clock: FrameRate) -> Stamp {
    let hz = HZ.unsigned_abs();
    let ticks = u128::from(ticks) * u128::from(hz) * u128::from(clock.den) / u128::from(clock.num);
    Stamp::pes((ticks & ((1 << 33) - 1)) as u64)
}

#[cfg(test)]
mod tests {
    use layercast_core::Layer;
    use proptest::prelude::*;

    use super::*;

    const KEY: [u8; 10] = [0x10, 0, 0, 0x9D, 0x01, 0x2A, 176, 0, 144, 0];
    const INTER: [u8; 3] = [0x11, 0, 0];

    fn stream(times: std::ops::Range<u64>) -> Vec<u8> {
        let mut out = Vec::new();
        Header::write(*b"VP80", (176, 144), &mut out);
        for time in times.clone() {
            let frame: &[u8] = if time == times.start { &KEY } else { &INTER };
            super::super::put(frame, time * 3_600, &mut out);
        }
        out
    }

    fn read(data: &[u8], piece: usize) -> (Vec<(i64, bool)>, IvfReader) {
        let mut reader = IvfReader::new(Map::Auto);
        for piece in data.chunks(piece) {
            reader.push(piece);
        }
        reader.finish();
        let frames = std::iter::from_fn(|| reader.poll());
        let of = |it: TimedFrame| {
            assert_eq!(it.frame.layer, Layer::Base);
            (
                it.stamp.expect("a stamp").since(Stamp::pes(0)),
                it.frame.gop_start,
            )
        };
        (frames.map(of).collect(), reader)
    }

    #[test]
    fn frames_come_with_their_times_whatever_the_pieces() {
        let data = stream(0..3);
        let expected = [(0, true), (3_600, false), (7_200, false)];
        for piece in [1, 7, 32, 1_000] {
            let (frames, reader) = read(&data, piece);
            assert_eq!(frames, expected);
            assert_eq!((reader.media(), reader.broken), (Some(Media::Vp8), 0));
        }
    }

    #[test]
    fn a_stream_that_begins_again_is_read_on_at_its_key_frame() {
        let first = stream(0..3);
        for cut in 0..=16 {
            let again = [&first[..first.len() - cut], &stream(5..7), &stream(9..10)].concat();
            let whole: &[_] = match cut {
                // With another octet for its last one its header is longer than it is.
                0 => &[(0, true), (3_600, false), (7_200, false)],
                1..=15 => &[(0, true), (3_600, false)],
                _ => &[(0, true)],
            };
            let expected = [whole, &[(18_000, true), (21_600, false), (32_400, true)]].concat();
            for piece in [1, 11, 1_000] {
                let (frames, reader) = read(&again, piece);
                assert_eq!(frames, expected, "{cut}");
                assert_eq!(reader.broken, u64::from(cut % 15 != 0), "{cut}");
            }
        }
    }

    #[test]
    fn a_header_has_the_length_that_it_names() {
        let mut data = stream(0..3);
        data[6] = 40;
        data.splice(32..32, [0; 8]);
        for piece in [1, 11, 33, 1_000] {
            let (frames, reader) = read(&data, piece);
            assert_eq!((frames.len(), reader.broken), (3, 0), "{piece}");
        }
    }

    #[test]
    fn behind_a_short_frame_it_continues_with_the_frames_that_follow() {
        // Frames of 60 octets and more: a key frame, and one every ten.
        let put = |n: u64, out: &mut Vec<u8>| {
            let head: &[u8] = if n.is_multiple_of(10) { &KEY } else { &INTER };
            let mut data = head.to_vec();
            data.extend((0..50 + n).map(|k| (31 * k + n * n) as u8 | 1));
            super::super::put(&data, n * 3_600, out);
        };
        for missing in [1, 4, 11, 12, 13, 40] {
            let mut data = Vec::new();
            Header::write(*b"VP80", (176, 144), &mut data);
            for n in 0..30 {
                put(n, &mut data);
                if n == 4 {
                    data.truncate(data.len() - missing);
                }
            }
            for piece in [1, 7, 64, 10_000] {
                let (frames, reader) = read(&data, piece);
                let times: Vec<i64> = frames.iter().map(|it| it.0 / 3_600).collect();
                // What lacks less than a header is whole as far as is known.
                let before = if missing < FRAME_HEADER { 0..5 } else { 0..4 };
                let expected: Vec<i64> = before.chain(10..30).collect();
                assert_eq!((times, reader.broken), (expected, 1), "{missing} {piece}");
            }
        }
    }

    #[test]
    fn times_that_jump_are_another_clock_where_frames_follow() {
        let mut data = stream(0..3);
        for time in [1u64 << 40, (1 << 40) + 1, (1 << 40) + 2] {
            super::super::put(&INTER, time, &mut data);
        }
        for piece in [1, 7, 1_000] {
            let (frames, reader) = read(&data, piece);
            assert_eq!((frames.len(), reader.broken), (6, 0), "{piece}");
        }
    }

    #[test]
    fn a_time_that_goes_back_costs_the_frames_up_to_the_next_key_frame() {
        let mut data = stream(0..3);
        let key = &KEY[..];
        let put = |(time, frame): (u64, &[u8])| super::super::put(frame, time * 3_600, &mut data);
        [
            (4, &INTER[..]),
            (3, &INTER),
            (5, &INTER),
            (6, key),
            (0, key),
            (1, &INTER),
        ]
        .into_iter()
        .for_each(put);
        let (frames, reader) = read(&data, 1_000);
        let times: Vec<i64> = frames.iter().map(|it| it.0 / 3_600).collect();
        assert_eq!((times, reader.incomplete()), (vec![0, 1, 2, 4, 6, 0, 1], 2));
    }

    #[test]
    fn another_codec_and_no_frames_are_passed_over() {
        let mut other = Vec::new();
        Header::write(*b"VP90", (176, 144), &mut other);
        super::super::put(&KEY, 0, &mut other);
        let data = [
            &stream(0..1)[..],
            &other,
            &stream(2..3),
            &[0xFF; 40],
            &stream(4..5),
        ]
        .concat();
        let (frames, reader) = read(&data, 13);
        assert_eq!(frames, [(0, true), (7_200, true), (14_400, true)]);
        assert_eq!(reader.broken, 2);
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..20), at in 0usize..20
        ) {
            let mut reader = IvfReader::new(Map::Auto);
            for (index, piece) in pieces.iter().enumerate() {
                if index == at {
                    reader.push(&stream(0..2));
                }
                reader.push(piece);
            }
            reader.finish();
            reader.misfit();
        }
    }
}
