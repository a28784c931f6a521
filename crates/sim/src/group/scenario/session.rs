//! From the [session] of a scenario to the policies of the sender.

use layercast_core::{Rate, Span};
use layercast_multicast::{
    Completion, Deadline, RateControl, Repair, Schedule, SenderConfig, Trigger, Weak,
};
use layercast_wire::multicast::{Content, MemberId};

use super::schema::{ProfileName, RepairName, SessionSpec, WeakSpec};
use super::tree::check_wait;
use crate::internet::scenario::{Problem, ScenarioError};
use crate::scenario::units::Quantity;

/// Longest range of the back-off of all receivers.
const MOST_SPREAD: Span = Span::from_secs(86_400);

fn needless(field: &str, why: &str) -> ScenarioError {
    ScenarioError::new(
        format!("session.{field}"),
        Problem::Needless(why.to_owned()),
    )
}

fn set<T>(to: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *to = value;
    }
}

impl SessionSpec {
    /// The policies that it means.
    pub(super) fn config(&self, receivers: u32) -> Result<SenderConfig, ScenarioError> {
        let mut config = match (self.profile, self.rate) {
            (ProfileName::Frm, _) => SenderConfig::frm(),
            (ProfileName::Rmtp, _) => SenderConfig::rmtp(),
            (ProfileName::Layercast, Some(rate)) => SenderConfig::layercast(rate.0),
            (ProfileName::Layercast, None) => {
                let start = self.monitor.map(|monitor| monitor.start.0);
                let missing = Problem::Missing("say how fast data are sent".to_owned());
                let error = || ScenarioError::new("session.rate", missing);
                SenderConfig::layercast(start.ok_or_else(error)?)
            }
        };
        self.check_times(receivers)?;
        set(&mut config.packet_size, self.packet_size);
        set(&mut config.block, self.block);
        set(&mut config.window, self.window);
        set(&mut config.rounds, self.rounds);
        set(&mut config.release_on_received, self.release_on_received);
        set(&mut config.release_each, self.goodbye);
        set(&mut config.opening.tries, self.opening_tries);
        set(&mut config.opening.wait, self.opening_wait.map(|it| it.0));
        self.set_rate(&mut config);
        self.set_repair(&mut config)?;
        self.set_schedule(&mut config)?;
        self.set_deadline(&mut config)?;
        self.set_members(&mut config, receivers)?;
        config
            .validate()
            .map_err(|error| ScenarioError::new("session", Problem::Config(error.to_string())))?;
        Ok(config)
    }

    fn check_times(&self, receivers: u32) -> Result<(), ScenarioError> {
        let interval = match self.weak {
            Some(WeakSpec::Eject { interval, .. }) => Some(interval),
            _ => None,
        };
        for (name, time) in [
            ("delta", self.delta),
            ("spread", self.spread),
            ("tat", self.tat),
            ("alpha", self.alpha),
            ("opening_wait", self.opening_wait),
            ("weak.eject.interval", interval),
        ] {
            if let Some(time) = time {
                check_wait(format!("session.{name}"), time.0)?;
            }
        }
        match self.delta {
            Some(delta) if delta.0.times(receivers.into()) > MOST_SPREAD => {
                let most = MOST_SPREAD.mul_div(1, receivers.into());
                let accepted = format!("at most {} for {receivers} receivers", most.write());
                Err(ScenarioError::value(
                    "session.delta",
                    delta.0.write(),
                    accepted,
                ))
            }
            _ => Ok(()),
        }
    }

    fn set_rate(&self, config: &mut SenderConfig) {
        if let Some(rate) = self.rate {
            config.rate = RateControl::Fixed(rate.0);
        }
        if let Some(spec) = &self.monitor {
            let mut monitor = SenderConfig::monitor(spec.start.0, spec.least.0, spec.most.0);
            set(&mut monitor.packets, spec.packets);
            config.rate = match spec.friendly {
                true => RateControl::Friendly(monitor),
                false => RateControl::Monitor(monitor),
            };
        }
    }

    fn set_repair(&self, config: &mut SenderConfig) -> Result<(), ScenarioError> {
        if let Some(repair) = self.repair {
            let layercast = SenderConfig::layercast(Rate::from_bps(1));
            (config.repair, config.content, config.scheme) = match repair {
                _ if self.profile == ProfileName::Frm => {
                    let why = "streams of the profile frm report gaps with \"union\"; \
                               nothing else can be chosen";
                    match repair {
                        RepairName::GoBackN => (Repair::GoBackN, Content::Levels, 0),
                        RepairName::Union => (union(), Content::Levels, 0),
                        RepairName::Parity => return Err(needless("repair", why)),
                    }
                }
                RepairName::GoBackN => (Repair::GoBackN, Content::Ranges, 0),
                RepairName::Union => (union(), Content::Ranges, 0),
                RepairName::Parity => (layercast.repair, Content::Counts, layercast.scheme),
            };
            if repair == RepairName::Parity && self.block.is_none() {
                config.block = layercast.block;
            }
            // Answers are suppressed only where counts are reported.
            if let (Schedule::Suppress { delta, .. }, Content::Ranges) =
                (config.schedule, config.content)
            {
                config.schedule = Schedule::BackOff {
                    delta,
                    unasked: false,
                };
            }
        }
        match (&mut config.repair, self.unicast_below, self.proactive) {
            (
                Repair::Selective {
                    unicast_below_permille,
                },
                Some(below),
                None,
            ) => *unicast_below_permille = permille("unicast_below", below)?,
            (Repair::Parity { proactive, .. }, None, more) => set(proactive, more),
            (_, None, None) => {}
            (_, Some(_), _) => {
                return Err(needless("unicast_below", "it is for repair = \"union\""));
            }
            (_, None, Some(_)) => {
                return Err(needless("proactive", "it is for repair = \"parity\""));
            }
        }
        Ok(())
    }

    fn set_schedule(&self, config: &mut SenderConfig) -> Result<(), ScenarioError> {
        let given = self.delta.map(|it| it.0);
        if let (Schedule::AtOnce, Some(delta)) = (config.schedule, given)
            && delta > Span::ZERO
        {
            config.schedule = Schedule::BackOff {
                delta,
                unasked: false,
            };
        }
        match &mut config.schedule {
            Schedule::AtOnce => {}
            Schedule::BackOff { delta, unasked } => {
                set(delta, given);
                set(unasked, self.unasked);
            }
            Schedule::Suppress {
                delta,
                above,
                spread,
            } => {
                set(delta, given);
                set(above, self.suppress_above);
                set(spread, self.spread.map(|it| it.0));
                return Ok(());
            }
        }
        if self.spread.is_some() || self.suppress_above.is_some() {
            let field = match self.spread {
                Some(_) => "spread",
                None => "suppress_above",
            };
            return Err(needless(
                field,
                "only with repair by parity are answers suppressed",
            ));
        }
        Ok(())
    }

    fn set_deadline(&self, config: &mut SenderConfig) -> Result<(), ScenarioError> {
        match (self.k, self.tat, self.alpha) {
            (None, None, None) => {}
            (Some(k), None, None) => {
                if !(k > 1.0 && k <= 1_000.0) {
                    return Err(ScenarioError::value(
                        "session.k",
                        k,
                        "above 1, at most 1000",
                    ));
                }
                config.deadline = Deadline::Rtt {
                    k_permille: libm::round(k * 1_000.0) as u32,
                };
            }
            (None, tat_given, alpha_given) => {
                let (mut tat, mut alpha) = match config.deadline {
                    Deadline::Linear { tat, alpha } => (tat, alpha),
                    _ => (Span::from_ms(100), Span::ZERO),
                };
                set(&mut tat, tat_given.map(|it| it.0));
                set(&mut alpha, alpha_given.map(|it| it.0));
                config.deadline = Deadline::Linear { tat, alpha };
            }
            _ => return Err(needless("k", "it is one of k, and tat with alpha")),
        }
        match &mut config.trigger {
            Trigger::Timer { on_complete, .. } => set(on_complete, self.on_complete),
            Trigger::Pass if self.on_complete.is_some() => {
                return Err(needless("on_complete", "it is for streams"));
            }
            Trigger::Pass => {}
        }
        if let Some(wanted) = self.tries {
            let (layercast_multicast::Silence::AskEach { tries }
            | layercast_multicast::Silence::AskGroup { tries }) = &mut config.silence;
            *tries = wanted;
        }
        Ok(())
    }

    fn set_members(&self, config: &mut SenderConfig, receivers: u32) -> Result<(), ScenarioError> {
        config.weak = match self.weak {
            None => config.weak,
            Some(WeakSpec::Keep) => Weak::Keep,
            Some(WeakSpec::Eject {
                min_release,
                interval,
                slow_rounds,
            }) => Weak::Eject {
                min_release,
                interval: interval.0,
                slow_rounds,
                mandatory: false,
            },
            Some(WeakSpec::Postpone { missing, polls }) => Weak::Postpone {
                polls,
                missing_permille: permille("weak.postpone.missing", missing)?,
                side: true,
            },
        };
        let mut rules = Vec::new();
        rules.extend(self.at_least.map(Completion::AtLeast));
        if !self.key.is_empty() {
            for (at, &number) in self.key.iter().enumerate() {
                check_receiver(&format!("session.key[{at}]"), number, receivers)?;
            }
            let ids = self
                .key
                .iter()
                .map(|&number| MemberId(u64::from(number) - 1));
            rules.push(Completion::Key(ids.collect()));
        }
        config.completion = match (rules.pop(), rules.pop()) {
            (Some(one), Some(other)) => Completion::Both(Box::new((other, one))),
            (Some(one), None) => one,
            _ => config.completion.clone(),
        };
        Ok(())
    }
}

fn union() -> Repair {
    Repair::Selective {
        unicast_below_permille: 0,
    }
}

fn permille(field: &str, share: f64) -> Result<u32, ScenarioError> {
    match (0.0..=1.0).contains(&share) {
        true => Ok(libm::round(share * 1_000.0) as u32),
        false => Err(ScenarioError::value(
            format!("session.{field}"),
            share,
            "a share: 0 to 1",
        )),
    }
}

/// A receiver by its number, from 1.
pub(super) fn check_receiver(
    field: &str,
    number: u32,
    receivers: u32,
) -> Result<(), ScenarioError> {
    match (1..=receivers).contains(&number) {
        true => Ok(()),
        false => Err(ScenarioError::value(
            field,
            number,
            format!("the number of a receiver: 1 to {receivers}"),
        )),
    }
}
