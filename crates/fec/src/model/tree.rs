use libm::{exp, expm1, log, log1p, pow};
use thiserror::Error;

use super::numeric::{MOST_LOSS, ln_choose};

/// A chain of links and the subtree at its end, replicated `count` times.
#[derive(Clone, PartialEq, Debug)]
pub struct Branch {
    /// Name in placements; similar branches share a name.
    pub name: String,
    /// Loss probability of one link, `0 <= loss < 1`.
    pub loss: f64,
    /// Links in the chain; 0 if the node above is the end itself.
    pub hops: u32,
    /// Number of copies.
    pub count: u64,
    /// Branches at the end; without any, the end is a receiver.
    pub below: Vec<Branch>,
}

/// A multicast tree.
#[derive(Clone, PartialEq, Debug)]
pub struct Tree {
    /// Branches at the source.
    pub below: Vec<Branch>,
}

/// Reason why a tree cannot be evaluated.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum TreeError {
    /// The loss is not a probability below 1.
    #[error("branch {name}: a link loses a packet with a chance in [0, 1), not {loss}")]
    Loss {
        /// The branch.
        name: String,
        /// The given loss.
        loss: f64,
    },
    /// Practically no packet arrives.
    #[error("branch {name} loses {loss} of all packets: its receivers are unreachable")]
    Unreachable {
        /// The branch.
        name: String,
        /// The loss probability of all its links together.
        loss: f64,
    },
    /// The tree has more receivers than are computed with.
    #[error(
        "with branch {0} the tree has more than {MOST_RECEIVERS} receivers: lower its count, or those of the branches \
         above it"
    )]
    TooMany(String),
    /// The tree has no receiver.
    #[error("the tree has no receivers")]
    Empty,
}

/// The sum for the expectation ends at a probability below this.
const NEGLIGIBLE: f64 = 1e-13;
/// Receivers of a tree at most. Counts that multiply to more are mistakes, and beyond 64 bits they are not even counted.
const MOST_RECEIVERS: u64 = 1_000_000_000;

impl Branch {
    /// Creates a branch with receivers at its end.
    pub fn leaf(name: &str, loss: f64, hops: u32, count: u64) -> Branch {
        Branch {
            name: name.to_owned(),
            loss,
            hops,
            count,
            below: Vec::new(),
        }
    }

    /// The loss probability of all its links together.
    pub fn path_loss(&self) -> f64 {
        -expm1(f64::from(self.hops) * log1p(-self.loss))
    }

    /// Number of links, all copies included.
    pub fn links(&self) -> f64 {
        let below: f64 = self.below.iter().map(Branch::links).sum();
        self.count as f64 * (f64::from(self.hops) + below)
    }

    /// Number of receivers, all copies included.
    pub fn receivers(&self) -> u64 {
        let each = match self.below.is_empty() {
            true => 1,
            false => self
                .below
                .iter()
                .map(Branch::receivers)
                .fold(0, u64::saturating_add),
        };
        self.count.saturating_mul(each)
    }

    fn check(&self) -> Result<(), TreeError> {
        let name = || self.name.clone();
        if !(0.0..1.0).contains(&self.loss) {
            return Err(TreeError::Loss {
                name: name(),
                loss: self.loss,
            });
        }
        let loss = self.path_loss();
        if loss > MOST_LOSS {
            return Err(TreeError::Unreachable { name: name(), loss });
        }
        self.below.iter().try_for_each(Branch::check)
    }

    /// The first branch with which there are too many receivers, if `copies` of each of `branches` are there.
    fn too_many(branches: &[Branch], copies: u64) -> Option<&Branch> {
        let mut sum = 0_u64;
        for branch in branches {
            let within = copies.saturating_mul(branch.count);
            if let Some(found) = Branch::too_many(&branch.below, within) {
                return Some(found);
            }
            sum = sum.saturating_add(copies.saturating_mul(branch.receivers()));
            if sum > MOST_RECEIVERS {
                return Some(branch);
            }
        }
        None
    }
}

impl Tree {
    /// Tree 3 of the paper: `height - branch` shared links with loss `shared_loss` each, then `receivers` branches of
    /// `branch` links with loss `branch_loss` each. The parts are named `shared` and `branch`.
    pub fn tree3(
        height: u32,
        branch: u32,
        receivers: u64,
        shared_loss: f64,
        branch_loss: f64,
    ) -> Tree {
        let below = Branch::leaf("branch", branch_loss, branch, receivers);
        let shared = Branch {
            below: vec![below],
            ..Branch::leaf("shared", shared_loss, height.saturating_sub(branch), 1)
        };
        Tree {
            below: vec![shared],
        }
    }

    /// Tree 4 of the paper: a shared path of the WAN, its branches of `branch` links, and at the end of each a LAN of
    /// `lan_size` receivers behind `lan` links. Losses are per link of the shared path, the WAN branches and the
    /// LANs. The parts are named `shared`, `wan` and `lan`. The last LAN may be smaller.
    pub fn tree4(
        height: u32,
        branch: u32,
        lan: u32,
        receivers: u64,
        lan_size: u64,
        losses: [f64; 3],
    ) -> Tree {
        let part = |size: u64, count: u64| {
            let below = vec![Branch::leaf("lan", losses[2], lan, size)];
            Branch {
                below,
                ..Branch::leaf("wan", losses[1], branch, count)
            }
        };
        let size = lan_size.max(1);
        let parts = [part(size, receivers / size), part(receivers % size, 1)];
        let below = parts.into_iter().filter(|it| it.receivers() > 0).collect();
        let shared = Branch {
            below,
            ..Branch::leaf("shared", losses[0], height.saturating_sub(lan + branch), 1)
        };
        Tree {
            below: vec![shared],
        }
    }

    /// Transmissions by the source until every receiver has a packet, with repairs to all: exact
    /// (specs/where-to-use-fec.md 2.2).
    ///
    /// # Errors
    ///
    /// [`TreeError`] if a loss is not a probability, or so near to 1 that hardly anything arrives, and if there are no
    /// receivers or too many.
    pub fn expected(&self) -> Result<f64, TreeError> {
        self.below.iter().try_for_each(Branch::check)?;
        if let Some(branch) = Branch::too_many(&self.below, 1) {
            return Err(TreeError::TooMany(branch.name.clone()));
        }
        if self.receivers() == 0 {
            return Err(TreeError::Empty);
        }
        let mut nodes: Vec<Node> = self
            .below
            .iter()
            .filter(|it| it.receivers() > 0)
            .map(Node::new)
            .collect();
        let mut sum = 1.0;
        for i in 1.. {
            let lacking = lacking(&mut nodes, i);
            sum += lacking;
            if lacking < NEGLIGIBLE {
                break;
            }
        }
        Ok(sum)
    }

    /// Links of the tree.
    pub fn links(&self) -> f64 {
        self.below.iter().map(Branch::links).sum()
    }

    /// Receivers of the tree.
    pub fn receivers(&self) -> u64 {
        self.below
            .iter()
            .map(Branch::receivers)
            .fold(0, u64::saturating_add)
    }
}

/// A branch during the evaluation.
struct Node {
    loss: f64,
    count: f64,
    below: Vec<Node>,
    /// Element `j`: the probability that a receiver below lacks the packet after `j` arrivals at the end of the
    /// branch.
    beyond: Vec<f64>,
}

impl Node {
    fn new(branch: &Branch) -> Node {
        let below = branch.below.iter().filter(|it| it.receivers() > 0);
        Node {
            loss: branch.path_loss(),
            count: branch.count as f64,
            below: below.map(Node::new).collect(),
            beyond: vec![1.0],
        }
    }

    /// The probability that a receiver of one copy of the branch lacks the packet after `i` transmissions at its
    /// beginning: 1 - F(i) of specs/where-to-use-fec.md 2.2, formula (3) and (4).
    fn lacks(&mut self, i: usize) -> f64 {
        if self.below.is_empty() {
            return pow(self.loss, i as f64);
        }
        while self.beyond.len() <= i {
            let next = lacking(&mut self.below, self.beyond.len());
            self.beyond.push(next);
        }
        if self.loss <= 0.0 {
            return self.beyond[i];
        }
        let (ln_lost, ln_kept, n) = (log(self.loss), log1p(-self.loss), i as f64);
        let chance = |lost: usize| {
            let u = lost as f64;
            exp(ln_choose(n, u) + u * ln_lost + (n - u) * ln_kept)
        };
        // Rounding takes the sum of all chances above 1.
        (0..=i)
            .map(|lost| chance(lost) * self.beyond[i - lost])
            .sum::<f64>()
            .min(1.0)
    }
}

/// The probability that a receiver of these branches lacks the packet after `i` transmissions at their beginning.
fn lacking(nodes: &mut [Node], i: usize) -> f64 {
    let ln_all: f64 = nodes
        .iter_mut()
        .map(|it| it.count * log1p(-it.lacks(i)))
        .sum();
    -expm1(ln_all)
}
