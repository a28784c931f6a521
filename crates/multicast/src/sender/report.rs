use layercast_core::RangeSet;
use layercast_wire::multicast::{Report, State};

use super::*;
use crate::Weak;
use crate::receipt::{member_key, receipt};

/// Largest number of ranges kept for one receiver; a report with more is forged.
const MAX_RANGES: usize = 1 << 16;

impl<S: Source> Sender<S> {
    pub(super) fn on_report(&mut self, now: Time, from: Peer, report: &Report) {
        let Some(at) = self.known(report.member, from) else {
            return;
        };
        match self.roster.get(at).status {
            Status::Joined | Status::Busy | Status::Postponed => {}
            // A repeated or late report.
            _ => {
                self.stats.stale += 1;
                return;
            }
        }
        let lasting = matches!(
            report.state,
            State::Complete { .. } | State::Busy | State::Ready(_)
        );
        let age = match report.sync {
            0 => i64::from(self.round.number) - i64::from(report.round),
            sync => i64::from(self.round.sync.wrapping_sub(sync) as i32),
        };
        if age < 0 || !self.believable(at, report) {
            self.stats.forged += 1;
            return;
        }
        // A stamp that was not recently issued proves nothing.
        let round_trip = self.clock.round_trip(now, report.stamp);
        let held = Span::from_us(report.held_us.into());
        let round_trip = round_trip.map(|it| it.saturating_sub(held));
        if let Some(round_trip) = round_trip {
            // Late answers tell most about the delay of others.
            self.clock.answered(round_trip);
            let record = self.roster.get_mut(at);
            record.rtt_us = u32::try_from(round_trip.as_us()).unwrap_or(u32::MAX);
        }
        if !lasting && (age > 0 || self.phase != Phase::Collecting) {
            self.stats.stale += 1;
            return;
        }
        let round_trip = round_trip.unwrap_or(Span::ZERO);
        self.round.largest = self.round.largest.max(round_trip);
        if self.phase == Phase::Collecting && self.counts_now(at) {
            self.stats.late += u64::from(self.round.tries > 0);
            self.charge(now, at);
        }
        self.answered(at);
        self.stats.reports += 1;
        let record = self.roster.get_mut(at);
        record.lately_lost(report.loss, self.stats.data);
        // The aggregator answers for more receivers now, and its earlier answer may have been lost.
        let reported = report.tally.alive.saturating_add(report.tally.failed);
        record.weight = record.weight.max(reported);
        self.take_report(now, at, report);
        self.after_answer(now);
    }

    /// Whether the content of a report is possible.
    pub(super) fn believable(&self, at: usize, report: &Report) -> bool {
        let geometry = &self.object.geometry;
        match &report.state {
            State::Missing(spans) => {
                !spans.is_empty() && geometry.fits(self.config.content, &report.state)
            }
            State::Ready(_) | State::Need(_) => geometry.fits(self.config.content, &report.state),
            State::Complete { receipt: proof } => {
                let master = self.config.receipts.as_ref();
                let key = master.map(|master| member_key(master, report.member));
                let digest = &self.object.object.digest;
                *proof == receipt(key.as_ref(), self.session, report.member, digest)
            }
            State::Busy | State::Corrupt => self.stream.is_none(),
            State::Levels { .. } => self.levels_fit(at, report),
        }
    }

    pub(super) fn take_report(&mut self, now: Time, at: usize, report: &Report) {
        match &report.state {
            State::Complete { .. } => {
                self.settle(at);
                let record = self.roster.get_mut(at);
                record.status = Status::Done;
                record.complete = report.tally.complete.clamp(1, record.weight);
                record.received = 0;
                record.missing = None;
                self.object.newly_done = true;
                self.events.push_back(SenderEvent::Delivered(record.id));
            }
            State::Busy => {
                self.settle(at);
                let record = self.roster.get_mut(at);
                if record.status != Status::Busy {
                    record.status = Status::Busy;
                    record.missing = None;
                    self.events.push_back(SenderEvent::Busy(record.id));
                }
            }
            State::Ready(_) => {
                let record = self.roster.get(at);
                if record.status == Status::Busy {
                    if record.peer.is_some_and(|peer| !self.may_turn(peer)) {
                        self.lose(at, Reason::Silent);
                        return;
                    }
                    let record = self.roster.get_mut(at);
                    // The round that runs does not wait for it.
                    (record.status, record.answered) = (Status::Postponed, self.round.sync);
                    if self.phase == Phase::Waiting {
                        self.next_scope(now);
                    }
                }
            }
            State::Need(_) | State::Missing(_) if !self.in_scope(at) => self.stats.stale += 1,
            State::Missing(spans) => self.lacks(at, report.more, |missing| {
                for (from, to) in spans.iter() {
                    missing.insert(from, to);
                }
            }),
            State::Need(needs) => {
                self.needs(at, needs);
                if !report.more {
                    self.settle(at);
                }
            }
            State::Corrupt => {
                if core::mem::replace(&mut self.roster.get_mut(at).corrupt, true) {
                    self.lose(at, Reason::Corrupt);
                    return;
                }
                let geometry = self.object.geometry;
                for (block, need) in self.object.needs.iter_mut().enumerate() {
                    *need = geometry.packets_of(block as u32);
                }
                self.lacks(at, false, |missing| missing.insert(0, geometry.packets()));
            }
            State::Levels { .. } => self.take_levels(at, report),
        }
    }

    /// Records the needs of a receiver's blocks, possibly spread over several reports.
    pub(super) fn needs(&mut self, at: usize, needs: &Needs) {
        let most = self.most_missing();
        let sync = u64::from(self.round.sync);
        let record = self.roster.get_mut(at);
        // For receivers of an object the mark is the round of its last report.
        if core::mem::replace(&mut record.mark, sync) != sync {
            record.received = 0;
        }
        // Known needs are repeated after a second poll, or if the network duplicates packets.
        if u64::from(record.answered) != sync {
            record.received += needs.iter().map(|(_, count)| u64::from(count)).sum::<u64>();
        }
        let weak = record.received > most && self.round.scope == Scope::Main;
        let work = &mut self.object;
        for (block, count) in needs.iter() {
            if weak {
                let need = &mut work.weak_needs[block as usize];
                *need = (*need).max(count);
            } else if count > work.needs[block as usize] {
                work.needs[block as usize] = count;
                if self.round.ask == Ask::Needy {
                    work.raised.insert(block);
                }
            }
        }
    }

    /// The number of missing packets above which a receiver may be postponed.
    pub(super) fn most_missing(&self) -> u64 {
        match self.config.weak {
            Weak::Postpone {
                missing_permille, ..
            } => self.object.geometry.packets() * u64::from(missing_permille) / 1_000,
            _ => u64::MAX,
        }
    }

    pub(super) fn lacks(&mut self, at: usize, more: bool, add: impl FnOnce(&mut RangeSet)) {
        let packets = self.object.geometry.packets();
        let record = self.roster.get_mut(at);
        let missing = record.missing.get_or_insert_default();
        if missing.len() < MAX_RANGES {
            add(missing);
        }
        record.received = missing.covered(0, packets);
        if !more {
            self.settle(at);
        }
    }
}
