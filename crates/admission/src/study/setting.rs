//! What is run.

use layercast_core::{Rate, Span};
use serde::Deserialize;

use super::run::{self, Run};
use crate::config::{
    Arithmetic, ConfigError, DelayTest, Estimator, Levels, MbacConfig, Now, Promise, Rule,
};
use crate::descriptor::TSpecError;

/// One run; defaults are those of the paper.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Setting {
    /// Rate of the link, bit/s.
    pub capacity_bps: u64,
    /// Calls per second.
    pub arrivals_per_s: f64,
    /// Mean time of a call, seconds.
    pub holding_s: f64,
    /// Mean time ON, seconds.
    pub on_s: f64,
    /// Mean time OFF, seconds.
    pub off_s: f64,
    /// Peak rates.
    pub peaks: Peaks,
    /// What calls declare.
    pub declared: Declared,
    /// Changes of the rate of arrivals.
    pub switching: Option<Switching>,
    /// From which delay on a bit is late, milliseconds.
    pub late_ms: f64,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Target of late bits, percent.
    pub target: f64,
    /// Length, seconds.
    pub seconds: f64,
    /// Seed.
    pub seed: u64,
    /// Whether smaller calls wait for a refused larger one.
    pub fair_block: bool,
    /// Whether calls send packets of 1 kbit, not a fluid.
    pub packets: bool,
    /// Distance of the points of the series, seconds.
    pub points_s: Option<f64>,
}

/// Peak rates of the calls, bit/s.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peaks {
    /// All the same.
    Fixed(f64),
    /// Exponential with this mean.
    Exponential(f64),
}

/// What a call declares.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Declared {
    /// Its own peak rate.
    Peak,
    /// A peak rate drawn independently of its own, from the same distribution (specs/admission-control.md 6, point 7).
    Independent,
    /// A bucket: depth in bits, token rate in bit/s.
    Bucket(f64, f64),
    /// A bucket of this depth in bits with the token rate of equation 3 for the call's own peak and this loss.
    Equation(f64, f64),
    /// A peak rate drawn independently of its own, and a bucket of this depth in bits.
    IndependentBucket(f64),
}

/// Changes of the rate of arrivals: at exponential intervals it is drawn again.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switching {
    /// Mean interval, seconds.
    pub mean_s: f64,
    /// The other rate, calls per second.
    pub low_per_s: f64,
    /// Probability of the other rate.
    pub low_chance: f64,
}

/// The algorithm and its parameters.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Algorithm {
    /// Jamin, Danzig, Shenker, Zhang.
    Jdsz {
        /// Window, seconds.
        window_s: f64,
        /// Bound of the delay, milliseconds; none: it is not tested.
        bound_ms: Option<f64>,
        /// Utilisation target, percent.
        utilisation: f64,
    },
    /// Two levels, with the parameters of the paper.
    Levels {
        /// Trigger at the start, bit/s.
        trigger_bps: f64,
        /// By what it is raised, bit/s.
        raise_bps: f64,
        /// By what it is lowered, bit/s.
        lower_bps: f64,
        /// Window at the start, seconds.
        first_s: f64,
        /// What counts as late now.
        now: Now,
        /// Whether the trigger is not raised beside an idle link.
        anti_windup: bool,
    },
    /// Floyd's Hoeffding bound, with an exponential average.
    Hoeffding {
        /// Probability with which the rate may exceed the bound.
        exceed: f64,
        /// Weight of a sample.
        weight: f64,
    },
    /// The tangent at the origin of Gibbens and Kelly, with an exponential average.
    Tangent {
        /// Space parameter, seconds per megabit.
        space: f64,
        /// Weight of a sample.
        weight: f64,
    },
    /// The declared peaks add up to the link at most.
    PeakSum,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            capacity_bps: 10_000_000,
            arrivals_per_s: 10.0,
            holding_s: 135.0,
            on_s: 0.3125,
            off_s: 0.3125,
            peaks: Peaks::Fixed(64e3),
            declared: Declared::Peak,
            switching: None,
            late_ms: 16.0,
            algorithm: Algorithm::Levels {
                trigger_bps: 9e6,
                raise_bps: 1e4,
                lower_bps: 5e4,
                first_s: 1.0,
                now: Now::SinceExpiry,
                anti_windup: false,
            },
            target: 0.1,
            seconds: 43_200.0,
            seed: 1,
            fair_block: false,
            packets: false,
            points_s: None,
        }
    }
}

/// Why a study cannot run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum StudyError {
    /// A number out of its bounds.
    #[error("{0}")]
    Bounds(&'static str),
    /// The controller is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A declaration is refused.
    #[error(transparent)]
    Declared(#[from] TSpecError),
}

/// Longest run, seconds.
const MAX_SECONDS: f64 = 1e6;
/// Most calls per second and in progress: a call takes memory.
const MAX_CALLS: f64 = 100_000.0;
/// Most points of a series.
const MAX_POINTS: f64 = 100_000.0;

impl Setting {
    /// Runs it.
    ///
    /// # Errors
    ///
    /// [`StudyError`] if a number is out of its bounds.
    pub fn run(&self) -> Result<Run, StudyError> {
        self.check()?;
        run::run(self)
    }

    fn check(&self) -> Result<(), StudyError> {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        let (Peaks::Fixed(peak) | Peaks::Exponential(peak)) = self.peaks;
        let rates = self.switching.map_or(self.arrivals_per_s, |it| {
            self.arrivals_per_s.max(it.low_per_s)
        });
        let checks = [
            (self.capacity_bps > 0, "capacity_bps is above 0"),
            (
                positive(self.arrivals_per_s) && rates <= MAX_CALLS,
                "arrivals_per_s is above 0, at most 100000",
            ),
            (
                positive(self.holding_s) && self.holding_s * rates <= MAX_CALLS,
                "holding_s is above 0, and at most 100000 calls are in progress",
            ),
            (
                self.on_s >= 1e-3 && self.on_s.is_finite(),
                "on_s is 0.001 or more",
            ),
            (
                self.off_s >= 1e-3 && self.off_s.is_finite(),
                "off_s is 0.001 or more",
            ),
            ((1.0..=1e12).contains(&peak), "peaks are 1 to 1e12 bit/s"),
            (positive(self.late_ms), "late_ms is above 0"),
            (
                positive(self.seconds) && self.seconds <= MAX_SECONDS,
                "seconds is above 0, at most a million",
            ),
            (
                self.switching.is_none_or(|it| {
                    it.mean_s >= 0.1
                        && it.mean_s.is_finite()
                        && positive(it.low_per_s)
                        && (0.0..=1.0).contains(&it.low_chance)
                }),
                "switching has mean_s of 0.1 or more, low_per_s above 0 and low_chance of 0 to 1",
            ),
            (
                self.points_s
                    .is_none_or(|step| step >= self.seconds / MAX_POINTS),
                "points_s gives at most 100000 points",
            ),
            (
                self.target > 0.0 && self.target < 100.0,
                "target is above 0, below 100 percent",
            ),
        ];
        match checks.into_iter().find(|(good, _)| !good) {
            Some((_, text)) => Err(StudyError::Bounds(text)),
            None => Ok(()),
        }
    }

    /// The controller.
    pub(super) fn config(&self) -> MbacConfig {
        let capacity = Rate::from_bps(self.capacity_bps);
        let seconds = Span::from_secs_f64;
        let average = |weight: f64| Estimator::Average((weight * 1e3).round() as u16);
        let bps = |rate: f64| Rate::from_bps(rate.round() as u64);
        let mut config = MbacConfig {
            promise: Promise {
                late_ppm: (self.target * 1e4).round() as u32,
                period: seconds(self.seconds),
                sliding: false,
            },
            fair_block: self.fair_block,
            arithmetic: Arithmetic::Paper,
            // The link refuses calls, not the table.
            max_calls: u32::MAX,
            ..MbacConfig::new(capacity)
        };
        match self.algorithm {
            Algorithm::Jdsz {
                window_s,
                bound_ms,
                utilisation,
            } => {
                let delay = bound_ms.map(|bound| DelayTest {
                    bound: seconds(bound / 1e3),
                    over: 2_000,
                });
                config.utilisation = (utilisation * 10.0).round() as u16;
                config.rule = Rule::MeasuredSum { delay };
                config.estimator = Estimator::Window(seconds(window_s));
            }
            Algorithm::Levels {
                trigger_bps,
                raise_bps,
                lower_bps,
                first_s,
                now,
                anti_windup,
            } => {
                config.estimator = Estimator::Levels(Levels {
                    first: seconds(first_s),
                    trigger: bps(trigger_bps),
                    raise: bps(raise_bps),
                    lower: bps(lower_bps),
                    now,
                    anti_windup,
                    ..Levels::paper(capacity)
                });
            }
            Algorithm::Hoeffding { exceed, weight } => {
                let exceed_ppm = (exceed * 1e6).round() as u32;
                config.rule = Rule::Hoeffding { exceed_ppm };
                config.estimator = average(weight);
            }
            Algorithm::Tangent { space, weight } => {
                config.rule = Rule::Tangent { space };
                config.estimator = average(weight);
            }
            // Admission without measurements: the run keeps the sum of the peaks itself.
            Algorithm::PeakSum => {}
        }
        config
    }
}
