use std::collections::VecDeque;
use std::convert::Infallible;

use layercast_core::{Cause, FlowId, Machine, Observer, Span, Stream, Subject, Time, TraceEvent};
use serde::{Deserialize, Serialize};

use crate::ConfigError;

/// Most items on their way at once; what comes on top is lost and counted.
const MAX_IN_FLIGHT: usize = 1 << 16;

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

/// Random loss.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each item on its own.
    Bernoulli {
        /// Probability of loss.
        p: f64,
    },
    /// Two states, each with a loss probability of its own (Gilbert 1960, Elliott 1963).
    GilbertElliott {
        /// From good to bad, per item.
        p_gb: f64,
        /// From bad to good, per item.
        p_bg: f64,
        /// Loss in the good state.
        loss_good: f64,
        /// Loss in the bad state.
        loss_bad: f64,
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

/// What is put on a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkInput<T> {
    /// When its last bit leaves the sender.
    pub ready: Time,
    /// What it is.
    pub item: T,
}

/// What a link did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LinkStats {
    /// Items put on it.
    pub sent: u64,
    /// Items that arrived, copies included.
    pub delivered: u64,
    /// Items lost by chance.
    pub lost: u64,
    /// Items that arrived twice.
    pub duplicated: u64,
    /// Items lost because too many were on their way.
    pub overflow: u64,
}

/// One direction of a link as a machine: propagation delay, jitter, loss, duplicates.
///
/// Each kind of impairment draws from a stream of its own, so one does not move another.
#[derive(Debug)]
pub struct Link<T> {
    config: LinkConfig,
    name: String,
    jitter: Stream,
    loss: Stream,
    duplicate: Stream,
    bad: bool,
    flying: VecDeque<(Time, T)>,
    stats: LinkStats,
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
        match self.loss {
            Loss::None => Ok(()),
            Loss::Bernoulli { p } => check("loss.p", p),
            Loss::GilbertElliott {
                p_gb,
                p_bg,
                loss_good,
                loss_bad,
            } => {
                check("loss.p_gb", p_gb)?;
                check("loss.p_bg", p_bg)?;
                check("loss.loss_good", loss_good)?;
                check("loss.loss_bad", loss_bad)
            }
        }
    }
}

impl<T: Clone> Link<T> {
    /// A link whose randomness follows from `seed` and its `name`, such as `"chuff-rook"`.
    pub fn new(config: LinkConfig, seed: u64, name: &str) -> Link<T> {
        let stream = |what: &str| Stream::new(seed, &format!("{name}/{what}"));
        Link {
            config,
            name: name.into(),
            jitter: stream("jitter"),
            loss: stream("loss"),
            duplicate: stream("duplicate"),
            bad: false,
            flying: VecDeque::new(),
            stats: LinkStats::default(),
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    fn is_lost(&mut self) -> bool {
        match self.config.loss {
            Loss::None => false,
            Loss::Bernoulli { p } => self.loss.chance(p),
            Loss::GilbertElliott {
                p_gb,
                p_bg,
                loss_good,
                loss_bad,
            } => {
                let change = if self.bad { p_bg } else { p_gb };
                self.bad ^= self.loss.chance(change);
                let p = if self.bad { loss_bad } else { loss_good };
                self.loss.chance(p)
            }
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
        ready
            .saturating_add(self.config.delay)
            .saturating_add(extra)
    }

    fn fly<O: Observer>(&mut self, now: Time, ready: Time, item: T, obs: &mut O) {
        if self.flying.len() >= MAX_IN_FLIGHT {
            self.stats.overflow += 1;
            self.report(now, Cause::BufferOverflow, obs);
            return;
        }
        let mut at = self.arrival(ready);
        let last = self.flying.back().map_or(Time::ZERO, |(at, _)| *at);
        if at >= last || !self.config.reorder {
            at = at.max(last);
            self.flying.push_back((at, item));
        } else {
            let place = self.flying.partition_point(|(other, _)| *other <= at);
            self.flying.insert(place, (at, item));
        }
    }

    fn report<O: Observer>(&self, now: Time, cause: Cause, obs: &mut O) {
        let subject = Subject {
            node: &self.name,
            machine: "link",
        };
        // A link does not look inside what it carries.
        obs.on(now, subject, || TraceEvent::Lost {
            flow: FlowId(0),
            layer: None,
            count: 1,
            cause,
        });
    }
}

impl<T: Clone> Machine for Link<T> {
    type Input = LinkInput<T>;
    type Transmit = T;
    type Event = Infallible;

    fn handle<O: Observer>(&mut self, now: Time, input: LinkInput<T>, obs: &mut O) {
        self.stats.sent += 1;
        if self.is_lost() {
            self.stats.lost += 1;
            self.report(now, Cause::LinkLoss, obs);
            return;
        }
        if self.config.duplicate > 0.0 && self.duplicate.chance(self.config.duplicate) {
            self.stats.duplicated += 1;
            self.fly(now, input.ready, input.item.clone(), obs);
        }
        self.fly(now, input.ready, input.item, obs);
    }

    fn on_timeout<O: Observer>(&mut self, _: Time, _: &mut O) {}

    fn poll_transmit<O: Observer>(&mut self, now: Time, _: &mut O) -> Option<T> {
        self.flying
            .pop_front_if(|(at, _)| *at <= now)
            .map(|(_, item)| {
                self.stats.delivered += 1;
                item
            })
    }

    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }

    fn next_timeout(&self) -> Option<Time> {
        self.flying.front().map(|(at, _)| *at)
    }
}
