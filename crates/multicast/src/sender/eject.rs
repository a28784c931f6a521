use layercast_wire::multicast::Eject;

use super::*;
use crate::Weak;

/// Number of polls that repeat the list of expelled receivers (specs/fully-reliable-multicast.md 7).
const EJECTED_IN_POLLS: u32 = 3;

impl<S: Source> Sender<S> {
    /// Expels the receivers that keep the release of buffers too slow, if they can be identified
    /// (specs/fully-reliable-multicast.md 2.7).
    pub(super) fn check_ejection(&mut self, now: Time, delivered: u64) {
        let Weak::Eject {
            min_release,
            interval,
            slow_rounds,
            mandatory,
        } = self.config.weak
        else {
            return;
        };
        for record in self.roster.iter_mut() {
            let slowest = record.status == Status::Joined && record.delivered == delivered;
            record.slowest = if slowest { record.slowest + 1 } else { 0 };
        }
        let Some(stream) = &mut self.stream else {
            return;
        };
        if stream.base == stream.next() {
            // An idle source is not the receivers' fault.
            stream.interval = None;
            return;
        }
        let Some((began, mark)) = stream.interval else {
            self.begin_interval(now);
            return;
        };
        if now.since(began) < interval {
            return;
        }
        let size = u64::from(self.config.packet_size);
        let per_second = |packets: u64| {
            (packets * size) as f64 / now.since(began).as_secs_f64().max(f64::MIN_POSITIVE)
        };
        let group_rate = per_second(stream.base.saturating_sub(mark)) as u64;
        if group_rate < min_release {
            let live: Vec<usize> = (0..self.roster.len())
                .filter(|&at| self.roster.get(at).status == Status::Joined)
                .collect();
            let own = |at: usize| {
                let record = self.roster.get(at);
                per_second(record.delivered.saturating_sub(record.mark)) as u64
            };
            let slow = |&at: &usize| self.roster.get(at).slowest >= slow_rounds;
            let mut named: Vec<usize> = live.iter().copied().filter(slow).collect();
            if named.is_empty() || named.len() == live.len() {
                named = live
                    .iter()
                    .copied()
                    .filter(|&at| own(at) < min_release)
                    .collect();
            }
            if named.len() == live.len() {
                named.clear();
            }
            named.retain(|&at| mandatory || !self.roster.get(at).mandatory);
            let named: Vec<(usize, u64)> = named.into_iter().map(|at| (at, own(at))).collect();
            if named.is_empty() {
                self.events.push_back(SenderEvent::Degraded { group_rate });
            }
            for (at, own_rate) in named {
                self.eject(at, own_rate, group_rate, delivered);
            }
            self.fit_window();
            if !self.roster.satisfies(&self.config.completion) {
                return self.give_up(Reason::Integrity, Failure::Integrity);
            }
        }
        self.begin_interval(now);
    }

    pub(super) fn begin_interval(&mut self, now: Time) {
        if let Some(stream) = &mut self.stream {
            stream.interval = Some((now, stream.base));
        }
        for record in self.roster.iter_mut() {
            record.mark = record.delivered;
        }
    }

    pub(super) fn eject(&mut self, at: usize, own_rate: u64, group_rate: u64, upto: u64) {
        let record = self.roster.get_mut(at);
        record.status = Status::Failed(Reason::Slow);
        record.missing = None;
        let (member, peer) = (record.id, record.peer.unwrap_or_default());
        self.ejected.push_back((member, EJECTED_IN_POLLS));
        self.stats.ejected += 1;
        let reason = Reason::Slow;
        let eject = Eject {
            member,
            reason,
            upto,
        };
        self.send(To::One(peer), Body::Eject(eject));
        self.events.push_back(SenderEvent::Ejected {
            member,
            own_rate,
            group_rate,
        });
    }
}
