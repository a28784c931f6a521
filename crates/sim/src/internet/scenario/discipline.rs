//! The queue disciplines of links, as a scenario has them.

use layercast_core::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::check_span;
use super::error::ScenarioError;
use super::schema::is_false;
use crate::internet::discipline::{
    Bands, CoDelConfig, Discipline, DrrConfig, DualPi2Config, FqCoDelConfig, PieConfig,
    PriorityConfig, Share,
};
use crate::internet::network::Queue;
use crate::text::{Text, above_zero_to, up_to};

/// Which packet a link sends next, and which ones it drops or marks, in place of FIFO order.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum DisciplineSpec {
    /// Controlled delay (RFC 8289): one queue.
    #[serde(rename = "codel")]
    CoDel(CoDelSpec),
    /// Flow queues with CoDel (RFC 8290): a queue for each flow, which take turns.
    #[serde(rename = "fq_codel")]
    FqCoDel(FqCoDelSpec),
    /// Proportional integral controller enhanced (RFC 8033): random drops at arrival.
    #[serde(rename = "pie")]
    Pie(PieSpec),
    /// Dual-queue coupled AQM (RFC 9332): a queue of its own, with early marks, for packets of L4S.
    #[serde(rename = "dualpi2")]
    DualPi2(DualPi2Spec),
    /// Strict priority of classes.
    #[serde(rename = "priority")]
    Priority(PrioritySpec),
    /// Deficit round robin among flows or hosts (Shreedhar and Varghese 1996).
    #[serde(rename = "drr")]
    Drr(DrrSpec),
}

impl DisciplineSpec {
    fn name(&self) -> &'static str {
        match self {
            DisciplineSpec::CoDel(_) => "codel",
            DisciplineSpec::FqCoDel(_) => "fq_codel",
            DisciplineSpec::Pie(_) => "pie",
            DisciplineSpec::DualPi2(_) => "dualpi2",
            DisciplineSpec::Priority(_) => "priority",
            DisciplineSpec::Drr(_) => "drr",
        }
    }
}

/// Terms of CoDel.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CoDelSpec {
    /// Delay above which a queue is too long if it stays there, from 1us on.
    #[schemars(extend("pattern" = above_zero_to(100)))]
    pub target: Text<Span>,
    /// How long it stays above the target before the first drop: about the longest round trip, from 1us on.
    #[schemars(extend("pattern" = above_zero_to(100)))]
    pub interval: Text<Span>,
    /// ECN-capable packets are marked instead of dropped.
    #[serde(skip_serializing_if = "is_false")]
    pub ecn: bool,
}

impl Default for CoDelSpec {
    fn default() -> CoDelSpec {
        let CoDelConfig {
            target,
            interval,
            ecn,
        } = CoDelConfig::default();
        CoDelSpec {
            target: Text(target),
            interval: Text(interval),
            ecn,
        }
    }
}

/// Terms of FQ-CoDel.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FqCoDelSpec {
    /// Delay above which the queue of a flow is too long if it stays there, from 1us on.
    #[schemars(extend("pattern" = above_zero_to(100)))]
    pub target: Text<Span>,
    /// How long it stays above the target before the first drop: about the longest round trip, from 1us on.
    #[schemars(extend("pattern" = above_zero_to(100)))]
    pub interval: Text<Span>,
    /// ECN-capable packets are marked instead of dropped.
    #[serde(skip_serializing_if = "is_false")]
    pub ecn: bool,
    /// Queues, over which flows are spread by a hash.
    #[schemars(range(min = 1, max = 65_535))]
    pub flows: u16,
    /// Bytes that a queue may send in its turn; default: the MTU of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 1_000_000))]
    pub quantum: Option<u32>,
}

impl Default for FqCoDelSpec {
    fn default() -> FqCoDelSpec {
        let CoDelSpec {
            target,
            interval,
            ecn,
        } = CoDelSpec::default();
        let FqCoDelConfig { flows, quantum, .. } = FqCoDelConfig::default();
        FqCoDelSpec {
            target,
            interval,
            ecn,
            flows,
            quantum,
        }
    }
}

impl FqCoDelSpec {
    fn config(self, at: &dyn Fn(&str) -> String) -> Result<FqCoDelConfig, ScenarioError> {
        let codel = CoDelSpec {
            target: self.target,
            interval: self.interval,
            ecn: self.ecn,
        };
        check_queues(at, self.flows, self.quantum)?;
        Ok(FqCoDelConfig {
            codel: codel.config(at)?,
            flows: self.flows,
            quantum: self.quantum,
        })
    }
}

/// Terms of PIE.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PieSpec {
    /// The delay that it keeps, from 1us on.
    #[schemars(extend("pattern" = above_zero_to(100)))]
    pub target: Text<Span>,
    /// How often the probability of drops is computed, from 100us on.
    #[schemars(extend("pattern" = above_zero_to(100)))]
    pub update: Text<Span>,
    /// For how long a queue that was short may be long.
    #[schemars(extend("pattern" = up_to(100)))]
    pub burst: Text<Span>,
    /// ECN-capable packets are marked instead of dropped while the probability is below 0.1.
    #[serde(skip_serializing_if = "is_false")]
    pub ecn: bool,
}

impl Default for PieSpec {
    fn default() -> PieSpec {
        let PieConfig {
            target,
            update,
            burst,
            ecn,
        } = PieConfig::default();
        PieSpec {
            target: Text(target),
            update: Text(update),
            burst: Text(burst),
            ecn,
        }
    }
}

impl PieSpec {
    fn config(self, at: &dyn Fn(&str) -> String) -> Result<PieConfig, ScenarioError> {
        let [least, most] = TIMES;
        check_span(&at("target"), self.target.0, least, most)?;
        check_span(&at("update"), self.update.0, Span::from_us(100), most)?;
        check_span(&at("burst"), self.burst.0, Span::ZERO, most)?;
        Ok(PieConfig {
            target: self.target.0,
            update: self.update.0,
            burst: self.burst.0,
            ecn: self.ecn,
        })
    }
}

/// Terms of DualPI2.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DualPi2Spec {
    /// The delay that the classic queue keeps, from 100us on.
    #[schemars(extend("pattern" = above_zero_to(100)))]
    pub target: Text<Span>,
    /// The longest round trip expected, from 1ms on: gains follow from it.
    #[schemars(extend("pattern" = above_zero_to(100)))]
    pub rtt_max: Text<Span>,
    /// Delay from which packets of the low-latency queue are marked.
    #[schemars(extend("pattern" = up_to(100)))]
    pub threshold: Text<Span>,
    /// How much longer the delay is where all of them are marked.
    #[schemars(extend("pattern" = up_to(100)))]
    pub range: Text<Span>,
    /// How much more often low-latency packets are marked than classic ones signalled, before the square.
    #[schemars(range(min = 1, max = 10))]
    pub coupling: u8,
    /// Per cent of the link that the classic queue has at least.
    #[schemars(range(min = 1, max = 50))]
    pub classic_share: u8,
}

impl Default for DualPi2Spec {
    fn default() -> DualPi2Spec {
        let config = DualPi2Config::default();
        DualPi2Spec {
            target: Text(config.target),
            rtt_max: Text(config.rtt_max),
            threshold: Text(config.threshold),
            range: Text(config.range),
            coupling: config.coupling,
            classic_share: config.classic_share,
        }
    }
}

impl DualPi2Spec {
    fn config(self, at: &dyn Fn(&str) -> String) -> Result<DualPi2Config, ScenarioError> {
        let [_, most] = TIMES;
        check_span(&at("target"), self.target.0, Span::from_us(100), most)?;
        check_span(&at("rtt_max"), self.rtt_max.0, Span::from_ms(1), most)?;
        check_span(&at("threshold"), self.threshold.0, Span::ZERO, most)?;
        check_span(&at("range"), self.range.0, Span::ZERO, most)?;
        if !(1..=10).contains(&self.coupling) {
            return Err(ScenarioError::value(
                at("coupling"),
                self.coupling,
                "1 to 10",
            ));
        }
        if !(1..=50).contains(&self.classic_share) {
            let accepted = "1 to 50 per cent";
            return Err(ScenarioError::value(
                at("classic_share"),
                self.classic_share,
                accepted,
            ));
        }
        Ok(DualPi2Config {
            target: self.target.0,
            rtt_max: self.rtt_max.0,
            threshold: self.threshold.0,
            range: self.range.0,
            coupling: self.coupling,
            classic_share: self.classic_share,
        })
    }
}

/// Terms of strict priority.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrioritySpec {
    /// Classes of each band, the first band first: flows have their class from `dscp`.
    pub bands: Text<Bands>,
}

impl Default for PrioritySpec {
    fn default() -> PrioritySpec {
        PrioritySpec {
            bands: Text(Bands::default()),
        }
    }
}

/// Terms of deficit round robin.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DrrSpec {
    /// What the link is shared among: "flow", "source" or "destination".
    pub share: ShareName,
    /// Queues, over which flows are spread by a hash; hosts have a queue each.
    #[schemars(range(min = 1, max = 65_535))]
    pub flows: u16,
    /// Bytes that a queue may send in its turn; default: the MTU of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 1_000_000))]
    pub quantum: Option<u32>,
}

/// What packets of one queue have in common.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShareName {
    /// Addresses, protocol and ports.
    #[default]
    Flow,
    /// The host that sends them.
    Source,
    /// The host that receives them.
    Destination,
}

impl Default for DrrSpec {
    fn default() -> DrrSpec {
        let DrrConfig { flows, quantum, .. } = DrrConfig::default();
        DrrSpec {
            share: ShareName::default(),
            flows,
            quantum,
        }
    }
}

impl DrrSpec {
    fn config(self, at: &dyn Fn(&str) -> String) -> Result<DrrConfig, ScenarioError> {
        check_queues(at, self.flows, self.quantum)?;
        Ok(DrrConfig {
            share: match self.share {
                ShareName::Flow => Share::Flow,
                ShareName::Source => Share::Source,
                ShareName::Destination => Share::Destination,
            },
            flows: self.flows,
            quantum: self.quantum,
        })
    }
}

/// Checks the queues of a discipline that has many, and their turns.
fn check_queues(
    at: &dyn Fn(&str) -> String,
    flows: u16,
    quantum: Option<u32>,
) -> Result<(), ScenarioError> {
    if flows == 0 {
        return Err(ScenarioError::value(at("flows"), 0, "1 to 65535 queues"));
    }
    match quantum.filter(|it| !(68..=1_000_000).contains(it)) {
        Some(quantum) => {
            let accepted = "68 to 1000000 bytes";
            Err(ScenarioError::value(at("quantum"), quantum, accepted))
        }
        None => Ok(()),
    }
}

/// The shortest and the longest time of a discipline.
const TIMES: [Span; 2] = [Span::from_us(1), Span::from_secs(100)];

impl CoDelSpec {
    fn config(self, at: &dyn Fn(&str) -> String) -> Result<CoDelConfig, ScenarioError> {
        let [least, most] = TIMES;
        check_span(&at("target"), self.target.0, least, most)?;
        check_span(&at("interval"), self.interval.0, least, most)?;
        Ok(CoDelConfig {
            target: self.target.0,
            interval: self.interval.0,
            ecn: self.ecn,
        })
    }
}

/// The discipline of a direction of a link with this queue, if it has one; `at` gives the paths of its fields.
pub(super) fn discipline(
    spec: Option<DisciplineSpec>,
    at: &dyn Fn(&str) -> String,
    queue: &Queue,
) -> Result<Option<Discipline>, ScenarioError> {
    let Some(spec) = spec else {
        return Ok(None);
    };
    for (name, there) in [("red", queue.red.is_some()), ("mark", queue.mark.is_some())] {
        if there {
            let accepted =
                format!("without {name}, which is for FIFO queues: remove one of the two");
            return Err(ScenarioError::value(
                at("discipline"),
                spec.name(),
                accepted,
            ));
        }
    }
    let at = |name: &str| at(&format!("discipline.{}.{name}", spec.name()));
    Ok(Some(match spec {
        DisciplineSpec::CoDel(spec) => Discipline::CoDel(spec.config(&at)?),
        DisciplineSpec::FqCoDel(spec) => Discipline::FqCoDel(spec.config(&at)?),
        DisciplineSpec::Pie(spec) => Discipline::Pie(spec.config(&at)?),
        DisciplineSpec::DualPi2(spec) => Discipline::DualPi2(spec.config(&at)?),
        DisciplineSpec::Priority(PrioritySpec { bands: Text(bands) }) => {
            Discipline::Priority(PriorityConfig { bands })
        }
        DisciplineSpec::Drr(spec) => Discipline::Drr(spec.config(&at)?),
    }))
}
