//! Which transfers begin when: drawn from a plan.

use layercast_core::{Stream, Time};

use crate::internet::network::{Drawn, Law, NodeIndex, Pattern, Planned};

/// What is drawn of a plan, each kind from a stream of its own.
#[derive(Debug)]
pub(super) struct Drawing {
    plan: Drawn,
    arrivals: Stream,
    sizes: Stream,
    ends: Stream,
    /// Transfers so far.
    count: u64,
    /// Pairs so far, of all to all.
    place: u64,
    /// The receiver of each sender, of a permutation.
    partners: Vec<NodeIndex>,
}

impl Drawing {
    /// Nothing is drawn yet; the name is that of the generator.
    pub fn new(plan: &Drawn, name: &str, seed: u64) -> Drawing {
        let stream = |what| Stream::new(seed, &format!("generate/{name}/{what}"));
        Drawing {
            arrivals: stream("arrivals"),
            sizes: stream("sizes"),
            ends: stream("ends"),
            count: 0,
            place: 0,
            partners: Vec::new(),
            plan: plan.clone(),
        }
    }

    /// When the first begins.
    pub fn first(&mut self) -> Option<Time> {
        match self.plan.gap {
            // A Poisson process has begun before.
            Some(gap @ Law::Exponential(_)) => {
                let gap = gap.draw(&mut self.arrivals);
                self.in_time(self.plan.start.saturating_add(gap))
            }
            _ => self.in_time(self.plan.start),
        }
    }

    /// Draws what begins now; gives when more does.
    pub fn due(&mut self, now: Time, due: &mut Vec<Planned>) -> Option<Time> {
        match self.plan.gap {
            None => self.each_pair(now, due),
            Some(_) => self.one(now, due),
        }
        let gap = self.plan.gap?.draw(&mut self.arrivals);
        self.in_time(now.saturating_add(gap))
    }

    /// The instant, if more may begin then.
    fn in_time(&self, at: Time) -> Option<Time> {
        let is_over = self.plan.stop.is_some_and(|stop| at >= stop);
        (!is_over && self.has_more()).then_some(at)
    }

    fn has_more(&self) -> bool {
        self.plan.most.is_none_or(|most| self.count < most)
    }

    fn add(&mut self, now: Time, (from, to): (NodeIndex, NodeIndex), due: &mut Vec<Planned>) {
        if self.has_more() {
            self.count += 1;
            due.push(Planned {
                start: now,
                from,
                to,
                // A transfer of nothing is none.
                bytes: self.plan.sizes.whole(&mut self.sizes).max(1),
            });
        }
    }

    /// One arrival: a transfer, or those of an incast.
    fn one(&mut self, now: Time, due: &mut Vec<Planned>) {
        let senders = self.plan.senders.len() as u64;
        match self.plan.pattern {
            Pattern::Random => {
                let from = self.plan.senders[self.ends.below(senders) as usize];
                let to = self.another(from);
                self.add(now, (from, to), due);
            }
            Pattern::Permutation => {
                self.pair_up();
                let n = self.ends.below(senders) as usize;
                self.add(now, (self.plan.senders[n], self.partners[n]), due);
            }
            Pattern::AllToAll => {
                let pair = self.next_pair();
                self.add(now, pair, due);
            }
            Pattern::Incast(fan_in) => self.incast(now, fan_in, due),
        }
    }

    /// All transfers of the pattern at the same time.
    fn each_pair(&mut self, now: Time, due: &mut Vec<Planned>) {
        let senders = self.plan.senders.len();
        match self.plan.pattern {
            Pattern::Random => {
                for n in 0..senders {
                    let from = self.plan.senders[n];
                    let to = self.another(from);
                    self.add(now, (from, to), due);
                }
            }
            Pattern::Permutation => {
                self.pair_up();
                for n in 0..senders {
                    self.add(now, (self.plan.senders[n], self.partners[n]), due);
                }
            }
            Pattern::AllToAll => {
                for _ in 0..self.plan.pairs() {
                    let pair = self.next_pair();
                    self.add(now, pair, due);
                }
            }
            Pattern::Incast(fan_in) => self.incast(now, fan_in, due),
        }
    }

    /// A receiver that is not this sender.
    fn another(&mut self, from: NodeIndex) -> NodeIndex {
        let receivers = &self.plan.receivers;
        loop {
            let to = receivers[self.ends.below(receivers.len() as u64) as usize];
            if to != from {
                return to;
            }
        }
    }

    /// Draws the partners of a permutation: uniformly among those in which no host is its own.
    fn pair_up(&mut self) {
        while self.partners.is_empty() {
            let mut partners = self.plan.receivers.clone();
            for n in (1..partners.len()).rev() {
                partners.swap(n, self.ends.below(n as u64 + 1) as usize);
            }
            // This is so in a third of the cases at least.
            if partners.iter().zip(&self.plan.senders).all(|(a, b)| a != b) {
                self.partners = partners;
            }
        }
    }

    /// The next pair of all: in the round k each sender goes to the receiver k places on.
    fn next_pair(&mut self) -> (NodeIndex, NodeIndex) {
        let (senders, receivers) = (&self.plan.senders, &self.plan.receivers);
        let count = senders.len() as u64;
        loop {
            let (round, n) = (self.place / count, self.place % count);
            self.place += 1;
            let from = senders[n as usize];
            let to = receivers[((n + round) % receivers.len() as u64) as usize];
            if from != to {
                return (from, to);
            }
        }
    }

    /// Several senders answer one receiver.
    fn incast(&mut self, now: Time, fan_in: u32, due: &mut Vec<Planned>) {
        let receivers = &self.plan.receivers;
        let to = receivers[self.ends.below(receivers.len() as u64) as usize];
        let mut senders = self.plan.senders.clone();
        senders.retain(|&from| from != to);
        for n in 0..senders.len().min(fan_in as usize) {
            let rest = (senders.len() - n) as u64;
            senders.swap(n, n + self.ends.below(rest) as usize);
            self.add(now, (senders[n], to), due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use layercast_core::Span;
    use layercast_workload::dist::Distribution;

    use super::*;

    fn drawn(pattern: Pattern, gap: Option<Law>) -> Drawn {
        let hosts: Vec<NodeIndex> = (0..7).map(NodeIndex).collect();
        Drawn {
            sizes: Distribution::find("const(1000) B", &|_| Err(String::new())).unwrap(),
            senders: hosts.clone(),
            receivers: hosts,
            pattern,
            gap,
            start: Time::ZERO,
            stop: None,
            most: None,
        }
    }

    fn first(plan: &Drawn) -> Vec<(NodeIndex, NodeIndex)> {
        let mut due = Vec::new();
        Drawing::new(plan, "x", 3).due(Time::ZERO, &mut due);
        due.iter().map(|it| (it.from, it.to)).collect()
    }

    #[test]
    fn patterns_have_the_pairs_they_promise() {
        let permutation = first(&drawn(Pattern::Permutation, None));
        let mut to: Vec<_> = permutation.iter().map(|pair| pair.1).collect();
        to.sort();
        assert_eq!(to, (0..7).map(NodeIndex).collect::<Vec<_>>());
        let mut all = first(&drawn(Pattern::AllToAll, None));
        assert_eq!(all.len(), 42);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 42);
        let incast = first(&drawn(Pattern::Incast(4), None));
        let mut from: Vec<_> = incast.iter().map(|pair| pair.0).collect();
        from.sort();
        from.dedup();
        assert_eq!(from.len(), 4);
        assert!(incast.iter().all(|pair| pair.1 == incast[0].1));
        let random = first(&drawn(Pattern::Random, None));
        assert_eq!(random.len(), 7);
        for (from, to) in [permutation, all, incast, random].concat() {
            assert_ne!(from, to);
        }
    }

    #[test]
    fn all_to_all_in_time_has_each_pair_as_often() {
        let mut plan = drawn(Pattern::AllToAll, Some(Law::Constant(Span::from_ms(1))));
        plan.most = Some(84);
        let mut drawing = Drawing::new(&plan, "x", 3);
        let (mut due, mut at) = (Vec::new(), drawing.first());
        while let Some(now) = at {
            at = drawing.due(now, &mut due);
        }
        let mut pairs: BTreeMap<_, u32> = BTreeMap::new();
        for it in &due {
            *pairs.entry((it.from, it.to)).or_default() += 1;
        }
        assert_eq!(due[83].start, Time::ZERO + Span::from_ms(83));
        assert!(pairs.len() == 42 && pairs.values().all(|&n| n == 2));
    }

    #[test]
    fn a_poisson_process_has_its_rate_and_its_variance() {
        let plan = drawn(Pattern::Random, Some(Law::Exponential(Span::from_ms(1))));
        let mut drawing = Drawing::new(&plan, "x", 3);
        let (mut due, mut at) = (Vec::new(), drawing.first());
        while let Some(now) = at.filter(|&now| now < Time::ZERO + Span::from_secs(20)) {
            at = drawing.due(now, &mut due);
        }
        // Of 20,000 arrivals three standard deviations are 424; counts of 200 windows of 100 have a variance of 100 +- 30.
        assert!((19_576..20_424).contains(&due.len()), "{}", due.len());
        let mut counts = [0.0; 200];
        for it in &due {
            counts[(it.start.as_us() / 100_000) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 200.0;
        let variance = counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 199.0;
        assert!((70.0..130.0).contains(&variance), "{variance}");
    }
}
