use layercast_core::Span;

use super::Stamp;
use super::stamp::span_of;

/// Key frames further apart than this make receivers wait for too long: to start, to change their level, and to
/// recover from a loss.
pub const LONG_GOP: Span = Span::from_secs(4);
/// Without a key frame for this time, the user is notified before the next one comes; then after twice the time.
const MISSING: Span = Span::from_secs(10);
/// No GOP is longer: the stamps jumped.
const LONGEST: Span = Span::from_secs(3_600);

/// Looks for key frames that are far apart in a live stream.
#[derive(Clone, Copy, Default, Debug)]
pub struct GopWatch {
    /// The first frame, or the last key frame.
    start: Option<Stamp>,
    /// That is a key frame.
    is_key: bool,
    /// The length reported last.
    told: Span,
    /// When the lack of a key frame is reported.
    missing: Span,
}

/// Key frames are far apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LongGop {
    /// Media time from one to the next, or since the last one if the next did not come yet.
    pub gop: Span,
    /// Whether the next one came.
    pub ended: bool,
}

impl GopWatch {
    /// A watch for a stream whose user knows that its GOPs are `gop` long.
    pub fn known(gop: Span) -> GopWatch {
        GopWatch {
            told: gop,
            ..GopWatch::default()
        }
    }

    /// Takes a frame; reports a long GOP once for each length.
    pub fn frame(&mut self, stamp: Option<Stamp>, is_key: bool) -> Option<LongGop> {
        let stamp = stamp?;
        let Some(start) = self.start else {
            self.begin(stamp, is_key);
            return None;
        };
        let passed = stamp.since(start);
        let gop = span_of(passed);
        if passed < 0 || gop > LONGEST {
            self.begin(stamp, is_key);
            return None;
        }
        if is_key {
            let whole = self.is_key;
            self.begin(stamp, true);
            let report = whole && gop > LONG_GOP && self.is_news(gop);
            return report.then(|| self.tell(gop, true));
        }
        if gop < self.missing {
            return None;
        }
        self.missing = self.missing.times(2);
        self.is_news(gop).then(|| self.tell(gop, false))
    }

    /// The stamps jumped: the distance to the key frame before is not known.
    pub fn begin_again(&mut self) {
        self.start = None;
    }

    fn begin(&mut self, stamp: Stamp, is_key: bool) {
        (self.start, self.is_key, self.missing) = (Some(stamp), is_key, MISSING);
    }

    /// Whether a length differs by more than a quarter from what was reported.
    fn is_news(&self, gop: Span) -> bool {
        gop.times(4) > self.told.times(5) || gop.times(5) < self.told.times(4)
    }

    fn tell(&mut self, gop: Span, ended: bool) -> LongGop {
        self.told = gop;
        LongGop { gop, ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key frames at these seconds, and frames each 40 ms up to `end` seconds; when what is reported.
    fn reports(watch: &mut GopWatch, keys: &[u64], end: u64) -> Vec<(u64, u64, bool)> {
        (0..end * 25)
            .filter_map(|frame| {
                let is_key = keys.iter().any(|key| key * 25 == frame);
                let report = watch.frame(Some(Stamp::pes(frame * 3_600)), is_key)?;
                Some((frame / 25, report.gop.as_ms(), report.ended))
            })
            .collect()
    }

    #[test]
    fn a_long_gop_is_reported_once_for_each_length() {
        let keys = [0, 8, 16, 24, 26, 28, 33, 62];
        let mut watch = GopWatch::default();
        let expected = [
            (8, 8_000, true),
            // 5 s are more than a quarter less, and 10 s are longer again.
            (33, 5_000, true),
            (43, 10_000, false),
            (53, 20_000, false),
            (62, 29_000, true),
        ];
        assert_eq!(reports(&mut watch, &keys, 63), expected);
    }

    #[test]
    fn what_is_known_is_not_reported_and_the_time_before_the_first_key_frame_is_no_gop() {
        let mut watch = GopWatch::known(Span::from_secs(8));
        assert_eq!(reports(&mut watch, &[7, 15, 23], 25), []);
        let mut watch = GopWatch::default();
        assert_eq!(reports(&mut watch, &[9, 10, 11], 12), []);
        let never = reports(&mut GopWatch::default(), &[], 45);
        assert_eq!(
            never,
            [
                (10, 10_000, false),
                (20, 20_000, false),
                (40, 40_000, false)
            ]
        );
    }

    #[test]
    fn a_jump_of_the_stamps_is_no_gop() {
        let mut watch = GopWatch::default();
        assert_eq!(watch.frame(Some(Stamp::pes(0)), true), None);
        watch.begin_again();
        let after = Some(Stamp::pes(28 * 90_000));
        assert_eq!(watch.frame(after, false), None);
        assert_eq!(watch.frame(Some(Stamp::pes(29 * 90_000)), true), None);
    }
}
