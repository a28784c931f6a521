use layercast_core::{Span, Time};

use super::seen::{LEAST, PathSeen, number, rate};

/// The line is measured over this many slots with a queue at least and at most, the first one of which says nothing: some of what left in it is counted
/// before it.
const RUN: (usize, usize) = (4, 9);
/// Of this many it is believed although it differs from those before.
const BELIEVED: usize = 6;
/// A measurement that differs by this factor at most is averaged with those before, with this weight.
const OTHER: f64 = 1.25;
const WEIGHT: f64 = 0.3;
/// A new rate counts from this change on.
const CHANGE: f64 = 0.03;
/// For how long a limit is remembered at least; longer each time that more was tried in vain, up to the second span.
const HOLD: (Span, Span) = (Span::from_secs(10), Span::from_secs(640));
/// Trains at up to this multiple of what the line carries show that the line itself is the limit.
const SAME: f64 = 1.08;
/// Trains from this multiple on show that it carries more: of what they show this share is tried, and this multiple of the former rate at most.
const MORE: (f64, f64, f64) = (1.25, 0.85, 1.5);
/// Growth in a second once a limit is forgotten, up to this multiple of the rate of arrivals.
const GROWTH: (f64, f64) = (0.08, 1.5);
/// A queue that stays for this time although its ports send less is that of others. One that is down to this share of its longest drains.
const STANDING: Span = Span::from_ms(2_500);
const DRAINED: (u64, u64) = (3, 4);
/// A limit this soon after more was tried shows that it was in vain.
const REGRET: Span = Span::from_secs(5);

/// A line that ports share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// What it carries, as measured.
    bps: f64,
    /// What is divided: the same but for small changes.
    divided: f64,
    /// When it was last found to be the limit, and when more was last tried.
    at: Time,
    tried: Option<Time>,
    hold: Span,
    /// Its queue; since when it is long and does not drain, and its longest since then.
    queue: Span,
    standing: Option<(Time, Span)>,
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

    /// Looks at what its ports saw.
    pub fn look(&mut self, now: Time, ports: &[&PathSeen]) {
        let passed = now.since(self.looked).as_secs_f64();
        self.measure(now, ports);
        let trains = ports.iter().filter_map(|port| port.trains());
        for (_, bps) in trains.filter(|(at, _)| *at > self.looked) {
            // Datagrams of other ports pass between those of a train, so that it never shows more than the line carries.
            if (self.bps..MORE.0 * self.bps).contains(&bps) {
                self.bps += WEIGHT * (bps - self.bps);
            }
            if (self.bps..=SAME * self.bps).contains(&bps) {
                self.at = now;
            }
            if bps > MORE.0 * self.bps && now.since(self.at) >= self.hold {
                self.bps = (MORE.1 * bps).min(MORE.2 * self.bps);
                (self.at, self.tried) = (now, Some(now));
            }
        }
        let arrives: f64 = ports.iter().map(|port| port.arrives_at()).sum();
        // The line carried all arrivals.
        self.bps = self.bps.max(arrives);
        if now.since(self.at) >= self.hold {
            let grown = self.bps * (1.0 + GROWTH.0 * passed);
            self.bps = self.bps.max(grown.min(GROWTH.1 * arrives));
            self.tried = Some(now);
        }
        self.looked = now;
        if (self.bps / self.divided - 1.0).abs() >= CHANGE {
            self.divided = self.bps;
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
        let run = (self.next..end).rev().take_while(is_busy).take(RUN.1);
        let mut run: Vec<u64> = run.collect();
        if run.len() < RUN.0 {
            return;
        }
        run.pop();
        self.next = end;
        let slots = run
            .iter()
            .flat_map(|slot| ports.iter().map(|port| port.at(*slot)));
        let measured = rate(slots.map(|slot| slot.octets).sum(), run.len());
        let is_other = !(1.0 / OTHER..OTHER).contains(&(measured / self.bps));
        self.bps = match is_other && run.len() + 1 >= BELIEVED {
            true => measured,
            false => self.bps + WEIGHT * (measured - self.bps),
        };
        self.at = now;
        if let Some(tried) = self.tried.take() {
            self.hold = match now.since(tried) < REGRET {
                true => self.hold.times(2).min(HOLD.1),
                false => HOLD.0,
            };
        }
    }
}
