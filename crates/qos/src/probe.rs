use layercast_core::{AdaptMode, FilterKind, Level, MaintMode, OnPlenty, OnScarce, QosPolicy};
use serde::{Deserialize, Serialize};

use crate::LevelPair;

/// How a receiver asks for more after congestion (specs/mets.md 2.11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeMode {
    /// One clean era raises the demand, as printed; alternates forever if the raise congests.
    Paper,
    /// A raise to a level that congests within 30 eras has failed; the next one follows 2 to 64 eras later.
    #[default]
    Backoff,
}

/// The wishes of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeConfig {
    /// Printed rule or hold-down.
    pub mode: ProbeMode,
    /// Whether the demand follows the bandwidth; if not, the preferred level is always requested and congestion
    /// is only reported (specs/mets.md 2.9: `signal` does not maintain).
    pub maintains: bool,
    /// Never ask for less.
    pub min_level: Level,
    /// The level the user wants.
    pub preferred: Level,
    /// When bandwidth gets scarce.
    pub on_scarce: OnScarce,
    /// When bandwidth becomes available.
    pub on_plenty: OnPlenty,
}

/// What the policy asks the owner of the flow to do beside sending the demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Congested; the policy is to tell the user and keep the level.
    Degraded,
    /// Congested; the policy is to put in this filter.
    InsertFilter(FilterKind),
    /// Congested; the policy is to give up the flow.
    Disconnect,
    /// No congestion for long; the policy is to try without the filter.
    RemoveFilter,
    /// A higher level is wanted; the policy is to wait for [`DemandProbe::allow_raise`].
    MayRaise(Level),
}

/// The receiver's rule at each era start: how many layers to ask for (specs/mets.md 2.11).
///
/// With [`ProbeMode::Backoff`] a raise that is followed by congestion within two eras doubles the
/// hold-down of its level, from 2 to 64 eras; 30 clean eras at that level or above halve it. (Clean
/// eras below it prove nothing about it, and would keep it from ever reaching 64.) It also takes at
/// most one step down per era: if a switch already lowered the level, congestion seen in the same
/// era does not lower it again.
#[derive(Clone, Debug)]
pub struct DemandProbe {
    config: ProbeConfig,
    want: Level,
    /// Level at the last era start.
    level: Level,
    /// The raise on trial: to which level, and the number of clean eras since.
    raised: Option<(Level, u32)>,
    /// Hold-down of levels 1 and 2.
    holds: [Hold; 2],
    raise_allowed: bool,
    /// A filter is in the way.
    filtered: bool,
    /// Clean eras behind it, and how many of them it takes to try without.
    clean: u32,
    patience: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Hold {
    /// Length of the last hold-down in eras.
    eras: u32,
    /// Eras before the level may be asked for again.
    left: u32,
    /// Clean eras in a row at this level or above.
    clean: u32,
}

const FIRST_HOLD: u32 = 2;
const LONGEST_HOLD: u32 = 64;
const CLEAN_ERAS_TO_HALVE: u32 = 30;
const LONGEST_PATIENCE: u32 = 480;
/// A raise has failed if congestion follows before this number of clean eras. A link a little slower than the level
/// congests only when its queue is full, many eras after the raise. RLM backs off the join timer of a layer for the
/// same reason (S. McCanne, V. Jacobson, M. Vetterli, "Receiver-driven Layered Multicast", SIGCOMM 1996, section 3).
const TRIAL_ERAS: u32 = CLEAN_ERAS_TO_HALVE;

impl ProbeConfig {
    /// The wishes stated in a QoS policy.
    pub fn from_policy(policy: &QosPolicy, mode: ProbeMode) -> ProbeConfig {
        ProbeConfig {
            mode,
            maintains: policy.mode != MaintMode::Signal && policy.adapt != AdaptMode::None,
            min_level: policy.min_level,
            preferred: policy.max_level,
            on_scarce: policy.on_scarce,
            on_plenty: policy.on_plenty,
        }
    }
}

impl DemandProbe {
    /// A receiver that asks for its preferred level immediately (specs/mets.md 6.2 (10)).
    pub fn new(config: ProbeConfig) -> DemandProbe {
        DemandProbe {
            config,
            want: config.preferred,
            level: Level::BASE,
            raised: None,
            holds: [Hold::default(); 2],
            raise_allowed: false,
            filtered: false,
            clean: 0,
            patience: CLEAN_ERAS_TO_HALVE,
        }
    }

    /// A filter was put in the way, or taken away.
    pub fn set_filtered(&mut self, filtered: bool) {
        if filtered && !self.filtered && self.clean > 0 {
            // It was taken away in vain.
            self.patience = (self.patience * 2).min(LONGEST_PATIENCE);
        }
        self.filtered = filtered;
        self.clean = 0;
    }

    /// The pair to send at the start of an era, given whether the era before was `congested`, the
    /// `level` now in force and the highest level this host can `afford`.
    pub fn on_era(
        &mut self,
        congested: bool,
        level: Level,
        afford: Level,
    ) -> (LevelPair, Option<Advice>) {
        if !self.config.maintains {
            self.want = self.config.preferred.min(afford);
            let advice = congested.then_some(Advice::Degraded);
            return (LevelPair::wanting(self.want), advice);
        }
        self.learn(congested, level);
        let lowered = level < self.level;
        self.level = level;
        self.clean = if congested { 0 } else { self.clean + 1 };
        let mut advice = if congested {
            self.step_down(lowered)
        } else {
            self.step_up()
        };
        if self.filtered && self.clean >= self.patience && self.may_raise() {
            advice = Some(Advice::RemoveFilter);
        }
        self.want = self.want.min(afford).min(self.config.preferred);
        (LevelPair::wanting(self.want), advice)
    }

    /// The pair to send after an era of which it is not known whether it was congested: what was asked for before.
    pub fn keep(&mut self, level: Level, afford: Level) -> LevelPair {
        self.level = level;
        self.want = self.want.min(afford).min(self.config.preferred);
        LevelPair::wanting(self.want)
    }

    /// The user's answer to [`Advice::MayRaise`]: the next clean era may raise the demand once.
    pub fn allow_raise(&mut self) {
        self.raise_allowed = true;
    }

    /// Changes the wishes of the user; hold-downs stay.
    pub fn reconfigure(&mut self, config: ProbeConfig) {
        self.config = config;
        self.want = config.preferred;
    }

    /// Whether the next clean era may raise the demand; a permission of the user is used up.
    pub fn may_raise(&mut self) -> bool {
        match self.config.on_plenty {
            OnPlenty::AddLayer => true,
            OnPlenty::Inform => std::mem::take(&mut self.raise_allowed),
            OnPlenty::Ignore => false,
        }
    }

    /// The level asked for.
    pub fn want(&self) -> Level {
        self.want
    }

    fn step_down(&mut self, lowered: bool) -> Option<Advice> {
        let keep = self.level.max(self.config.min_level);
        match self.config.on_scarce {
            OnScarce::Inform => {
                self.want = keep;
                Some(Advice::Degraded)
            }
            OnScarce::Filter(kind) if !self.filtered => {
                self.want = keep;
                Some(Advice::InsertFilter(kind))
            }
            OnScarce::DropLayer | OnScarce::Filter(_)
                if lowered && self.config.mode == ProbeMode::Backoff =>
            {
                self.want = keep;
                None
            }
            // A filter that is not enough leaves only that.
            OnScarce::DropLayer | OnScarce::Filter(_) => {
                self.want = self.level.down().max(self.config.min_level);
                None
            }
            OnScarce::Disconnect => Some(Advice::Disconnect),
        }
    }

    fn step_up(&mut self) -> Option<Advice> {
        let current = self.want.max(self.level);
        let next = self.unheld(current.up().min(self.config.preferred));
        if next <= self.want {
            self.want = next;
            return None;
        }
        match self.config.on_plenty {
            OnPlenty::AddLayer => self.want = next,
            OnPlenty::Inform if self.raise_allowed => {
                self.raise_allowed = false;
                self.want = next;
            }
            OnPlenty::Inform => return Some(Advice::MayRaise(next)),
            OnPlenty::Ignore => {}
        }
        None
    }

    /// The highest level up to `level` that may be asked for; the one in force always may.
    fn unheld(&self, level: Level) -> Level {
        let mut level = level;
        while level > self.level && self.hold(level).is_some_and(|hold| hold.left > 0) {
            level = level.down();
        }
        level
    }

    fn hold(&self, level: Level) -> Option<&Hold> {
        self.holds.get(usize::from(level.get()).checked_sub(1)?)
    }

    /// Updates the hold-downs: congestion during the trial of a raise doubles that of its level, clean eras halve it.
    ///
    /// A level that a switch or the source has lowered is no longer on trial: they know their room, and grant the level
    /// again when there is enough.
    fn learn(&mut self, congested: bool, level: Level) {
        if self.config.mode == ProbeMode::Paper {
            return;
        }
        self.raised = match self.raised {
            _ if level > self.level => Some((level, 0)),
            Some((raised, clean)) if level >= raised && clean + 1 < TRIAL_ERAS => {
                Some((raised, clean + 1))
            }
            _ => None,
        };
        let blamed = self.raised.filter(|_| congested).map(|(level, _)| level);
        for (index, hold) in self.holds.iter_mut().enumerate() {
            hold.left = hold.left.saturating_sub(1);
            if blamed.is_some_and(|blamed| usize::from(blamed.get()) == index + 1) {
                hold.eras = (hold.eras * 2).clamp(FIRST_HOLD, LONGEST_HOLD);
                hold.left = hold.eras;
            }
            if congested || usize::from(level.get()) <= index {
                hold.clean = 0;
            } else {
                hold.clean += 1;
                if hold.clean == CLEAN_ERAS_TO_HALVE {
                    hold.clean = 0;
                    hold.eras /= 2;
                }
            }
        }
        if blamed.is_some() {
            self.raised = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(mode: ProbeMode) -> ProbeConfig {
        ProbeConfig::from_policy(&QosPolicy::default(), mode)
    }

    /// The network grants what is asked; E2 congests it.
    fn levels_when_e2_congests(mode: ProbeMode, eras: usize) -> Vec<u8> {
        let mut probe = DemandProbe::new(config(mode));
        let mut level = Level::BASE;
        (0..eras)
            .map(|_| {
                let congested = level == Level::FULL;
                level = probe.on_era(congested, level, Level::FULL).0.max();
                level.get()
            })
            .collect()
    }

    fn raises(levels: &[u8]) -> usize {
        levels.windows(2).filter(|pair| pair[1] > pair[0]).count()
    }

    #[test]
    fn the_printed_rule_alternates_for_ever_when_e2_congests() {
        let levels = levels_when_e2_congests(ProbeMode::Paper, 200);
        for (i, pair) in levels.chunks(2).enumerate() {
            assert_eq!(pair, [2, 1], "eras {}", 2 * i);
        }
    }

    #[test]
    fn backoff_tries_again_after_2_4_8_up_to_64_eras() {
        let levels = levels_when_e2_congests(ProbeMode::Backoff, 400);
        let tries: Vec<usize> = (0..400).filter(|&i| levels[i] == 2).collect();
        let gaps: Vec<usize> = tries.windows(2).map(|pair| pair[1] - pair[0] - 1).collect();
        assert_eq!(gaps, [2, 4, 8, 16, 32, 64, 64, 64, 64, 64]);
        assert_eq!(raises(&levels), 10);
    }

    #[test]
    fn backoff_finds_bandwidth_that_came_back_and_forgets_the_hold_down() {
        let mut probe = DemandProbe::new(config(ProbeMode::Backoff));
        let mut level = Level::BASE;
        let mut run = |eras: u32, congests: bool| {
            let mut last = Level::BASE;
            for _ in 0..eras {
                let congested = congests && level == Level::FULL;
                level = probe.on_era(congested, level, Level::FULL).0.max();
                last = level;
            }
            (last, probe.holds[1].eras)
        };
        assert_eq!(run(60, true).1, 32);
        assert_eq!(run(65, false).0, Level::FULL);
        assert_eq!(run(200, false), (Level::FULL, 0));
    }

    #[test]
    fn a_raise_has_failed_if_congestion_follows_before_30_clean_eras() {
        let hold_after = |clean_eras: u32| {
            let mut probe = DemandProbe::new(config(ProbeMode::Backoff));
            // The era that sees the raise, and those that follow it.
            for _ in 0..clean_eras {
                probe.on_era(false, Level::FULL, Level::FULL);
            }
            probe.on_era(true, Level::FULL, Level::FULL);
            probe.holds[1].eras
        };
        assert_eq!([0, 1, 2, 3, 29, 30].map(hold_after), [2, 2, 2, 2, 2, 0]);
    }

    /// Eras at the full level and eras below it, alternately, where the link congests in the `nth` era at that level.
    fn runs_where_a_queue_fills(mode: ProbeMode, nth: u32, eras: u32) -> Vec<(Level, u32)> {
        let mut probe = DemandProbe::new(config(mode));
        let (mut level, mut filled) = (Level::BASE, 0);
        let mut runs: Vec<(Level, u32)> = Vec::new();
        for _ in 0..eras {
            filled = if level == Level::FULL { filled + 1 } else { 0 };
            level = probe.on_era(filled == nth, level, Level::FULL).0.max();
            match runs.last_mut() {
                Some((of, count)) if *of == level => *count += 1,
                _ => runs.push((level, 1)),
            }
        }
        runs
    }

    #[test]
    fn a_link_a_little_slower_than_a_level_is_tried_ever_more_rarely() {
        for nth in [1, 5, 10, 30] {
            let runs = runs_where_a_queue_fills(ProbeMode::Backoff, nth, 800);
            let below = runs.iter().filter(|(level, _)| *level == Level::E1);
            let below: Vec<u32> = below.map(|(_, eras)| *eras).take(7).collect();
            assert_eq!(below, [2, 4, 8, 16, 32, 64, 64], "congestion in era {nth}");
            let whole = &runs[..runs.len() - 1];
            let mut at_full = whole.iter().filter(|(level, _)| *level == Level::FULL);
            assert!(at_full.all(|(_, eras)| *eras == nth), "{nth}: {runs:?}");
        }
        // The printed rule raises after each clean era.
        let runs = runs_where_a_queue_fills(ProbeMode::Paper, 10, 800);
        let mut below = runs.iter().filter(|(level, _)| *level == Level::E1);
        assert!(below.all(|(_, eras)| *eras == 1), "{runs:?}");
    }

    #[test]
    fn a_level_that_the_network_lowers_during_its_trial_is_not_held_down() {
        let mut probe = DemandProbe::new(config(ProbeMode::Backoff));
        for _ in 0..5 {
            probe.on_era(false, Level::FULL, Level::FULL);
        }
        // The switch that lowers the level marks the packets, too.
        probe.on_era(true, Level::E1, Level::FULL);
        assert_eq!(probe.holds.map(|hold| hold.eras), [0, 0]);
        let (pair, _) = probe.on_era(false, Level::E1, Level::FULL);
        assert_eq!(pair, LevelPair::wanting(Level::FULL));
    }

    #[test]
    fn a_denied_demand_keeps_asking_without_flapping() {
        let mut probe = DemandProbe::new(config(ProbeMode::Backoff));
        for _ in 0..20 {
            let (pair, _) = probe.on_era(false, Level::BASE, Level::FULL);
            assert_eq!(pair, LevelPair::wanting(Level::FULL));
        }
    }

    #[test]
    fn congestion_that_a_switch_already_answered_takes_one_step_only() {
        let step = |mode| {
            let mut probe = DemandProbe::new(config(mode));
            for _ in 0..5 {
                probe.on_era(false, Level::FULL, Level::FULL);
            }
            probe.on_era(true, Level::E1, Level::FULL).0.max()
        };
        assert_eq!(step(ProbeMode::Backoff), Level::E1);
        assert_eq!(step(ProbeMode::Paper), Level::BASE);
    }

    #[test]
    fn bounds_of_policy_and_host_hold() {
        let mut probe = DemandProbe::new(ProbeConfig {
            min_level: Level::E1,
            ..config(ProbeMode::Paper)
        });
        let ask = |probe: &mut DemandProbe, congested, level, afford| {
            probe.on_era(congested, level, afford).0.max()
        };
        assert_eq!(ask(&mut probe, false, Level::BASE, Level::E1), Level::E1);
        assert_eq!(ask(&mut probe, true, Level::E1, Level::FULL), Level::E1);
        assert_eq!(ask(&mut probe, false, Level::E1, Level::FULL), Level::FULL);
    }

    #[test]
    fn a_flow_that_is_not_maintained_keeps_its_demand_and_tells_of_congestion() {
        let signal = QosPolicy {
            mode: MaintMode::Signal,
            on_scarce: OnScarce::Disconnect,
            ..QosPolicy::default()
        };
        let rigid = QosPolicy {
            adapt: AdaptMode::None,
            ..QosPolicy::default()
        };
        for policy in [signal, rigid] {
            let mut probe = DemandProbe::new(ProbeConfig::from_policy(&policy, ProbeMode::Paper));
            for congested in [false, true, true, false] {
                let (pair, advice) = probe.on_era(congested, Level::FULL, Level::FULL);
                assert_eq!(pair, LevelPair::wanting(Level::FULL));
                assert_eq!(advice, congested.then_some(Advice::Degraded));
            }
        }
    }

    #[test]
    fn policies_replace_the_automatic_steps() {
        let with = |on_scarce, on_plenty| {
            DemandProbe::new(ProbeConfig {
                on_scarce,
                on_plenty,
                ..config(ProbeMode::Paper)
            })
        };
        let mut probe = with(OnScarce::Inform, OnPlenty::AddLayer);
        let full = LevelPair::wanting(Level::FULL);
        assert_eq!(
            probe.on_era(true, Level::FULL, Level::FULL),
            (full, Some(Advice::Degraded))
        );
        let kind = FilterKind::LowPass(10);
        let mut probe = with(OnScarce::Filter(kind), OnPlenty::AddLayer);
        let insert = Some(Advice::InsertFilter(kind));
        let congested = |probe: &mut DemandProbe| probe.on_era(true, Level::FULL, Level::FULL);
        assert_eq!(congested(&mut probe), (full, insert));
        probe.set_filtered(true);
        let lower = LevelPair::wanting(Level::E1);
        assert_eq!(
            congested(&mut probe),
            (lower, None),
            "the filter is not enough"
        );
        let advice: Vec<_> = (0..30)
            .filter_map(|_| probe.on_era(false, Level::FULL, Level::FULL).1)
            .collect();
        assert_eq!(advice, [Advice::RemoveFilter]);
        let mut probe = with(OnScarce::DropLayer, OnPlenty::Inform);
        probe.on_era(true, Level::FULL, Level::FULL);
        let e1 = LevelPair::wanting(Level::E1);
        let may_raise = Some(Advice::MayRaise(Level::FULL));
        assert_eq!(probe.on_era(false, Level::E1, Level::FULL), (e1, may_raise));
        probe.allow_raise();
        assert_eq!(probe.on_era(false, Level::E1, Level::FULL), (full, None));
        let mut probe = with(OnScarce::DropLayer, OnPlenty::Ignore);
        probe.on_era(true, Level::FULL, Level::FULL);
        assert_eq!(probe.on_era(false, Level::E1, Level::FULL), (e1, None));
    }
}
