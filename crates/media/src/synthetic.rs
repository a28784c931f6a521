use layercast_core::{AAL5_TRAILER, CELL_PAYLOAD, Composition, FrameRate, Media, Stream};

use crate::rates::METS_HEADER;
use crate::{Clip, ClipInfo, Container, Frame, Picture};

/// The clips of the 1996 measurements, rebuilt by their statistics (specs/mets.md 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Synthetic {
    /// Bursty; I/P/B of 240/160/120 cells.
    Canyon,
    /// A talking head; I/P/B of 120/55/35 cells.
    Lougher,
    /// High motion; I pictures of 430 cells only.
    Flight,
}

/// A GOP in coded order: `IBBPBBPBBPBB` in display order, closed, so that its last two B pictures
/// need nothing of the next GOP and every GOP has 1 I, 3 P and 8 B.
const GOP: [Picture; 12] = {
    use Picture::{B, I, P};
    [I, P, B, B, P, B, B, P, B, B, B, B]
};

/// Largest frame in cells: 32 KB in AAL5.
const MAX_CELLS: f64 = 683.0;

impl Synthetic {
    /// The name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Synthetic::Canyon => "canyon",
            Synthetic::Lougher => "lougher",
            Synthetic::Flight => "flight",
        }
    }

    /// Mean cells per picture, and the coefficient of variation.
    const fn cells(self, picture: Picture) -> (f64, f64) {
        match (self, picture) {
            (Synthetic::Canyon, Picture::I) => (240.0, 0.10),
            (Synthetic::Canyon, Picture::P) => (160.0, 0.10),
            (Synthetic::Canyon, Picture::B | Picture::Data) => (120.0, 0.10),
            (Synthetic::Lougher, Picture::I) => (120.0, 0.25),
            (Synthetic::Lougher, Picture::P) => (55.0, 0.25),
            (Synthetic::Lougher, Picture::B | Picture::Data) => (35.0, 0.25),
            (Synthetic::Flight, _) => (430.0, 0.10),
        }
    }

    const fn gop(self) -> &'static [Picture] {
        match self {
            Synthetic::Flight => &[Picture::I],
            _ => &GOP,
        }
    }
}

impl Clip {
    /// A synthetic clip of `frames` frames (at least one), log-normal sizes in whole cells.
    ///
    /// The sizes of each picture type draw from a stream of their own, named
    /// `media/<clip>/<type>`; the same seed gives the same clip on every machine.
    pub fn synthetic(kind: Synthetic, frame_rate: FrameRate, frames: u32, seed: u64) -> Clip {
        let sizes = |picture| Sizes::new(kind, picture, seed);
        let (mut i, mut p, mut b) = (sizes(Picture::I), sizes(Picture::P), sizes(Picture::B));
        let gop = kind.gop().iter().cycle().take(frames.max(1) as usize);
        let frames = gop.map(|&picture| {
            let sizes = match picture {
                Picture::I => &mut i,
                Picture::P => &mut p,
                Picture::B | Picture::Data => &mut b,
            };
            Frame::sized(picture, sizes.draw())
        });
        Clip {
            frames: frames.collect(),
            info: ClipInfo {
                container: Container::Synthetic,
                codec: Media::Mpeg1,
                composition: Composition::Additive,
                width: 0,
                height: 0,
                frame_rate,
                video: None,
                truncated: None,
            },
        }
    }
}

/// The log-normal frame sizes of one picture type.
struct Sizes {
    stream: Stream,
    mu: f64,
    sigma: f64,
}

impl Sizes {
    fn new(kind: Synthetic, picture: Picture, seed: u64) -> Sizes {
        let (mean, cv) = kind.cells(picture);
        let variance = libm::log(1.0 + cv * cv);
        Sizes {
            stream: Stream::new(seed, &format!("media/{}/{picture:?}", kind.name())),
            mu: libm::log(mean) - variance / 2.0,
            sigma: libm::sqrt(variance),
        }
    }

    /// Bytes that fill a drawn number of cells exactly, header and trailer included.
    fn draw(&mut self) -> u32 {
        let cells = libm::exp(self.mu + self.sigma * self.stream.normal());
        let cells = libm::round(cells).clamp(1.0, MAX_CELLS) as u32;
        cells * CELL_PAYLOAD as u32 - (AAL5_TRAILER + METS_HEADER) as u32
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{Layer, aal5_cells};

    use super::*;

    const FILM: FrameRate = FrameRate { num: 24, den: 1 };

    fn cells(clip: &Clip, layer: Layer) -> Vec<f64> {
        let frames = clip.frames.iter().filter(|frame| frame.layer() == layer);
        frames
            .map(|frame| f64::from(aal5_cells(frame.size as usize + METS_HEADER)))
            .collect()
    }

    #[test]
    fn sizes_have_the_mean_and_variation_of_the_table() {
        for (kind, layer, mean, cv) in [
            (Synthetic::Canyon, Layer::Base, 240.0, 0.10),
            (Synthetic::Canyon, Layer::E2, 120.0, 0.10),
            (Synthetic::Lougher, Layer::E1, 55.0, 0.25),
            (Synthetic::Flight, Layer::Base, 430.0, 0.10),
        ] {
            let cells = cells(&Clip::synthetic(kind, FILM, 24_000, 3), layer);
            let n = cells.len() as f64;
            let average = cells.iter().sum::<f64>() / n;
            let variance = cells.iter().map(|c| (c - average).powi(2)).sum::<f64>() / n;
            assert!((average / mean - 1.0).abs() < 0.02, "{kind:?} {average}");
            assert!((variance.sqrt() / mean / cv - 1.0).abs() < 0.06, "{kind:?}");
            assert!(cells.iter().all(|&c| (1.0..=MAX_CELLS).contains(&c)));
        }
    }

    #[test]
    fn canyon_needs_the_rates_of_the_table() {
        let spec = Clip::synthetic(Synthetic::Canyon, FILM, 12_000, 1).flow_spec();
        assert_eq!((spec.gop_n, spec.gop_m), (12, 3));
        assert_eq!(spec.validate(), Ok(()));
        for (layer, mean) in [
            (Layer::Base, 480.0),
            (Layer::E1, 960.0),
            (Layer::E2, 1_920.0),
        ] {
            let measured = f64::from(spec.layers[layer].mean.0);
            assert!((measured / mean - 1.0).abs() < 0.01, "{layer} {measured}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_clip_for_ever() {
        let clip = Clip::synthetic(Synthetic::Lougher, FILM, 14, 7);
        let sizes: Vec<u32> = clip.frames.iter().map(|frame| frame.size).collect();
        assert_eq!(sizes, SEED_7);
        let layers: String = clip
            .frames
            .iter()
            .map(|f| format!("{:?}", f.picture))
            .collect();
        assert_eq!(layers, "IPBBPBBPBBBBIP");
    }

    const SEED_7: [u32; 14] = [
        5248, 1696, 1744, 1792, 3904, 1648, 3136, 3232, 1744, 2752, 1168, 1744, 4960, 2848,
    ];
}
