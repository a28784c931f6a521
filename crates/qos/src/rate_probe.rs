use layercast_core::CellRate;

/// The receiver's rule at each era start in continuous mode: how many cells/s above the base layer to
/// ask for (specs/mets.md 2.13).
///
/// Everything that is wanted, as long as no congestion is seen; then seven eighths of what is granted,
/// and after each clean era a sixteenth of the whole more. Steps of one eighth down keep pictures from
/// changing visibly, and halving, as where bandwidth is guessed, is not needed: switches say what
/// there is. Where a switch lowered the rate in the same era it has answered the congestion already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateProbe {
    least: CellRate,
    most: CellRate,
    want: CellRate,
    /// Granted at the last era start.
    granted: CellRate,
}

impl RateProbe {
    /// A receiver that wants `most`, and never asks for less than `least`.
    pub fn new(least: CellRate, most: CellRate) -> RateProbe {
        RateProbe {
            least: least.min(most),
            most,
            want: most,
            granted: CellRate(0),
        }
    }

    /// What to ask for after an era that was `congested`, with `granted` in force; `lowers` and
    /// `raises` tell what the policy lets it do.
    pub fn on_era(
        &mut self,
        congested: bool,
        granted: CellRate,
        lowers: bool,
        raises: bool,
    ) -> CellRate {
        let answered = granted < self.granted;
        self.granted = granted;
        if congested && lowers && !answered {
            let base = self.want.min(granted);
            self.want = CellRate(base.0 - base.0 / 8).max(self.least);
        } else if !congested && raises {
            let step = CellRate(self.most.0 / 16 + 1);
            self.want = self.want.saturating_add(step).min(self.most);
        }
        self.want
    }

    /// Whether it asks for less than it wants.
    pub fn is_reduced(&self) -> bool {
        self.want < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn congestion_takes_an_eighth_of_what_is_granted_and_clean_eras_give_it_back() {
        let mut probe = RateProbe::new(CellRate(0), CellRate(2_880));
        let mut era = |congested, granted| probe.on_era(congested, CellRate(granted), true, true).0;
        assert_eq!(era(false, 0), 2_880);
        assert_eq!(era(true, 2_400), 2_100);
        assert_eq!(era(false, 2_100), 2_281);
        assert_eq!(era(false, 2_281), 2_462);
        assert_eq!(era(true, 1_000), 2_462, "a switch lowered the rate");
        assert_eq!(era(true, 1_000), 875);
        assert_eq!((0..12).map(|_| era(false, 2_400)).max(), Some(2_880));
    }

    #[test]
    fn the_policy_may_forbid_either_direction() {
        let mut probe = RateProbe::new(CellRate(0), CellRate(800));
        assert_eq!(probe.on_era(true, CellRate(800), false, true).0, 800);
        assert_eq!(probe.on_era(true, CellRate(800), true, false).0, 700);
        assert_eq!(probe.on_era(false, CellRate(700), true, false).0, 700);
        assert!(probe.is_reduced());
    }

    proptest! {
        #[test]
        fn the_wish_stays_within_its_bounds(
            least in any::<u32>(), most in any::<u32>(),
            eras in proptest::collection::vec((any::<bool>(), any::<u32>()), 0..60),
        ) {
            let mut probe = RateProbe::new(CellRate(least), CellRate(most));
            for (congested, granted) in eras {
                let want = probe.on_era(congested, CellRate(granted), true, true).0;
                prop_assert!(want <= most && want >= least.min(most));
            }
        }
    }
}
