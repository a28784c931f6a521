/// Shortest time from the first pair to the last one for which a drift is looked for, in seconds.
const LEAST_SPAN: f64 = 4.0;
/// Most drift that two clocks have: CLOCK_MONOTONIC is steered by 500 ppm at most, on each side.
const MOST_DRIFT: f64 = 1_000.0;
/// Steps of the search for the drift: each leaves two thirds of the interval.
const STEPS: usize = 40;

/// A difference of two clocks in microseconds, and when it was seen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Point {
    pub at: i64,
    pub value: i64,
}

impl Point {
    pub fn new(at: i64, value: i64) -> Point {
        Point { at, value }
    }
}

/// The difference of two clocks as a straight line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Line {
    /// The difference at a time.
    from: Point,
    /// What is added to it: the middle of the band.
    middle: f64,
    /// Microseconds a second.
    pub drift: f64,
    pub half_width: f64,
}

impl Line {
    /// Whether the differences of a report are outside the line by more than `beyond` microseconds: one that was measured `there` is never
    /// below the line, and one of the way `back` never above it.
    pub fn excludes(&self, there: Option<Point>, back: Point, beyond: f64) -> bool {
        let off = |point: Point| point.value as f64 - self.at(point.at);
        there.is_some_and(|it| off(it) < -beyond) || off(back) > beyond
    }

    /// The middle of the widest straight band that is below the first points of all pairs and above the second ones; `None`
    /// without pairs. A drift shows after some seconds.
    pub fn through(pairs: impl Iterator<Item = (Point, Point)> + Clone, now: i64) -> Option<Line> {
        let from = Point::new(now, pairs.clone().last()?.1.value);
        let first = pairs.clone().next()?.1.at;
        let span = now.saturating_sub(first) as f64 / 1e6;
        let place = |point: Point| {
            let seconds = point.at.saturating_sub(from.at) as f64 / 1e6;
            (seconds, point.value.saturating_sub(from.value) as f64)
        };
        let band = |drift: f64| {
            let start = (f64::INFINITY, f64::NEG_INFINITY);
            pairs.clone().fold(start, |(most, least), (above, below)| {
                let (above, below) = (place(above), place(below));
                let most = most.min(above.1 - drift * above.0);
                (most, least.max(below.1 - drift * below.0))
            })
        };
        let width = |drift| {
            let (most, least) = band(drift);
            most - least
        };
        let mut drift = 0.0;
        if span >= LEAST_SPAN {
            // The width is a concave function of the drift.
            let (mut low, mut high) = (-MOST_DRIFT, MOST_DRIFT);
            for _ in 0..STEPS {
                let third = (high - low) / 3.0;
                match width(low + third) < width(high - third) {
                    true => low += third,
                    false => high -= third,
                }
            }
            drift = f64::midpoint(low, high);
        }
        let (most, least) = band(drift);
        Some(Line {
            from,
            middle: f64::midpoint(most, least),
            drift,
            half_width: (most - least) / 2.0,
        })
    }

    /// The difference at a time.
    pub fn at(&self, at: i64) -> f64 {
        let seconds = at.saturating_sub(self.from.at) as f64 / 1e6;
        self.from.value as f64 + self.middle + self.drift * seconds
    }

    /// By how much two points are outside the band.
    pub fn beyond(&self, most: Point, least: Point) -> (f64, f64) {
        let above = most.value as f64 - self.at(most.at) - self.half_width;
        (
            above,
            self.at(least.at) - self.half_width - least.value as f64,
        )
    }
}
