use layercast_core::{CellRate, FlowSpec, FrameRate, Layer, Level, PerLayer};

/// How much a cell of a P picture counts against one of a B picture: what P pictures miss is missing
/// in what is predicted from them too (docs/src/how-to/filters.md).
const WEIGHT: PerLayer<f64> = PerLayer {
    base: 0.0,
    e1: 2.0,
    e2: 1.0,
};
/// Share of a new frame in the means.
const GAIN: f64 = 1.0 / 8.0;
/// How much more than what cannot be dropped a layer needs before it is sent again.
const MARGIN: f64 = 1.1;

/// Shares a real-valued rate among the enhancement frames of a flow as they come, GOP by GOP: each
/// gets what cannot be dropped, and of the rest a part by what could be.
///
/// Frames to come are taken to be like those before; what that is off by is made up for later.
#[derive(Clone, Debug)]
pub(super) struct RateAccount {
    fps: FrameRate,
    gop_n: u32,
    /// Frames of each layer in a GOP.
    frames: PerLayer<f64>,
    /// Mean cells of a frame whole, and with nothing left to drop.
    whole: PerLayer<f64>,
    bare: PerLayer<f64>,
    seen: PerLayer<bool>,
    rate: f64,
    level: Level,
    /// Frames that the running GOP is still expected to have.
    left: PerLayer<f64>,
    /// Frames of all layers it had so far.
    passed: u32,
    /// Cells left for it.
    balance: f64,
}

impl RateAccount {
    pub fn new(spec: &FlowSpec) -> RateAccount {
        let n = u32::from(spec.gop_n.max(1));
        let anchors = n.div_ceil(u32::from(spec.gop_m.max(1)));
        let frames = PerLayer {
            base: 1.0,
            e1: f64::from(anchors - 1),
            e2: f64::from(n - anchors),
        };
        let gop = f64::from(n) / spec.frame_rate.as_f64();
        let mut whole = PerLayer::default();
        for layer in [Layer::E1, Layer::E2] {
            whole[layer] = f64::from(spec.layers[layer].mean.0) * gop / frames[layer].max(1.0);
        }
        RateAccount {
            fps: spec.frame_rate,
            gop_n: n,
            frames,
            whole,
            bare: PerLayer::default(),
            seen: PerLayer::default(),
            rate: 0.0,
            level: Level::BASE,
            left: PerLayer::default(),
            passed: 0,
            balance: 0.0,
        }
    }

    /// The highest level at which `rate` has room for what cannot be dropped.
    pub fn level_for(&self, rate: CellRate) -> Level {
        let rate = f64::from(rate.0);
        let mut need = 0.0;
        let mut level = Level::BASE;
        for layer in [Layer::E1, Layer::E2] {
            need += self.per_second(self.bare[layer] * self.frames[layer]);
            let margin = if self.level.includes(layer) {
                1.0
            } else {
                MARGIN
            };
            if rate <= 0.0 || rate < need * margin {
                break;
            }
            level = layer.level();
        }
        level
    }

    /// What E1 takes of `rate` if E2 is sent too.
    pub fn e1_part(&self, rate: CellRate) -> CellRate {
        let gop = self.per_gop(f64::from(rate.0));
        let bare = |layer: Layer| self.bare[layer] * self.frames[layer];
        let spare = |layer: Layer| self.spare(layer) * self.frames[layer];
        let free = (gop - bare(Layer::E1) - bare(Layer::E2)).max(0.0);
        let all = spare(Layer::E1) + spare(Layer::E2);
        let part = if all > 0.0 {
            free * spare(Layer::E1) / all
        } else {
            0.0
        };
        let most = self.whole[Layer::E1] * self.frames[Layer::E1];
        let cells = self.per_second((bare(Layer::E1) + part).min(most));
        CellRate(cells.ceil().min(f64::from(rate.0)) as u32)
    }

    /// A GOP starts, to have `rate` above its base layer and the layers of `level`.
    pub fn begin_gop(&mut self, rate: CellRate, level: Level) {
        // What a GOP cut short was given ahead of its time.
        let unearned = f64::from(self.gop_n.saturating_sub(self.passed));
        let earned = self.balance - self.rate * unearned / self.fps.as_f64();
        let before = if self.rate > 0.0 { earned } else { 0.0 };
        self.rate = f64::from(rate.0);
        self.level = level;
        let gop = self.per_gop(self.rate);
        self.balance = gop + before.clamp(-gop, gop / 4.0);
        self.left = self.frames;
        for layer in Layer::ALL {
            if !level.includes(layer) {
                self.left[layer] = 0.0;
            }
        }
        self.passed = 0;
    }

    /// A frame of any layer passes.
    pub fn pass(&mut self) {
        self.passed += 1;
        if self.passed > self.gop_n {
            self.balance += self.rate / self.fps.as_f64();
        }
    }

    /// The cells that a frame of `whole` cells may have, of which `bare` cannot be dropped.
    pub fn budget(&mut self, layer: Layer, whole: u32, bare: u32) -> u32 {
        self.left[layer] = (self.left[layer] - 1.0).max(0.0);
        let (own, least) = (f64::from(whole), f64::from(bare));
        let rest = |of: &dyn Fn(Layer) -> f64| -> f64 {
            let layers = [Layer::E1, Layer::E2].into_iter();
            layers.map(|layer| self.left[layer] * of(layer)).sum()
        };
        let spare = (own - least) * WEIGHT[layer];
        let all = spare + rest(&|layer| self.spare(layer));
        let free = (self.balance - least - rest(&|layer| self.bare[layer])).max(0.0);
        let part = if all > 0.0 { free * spare / all } else { 0.0 };
        (least + part).min(own).round() as u32
    }

    /// A frame of `whole` cells, `bare` of which cannot be dropped, went with `out` cells.
    pub fn spend(&mut self, layer: Layer, whole: u32, bare: u32, out: u32) {
        self.learn(layer, whole, bare);
        self.balance -= f64::from(out);
    }

    /// A frame was seen, sent or not.
    pub fn learn(&mut self, layer: Layer, whole: u32, bare: u32) {
        let gain = if self.seen[layer] { GAIN } else { 1.0 };
        self.seen[layer] = true;
        self.whole[layer] += gain * (f64::from(whole) - self.whole[layer]);
        self.bare[layer] += gain * (f64::from(bare) - self.bare[layer]);
    }

    /// Weighted cells of a mean frame that can be dropped.
    fn spare(&self, layer: Layer) -> f64 {
        (self.whole[layer] - self.bare[layer]).max(0.0) * WEIGHT[layer]
    }

    fn per_gop(&self, rate: f64) -> f64 {
        rate * f64::from(self.gop_n) / self.fps.as_f64()
    }

    fn per_second(&self, cells: f64) -> f64 {
        cells * self.fps.as_f64() / f64::from(self.gop_n)
    }
}
