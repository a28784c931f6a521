use layercast_core::{Span, Time};

use super::division::USED;
use super::doubt::Doubt;
use super::seen::{LEAST, PathSeen, number, rate};
use super::shown::Shown;

/// The line is measured over this many slots with a queue at least and at most, the first one of which says nothing: some of what left in it is counted
/// before it.
const RUN: (usize, usize) = (4, 9);
/// Of this many it is believed although it differs from those before.
const BELIEVED: usize = 6;
/// A measurement that differs by this factor at most is averaged with those before, with this weight.
const OTHER: f64 = 1.25;
const WEIGHT: f64 = 0.3;
/// While it is not known whether datagrams wait, the line carries the rate of arrivals if that is this share of the known rate at least.
const ABOUT: f64 = 0.9;
/// A new rate counts from this change on.
const CHANGE: f64 = 0.03;
/// For how long a limit is remembered at least; longer each time that more was tried in vain, up to the second span.
const HOLD: (Span, Span) = (Span::from_secs(10), Span::from_secs(640));
/// If trains show no more than this multiple of what the line carries, the line itself is the limit: it is known after this number of them.
const SAME: f64 = 1.08;
const ALONE: u32 = 4;
/// Trains from this multiple on show that it carries more: of what they show this share is tried. If the line was not the limit, others may use it:
/// then this multiple of the former rate at most.
const MORE: (f64, f64, f64) = (1.25, 0.85, 1.5);
/// Growth in a second once a limit is forgotten, up to this multiple of the rate of arrivals.
const GROWTH: (f64, f64) = (0.08, 1.5);
/// A queue that stays for this time although its ports send less is that of others. One that is down to this share of its longest drains.
const STANDING: Span = Span::from_ms(2_500);
const DRAINED: (u64, u64) = (3, 4);
/// A level that a port has and does not send for this time, in seconds, does not fit.
const UNSENT: f64 = 2.0;
/// A limit this soon after more was tried shows that it was in vain.
const REGRET: Span = Span::from_secs(5);

/// A line that ports share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// What it carries, as measured.
    bps: f64,
    /// What is divided: the same but for small changes.
    divided: f64,
    /// When it was last found to be the limit; when more was last tried, and whether because it was the limit and trains show that it is another one.
    at: Time,
    tried: Option<(Time, bool)>,
    hold: Span,
    /// Its queue; since when it is long and does not drain, and its longest since then.
    queue: Span,
    standing: Option<(Time, Span)>,
    /// What it carried before that.
    before: f64,
    /// For how many seconds a port did not send the level that it has, less those in which all did.
    unsent: f64,
    doubt: Doubt,
    /// The slots of a delay that is no queue.
    longer: Option<(u64, u64)>,
    shown: Shown,
    /// Trains showed that it is itself the limit.
    alone: bool,
    /// The first slot that was not measured, and when it was last looked at.
    next: u64,
    looked: Time,
}

impl Line {
    /// A line of which former measurements are known: those of the ports that are now found to share it.
    pub fn new(now: Time, bps: f64) -> Line {
        Line {
            bps,
            divided: bps,
            at: now,
            tried: None,
            hold: HOLD.0,
            queue: Span::ZERO,
            standing: None,
            before: bps,
            unsent: 0.0,
            doubt: Doubt::default(),
            longer: None,
            shown: Shown::default(),
            alone: false,
            next: number(now).saturating_sub(RUN.1 as u64),
            looked: now,
        }
    }

    /// What is divided.
    pub fn carries(&self) -> f64 {
        self.divided
    }

    /// How long datagrams wait on it.
    pub fn queue(&self) -> Span {
        self.queue
    }

    /// Whether others use the line: a queue of its ports would have drained.
    pub fn has_others(&self, now: Time) -> bool {
        self.standing
            .is_some_and(|(since, _)| now.since(since) >= STANDING)
    }

    /// The share of their parts at which its ports send: less while it is not known whether their datagrams wait.
    pub fn share(&self) -> f64 {
        let below = self.doubt.below();
        below.map_or(1.0, |bps| (bps / self.divided).min(1.0))
    }

    /// By how much the path of a port is longer than it was, if it has just been found to be.
    pub fn longer(&self, port: &PathSeen) -> Option<Span> {
        let (from, to) = self.longer?;
        port.least(from..to).filter(|delay| *delay > LEAST)
    }

    /// Looks at what its ports saw. `step`: what they need if one of them gets its next level; `is_behind`: one of them does not send the level that it has.
    pub fn look(&mut self, now: Time, ports: &[&PathSeen], step: f64, is_behind: bool) {
        let passed = now.since(self.looked).as_secs_f64();
        self.longer = None;
        self.measure(now, ports);
        let trains = ports.iter().filter_map(|port| port.last_train());
        let looked = self.looked;
        for (at, bps) in trains.filter(|(at, _)| *at > looked) {
            self.shown.add(at, bps);
            if let Some(bps) = self.shown.bps(now) {
                self.heed_trains(now, bps);
            }
        }
        let arrives: f64 = ports.iter().map(|port| port.arrives_at()).sum();
        // The line carried all arrivals.
        self.bps = self.bps.max(arrives);
        // Key frames make the rate of arrivals vary.
        self.unsent = match is_behind {
            true => self.unsent + passed,
            false => (self.unsent - passed).max(0.0),
        };
        if self.unsent >= UNSENT {
            self.unsent = 0.0;
            self.bps = self.bps.min(arrives / USED);
            self.found(now);
        }
        if now.since(self.at) >= self.hold {
            let grown = self.bps * (1.0 + GROWTH.0 * passed);
            let most = (GROWTH.1 * arrives).max(step);
            self.bps = self.bps.max(grown.min(most));
            self.tried = Some((now, false));
        }
        self.looked = now;
        if (self.bps / self.divided - 1.0).abs() >= CHANGE {
            self.divided = self.bps;
        }
    }

    /// The last trains show this at least.
    fn heed_trains(&mut self, now: Time, bps: f64) {
        if bps <= SAME * self.bps {
            self.alone |= self.shown.count() >= ALONE;
            if bps >= self.bps / SAME {
                // Time says nothing about a line that is itself the limit, and is as it was.
                self.at = now;
            }
        }
        if bps >= MORE.0 * self.bps {
            let is_old = now.since(self.at) >= self.hold;
            let was_tried = self.tried.is_some_and(|it| now.since(it.0) < REGRET);
            let limit = match self.alone {
                true => f64::MAX,
                false => MORE.2 * self.bps,
            };
            if self.alone || is_old && !was_tried {
                self.bps = (MORE.1 * bps).min(limit);
                self.tried = Some((now, self.alone));
            }
        }
    }

    /// While datagrams wait, those of all ports together leave as fast as the line carries them.
    fn measure(&mut self, now: Time, ports: &[&PathSeen]) {
        let known = ports.iter().filter_map(|port| port.known_until(now));
        let Some(end) = known.min() else { return };
        // A port that began while there was a queue sees less of it.
        let queue = |slot: u64| ports.iter().filter_map(|port| port.at(slot).delay).max();
        let is_busy = |slot: &u64| queue(*slot).is_some_and(|delay| delay > LEAST);
        self.queue = end.checked_sub(1).and_then(queue).unwrap_or_default();
        self.standing = match self.standing.filter(|_| self.queue > LEAST) {
            Some((since, most)) if self.queue > most.mul_div(DRAINED.0, DRAINED.1) => {
                Some((since, most.max(self.queue)))
            }
            _ => (self.queue > LEAST).then_some((now, self.queue)),
        };
        if self.standing.is_none() {
            self.before = self.bps;
            self.doubt.end();
        }
        let run = (self.next..end).rev().take_while(is_busy).take(RUN.1);
        let mut run: Vec<u64> = run.collect();
        if run.len() < RUN.0 {
            return;
        }
        run.pop();
        let over = |slots: &[u64]| {
            let of = slots
                .iter()
                .flat_map(|slot| ports.iter().map(|port| port.at(*slot)));
            rate(of.map(|slot| slot.octets).sum(), slots.len())
        };
        let measured = over(&run);
        let (late, early) = run.split_at(run.len() / 2);
        let least = |slots: &[u64]| slots.iter().filter_map(|slot| queue(*slot)).min();
        if Doubt::is_flat([late, early].map(least)) {
            let most = run.windows(RUN.0).map(over).fold(measured, f64::max);
            if self.doubt.is_longer(run.len(), measured, most) {
                self.longer = run.last().map(|first| (*first, end));
                self.bps = self.bps.max(self.before);
                self.standing = None;
                self.queue = Span::ZERO;
                self.doubt.end();
                self.next = end;
                return;
            }
            if measured < ABOUT * self.bps {
                return;
            }
        } else {
            self.doubt.end();
        }
        self.next = end;
        let is_other = !(1.0 / OTHER..OTHER).contains(&(measured / self.bps));
        if measured < self.bps {
            self.shown.forget();
        }
        self.bps = match is_other && run.len() + 1 >= BELIEVED {
            true => measured,
            false => self.bps + WEIGHT * (measured - self.bps),
        };
        self.found(now);
    }

    /// It is the limit.
    fn found(&mut self, now: Time) {
        self.at = now;
        if let Some((tried, as_alone)) = self.tried.take() {
            let regrets = now.since(tried) < REGRET;
            self.alone &= !(regrets && as_alone);
            self.hold = match regrets {
                true => self.hold.times(2).min(HOLD.1),
                false => HOLD.0,
            };
        }
    }
}
