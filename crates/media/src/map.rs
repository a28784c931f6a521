//! Which picture goes into which layer.

use std::fmt;
use std::str::FromStr;

use layercast_core::{FrameRate, Layer};
use thiserror::Error;

/// How the pictures of a stream are distributed over the layers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum Map {
    /// Temporal layers where the stream has them, else [`Map::Split`]; of codecs whose references are not known
    /// [`Map::Ipb`].
    #[default]
    Auto,
    /// I pictures, pictures that others refer to, and the others (specs/mets.md 2.6).
    Ipb,
    /// All pictures that others refer to are the base layer, the others are split between E1 and E2.
    Split,
    /// Temporal layers alone.
    Temporal,
    /// Three temporal layers of VP8 by the place of a frame in the stream: 0, 2, 1, 2, as libvpx makes them.
    Vp8Ts3,
    /// The same of VP9.
    Vp9Ts3,
}

/// Text that names no map.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("expected auto, ipb, split, temporal, vp8-ts3 or vp9-ts3")]
pub struct MapError;

impl Map {
    /// All maps.
    pub const ALL: [Map; 6] = [
        Map::Auto,
        Map::Ipb,
        Map::Split,
        Map::Temporal,
        Map::Vp8Ts3,
        Map::Vp9Ts3,
    ];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Map::Auto => "auto",
            Map::Ipb => "ipb",
            Map::Split => "split",
            Map::Temporal => "temporal",
            Map::Vp8Ts3 => "vp8-ts3",
            Map::Vp9Ts3 => "vp9-ts3",
        }
    }

    /// Whether it needs what only some codecs say of their pictures, or is that of one codec.
    pub const fn needs_references(self) -> bool {
        !matches!(self, Map::Auto | Map::Ipb)
    }

    /// Whether it is by the place of a frame in a stream of VP8 or VP9.
    pub const fn is_by_place(self) -> bool {
        matches!(self, Map::Vp8Ts3 | Map::Vp9Ts3)
    }

    /// Why it does not fit a codec that is named so, and what to do.
    pub fn misfit(self, codec: &str) -> String {
        let what = match self {
            Map::Temporal => {
                "names no temporal layers; give --map auto or --map ipb, or let the encoder make temporal layers (x265: \
                 temporal-layers=1)"
            }
            Map::Vp8Ts3 | Map::Vp9Ts3 => {
                return format!(
                    "--map {self} does not fit: it is for {} in IVF files, and this is {codec}; give --map auto",
                    if self == Map::Vp8Ts3 { "VP8" } else { "VP9" }
                );
            }
            _ => {
                "does not say which pictures others refer to; give --map auto or --map ipb, or encode it as H.264, H.265 or AV1"
            }
        };
        format!("--map {self} does not fit: {codec} {what}")
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Map {
    type Err = MapError;

    fn from_str(text: &str) -> Result<Map, MapError> {
        let found = Map::ALL.into_iter().find(|it| it.name() == text);
        found.ok_or(MapError)
    }
}

/// Pictures per second that the base layer is to have.
const BASE_RATE: u64 = 8;
/// Frames per second of a stream that names none.
pub(crate) const DEFAULT_RATE: FrameRate = FrameRate { num: 25, den: 1 };

/// Splits pictures that no other refers to between E1 and E2, so that each level is evenly spaced, and puts some of them
/// into the base layer where it would have less than 8 pictures a second.
///
/// It judges a picture by those before it in decoding order alone. A run of pictures between two that others refer to
/// alternates: the second of two in E1, the second of three. Runs of one alternate among themselves.
#[derive(Default, Debug)]
pub(crate) struct Split {
    /// Pictures since the last one that others refer to.
    run: u32,
    /// Length of the run before.
    expected: u32,
    /// Pictures since the last one of the base layer, and how many those before it were.
    piece: u32,
    last_piece: u32,
    /// The last picture was in E1.
    last_e1: bool,
}

impl Split {
    /// A picture that others refer to.
    pub fn reference(&mut self) {
        if self.run > 0 {
            self.expected = self.run;
        }
        self.run = 0;
        self.end_piece();
    }

    /// The layer of a picture that no other refers to, in a stream of this rate. Not all such pictures `may_rise` into the
    /// base layer.
    pub fn droppable(&mut self, rate: Option<FrameRate>, may_rise: bool) -> Layer {
        self.run = self.run.saturating_add(1);
        let pictures = u64::from(self.run.max(self.expected)) + 1;
        let parts = pictures.div_ceil(most_apart(rate));
        let part = pictures.div_ceil(parts);
        if may_rise && parts > 1 && u64::from(self.run).is_multiple_of(part) {
            self.end_piece();
            return Layer::Base;
        }
        self.last_e1 = match (self.piece, self.last_piece) {
            (0, 1) | (1.., _) => !self.last_e1,
            _ => false,
        };
        self.piece = self.piece.saturating_add(1);
        match self.last_e1 {
            true => Layer::E1,
            false => Layer::E2,
        }
    }

    fn end_piece(&mut self) {
        if self.piece > 0 {
            self.last_piece = self.piece;
        }
        self.piece = 0;
    }
}

/// How many pictures apart those of the base layer may be.
fn most_apart(rate: Option<FrameRate>) -> u64 {
    let FrameRate { num, den } = rate.unwrap_or(DEFAULT_RATE);
    let (num, den) = (u64::from(num), u64::from(den.max(1)));
    // Half a picture more: 23.976 pictures a second are 24.
    ((2 * num + den) / (2 * den * BASE_RATE)).max(2)
}

/// The layer of a temporal layer, of which `top` is the highest.
pub(crate) fn by_temporal(temporal: u8, top: u8) -> Layer {
    let e1 = top.saturating_sub(1).max(1);
    match temporal {
        _ if temporal < e1 => Layer::Base,
        _ if temporal == e1 => Layer::E1,
        _ => Layer::E2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The layers of a stream in which `b` pictures without references stand behind each that has some.
    fn layers(b: usize, groups: usize, rate: u32) -> String {
        let mut split = Split::default();
        let mut text = String::new();
        for _ in 0..groups {
            split.reference();
            text.push('P');
            for _ in 0..b {
                let rate = Some(FrameRate { num: rate, den: 1 });
                text.push(match split.droppable(rate, true) {
                    Layer::Base => '0',
                    Layer::E1 => '1',
                    Layer::E2 => '2',
                });
            }
        }
        text
    }

    #[test]
    fn levels_are_evenly_spaced() {
        assert_eq!(layers(1, 5, 25), "P2P1P2P1P2");
        assert_eq!(layers(2, 3, 25), "P21P21P21");
        assert_eq!(layers(3, 3, 50), "P212P212P212");
        assert_eq!(layers(4, 2, 50), "P2121P2121");
        assert_eq!(layers(0, 3, 25), "PPP");
    }

    #[test]
    fn the_base_has_eight_pictures_a_second() {
        // Of the first run the length is not known before it ends.
        assert_eq!(layers(3, 3, 25), "P212P201P201");
        assert_eq!(layers(3, 3, 30), "P212P201P201");
        assert_eq!(layers(8, 2, 25)[9..], *"P21021021");
        for b in 0..16 {
            let text = layers(b, 40, 25);
            let settled = &text[2 * (b + 1)..];
            let base = settled.matches(['P', '0']).count();
            assert!(base * 25 >= 8 * settled.len(), "{b}: {settled}");
        }
        // 23.976 pictures a second are 24.
        assert_eq!(
            most_apart(Some(FrameRate {
                num: 24_000,
                den: 1_001
            })),
            3
        );
        assert_eq!(most_apart(Some(FrameRate { num: 5, den: 0 })), 2);
        assert_eq!(most_apart(None), 3);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for map in Map::ALL {
            assert_eq!(map.to_string().parse(), Ok(map));
        }
        assert_eq!("IPB".parse::<Map>(), Err(MapError));
    }

    proptest! {
        /// Pictures that must not rise never do, and no two in a row of a run are of one enhancement layer.
        #[test]
        fn runs_alternate(lengths in prop::collection::vec(0usize..20, 1..40), rate in 1u32..130) {
            let mut split = Split::default();
            for length in lengths {
                split.reference();
                let rate = Some(FrameRate { num: rate, den: 1 });
                let run: Vec<Layer> = (0..length).map(|_| split.droppable(rate, false)).collect();
                prop_assert!(!run.contains(&Layer::Base));
                prop_assert!(run.windows(2).all(|pair| pair[0] != pair[1]));
            }
        }
    }
}
