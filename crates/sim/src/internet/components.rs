//! Which nodes some way joins: sets that are united by their links.

/// Disjoint sets of the numbers below a bound.
#[derive(Debug)]
pub(super) struct Components {
    parent: Vec<u32>,
}

impl Components {
    /// `count` sets of one.
    pub fn new(count: usize) -> Components {
        Components {
            parent: (0..count as u32).collect(),
        }
    }

    /// The number that stands for the set of `of`.
    pub fn find(&mut self, of: u32) -> u32 {
        let mut at = of;
        while self.parent[at as usize] != at {
            // Halving the way keeps the next ones short.
            let above = self.parent[self.parent[at as usize] as usize];
            self.parent[at as usize] = above;
            at = above;
        }
        at
    }

    /// Makes one set of two.
    pub fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b) as usize] = a.min(b);
    }

    /// Whether both are in one set.
    pub fn same(&mut self, a: u32, b: u32) -> bool {
        self.find(a) == self.find(b)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sets_are_what_a_walk_over_the_pairs_finds(pairs in prop::collection::vec((0..20_u32, 0..20_u32), 0..30)) {
            let mut sets = Components::new(20);
            for &(a, b) in &pairs {
                sets.join(a, b);
            }
            let mut reached = [false; 20];
            reached[0] = true;
            for _ in 0..20 {
                for &(a, b) in &pairs {
                    let either = reached[a as usize] || reached[b as usize];
                    (reached[a as usize], reached[b as usize]) = (either, either);
                }
            }
            for (i, &reached) in reached.iter().enumerate() {
                prop_assert_eq!(sets.same(0, i as u32), reached);
            }
        }
    }
}
