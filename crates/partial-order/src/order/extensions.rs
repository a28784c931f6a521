//! Counting linear extensions by series and parallel decomposition, and over down-sets where neither applies.

use std::collections::BTreeMap;

use super::finite::{Bits, Finite};

/// Most down-sets that are counted of a part that is neither series nor parallel.
const MAX_STATES: usize = 200_000;

pub(super) fn count(finite: &Finite) -> Option<u128> {
    let all: Vec<usize> = (0..finite.nodes()).collect();
    part(&finite.after, all)
}

fn part(after: &[Bits], nodes: Vec<usize>) -> Option<u128> {
    if nodes.len() <= 1 {
        return Some(1);
    }
    let ordered = |a: usize, b: usize| after[a].has(b) || after[b].has(a);
    let parallel = components(&nodes, ordered);
    if parallel.len() > 1 {
        let mut placed = 0;
        let mut total: u128 = 1;
        for group in parallel {
            placed += group.len() as u128;
            total = total
                .checked_mul(choose(placed, group.len() as u128)?)?
                .checked_mul(part(after, group)?)?;
        }
        return Some(total);
    }
    let series = components(&nodes, |a, b| !ordered(a, b));
    if series.len() > 1 {
        return series.into_iter().try_fold(1_u128, |total, group| {
            total.checked_mul(part(after, group)?)
        });
    }
    down_sets(after, &nodes)
}

/// The connected components of a symmetric relation.
fn components(nodes: &[usize], joined: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut left = nodes.to_vec();
    let mut found = Vec::new();
    while let Some(first) = left.pop() {
        let mut group = vec![first];
        let mut at = 0;
        while let Some(&node) = group.get(at) {
            at += 1;
            left.retain(|&other| {
                let here = joined(node, other);
                if here {
                    group.push(other);
                }
                !here
            });
        }
        found.push(group);
    }
    found
}

fn choose(n: u128, k: u128) -> Option<u128> {
    let k = k.min(n - k);
    (1..=k).try_fold(1_u128, |product, i| {
        Some(product.checked_mul(n - k + i)? / i)
    })
}

/// Sequences by the set of what was delivered, one size after the other.
fn down_sets(after: &[Bits], nodes: &[usize]) -> Option<u128> {
    if nodes.len() > 128 {
        return None;
    }
    let before: Vec<u128> = nodes
        .iter()
        .map(|&node| {
            let earlier = nodes
                .iter()
                .enumerate()
                .filter(|&(_, &it)| after[it].has(node));
            earlier.fold(0, |set, (at, _)| set | 1 << at)
        })
        .collect();
    let mut sets = BTreeMap::from([(0_u128, 1_u128)]);
    for _ in nodes {
        let mut larger = BTreeMap::new();
        for (set, ways) in sets {
            for (at, &needed) in before.iter().enumerate() {
                if set >> at & 1 == 0 && needed & !set == 0 {
                    let sum = larger.entry(set | 1 << at).or_insert(0_u128);
                    *sum = sum.checked_add(ways)?;
                }
            }
        }
        if larger.len() > MAX_STATES {
            return None;
        }
        sets = larger;
    }
    sets.into_values().next()
}
