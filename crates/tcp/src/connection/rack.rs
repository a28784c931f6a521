//! RACK-TLP (RFC 8985): losses are found by the times at which segments were sent, and probes find the loss of the last ones.
//!
//! That an original arrived although it was sent again is seen by the timestamp that is echoed, or by the peer's report of the
//! duplicate (D-SACK, RFC 2883).

use std::collections::VecDeque;

use layercast_core::{Span, Time};

use crate::scoreboard::Scoreboard;

/// Part of the least round trip that a segment may come late, at first.
const WINDOW: u64 = 4;
/// Quarters beyond which the smoothed round trip limits the window in any case.
const MAX_WIDER: u32 = 1 << 10;
/// Recoveries for which the reordering window stays as wide as duplicates have made it.
const PERSISTENCE: u32 = 16;
/// Probe time-out without a round trip.
const FIRST_PROBE: Span = Span::from_secs(1);
/// What the receiver may delay the acknowledgement of a single segment by.
const MAX_ACK_DELAY: Span = Span::from_ms(200);
/// Records of segments at most: when there are more, the rest is one record.
const MAX_RECORDS: usize = 1 << 15;

/// What was sent together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    from: u64,
    to: u64,
    at: Time,
    /// Its place among all that was sent: several segments leave at one instant of a simulation.
    order: u64,
    /// It was sent before.
    again: bool,
    lost: bool,
    sacked: bool,
}

/// A probe for the loss of the last segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Probe {
    /// The end of all that was sent when it was.
    end: u64,
    again: bool,
}

/// What its timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Segments may count as lost now.
    Losses,
    /// A probe is to be sent.
    Probe,
}

/// What a probe has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probed {
    /// Nothing is known yet, or nothing was lost.
    Nothing,
    /// It mended the loss of the last segment.
    Mended,
}

/// State of one connection.
#[derive(Default, Debug)]
pub(super) struct Rack {
    /// From the first unacknowledged byte on, in the order of the stream.
    records: VecDeque<Sent>,
    /// Segments sent so far.
    order: u64,
    /// The place of the segment sent last of those that arrived.
    newest: u64,
    /// Its round trip.
    rtt: Span,
    least: Option<Span>,
    /// The highest end that arrived.
    highest: u64,
    is_reordered: bool,
    /// What the reordering window is more than a quarter of the least round trip, in such quarters, and for how many recoveries.
    wider: u32,
    persists: u32,
    /// A duplicate was reported before this was acknowledged: another one tells nothing more.
    round: Option<u64>,
    /// Segments that the peer has beyond a gap, and those sent again that are not acknowledged.
    sacked: u32,
    again: u32,
    /// Segments found lost so far.
    found: u64,
    probe: Option<Probe>,
    /// A round trip was measured since the last probe.
    is_fresh: bool,
    due: Option<Due>,
    /// A probe is to be sent now.
    pub(super) probes: bool,
}

impl Rack {
    /// `from..to` has left.
    pub(super) fn sends(&mut self, now: Time, from: u64, to: u64) {
        self.order += 1;
        let order = self.order;
        let end = self.records.back().map_or(from, |it| it.to);
        if from < end {
            let to = to.min(end);
            self.split(from);
            self.split(to);
            let first = self.records.partition_point(|it| it.from < from);
            for record in self.records.range_mut(first..) {
                if record.from >= to {
                    break;
                }
                if !record.sacked {
                    self.again += u32::from(!record.again);
                    (record.at, record.order) = (now, order);
                    (record.again, record.lost) = (true, false);
                }
            }
        }
        let from = from.max(end);
        if from < to {
            let is_full = self.records.len() >= MAX_RECORDS;
            match self.records.back_mut() {
                Some(last) if is_full => (last.to, last.at, last.order) = (to, now, order),
                _ => self.records.push_back(Sent {
                    from,
                    to,
                    at: now,
                    order,
                    again: false,
                    lost: false,
                    sacked: false,
                }),
            }
        }
    }

    /// Makes a record begin at `at`, if one goes across it.
    fn split(&mut self, at: u64) {
        let place = self.records.partition_point(|it| it.to <= at);
        let has_room = self.records.len() < 2 * MAX_RECORDS;
        if let Some(record) = self.records.get_mut(place)
            && record.from < at
            && has_room
        {
            let rest = Sent {
                from: at,
                ..*record
            };
            record.to = at;
            self.again += u32::from(rest.again);
            self.sacked += u32::from(rest.sacked);
            self.records.insert(place + 1, rest);
        }
    }

    /// Takes a cumulative acknowledgement up to `at`. `is_of_original` tells of a segment sent again at some time whether what was
    /// acknowledged is what was sent before.
    pub(super) fn acked(&mut self, now: Time, at: u64, is_of_original: impl Fn(Time) -> bool) {
        self.split(at);
        let mut is_first = true;
        while let Some(record) = self.records.pop_front_if(|it| it.to <= at) {
            self.again -= u32::from(record.again);
            self.sacked -= u32::from(record.sacked);
            if !record.sacked {
                // The timestamp is that of the segment that filled the gap. If something that was sent later arrived before it, the
                // original was not lost, but late.
                let is_original = is_first && record.again && is_of_original(record.at);
                self.is_reordered |= is_original && record.to < self.highest;
                self.arrived(now, record, is_original);
            }
            is_first = false;
        }
    }

    /// Takes what was acknowledged selectively in this block.
    pub(super) fn sacked(&mut self, now: Time, (from, to): (u64, u64)) {
        self.split(from);
        self.split(to);
        let first = self.records.partition_point(|it| it.from < from);
        for place in first..self.records.len() {
            let record = self.records[place];
            if record.to > to {
                break;
            }
            if !record.sacked {
                self.records[place].sacked = true;
                self.records[place].lost = false;
                self.sacked += 1;
                self.arrived(now, record, false);
            }
        }
    }

    /// Steps 1 to 3 of section 6.2.
    fn arrived(&mut self, now: Time, record: Sent, is_original: bool) {
        if record.to > self.highest {
            self.highest = record.to;
        } else if record.to < self.highest && !record.again {
            self.is_reordered = true;
        }
        let rtt = now.since(record.at);
        if record.again {
            if is_original || self.least.is_some_and(|least| rtt < least) {
                return;
            }
        } else {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.is_fresh = true;
        }
        if record.order >= self.newest {
            (self.newest, self.rtt) = (record.order, rtt);
        }
    }

    /// How much later than others a segment may come.
    fn reordering_window(&self, recovering: bool, dup_acks: u32, srtt: Span) -> Span {
        if !self.is_reordered && (recovering || self.sacked >= dup_acks) {
            return Span::ZERO;
        }
        let quarters = u64::from(self.wider) + 1;
        let window = self.least.unwrap_or(Span::ZERO).mul_div(quarters, WINDOW);
        window.min(srtt)
    }

    /// A duplicate was reported: the window is a quarter wider, once for each round trip (section 6.2, step 4).
    pub(super) fn came_twice(&mut self, una: u64, max: u64, is_of_timeout: bool) {
        // A probe that was in vain, and a spurious time-out, show no reordering.
        if is_of_timeout || self.probe.is_some() {
            return;
        }
        self.is_reordered = true;
        if self.round.is_none_or(|end| una >= end) {
            self.round = Some(max);
            self.wider = (self.wider + 1).min(MAX_WIDER);
            self.persists = PERSISTENCE;
        }
    }

    /// A recovery has ended.
    pub(super) fn recovered(&mut self) {
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            self.wider = 0;
        }
    }

    /// Finds what counts as lost now (section 6.2, step 5); gives when more may, if nothing arrives before.
    pub(super) fn find_losses(
        &mut self,
        now: Time,
        recovering: bool,
        dup_acks: u32,
        srtt: Span,
    ) -> Option<Time> {
        if self.sacked == 0 && self.again == 0 {
            // What is left was sent after all that arrived.
            return None;
        }
        let window = self.reordering_window(recovering, dup_acks, srtt);
        let wait = self.rtt + window;
        let mut next = None;
        for record in &mut self.records {
            if record.sacked || record.lost || record.order >= self.newest {
                continue;
            }
            let due = record.at.saturating_add(wait);
            if due <= now {
                record.lost = true;
                self.found += 1;
            } else {
                next = next.max(Some(due));
            }
        }
        next
    }

    /// Whether a segment is lost and was not sent again; the first such one.
    pub(super) fn lost(&self) -> Option<(u64, u64)> {
        let mut records = self.records.iter();
        let lost = records.find(|it| it.lost && !it.sacked)?;
        Some((lost.from, lost.to))
    }

    /// Segments found lost since the start.
    pub(super) fn found(&self) -> u64 {
        self.found
    }

    /// Bytes on their way.
    pub(super) fn pipe(&self) -> u64 {
        let records = self.records.iter();
        let flying = records.filter(|it| !it.lost && !it.sacked);
        flying.map(|it| it.to - it.from).sum()
    }

    /// Whether acknowledgements have to be looked at closely.
    pub(super) fn is_alert(&self) -> bool {
        self.sacked > 0 || self.again > 0 || self.probe.is_some()
    }

    /// When a probe is due that is planned now, if one is: before the time-out at `rto`.
    pub(super) fn plan(
        &mut self,
        now: Time,
        srtt: Span,
        (recovering, board): (bool, &Scoreboard),
        rto: Option<Time>,
    ) -> Option<Time> {
        let is_quiet = !recovering && self.probe.is_none() && board.is_empty();
        // After a probe the next one waits for a round trip.
        let is_known = self.is_fresh || self.least.is_none();
        if self.records.is_empty() || !is_quiet || !is_known {
            return None;
        }
        let mut wait = match srtt {
            Span::ZERO => FIRST_PROBE,
            srtt => srtt.times(2),
        };
        if self.records.len() == 1 {
            wait += MAX_ACK_DELAY;
        }
        let at = now.saturating_add(wait);
        Some(rto.map_or(at, |rto| at.min(rto)))
    }

    /// Its timer is set for this, or stopped.
    pub(super) fn waits_for(&mut self, due: Option<Due>) {
        self.due = due;
    }

    /// Its timer rings.
    pub(super) fn rings(&mut self) -> Option<Due> {
        self.due.take()
    }

    /// What its timer waits for.
    pub(super) fn due(&self) -> Option<Due> {
        self.due
    }

    /// A probe leaves, with new data or again; `max` is the end of all that was sent.
    pub(super) fn probed(&mut self, max: u64, again: bool) {
        self.probe = Some(Probe { end: max, again });
        self.is_fresh = false;
    }

    /// The last segment as it was sent.
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        let last = self.records.back()?;
        Some((last.from, last.to))
    }

    /// What an acknowledgement of `at` tells about the probe (section 7.4.2).
    pub(super) fn process_ack(&mut self, at: u64, is_duplicate: bool) -> Probed {
        let Some(probe) = self.probe.filter(|probe| at >= probe.end) else {
            return Probed::Nothing;
        };
        if !probe.again || at > probe.end {
            self.probe = None;
            // More than the probe: the loss of what it was sent for shows otherwise.
            return match probe.again {
                true => Probed::Mended,
                false => Probed::Nothing,
            };
        }
        if is_duplicate {
            self.probe = None;
        }
        Probed::Nothing
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        size_of::<Rack>() + self.records.capacity() * size_of::<Sent>()
    }

    /// The peer has forgotten what it acknowledged selectively.
    pub(super) fn on_reneging(&mut self) {
        for record in &mut self.records {
            record.sacked = false;
        }
        (self.sacked, self.highest) = (0, 0);
    }

    /// A time-out: all that has not arrived is sent again.
    pub(super) fn on_timeout(&mut self) {
        for record in &mut self.records {
            record.lost = false;
        }
        (self.probe, self.due, self.probes) = (None, None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;
    const RTT: Span = Span::from_ms(40);

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_ms(n)
    }

    /// Segments of 1000 bytes from offset 1 on, sent one each ms.
    fn sent(count: u64) -> Rack {
        let mut rack = Rack::default();
        for n in 0..count {
            rack.sends(ms(n), 1 + n * MSS, 1 + (n + 1) * MSS);
        }
        rack
    }

    fn segment(n: u64) -> (u64, u64) {
        (1 + n * MSS, 1 + (n + 1) * MSS)
    }

    #[test]
    fn a_segment_is_lost_when_a_later_one_has_come_for_a_quarter_of_a_round_trip() {
        // RFC 8985 6.2, step 4: without three segments beyond the gap, min_RTT / 4.
        let mut rack = sent(10);
        rack.acked(ms(40), 1 + MSS, |_| false);
        rack.sacked(ms(42), segment(2));
        let due = rack.find_losses(ms(42), false, 3, RTT);
        assert_eq!((due, rack.lost()), (Some(ms(1 + 40 + 10)), None));
        assert_eq!(rack.find_losses(ms(51), false, 3, RTT), None);
        assert_eq!(rack.lost(), Some(segment(1)));
        // Of nine segments one is lost and one has arrived.
        assert_eq!((rack.found(), rack.pipe()), (1, 7 * MSS));
    }

    #[test]
    fn three_segments_beyond_a_gap_need_no_time_unless_reordering_was_seen() {
        for is_reordered in [false, true] {
            let mut rack = sent(10);
            rack.acked(ms(40), 1 + MSS, |_| false);
            if is_reordered {
                rack.sacked(ms(43), segment(3));
                rack.sacked(ms(43), segment(2));
            }
            for n in 4..7 {
                rack.sacked(ms(40 + n), segment(n));
            }
            let due = rack.find_losses(ms(46), false, 3, RTT);
            assert_eq!(due.is_some(), is_reordered);
            assert_eq!(rack.lost().is_none(), is_reordered);
        }
    }

    #[test]
    fn a_retransmission_is_lost_when_something_sent_after_it_arrives() {
        let mut rack = sent(5);
        for n in 1..4 {
            rack.sacked(ms(40 + n), segment(n));
        }
        rack.find_losses(ms(43), false, 3, RTT);
        assert_eq!(rack.lost(), Some(segment(0)));
        rack.sends(ms(43), 1, 1 + MSS);
        assert_eq!(rack.lost(), None);
        // The fifth was sent before that, and tells nothing of it.
        rack.sacked(ms(44), segment(4));
        assert_eq!(rack.find_losses(ms(44), true, 3, RTT), None);
        assert_eq!(rack.lost(), None);
        // The sixth was sent at the same instant, but behind it.
        rack.sends(ms(43), 1 + 5 * MSS, 1 + 6 * MSS);
        rack.sacked(ms(83), segment(5));
        rack.find_losses(ms(83), true, 3, RTT);
        assert_eq!(rack.lost(), Some(segment(0)));
    }

    #[test]
    fn an_original_that_comes_late_shows_reordering() {
        let mut rack = sent(5);
        for n in 1..4 {
            rack.sacked(ms(40 + n), segment(n));
        }
        rack.find_losses(ms(43), false, 3, RTT);
        rack.sends(ms(43), 1, 1 + MSS);
        // Its acknowledgement has the timestamp of the original.
        rack.acked(ms(45), 1 + 4 * MSS, |_| true);
        assert!(rack.is_reordered);
        assert_eq!(rack.reordering_window(true, 3, RTT), Span::from_ms(10));
    }

    #[test]
    fn a_probe_comes_after_two_round_trips_but_not_after_the_time_out() {
        // RFC 8985 7.2.
        let board = Scoreboard::default();
        let mut rack = sent(2);
        let plan = |rack: &mut Rack, srtt, rto| rack.plan(ms(2), srtt, (false, &board), rto);
        assert_eq!(plan(&mut rack, RTT, None), Some(ms(82)));
        assert_eq!(plan(&mut rack, RTT, Some(ms(70))), Some(ms(70)));
        assert_eq!(plan(&mut rack, Span::ZERO, None), Some(ms(1_002)));
        assert_eq!(rack.plan(ms(2), RTT, (true, &board), None), None);
        rack.acked(ms(40), 1 + MSS, |_| false);
        assert_eq!(plan(&mut rack, RTT, None), Some(ms(282)));
        // One probe at a time, and none without a round trip since the last.
        rack.probed(1 + 2 * MSS, false);
        assert_eq!(plan(&mut rack, RTT, None), None);
        assert_eq!(rack.process_ack(1 + 2 * MSS, false), Probed::Nothing);
        assert_eq!(plan(&mut rack, RTT, None), None);
    }

    #[test]
    fn a_probe_that_was_needed_counts_as_a_loss() {
        // 7.4.2: the end of the probe, then more, with and without the acknowledgement of a second copy between.
        for came_twice in [false, true] {
            let mut rack = sent(2);
            rack.probed(1 + 2 * MSS, true);
            assert_eq!(rack.process_ack(1 + 2 * MSS, false), Probed::Nothing);
            if came_twice {
                assert_eq!(rack.process_ack(1 + 2 * MSS, true), Probed::Nothing);
            }
            let found = rack.process_ack(1 + 3 * MSS, false);
            assert_eq!(found == Probed::Mended, !came_twice);
        }
    }
}
