//! Delay from round trips, echoed stamps or clocks in common, and its variation (specs/user-to-user-qos.md 2.3).

use std::collections::VecDeque;

use serde::Serialize;

use crate::window::Spread;

/// Probes of a connection that wait for their answer, at most.
const MOST_PROBES: usize = 64;
/// An answer is waited for this many round trips.
const PATIENCE: u64 = 8;
/// The round trip that is assumed before the first one is known, in nanoseconds.
const FIRST_RTT: u64 = 1_000_000_000;

/// How a delay was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Half a round trip. It errs by half the difference of the two ways, and by half the time of the answer.
    HalfRtt,
    /// Half a round trip by a stamp that the peer returned.
    EchoedStamp,
    /// The clocks of both ends are the same.
    OneWay,
}

/// The probes of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    open: VecDeque<(u64, u64)>,
    smoothed: Option<u64>,
    pub(crate) lost: u64,
    pub(crate) discarded: u64,
    pub(crate) unmatched: u64,
}

impl Probes {
    /// A probe with `token` leaves at `t`; one in a packet that is sent `again` says nothing (Karn and Partridge 1987).
    pub(crate) fn start(&mut self, t: u64, token: u64, again: bool) {
        self.expire(t);
        if again {
            self.open.retain(|it| it.0 != token);
            self.discarded += 1;
            return;
        }
        if self.open.len() >= MOST_PROBES {
            self.open.pop_front();
            self.lost += 1;
        }
        self.open.push_back((token, t));
    }

    /// The answer to `token` comes at `t`; gives the round trip.
    pub(crate) fn end(&mut self, t: u64, token: u64) -> Option<u64> {
        self.expire(t);
        let Some(place) = self.open.iter().position(|it| it.0 == token) else {
            self.unmatched += 1;
            return None;
        };
        let (_, left) = self.open.remove(place)?;
        let rtt = t - left;
        self.learn(rtt);
        Some(rtt)
    }

    /// A round trip that somebody else has measured.
    pub(crate) fn learn(&mut self, rtt: u64) {
        self.smoothed = Some(match self.smoothed {
            Some(smoothed) => smoothed - smoothed / 8 + rtt / 8,
            None => rtt,
        });
    }

    /// Gives up the probes whose answer is overdue.
    pub(crate) fn expire(&mut self, t: u64) {
        let rtt = self.smoothed.unwrap_or(FIRST_RTT).max(1);
        let patience = rtt.saturating_mul(PATIENCE);
        while self.open.front().is_some_and(|it| t - it.1 > patience) {
            self.open.pop_front();
            self.lost += 1;
        }
    }
}

/// The delays of one direction, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    pub(crate) current: Option<i64>,
    pub(crate) max: Option<i64>,
    pub(crate) method: Option<Method>,
    pub(crate) samples: u64,
    last: Option<i64>,
    jitter: Option<f64>,
    pub(crate) max_jitter: Option<f64>,
    pub(crate) spread: Spread,
}

impl Delays {
    pub(crate) fn new(window: u64) -> Delays {
        Delays {
            current: None,
            max: None,
            method: None,
            samples: 0,
            last: None,
            jitter: None,
            max_jitter: None,
            spread: Spread::new(window),
        }
    }

    /// Takes a delay; false: a better method is in use.
    pub(crate) fn sample(&mut self, t: u64, ns: i64, method: Method, jitters: bool) -> bool {
        if self.method.is_some_and(|better| better > method) {
            return false;
        }
        if self.method != Some(method) {
            // What another method found cannot be compared.
            (self.method, self.max, self.last) = (Some(method), None, None);
        }
        self.samples += 1;
        self.current = Some(ns);
        self.max = self.max.max(Some(ns));
        self.vary(t, ns, jitters);
        true
    }

    /// Takes a delay by clocks that are not the same: only its changes mean something.
    pub(crate) fn relative(&mut self, t: u64, ns: i64, jitters: bool) {
        if self.method.is_none() {
            self.vary(t, ns, jitters);
        }
    }

    fn vary(&mut self, t: u64, ns: i64, jitters: bool) {
        let last = self.last.replace(ns);
        if !jitters {
            self.jitter = None;
            return;
        }
        self.spread.add(t, ns);
        if let Some(last) = last {
            let difference = ns.abs_diff(last) as f64;
            let before = self.jitter.unwrap_or(0.0);
            let jitter = before + (difference - before) / 16.0;
            self.jitter = Some(jitter);
            self.max_jitter = Some(self.max_jitter.map_or(jitter, |it| it.max(jitter)));
        }
    }

    /// By RFC 3550, section 6.4.1.
    pub(crate) fn jitter(&self) -> Option<f64> {
        self.jitter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn several_probes_can_be_open() {
        let mut probes = Probes::default();
        for token in 1..=3 {
            probes.start(token * MS, token, false);
        }
        assert_eq!(probes.end(20 * MS, 2), Some(18 * MS));
        assert_eq!(probes.end(21 * MS, 1), Some(20 * MS));
        assert_eq!((probes.end(22 * MS, 1), probes.unmatched), (None, 1));
    }

    #[test]
    fn a_lost_answer_is_no_delay() {
        let mut probes = Probes::default();
        probes.start(0, 1, false);
        assert_eq!(probes.end(10 * MS, 1), Some(10 * MS));
        probes.start(20 * MS, 2, false);
        probes.expire(100 * MS);
        assert_eq!(probes.lost, 0);
        probes.expire(100 * MS + 1);
        assert_eq!(probes.lost, 1);
        assert_eq!(probes.end(101 * MS, 2), None);
    }

    #[test]
    fn a_probe_that_is_sent_again_is_discarded() {
        let mut probes = Probes::default();
        probes.start(0, 1, false);
        probes.start(5 * MS, 1, true);
        assert_eq!((probes.end(9 * MS, 1), probes.discarded), (None, 1));
    }

    #[test]
    fn a_flood_of_probes_is_bounded() {
        let mut probes = Probes::default();
        for token in 0..100 {
            probes.start(0, token, false);
        }
        assert_eq!((probes.open.len(), probes.lost), (MOST_PROBES, 36));
    }

    #[test]
    fn jitter_follows_rfc_3550_and_only_if_wanted() {
        let mut delays = Delays::new(1_000 * MS);
        for (t, ms) in [(1, 10), (2, 26), (3, 10)] {
            delays.sample(t * MS, ms * MS as i64, Method::HalfRtt, true);
        }
        assert_eq!(delays.jitter(), Some(1.9375e6));
        assert_eq!(delays.spread.width(), Some(16 * MS));
        delays.sample(4 * MS, 0, Method::HalfRtt, false);
        assert_eq!(delays.jitter(), None);
    }

    #[test]
    fn a_common_clock_is_better_than_half_a_round_trip() {
        let mut delays = Delays::new(1_000 * MS);
        assert!(delays.sample(1, 25, Method::HalfRtt, false));
        assert!(delays.sample(2, 10, Method::OneWay, false));
        assert!(!delays.sample(3, 25, Method::HalfRtt, false));
        assert_eq!((delays.current, delays.max), (Some(10), Some(10)));
    }
}
