use bytes::Bytes;
use layercast_core::{FrameRate, Span, Time};

use crate::Frame;

/// Ticks per second of media time stamps.
pub(crate) const HZ: i64 = 90_000;
/// A jump of the stamps that is no pause of the stream.
const JUMP: i64 = 10 * HZ;

/// A media time stamp: ticks of 90 kHz on a clock that wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    ticks: u64,
    bits: u32,
}

/// A frame of a live stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimedFrame {
    /// The frame; its `time` is not known yet.
    pub frame: Frame,
    /// When it is to be decoded, if the stream says so.
    pub stamp: Option<Stamp>,
    /// When its last byte arrived, of a stream that arrives live. A picture of a transport stream is known to be
    /// complete later: when the next one begins.
    pub arrived: Option<Time>,
}

impl Stamp {
    /// A stamp of a PES packet: 33 bits.
    pub const fn pes(ticks: u64) -> Stamp {
        Stamp { ticks, bits: 33 }
    }

    /// A stamp of an RTP packet: 32 bits.
    pub const fn rtp(ticks: u32) -> Stamp {
        Stamp {
            ticks: ticks as u64,
            bits: 32,
        }
    }

    /// The stamp `ticks` ticks later.
    #[must_use]
    pub const fn plus(self, ticks: u64) -> Stamp {
        self.minus(ticks.wrapping_neg())
    }

    /// The stamp `ticks` ticks before.
    #[must_use]
    pub const fn minus(self, ticks: u64) -> Stamp {
        Stamp {
            ticks: self.ticks.wrapping_sub(ticks) & ((1 << self.bits) - 1),
            ..self
        }
    }

    /// Ticks from `earlier` to this one, negative if it is later in truth.
    pub const fn since(self, earlier: Stamp) -> i64 {
        let unused = 64 - self.bits;
        ((self.ticks.wrapping_sub(earlier.ticks) << unused) as i64) >> unused
    }
}

impl TimedFrame {
    /// The frame with its bytes.
    pub(crate) fn with_data(mut self, data: Vec<u8>) -> TimedFrame {
        self.frame.size = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.frame.data = Some(Bytes::from(data));
        self
    }
}

/// Media time from ticks.
pub(crate) fn span_of(ticks: i64) -> Span {
    let ticks = u64::try_from(ticks).unwrap_or(0);
    Span::from_ps(ticks).mul_div(1_000_000_000_000, HZ as u64)
}

/// The timeline of a stored stream: media times from the first frame on. Where the stamps jump the timeline
/// continues; a frame without a stamp is due with the one before it.
#[derive(Clone, Debug)]
pub struct MediaTimeline {
    last: Option<Stamp>,
    /// In ticks.
    now: i64,
    step: i64,
    latest: i64,
}

impl Default for MediaTimeline {
    fn default() -> MediaTimeline {
        MediaTimeline {
            last: None,
            now: 0,
            step: HZ / 25,
            latest: 0,
        }
    }
}

impl MediaTimeline {
    /// When the next frame is due, counted from the first.
    pub fn due(&mut self, stamp: Option<Stamp>) -> Span {
        if let Some(stamp) = stamp {
            let since = self.last.map_or(0, |last| stamp.since(last));
            match since {
                1..JUMP => (self.now, self.step) = (self.now + since, since.min(HZ)),
                // Frames of one picture; a stream that does not keep decoding order.
                0 => {}
                _ if since.abs() < JUMP => self.now += since,
                _ => self.now = self.latest + self.step,
            }
            self.last = Some(stamp);
        }
        self.latest = self.latest.max(self.now);
        span_of(self.latest)
    }
}

/// Stored frames with their times.
pub(crate) struct Timed {
    pub frames: Vec<Frame>,
    /// Their mean rate.
    pub rate: FrameRate,
    /// Media time that they take.
    pub length: Span,
}

/// Gives stored frames their times.
pub(crate) fn on_a_timeline(timed: Vec<TimedFrame>) -> Timed {
    let (frames, timeline) = place(timed);
    Timed::new(frames, timeline.latest + timeline.step)
}

/// The same of the frames before the last, whose time is their end: sound of that time may be among them.
pub(crate) fn before_the_last(timed: Vec<TimedFrame>) -> Timed {
    let (mut frames, timeline) = place(timed);
    frames.pop();
    Timed::new(frames, timeline.latest)
}

impl Timed {
    fn new(frames: Vec<Frame>, ticks: i64) -> Timed {
        Timed {
            rate: mean_rate(frames.len() as u64, ticks as u64),
            length: span_of(ticks),
            frames,
        }
    }
}

fn place(timed: Vec<TimedFrame>) -> (Vec<Frame>, MediaTimeline) {
    let mut timeline = MediaTimeline::default();
    let mut frames = Vec::with_capacity(timed.len());
    for TimedFrame {
        mut frame, stamp, ..
    } in timed
    {
        frame.time = Some(timeline.due(stamp));
        frames.push(frame);
    }
    (frames, timeline)
}

/// A rate of `part` out of `all` frames, to a thousandth. What is a rate of television or a whole number but for
/// rounding is that.
pub(crate) fn share_of(rate: FrameRate, part: u64, all: u64) -> FrameRate {
    const ROUNDING: u64 = 5;
    let ones = u128::from(rate.num) * 1_000 * u128::from(part);
    let per = (u128::from(rate.den) * u128::from(all)).max(1);
    let milli = u64::try_from((ones + per / 2) / per)
        .unwrap_or(u64::MAX)
        .max(1);
    let whole = (milli + 500) / 1_000;
    let television = whole * 1_000_000 / 1_001;
    let (num, den) = if milli.abs_diff(whole * 1_000) <= ROUNDING {
        (whole, 1)
    } else if milli.abs_diff(television) <= ROUNDING {
        (whole * 1_000, 1_001)
    } else {
        (milli, 1_000)
    };
    let num = u32::try_from(num).unwrap_or(u32::MAX);
    FrameRate { num, den }
}

/// Frames per second, to a thousandth.
fn mean_rate(frames: u64, ticks: u64) -> FrameRate {
    let milli = (frames * HZ as u64 * 1_000).div_ceil(ticks.max(1)).max(1);
    let milli = u32::try_from(milli).unwrap_or(u32::MAX);
    match milli.is_multiple_of(1_000) {
        true => FrameRate {
            num: milli / 1_000,
            den: 1,
        },
        false => FrameRate {
            num: milli,
            den: 1_000,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Picture;

    #[test]
    fn stamps_wrap() {
        let end = (1 << 33) - 1;
        assert_eq!(Stamp::pes(1).since(Stamp::pes(end)), 2);
        assert_eq!(Stamp::pes(end).since(Stamp::pes(1)), -2);
        assert_eq!(Stamp::rtp(5).since(Stamp::rtp(u32::MAX)), 6);
        assert_eq!(Stamp::rtp(5).minus(6), Stamp::rtp(u32::MAX));
    }

    #[test]
    fn the_timeline_goes_on_over_a_jump_and_a_wrap() {
        let end = (1 << 33) - 3_600;
        let stamps = [end, end + 3_600, 7_200, 900_000_000, 900_003_600];
        let timed = stamps.map(|ticks| TimedFrame {
            frame: Frame::sized(Picture::I, 1),
            stamp: Some(Stamp::pes(ticks & ((1 << 33) - 1))),
            arrived: None,
        });
        let Timed { frames, rate, .. } = on_a_timeline(timed.into());
        let times: Vec<u64> = frames
            .iter()
            .map(|frame| frame.time.expect("a time").as_ms())
            .collect();
        assert_eq!(times, [0, 40, 120, 200, 240]);
        assert_eq!(
            rate,
            FrameRate {
                num: 17_858,
                den: 1_000
            }
        );
    }
}
