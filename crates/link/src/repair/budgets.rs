use layercast_core::{Observer, Span, Time};

use super::RepairEnd;

/// Between two times at which a node passes budgets on.
pub const SHARE_BUDGETS: Span = Span::from_ms(100);

/// The budgets of the links of a node, by place: for how long late datagrams are of use there.
///
/// A datagram that arrives by one link leaves by the others, so each link passes on the longest budget of all others.
#[derive(Clone, Copy, Default, Debug)]
struct Budgets {
    longest: Option<Span>,
    /// The first place with the longest one.
    place: usize,
    /// The longest one of all other places.
    second: Option<Span>,
}

impl Budgets {
    /// The longest budget of all places but `place`.
    fn of_others(&self, place: usize) -> Option<Span> {
        match place == self.place {
            true => self.second,
            false => self.longest,
        }
    }
}

impl FromIterator<Option<Span>> for Budgets {
    fn from_iter<I: IntoIterator<Item = Option<Span>>>(budgets: I) -> Budgets {
        let mut all = Budgets::default();
        for (place, budget) in budgets.into_iter().enumerate() {
            if budget > all.longest {
                all = Budgets {
                    longest: budget,
                    place,
                    second: all.longest,
                };
            } else {
                all.second = all.second.max(budget);
            }
        }
        all
    }
}

/// Tells each of the `ends` of the links of a node for how long late datagrams are of use there: as long as `here`, or behind
/// any other of the links.
pub fn share_budgets<'a, T: Clone + 'a, O: Observer>(
    now: Time,
    mut ends: Vec<&'a mut RepairEnd<T>>,
    here: Option<Span>,
    obs: &mut O,
) {
    let budgets: Budgets = ends.iter().map(|end| end.budget()).collect();
    for (place, end) in ends.iter_mut().enumerate() {
        end.set_budget(now, budgets.of_others(place).max(here), obs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_passes_on_the_longest_budget_of_the_others() {
        let values = [None, Some(Span::from_ms(1)), Some(Span::from_ms(2))];
        for number in 0..81 {
            let budgets: Vec<_> = (0..4)
                .map(|at| values[number / 3_usize.pow(at) % 3])
                .collect();
            let shared: Budgets = budgets.iter().copied().collect();
            for place in 0..4 {
                let others = budgets.iter().enumerate().filter(|(at, _)| *at != place);
                let longest = others.filter_map(|(_, budget)| *budget).max();
                assert_eq!(shared.of_others(place), longest, "{place} of {budgets:?}");
            }
        }
    }
}
