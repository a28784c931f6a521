use layercast_core::FrameRate;

use super::pcr::difference;
use crate::live::Stamp;

/// Ticks of a picture where nothing tells: 25 pictures a second.
const DEFAULT_PERIOD: u64 = 3_600;
/// Longest and shortest time of a picture that is believed, in ticks of 90 kHz.
const PERIODS: std::ops::RangeInclusive<u64> = 90_000 / 300..=90_000 * 2;
/// 33 bits of a time stamp.
const MASK: u64 = (1 << 33) - 1;

/// The time stamps that a picture brings (2.4.3.7), in ticks of 90 kHz.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Given {
    pub pts: Option<u64>,
    /// `None` if it is the same as `pts`, or the stream leaves it out.
    pub dts: Option<u64>,
    /// The program clock with the picture, in ticks of 27 MHz.
    pub pcr: Option<u64>,
}

/// Gives each picture the time at which it is to be decoded.
///
/// A decoding time stamp is taken as it is, and so is a presentation time stamp alone, which says that both are
/// the same. Streams that omit the decoding time although pictures are reordered are recognised by stamps that
/// decrease: of them the stamps of key frames count. Between stamps the time is interpolated by the picture
/// rate that earlier stamps show, else by the one that the stream names. A stream without any stamp follows its
/// program clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamps {
    /// The decoding times of the last picture and of the one before it.
    last: Option<u64>,
    before: Option<u64>,
    /// The last stamp that was taken from the stream, and the pictures since.
    given: Option<(u64, u64)>,
    /// Ticks of a picture, as the stamps show.
    period: Option<u64>,
    /// Presentation time stamps alone are no decoding times here.
    reordered: bool,
    /// The stream brought a stamp.
    stamped: bool,
}

impl Stamps {
    /// The decoding time of the next picture; `rate` is what the stream says of itself.
    pub fn next(&mut self, given: Given, key: bool, rate: Option<FrameRate>) -> Option<Stamp> {
        self.stamped |= given.pts.is_some();
        let named = rate
            .map(|rate| 90_000 * u64::from(rate.den) / u64::from(rate.num.max(1)))
            .filter(|period| PERIODS.contains(period));
        let was_reordered = self.reordered;
        let taken = match (given.pts, given.dts) {
            (_, Some(dts)) => Some(dts),
            (Some(pts), None) => self.alone(pts, key),
            (None, None) if !self.stamped => given.pcr.map(|pcr| pcr / 300),
            (None, None) => None,
        };
        // What the stamps show is how it is.
        let period = self.period.or(named).unwrap_or(DEFAULT_PERIOD);
        if self.reordered && !was_reordered {
            // The picture before this one was not to be decoded when it is shown.
            let before = self.before.map(|before| (before + period) & MASK);
            self.last = before.or(self.last);
        }
        let now = match (taken, self.last) {
            (Some(taken), _) => taken,
            (None, Some(last)) => (last + period) & MASK,
            (None, None) => return None,
        };
        match (taken, &mut self.given) {
            (Some(taken), slot) => {
                if let Some((before, pictures)) = *slot {
                    self.period = Some(ahead(taken, before) / (pictures + 1))
                        .filter(|period| PERIODS.contains(period))
                        .or(self.period);
                }
                *slot = Some((taken, 0));
            }
            (None, Some((_, pictures))) => *pictures += 1,
            (None, None) => {}
        }
        (self.before, self.last) = (self.last, Some(now));
        Some(Stamp::pes(now))
    }

    /// Pictures per second, as the stamps show.
    pub fn rate(&self) -> Option<FrameRate> {
        let den = u32::try_from(self.period?).ok()?;
        Some(FrameRate { num: 90_000, den })
    }

    /// A presentation time stamp without a decoding time stamp, if it is both.
    fn alone(&mut self, pts: u64, key: bool) -> Option<u64> {
        let back = self
            .given
            .is_some_and(|(before, _)| difference(pts * 300, before * 300) < 0);
        // A jump is no reordering: no picture waits for a second.
        let near = self
            .given
            .is_some_and(|(before, _)| ahead(before, pts) < 90_000);
        if back && near && !key && !self.reordered {
            self.reordered = true;
            (self.given, self.period) = (None, None);
        }
        (key || !self.reordered).then_some(pts)
    }
}

/// Ticks from `earlier` to `later` on a clock of 33 bits.
fn ahead(later: u64, earlier: u64) -> u64 {
    later.wrapping_sub(earlier) & MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAL: Option<FrameRate> = Some(FrameRate { num: 25, den: 1 });

    /// Ticks from one picture to the next; GOPs of 12 with two B pictures between P pictures.
    fn steps(rate: Option<FrameRate>, given: impl Fn(u64, u64) -> Given) -> Vec<i64> {
        let mut stamps = Stamps::default();
        let times: Vec<Option<Stamp>> = (0..48u64)
            .map(|n| {
                let shown = match n % 3 {
                    0 if n % 12 == 0 => n,
                    1 if n % 12 < 10 => n + 2,
                    0 | 2 => n - 1,
                    _ => n,
                };
                stamps.next(given(n, shown), n % 12 == 0, rate)
            })
            .collect();
        let times: Vec<Stamp> = times.into_iter().flatten().collect();
        times
            .windows(2)
            .map(|pair| pair[1].since(pair[0]))
            .collect()
    }

    #[test]
    fn stamps_that_are_missing_are_interpolated() {
        let base = (1u64 << 33) - 5 * 3_600;
        let at = |n: u64| (base + n * 3_600) & MASK;
        for rate in [PAL, None] {
            let all = steps(rate, |n, shown| Given {
                pts: Some(at(shown + 2)),
                dts: Some(at(n)),
                pcr: None,
            });
            assert_eq!(all, [3_600; 47]);
            let keys = steps(rate, |n, shown| Given {
                pts: (n % 12 == 0).then(|| at(shown + 2)),
                dts: (n % 12 == 0).then(|| at(n)),
                pcr: None,
            });
            assert_eq!(keys, [3_600; 47]);
            let none = steps(rate, |n, _| Given {
                pcr: Some(at(n) * 300),
                ..Given::default()
            });
            assert_eq!(none, [3_600; 47]);
        }
        let alone = steps(PAL, |_, shown| Given {
            pts: Some(at(shown + 2)),
            ..Given::default()
        });
        // Reordering shows with the first B picture.
        assert_eq!(alone[12..], [3_600; 35]);
        assert!(alone.iter().sum::<i64>() == 47 * 3_600, "{alone:?}");
    }

    #[test]
    fn the_rate_is_that_of_the_stamps_where_the_stream_names_none() {
        let mut stamps = Stamps::default();
        let mut last = None;
        for n in 0..40u64 {
            let given = Given {
                pts: (n % 10 == 0).then_some(n * 1_800),
                ..Given::default()
            };
            let now = stamps.next(given, n % 10 == 0, None).expect("a time");
            if let Some(last) = last.filter(|_| n > 10) {
                assert_eq!(now.since(last), 1_800, "{n}");
            }
            last = Some(now);
        }
    }
}
