//! The service order: a strict partial order over the SDUs of all flows (specs/partial-order-transport.md 2.2).

mod extensions;
mod finite;
mod tspn;

use std::ops::Range;

pub(crate) use finite::Finite;
pub use tspn::{Arc, Place, Transition, Tspn, TspnError};

/// Most flows of one connection.
pub const MAX_FLOWS: usize = 64;
/// Most SDUs of a finite order.
pub const MAX_NODES: usize = 4_096;
/// Most chains of a finite order: what one deliverability check costs.
pub const MAX_CHAINS: usize = 256;
/// Most SDUs of one flow in one block.
pub const MAX_BLOCK: u32 = 4_096;

/// An SDU: flow and number in the flow, both from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sdu {
    /// Index of the flow in the connection.
    pub flow: usize,
    /// Number in the flow.
    pub number: u64,
}

impl std::fmt::Display for Sdu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {})", self.flow, self.number)
    }
}

/// Why an order is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OrderError {
    /// No flow, or more than [`MAX_FLOWS`].
    #[error("an order has 1 to {MAX_FLOWS} flows, not {0}")]
    Flows(usize),
    /// A pattern in which a flow has no SDU, or too many.
    #[error("a block has 1 to {MAX_BLOCK} SDUs of each flow; flow {flow} has {count}")]
    Count {
        /// The flow.
        flow: usize,
        /// What the pattern says.
        count: u32,
    },
    /// More than [`MAX_NODES`] SDUs.
    #[error("a finite order has at most {MAX_NODES} SDUs, not {0}")]
    Nodes(usize),
    /// More than [`MAX_CHAINS`] chains.
    #[error(
        "the order needs more than {MAX_CHAINS} chains; order the SDUs of each flow more, or use fewer SDUs"
    )]
    Chains,
    /// An edge names an SDU that the order does not have.
    #[error("the edge {from} < {to} names an SDU that does not exist")]
    Unknown {
        /// The earlier SDU.
        from: Sdu,
        /// The later SDU.
        to: Sdu,
    },
    /// The relation has a cycle.
    #[error("the order has a cycle: {}", .0.iter().map(Sdu::to_string).collect::<Vec<_>>().join(" < "))]
    Cycle(Vec<Sdu>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No SDU precedes another.
    Free,
    /// Blocks in series; `parallel` flows have no order inside a block.
    Blocks {
        counts: Vec<u32>,
        parallel: Vec<bool>,
    },
    /// A finite order, for still images and hypermedia.
    Finite(Finite),
}

/// A partial order over the SDUs of some flows, compiled to bound vectors.
///
/// [`need`](Order::need) of an SDU says for each chain how many of its leading SDUs must be settled (delivered or
/// declared lost) first. The needs are transitively closed and never decrease along a chain. A flow of a pattern
/// is one chain; a flow of a finite order is one or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub(crate) kind: Kind,
    flow_of: Vec<usize>,
    chains_of: Vec<Range<usize>>,
}

impl Order {
    /// No order at all: each SDU is delivered when it arrives.
    pub fn none(flows: usize) -> Result<Order, OrderError> {
        check_flows(flows)?;
        Ok(Order::with_one_chain_each(Kind::Free, flows))
    }

    /// Blocks in series: block `b` has the SDUs `b·m` to `b·m + m - 1` of each flow, where `m` is the count of the
    /// flow. Flows are parallel inside a block, the SDUs of one flow are in sequence.
    pub fn blocks(counts: &[u32]) -> Result<Order, OrderError> {
        Order::blocks_with(counts, &vec![false; counts.len()])
    }

    /// Blocks in series; flows that are `parallel` have no order inside a block either. Missing entries of
    /// `parallel` are false.
    pub fn blocks_with(counts: &[u32], parallel: &[bool]) -> Result<Order, OrderError> {
        check_flows(counts.len())?;
        for (flow, &count) in counts.iter().enumerate() {
            if count == 0 || count > MAX_BLOCK {
                return Err(OrderError::Count { flow, count });
            }
        }
        let mut parallel = parallel.to_vec();
        parallel.resize(counts.len(), false);
        let kind = Kind::Blocks {
            counts: counts.to_vec(),
            parallel,
        };
        Ok(Order::with_one_chain_each(kind, counts.len()))
    }

    /// One flow in total order, as of TCP.
    pub fn total() -> Order {
        Order::blocks(&[1]).expect("a block of one SDU is an order")
    }

    /// A finite order: `counts` SDUs of each flow, and pairs of which the first precedes the second.
    pub fn dag(counts: &[u32], edges: &[(Sdu, Sdu)]) -> Result<Order, OrderError> {
        check_flows(counts.len())?;
        let (finite, chains_of) = Finite::compile(counts, edges)?;
        let flow_of = chains_of
            .iter()
            .enumerate()
            .flat_map(|(flow, chains)| chains.clone().map(move |_| flow))
            .collect();
        Ok(Order {
            kind: Kind::Finite(finite),
            flow_of,
            chains_of,
        })
    }

    fn with_one_chain_each(kind: Kind, flows: usize) -> Order {
        Order {
            kind,
            flow_of: (0..flows).collect(),
            chains_of: (0..flows).map(|flow| flow..flow + 1).collect(),
        }
    }

    /// Number of flows.
    pub fn flows(&self) -> usize {
        self.chains_of.len()
    }

    /// Number of chains.
    pub fn chains(&self) -> usize {
        self.flow_of.len()
    }

    /// The chains of a flow.
    pub fn chains_of(&self, flow: usize) -> Range<usize> {
        self.chains_of[flow].clone()
    }

    /// The flow of a chain.
    pub fn flow_of(&self, chain: usize) -> usize {
        self.flow_of[chain]
    }

    /// How many SDUs a flow has; `None`: no end.
    pub fn length(&self, flow: usize) -> Option<u64> {
        match &self.kind {
            Kind::Finite(finite) => Some(u64::from(finite.counts[flow])),
            _ => None,
        }
    }

    /// The number in its flow of the SDU at a position of a chain; `None` beyond its end.
    #[inline]
    pub fn number(&self, chain: usize, position: u64) -> Option<u64> {
        match &self.kind {
            Kind::Finite(finite) => finite.number(chain, position),
            _ => Some(position),
        }
    }

    /// How many leading SDUs of `chain` precede `sdu`. An SDU beyond the end of a finite order needs none.
    #[inline]
    pub fn need(&self, sdu: Sdu, chain: usize) -> u64 {
        match &self.kind {
            Kind::Free => 0,
            Kind::Blocks { counts, parallel } => {
                if chain == sdu.flow && !parallel[chain] {
                    sdu.number
                } else {
                    let block = sdu.number / u64::from(counts[sdu.flow]);
                    block.saturating_mul(u64::from(counts[chain]))
                }
            }
            Kind::Finite(finite) => finite.need(sdu, chain),
        }
    }

    /// Whether `first` precedes `second`.
    pub fn precedes(&self, first: Sdu, second: Sdu) -> bool {
        self.chains_of(first.flow).any(|chain| {
            (0..self.need(second, chain)).any(|at| self.number(chain, at) == Some(first.number))
        })
    }

    /// One more than the highest number of `flow` that precedes `sdu`; 0: none does.
    pub fn horizon(&self, sdu: Sdu, flow: usize) -> u64 {
        self.chains_of(flow)
            .filter_map(|chain| self.number(chain, self.need(sdu, chain).checked_sub(1)?))
            .map(|number| number + 1)
            .max()
            .unwrap_or(0)
    }

    /// The finite order of the first `counts` SDUs of each flow.
    pub fn restricted(&self, counts: &[u32]) -> Result<Order, OrderError> {
        let nodes = counts.iter().map(|&count| count as usize).sum();
        if counts.len() != self.flows() {
            return Err(OrderError::Flows(counts.len()));
        }
        if nodes > MAX_NODES {
            return Err(OrderError::Nodes(nodes));
        }
        let mut edges = Vec::new();
        for (flow, &count) in counts.iter().enumerate() {
            for number in 0..u64::from(count) {
                let to = Sdu { flow, number };
                for chain in 0..self.chains() {
                    let of = self.flow_of(chain);
                    let within = |at: &u64| {
                        self.number(chain, *at)
                            .is_some_and(|it| it < u64::from(counts[of]))
                    };
                    edges.extend((0..self.need(to, chain)).filter(within).filter_map(|at| {
                        let number = self.number(chain, at)?;
                        Some((Sdu { flow: of, number }, to))
                    }));
                }
            }
        }
        Order::dag(counts, &edges)
    }

    /// The number of sequences in which the SDUs of a finite order may be delivered: 1 for a total order, `n!` for
    /// none. `None`: the order has no end, the number exceeds 128 bits, or counting takes too long
    /// (P. D. Amer et al., Partial-order transport service for multimedia applications, 1994).
    pub fn linear_extensions(&self) -> Option<u128> {
        match &self.kind {
            Kind::Finite(finite) => extensions::count(finite),
            _ => None,
        }
    }
}

fn check_flows(flows: usize) -> Result<(), OrderError> {
    if (1..=MAX_FLOWS).contains(&flows) {
        Ok(())
    } else {
        Err(OrderError::Flows(flows))
    }
}
