use super::layers::{Order, Slice};

/// Pictures that may have to wait for one displayed earlier, in streams that do not say.
const REORDER: u32 = 2;

/// The positions of H.264 pictures in display order (8.2.1).
#[derive(Default, Debug)]
pub(crate) struct DisplayOrder {
    msb: i64,
    lsb: u32,
    /// Pictures count by one instead of by two.
    by_one: bool,
    /// The count and the decoding index at the last place where both are known to meet.
    base: Option<(i64, i64)>,
    decoded: i64,
}

impl DisplayOrder {
    /// How many pictures after its decoding a picture is displayed, from its first slice; never
    /// negative. `skipped` frames are missing before it; `restart` if it is a random access point
    /// behind missing frames.
    pub fn delay(&mut self, slice: &Slice, skipped: u64, restart: bool) -> u64 {
        self.decoded = self
            .decoded
            .saturating_add(i64::try_from(skipped).unwrap_or(0))
            .saturating_add(1);
        let Order::Lsb {
            lsb,
            modulus,
            bottom,
        } = slice.order
        else {
            return 0;
        };
        if slice.idr.is_some() {
            (self.msb, self.lsb) = (0, 0);
        }
        let half = modulus / 2;
        let mut msb = self.msb;
        if lsb < self.lsb && self.lsb - lsb >= half {
            msb += i64::from(modulus);
        } else if lsb > self.lsb && lsb - self.lsb > half {
            msb -= i64::from(modulus);
        }
        if slice.reference {
            (self.msb, self.lsb) = (msb, lsb);
        }
        let count = msb + i64::from(lsb) + i64::from(bottom.min(0));
        self.by_one |= slice.field.is_none() && count & 1 == 1;
        if slice.idr.is_some() || restart || self.base.is_none() {
            self.base = Some((count, self.decoded));
        }
        let (count_0, decoded_0) = self.base.unwrap_or_default();
        let pictures = (count - count_0) / if self.by_one { 1 } else { 2 };
        let reorder = i64::from(slice.reorder.unwrap_or(REORDER).min(16));
        let delay = pictures + reorder - (self.decoded - decoded_0);
        // A stream that does not keep to this is displayed in decoding order.
        delay.clamp(0, 64) as u64
    }
}
