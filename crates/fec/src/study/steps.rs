use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

use super::{Losses, StudyError};
use crate::model::{CostKind, cost};
use crate::{Controller, ControllerConfig, LossCount};

/// A controller under changes of group and loss (S2).
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// The controller.
    pub controller: ControllerConfig,
    /// The phases, in succession.
    pub phases: Vec<Phase>,
    /// Packets of a round trip, after which all receivers report.
    pub window: u64,
    /// Seed of the run.
    pub seed: u64,
}

/// A number of round trips with the same group and loss.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Round trips.
    pub rounds: u32,
    /// Receivers.
    pub group: u64,
    /// Loss rate of each.
    pub loss: f64,
}

/// Values of a round trip.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Step {
    /// Source packets of a block.
    pub n: u8,
    /// Parities of a block.
    pub m: u8,
    /// Actual packets per source packet.
    pub cost: f64,
    /// Packets per source packet with the best code.
    pub best: f64,
    /// Packets sent in the round trip relative to the window: at most 1, since parities share the window.
    pub load: f64,
}

impl Steps {
    /// Runs the controller through all phases.
    ///
    /// # Errors
    ///
    /// [`StudyError::Loss`] if a loss is out of range.
    pub fn run(&self) -> Result<Vec<Step>, StudyError> {
        let round_trip = Span::from_ms(100);
        let mut controller = Controller::new(self.controller);
        let mut steps = Vec::new();
        let (mut now, mut members, mut code) = (Time::ZERO, 0, (1, 0));
        for (number, phase) in self.phases.iter().enumerate() {
            if !(0.0..=0.9).contains(&phase.loss) {
                return Err(StudyError::Loss);
            }
            let mut losses = Losses::new(self.seed, &format!("steps/{number}"), phase.loss);
            (phase.group..members).for_each(|it| controller.forget(it));
            members = phase.group;
            let of = |n: u8, m: u8| {
                cost(
                    n.into(),
                    m.into(),
                    phase.loss,
                    phase.group as f64,
                    CostKind::B,
                )
            };
            let best = self.best(of);
            for _ in 0..phase.rounds {
                // The window holds sources and parities: FEC does not change the load.
                let (n, m) = code;
                let share = f64::from(n) / f64::from(n + m);
                let sources = (self.window as f64 * share).floor();
                let sent = sources * f64::from(n + m) / f64::from(n);
                for receiver in 0..members {
                    let expected = sent.round() as u64;
                    let received = expected - losses.count(expected);
                    controller.report(receiver, LossCount { expected, received });
                }
                let choice = controller.choose(now, round_trip);
                code = (choice.n, choice.m);
                let load = sent / self.window as f64;
                steps.push(Step {
                    n: choice.n,
                    m: choice.m,
                    cost: of(choice.n, choice.m),
                    best,
                    load,
                });
                now += round_trip;
            }
        }
        Ok(steps)
    }

    fn best(&self, of: impl Fn(u8, u8) -> f64) -> f64 {
        let codes = (1..=self.controller.parities)
            .flat_map(|m| (1..=self.controller.block.saturating_sub(m)).map(move |n| (n, m)));
        codes.map(|(n, m)| of(n, m)).fold(of(1, 0), f64::min)
    }
}
