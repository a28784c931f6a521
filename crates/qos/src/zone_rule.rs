//! Whether a receiver that gets less than was agreed asks for fewer layers (specs/user-to-user-qos.md 2.9).

use layercast_core::{Judged, Level, Parameter, Quality, Span, Time, Zone};

/// Eras with a red zone before the rule acts: what has a quicker measure of its own comes first.
const ERAS: u32 = 3;
/// From here on an answer shows: the window of errors has 10 s, and a zone follows from two of the last three windows. Delay and
/// jitter have windows of 1 s, but a queue takes as long to drain.
const EFFECT: Span = Span::from_secs(13);
/// How long a parameter is left alone after fewer layers have not helped: at first, and at the longest.
const FIRST_REST: Span = Span::from_secs(60);
const LONGEST_REST: Span = Span::from_secs(960);

const WAITS: &str = "waits for the effect";

/// What an era says about the load of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// No more than it carries: more may be asked for.
    Clean,
    /// Not known yet: what is asked for stays.
    Unclear,
    /// More than it carries.
    Congested,
}

/// Why less was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A queue of the path marked congestion.
    Marks,
    /// Nothing did, and the zone of this parameter was red.
    Red(Parameter),
}

/// What the rule says, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What follows for the demand.
    pub load: Load,
    /// In words for the trace.
    pub reason: &'static str,
    /// Why less is to be asked for, if it is.
    pub cause: Option<Cause>,
}

/// What a receiver has seen of an era that is over.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen<'a> {
    /// Congestion was marked.
    pub marked: bool,
    /// What the monitor says.
    pub quality: Option<&'a Quality>,
    /// Data were lost or late in this era.
    pub losing: bool,
    /// The level in force.
    pub level: Level,
    /// Whether less may be asked for.
    pub can_lower: bool,
}

/// The rule of a receiver whose contract is not kept although nothing marks congestion.
///
/// Marks and the switches of the way answer congestion of links whose rate they know within an era. A link that neither
/// marks nor is known shows as a red zone of delay, jitter or errors alone. After three eras of it without any other
/// answer, one level less is asked for. Once the windows of the monitor hold only what came after that, the rule looks again. While the
/// excess over what was agreed halves each time, it waits; if it has halved and then stays, the next level goes. If it has
/// not halved at all, the load is not the reason: the level comes back, and the
/// parameter is left alone for a minute, longer each time. Throughput is no reason: fewer layers are less of it.
#[derive(Clone, Copy, Default, Debug)]
pub struct ZoneRule {
    /// Eras with a red zone that nothing has answered.
    red: u32,
    level: Level,
    /// When this rule or something else has answered last.
    answered: Option<Time>,
    trial: Option<Excess>,
    rests: [Rest; 4],
}

/// How far a value is beyond what was agreed.
#[derive(Clone, Copy, Debug)]
struct Excess {
    parameter: Parameter,
    value: f64,
    /// It was more before the last level was given up.
    helped: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct Rest {
    until: Option<Time>,
    length: Span,
}

impl ZoneRule {
    /// Judges the era that ends at `now`.
    pub fn on_era(&mut self, now: Time, seen: Seen<'_>) -> Verdict {
        let fell = seen.level < std::mem::replace(&mut self.level, seen.level);
        if fell {
            // This rule or something else has answered: the effect begins now.
            (self.red, self.answered) = (0, Some(now));
        }
        if seen.marked {
            (self.trial, self.red, self.answered) = (None, 0, Some(now));
            return congested(Cause::Marks, "congested");
        }
        if let Some(trial) = self.trial {
            if !self.shows(now) {
                return verdict(Load::Unclear, WAITS);
            }
            self.trial = None;
            match worst(seen.quality, |parameter| parameter == trial.parameter) {
                None => self.rests[trial.parameter as usize].length = Span::ZERO,
                Some(left) if left.value * 2.0 <= trial.value => {
                    // A queue may take long to drain.
                    let helped = true;
                    self.trial = Some(Excess { helped, ..left });
                    self.answered = Some(now);
                    return verdict(Load::Unclear, WAITS);
                }
                Some(left) if trial.helped => return self.act(now, left, seen.can_lower),
                Some(_) => {
                    self.rest(now, trial.parameter);
                    return verdict(Load::Clean, "fewer layers did not help");
                }
            }
        }
        // The window of errors still holds what was lost seconds ago.
        let goes_on = |parameter| parameter != Parameter::ErrorRate || seen.losing;
        let red = worst(seen.quality, |parameter| {
            goes_on(parameter) && !self.rests(parameter, now)
        });
        let Some(red) = red else {
            self.red = 0;
            return verdict(Load::Clean, "clean");
        };
        if !self.shows(now) {
            return verdict(Load::Unclear, WAITS);
        }
        self.red += 1;
        match self.red < ERAS {
            true => verdict(Load::Unclear, reason(red.parameter)),
            false => self.act(now, red, seen.can_lower),
        }
    }

    /// Another path, or another life of the flow: nothing is known of it.
    pub fn reset(&mut self) {
        *self = ZoneRule::default();
    }

    fn act(&mut self, now: Time, excess: Excess, can_lower: bool) -> Verdict {
        (self.trial, self.red, self.answered) = (Some(excess), 0, Some(now));
        let (parameter, why) = (excess.parameter, reason(excess.parameter));
        match can_lower {
            true => congested(Cause::Red(parameter), why),
            false => verdict(Load::Unclear, why),
        }
    }

    /// Whether zones follow from what came after the last answer alone.
    fn shows(&self, now: Time) -> bool {
        self.answered
            .is_none_or(|at| now >= at.saturating_add(EFFECT))
    }

    fn rest(&mut self, now: Time, parameter: Parameter) {
        let rest = &mut self.rests[parameter as usize];
        rest.length = rest.length.times(2).clamp(FIRST_REST, LONGEST_REST);
        rest.until = Some(now.saturating_add(rest.length));
    }

    fn rests(&self, parameter: Parameter, now: Time) -> bool {
        self.rests[parameter as usize]
            .until
            .is_some_and(|until| now < until)
    }
}

/// The parameter that is furthest beyond what was agreed, as a share of it, of those that are red, may follow from the load, and count.
fn worst(quality: Option<&Quality>, counts: impl Fn(Parameter) -> bool) -> Option<Excess> {
    let judged = quality.into_iter().flat_map(Quality::judged);
    let red = judged.filter(|(parameter, it)| {
        *parameter != Parameter::Throughput && it.zone == Zone::Red && counts(*parameter)
    });
    let share = |it: &Judged| (it.measured - it.agreed) / it.agreed;
    let worst = red.max_by(|(_, a), (_, b)| share(a).total_cmp(&share(b)));
    worst.map(|(parameter, it)| Excess {
        parameter,
        value: it.measured - it.agreed,
        helped: false,
    })
}

const fn verdict(load: Load, reason: &'static str) -> Verdict {
    Verdict {
        load,
        reason,
        cause: None,
    }
}

const fn congested(cause: Cause, reason: &'static str) -> Verdict {
    Verdict {
        load: Load::Congested,
        reason,
        cause: Some(cause),
    }
}

fn reason(parameter: Parameter) -> &'static str {
    match parameter {
        Parameter::Throughput => "red: throughput",
        Parameter::Delay => "red: delay in the network",
        Parameter::Jitter => "red: jitter",
        Parameter::ErrorRate => "red: lost or late",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(agreed: f64, measured: f64) -> Option<Judged> {
        let zone = Zone::of((measured - agreed).max(0.0) / agreed);
        Some(Judged {
            agreed,
            measured,
            zone,
        })
    }

    fn errors(share: f64) -> Quality {
        Quality {
            error_rate: judged(0.01, share),
            ..Quality::default()
        }
    }

    /// The verdicts of `eras` eras at the level that the demand has, from 2 on, where errors depend on era and level.
    fn course(
        rule: &mut ZoneRule,
        eras: std::ops::Range<u64>,
        share: impl Fn(u64, u8) -> f64,
    ) -> Vec<(u64, Load, &'static str)> {
        let mut told = Vec::new();
        let mut level = 2;
        for era in eras {
            let quality = errors(share(era, level));
            let seen = Seen {
                marked: false,
                quality: Some(&quality),
                losing: share(era, level) > 0.0,
                level: Level::new(level).unwrap(),
                can_lower: level > 0,
            };
            let verdict = rule.on_era(Time::ZERO + Span::from_secs(era), seen);
            match verdict.load {
                Load::Congested => level -= 1,
                Load::Clean => level = (level + 1).min(2),
                Load::Unclear => {}
            }
            let last = told.last().map(|it: &(u64, Load, &str)| (it.1, it.2));
            if last != Some((verdict.load, verdict.reason)) {
                told.push((era, verdict.load, verdict.reason));
            }
        }
        told
    }

    #[test]
    fn lasting_errors_take_one_level_after_three_eras_and_the_effect_is_waited_for() {
        let share = |_, level| if level == 2 { 0.2 } else { 0.0 };
        let told = course(&mut ZoneRule::default(), 0..15, share);
        assert_eq!(
            told,
            [
                (0, Load::Unclear, "red: lost or late"),
                (2, Load::Congested, "red: lost or late"),
                (3, Load::Unclear, "waits for the effect"),
            ]
        );
    }

    #[test]
    fn errors_that_fewer_layers_do_not_lessen_give_the_level_back_ever_longer() {
        let mut rule = ZoneRule::default();
        let told = course(&mut rule, 0..400, |_, _| 0.05);
        let at = |wanted| {
            let of = |it: &&(u64, Load, &str)| it.2 == wanted;
            told.iter().filter(of).map(|it| it.0).collect::<Vec<_>>()
        };
        assert_eq!(at("fewer layers did not help"), [16, 92, 228]);
        let lowered = told.iter().filter(|it| it.1 == Load::Congested);
        assert_eq!(lowered.map(|it| it.0).collect::<Vec<_>>(), [2, 78, 214]);
    }

    #[test]
    fn errors_that_have_halved_and_stay_take_the_next_level() {
        let share = |_, level| [0.0, 0.06, 0.2][usize::from(level)];
        let told = course(&mut ZoneRule::default(), 0..40, share);
        let lowered = told.iter().filter(|it| it.1 == Load::Congested);
        assert_eq!(lowered.map(|it| it.0).collect::<Vec<_>>(), [2, 29]);
    }

    #[test]
    fn a_hole_and_what_marks_or_switches_answer_are_no_reason() {
        // Nothing is lost any more while the window still holds the hole.
        let quality = errors(0.5);
        let mut rule = ZoneRule::default();
        for era in 0..10 {
            let seen = Seen {
                marked: false,
                quality: Some(&quality),
                losing: era == 0,
                level: Level::FULL,
                can_lower: true,
            };
            let load = rule.on_era(Time::ZERO + Span::from_secs(era), seen).load;
            assert_eq!(load == Load::Unclear, era == 0, "era {era}");
        }
        // A switch lowers the level in each tenth era.
        let mut rule = ZoneRule::default();
        for era in 0..100 {
            let seen = Seen {
                marked: era == 50,
                quality: Some(&quality),
                losing: true,
                level: if era % 10 < 1 { Level::FULL } else { Level::E1 },
                can_lower: true,
            };
            let verdict = rule.on_era(Time::ZERO + Span::from_secs(era), seen);
            assert_eq!(verdict.load == Load::Congested, era == 50, "{verdict:?}");
        }
    }

    #[test]
    fn without_a_level_to_give_up_a_delay_is_left_alone_and_less_throughput_is_no_reason() {
        let quality = Quality {
            throughput_bps: judged(1e6, 2e6),
            delay_s: judged(0.1, 0.2),
            ..Quality::default()
        };
        let slow = Quality {
            throughput_bps: judged(1e6, 2e6).map(|it| Judged {
                zone: Zone::Red,
                ..it
            }),
            ..Quality::default()
        };
        let seen = |quality| Seen {
            marked: false,
            quality: Some(quality),
            losing: false,
            level: Level::BASE,
            can_lower: false,
        };
        let at = |era| Time::ZERO + Span::from_secs(era);
        let mut rule = ZoneRule::default();
        for era in 0..6 {
            assert_eq!(rule.on_era(at(era), seen(&slow)).reason, "clean");
        }
        let told: Vec<_> = (10..30)
            .map(|era| rule.on_era(at(era), seen(&quality)))
            .collect();
        // There is nothing to lower: that does not help either.
        assert!(
            told[..15].iter().all(|it| it.load == Load::Unclear),
            "{told:?}"
        );
        assert_eq!(told[15].reason, "fewer layers did not help");
        assert_eq!(told[16].reason, "clean");
    }
}
