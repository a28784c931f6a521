//! Ports of one node whose paths share a line: a queue there is theirs, and they divide what the line carries.

mod division;
mod seen;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use layercast_core::{Rate, Span, Time};

pub use division::Needs;
use division::{Port, divide};
pub use seen::PathSeen;
use seen::{Alike, number};

/// The line is that of ports of this node alone if they get this share of it: more could not pass there.
const ALONE: RangeInclusive<f64> = 0.85..=1.2;
/// For how long it is known what they get, and the rate of the line.
const FRESH: (Span, Span) = (Span::from_secs(1), Span::from_secs(10));
/// A queue that stays for the first time although they are alone refutes that for the second time.
const REFUTED: (Span, Span) = (Span::from_secs(3), Span::from_secs(20));
/// Slots in which two ports saw the same queue: from the first number on they share a line, and no more are counted than the second. One in
/// which they did not counts against this many of them.
const TOGETHER: u32 = 6;
const KNOWN: u32 = 40;
const AGAINST: u32 = 2;

/// What a port knows of others of its node that share its line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beside {
    /// The rate of arrivals over the others, over about a second and over the last fifth of it.
    pub arrives: Rate,
    /// As `arrives`, over the last fifth of a second.
    pub lately: Rate,
    /// The share of the line that is for this port.
    pub part: f64,
    /// What the line carried at the last cut of any of the ports, and when.
    pub carries: Option<(Time, Rate)>,
}

/// Finds the ports of a node that share a line, by the queues that they see, and divides among them what it carries.
///
/// A queue on a shared line delays the datagrams of all of its ports alike, at the same time, as RFC 8382 has it for flows. Ports that are found together
/// are one flow to the line, and divide its rate among themselves as in RFC 8699: a cut of one is a cut of all, each gets its part, and
/// what one has no use for is for the others.
#[derive(Default, Debug)]
pub struct Trunks {
    ports: BTreeMap<u32, Known>,
    /// How much speaks for it that two ports share a line.
    pairs: BTreeMap<(u32, u32), Pair>,
    /// The first slot that was not compared.
    next: u64,
}

/// A port as it was at the last comparison.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// When its connection began.
    since: Time,
    /// The least number of the ports that shared its line.
    trunk: u32,
    /// What that line carried, and when.
    carries: Option<(Time, f64)>,
    /// The level that was divided to it.
    level: usize,
}

#[derive(Clone, Copy, Default, Debug)]
struct Pair {
    alike: u32,
    together: bool,
}

impl Trunks {
    /// Compares the ports of a node, each with its number, in rising order; gives what each knows of those that share its line, `None` if there are none.
    pub fn compare(&mut self, now: Time, ports: &[(u32, PathSeen)]) -> Vec<Option<Beside>> {
        debug_assert!(ports.is_sorted_by_key(|it| it.0));
        self.forget(ports);
        self.judge(now, ports);
        let trunks = self.trunks(ports);
        let mut found = vec![None; ports.len()];
        for members in groups(&trunks) {
            let carries = self.carried(now, ports, &members);
            if let Some(carries) = carries
                && members.len() > 1
            {
                self.divide(ports, &members, carries, &mut found);
            }
            for &at in &members {
                let (id, seen) = &ports[at];
                let level = self.ports.get(id).map_or(0, |known| known.level);
                let known = Known {
                    since: seen.since(),
                    trunk: ports[members[0]].0,
                    carries,
                    level,
                };
                self.ports.insert(*id, known);
            }
        }
        found
    }

    /// Forgets ports that are gone or began again.
    fn forget(&mut self, ports: &[(u32, PathSeen)]) {
        let of = |id: u32| ports.binary_search_by_key(&id, |it| it.0).ok();
        self.ports
            .retain(|id, known| of(*id).is_some_and(|at| ports[at].1.since() == known.since));
        let known = &self.ports;
        self.pairs
            .retain(|(a, b), _| known.contains_key(a) && known.contains_key(b));
    }

    /// Compares the slots since the last time.
    fn judge(&mut self, now: Time, ports: &[(u32, PathSeen)]) {
        let end = number(now).saturating_sub(seen::LAG);
        let from = self.next.max(end.saturating_sub(seen::SLOTS as u64 / 2));
        self.next = end.max(self.next);
        for slot in from..end {
            for (at, (a, one)) in ports.iter().enumerate() {
                for (b, other) in &ports[at + 1..] {
                    let key = (*a, *b);
                    match one.alike(other, slot) {
                        Alike::Unknown => {}
                        Alike::Yes => {
                            let pair = self.pairs.entry(key).or_default();
                            pair.alike = (pair.alike + 1).min(KNOWN);
                            pair.together |= pair.alike >= TOGETHER;
                        }
                        Alike::No => {
                            if let Some(pair) = self.pairs.get_mut(&key) {
                                pair.alike = pair.alike.saturating_sub(AGAINST);
                                if pair.alike == 0 {
                                    self.pairs.remove(&key);
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// For each port the place of the first of those that share its line.
    fn trunks(&self, ports: &[(u32, PathSeen)]) -> Vec<usize> {
        let mut first: Vec<usize> = (0..ports.len()).collect();
        let place = |id: u32| ports.binary_search_by_key(&id, |it| it.0).ok();
        for ((a, b), _) in self.pairs.iter().filter(|(_, pair)| pair.together) {
            if let (Some(a), Some(b)) = (place(*a), place(*b)) {
                let (a, b) = (first[a], first[b]);
                let (low, high) = (a.min(b), a.max(b));
                first.iter_mut().filter(|it| **it == high).for_each(|it| *it = low);
            }
        }
        first
    }

    /// What the line of these ports carries: what the last cut showed, or the sum over those that were apart until now.
    fn carried(
        &self,
        now: Time,
        ports: &[(u32, PathSeen)],
        members: &[usize],
    ) -> Option<(Time, f64)> {
        let mut trunks: BTreeMap<u32, (Time, f64)> = BTreeMap::new();
        for &at in members {
            let (id, seen) = &ports[at];
            let known = self.ports.get(id);
            let trunk = known.map_or(*id, |known| known.trunk);
            let newest = [known.and_then(|known| known.carries), seen.carries()];
            for (when, bps) in newest.into_iter().flatten() {
                let entry = trunks.entry(trunk).or_insert((when, bps));
                if when > entry.0 {
                    *entry = (when, bps);
                }
            }
        }
        match trunks.len() {
            0 => None,
            1 => trunks.into_values().next(),
            _ => Some((now, trunks.values().map(|it| it.1).sum())),
        }
    }

    fn divide(
        &mut self,
        ports: &[(u32, PathSeen)],
        members: &[usize],
        carries: (Time, f64),
        found: &mut [Option<Beside>],
    ) {
        let level = |id: u32| self.ports.get(&id).map_or(0, |known| known.level);
        let wants = members.iter().map(|&at| Port {
            needs: ports[at].1.needs(),
            held: level(ports[at].0),
        });
        let wants: Vec<Port> = wants.collect();
        let parts = divide(carries.1, &wants);
        let sum = |of: fn(&PathSeen) -> f64| -> f64 { members.iter().map(|&at| of(&ports[at].1)).sum() };
        let (arrives, lately) = (sum(PathSeen::arrives_at), sum(PathSeen::arrives_lately));
        for (&at, part) in members.iter().zip(parts) {
            let (id, seen) = &ports[at];
            let rate = |all: f64, own: f64| Rate::from_bps((all - own).max(0.0) as u64);
            found[at] = Some(Beside {
                arrives: rate(arrives, seen.arrives_at()),
                lately: rate(lately, seen.arrives_lately()),
                part: part.share,
                carries: Some((carries.0, Rate::from_bps(carries.1 as u64))),
            });
            if let Some(known) = self.ports.get_mut(id) {
                known.level = part.level;
            }
        }
    }
}

/// The places that have the same first one, for each that is a first one.
fn groups(first: &[usize]) -> Vec<Vec<usize>> {
    let mut groups = vec![Vec::new(); first.len()];
    for (at, first) in first.iter().enumerate() {
        groups[*first].push(at);
    }
    groups.retain(|it: &Vec<usize>| !it.is_empty());
    groups
}

/// What a port knows of others of its node that share its line.
#[derive(Default, Debug)]
pub(super) struct Together {
    seen: PathSeen,
    /// The others, and when they were found.
    beside: Option<(Time, Beside)>,
    /// Until when flows of others are known to use it.
    others: Time,
}

impl Together {
    pub fn seen(&self) -> PathSeen {
        self.seen
    }

    /// What is seen of the path.
    pub fn see(&mut self) -> &mut PathSeen {
        &mut self.seen
    }

    /// Takes what was found of ports that share the line.
    pub fn set_beside(&mut self, now: Time, beside: Option<Beside>) {
        self.beside = beside.map(|it| (now, it));
    }

    fn fresh(&self, now: Time) -> Option<&Beside> {
        let fresh = self.beside.as_ref().filter(|it| now.since(it.0) < FRESH.0);
        fresh.map(|it| &it.1)
    }

    /// The share of the line that is for this port, and the rate at which others arrive.
    pub fn part(&self, now: Time) -> (f64, f64) {
        let of = |it: &Beside| (it.part.clamp(0.01, 1.0), it.lately.as_bps() as f64);
        self.fresh(now).map_or((1.0, 0.0), of)
    }

    /// Whether a queue is that of ports of this node alone, which stands since then and does not drain.
    pub fn is_alone(&mut self, now: Time, stands: Option<Time>) -> bool {
        let beside = self.fresh(now).filter(|_| now >= self.others);
        let Some(beside) = beside.filter(|_| self.seen.waits(now)) else {
            return false;
        };
        let arrives = self.seen.arrives_at() + beside.arrives.as_bps() as f64;
        let line = self.seen.line_of(now, FRESH.1);
        let is_alone = line.is_none_or(|line| ALONE.contains(&(arrives / line)));
        // Their rates were cut: a queue of theirs would drain.
        if is_alone && stands.is_some_and(|since| now.since(since) >= REFUTED.0) {
            self.others = now.saturating_add(REFUTED.1);
            return false;
        }
        is_alone
    }
}
