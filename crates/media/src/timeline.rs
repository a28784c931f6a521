use std::ops::Range;

use layercast_core::{FrameRate, Serial, Span, Time};

use crate::mpeg::headers::PictureHeader;
use crate::mpeg::startcode::{code, start_codes};
use crate::mpeg::unit::AccessUnit;
use crate::order::{DisplayOrder, Place};

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

/// Gives the pictures of an elementary stream their times: decoding as evenly spaced as the frame rate says, presentation by
/// their place in display order.
#[derive(Debug)]
pub(crate) struct Timeline {
    period: Span,
    decoding: Decoding,
    order: DisplayOrder,
    last_seq: Option<Serial>,
    /// Presentation time and temporal reference of the last MPEG picture.
    reference: Option<(u64, u16)>,
}

/// Decoding times. A source that absorbs the jitter of a live stream emits frames closer together or farther apart than they
/// were made, at the start by a quarter: presentation times derived from that would not be even, and might be the same for two
/// pictures. So frames are a period apart, and the difference is made up slowly. Where a frame comes at another
/// time altogether, as after a pause, that is followed.
#[derive(Debug)]
struct Decoding {
    period: i64,
    /// When the last frame was emitted.
    emitted: Option<Time>,
    /// Its decoding time, from that of the first frame on. This and what follows in ps.
    time: i64,
    /// How much later it was emitted than it is decoded.
    behind: i64,
    /// The flow has another frame rate than its description says.
    is_other_rate: bool,
}

/// Up to this difference it is made up by a thousandth, more than clocks drift, and beyond by a quarter.
const NEAR: i64 = 150_000_000_000;
/// Frames that are emitted earlier than they are decoded by more than this have another rate.
const FAR: i64 = 1_000_000_000_000;
const TICK: i64 = 1_000_000_000_000 / HZ as i64 + 1;

impl Decoding {
    fn new(period: Span) -> Decoding {
        Decoding {
            period: i64::try_from(period.as_ps()).unwrap_or(i64::MAX),
            emitted: None,
            time: 0,
            behind: 0,
            is_other_rate: false,
        }
    }

    /// The decoding time of a frame, `frames` after the last one; always later than that.
    fn next(&mut self, emitted: Time, frames: u64) -> Span {
        if let Some(last) = self.emitted {
            let passed = emitted.as_ps().wrapping_sub(last.as_ps()) as i64;
            let frames = i64::try_from(frames).unwrap_or(i64::MAX);
            let even = self.period.saturating_mul(frames);
            // One that far back is of a clock that has begun again.
            let passed = if passed < -FAR { even } else { passed };
            // No frame is made sooner than a period after the one before, however closely they leave.
            let is_even = !self.is_other_rate && passed <= even.saturating_add(even / 2);
            let behind = self.behind.saturating_add(passed.saturating_sub(even));
            let (step, most) = match is_even {
                true if behind.saturating_abs() <= NEAR => (even, even / 1_000),
                true => (even, even / 4),
                false => (passed, passed.saturating_abs() / 2),
            };
            let ahead = self.behind.saturating_add(passed.saturating_sub(step));
            let step = step.saturating_add(ahead.clamp(-most, most)).max(TICK);
            self.behind = self.behind.saturating_add(passed.saturating_sub(step));
            self.is_other_rate |= self.behind < -FAR;
            self.time = self.time.saturating_add(step);
        }
        self.emitted = Some(emitted);
        Span::from_ps(self.time.unsigned_abs())
    }
}

impl Timeline {
    pub fn new(rate: FrameRate) -> Timeline {
        Timeline {
            period: rate.due(1),
            decoding: Decoding::new(rate.due(1)),
            order: DisplayOrder::default(),
            last_seq: None,
            reference: None,
        }
    }

    fn ticks(span: Span) -> u64 {
        span.mul_div(HZ, 1_000_000_000_000).as_ps()
    }

    /// The picture of a frame of `len` bytes that is displayed at `place`; `None`: in decoding order.
    pub fn picture(
        &mut self,
        place: Option<Place>,
        seq: Serial,
        key: bool,
        time: Time,
        len: usize,
    ) -> OutPicture {
        let skipped = self
            .last_seq
            .map_or(0, |last| seq.diff(last).max(1) as u64 - 1);
        self.last_seq = Some(seq);
        let delay = place.map_or(0, |place| {
            self.order.delay(place, skipped, key && skipped > 0)
        });
        let decoding = self.decoding.next(time, skipped + 1);
        let shown = decoding + self.period.times(delay);
        OutPicture {
            range: 0..len,
            time,
            pts: START + Timeline::ticks(shown),
            dts: START + Timeline::ticks(decoding),
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
            let dts = START + Timeline::ticks(self.decoding.next(time, 1));
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

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 40;

    /// Decoding times, in ms, of frames that are emitted at these times.
    fn decoded(emitted: impl IntoIterator<Item = u64>) -> Vec<f64> {
        let mut decoding = Decoding::new(Span::from_ms(PERIOD));
        let at = |ms| Time::ZERO + Span::from_secs(9) + Span::from_ms(ms);
        let times = emitted.into_iter().map(|ms| decoding.next(at(ms), 1));
        times.map(|it| it.as_secs_f64() * 1e3).collect()
    }

    fn steps(times: &[f64]) -> impl Iterator<Item = f64> + '_ {
        times.windows(2).map(|it| it[1] - it[0])
    }

    #[test]
    fn frames_that_leave_closer_together_at_the_start_are_as_far_apart_as_they_were_made() {
        // Two leave together, ten are a quarter closer together, and then the source has caught up.
        let closer = (0..=10).map(|n| n * 30);
        let behind = (12..500).map(|n| n * PERIOD - 140);
        let times = decoded([0].into_iter().chain(closer).chain(behind));
        for (n, step) in steps(&times).enumerate() {
            assert!((step - 40.0).abs() <= 0.041, "{n}: {step}");
        }
    }

    #[test]
    fn a_pause_is_followed_and_no_time_comes_twice() {
        let before = (0..50).map(|n| n * PERIOD);
        let behind = (0..200).map(|n| 60_000 + n * PERIOD);
        // All that the encoder made while the path was cut comes together.
        let burst = (0..100).map(|_| 70_000);
        let times = decoded(before.chain(behind).chain(burst));
        assert!((times[50] - 60_000.0).abs() < 5.0, "{}", times[50]);
        assert!(steps(&times).all(|it| it > 0.01));
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        let mut decoding = Decoding::new(Span::from_ms(PERIOD));
        let mut last = Span::ZERO;
        for n in 1..100_000_u64 {
            // 200 parts in a million fast.
            let emitted = Time::ZERO + Span::from_us(n * 39_992);
            let time = decoding.next(emitted, 1);
            assert!(n == 1 || (time - last).as_us() >= 39_950, "{n}");
            last = time;
        }
        assert!(decoding.behind.abs() < 1_000_000_000, "{}", decoding.behind);
    }

    #[test]
    fn another_frame_rate_than_announced_does_not_run_away() {
        // More pictures a second than the 25 that are announced, and fewer.
        for rate in [12, 24, 26, 30, 60] {
            let times = decoded((0..3_000).map(|n| n * 1_000 / rate));
            let (last, wanted) = (times[2_999], 2_999_000.0 / rate as f64);
            assert!((last - wanted).abs() < 250.0, "{rate}: {last}");
            assert!(steps(&times).all(|it| it > 7.0), "{rate}");
        }
    }
}
