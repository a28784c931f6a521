//! The configuration of a controller.

use layercast_core::{Rate, Span};
use serde::{Deserialize, Serialize};

/// The configuration of a controller; [`MbacConfig::new`] has the defaults of production.
#[derive(Clone, PartialEq, Debug)]
pub struct MbacConfig {
    /// Rate of the link.
    pub capacity: Rate,
    /// Over which time the rate is measured (S).
    pub sample: Span,
    /// Share of the link up to which calls are admitted, in permille.
    pub utilisation: u16,
    /// By what a measured rate above the estimate is multiplied, in permille.
    pub over_rate: u32,
    /// The test of a request.
    pub rule: Rule,
    /// How measurements become an estimate.
    pub estimator: Estimator,
    /// What is promised about late bits.
    pub promise: Promise,
    /// Whether a restart of the window restarts the sample, so that no sample has bits from before the restart.
    /// The paper keeps such samples.
    pub align_samples: bool,
    /// Whether smaller calls wait for up to a window after a larger one was refused, so that large ones get their
    /// share.
    pub fair_block: bool,
    /// Calls that the table holds.
    pub max_calls: u32,
    /// How delays are added up.
    pub arithmetic: Arithmetic,
}

/// What is promised: at most a share of late bits over a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Promise {
    /// Target of late bits, parts in a million.
    pub late_ppm: u32,
    /// The commitment period.
    pub period: Span,
    /// Whether the share of late bits is forgotten with the period as time constant, in place of a restart at its end.
    pub sliding: bool,
}

/// The test of a request. All of them compare an estimate of the rate with the link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rule {
    /// The sum of estimate and declared rate (Jamin, Danzig, Shenker, Zhang; equations 1 and 2), with or without a
    /// test of the delay.
    MeasuredSum {
        /// The test of the delay.
        delay: Option<DelayTest>,
    },
    /// The Hoeffding bound of all declared peaks above the estimate (Floyd 1996).
    Hoeffding {
        /// Probability with which the rate may exceed the bound, parts in a million.
        exceed_ppm: u32,
    },
    /// The tangent at the origin of the acceptance region of a Chernoff bound (Gibbens, Kelly 1997).
    Tangent {
        /// The space parameter, s of exp(s·peak), in seconds per megabit.
        space: f64,
    },
}

/// The test of the delay (equation 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayTest {
    /// Most that estimate and bucket may add up to.
    pub bound: Span,
    /// By what a measured delay above the estimate is multiplied, in permille.
    pub over: u32,
}

/// How measurements become an estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Estimator {
    /// Maximum over a window of fixed length.
    Window(Span),
    /// Maximum over a window whose length follows two levels of control.
    Levels(Levels),
    /// Exponential average with this weight of a sample, in permille.
    Average(u16),
}

/// Both levels of control: the window follows the trigger, the trigger the promise (specs/admission-control.md 2.7, 2.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels {
    /// Window at the start.
    pub first: Span,
    /// Shortest window.
    pub min: Span,
    /// Longest window.
    pub max: Span,
    /// By what the window grows if the rate reaches the trigger, in permille.
    pub grow: u32,
    /// By what it shrinks otherwise, in permille.
    pub shrink: u32,
    /// Trigger at the start.
    pub trigger: Rate,
    /// By what the trigger is raised.
    pub raise: Rate,
    /// By what it is lowered.
    pub lower: Rate,
    /// Whether the trigger is not raised while the measured rate is below its half.
    pub anti_windup: bool,
    /// What counts as late now.
    pub now: Now,
}

/// Which late bits level 2 compares with the target.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Now {
    /// Those since the last window.
    #[default]
    SinceExpiry,
    /// The share of the queue that is beyond the bound, at the instant at which the window ends.
    Snapshot,
}

/// How delays are added up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Arithmetic {
    /// Whole picoseconds.
    #[default]
    Exact,
    /// Double-precision seconds, as the simulator of the paper had: 16 times 1 ms is more than 16 ms.
    Paper,
}

/// A configuration that cannot be meant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// The offending field.
    pub field: &'static str,
    /// What is wrong with it, and what is accepted.
    pub problem: &'static str,
}

impl Default for Promise {
    fn default() -> Promise {
        Promise {
            late_ppm: 1_000,
            period: Span::from_secs(12 * 3_600),
            sliding: false,
        }
    }
}

impl Levels {
    /// The parameters of the paper, scaled to the link; the window has no limit.
    pub fn paper(capacity: Rate) -> Levels {
        let share = |permille| scaled(capacity, permille);
        Levels {
            first: Span::from_secs(1),
            min: Span::from_secs(1),
            max: Span::MAX,
            grow: 1_200,
            shrink: 900,
            trigger: share(900),
            raise: share(1),
            lower: share(5),
            anti_windup: false,
            now: Now::SinceExpiry,
        }
    }

    /// Those of production: the window ends at 10 min, and the trigger does not run away from an idle link.
    pub fn production(capacity: Rate) -> Levels {
        Levels {
            max: Span::from_secs(600),
            anti_windup: true,
            ..Levels::paper(capacity)
        }
    }
}

/// A share of a rate.
pub(crate) fn scaled(rate: Rate, permille: u64) -> Rate {
    let bps = u128::from(rate.as_bps()) * u128::from(permille) / 1_000;
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

impl MbacConfig {
    /// The two-level algorithm with the parameters of production.
    pub fn new(capacity: Rate) -> MbacConfig {
        MbacConfig {
            capacity,
            sample: Span::from_ms(500),
            utilisation: 1_000,
            over_rate: 1_000,
            rule: Rule::MeasuredSum { delay: None },
            estimator: Estimator::Levels(Levels::production(capacity)),
            promise: Promise::default(),
            align_samples: false,
            fair_block: false,
            max_calls: 65_536,
            arithmetic: Arithmetic::Exact,
        }
    }

    /// The algorithm of Jamin, Danzig, Shenker and Zhang: a fixed window, with or without a bound of the delay.
    pub fn jdsz(capacity: Rate, window: Span, bound: Option<Span>, utilisation: u16) -> MbacConfig {
        let delay = bound.map(|bound| DelayTest { bound, over: 2_000 });
        MbacConfig {
            utilisation,
            rule: Rule::MeasuredSum { delay },
            estimator: Estimator::Window(window),
            ..MbacConfig::new(capacity)
        }
    }

    /// The rate up to which calls are admitted.
    pub fn bound(&self) -> Rate {
        scaled(self.capacity, self.utilisation.into())
    }

    /// Checks the bounds of all fields.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the first field out of its bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |good, field, problem| match good {
            true => Ok(()),
            false => Err(ConfigError { field, problem }),
        };
        let twice = self.sample.times(2);
        check(self.capacity.as_bps() > 0, "capacity", "is above 0")?;
        check(self.sample >= Span::from_ms(1), "sample", "is 1 ms or more")?;
        check(
            (1..=1_000).contains(&self.utilisation),
            "utilisation",
            "is 1 to 1000 permille",
        )?;
        check(
            (1_000..=1_000_000).contains(&self.over_rate),
            "over_rate",
            "is 1000 permille or more, at most 1000000",
        )?;
        check(self.max_calls > 0, "max_calls", "is above 0")?;
        let target = self.promise.late_ppm;
        check(
            (1..1_000_000).contains(&target),
            "promise.late_ppm",
            "is above 0 and below 1000000",
        )?;
        check(
            self.promise.period >= twice,
            "promise.period",
            "is two samples or more",
        )?;
        match self.rule {
            Rule::MeasuredSum { delay: Some(test) } => {
                check(test.bound > Span::ZERO, "rule.delay.bound", "is above 0")?;
                check(
                    (1_000..=1_000_000).contains(&test.over),
                    "rule.delay.over",
                    "is 1000 permille or more, at most 1000000",
                )?;
            }
            Rule::MeasuredSum { delay: None } => {}
            Rule::Hoeffding { exceed_ppm } => check(
                (1..1_000_000).contains(&exceed_ppm),
                "rule.exceed_ppm",
                "is above 0 and below 1000000",
            )?,
            Rule::Tangent { space } => check(
                (0.0..=1e6).contains(&space),
                "rule.space",
                "is 0 to 1000000 seconds per megabit",
            )?,
        }
        match self.estimator {
            Estimator::Window(window) => check(
                window >= twice,
                "estimator",
                "has a window of two samples or more",
            ),
            Estimator::Average(weight) => check(
                (1..=1_000).contains(&weight),
                "estimator",
                "has a weight of 1 to 1000 permille",
            ),
            Estimator::Levels(levels) => {
                check(levels.min >= twice, "levels.min", "is two samples or more")?;
                check(
                    levels.max >= levels.min,
                    "levels.max",
                    "is levels.min or more",
                )?;
                check(
                    (levels.min..=levels.max).contains(&levels.first),
                    "levels.first",
                    "lies between levels.min and levels.max",
                )?;
                check(
                    (1_001..=1_000_000).contains(&levels.grow),
                    "levels.grow",
                    "is above 1000 permille, at most 1000000",
                )?;
                check(
                    (1..1_000).contains(&levels.shrink),
                    "levels.shrink",
                    "is above 0 and below 1000 permille",
                )?;
                check(
                    levels.trigger <= self.capacity,
                    "levels.trigger",
                    "is at most the capacity",
                )
            }
        }
    }
}
