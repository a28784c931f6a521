//! When pictures are displayed that are decoded in another order.

use crate::h264::{self, Order};
use crate::h265;

/// Most pictures that the standards let wait.
const MAX_REORDER: i64 = 16;
/// Pictures that may have to wait for one displayed earlier, in streams that do not say.
const REORDER: u32 = 2;

/// What a picture says of its place in display order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Low bits of its count, and their modulus; `None`: output order is decoding order.
    lsb: Option<(u32, u32)>,
    /// Of a frame whose bottom field is displayed first, how much its count is less.
    bottom: i32,
    /// The count begins again.
    restarts: bool,
    /// The counts of later pictures are relative to its own.
    is_anchor: bool,
    /// Pictures may count by two.
    may_skip: bool,
    /// Pictures that may be decoded before one that is displayed earlier, if the stream says so.
    reorder: Option<u32>,
}

impl Place {
    /// Of an H.264 picture, by its first slice (ITU-T Rec. H.264, 8.2.1).
    pub fn h264(slice: &h264::Slice) -> Place {
        let (lsb, bottom) = match slice.order {
            Order::Lsb {
                lsb,
                modulus,
                bottom,
            } => (Some((lsb, modulus)), bottom),
            Order::Delta(_) | Order::Decoding => (None, 0),
        };
        // The modulus is even: the count is as its low bits are.
        let is_even = |(lsb, _): (u32, u32)| (i64::from(lsb) + i64::from(bottom.min(0))) & 1 == 0;
        Place {
            lsb,
            bottom,
            restarts: slice.idr.is_some(),
            is_anchor: slice.reference,
            may_skip: slice.field.is_some() || lsb.is_none_or(is_even),
            reorder: slice.reorder,
        }
    }

    /// Of an H.265 picture (ITU-T Rec. H.265, 8.3.1).
    pub fn h265(unit: h265::Unit, slice: &h265::Slice) -> Place {
        Place {
            lsb: Some((slice.lsb, slice.modulus)),
            bottom: 0,
            restarts: unit.is_closed_start(),
            is_anchor: unit.is_anchor(),
            may_skip: false,
            reorder: Some(slice.reorder),
        }
    }
}

/// The positions of pictures in display order.
#[derive(Default, Debug)]
pub(crate) struct DisplayOrder {
    msb: i64,
    lsb: u32,
    /// Pictures count by one instead of by two.
    by_one: bool,
    /// The count and the decoding index at the last place where both are known to meet.
    base: Option<(i64, i64)>,
    decoded: i64,
    /// The longest delay since then.
    longest: i64,
}

impl DisplayOrder {
    /// How many pictures after its decoding a picture is displayed; never negative. `skipped` frames are missing before it;
    /// `restart` if it is a random access point behind missing frames.
    pub fn delay(&mut self, place: Place, skipped: u64, restart: bool) -> u64 {
        self.decoded = self
            .decoded
            .saturating_add(i64::try_from(skipped).unwrap_or(0))
            .saturating_add(1);
        let Some((lsb, modulus)) = place.lsb else {
            return 0;
        };
        if place.restarts {
            (self.msb, self.lsb) = (0, 0);
        }
        let half = modulus / 2;
        let mut msb = self.msb;
        if lsb < self.lsb && self.lsb - lsb >= half {
            msb += i64::from(modulus);
        } else if lsb > self.lsb && lsb - self.lsb > half {
            msb -= i64::from(modulus);
        }
        if place.is_anchor {
            (self.msb, self.lsb) = (msb, lsb);
        }
        let count = msb + i64::from(lsb) + i64::from(place.bottom.min(0));
        self.by_one |= !place.may_skip;
        let reorder = i64::from(place.reorder.unwrap_or(REORDER)).min(MAX_REORDER);
        let step = if self.by_one { 1 } else { 2 };
        let decoded = self.decoded;
        let delay_from = |(count_0, decoded_0): (i64, i64)| {
            (count - count_0) / step + reorder - (decoded - decoded_0)
        };
        // A start of an open GOP is displayed behind pictures that follow it: where the count continues it is kept.
        let is_continued = |base| (0..=self.longest).contains(&delay_from(base));
        let base = match self.base {
            Some(base) if !place.restarts && (!restart || is_continued(base)) => base,
            _ => {
                self.longest = 0;
                (count, decoded)
            }
        };
        self.base = Some(base);
        let delay = delay_from(base);
        self.longest = self.longest.max(delay.min(2 * MAX_REORDER));
        // A stream that does not keep to this is displayed in decoding order.
        delay.clamp(0, 64) as u64
    }
}
