use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Span, Time};

use super::packet::RtpPacket;

/// Packets that wait for a missing one at most.
const DEPTH: usize = 48;
/// How long packets wait for a missing one: longer than networks reorder, shorter than the default lead.
pub(crate) const REORDER_TIME: Span = Span::from_ms(100);
/// A jump beyond this begins a new sequence (RFC 3550, A.1).
const MAX_JUMP: u16 = 3_000;

/// A packet that waits for those before it.
#[derive(Debug)]
struct Waiting {
    seq: u16,
    at: Time,
    marker: bool,
    timestamp: u32,
    payload: Bytes,
}

/// Packets that may be missing where a new sequence begins.
const UNKNOWN: u32 = u16::MAX as u32;

/// A packet in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ordered {
    pub marker: bool,
    pub timestamp: u32,
    pub payload: Bytes,
    /// Packets that are missing before it, at most.
    pub missing: u32,
}

/// Puts the packets of one source in order, in bounded memory and time: drops those that come twice or too
/// late, and gives up missing ones when too many wait behind them, or for too long.
#[derive(Default, Debug)]
pub(crate) struct Reorder {
    /// The packet that should come next; none before the first.
    next: Option<u16>,
    /// By sequence number, from `next` on.
    waiting: VecDeque<Waiting>,
    broken: bool,
    stray: Option<u16>,
    pub lost: u64,
    pub dropped: u64,
}

impl Reorder {
    /// Takes a packet. One that is in its place is not kept: gives how many are missing before it, at
    /// most.
    pub fn push(&mut self, now: Time, packet: &RtpPacket) -> Option<u32> {
        let mut next = *self.next.get_or_insert(packet.seq);
        let ahead = packet.seq.wrapping_sub(next);
        if ahead >= MAX_JUMP && ahead.wrapping_neg() > DEPTH as u16 {
            // Two that follow one another begin a new sequence; one alone is a stray.
            let confirmed = self.stray == Some(packet.seq.wrapping_sub(1));
            self.stray = Some(packet.seq);
            if !confirmed {
                self.dropped += 1;
                return None;
            }
            self.dropped += self.waiting.len() as u64;
            self.waiting.clear();
            self.broken = true;
            next = packet.seq;
            self.next = Some(next);
        }
        self.stray = None;
        let ahead = packet.seq.wrapping_sub(next);
        let nothing_waits_for_it = self
            .waiting
            .front()
            .is_none_or(|front| front.seq != packet.seq);
        if ahead == 0 && nothing_waits_for_it {
            self.next = Some(next.wrapping_add(1));
            return Some(self.unknown());
        }
        let place = |it: &Waiting| it.seq.wrapping_sub(next) < ahead;
        let at = self.waiting.partition_point(place);
        let twice = self.waiting.get(at).is_some_and(|it| it.seq == packet.seq);
        if twice || ahead >= MAX_JUMP {
            self.dropped += 1;
            return None;
        }
        let waiting = Waiting {
            seq: packet.seq,
            at: now,
            marker: packet.marker,
            timestamp: packet.timestamp,
            payload: Bytes::copy_from_slice(packet.payload),
        };
        self.waiting.insert(at, waiting);
        None
    }

    /// The next packet in order of those that wait.
    pub fn pop(&mut self, now: Time) -> Option<Ordered> {
        let front = self.waiting.front()?;
        let missing = Some(front.seq) != self.next;
        let patient = self.waiting.len() < DEPTH && self.next_timeout().is_some_and(|at| now < at);
        if missing && patient {
            return None;
        }
        self.take()
    }

    /// When the missing packet that others wait for is given up.
    pub fn next_timeout(&self) -> Option<Time> {
        let first = self.waiting.iter().map(|it| it.at).min()?;
        Some(first.saturating_add(REORDER_TIME))
    }

    /// The next packet that waits, whether packets are missing before it or not: no more will come.
    pub fn take(&mut self) -> Option<Ordered> {
        let Waiting {
            seq,
            marker,
            timestamp,
            payload,
            ..
        } = self.waiting.pop_front()?;
        let missing = seq.wrapping_sub(self.next.unwrap_or(seq));
        self.lost += u64::from(missing);
        self.next = Some(seq.wrapping_add(1));
        Some(Ordered {
            marker,
            timestamp,
            payload,
            missing: u32::from(missing) + self.unknown(),
        })
    }

    /// Packets that may be missing because the sequence begins again.
    fn unknown(&mut self) -> u32 {
        match std::mem::take(&mut self.broken) {
            true => UNKNOWN,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn push(reorder: &mut Reorder, now: Time, seq: u16) -> Option<(u32, u32)> {
        let packet = RtpPacket {
            marker: false,
            payload_type: 96,
            seq,
            timestamp: u32::from(seq),
            ssrc: 1,
            payload: &seq.to_be_bytes(),
        };
        let missing = reorder.push(now, &packet)?;
        Some((u32::from(seq), missing))
    }

    /// The output for packets that arrive at one instant.
    fn passed(reorder: &mut Reorder, now: Time, seqs: &[u16]) -> Vec<(u32, u32)> {
        let mut out = Vec::new();
        for &seq in seqs {
            out.extend(push(reorder, now, seq));
            let more = std::iter::from_fn(|| reorder.pop(now));
            out.extend(more.map(|packet| (packet.timestamp, packet.missing)));
        }
        out
    }

    #[test]
    fn order_is_restored_over_the_wrap_and_duplicates_go() {
        let mut reorder = Reorder::default();
        let seqs = [65_534, 0, 65_535, 65_535, 0, 2, 1, 65_534];
        let expected = [65_534, 65_535, 0, 1, 2].map(|seq| (seq, 0));
        assert_eq!(passed(&mut reorder, at(0), &seqs), expected);
        assert_eq!((reorder.lost, reorder.dropped), (0, 3));
        assert_eq!(reorder.next_timeout(), None);
    }

    #[test]
    fn a_missing_packet_is_given_up_when_too_many_wait() {
        let mut reorder = Reorder::default();
        let seqs: Vec<u16> = [10].into_iter().chain(12..12 + DEPTH as u16).collect();
        let got = passed(&mut reorder, at(0), &seqs);
        assert_eq!(got[..2], [(10, 0), (12, 1)]);
        assert_eq!((got.len(), reorder.lost), (DEPTH + 1, 1));
        // It comes after all.
        assert_eq!(passed(&mut reorder, at(0), &[11]), []);
        assert_eq!(reorder.dropped, 1);
    }

    #[test]
    fn a_missing_packet_is_given_up_in_time() {
        let mut reorder = Reorder::default();
        assert_eq!(passed(&mut reorder, at(0), &[10, 12]), [(10, 0)]);
        assert_eq!(reorder.next_timeout(), Some(at(0) + REORDER_TIME));
        assert_eq!(passed(&mut reorder, at(60), &[13, 15]), []);
        assert!(reorder.pop(at(99)).is_none());
        let mut out = |now| {
            std::iter::from_fn(|| reorder.pop(now))
                .map(|it| (it.timestamp, it.missing))
                .collect::<Vec<_>>()
        };
        assert_eq!(out(at(100)), [(12, 1), (13, 0)]);
        assert_eq!(out(at(159)), []);
        assert_eq!(out(at(160)), [(15, 1)]);
        assert_eq!((reorder.lost, reorder.next_timeout()), (2, None));
    }

    #[test]
    fn a_jump_begins_anew_if_two_packets_follow_one_another() {
        let mut reorder = Reorder::default();
        let seqs = [500, 30_000, 501, 40_000, 40_001];
        let expected = [(500, 0), (501, 0), (40_001, UNKNOWN)];
        assert_eq!(passed(&mut reorder, at(0), &seqs), expected);
        assert_eq!(reorder.dropped, 2);
    }

    proptest! {
        #[test]
        fn memory_and_time_are_bounded_and_the_order_right(
            packets in prop::collection::vec((any::<u16>(), 0u64..40), 0..400)
        ) {
            let mut reorder = Reorder::default();
            let mut last: Option<u16> = None;
            let mut now = Time::ZERO;
            for (seq, later) in packets {
                now += Span::from_ms(later);
                for (seq, missing) in passed(&mut reorder, now, &[seq % 4_096]) {
                    if let Some(last) = last.filter(|_| missing < UNKNOWN) {
                        prop_assert_eq!(seq as u16, last.wrapping_add(1 + missing as u16));
                    }
                    last = Some(seq as u16);
                }
                prop_assert!(reorder.waiting.len() < DEPTH);
                prop_assert!(reorder.next_timeout().is_none_or(|at| at > now));
            }
        }
    }
}
