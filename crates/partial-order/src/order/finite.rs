//! Finite orders: reachability, chains and bound vectors.

use std::ops::Range;

use super::{MAX_CHAINS, MAX_NODES, OrderError, Sdu};

/// A finite order, transitively closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finite {
    pub(crate) counts: Vec<u32>,
    /// The pairs that cover the relation, by global node number; what OPEN carries.
    pub(crate) edges: Vec<(u16, u16)>,
    first: Vec<usize>,
    /// The numbers in their flow of the SDUs of each chain.
    chains: Vec<Vec<u64>>,
    /// By node, then chain.
    needs: Vec<u32>,
    /// For each node the nodes after it, as bits.
    pub(crate) after: Vec<Bits>,
}

/// A set of node numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bits(Box<[u64]>);

impl Bits {
    pub(crate) fn new(nodes: usize) -> Bits {
        Bits(vec![0; nodes.div_ceil(64)].into())
    }
    pub(crate) fn set(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }
    pub(crate) fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }
    fn add(&mut self, other: &Bits) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }
}

impl Finite {
    pub(crate) fn compile(
        counts: &[u32],
        edges: &[(Sdu, Sdu)],
    ) -> Result<(Finite, Vec<Range<usize>>), OrderError> {
        let nodes = counts
            .iter()
            .fold(0_usize, |sum, &n| sum.saturating_add(n as usize));
        if nodes > MAX_NODES {
            return Err(OrderError::Nodes(nodes));
        }
        let first: Vec<usize> = counts
            .iter()
            .scan(0, |next, &count| {
                let first = *next;
                *next += count as usize;
                Some(first)
            })
            .collect();
        let node = |sdu: Sdu| {
            let known = counts
                .get(sdu.flow)
                .is_some_and(|&n| sdu.number < u64::from(n));
            known.then(|| first[sdu.flow] + sdu.number as usize)
        };
        let mut next = vec![Vec::new(); nodes];
        for &(from, to) in edges {
            match (node(from), node(to)) {
                (Some(a), Some(b)) => next[a].push(b),
                _ => return Err(OrderError::Unknown { from, to }),
            }
        }
        for list in &mut next {
            list.sort_unstable();
            list.dedup();
        }
        let sorted = sorted(&next).map_err(|cycle| {
            let named = cycle.into_iter().map(|at| {
                let flow = first.partition_point(|&start| start <= at) - 1;
                // Flows without SDUs begin at the same node as the flow after them.
                Sdu {
                    flow,
                    number: (at - first[flow]) as u64,
                }
            });
            OrderError::Cycle(named.collect())
        })?;
        let mut after = vec![Bits::new(nodes); nodes];
        for &at in sorted.iter().rev() {
            let mut reached = Bits::new(nodes);
            for &to in &next[at] {
                reached.set(to);
                reached.add(&after[to]);
            }
            after[at] = reached;
        }
        let mut cover = Vec::new();
        for (at, list) in next.iter().enumerate() {
            let direct = list
                .iter()
                .filter(|&&to| !list.iter().any(|&via| after[via].has(to)));
            cover.extend(direct.map(|&to| (at as u16, to as u16)));
        }

        // Greedy chains: each SDU of a flow continues the first chain whose end precedes it.
        let mut place = vec![(0, 0); nodes];
        let mut chains: Vec<Vec<u64>> = Vec::new();
        let mut chains_of = Vec::new();
        let mut ends: Vec<usize> = Vec::new();
        for (flow, &count) in counts.iter().enumerate() {
            let own = first[flow]..first[flow] + count as usize;
            let start = chains.len();
            for &at in sorted.iter().filter(|at| own.contains(at)) {
                let found = (start..chains.len()).find(|&chain| after[ends[chain]].has(at));
                let chain = found.unwrap_or_else(|| {
                    chains.push(Vec::new());
                    ends.push(at);
                    chains.len() - 1
                });
                if chains.len() > MAX_CHAINS {
                    return Err(OrderError::Chains);
                }
                place[at] = (chain, chains[chain].len() as u32);
                chains[chain].push((at - first[flow]) as u64);
                ends[chain] = at;
            }
            chains_of.push(start..chains.len());
        }

        let width = chains.len();
        let mut needs = vec![0; nodes * width];
        for &at in &sorted {
            let own: Vec<u32> = needs[at * width..(at + 1) * width].to_vec();
            for &to in &next[at] {
                let later = &mut needs[to * width..(to + 1) * width];
                for (theirs, mine) in later.iter_mut().zip(&own) {
                    *theirs = (*theirs).max(*mine);
                }
                let (chain, position) = place[at];
                later[chain] = later[chain].max(position + 1);
            }
        }
        let finite = Finite {
            counts: counts.to_vec(),
            edges: cover,
            first,
            chains,
            needs,
            after,
        };
        Ok((finite, chains_of))
    }

    pub(crate) fn nodes(&self) -> usize {
        self.after.len()
    }

    pub(crate) fn number(&self, chain: usize, position: u64) -> Option<u64> {
        self.chains[chain]
            .get(usize::try_from(position).ok()?)
            .copied()
    }

    pub(crate) fn need(&self, sdu: Sdu, chain: usize) -> u64 {
        if sdu.number >= u64::from(self.counts[sdu.flow]) {
            return 0;
        }
        let node = self.first[sdu.flow] + sdu.number as usize;
        u64::from(self.needs[node * self.chains.len() + chain])
    }
}

/// A topological order, or the nodes of a cycle.
fn sorted(next: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut before = vec![0_usize; next.len()];
    for &to in next.iter().flatten() {
        before[to] += 1;
    }
    let mut order: Vec<usize> = (0..next.len()).filter(|&at| before[at] == 0).collect();
    let mut done = 0;
    while let Some(&at) = order.get(done) {
        done += 1;
        for &to in &next[at] {
            before[to] -= 1;
            if before[to] == 0 {
                order.push(to);
            }
        }
    }
    if order.len() == next.len() {
        return Ok(order);
    }
    // Each node left has a predecessor that is left: walk backwards until a node comes twice.
    let left = |at: &usize| before[*at] > 0;
    let mut path = vec![(0..next.len()).find(left).expect("a node is left")];
    loop {
        let last = path[path.len() - 1];
        let earlier = (0..next.len())
            .filter(left)
            .find(|&at| next[at].contains(&last))
            .expect("a node of or after a cycle has a predecessor");
        if let Some(start) = path.iter().position(|&at| at == earlier) {
            let mut cycle = path.split_off(start);
            cycle.reverse();
            let first = cycle[0];
            cycle.push(first);
            return Err(cycle);
        }
        path.push(earlier);
    }
}
