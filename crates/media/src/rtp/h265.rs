use layercast_core::Serial;

use super::nal::{Fragment, NalCodec, Shape, Torn};
use super::pictures::{Fit, period_of, stamped};
use crate::Map;
use crate::h265::{AccessUnit, Cutter, References, nal};
use crate::live::{Stamp, TimedFrame};
use crate::order::DisplayOrder;

/// Single NAL units up to this type are as they are (RFC 7798, 4.4).
const LAST_SINGLE: u8 = 47;
pub(crate) const AGGREGATION: u8 = 48;
pub(crate) const FRAGMENTATION: u8 = 49;

/// H.265 over RTP (RFC 7798) in decoding order, so that there are no DONL fields.
#[derive(Default, Debug)]
pub(crate) struct H265 {
    cutter: Cutter,
    order: DisplayOrder,
    references: References,
    /// A frame to start at was given.
    begun: bool,
}

impl NalCodec for H265 {
    type Unit = AccessUnit;
    const HEAD: usize = 2;
    const FRAGMENT_HEAD: usize = 3;
    const NAME: &'static str = "H.265";

    fn shape(payload: &[u8]) -> Shape<'_> {
        // Some senders leave a start code before the NAL unit.
        if payload.starts_with(&[0, 0, 1]) || payload.starts_with(&[0, 0, 0, 1]) {
            return Shape::Single(payload);
        }
        let Some((kind, _)) = nal::head(payload) else {
            return Shape::Malformed;
        };
        match (kind, payload) {
            (0..=LAST_SINGLE, _) => Shape::Single(payload),
            (AGGREGATION, [_, _, all @ ..]) => Shape::Together(all),
            (FRAGMENTATION, &[first, second, header, ref data @ ..]) => Shape::Fragment(Fragment {
                head: [first & 0x81 | (header & 0x3F) << 1, second],
                head_len: 2,
                first: header & 0x80 != 0,
                last: header & 0x40 != 0,
                data,
            }),
            // PACI packets are not used by senders.
            _ => Shape::Malformed,
        }
    }

    fn fit(&self, head: &[u8]) -> Fit {
        match nal::head(head) {
            None => Fit::Forbidden,
            // Reserved (table 7-1), and layers beyond those of any extension.
            Some((10..=15 | 22..=31 | 41..=47, _) | (_, 32..)) => Fit::Odd,
            Some(_) => Fit::Fits,
        }
    }

    fn is_of_other_mode(payload: &[u8]) -> bool {
        const PACI: u8 = 50;
        matches!(nal::head(payload), Some((PACI, 0..32)))
    }

    fn is_slice(nal: &[u8]) -> bool {
        matches!(nal::head(nal), Some((0..=nal::LAST_PICTURE, _)))
    }

    fn says(nal: &[u8]) -> Torn {
        match nal::head(nal) {
            Some((nal::FIRST_IRAP..=nal::LAST_IRAP, _)) => Torn::Start,
            Some((0..=nal::LAST_PICTURE, _)) => Torn::Referenced,
            _ => Torn::Unknown,
        }
    }

    fn fragment_head(nal: &[u8]) -> ([u8; 3], usize) {
        let head = [
            nal[0] & 0x81 | FRAGMENTATION << 1,
            nal[1],
            nal[0] >> 1 & 0x3F,
        ];
        (head, 2)
    }

    fn join_head(head: &mut Vec<u8>, nal: &[u8]) {
        // The lowest layer and the lowest temporal layer of all (4.4.2).
        let id = |head: &[u8]| u16::from(head[0] & 1) << 8 | u16::from(head[1]);
        let (layer, temporal) = (id(nal) & 0x1F8, id(nal) & 7);
        let (layer, temporal) = match head.len() {
            0 => (layer, temporal),
            _ => (layer.min(id(head) & 0x1F8), temporal.min(id(head) & 7)),
        };
        if head.is_empty() {
            head.extend_from_slice(&[0, 0]);
        }
        let id = layer | temporal;
        head[0] = AGGREGATION << 1 | (id >> 8) as u8;
        head[1] = id as u8;
    }

    fn set_map(&mut self, map: Map) {
        self.cutter.layers.map = map;
    }

    fn take_set(&mut self, set: &[u8]) {
        self.cutter.sets.take(set);
    }

    fn has_temporal_layers(&self) -> bool {
        self.cutter.layers.has_temporal_layers()
    }

    fn lacks_parameter_sets(&self) -> Option<u64> {
        let lacks = !self.cutter.sets.are_complete() && self.cutter.unread > 0;
        lacks.then_some(self.cutter.unread)
    }

    fn push(&mut self, nal: &[u8]) -> Option<AccessUnit> {
        self.cutter.push(nal)
    }

    fn clear(&mut self) {
        self.cutter.clear();
    }

    fn finish(&mut self) -> Option<AccessUnit> {
        self.cutter.finish()
    }

    /// Always: slices without the first one make no access unit.
    fn begins(_: &AccessUnit) -> bool {
        true
    }

    fn frame(&mut self, unit: AccessUnit, _: Serial, stamp: Stamp) -> Option<TimedFrame> {
        let judged = self.references.take(&unit.data)?;
        self.begun |= unit.gop_start;
        if !self.begun || !judged.decodable {
            return None;
        }
        let format = self.cutter.sets.format();
        let period = period_of(format.and_then(|format| format.rate));
        let early = judged
            .place
            .map_or(0, |place| self.order.delay(place, 0, unit.gop_start));
        Some(stamped(unit.into_frame(), stamp, early, period))
    }

    fn leave_out(&mut self, torn: Torn) {
        // Pictures name those that they refer to; behind a start the names begin again.
        if torn == Torn::Start {
            self.references.lose_all();
        }
    }

    fn lose(&mut self) {
        self.references.lose();
    }
}
