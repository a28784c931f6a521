use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Branch, Tree, TreeError, residual};

/// Effect of FEC on the protected part of a tree.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Divides each link's loss by this factor, at zero overhead: the paper's abstraction, with factor 100.
    Factor(f64),
    /// An encoder at the beginning and a decoder at the end of each branch, with blocks of `n + m` packets.
    Code {
        /// Source packets.
        n: usize,
        /// Parities.
        m: usize,
    },
    /// For each part the code `n + m` with the best net gain; `m` is at most 4 and `n + m` at most this.
    Best {
        /// Longest block in packets.
        block: usize,
    },
}

/// Result of a placement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Ranked {
    /// The protected parts of the tree.
    pub parts: Vec<String>,
    /// The code of each part as `[n, m]`, if the effect uses codes.
    pub codes: Vec<[usize; 2]>,
    /// Transmissions per packet until all receivers have it.
    pub expected: f64,
    /// Transmissions without FEC, divided by `expected`.
    pub gain: f64,
    /// The gain, counting parities on the links that carry them.
    pub net_gain: f64,
    /// Packets on all links, divided by those without parities.
    pub overhead: f64,
    /// Links that carry parities.
    pub parity_links: f64,
}

/// Result of [`plan`].
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Plan {
    /// Receivers of the tree.
    pub receivers: u64,
    /// Links of the tree.
    pub links: f64,
    /// Transmissions per packet without FEC.
    pub expected: f64,
    /// Placements in descending order of net gain.
    pub placements: Vec<Ranked>,
}

/// Reason why there is no plan.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum PlanError {
    /// The tree is invalid.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// There are too many parts: placements are all subsets of the parts.
    #[error("the tree has {0} parts of different names: placements of at most 10 are compared")]
    Parts(usize),
    /// The effect is invalid: no code, or no improvement.
    #[error("invalid effect of FEC: {0}")]
    Effect(&'static str),
}

/// Largest number of parts of which all subsets are evaluated.
const MOST_PARTS: usize = 10;

/// Compares all placements of FEC on the named parts of a tree (specs/where-to-use-fec.md 2.4, 2.5).
///
/// # Errors
///
/// [`PlanError`] if the tree or the effect is invalid, or there are too many parts.
pub fn plan(tree: &Tree, effect: Effect) -> Result<Plan, PlanError> {
    let reason = match effect {
        Effect::Factor(by) if by.is_nan() || by < 1.0 => Some("the factor must be at least 1"),
        Effect::Code { n, m } if n == 0 || m == 0 => {
            Some("a code has at least one source packet and one parity")
        }
        Effect::Best { block } if !(2..=255).contains(&block) => {
            Some("a block has 2 to 255 packets")
        }
        _ => None,
    };
    if let Some(reason) = reason {
        return Err(PlanError::Effect(reason));
    }
    let mut parts = Vec::new();
    tree.below.iter().for_each(|it| names(it, &mut parts));
    if parts.len() > MOST_PARTS {
        return Err(PlanError::Parts(parts.len()));
    }
    let expected = tree.expected()?;
    let mut placements = Vec::new();
    for chosen in 1_u32..1 << parts.len() {
        let chosen = parts
            .iter()
            .enumerate()
            .filter(|it| chosen >> it.0 & 1 == 1);
        let chosen: Vec<&str> = chosen.map(|it| it.1.as_str()).collect();
        placements.push(rank(tree, expected, &chosen, effect)?);
    }
    // Among equal placements the one with fewer parts comes first: it is cheaper to operate.
    placements.sort_by(|a, b| {
        b.net_gain
            .total_cmp(&a.net_gain)
            .then(a.parts.len().cmp(&b.parts.len()))
    });
    Ok(Plan {
        receivers: tree.receivers(),
        links: tree.links(),
        expected,
        placements,
    })
}

/// Collects the names of the parts that have links, starting at the source.
fn names(branch: &Branch, found: &mut Vec<String>) {
    if branch.hops > 0 && branch.receivers() > 0 && !found.contains(&branch.name) {
        found.push(branch.name.clone());
    }
    branch.below.iter().for_each(|it| names(it, found));
}

fn rank(tree: &Tree, without: f64, parts: &[&str], effect: Effect) -> Result<Ranked, TreeError> {
    let Effect::Best { block } = effect else {
        let by = match effect {
            Effect::Factor(by) => Some(by),
            _ => None,
        };
        let code = match effect {
            Effect::Code { n, m } => [n, m],
            _ => [1, 0],
        };
        return evaluate(tree, without, parts, &vec![code; parts.len()], by);
    };
    // Optimises part by part, repeatedly, since the best code of a part depends slightly on the others.
    let mut codes = vec![[1, 0]; parts.len()];
    let mut best = evaluate(tree, without, parts, &codes, None)?;
    for _ in 0..2 {
        for part in 0..parts.len() {
            for code in candidates(block) {
                let mut tried = codes.clone();
                tried[part] = code;
                let ranked = evaluate(tree, without, parts, &tried, None)?;
                if ranked.net_gain > best.net_gain {
                    (codes, best) = (tried, ranked);
                }
            }
        }
    }
    Ok(best)
}

/// Candidate codes for blocks up to a length; block sizes in steps of an eighth.
fn candidates(block: usize) -> impl Iterator<Item = [usize; 2]> {
    (1..=4_usize).flat_map(move |m| {
        let most = block.saturating_sub(m);
        std::iter::successors(Some(1_usize), |n| Some(n + 1 + n / 8))
            .take_while(move |n| *n < most)
            .chain((most > 0).then_some(most))
            .map(move |n| [n, m])
    })
}

/// Evaluates a placement: with `by` each link's loss is divided by it, else codes work end to end on each branch.
fn evaluate(
    tree: &Tree,
    without: f64,
    parts: &[&str],
    codes: &[[usize; 2]],
    by: Option<f64>,
) -> Result<Ranked, TreeError> {
    let mut protected = tree.clone();
    let (mut parities, mut parity_links) = (0.0, 0.0);
    for branch in &mut protected.below {
        protect(branch, 1.0, &mut |branch, times| {
            let Some(part) = parts.iter().position(|it| *it == branch.name) else {
                return;
            };
            let links = times * f64::from(branch.hops);
            let [n, m] = codes[part];
            match by {
                Some(by) => branch.loss /= by,
                None if m > 0 => {
                    // Replaces the path by one link with the loss after decoding.
                    branch.loss = residual(n, m, branch.path_loss());
                    branch.hops = branch.hops.min(1);
                }
                None => return,
            }
            parity_links += links;
            parities += links * m as f64 / n as f64;
        });
    }
    let expected = protected.expected()?;
    let overhead = 1.0 + parities / tree.links();
    let gain = without / expected;
    Ok(Ranked {
        parts: parts.iter().map(ToString::to_string).collect(),
        codes: if by.is_some() {
            Vec::new()
        } else {
            codes.to_vec()
        },
        expected,
        gain,
        net_gain: gain / overhead,
        overhead,
        parity_links,
    })
}

/// Calls `change` for a branch and all branches below it, with the number of copies of each.
fn protect(branch: &mut Branch, above: f64, change: &mut impl FnMut(&mut Branch, f64)) {
    let times = above * branch.count as f64;
    change(branch, times);
    branch
        .below
        .iter_mut()
        .for_each(|it| protect(it, times, change));
}
