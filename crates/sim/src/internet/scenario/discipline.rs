//! The queue disciplines of links, as a scenario has them.

use layercast_core::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::check_span;
use super::error::ScenarioError;
use super::schema::is_false;
use crate::internet::discipline::{CoDelConfig, Discipline, FqCoDelConfig, PieConfig};
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
}

impl DisciplineSpec {
    fn name(&self) -> &'static str {
        match self {
            DisciplineSpec::CoDel(_) => "codel",
            DisciplineSpec::FqCoDel(_) => "fq_codel",
            DisciplineSpec::Pie(_) => "pie",
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
        if self.flows == 0 {
            return Err(ScenarioError::value(at("flows"), 0, "1 to 65535 queues"));
        }
        if let Some(quantum) = self.quantum.filter(|it| !(68..=1_000_000).contains(it)) {
            let accepted = "68 to 1000000 bytes";
            return Err(ScenarioError::value(at("quantum"), quantum, accepted));
        }
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
    }))
}
