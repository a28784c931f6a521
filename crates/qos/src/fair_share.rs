use layercast_core::{CellRate, FlowId, Level};

/// What one flow asks of a link or end system (mets.md 2.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Who asks.
    pub flow: FlowId,
    /// The level to fall back to.
    pub min: Level,
    /// The level wanted.
    pub max: Level,
    /// Cells/s above the base layer at level 1.
    pub l1: CellRate,
    /// Cells/s above the base layer at level 2, E1 included.
    pub l2: CellRate,
}

impl Demand {
    /// Cells/s above the base layer at `level`; a level never costs less than one below it.
    fn cost(&self, level: Level) -> u32 {
        match level.get() {
            0 => 0,
            1 => self.l1.0,
            _ => self.l2.0.max(self.l1.0),
        }
    }

    /// The highest of min and max that costs at most `share` more than `granted`.
    fn affordable(&self, granted: Level, share: u32) -> Option<Level> {
        [self.max, self.min]
            .into_iter()
            .filter(|&level| level > granted)
            .find(|&level| self.cost(level).saturating_sub(self.cost(granted)) <= share)
    }
}

/// Splits the residual bandwidth of a link among flows that take whole layers, and returns what is
/// left over (the loop of mets.md 2.11).
///
/// An equal split first; what does not fit goes back to the pool and is split again until nothing
/// changes. `grants` is cleared and then holds one level per demand, in the order of `demands`;
/// the order has no influence on who gets what, since within a pass nobody takes more than its share.
pub fn fair_share(residual: CellRate, demands: &[Demand], grants: &mut Vec<Level>) -> CellRate {
    grants.clear();
    grants.resize(demands.len(), Level::BASE);
    let mut active: Vec<usize> = (0..demands.len())
        .filter(|&i| demands[i].max > Level::BASE)
        .collect();
    let mut pool = residual.0;
    let mut changed = true;
    while changed && !active.is_empty() {
        changed = false;
        // Rounding down loses nothing: costs are whole cells.
        let share = pool / active.len() as u32;
        for &i in &active {
            if let Some(level) = demands[i].affordable(grants[i], share) {
                pool -= demands[i].cost(level) - demands[i].cost(grants[i]);
                grants[i] = level;
                changed = true;
            }
        }
        active.retain(|&i| grants[i] < demands[i].max);
    }
    CellRate(pool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canyon(flow: u32, min: Level, max: Level) -> Demand {
        Demand {
            flow: FlowId(flow),
            min,
            max,
            l1: CellRate(960),
            l2: CellRate(2_880),
        }
    }

    fn full(flow: u32) -> Demand {
        canyon(flow, Level::E1, Level::FULL)
    }

    fn split(residual: u32, demands: &[Demand]) -> (Vec<u8>, u32) {
        let mut grants = Vec::new();
        let pool = fair_share(CellRate(residual), demands, &mut grants);
        (grants.into_iter().map(Level::get).collect(), pool.0)
    }

    #[test]
    fn three_flows_share_3000() {
        assert_eq!(
            split(3_000, &[full(1), full(2), full(3)]),
            (vec![1, 1, 1], 120)
        );
    }

    #[test]
    fn two_flows_share_4000() {
        assert_eq!(split(4_000, &[full(1), full(2)]), (vec![1, 1], 2_080));
    }

    #[test]
    fn one_flow_takes_what_fits() {
        assert_eq!(split(3_020, &[full(1)]), (vec![2], 140));
        assert_eq!(split(2_420, &[full(1)]), (vec![1], 1_460));
        assert_eq!(split(870, &[full(1)]), (vec![0], 870));
    }

    #[test]
    fn what_one_flow_leaves_is_split_again() {
        let modest = canyon(1, Level::BASE, Level::E1);
        assert_eq!(split(4_800, &[modest, full(2)]), (vec![1, 2], 960));
        assert_eq!(split(4_800, &[full(2), modest]), (vec![2, 1], 960));
    }

    #[test]
    fn no_demand_leaves_the_residual() {
        assert_eq!(split(500, &[]), (vec![], 500));
        assert_eq!(
            split(500, &[canyon(1, Level::BASE, Level::BASE)]),
            (vec![0], 500)
        );
    }

    fn demand(flow: u32) -> impl Strategy<Value = Demand> {
        (0u8..=2, 0u8..=2, 0u32..5_000, 0u32..5_000).prop_map(move |(a, b, l1, more)| Demand {
            flow: FlowId(flow),
            min: Level::new(a.min(b)).unwrap(),
            max: Level::new(a.max(b)).unwrap(),
            l1: CellRate(l1),
            l2: CellRate(l1 + more),
        })
    }

    fn demands() -> impl Strategy<Value = Vec<Demand>> {
        (0usize..12).prop_flat_map(|n| (0..n as u32).map(demand).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn grants_never_exceed_the_residual(residual in 0u32..40_000, demands in demands()) {
            let mut grants = Vec::new();
            let pool = fair_share(CellRate(residual), &demands, &mut grants);
            let used: u64 = demands.iter().zip(&grants).map(|(d, &g)| u64::from(d.cost(g))).sum();
            prop_assert_eq!(used + u64::from(pool.0), u64::from(residual));
        }

        #[test]
        fn grants_are_zero_min_or_max(residual in 0u32..40_000, demands in demands()) {
            let mut grants = Vec::new();
            fair_share(CellRate(residual), &demands, &mut grants);
            for (demand, grant) in demands.iter().zip(grants) {
                prop_assert!([Level::BASE, demand.min, demand.max].contains(&grant));
            }
        }

        #[test]
        fn the_order_of_demands_does_not_matter(
            residual in 0u32..40_000,
            (sorted, shuffled) in demands().prop_flat_map(|d| (Just(d.clone()), Just(d).prop_shuffle())),
        ) {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            fair_share(CellRate(residual), &sorted, &mut a);
            fair_share(CellRate(residual), &shuffled, &mut b);
            for (demand, grant) in shuffled.iter().zip(b) {
                prop_assert_eq!(a[demand.flow.0 as usize], grant);
            }
        }

        #[test]
        fn equal_demands_get_equal_grants(residual in 0u32..40_000, n in 1u32..12) {
            let demands: Vec<_> = (0..n).map(full).collect();
            let (grants, _) = split(residual, &demands);
            prop_assert!(grants.iter().all(|&g| g == grants[0]));
        }
    }
}
