use layercast_core::{FrameRate, Layer};
use memchr::memmem;

use super::nal;
use crate::Picture;
use crate::map::{Map, Split, by_temporal};

/// What an access unit is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    kind: u8,
    temporal: u8,
    /// It carries parameter sets, and all three kinds of them.
    has_sets: bool,
    has_all_sets: bool,
    /// Temporal layers of the stream, if it says so here.
    layers: Option<u8>,
}

impl Unit {
    /// Reads an access unit in Annex B form; `None` if it has no picture.
    pub fn read(data: &[u8]) -> Option<Unit> {
        let (mut sets, mut layers) = (0, None);
        for at in memmem::find_iter(data, &[0, 0, 1]) {
            let Some(&[first, second]) = data.get(at + 3..).and_then(<[u8]>::first_chunk) else {
                continue;
            };
            let (kind, layer) = (first >> 1 & 63, (first & 1) << 5 | second >> 3);
            if layer != 0 {
                // Of a scalable or multiview extension.
                continue;
            }
            match kind {
                nal::VPS | nal::PPS => sets |= 1 << (kind - nal::VPS),
                nal::SPS => {
                    sets |= 1 << (kind - nal::VPS);
                    // `sps_max_sub_layers_minus1` (7.3.2.2.1).
                    layers = data.get(at + 5).map(|byte| (byte >> 1 & 7) + 1);
                }
                0..=nal::LAST_PICTURE => {
                    let temporal = (second & 7).saturating_sub(1);
                    return Some(Unit {
                        kind,
                        temporal,
                        has_sets: sets != 0,
                        has_all_sets: sets == 0b111,
                        layers,
                    });
                }
                _ => {}
            }
        }
        None
    }

    /// A random access picture (IRAP).
    pub fn is_start(self) -> bool {
        (nal::FIRST_IRAP..=nal::LAST_IRAP).contains(&self.kind)
    }

    /// It carries parameter sets.
    pub fn has_sets(self) -> bool {
        self.has_sets
    }

    /// It carries the parameter sets that a decoder needs to start at it.
    pub fn brings_sets(self) -> bool {
        self.has_all_sets
    }

    /// Its place in the count of pictures in display order is what those of later ones are relative to (8.3.1).
    pub fn is_anchor(self) -> bool {
        const RADL_N: u8 = 6;
        self.temporal == 0 && self.is_reference() && !(RADL_N..=nal::RASL_R).contains(&self.kind)
    }

    /// Refers to pictures before the last random access picture, though it comes behind it (RASL).
    pub fn is_skipped_leading(self) -> bool {
        matches!(self.kind, nal::RASL_N | nal::RASL_R)
    }

    /// No picture refers to pictures before it.
    pub fn is_closed_start(self) -> bool {
        matches!(self.kind, nal::IDR_W_RADL | nal::IDR_N_LP)
    }

    /// Whether other pictures of its temporal layer refer to it.
    fn is_reference(self) -> bool {
        is_reference(self.kind)
    }

    /// How it is coded, as its header shows.
    pub fn picture(self) -> Picture {
        picture_of(self.kind, self.temporal)
    }
}

/// How a picture is coded, as the type and the temporal layer of its NAL units show.
pub(crate) fn picture_of(kind: u8, temporal: u8) -> Picture {
    match kind {
        nal::FIRST_IRAP..=nal::LAST_IRAP => Picture::I,
        _ if temporal == 0 && is_reference(kind) => Picture::P,
        _ => Picture::B,
    }
}

/// Whether other pictures of its temporal layer refer to one with NAL units of this type.
fn is_reference(kind: u8) -> bool {
    kind > nal::LAST_NON_REFERENCE || kind % 2 == 1
}

/// Gives pictures their layers.
///
/// A picture refers to pictures of its temporal layer that are references there, and to any of lower ones (7.4.2.2). The
/// highest two temporal layers are E2 and E1, all below BL. Pictures of the highest one that no other refers to are split
/// where that leaves a level empty. Slice types say nothing: most B pictures of H.265 are references.
#[derive(Default, Debug)]
pub(crate) struct Layers {
    pub map: Map,
    /// Pictures per second, if known.
    pub rate: Option<FrameRate>,
    /// Width and height of the pictures, once an SPS came.
    pub size: Option<(u32, u32)>,
    /// The highest temporal layer; `None` until the stream says how many it has.
    top: Option<u8>,
    /// The highest that was seen, once a picture between two starts was.
    seen: Option<u8>,
    /// Pictures of the highest temporal layer refer to each other.
    top_refers: bool,
    split: Split,
}

impl Layers {
    /// The layer that carries a unit, which is the next one in decoding order.
    pub fn layer(&mut self, unit: Unit) -> Layer {
        if let Some(layers) = unit.layers {
            self.declare(unit, layers);
        }
        if unit.is_start() {
            self.split.reference();
            return Layer::Base;
        }
        let (temporal, is_reference) = (unit.temporal, unit.is_reference());
        self.seen = self.seen.max(Some(temporal));
        let top = self.top.unwrap_or(0);
        match self.map {
            Map::Ipb if is_reference && temporal == 0 => Layer::E1,
            Map::Ipb => Layer::E2,
            Map::Temporal | Map::Vp8Ts3 | Map::Vp9Ts3 => by_temporal(temporal, top),
            Map::Auto if top >= 2 => by_temporal(temporal, top),
            // More than the stream says to have: they may refer to any picture.
            _ if temporal > top => Layer::E2,
            Map::Split if is_reference || temporal < top => self.base(),
            Map::Split => self.droppable(unit, true),
            Map::Auto if temporal < top => self.base(),
            Map::Auto if top == 0 && is_reference => self.base(),
            Map::Auto if top == 0 => self.droppable(unit, true),
            Map::Auto if is_reference => {
                self.top_refers = true;
                Layer::E1
            }
            Map::Auto if self.top_refers => Layer::E2,
            // It may refer to pictures of E1.
            Map::Auto => self.droppable(unit, false),
        }
    }

    /// Whether the stream has, or says to have, several temporal layers.
    pub fn has_temporal_layers(&self) -> bool {
        self.top.max(self.seen) > Some(0)
    }

    /// Temporal layers count from a closed start on: pictures behind another start may refer to pictures before it, which
    /// have their layers. A stream may use less of them than it says to have.
    fn declare(&mut self, unit: Unit, layers: u8) {
        if unit.is_closed_start() || self.top.is_none() {
            let said = layers.saturating_sub(1);
            self.top = Some(self.seen.map_or(said, |seen| seen.min(said)));
            self.top_refers = false;
        }
    }

    fn base(&mut self) -> Layer {
        self.split.reference();
        Layer::Base
    }

    /// A picture that no other refers to. New parameter sets hold for pictures of its temporal layer and above: those of a
    /// picture that may rise are in the base layer.
    fn droppable(&mut self, unit: Unit, may_rise: bool) -> Layer {
        match unit.has_sets && may_rise {
            true => self.base(),
            false => self.split.droppable(self.rate, may_rise),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A picture of this type and temporal layer, behind an SPS that names this number of layers.
    fn unit(kind: u8, temporal: u8, layers: Option<u8>) -> Vec<u8> {
        let mut data = vec![0, 0, 0, 1, 0x46, 1, 0x50];
        if let Some(layers) = layers {
            data.extend_from_slice(&[0, 0, 1, nal::SPS << 1, 1, (layers - 1) << 1 | 1]);
        }
        data.extend_from_slice(&[0, 0, 1, kind << 1, temporal + 1, 0x80]);
        data
    }

    const IDR: u8 = nal::IDR_W_RADL;
    const CRA: u8 = 21;
    /// Trailing pictures, and those of the highest layer with (`TSA`).
    const N: u8 = 0;
    const R: u8 = 1;
    const TSA_N: u8 = 2;
    const TSA_R: u8 = 3;

    /// The layers of pictures of these types and temporal layers behind a start that names `layers`.
    fn layers(map: Map, layers: u8, pictures: &[(u8, u8)]) -> Vec<Layer> {
        let mut of = Layers {
            map,
            ..Layers::default()
        };
        let start = Unit::read(&unit(IDR, 0, Some(layers))).expect("a picture");
        assert_eq!(of.layer(start), Layer::Base);
        let read = |&(kind, temporal): &(u8, u8)| {
            let unit = Unit::read(&unit(kind, temporal, None)).expect("a picture");
            of.layer(unit)
        };
        pictures.iter().map(read).collect()
    }

    #[test]
    fn references_are_the_base_where_there_is_one_temporal_layer() {
        use Layer::{Base, E1, E2};
        let mini_gop = [(R, 0), (R, 0), (N, 0), (N, 0)].repeat(2);
        assert_eq!(
            layers(Map::Auto, 1, &mini_gop),
            [Base, Base, E2, E1].repeat(2)
        );
        assert_eq!(layers(Map::Ipb, 1, &mini_gop), [E1, E1, E2, E2].repeat(2));
        assert_eq!(layers(Map::Temporal, 1, &mini_gop), [Base; 8]);
    }

    #[test]
    fn pictures_rise_into_the_base_as_the_rate_needs() {
        let base = |rate: u32| {
            let mut of = Layers {
                rate: Some(FrameRate { num: rate, den: 1 }),
                ..Layers::default()
            };
            let mut layer = |kind| of.layer(Unit::read(&unit(kind, 0, None)).expect("a picture"));
            let mut layers = Vec::new();
            for _ in 0..4 {
                layers.push(layer(R));
                layers.extend([layer(N), layer(N), layer(N)]);
            }
            layers.iter().filter(|it| **it == Layer::Base).count()
        };
        // At 25 pictures/s every fourth is not enough; of the first run the length is not known.
        assert_eq!((base(50), base(25)), (4, 7));
    }

    #[test]
    fn temporal_layers_are_levels() {
        use Layer::{Base, E1, E2};
        // x265 with temporal-layers=1: nothing refers to the upper one, which is split.
        let two = [(R, 0), (R, 0), (TSA_N, 1), (TSA_N, 1)].repeat(2);
        assert_eq!(layers(Map::Auto, 2, &two), [Base, Base, E2, E1].repeat(2));
        assert_eq!(
            layers(Map::Temporal, 2, &two),
            [Base, Base, E1, E1].repeat(2)
        );
        // An upper one with references has both.
        let refers = [(R, 0), (TSA_R, 1), (N, 1)].repeat(2);
        assert_eq!(layers(Map::Auto, 2, &refers), [Base, E1, E2].repeat(2));
        let four = [(R, 0), (TSA_R, 1), (TSA_R, 2), (TSA_N, 3)];
        assert_eq!(layers(Map::Auto, 4, &four), [Base, Base, E1, E2]);
        assert_eq!(layers(Map::Split, 4, &four), [Base, Base, Base, E2]);
        let three = &four[..3];
        assert_eq!(layers(Map::Auto, 3, three), [Base, E1, E2]);
        // More than the stream says to have.
        assert_eq!(layers(Map::Auto, 1, three), [Base, E2, E2]);
    }

    #[test]
    fn what_the_stream_uses_counts_from_the_next_closed_start_on() {
        let mut of = Layers::default();
        let mut layer = |kind, temporal, said| {
            let unit = Unit::read(&unit(kind, temporal, said)).expect("a picture");
            of.layer(unit)
        };
        assert_eq!(layer(IDR, 0, Some(4)), Layer::Base);
        assert_eq!(layer(N, 0, None), Layer::Base);
        // Pictures that lead an open start may refer to those before it.
        assert_eq!(layer(CRA, 0, Some(4)), Layer::Base);
        assert_eq!(layer(N, 0, None), Layer::Base);
        assert_eq!(layer(IDR, 0, Some(4)), Layer::Base);
        assert_eq!(layer(N, 0, None), Layer::E2);
        assert_eq!(layer(N, 0, None), Layer::E1);
    }

    proptest! {
        /// Whatever comes: no picture is in a layer below one that it may refer to, up to the next start.
        #[test]
        fn nothing_refers_to_a_higher_layer(
            pictures in prop::collection::vec((0u8..10, 0u8..7), 1..60),
            said in 1u8..8,
            map in 0usize..4,
        ) {
            let kinds: Vec<(u8, u8)> = pictures.iter().map(|&(kind, temporal)| (kind % 4, temporal)).collect();
            let found = layers(Map::ALL[map], said, &kinds);
            for (at, &(_, temporal)) in kinds.iter().enumerate() {
                for (before, &(kind, of)) in kinds[..at].iter().enumerate() {
                    let may_refer = of < temporal || of == temporal && kind % 2 == 1;
                    prop_assert!(!may_refer || found[before] <= found[at], "{kinds:?} {found:?}");
                }
            }
        }

        #[test]
        fn any_bytes_are_safe(data in prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..200)) {
            if let Some(unit) = Unit::read(&data) {
                let mut of = Layers::default();
                prop_assert!(!unit.is_start() || of.layer(unit) == Layer::Base);
                of.layer(unit);
            }
        }
    }
}
