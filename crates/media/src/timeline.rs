use std::ops::Range;

use layercast_core::{FrameRate, Serial, Span, Time};

use crate::h264::{DisplayOrder, Slice};
use crate::mpeg::headers::PictureHeader;
use crate::mpeg::startcode::{code, start_codes};
use crate::mpeg::unit::AccessUnit;

/// Decoding time of the first picture, in ticks of 90 kHz: so that nothing is before zero.
const START: u64 = 90_000;
const HZ: u64 = 90_000;

/// A picture of an output stream, with its times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OutPicture {
    /// Its bytes in what was written.
    pub range: Range<usize>,
    /// When it was emitted.
    pub time: Time,
    /// Presentation and decoding time in ticks of 90 kHz.
    pub pts: u64,
    pub dts: u64,
    /// A decoder can start here.
    pub key: bool,
}

/// Gives the pictures of an elementary stream their times: decoding at the emission time of their
/// frame, presentation by their place in display order.
#[derive(Debug)]
pub(crate) struct Timeline {
    period: Span,
    first: Option<Time>,
    last_dts: u64,
    order: DisplayOrder,
    last_seq: Option<Serial>,
    /// Presentation time and temporal reference of the last MPEG picture.
    reference: Option<(u64, u16)>,
}

impl Timeline {
    pub fn new(rate: FrameRate) -> Timeline {
        Timeline {
            period: rate.due(1),
            first: None,
            last_dts: START - 1,
            order: DisplayOrder::default(),
            last_seq: None,
            reference: None,
        }
    }

    fn ticks(span: Span) -> u64 {
        span.mul_div(HZ, 1_000_000_000_000).as_ps()
    }

    fn decoding(&mut self, time: Time) -> u64 {
        let first = *self.first.get_or_insert(time);
        let dts = START + Timeline::ticks(time.since(first));
        // Times of repeats may be before the first frame, or a clock may have stepped back.
        self.last_dts = dts.max(self.last_dts + 1);
        self.last_dts
    }

    /// The picture of an H.264 frame.
    pub fn h264(
        &mut self,
        slice: &Slice,
        seq: Serial,
        key: bool,
        time: Time,
        len: usize,
    ) -> OutPicture {
        let skipped = self
            .last_seq
            .map_or(0, |last| seq.diff(last).max(1) as u64 - 1);
        self.last_seq = Some(seq);
        let delay = self.order.delay(slice, skipped, key && skipped > 0);
        let dts = self.decoding(time);
        OutPicture {
            range: 0..len,
            time,
            pts: dts + Timeline::ticks(self.period.times(delay)),
            dts,
            key,
        }
    }

    /// The pictures that an MPEG writer wrote for a frame: repeats, then the frame's own.
    pub fn mpeg(&mut self, written: &[u8], time: Time, pictures: &mut Vec<OutPicture>) {
        let units = units(written);
        let count = units.len();
        for (index, range) in units.into_iter().enumerate() {
            let before = self.period.times((count - 1 - index) as u64);
            let time = time.saturating_sub(before);
            let dts = self.decoding(time);
            let unit = AccessUnit::scan(&written[range.clone()]);
            let reference = unit.map(|unit| unit.picture.temporal_reference);
            let period = Timeline::ticks(self.period);
            let restart = unit.is_some_and(|unit| unit.gop.is_some());
            let pts = match (reference, self.reference) {
                (Some(reference), None) => dts + (u64::from(reference) + 1) * period,
                (Some(reference), _) if restart => dts + (u64::from(reference) + 1) * period,
                (Some(reference), Some((pts, last))) => {
                    let ahead = i64::from(reference.wrapping_sub(last) & 1_023);
                    let ahead = if ahead < 512 { ahead } else { ahead - 1_024 };
                    pts.saturating_add_signed(ahead * period as i64)
                }
                (None, _) => dts,
            };
            // More than a GOP apart they do not belong together any more.
            let pts = match pts.checked_sub(dts) {
                Some(delay) if delay <= 64 * period => pts,
                _ => dts + period,
            };
            self.reference = reference.map(|reference| (pts, reference));
            pictures.push(OutPicture {
                range,
                time,
                pts,
                dts,
                key: unit.is_some_and(|unit| unit.sequence.is_some()),
            });
        }
    }
}

/// Where the pictures of a video elementary stream are, each with the headers before it and both
/// fields of a frame together.
fn units(data: &[u8]) -> Vec<Range<usize>> {
    let mut units: Vec<Range<usize>> = Vec::new();
    let (mut start, mut has_slice, mut reference) = (0, false, None);
    for (at, code) in start_codes(data) {
        let header = match code {
            code::SEQUENCE | code::GOP => None,
            code::PICTURE => {
                let picture = PictureHeader::parse(&data[at..]).ok();
                picture.map(|picture| picture.temporal_reference)
            }
            code::SLICE_FIRST..=code::SLICE_LAST => {
                has_slice = true;
                continue;
            }
            _ => continue,
        };
        let second_field = code == code::PICTURE && header.is_some() && header == reference;
        if has_slice && !second_field {
            units.push(start..at);
            (start, has_slice) = (at, false);
        }
        if code == code::PICTURE {
            reference = header;
        }
    }
    if has_slice {
        units.push(start..data.len());
    }
    units
}
