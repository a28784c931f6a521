use layercast_core::{CellRate, FlowId, FlowSpec, Level, LevelSet};

use crate::LevelPair;

/// What one flow asks of a link or end system (specs/mets.md 2.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The flow with this demand.
    pub flow: FlowId,
    /// What it asks for.
    pub want: Want,
}

/// Whole layers, or any rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// Discrete adaptation: `min` or `max`, or the base layer.
    Levels {
        /// The level to fall back to.
        min: Level,
        /// The level wanted.
        max: Level,
        /// Cells/s at level 1 besides what is reserved for the base layer, as measured.
        l1: CellRate,
        /// The same at level 2, E1 included.
        l2: CellRate,
    },
    /// Continuous adaptation: up to this rate above the base layer.
    Rate(CellRate),
}

/// What one flow gets of a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Grant {
    /// The level, of a flow that takes whole layers; else the highest one, unless the rate is zero.
    pub level: Level,
    /// Cells/s above the base layer.
    pub rate: CellRate,
}

impl Demand {
    /// A flow of `spec` that takes whole layers.
    pub fn levels(flow: FlowId, pair: LevelPair, spec: &FlowSpec) -> Demand {
        let want = Want::Levels {
            min: pair.min(),
            max: pair.max(),
            l1: spec.measured_above_base(Level::E1),
            l2: spec.measured_above_base(Level::FULL),
        };
        Demand { flow, want }
    }

    /// A flow of alternative layers, of which the link carries the levels `wanted`.
    pub fn set(flow: FlowId, pair: LevelPair, wanted: LevelSet, spec: &FlowSpec) -> Demand {
        let above = |most| spec.measured_set_above_base(wanted, most);
        let want = Want::Levels {
            min: pair.min(),
            max: pair.max(),
            l1: above(Level::E1),
            l2: above(Level::FULL),
        };
        Demand { flow, want }
    }

    /// Cells/s above the base layer at `level`; a level never costs less than one below it.
    fn cost(&self, level: Level) -> u32 {
        match (self.want, level.get()) {
            (Want::Rate(_), _) | (_, 0) => 0,
            (Want::Levels { l1, .. }, 1) => l1.0,
            (Want::Levels { l1, l2, .. }, _) => l2.0.max(l1.0),
        }
    }

    /// Cells/s above the base layer that it takes of a link with room for no more than `level`; a flow of any rate takes half of
    /// what it asks for at level 1.
    pub fn up_to(&self, level: Level) -> CellRate {
        match self.want {
            Want::Rate(most) => CellRate(most.0 / 2 * u32::from(level.get())),
            Want::Levels { min, max, .. } => {
                let fits = [max, min].into_iter().find(|it| *it <= level);
                CellRate(self.cost(fits.unwrap_or(Level::BASE)))
            }
        }
    }

    /// The grant after it takes what it can of `share` more than `granted`.
    fn take(&self, granted: Grant, share: u32) -> Grant {
        let left = self.left(granted);
        match self.want {
            Want::Rate(_) => granted.plus(left.min(share)),
            Want::Levels { min, max, .. } => [max, min]
                .into_iter()
                .filter(|&level| level > granted.level)
                .map(|level| Grant {
                    level,
                    rate: CellRate(self.cost(level)),
                })
                .find(|next| next.rate.0 - granted.rate.0 <= share)
                .unwrap_or(granted),
        }
    }

    /// What a real-valued demand still lacks; nothing for whole layers.
    fn left(&self, granted: Grant) -> u32 {
        match self.want {
            Want::Rate(most) => most.0 - granted.rate.0,
            Want::Levels { .. } => 0,
        }
    }

    /// Whether a flow with this demand may get `granted`.
    fn permits(&self, granted: Grant) -> bool {
        match self.want {
            Want::Rate(most) => granted.rate <= most,
            Want::Levels { min, max, .. } => {
                [Level::BASE, min, max].contains(&granted.level)
                    && granted.rate.0 == self.cost(granted.level)
            }
        }
    }

    /// Whether `granted` is all it asks for.
    pub fn is_met(&self, granted: Grant) -> bool {
        match self.want {
            Want::Rate(most) => granted.rate >= most,
            Want::Levels { max, .. } => granted.level >= max,
        }
    }
}

impl Grant {
    fn plus(self, more: u32) -> Grant {
        let rate = CellRate(self.rate.0 + more);
        let level = match rate.0 {
            0 => Level::BASE,
            _ => Level::FULL,
        };
        Grant { level, rate }
    }
}

/// Splits the residual bandwidth of a link among flows, and returns what is left over (the loop of specs/mets.md
/// 2.11).
///
/// An equal split first; what does not fit goes back to the pool and is split again until nothing changes.
/// Flows that take whole layers take them out of their shares; flows of any rate take all of theirs, so that
/// among themselves they end at the max-min rates, exact but for less than one cell/s each. What no whole layer
/// fits into any more is theirs too.
///
/// `grants` is cleared and then holds one grant per demand, in the order of `demands`; the order has no
/// influence on the grants, since within a pass no flow takes more than its share.
///
/// ```
/// use layercast_core::{CellRate, FlowId, Level};
/// use layercast_qos::{Demand, Want, fair_share};
///
/// let (l1, l2) = (CellRate(960), CellRate(2_880));
/// let layered = |flow| {
///     let want = Want::Levels { min: Level::E1, max: Level::FULL, l1, l2 };
///     Demand { flow: FlowId(flow), want }
/// };
/// let mut grants = Vec::new();
/// let rest = fair_share(CellRate(4_000), &[layered(1), layered(2)], &mut grants);
/// // Neither half holds both layers, but each holds the first.
/// assert!(grants.iter().all(|grant| grant.rate >= l1));
/// let granted: u32 = grants.iter().map(|grant| grant.rate.0).sum();
/// assert_eq!(granted + rest.0, 4_000);
/// ```
pub fn fair_share(residual: CellRate, demands: &[Demand], grants: &mut Vec<Grant>) -> CellRate {
    grants.clear();
    grants.resize(demands.len(), Grant::default());
    let mut active: Vec<usize> = (0..demands.len())
        .filter(|&i| !demands[i].is_met(Grant::default()))
        .collect();
    let mut pool = residual.0;
    while !active.is_empty() {
        // Rounding down loses less than one cell/s a flow: costs are whole cells.
        let share = pool / active.len() as u32;
        let (mut stepped, mut met) = (false, false);
        for &i in &active {
            let next = demands[i].take(grants[i], share);
            let more = next.rate.0 - grants[i].rate.0;
            stepped |= matches!(demands[i].want, Want::Levels { .. }) && next != grants[i];
            pool -= more;
            grants[i] = next;
        }
        active.retain(|&i| {
            let is_met = demands[i].is_met(grants[i]);
            met |= is_met && matches!(demands[i].want, Want::Rate(_));
            !is_met
        });
        if stepped {
            continue;
        }
        // No layer fits, and shares do not grow before the last flow of any rate is content: until
        // then what is left is for these flows alone.
        let filled = water_fill(&mut pool, demands, &active, grants);
        active.retain(|&i| !demands[i].is_met(grants[i]));
        if !filled && !met {
            break;
        }
    }
    debug_assert!(
        demands
            .iter()
            .zip(&*grants)
            .all(|(demand, grant)| demand.permits(*grant)),
        "a grant outside of its demand"
    );
    let granted: u64 = grants.iter().map(|grant| u64::from(grant.rate.0)).sum();
    debug_assert_eq!(granted + u64::from(pool), u64::from(residual.0));
    CellRate(pool)
}

/// Shares the pool equally among the flows of any rate until it is empty or they are content; gives
/// whether the last of them became so.
fn water_fill(pool: &mut u32, demands: &[Demand], active: &[usize], grants: &mut [Grant]) -> bool {
    let lacks = |i: &usize, grants: &[Grant]| demands[*i].left(grants[*i]);
    let open = active.iter().copied();
    let mut open: Vec<usize> = open.filter(|i| lacks(i, grants) > 0).collect();
    if open.is_empty() {
        return false;
    }
    loop {
        let share = *pool / open.len() as u32;
        for &i in &open {
            let more = lacks(&i, grants).min(share);
            grants[i] = grants[i].plus(more);
            *pool -= more;
        }
        let before = open.len();
        open.retain(|i| lacks(i, grants) > 0);
        if open.is_empty() {
            return true;
        }
        if open.len() == before && *pool < before as u32 {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canyon(flow: u32, min: Level, max: Level) -> Demand {
        Demand {
            flow: FlowId(flow),
            want: Want::Levels {
                min,
                max,
                l1: CellRate(960),
                l2: CellRate(2_880),
            },
        }
    }

    fn full(flow: u32) -> Demand {
        canyon(flow, Level::E1, Level::FULL)
    }

    fn split(residual: u32, demands: &[Demand]) -> (Vec<u8>, u32) {
        let mut grants = Vec::new();
        let pool = fair_share(CellRate(residual), demands, &mut grants);
        let levels = grants.iter().map(|grant| grant.level.get());
        (levels.collect(), pool.0)
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
        let level = |level| Level::new(level).unwrap();
        let levels = (0u8..=2, 0u8..=2, 0u32..5_000, 0u32..5_000);
        let levels = levels.prop_map(move |(a, b, l1, more)| Want::Levels {
            min: level(a.min(b)),
            max: level(a.max(b)),
            l1: CellRate(l1),
            l2: CellRate(l1 + more),
        });
        let any_rate = (0u32..9_000).prop_map(|most| Want::Rate(CellRate(most)));
        prop_oneof![levels, any_rate].prop_map(move |want| Demand {
            flow: FlowId(flow),
            want,
        })
    }

    fn rate(flow: u32, most: u32) -> Demand {
        Demand {
            flow: FlowId(flow),
            want: Want::Rate(CellRate(most)),
        }
    }

    fn rates(residual: u32, demands: &[Demand]) -> Vec<u32> {
        let mut grants = Vec::new();
        fair_share(CellRate(residual), demands, &mut grants);
        grants.into_iter().map(|grant| grant.rate.0).collect()
    }

    #[test]
    fn flows_of_any_rate_get_the_max_min_rates() {
        let demands = [rate(1, 100), rate(2, 2_000), rate(3, 5_000)];
        assert_eq!(rates(3_000, &demands), [100, 1_450, 1_450]);
        assert_eq!(rates(9_000, &demands), [100, 2_000, 5_000]);
        assert_eq!(rates(2, &demands), [0, 0, 0]);
        assert_eq!(rates(0, &demands[..1]), [0]);
    }

    #[test]
    fn whole_layers_and_any_rate_share_a_link() {
        // 1500 each: a layer of 960, and what the second layer does not fit into.
        assert_eq!(rates(3_000, &[full(1), rate(2, 2_880)]), [960, 2_040]);
        // Once the modest flow is content, both layers fit.
        assert_eq!(rates(3_400, &[full(1), rate(2, 500)]), [2_880, 500]);
        // Nothing fits into a share of 500: the rest goes to the flow that can use it.
        assert_eq!(rates(1_000, &[full(1), rate(2, 2_880)]), [0, 1_000]);
    }

    fn demands() -> impl Strategy<Value = Vec<Demand>> {
        (0usize..12).prop_flat_map(|n| (0..n as u32).map(demand).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn grants_never_exceed_the_residual(residual in 0u32..40_000, demands in demands()) {
            let mut grants = Vec::new();
            let pool = fair_share(CellRate(residual), &demands, &mut grants);
            let used: u64 = grants.iter().map(|grant| u64::from(grant.rate.0)).sum();
            prop_assert_eq!(used + u64::from(pool.0), u64::from(residual));
        }

        #[test]
        fn grants_are_zero_min_or_max(residual in 0u32..40_000, demands in demands()) {
            let mut grants = Vec::new();
            fair_share(CellRate(residual), &demands, &mut grants);
            for (demand, grant) in demands.iter().zip(grants) {
                match demand.want {
                    Want::Levels { min, max, .. } => {
                        prop_assert!([Level::BASE, min, max].contains(&grant.level));
                        prop_assert_eq!(grant.rate.0, demand.cost(grant.level));
                    }
                    Want::Rate(most) => prop_assert!(grant.rate <= most),
                }
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
        fn rates_are_max_min_optimal(
            residual in 0u32..40_000, wants in proptest::collection::vec(0u32..9_000, 1..12),
        ) {
            let demands: Vec<_> = (0..).zip(&wants).map(|(flow, &most)| rate(flow, most)).collect();
            let got = rates(residual, &demands);
            let left = u64::from(residual) - got.iter().map(|&got| u64::from(got)).sum::<u64>();
            let short: Vec<usize> = (0..got.len()).filter(|&i| got[i] < wants[i]).collect();
            // Nothing is left over while somebody lacks something.
            prop_assert!(short.is_empty() || left < short.len() as u64);
            // No flow that lacks bandwidth could gain more than one unit except at the cost of a flow that has
            // no more than itself.
            for &i in &short {
                prop_assert!(got.iter().all(|&other| other <= got[i]));
            }
        }

        #[test]
        fn nothing_is_left_over_that_a_flow_of_any_rate_lacks(
            residual in 0u32..40_000, demands in demands(),
        ) {
            let mut grants = Vec::new();
            let pool = fair_share(CellRate(residual), &demands, &mut grants);
            let lacks = |(demand, grant): (&Demand, &Grant)| demand.left(*grant) > 0;
            let lacking = demands.iter().zip(&grants).filter(|&it| lacks(it)).count();
            prop_assert!(lacking == 0 || pool.0 < demands.len() as u32);
        }

        #[test]
        fn equal_demands_get_equal_grants(residual in 0u32..40_000, n in 1u32..12) {
            let demands: Vec<_> = (0..n).map(full).collect();
            let (grants, _) = split(residual, &demands);
            prop_assert!(grants.iter().all(|&g| g == grants[0]));
        }
    }
}
