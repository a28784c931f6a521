use layercast_core::Serial;

use super::nal::{Fragment, NalCodec, Shape, Torn};
use super::pictures::{Fit, period_of, stamped};
use crate::h264::{Cutter, Unit, nal};
use crate::live::{Stamp, TimedFrame};
use crate::order::{DisplayOrder, Place};
use crate::{H264Writer, Map, Picture};

/// Single NAL units up to this type are as they are (RFC 6184, table 1).
const LAST_SINGLE: u8 = 23;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;

/// H.264 over RTP (RFC 6184, non-interleaved mode).
#[derive(Default, Debug)]
pub(crate) struct H264 {
    cutter: Cutter,
    order: DisplayOrder,
    /// Leaves out what cannot be decoded after a loss.
    guard: H264Writer,
    /// The last unit that was looked at.
    last: Serial,
    /// Units since then that were left out, to which no other refers.
    unreferenced: u32,
}

impl NalCodec for H264 {
    type Unit = Unit;
    const HEAD: usize = 1;
    const FRAGMENT_HEAD: usize = 2;
    const NAME: &'static str = "H.264";

    fn shape(payload: &[u8]) -> Shape<'_> {
        match (nal::kind(payload), payload) {
            (1..=LAST_SINGLE, _) => Shape::Single(payload),
            (STAP_A, [_, all @ ..]) => Shape::Together(all),
            (FU_A, &[indicator, header, ref data @ ..]) => Shape::Fragment(Fragment {
                head: [indicator & 0xE0 | header & 0x1F, 0],
                head_len: 1,
                first: header & 0x80 != 0,
                last: header & 0x40 != 0,
                data,
            }),
            // A start code, which some senders leave before the NAL unit.
            (0, [0, 0, 1, ..] | [0, 0, 0, 1, ..]) => Shape::Single(payload),
            // STAP-B, MTAP and FU-B belong to the interleaved mode, which is never offered.
            _ => Shape::Malformed,
        }
    }

    fn fit(&self, head: &[u8]) -> Fit {
        let has_partitions = || self.cutter.inspector.sets.have_partitions();
        match (head.first(), nal::kind(head)) {
            (None | Some(0x80..), _) => Fit::Forbidden,
            (_, nal::PARTITION_A..=nal::PARTITION_C) if !has_partitions() => Fit::Forbidden,
            // Reserved or unspecified (table 7-1).
            (_, 0 | 16..=nal::RESERVED_18 | 22..) => Fit::Odd,
            _ => Fit::Fits,
        }
    }

    fn is_of_other_mode(payload: &[u8]) -> bool {
        /// STAP-B, MTAP16, MTAP24, FU-B (RFC 6184), PACSI (RFC 6190).
        const OTHERS: [u8; 5] = [25, 26, 27, 29, 30];
        payload.first().is_some_and(|it| it & 0x80 == 0) && OTHERS.contains(&nal::kind(payload))
    }

    fn is_slice(nal: &[u8]) -> bool {
        (nal::SLICE..=nal::IDR).contains(&nal::kind(nal))
    }

    fn says(nal: &[u8]) -> Torn {
        match (Self::is_slice(nal), nal::kind(nal)) {
            (false, _) => Torn::Unknown,
            (true, nal::IDR) => Torn::Start,
            (true, _) if nal::is_reference(nal) => Torn::Referenced,
            (true, _) => Torn::Unreferenced,
        }
    }

    fn fragment_head(nal: &[u8]) -> ([u8; 3], usize) {
        ([nal[0] & 0xE0 | FU_A, nal[0] & 0x1F, 0], 1)
    }

    fn join_head(head: &mut Vec<u8>, nal: &[u8]) {
        if head.is_empty() {
            head.push(STAP_A);
        }
        head[0] = head[0].max(nal[0] & 0x60 | STAP_A);
    }

    fn set_map(&mut self, map: Map) {
        self.cutter.inspector.map = map;
    }

    fn take_set(&mut self, set: &[u8]) {
        self.cutter.inspector.sets.take(set);
    }

    fn has_temporal_layers(&self) -> bool {
        self.cutter.inspector.has_temporal_layers()
    }

    fn lacks_parameter_sets(&self) -> Option<u64> {
        let inspector = &self.cutter.inspector;
        let lacks = !inspector.sets.are_complete() && inspector.unread() > 0;
        lacks.then(|| inspector.unread())
    }

    fn push(&mut self, nal: &[u8]) -> Option<Unit> {
        self.cutter.push(nal)
    }

    fn clear(&mut self) {
        self.cutter.clear();
    }

    fn finish(&mut self) -> Option<Unit> {
        self.cutter.finish()
    }

    fn begins(unit: &Unit) -> bool {
        unit.info.first.as_ref().is_some_and(|slice| slice.top)
    }

    fn frame(&mut self, unit: Unit, seq: Serial, stamp: Stamp) -> Option<TimedFrame> {
        let (layer, gop_start) = (unit.layer, unit.info.gop_start());
        // Each that is missing may be one to start at, or one that others refer to.
        let gap = u32::try_from(seq.diff(self.last) - 1).unwrap_or(0);
        let gap = gap.saturating_sub(std::mem::take(&mut self.unreferenced));
        self.guard.set_missing(gap, 0);
        self.last = seq;
        let mut kept = Vec::new();
        self.guard
            .frame(seq, layer, gop_start, &unit.data, &mut kept);
        if kept.is_empty() {
            return None;
        }
        let format = self.cutter.inspector.sets.format();
        let period = period_of(format.and_then(|format| format.frame_rate));
        let early = match &unit.info.first {
            Some(slice) if unit.info.picture() != Picture::Data => {
                self.order.delay(Place::h264(slice), 0, gop_start)
            }
            _ => 0,
        };
        Some(stamped(unit.into_frame(), stamp, early, period))
    }

    fn leave_out(&mut self, torn: Torn) {
        match torn {
            // The numbers of those that follow tell whether others refer to it.
            Torn::Unknown => {}
            Torn::Unreferenced => self.unreferenced += 1,
            Torn::Referenced | Torn::Start => self.guard.lose(),
        }
    }

    fn lose(&mut self) {
        self.guard.lose();
    }
}
