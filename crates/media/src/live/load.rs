use layercast_core::{CellRate, FlowSpec, Layer, PerLayer, Span, aal5_cells};

use crate::Frame;
use crate::rates::METS_HEADER;

/// Over how much media time the load is taken.
const WINDOW: Span = Span::from_secs(10);

/// Holds a live stream against what is reserved for it.
#[derive(Clone, Debug)]
pub struct LiveLoad {
    reserved: PerLayer<CellRate>,
    since: Option<Span>,
    cells: PerLayer<u64>,
    /// Layers of which it was told that they take more.
    told: PerLayer<bool>,
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
    /// For a stream that is served as `spec` says.
    pub fn new(spec: &FlowSpec) -> LiveLoad {
        let mut reserved = PerLayer::default();
        for (layer, rate) in spec.layers.iter() {
            reserved[layer] = rate.mean;
        }
        LiveLoad {
            reserved,
            since: None,
            cells: PerLayer::default(),
            told: PerLayer::default(),
        }
    }

    /// Takes a frame that is due at `time`, counted from the first; gives the lowest layer that took
    /// more than is reserved over ten seconds, once for each time that begins.
    pub fn push(&mut self, time: Span, frame: &Frame) -> Option<Overload> {
        let since = *self.since.get_or_insert(time);
        let passed = time.saturating_sub(since);
        let mut over = None;
        // Windows begin with a GOP, so that they hold whole ones.
        if passed >= WINDOW && frame.gop_start {
            for layer in Layer::ALL {
                let ps = u128::from(passed.as_ps());
                let rate = u128::from(self.cells[layer]) * 1_000_000_000_000 / ps;
                let takes = CellRate(u32::try_from(rate).unwrap_or(u32::MAX));
                let reserved = self.reserved[layer];
                let above = takes > reserved;
                if above && !self.told[layer] && over.is_none() {
                    over = Some(Overload {
                        layer,
                        takes,
                        reserved,
                    });
                }
                self.told[layer] = above;
            }
            self.since = Some(time);
            self.cells = PerLayer::default();
        }
        self.cells[frame.layer] += u64::from(aal5_cells(frame.size as usize + METS_HEADER));
        over
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::LayerRate;

    use super::*;
    use crate::Picture;

    #[test]
    fn more_than_reserved_is_told_once() {
        let layer = |mean| LayerRate {
            mean: CellRate(mean),
            ..LayerRate::default()
        };
        let spec = FlowSpec {
            layers: PerLayer {
                base: layer(100),
                e1: layer(1_000),
                e2: layer(0),
            },
            ..FlowSpec::default()
        };
        let mut load = LiveLoad::new(&spec);
        let mut told = Vec::new();
        for second in 0..60u64 {
            // Below what is reserved at first, and again in the end.
            let size = if (20..40).contains(&second) {
                7_200
            } else {
                3_600
            };
            for (picture, size) in [(Picture::I, size), (Picture::P, 3_600)] {
                let frame = Frame::sized(picture, size);
                told.extend(
                    load.push(Span::from_secs(second), &frame)
                        .map(|it| (second, it)),
                );
            }
        }
        let expected = Overload {
            layer: Layer::Base,
            takes: CellRate(151),
            reserved: CellRate(100),
        };
        assert_eq!(told, [(30, expected)]);
    }
}
