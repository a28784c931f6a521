//! Deterministic studies: a sender, a lossy path and a receiver in virtual time (specs/partial-order-transport.md 4).

mod arrivals;
mod path;
mod run;
mod udp;

use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

pub use arrivals::{Arrivals, Permuted};
pub use run::Run;

use crate::config::{Config, ConfigError, FlowConfig, Policy};
use crate::order::Order;
use crate::sender::{SenderOptions, WindowRule};
use crate::tolerance::Tolerance;

/// A flow of a study: an SDU each period.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Time between two SDUs, milliseconds.
    pub period_ms: f64,
    /// Bytes of an SDU.
    pub bytes: u16,
    /// SDUs in a block of the order.
    pub count: u32,
    /// Fixed delay before each submission: the desynchronisation, milliseconds.
    #[serde(default)]
    pub late_ms: f64,
    /// Tolerated loss.
    pub tolerance: Tolerance,
}

/// The path, the same in both directions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Rate of the link, bit/s.
    pub bps: f64,
    /// Least transit time one way, milliseconds.
    pub delay_ms: f64,
    /// Mean of the exponential jitter, milliseconds; packets keep their sequence.
    pub jitter_ms: f64,
    /// Probability with which each PDU is discarded.
    pub loss: f64,
    /// Whether PDUs from the receiver are discarded too.
    #[serde(default = "yes")]
    pub loss_back: bool,
    /// Whether PDUs travel as AAL5 frames in cells, not as UDP datagrams.
    #[serde(default)]
    pub cells: bool,
}

/// How SDUs are placed in their period.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// At its start.
    #[default]
    Start,
    /// At its end.
    End,
}

/// One run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The flows.
    pub flows: Vec<Source>,
    /// The path.
    pub path: Path,
    /// The policy.
    pub policy: Policy,
    /// How long SDUs are submitted, seconds.
    pub seconds: f64,
    /// Seed of the path.
    pub seed: u64,
    /// Where SDUs are submitted.
    #[serde(default)]
    pub phase: Phase,
    /// Tenths of the request period in the window.
    #[serde(default = "four")]
    pub window_tenths: u32,
    /// A fixed window, SDUs.
    #[serde(default)]
    pub window: Option<u16>,
    /// Extension 1.
    #[serde(default)]
    pub opportunistic: bool,
    /// Extension 3.
    #[serde(default)]
    pub infer: bool,
    /// How long SDUs wait before they declare others lost, milliseconds.
    #[serde(default)]
    pub grace_ms: f64,
    /// Play-out delay, milliseconds.
    #[serde(default)]
    pub playout_ms: Option<f64>,
    /// Whether only the PDUs of the paper are used.
    #[serde(default)]
    pub strict_paper: bool,
    /// In place of the connection an application above UDP: it waits this long for a missing SDU, milliseconds.
    #[serde(default)]
    pub above_udp_ms: Option<f64>,
}

fn yes() -> bool {
    true
}

fn four() -> u32 {
    40
}

/// Longest run, seconds.
const MAX_SECONDS: f64 = 86_400.0;

/// Why a study cannot run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StudyError {
    /// A number out of its bounds.
    #[error("{0}")]
    Bounds(&'static str),
    /// The connection is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Setting {
    /// Runs it.
    pub fn run(&self) -> Result<Run, StudyError> {
        self.check()?;
        match self.above_udp_ms {
            Some(patience) => udp::run(self, ms(patience)),
            None => run::run(self),
        }
    }

    fn check(&self) -> Result<(), StudyError> {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        let path = &self.path;
        let good = if !positive(self.seconds) || self.seconds > MAX_SECONDS {
            Err("seconds are above 0, at most a day")
        } else if !positive(path.bps) {
            Err("the rate of the path is above 0")
        } else if !(0.0..1.0).contains(&path.loss) {
            Err("the loss of the path is from 0 to below 1")
        } else if self
            .flows
            .iter()
            .any(|flow| !(flow.period_ms >= 0.1 && flow.period_ms.is_finite()))
        {
            Err("the period of a flow is 0.1 ms or more")
        } else {
            Ok(())
        };
        good.map_err(StudyError::Bounds)
    }

    fn order(&self) -> Result<Order, StudyError> {
        let counts: Vec<u32> = self.flows.iter().map(|flow| flow.count).collect();
        let order = if counts.iter().all(|&count| count == 0) {
            Order::none(counts.len())
        } else {
            Order::blocks(&counts)
        };
        Ok(order.map_err(ConfigError::from)?)
    }

    fn config(&self) -> Result<Config, StudyError> {
        let flows = self.flows.iter().map(|source| FlowConfig {
            grace: ms(self.grace_ms),
            playout: self.playout_ms.map(ms),
            ..FlowConfig::new(ms(source.period_ms), source.tolerance)
        });
        let mut config = Config::new(1, flows.collect(), self.order()?, self.policy);
        config.opportunistic = self.opportunistic;
        config.infer = self.infer;
        config.strict_paper = self.strict_paper;
        Ok(config)
    }

    /// The back-off is off, as in the paper.
    fn options(&self) -> SenderOptions {
        SenderOptions {
            window: self
                .window
                .map_or(WindowRule::Tenths(self.window_tenths), WindowRule::Fixed),
            backoff: false,
            ..SenderOptions::default()
        }
    }

    /// When an SDU is submitted.
    fn due(&self, flow: usize, number: u64) -> Time {
        let source = &self.flows[flow];
        let place = number + u64::from(self.phase == Phase::End);
        Time::ZERO + ms(source.period_ms).times(place) + ms(source.late_ms)
    }
}

pub(crate) fn ms(value: f64) -> Span {
    Span::from_secs_f64(value / 1e3)
}
