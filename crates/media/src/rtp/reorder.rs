use std::collections::VecDeque;

use bytes::Bytes;

use super::packet::RtpPacket;

/// Packets waited for at most before a missing one is given up.
const DEPTH: usize = 48;
/// A jump beyond this begins a new sequence (RFC 3550, A.1).
const MAX_JUMP: u16 = 3_000;

/// A packet in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ordered {
    pub marker: bool,
    pub payload_type: u8,
    pub timestamp: u32,
    pub payload: Bytes,
    /// Packets are missing before it.
    pub after_loss: bool,
}

/// Puts packets in order, in bounded memory: drops those that come twice or too late, and gives up
/// missing ones when too many wait behind them.
#[derive(Default, Debug)]
pub(crate) struct Reorder {
    ssrc: Option<u32>,
    /// The packet that should come next.
    next: u16,
    /// By sequence number, from `next` on.
    waiting: VecDeque<(u16, Ordered)>,
    broken: bool,
    stray: Option<u16>,
    pub lost: u64,
    pub dropped: u64,
}

impl Reorder {
    /// Takes a packet.
    pub fn push(&mut self, packet: &RtpPacket) {
        if self.ssrc != Some(packet.ssrc) {
            // Another source, or the same one started again: nothing of before fits.
            let fresh = self.ssrc.is_none();
            self.restart(packet, !fresh);
        }
        let ahead = packet.seq.wrapping_sub(self.next);
        if ahead >= MAX_JUMP && ahead.wrapping_neg() > DEPTH as u16 {
            // Two that follow one another begin a new sequence; one alone is a stray.
            let confirmed = self.stray == Some(packet.seq.wrapping_sub(1));
            self.stray = Some(packet.seq);
            if !confirmed {
                self.dropped += 1;
                return;
            }
            self.restart(packet, true);
        }
        self.stray = None;
        let ahead = packet.seq.wrapping_sub(self.next);
        let at = self
            .waiting
            .partition_point(|(seq, _)| seq.wrapping_sub(self.next) < ahead);
        let twice = self
            .waiting
            .get(at)
            .is_some_and(|(seq, _)| *seq == packet.seq);
        if twice || ahead >= MAX_JUMP {
            self.dropped += 1;
            return;
        }
        let ordered = Ordered {
            marker: packet.marker,
            payload_type: packet.payload_type,
            timestamp: packet.timestamp,
            payload: Bytes::copy_from_slice(packet.payload),
            after_loss: false,
        };
        self.waiting.insert(at, (packet.seq, ordered));
    }

    fn restart(&mut self, packet: &RtpPacket, after_loss: bool) {
        self.ssrc = Some(packet.ssrc);
        self.dropped += self.waiting.len() as u64;
        self.waiting.clear();
        self.next = packet.seq;
        self.broken = after_loss;
    }

    /// The next packet in order.
    pub fn pop(&mut self) -> Option<Ordered> {
        let missing = self.waiting.front()?.0.wrapping_sub(self.next);
        if missing > 0 && self.waiting.len() < DEPTH {
            return None;
        }
        self.take()
    }

    /// The next packet, missing ones or not: no more will come.
    pub fn take(&mut self) -> Option<Ordered> {
        let (seq, mut ordered) = self.waiting.pop_front()?;
        let missing = seq.wrapping_sub(self.next);
        self.lost += u64::from(missing);
        ordered.after_loss = missing > 0 || std::mem::take(&mut self.broken);
        self.next = seq.wrapping_add(1);
        Some(ordered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn push(reorder: &mut Reorder, seq: u16, ssrc: u32) {
        reorder.push(&RtpPacket {
            marker: false,
            payload_type: 96,
            seq,
            timestamp: u32::from(seq),
            ssrc,
            payload: &seq.to_be_bytes(),
        });
    }

    fn drain(reorder: &mut Reorder) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| reorder.pop())
            .map(|packet| (packet.timestamp, packet.after_loss))
            .collect()
    }

    #[test]
    fn order_is_restored_over_the_wrap_and_duplicates_go() {
        let mut reorder = Reorder::default();
        for seq in [65_534, 0, 65_535, 65_535, 0, 2, 1, 65_534] {
            push(&mut reorder, seq, 1);
        }
        let expected = [65_534, 65_535, 0, 1, 2].map(|seq| (seq, false));
        assert_eq!(drain(&mut reorder), expected);
        assert_eq!((reorder.lost, reorder.dropped), (0, 3));
    }

    #[test]
    fn a_missing_packet_is_given_up_and_told() {
        let mut reorder = Reorder::default();
        push(&mut reorder, 10, 1);
        for seq in 12..12 + DEPTH as u16 {
            push(&mut reorder, seq, 1);
        }
        let got = drain(&mut reorder);
        assert_eq!(got[..2], [(10, false), (12, true)]);
        assert_eq!((got.len(), reorder.lost), (DEPTH + 1, 1));
        // It comes after all.
        push(&mut reorder, 11, 1);
        assert_eq!((drain(&mut reorder), reorder.dropped), (vec![], 1));
    }

    #[test]
    fn another_source_and_a_jump_begin_anew() {
        let mut reorder = Reorder::default();
        push(&mut reorder, 10, 1);
        assert_eq!(drain(&mut reorder), [(10, false)]);
        push(&mut reorder, 500, 2);
        assert_eq!(drain(&mut reorder), [(500, true)]);
        for seq in [30_000, 501, 40_000, 40_001] {
            push(&mut reorder, seq, 2);
        }
        assert_eq!(drain(&mut reorder), [(40_001, true)]);
        assert_eq!(reorder.dropped, 3);
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_the_order_right(
            packets in prop::collection::vec((any::<u16>(), 0u32..2), 0..400)
        ) {
            let mut reorder = Reorder::default();
            let mut last: Option<u16> = None;
            for (seq, ssrc) in packets {
                push(&mut reorder, seq % 4_096, ssrc);
                while let Some(packet) = reorder.pop() {
                    let seq = packet.timestamp as u16;
                    if let Some(last) = last.filter(|_| !packet.after_loss) {
                        prop_assert_eq!(seq, last.wrapping_add(1));
                    }
                    last = Some(seq);
                }
                prop_assert!(reorder.waiting.len() < DEPTH);
            }
        }
    }
}
