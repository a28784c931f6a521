use layercast_core::{Span, Stream, Time};
use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::loss::{Loss, LossProcess};

/// Random delay added to the propagation delay.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Uniform in `[0, max)`.
    Uniform {
        /// Upper end.
        max: Span,
    },
    /// The absolute value of a normal variable.
    Normal {
        /// Standard deviation of the variable.
        sd: Span,
    },
}

/// One direction of a link behind its line rate.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// Propagation delay.
    pub delay: Span,
    /// Random delay on top.
    pub jitter: Jitter,
    /// Whether jitter may change the order.
    pub reorder: bool,
    /// Random loss.
    pub loss: Loss,
    /// Probability that an item arrives twice.
    pub duplicate: f64,
}

impl LinkConfig {
    /// Checks that probabilities are probabilities.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |field: &'static str, p: f64| {
            if (0.0..=1.0).contains(&p) {
                return Ok(());
            }
            let problem = format!("{p} is not a probability (0 to 1)");
            Err(ConfigError { field, problem })
        };
        check("duplicate", self.duplicate)?;
        let names = match self.loss {
            Loss::Bernoulli { .. } => ["loss.p"; 4],
            _ => ["loss.p_gb", "loss.p_bg", "loss.loss_good", "loss.loss_bad"],
        };
        let mut each = names.into_iter().zip(self.loss.probabilities());
        each.try_for_each(|(field, p)| check(field, p))
    }
}

/// What happens to items on one direction of a link: propagation delay, jitter, loss, duplicates.
///
/// Each variable draws from a stream of its own, so one does not move another.
#[derive(Clone, Debug)]
pub struct Impair {
    config: LinkConfig,
    jitter: Stream,
    loss: LossProcess,
    duplicate: Stream,
    /// The latest arrival so far.
    last: Time,
}

/// What becomes of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It does not arrive.
    Lost,
    /// It arrives then.
    Arrives(Time),
    /// A copy arrives and it does, then.
    Twice([Time; 2]),
}

impl Impair {
    /// Impairments whose randomness follows from `seed` and the name of the direction, such as `"chuff->rook"`.
    pub fn new(config: LinkConfig, seed: u64, name: &str) -> Impair {
        let stream = |what: &str| Stream::new(seed, &format!("link/{name}/{what}"));
        Impair {
            config,
            jitter: stream("jitter"),
            loss: LossProcess::new(config.loss, seed, name),
            duplicate: stream("duplicate"),
            last: Time::ZERO,
        }
    }

    /// What becomes of the next item, whose last bit leaves at `ready`.
    pub fn fate(&mut self, ready: Time) -> Fate {
        if self.loss.loses() {
            return Fate::Lost;
        }
        match self.duplicate.chance(self.config.duplicate) {
            false => Fate::Arrives(self.arrival(ready)),
            true => Fate::Twice([self.arrival(ready), self.arrival(ready)]),
        }
    }

    fn arrival(&mut self, ready: Time) -> Time {
        let extra = match self.config.jitter {
            Jitter::None => Span::ZERO,
            Jitter::Uniform { max } => Span::from_secs_f64(max.as_secs_f64() * self.jitter.unit()),
            Jitter::Normal { sd } => {
                Span::from_secs_f64(sd.as_secs_f64() * self.jitter.normal().abs())
            }
        };
        let at = ready
            .saturating_add(self.config.delay)
            .saturating_add(extra);
        if self.config.reorder {
            return at;
        }
        self.last = self.last.max(at);
        self.last
    }
}
