use layercast_core::{CELL_PAYLOAD, CellRate, Composition, FlowSpec, Layer, PerLayer, Span, Time};

use super::meter::{max_frame_for, more};
use crate::Frame;
use crate::rates::frame_cells;

/// Most windows that pass before what was refused is asked for again.
const LONGEST_WAIT: u32 = 32;
const SECOND: Span = Span::from_secs(1);
/// A window lasts for this part of its length at least, also where it ends early.
const SHORTEST: u64 = 20;

/// Compares a live stream with its reservation, and reports the rates that it needs instead.
///
/// Rates are taken over windows. A window ends early where a layer has already used up its reservation for a whole
/// window: the mean of the window can only be above it, and a stream that takes twenty times its reservation, such as
/// one that began with black pictures, does not wait for it. A short window may hold a peak, such as that of an encoder
/// that saved its bits while the pictures were black; so the first whole window after it corrects what is too much.
///
/// A window lasts as long as its media, or as their arrival took if that was longer: time stamps that stand still make no
/// rate. After a jump of the stamps the running window is dropped ([`begin_again`](LiveLoad::begin_again)).
///
/// A stream that grew is reported once. Where that leads to a request for more, the answer is passed to
/// [`granted`](LiveLoad::granted) or [`refused`](LiveLoad::refused): after a refusal the stream is reported
/// again, if it still takes more, after one window, then after two, four and so on.
#[derive(Clone, Debug)]
pub struct LiveLoad {
    window: Span,
    composition: Composition,
    reserved: PerLayer<CellRate>,
    /// When the window began, in media time and by the arrival of its first frame.
    since: Option<(Span, Option<Time>)>,
    /// GOP starts came, so that windows begin with one.
    has_starts: bool,
    /// What was reserved before a window ended early, until a whole window has come.
    least: Option<PerLayer<CellRate>>,
    now: PerLayer<Taken>,
    /// What the last window took.
    last: PerLayer<Taken>,
    /// Layers already reported as growing.
    reported: PerLayer<bool>,
    /// Windows until what was refused is asked for again, and how many after the next refusal.
    retry: Option<u32>,
    wait: u32,
}

/// What a layer took in a window.
#[derive(Clone, Copy, Default, Debug)]
struct Taken {
    cells: u64,
    rate: CellRate,
    /// Cells of its largest frame.
    largest: u32,
}

/// What a window shows that differs from the reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadReport {
    /// A layer takes more: [`grown`](LiveLoad::grown) gives what is needed.
    Above(Overload),
    /// A layer takes less than half of what was reserved after a window that ended early:
    /// [`settled`](LiveLoad::settled) gives what is needed.
    Below,
}

/// A layer that takes more than is reserved for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overload {
    /// The layer.
    pub layer: Layer,
    /// What it takes.
    pub takes: CellRate,
    /// What is reserved.
    pub reserved: CellRate,
}

impl LiveLoad {
    /// For a stream that is served as `spec` says; its load is taken over `window` of its time.
    pub fn new(spec: &FlowSpec, window: Span) -> LiveLoad {
        let mut load = LiveLoad {
            window,
            composition: spec.composition,
            reserved: PerLayer::default(),
            since: None,
            has_starts: false,
            least: None,
            now: PerLayer::default(),
            last: PerLayer::default(),
            reported: PerLayer::default(),
            retry: None,
            wait: 1,
        };
        load.granted(spec);
        load
    }

    /// The stamps jumped: what was seen of the running window is no measure of a rate. The next one begins with a GOP.
    pub fn begin_again(&mut self) {
        (self.since, self.now) = (None, PerLayer::default());
    }

    /// Takes a frame that is due at `time`, counted from the first, and that arrived live at `arrived`; reports the lowest
    /// layer that took more than is reserved over a window, once for each time that begins.
    pub fn push(&mut self, time: Span, arrived: Option<Time>, frame: &Frame) -> Option<LoadReport> {
        let is_boundary = frame.gop_start || !self.has_starts;
        self.has_starts |= frame.gop_start;
        if self.since.is_none() && !is_boundary {
            return None;
        }
        let (begun, came) = *self.since.get_or_insert((time, arrived));
        let took = arrived.zip(came).map(|(now, came)| now.since(came));
        let passed = time.saturating_sub(begun).max(took.unwrap_or_default());
        let mut report = None;
        // Windows begin with a GOP, so that they hold whole ones.
        if is_boundary && (passed >= self.window || self.ends_early(passed)) {
            report = self.close(passed);
            self.since = Some((time, arrived));
        }
        let cells = frame_cells(frame.size);
        let is_common = frame.sound && !self.composition.is_additive();
        for layer in Layer::ALL {
            // What is common goes with each level.
            let takes = frame.layer == layer || is_common && self.reserved[layer].0 > 0;
            if takes {
                let now = &mut self.now[layer];
                now.cells += u64::from(cells);
                now.largest = now.largest.max(cells);
            }
        }
        report
    }

    /// Whether a layer that is to be reported has used up its reservation for the whole window after `passed`.
    fn ends_early(&self, passed: Span) -> bool {
        if self.retry.is_some() || passed < self.window.mul_div(1, SHORTEST) {
            return false;
        }
        Layer::ALL.into_iter().any(|layer| {
            let whole = self
                .window
                .mul_div(u64::from(self.reserved[layer].0), SECOND.as_ps());
            !self.reported[layer] && self.now[layer].cells > whole.as_ps()
        })
    }

    /// Ends a window that lasted for `passed`.
    fn close(&mut self, passed: Span) -> Option<LoadReport> {
        self.retry = self.retry.map(|left| left.saturating_sub(1));
        let again = self.retry.take_if(|left| *left == 0).is_some();
        let mut over = None;
        for layer in Layer::ALL {
            let mut taken = std::mem::take(&mut self.now[layer]);
            let ps = u128::from(passed.as_ps().max(1));
            let rate = u128::from(taken.cells) * 1_000_000_000_000 / ps;
            taken.rate = CellRate(u32::try_from(rate).unwrap_or(u32::MAX));
            self.last[layer] = taken;
            let (takes, reserved) = (taken.rate, self.reserved[layer]);
            let above = takes > reserved;
            let news = above && (again || !self.reported[layer] && self.retry.is_none());
            if news && over.is_none() {
                over = Some(Overload {
                    layer,
                    takes,
                    reserved,
                });
            }
            self.reported[layer] = above;
        }
        let is_whole = passed >= self.window;
        match over {
            Some(over) => {
                if !is_whole {
                    self.least.get_or_insert(self.reserved);
                }
                Some(LoadReport::Above(over))
            }
            None => {
                let least = self.least.filter(|_| is_whole)?;
                let is_below = Layer::ALL.into_iter().any(|layer| {
                    let used = self.last[layer].rate.max(least[layer]);
                    self.reserved[layer].0 / 2 > used.0
                });
                if !is_below {
                    self.least = None;
                }
                is_below.then_some(LoadReport::Below)
            }
        }
    }

    /// What the stream needs by its last window, if `spec` is what is reserved for it now: rates
    /// that are above their reservation become what was seen and `headroom_percent` more, no rate becomes
    /// less. The limit for a frame holds four times the largest.
    pub fn grown(&self, spec: &FlowSpec, headroom_percent: u32) -> FlowSpec {
        let mut spec = spec.clone();
        for layer in Layer::ALL {
            let (rate, seen) = (&mut spec.layers[layer], self.last[layer]);
            if seen.rate <= rate.mean {
                continue;
            }
            let mean = CellRate(more(seen.rate.0, headroom_percent));
            // The worst GOP grew as the mean did.
            let peak = u64::from(rate.peak.0) * u64::from(mean.0) / u64::from(rate.mean.0.max(1));
            let peak = CellRate(u32::try_from(peak).unwrap_or(u32::MAX));
            rate.peak = if rate.peak.0 > 0 {
                peak.max(mean)
            } else {
                rate.peak
            };
            rate.mean = mean;
            rate.burst = rate.burst.max(more(seen.largest, headroom_percent));
            let largest = seen.largest.saturating_mul(CELL_PAYLOAD as u32);
            spec.max_frame = spec.max_frame.max(max_frame_for(largest));
        }
        spec.headroom_permille = super::meter::headroom_permille(headroom_percent);
        super::meter::fill_gap(&mut spec);
        spec
    }

    /// What the stream needs by its last window, which was whole, if `spec` is what is reserved for it now: no rate
    /// becomes more, and none less than before the window that ended early.
    pub fn settled(&self, spec: &FlowSpec, headroom_percent: u32) -> FlowSpec {
        let mut spec = spec.clone();
        let least = self.least.unwrap_or(self.reserved);
        for layer in Layer::ALL {
            let rate = &mut spec.layers[layer];
            let mean = CellRate(more(self.last[layer].rate.0, headroom_percent));
            let mean = mean.max(least[layer]);
            if mean < rate.mean {
                let peak = u64::from(rate.peak.0) * u64::from(mean.0) / u64::from(rate.mean.0);
                rate.peak = match rate.peak.0 {
                    0 => rate.peak,
                    _ => mean.max(CellRate(u32::try_from(peak).unwrap_or(u32::MAX))),
                };
                rate.mean = mean;
            }
        }
        spec.headroom_permille = super::meter::headroom_permille(headroom_percent);
        super::meter::fill_gap(&mut spec);
        spec
    }

    /// From now on `spec` is reserved.
    pub fn granted(&mut self, spec: &FlowSpec) {
        for (layer, rate) in spec.layers.iter() {
            self.reserved[layer] = rate.mean;
        }
        (self.reported, self.retry, self.wait) = (PerLayer::default(), None, 1);
    }

    /// More was asked for in vain.
    pub fn refused(&mut self) {
        self.retry = Some(self.wait);
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::LayerRate;

    use super::*;
    use crate::Picture;

    fn spec() -> FlowSpec {
        let layer = |mean, peak| LayerRate {
            mean: CellRate(mean),
            peak: CellRate(peak),
            burst: 100,
            ..LayerRate::default()
        };
        FlowSpec {
            layers: PerLayer {
                base: layer(100, 200),
                e1: layer(1_000, 0),
                e2: layer(0, 0),
            },
            ..FlowSpec::default()
        }
    }

    /// The seconds at which a stream that grows in its 20th second is reported.
    fn reported(
        load: &mut LiveLoad,
        mut answer: impl FnMut(&mut LiveLoad),
    ) -> Vec<(u64, Overload)> {
        let mut reported = Vec::new();
        for second in 0..200u64 {
            // Below what is reserved at first, and again in the end.
            let grown = (20..160).contains(&second);
            let size = if grown { 7_200 } else { 3_600 };
            for (picture, size) in [(Picture::I, size), (Picture::P, 3_600)] {
                let frame = Frame::sized(picture, size);
                match load.push(Span::from_secs(second), None, &frame) {
                    Some(LoadReport::Above(over)) => {
                        reported.push((second, over));
                        answer(load);
                    }
                    Some(LoadReport::Below) => panic!("second {second}: nothing was too much"),
                    None => {}
                }
            }
        }
        reported
    }

    fn load() -> LiveLoad {
        LiveLoad::new(&spec(), Span::from_secs(10))
    }

    #[test]
    fn more_than_reserved_is_told_once() {
        let expected = Overload {
            layer: Layer::Base,
            takes: CellRate(151),
            reserved: CellRate(100),
        };
        // Seven GOPs of 151 cells are more than the 1,000 of a window.
        assert_eq!(reported(&mut load(), |_| {}), [(27, expected)]);
    }

    #[test]
    fn what_is_refused_is_asked_for_again_ever_more_rarely() {
        let reported = reported(&mut load(), LiveLoad::refused);
        let seconds: Vec<u64> = reported.iter().map(|(at, _)| *at).collect();
        assert_eq!(seconds, [27, 37, 57, 97]);
    }

    /// A stream of `fps` pictures a second with a GOP of one second: an I picture of `size(second)` bytes, then P
    /// pictures of as many. Each report is granted with a quarter of head-room. Gives the milliseconds of each report, the
    /// layer that is above its reservation, and what is reserved in the end.
    fn granted(
        spec: FlowSpec,
        seconds: u64,
        size: impl Fn(u64) -> u32,
    ) -> (Vec<(u64, Option<Layer>)>, FlowSpec) {
        const FPS: u64 = 25;
        let mut load = LiveLoad::new(&spec, Span::from_secs(10));
        let (mut reports, mut spec) = (Vec::new(), spec);
        for n in 0..seconds * FPS {
            let picture = if n % FPS == 0 { Picture::I } else { Picture::P };
            let frame = Frame {
                gop_start: n % FPS == 0,
                ..Frame::sized(picture, size(n / FPS))
            };
            let ms = n * 1_000 / FPS;
            let layer = match load.push(Span::from_ms(ms), None, &frame) {
                None => continue,
                Some(LoadReport::Above(over)) => {
                    spec = load.grown(&spec, 25);
                    Some(over.layer)
                }
                Some(LoadReport::Below) => {
                    spec = load.settled(&spec, 25);
                    None
                }
            };
            assert_eq!(spec.validate(), Ok(()));
            load.granted(&spec);
            reports.push((ms, layer));
        }
        (reports, spec)
    }

    /// The flow as it is learned from black pictures of 100 bytes: 3 cells each, and a quarter.
    fn black() -> FlowSpec {
        let layer = |mean| LayerRate {
            mean: CellRate(mean),
            burst: 3,
            ..LayerRate::default()
        };
        FlowSpec {
            max_frame: 1_000,
            layers: PerLayer {
                base: layer(4),
                e1: layer(90),
                e2: layer(0),
            },
            ..FlowSpec::default()
        }
    }

    #[test]
    fn a_stream_that_begins_with_black_pictures_is_measured_within_three_gops_of_its_content() {
        // Pictures of 20,000 bytes from 7 s on: 418 cells each.
        let (reports, spec) = granted(black(), 60, |second| if second < 7 { 100 } else { 20_000 });
        // The first window holds black pictures too; the second one has content alone.
        let base = Some(Layer::Base);
        assert_eq!(reports, [(8_000, base), (10_000, base)]);
        let base = 418;
        let e1 = 24 * base;
        let means = [spec.layers.base, spec.layers.e1].map(|rate| rate.mean.0);
        assert_eq!(means, [base * 5 / 4, e1 * 5 / 4]);
        assert_eq!(spec.max_frame, 4 * 418 * 48);
    }

    #[test]
    fn a_peak_after_black_pictures_is_corrected_by_the_first_whole_window() {
        // One second of pictures of 100,000 bytes, then 5,000: 2,085 and 105 cells each.
        let (reports, spec) = granted(black(), 60, |second| match second {
            0..7 => 100,
            7 => 100_000,
            _ => 5_000,
        });
        let base = Some(Layer::Base);
        assert_eq!(reports, [(8_000, base), (18_000, None)]);
        let means = [spec.layers.base, spec.layers.e1].map(|rate| rate.mean.0);
        assert_eq!(means, [105 * 5 / 4, 24 * 105 * 5 / 4]);
        // The stream is black again: nothing is below what it began with.
        let (reports, spec) = granted(black(), 60, |second| match second {
            7 => 100_000,
            _ => 100,
        });
        assert_eq!(reports, [(8_000, base), (18_000, None)]);
        let (layers, black) = (spec.layers, black().layers);
        for layer in Layer::ALL {
            assert_eq!(layers[layer].mean, black[layer].mean, "{layer}");
        }
    }

    #[test]
    fn a_busy_gop_within_the_reservation_of_a_window_is_not_reported() {
        // 60 cells/s of base layer where 100 are reserved, and one GOP with nine times as many: 1,000 in 10 s fit.
        let spec = spec();
        let size = |second| if second % 10 == 4 { 20_000 } else { 2_500 };
        let of = |size| u64::from(frame_cells(size));
        assert!(9 * of(2_500) + of(20_000) < 1_000);
        let e1 = LayerRate {
            mean: CellRate(u32::MAX),
            ..LayerRate::default()
        };
        let layers = PerLayer { e1, ..spec.layers };
        let (reports, _) = granted(FlowSpec { layers, ..spec }, 100, size);
        assert_eq!(reports, []);
    }

    #[test]
    fn a_stream_without_gop_starts_is_measured_too() {
        let mut load = LiveLoad::new(&black(), Span::from_secs(10));
        let report = (0..).find_map(|n| {
            let frame = Frame::of_layer(Layer::Base, false, 100);
            load.push(Span::from_ms(40 * n), None, &frame)
                .map(|report| (40 * n, report))
        });
        // 3 cells 25 times a second: the 40 cells of ten seconds are used up after 14 frames.
        let expected = Overload {
            layer: Layer::Base,
            takes: CellRate(75),
            reserved: CellRate(4),
        };
        assert_eq!(report, Some((560, LoadReport::Above(expected))));
    }

    #[test]
    fn what_is_granted_holds_what_came_and_head_room() {
        let mut grown = spec();
        let reported = reported(&mut load(), |load| {
            grown = load.grown(&grown, 20);
            load.granted(&grown);
        });
        assert_eq!(reported.len(), 1);
        let layers = &grown.layers;
        assert_eq!(layers.base.mean, CellRate(181));
        assert_eq!((layers.base.peak, layers.base.burst), (CellRate(362), 181));
        assert_eq!((layers.e1, layers.e2), (spec().layers.e1, spec().layers.e2));
        assert_eq!(grown.validate(), Ok(()));
    }

    /// Stamps that stand still for 28 s, then jump by as much, make no rate.
    #[test]
    fn stamps_that_stand_still_or_jump_make_no_rate() {
        let mut spec = black();
        spec.layers.e1.mean = CellRate(1_000);
        let mut load = LiveLoad::new(&spec, Span::from_secs(10));
        for n in 0..2_000u64 {
            let media = match n {
                300..1_000 => 300,
                n => n,
            };
            if n == 1_000 {
                load.begin_again();
            }
            // 3 cells of base layer a second, and 24 times 12.
            let size = if n % 25 == 0 { 100 } else { 500 };
            let picture = if n % 25 == 0 { Picture::I } else { Picture::P };
            let frame = Frame {
                gop_start: n % 25 == 0,
                ..Frame::sized(picture, size)
            };
            let arrived = Time::ZERO + Span::from_ms(40 * n);
            let report = load.push(Span::from_ms(40 * media), Some(arrived), &frame);
            assert_eq!(report, None, "{n}");
        }
        // Media that arrive faster than real time are measured by their stamps.
        let mut load = LiveLoad::new(&spec, Span::from_secs(10));
        let reports = (0..2_000u64).filter_map(|n| {
            let frame = Frame {
                gop_start: n % 25 == 0,
                ..Frame::sized(Picture::I, if n % 25 == 0 { 100 } else { 1 })
            };
            let arrived = Time::ZERO + Span::from_ms(4 * n);
            load.push(Span::from_ms(400 * n), Some(arrived), &frame)
        });
        assert_eq!(reports.count(), 0);
    }
}
