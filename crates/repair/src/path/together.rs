//! Ports of one node whose paths share a line: a queue there is theirs, and they divide what the line carries.

mod division;
mod doubt;
mod line;
mod seen;
mod shown;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use layercast_core::{Rate, Span, Time};

pub use division::Needs;
use division::{Part, Port, divide, lend, one_more};
use line::Line;
use seen::Alike;
pub use seen::PathSeen;

/// The line is that of ports of this node alone if they get this share of it: more could not pass there.
const ALONE: RangeInclusive<f64> = 0.85..=1.2;
/// For how long it is known what they get, and the rate of the line.
const FRESH: (Span, Span) = (Span::from_secs(1), Span::from_secs(10));
/// A queue that stays for the first time although they are alone refutes that for the second time.
const REFUTED: (Span, Span) = (Span::from_secs(3), Span::from_secs(20));
/// Comparisons in which two ports saw the same queue: from the first number on they share a line, and no more are counted than the second. One in
/// which they did not counts against this many of them.
const TOGETHER: u32 = 3;
const KNOWN: u32 = 40;
const AGAINST: u32 = 2;
/// For how long ports are apart after others used their line: longer each time, up to the second span.
const APART: (Span, Span) = (Span::from_secs(20), Span::from_secs(640));
/// One of the ports at a time measures the line by trains, each for this time.
const TURN: Span = Span::from_secs(1);

/// What a port knows of others of its node that share its line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beside {
    /// The rate of arrivals over the others.
    pub arrives: Rate,
    /// What the line carries for this port.
    pub part: Rate,
    /// At what rate it may send now: less, as long as the base layer of another port waits.
    pub pace: Rate,
    /// The queue of the line.
    pub queue: Span,
    /// The path of this port has become longer by this: what looked like a queue is none.
    pub longer: Option<Span>,
    /// It is this port's turn to measure the line.
    pub measures: bool,
}

/// Finds the ports of a node that share a line, by the queues that they see, and divides among them what it carries.
///
/// A queue on a shared line delays the datagrams of all of its ports alike, at the same time, as RFC 8382 has it for flows. Ports that are found together
/// are one flow to the line, and divide its rate among themselves as in RFC 8699: each gets its part, and what one has no use for is for the others.
#[derive(Default, Debug)]
pub struct Trunks {
    ports: BTreeMap<u32, Known>,
    /// How much speaks for it that two ports share a line.
    pairs: BTreeMap<(u32, u32), Pair>,
    /// Lines that several ports share, by the least number of a port.
    lines: BTreeMap<u32, Line>,
    /// What another port would get if it shared a line with those that there are.
    next: Option<f64>,
}

/// A port as it was at the last comparison.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// When its connection began.
    since: Time,
    /// The line that it shared.
    line: Option<u32>,
    /// The level that was divided to it.
    level: usize,
}

#[derive(Clone, Copy, Default, Debug)]
struct Pair {
    alike: u32,
    together: bool,
    /// Until when they are apart because others used their line, and for how long that was.
    apart: Option<(Time, Span)>,
}

impl Trunks {
    /// Compares the ports of a node, each with its number, in rising order; gives what each knows of those that share its line, `None` if there are none.
    pub fn compare(&mut self, now: Time, ports: &[(u32, PathSeen)]) -> Vec<Option<Beside>> {
        debug_assert!(ports.is_sorted_by_key(|it| it.0));
        self.forget(ports);
        self.judge(now, ports);
        let mut found = vec![None; ports.len()];
        let mut lines = BTreeMap::new();
        let mut next: Option<f64> = None;
        for members in groups(&self.first(ports)) {
            let members: Vec<&(u32, PathSeen)> = members.iter().map(|at| &ports[*at]).collect();
            let mut carries = members[0].1.carries();
            // One that is left of several has the line for itself, and continues from there alone.
            let left = |id: u32| {
                self.ports
                    .get(&id)
                    .is_some_and(|known| known.line.is_some())
            };
            if (members.len() > 1 || left(members[0].0))
                && let Some(mut line) = self.line_of(now, &members)
            {
                let seen: Vec<&PathSeen> = members.iter().map(|it| &it.1).collect();
                let wants = self.wants(&members);
                let mut each = wants.iter().zip(&seen);
                let is_behind =
                    each.any(|(port, seen)| port.is_behind(seen.arrives_at(), seen.waiting()[1]));
                line.look(now, &seen, one_more(&wants), is_behind);
                carries = Some(line.carries());
                let first = members[0].0;
                for (id, beside) in self.divide(now, &members, first, &line) {
                    if let Ok(at) = ports.binary_search_by_key(&id, |it| it.0) {
                        found[at] = Some(beside);
                    }
                }
                if line.has_others(now) {
                    self.part(now, &members);
                } else if members.len() > 1 {
                    lines.insert(first, line);
                }
            } else {
                for (id, seen) in &members {
                    let known = Known {
                        since: seen.since(),
                        line: None,
                        level: 0,
                    };
                    self.ports.insert(*id, known);
                }
            }
            let part = carries.map_or(f64::MAX, |it| it / (members.len() + 1) as f64);
            next = Some(next.unwrap_or(0.0).max(part));
        }
        self.lines = lines;
        self.next = next.filter(|it| *it < f64::MAX);
        found
    }

    /// The rate at which another port begins: what it gets if it shares a line with those that there are. `None` if one of them found no limit.
    pub fn next_part(&self) -> Option<Rate> {
        self.next.map(|bps| Rate::from_bps(bps as u64))
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

    /// Compares what the ports saw lately.
    fn judge(&mut self, now: Time, ports: &[(u32, PathSeen)]) {
        for (at, (a, one)) in ports.iter().enumerate() {
            let Some(end) = one.known_until(now) else {
                continue;
            };
            for (b, other) in &ports[at + 1..] {
                let Some(end) = other.known_until(now).map(|it| it.min(end)) else {
                    continue;
                };
                match one.alike(other, end) {
                    Alike::Unknown => {}
                    Alike::Yes => {
                        let pair = self.pairs.entry((*a, *b)).or_default();
                        pair.alike = (pair.alike + 1).min(KNOWN);
                        let may = pair.apart.is_none_or(|(until, _)| now >= until);
                        pair.together |= pair.alike >= TOGETHER && may;
                    }
                    Alike::No => {
                        if let Some(pair) = self.pairs.get_mut(&(*a, *b)) {
                            pair.alike = pair.alike.saturating_sub(AGAINST);
                        }
                    }
                }
            }
        }
        self.pairs
            .retain(|_, pair| pair.alike > 0 || pair.apart.is_some());
        for pair in self.pairs.values_mut().filter(|pair| pair.alike == 0) {
            pair.together = false;
        }
    }

    /// For each port the place of the first of those that share its line.
    fn first(&self, ports: &[(u32, PathSeen)]) -> Vec<usize> {
        let mut first: Vec<usize> = (0..ports.len()).collect();
        let place = |id: u32| ports.binary_search_by_key(&id, |it| it.0).ok();
        for ((a, b), _) in self.pairs.iter().filter(|(_, pair)| pair.together) {
            if let (Some(a), Some(b)) = (place(*a), place(*b)) {
                let (a, b) = (first[a], first[b]);
                let (low, high) = (a.min(b), a.max(b));
                let moved = first.iter_mut().filter(|it| **it == high);
                moved.for_each(|it| *it = low);
            }
        }
        first
    }

    /// The line of these ports: the one that it was, or a new one that carries what they and the lines that they had carried until now.
    fn line_of(&self, now: Time, members: &[&(u32, PathSeen)]) -> Option<Line> {
        let (mut lines, mut alone) = (BTreeMap::new(), 0.0);
        for (id, seen) in members {
            let line = self.ports.get(id).and_then(|known| known.line);
            match line.and_then(|first| Some((first, self.lines.get(&first)?))) {
                Some((first, line)) => drop(lines.insert(first, *line)),
                None => alone += seen.carries().unwrap_or(0.0).max(seen.arrives_at()),
            }
        }
        let sum: f64 = lines.values().map(Line::carries).sum();
        match (lines.len(), alone) {
            (1, 0.0) => lines.into_values().next(),
            _ if sum + alone <= 0.0 => None,
            _ => Some(Line::new(now, sum + alone)),
        }
    }

    /// Others use the line of these ports, so that each is to take its share beside them.
    fn part(&mut self, now: Time, members: &[&(u32, PathSeen)]) {
        let is_member = |id: u32| members.iter().any(|it| it.0 == id);
        for ((a, b), pair) in &mut self.pairs {
            if pair.together && is_member(*a) && is_member(*b) {
                let before = pair.apart.map(|(_, span)| span.times(2).min(APART.1));
                let span = before.unwrap_or(APART.0);
                *pair = Pair {
                    alike: 0,
                    together: false,
                    apart: Some((now.saturating_add(span), span)),
                };
            }
        }
    }

    /// What these ports need, and what they had.
    fn wants(&self, members: &[&(u32, PathSeen)]) -> Vec<Port> {
        let of = |(id, seen): &&(u32, PathSeen)| Port {
            needs: seen.needs(),
            held: self.ports.get(id).map_or(0, |known| known.level),
        };
        members.iter().map(of).collect()
    }

    fn divide(
        &mut self,
        now: Time,
        members: &[&(u32, PathSeen)],
        first: u32,
        line: &Line,
    ) -> Vec<(u32, Beside)> {
        let carries = line.carries();
        let wants = self.wants(members);
        let arrives: f64 = members.iter().map(|it| it.1.arrives_at()).sum();
        let turn = (now.as_us() / TURN.as_us()) as usize % members.len();
        let parts: Vec<(Port, Part)> = wants.iter().copied().zip(divide(carries, &wants)).collect();
        let waits: Vec<u64> = members.iter().map(|it| it.1.waiting()[0]).collect();
        let paces = lend(carries, &parts, &waits);
        let parts = members.iter().zip(parts.iter().zip(paces)).enumerate();
        let mut found = Vec::with_capacity(members.len());
        for (at, ((id, seen), ((_, part), pace))) in parts {
            let known = Known {
                since: seen.since(),
                line: Some(first),
                level: part.level,
            };
            self.ports.insert(*id, known);
            let beside = Beside {
                arrives: Rate::from_bps((arrives - seen.arrives_at()).max(0.0) as u64),
                part: Rate::from_bps((part.share * carries) as u64),
                pace: Rate::from_bps((line.share() * pace) as u64),
                queue: line.queue(),
                longer: line.longer(seen),
                measures: at == turn,
            };
            found.push((*id, beside));
        }
        found
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

    /// What the line carries for this port, if others of the node share it.
    pub fn part(&self, now: Time) -> Option<f64> {
        self.fresh(now).map(|it| it.part.as_bps() as f64)
    }

    /// At what rate the port may send on a line that others of the node share, and the queue of that.
    pub fn pace(&self, now: Time) -> Option<(f64, Span)> {
        self.fresh(now)
            .map(|it| (it.pace.as_bps() as f64, it.queue))
    }

    /// Whether the line may be measured by a train: one port does so at a time.
    pub fn measures(&self, now: Time) -> bool {
        self.fresh(now).is_none_or(|it| it.measures)
    }

    /// Whether a queue is that of ports of this node alone, which stands since then and does not drain.
    pub fn is_alone(&mut self, now: Time, stands: Option<Time>) -> bool {
        let beside = self
            .fresh(now)
            .filter(|it| now >= self.others && it.arrives.as_bps() > 0);
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
