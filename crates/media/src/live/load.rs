use layercast_core::{CellRate, FlowSpec, Layer, PerLayer, Span};

use super::meter::more;
use crate::Frame;
use crate::rates::frame_cells;

/// Most windows that pass before what was refused is asked for again.
const LONGEST_WAIT: u32 = 32;

/// Compares a live stream with its reservation, and reports the rates that it needs instead.
///
/// A stream that grew is reported once. Where that leads to a request for more, the answer is passed to
/// [`granted`](LiveLoad::granted) or [`refused`](LiveLoad::refused): after a refusal the stream is reported
/// again, if it still takes more, after one window, then after two, four and so on.
#[derive(Clone, Debug)]
pub struct LiveLoad {
    window: Span,
    reserved: PerLayer<CellRate>,
    since: Option<Span>,
    now: PerLayer<Taken>,
    /// What the last whole window took.
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
            reserved: PerLayer::default(),
            since: None,
            now: PerLayer::default(),
            last: PerLayer::default(),
            reported: PerLayer::default(),
            retry: None,
            wait: 1,
        };
        load.granted(spec);
        load
    }

    /// Takes a frame that is due at `time`, counted from the first; gives the lowest layer that took
    /// more than is reserved over a window, once for each time that begins.
    pub fn push(&mut self, time: Span, frame: &Frame) -> Option<Overload> {
        let since = *self.since.get_or_insert(time);
        let passed = time.saturating_sub(since);
        let mut over = None;
        // Windows begin with a GOP, so that they hold whole ones.
        if passed >= self.window && frame.gop_start {
            over = self.close(passed);
            self.since = Some(time);
        }
        let cells = frame_cells(frame.size);
        let now = &mut self.now[frame.layer];
        now.cells += u64::from(cells);
        now.largest = now.largest.max(cells);
        over
    }

    /// Ends a window that lasted for `passed`.
    fn close(&mut self, passed: Span) -> Option<Overload> {
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
        over
    }

    /// What the stream needs by its last whole window, if `spec` is what is reserved for it now: rates
    /// that are above their reservation become what was seen and `headroom_percent` more, no rate becomes
    /// less.
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
                if let Some(over) = load.push(Span::from_secs(second), &frame) {
                    reported.push((second, over));
                    answer(load);
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
        assert_eq!(reported(&mut load(), |_| {}), [(30, expected)]);
    }

    #[test]
    fn what_is_refused_is_asked_for_again_ever_more_rarely() {
        let reported = reported(&mut load(), LiveLoad::refused);
        let seconds: Vec<u64> = reported.iter().map(|(at, _)| *at).collect();
        assert_eq!(seconds, [30, 40, 60, 100]);
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
}
