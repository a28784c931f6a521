//! What a link has to carry for each level of a clip, and with which rate a link shows one level and not the next.

use layercast_core::{CELL_SIZE, CellRate, Composition, FlowSpec, Layer, Level, PerLayer, Rate};
use serde::{Deserialize, Serialize};

use crate::{Clip, Frame, Picture};

/// A link that is to carry a level and not the next one has this share of what the next one takes, in permille.
const BELOW_NEXT_PERMILLE: u64 = 950;
/// Such a link has at least this multiple of what its own level takes, in permille.
const ABOVE_OWN_PERMILLE: u64 = 1_030;

/// What one level of a clip takes on a link, with all headers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LevelSummary {
    /// `BL`, `BL+E1` or `BL+E1+E2`.
    pub name: String,
    /// Pictures per second that it shows.
    #[serde(default)]
    pub fps: f64,
    /// Its share of the octets of the stream, in percent.
    #[serde(default)]
    pub share_percent: f64,
    /// Mean rate, which a link must have left for the level to be granted.
    pub mean_bps: Rate,
    /// Rate with the largest GOP of each layer.
    pub peak_bps: Rate,
    /// Rate of a link that carries this level and not the next one, such as `1200kbit/s`; of the top level, of a
    /// link that carries the largest GOPs. `None` if the next level takes hardly more.
    pub limit: Option<String>,
    /// Least delay bound (`layercast serve --delay-max`) with which a link of the rate `limit` carries the largest
    /// key frame in time, in milliseconds.
    pub delay_max_ms: Option<u64>,
}

/// How long the largest key frame takes over a link of `rate`: the source takes up to half of the delay bound to send
/// it, and the line the other half.
fn delay_max_ms(burst: u32, rate: Rate) -> u64 {
    let line = rate.time_for(CELL_SIZE as u64).times(burst.into());
    2 * line.as_us().div_ceil(1_000)
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// In kbit/s of two significant digits, rounded down, or up.
pub(crate) fn two_digits(bps: u64, up: bool) -> u64 {
    let kbps = (bps / 1_000).max(1);
    let step = 10_u64.pow(kbps.ilog10().saturating_sub(1));
    let steps = match up {
        true => bps.div_ceil(1_000 * step),
        false => kbps / step,
    };
    steps * step
}

/// What a layer adds to the levels that include it: pictures per second, and a share of the octets.
#[derive(Clone, Copy, Default, Debug)]
struct Part {
    fps: f64,
    share: f64,
}

/// The levels that a flow has, from the base level upwards; each layer is this part of it.
fn levels(spec: &FlowSpec, parts: &PerLayer<Part>) -> Vec<LevelSummary> {
    let top = spec.top_level();
    let all = [Level::BASE, Level::E1, Level::FULL];
    let of = |level: Level| {
        let mean = spec.rate_at(level).rate();
        let is_in = |layer: Layer| match spec.composition {
            Composition::Additive => level.includes(layer),
            Composition::Alternative => layer.level() == level,
        };
        let peaks = spec.layers.iter().filter(|(it, _)| is_in(*it));
        let peak = peaks.fold(CellRate(0), |sum, (_, it)| {
            sum.saturating_add(it.peak.max(it.mean))
        });
        let limit = match level == top {
            true => Some(two_digits(peak.rate().as_bps(), true)),
            false => {
                let next = spec.rate_at(level.up()).rate().as_bps();
                let most = two_digits(next * BELOW_NEXT_PERMILLE / 1_000, false);
                (most * 1_000 >= mean.as_bps() * ABOVE_OWN_PERMILLE / 1_000).then_some(most)
            }
        };
        let included = parts.iter().filter(|(layer, _)| is_in(*layer));
        let part = included.fold(Part::default(), |sum, (_, it)| Part {
            fps: sum.fps + it.fps,
            share: sum.share + it.share,
        });
        LevelSummary {
            name: match spec.composition {
                Composition::Additive => level.to_string(),
                Composition::Alternative => {
                    let own = Layer::ALL.into_iter().find(|it| is_in(*it));
                    own.unwrap_or(Layer::Base).to_string()
                }
            },
            fps: hundredths(part.fps),
            share_percent: hundredths(100.0 * part.share),
            mean_bps: mean,
            peak_bps: peak.rate(),
            limit: limit.map(|kbps| format!("{kbps}kbit/s")),
            delay_max_ms: limit.map(|kbps| {
                let largest = spec.layers.iter().filter(|(it, _)| is_in(*it));
                let burst = match spec.composition {
                    Composition::Additive => spec.layers.base.burst,
                    Composition::Alternative => largest.map(|(_, it)| it.burst).max().unwrap_or(0),
                };
                delay_max_ms(burst, Rate::from_bps(kbps * 1_000))
            }),
        }
    };
    all.into_iter().filter(|it| *it <= top).map(of).collect()
}

impl Clip {
    /// What each level of the clip shows, and what it takes on a link.
    pub fn levels(&self) -> Vec<LevelSummary> {
        levels(&self.flow_spec(), &self.parts())
    }

    fn parts(&self) -> PerLayer<Part> {
        let alternative = !self.info.composition.is_additive();
        let top = self
            .frames
            .iter()
            .map(|frame| frame.layer)
            .max()
            .unwrap_or(Layer::Base);
        // Of renditions, what the highest level takes is the whole.
        let counts = |frame: &&Frame| !alternative || frame.sound || frame.layer == top;
        let octets: f64 = self
            .frames
            .iter()
            .filter(counts)
            .map(|frame| f64::from(frame.size))
            .sum();
        let fps = self.info.frame_rate.as_f64() / self.frames.len().max(1) as f64;
        let mut parts = PerLayer::<Part>::default();
        for frame in &self.frames {
            let share = f64::from(frame.size) / octets.max(1.0);
            if alternative && frame.sound {
                for layer in Layer::ALL {
                    parts[layer].share += share;
                }
                continue;
            }
            let part = &mut parts[frame.layer];
            part.share += share;
            if frame.picture != Picture::Data {
                part.fps += fps;
            }
        }
        parts
    }

    /// The largest frame to start at in mean pictures; of renditions, the largest of these ratios.
    pub(crate) fn key_frame_ratio(&self) -> f64 {
        match self.info.composition {
            Composition::Additive => self.key_frame_ratio_of(|_| true),
            Composition::Alternative => {
                let ratios =
                    Layer::ALL.map(|layer| self.key_frame_ratio_of(|it| it.layer == layer));
                ratios.into_iter().fold(0.0, f64::max)
            }
        }
    }

    /// The same of these frames.
    pub(crate) fn key_frame_ratio_of(&self, is_of_it: impl Fn(&Frame) -> bool) -> f64 {
        let pictures = || {
            let frames = self.frames.iter().filter(|it| is_of_it(it));
            frames.filter(|it| it.picture != Picture::Data)
        };
        let keys = pictures().filter(|it| it.gop_start);
        let largest = keys.map(|it| it.size).max().unwrap_or(0);
        let sum: f64 = pictures().map(|it| f64::from(it.size)).sum();
        hundredths(f64::from(largest) * pictures().count() as f64 / sum.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{FrameRate, LayerRate};

    use super::*;

    fn spec(means: [u32; 3], burst: u32) -> FlowSpec {
        let layer = |mean| LayerRate {
            mean: CellRate(mean),
            peak: CellRate(mean * 2),
            burst,
            ..LayerRate::default()
        };
        FlowSpec {
            frame_rate: FrameRate { num: 25, den: 1 },
            gop_n: 12,
            layers: PerLayer {
                base: layer(means[0]),
                e1: layer(means[1]),
                e2: layer(means[2]),
            },
            ..FlowSpec::default()
        }
    }

    fn summaries(spec: &FlowSpec) -> Vec<LevelSummary> {
        levels(spec, &PerLayer::default())
    }

    fn limits(spec: &FlowSpec) -> Vec<Option<String>> {
        summaries(spec).into_iter().map(|it| it.limit).collect()
    }

    #[test]
    fn a_limit_lies_between_a_level_and_the_next() {
        // On a link 424, 1272 and 2120 kbit/s.
        let three = spec([1_000, 2_000, 2_000], 300);
        let expected = ["1200kbit/s", "2000kbit/s", "4300kbit/s"];
        assert_eq!(limits(&three), expected.map(|it| Some(it.to_owned())));
        let two = summaries(&spec([1_000, 2_000, 0], 300));
        assert_eq!(two.len(), 2);
        assert_eq!(two[1].limit.as_deref(), Some("2600kbit/s"));
        assert_eq!(two[0].name, "BL");
    }

    #[test]
    fn a_level_to_which_the_next_adds_hardly_anything_has_no_limit() {
        assert_eq!(limits(&spec([1_000, 50, 2_000], 300))[0], None);
    }

    #[test]
    fn the_delay_bound_is_twice_the_time_of_the_largest_key_frame() {
        // 1415 cells of 53 bytes take 0.5 s at 1.2 Mbit/s.
        let large = summaries(&spec([1_000, 2_000, 2_000], 1_415));
        assert_eq!(large[0].delay_max_ms, Some(1_000));
        assert_eq!(large[1].delay_max_ms, Some(600));
    }

    #[test]
    fn a_level_shows_the_pictures_of_its_layers() {
        use crate::Synthetic;
        let clip = Clip::synthetic(Synthetic::Canyon, FrameRate { num: 24, den: 1 }, 240, 1);
        let levels = clip.levels();
        // I, P and B pictures in GOPs of twelve, of which eight are B.
        let fps: Vec<f64> = levels.iter().map(|it| it.fps).collect();
        assert_eq!(fps, [2.0, 8.0, 24.0]);
        let octets = |top: Layer| -> f64 {
            let frames = clip.frames.iter().filter(|it| it.layer <= top);
            frames.map(|it| f64::from(it.size)).sum()
        };
        for (level, layer) in levels.iter().zip(Layer::ALL) {
            let share = 100.0 * octets(layer) / octets(Layer::E2);
            assert!((level.share_percent - share).abs() < 0.01, "{level:?}");
        }
        assert!(clip.key_frame_ratio() > 1.0);
    }
}
