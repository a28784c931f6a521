use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{CellRate, Parameter, Rate};

/// Why a node refuses a flow or a member; says what is missing (specs/mets.md 2.10).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Written")]
pub struct Refusal {
    /// The node that refuses.
    pub node: String,
    /// What it has too little of.
    pub resource: Resource,
    /// How much the request needs, in the unit of the resource.
    pub needed: u64,
    /// How much there is, in the unit of the resource.
    pub available: u64,
    /// Of a link whose base layers are admitted by their measured rate: how it was measured.
    #[serde(default)]
    pub measured: Option<MeasuredLink>,
}

/// A refusal as it is written: with the unit of its amounts, for readers that do not know those of the resources.
#[derive(Serialize)]
struct Written {
    /// The node that refuses.
    node: String,
    /// What it has too little of.
    resource: Resource,
    /// How much the request needs.
    needed: u64,
    /// How much there is.
    available: u64,
    /// The unit of `needed` and `available`; absent where they say nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<Unit>,
    /// Of a link whose base layers are admitted by their measured rate: how it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredLink>,
}

impl From<Refusal> for Written {
    fn from(refusal: Refusal) -> Written {
        let Refusal {
            node,
            resource,
            needed,
            available,
            measured,
        } = refusal;
        Written {
            node,
            resource,
            needed,
            available,
            unit: resource.unit(),
            measured,
        }
    }
}

/// The unit of what a refusal needs and of what there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Unit {
    /// Cells per second, of 48 bytes of payload each.
    #[serde(rename = "cells/s")]
    CellRate,
    /// Bits per second.
    #[serde(rename = "bit/s")]
    Rate,
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Permille of the time of a processor.
    #[serde(rename = "permille")]
    Permille,
    /// Parts in a million million.
    #[serde(rename = "1e-12")]
    Share,
    /// Members of a flow.
    #[serde(rename = "members")]
    Members,
    /// Flows of a node.
    #[serde(rename = "flows")]
    Flows,
}

/// How a link that admits base layers by measurement stands (specs/admission-control.md 2.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MeasuredLink {
    /// The measurement window, milliseconds.
    pub window_ms: u64,
    /// The rate at which the window grows, bit/s.
    pub trigger: Rate,
    /// Base-layer bits that were late in this period, parts in a million.
    pub late_ppm: u32,
    /// Those that are promised at most.
    pub target_ppm: u32,
    /// Whether the link can never carry what was asked for, however little is measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never: bool,
}

impl MeasuredLink {
    /// Whether the promise of this period is kept up to now.
    pub fn is_kept(&self) -> bool {
        self.late_ppm <= self.target_ppm
    }
}

impl fmt::Display for MeasuredLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ppm: u32| f64::from(ppm) / 1e4;
        write!(
            f,
            "measured over {:.1} s, trigger {}; {:.4} % late of {} % promised: {}",
            self.window_ms as f64 / 1e3,
            self.trigger,
            percent(self.late_ppm),
            percent(self.target_ppm),
            if self.is_kept() { "kept" } else { "broken" }
        )?;
        match self.never {
            true => f.write_str("; more than the link can ever carry"),
            false => Ok(()),
        }
    }
}

/// What a join can fail on (specs/mets.md 2.10).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Bandwidth of a link for base layers, cells/s.
    Link,
    /// CPU of a switch, permille of its time.
    SwitchCpu,
    /// CPU of a host, permille of its time.
    HostCpu,
    /// What the receiver takes without loss, cells/s.
    ReceiverRate,
    /// End-to-end delay, microseconds.
    Delay,
    /// Members a flow may have.
    TooManyMembers,
    /// Flows a node may carry.
    TooManyFlows,
    /// There is no such flow.
    UnknownFlow,
    /// The policy of the flow does not allow it.
    Policy,
    /// A valid token of the source for this flow and member.
    Token,
    /// A token that is still valid: this one has expired.
    TokenExpired,
    /// A proof made now: this one is too old or from the future.
    StaleProof,
    /// A name that no other member of the flow has.
    NameInUse,
    /// A flow signed by the requested source: this one is signed by another source, or not signed.
    Identity,
    /// A node further on did not answer; milliseconds waited.
    Timeout,
    /// The flow comes in cells and the link carries datagrams, or the other way round.
    Carriage,
    /// The least throughput that the profile of the member accepts, bit/s (specs/user-to-user-qos.md 2.4).
    WantedThroughput,
    /// The longest delay that it accepts, microseconds.
    WantedDelay,
    /// The most jitter that it accepts, microseconds.
    WantedJitter,
    /// The largest share of lost bits that it accepts, parts per million million.
    WantedErrorRate,
    /// The least throughput that the source offers, bit/s: the profile of the member accepts less.
    OfferedThroughput,
    /// The least throughput that the member and the source accept, bit/s: its line or its host carries less.
    LineThroughput,
    /// A level between the least and the most throughput that both accept, bit/s: what the one above them takes (`needed`), and the
    /// one below (`available`).
    LevelThroughput,
    /// The longest delay that the profile of the member accepts, microseconds: the largest key frame takes longer to it, at the rate
    /// at which the source lets it leave and over the lines.
    PathDelay,
}

impl Resource {
    /// What a member lacks whose profile and the offer of the source have no value of this parameter in common.
    pub fn wanted(parameter: Parameter) -> Resource {
        match parameter {
            Parameter::Throughput => Resource::WantedThroughput,
            Parameter::Delay => Resource::WantedDelay,
            Parameter::Jitter => Resource::WantedJitter,
            Parameter::ErrorRate => Resource::WantedErrorRate,
        }
    }

    /// The unit of its amounts; `None`: there are none.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Resource::Link | Resource::ReceiverRate => Some(Unit::CellRate),
            Resource::SwitchCpu | Resource::HostCpu => Some(Unit::Permille),
            Resource::Delay
            | Resource::WantedDelay
            | Resource::WantedJitter
            | Resource::PathDelay => Some(Unit::Micros),
            Resource::WantedThroughput
            | Resource::OfferedThroughput
            | Resource::LineThroughput
            | Resource::LevelThroughput => Some(Unit::Rate),
            Resource::WantedErrorRate => Some(Unit::Share),
            Resource::TooManyMembers => Some(Unit::Members),
            Resource::TooManyFlows => Some(Unit::Flows),
            Resource::Timeout => Some(Unit::Millis),
            Resource::UnknownFlow
            | Resource::Policy
            | Resource::Token
            | Resource::TokenExpired
            | Resource::StaleProof
            | Resource::NameInUse
            | Resource::Identity
            | Resource::Carriage => None,
        }
    }

    /// Units of the resource in one of the parameter: bit/s, microseconds in a second, parts of a share.
    pub fn scale(parameter: Parameter) -> f64 {
        match parameter {
            Parameter::Throughput => 1.0,
            Parameter::Delay | Parameter::Jitter => 1e6,
            Parameter::ErrorRate => 1e12,
        }
    }

    /// The parameter that the profile of the member and the offer have no value in common of, if that is why it is refused.
    pub fn parameter(self) -> Option<Parameter> {
        match self {
            Resource::WantedThroughput
            | Resource::OfferedThroughput
            | Resource::LineThroughput
            | Resource::LevelThroughput => Some(Parameter::Throughput),
            Resource::WantedDelay | Resource::PathDelay => Some(Parameter::Delay),
            Resource::WantedJitter => Some(Parameter::Jitter),
            Resource::WantedErrorRate => Some(Parameter::ErrorRate),
            _ => None,
        }
    }
}

impl Refusal {
    /// A lack of bandwidth, in both units that users give rates in.
    fn rates(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        let cells = |cells: u64| CellRate(u32::try_from(cells).unwrap_or(u32::MAX));
        let short = self.needed.saturating_sub(self.available);
        write!(
            f,
            "{}: not enough {what}: needs {} ({}), has {} ({}), {} short",
            self.node,
            cells(self.needed).rate(),
            cells(self.needed),
            cells(self.available).rate(),
            cells(self.available),
            cells(short).rate()
        )?;
        match &self.measured {
            Some(measured) => write!(f, "; {measured}"),
            None => Ok(()),
        }
    }
}

impl Refusal {
    /// The parameter with what is wanted and what is offered of it.
    fn contradiction(&self, f: &mut fmt::Formatter<'_>, parameter: Parameter) -> fmt::Result {
        let Refusal {
            node,
            needed,
            available,
            ..
        } = self;
        match parameter {
            Parameter::Throughput => {
                let (needed, available) = (Rate::from_bps(*needed), Rate::from_bps(*available));
                write!(f, "{node}: throughput: ")?;
                match self.resource {
                    Resource::OfferedThroughput => {
                        write!(
                            f,
                            "{available} at most is wanted, {needed} at least is offered"
                        )
                    }
                    Resource::LineThroughput => write!(
                        f,
                        "{needed} at least is needed, the line to {node} or its host carries {available} at most"
                    ),
                    Resource::LevelThroughput => write!(
                        f,
                        "no level of the flow lies between the least and the most that is accepted: the one below takes {available}, \
                         the one above {needed}"
                    ),
                    _ => write!(
                        f,
                        "{needed} at least is wanted, {available} at most is offered"
                    ),
                }
            }
            Parameter::Delay if self.resource == Resource::PathDelay => write!(
                f,
                "{node}: delay: {} ms at most is wanted, the largest key frame takes {} ms to {node}, out of the server and over the lines",
                millis(*needed),
                millis(*available)
            ),
            Parameter::Delay | Parameter::Jitter => write!(
                f,
                "{node}: {}: {} ms at most is wanted, {} ms at best is offered",
                parameter.name(),
                millis(*needed),
                millis(*available)
            ),
            Parameter::ErrorRate => {
                let share = |parts: u64| parts as f64 / Resource::scale(parameter);
                write!(
                    f,
                    "{node}: error rate: {} at most is wanted, {} at best is offered",
                    share(*needed),
                    share(*available)
                )
            }
        }
    }
}

/// Microseconds as milliseconds, to a tenth.
fn millis(us: u64) -> f64 {
    (us as f64 / 100.0).round() / 10.0
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal {
            node,
            needed,
            available,
            ..
        } = self;
        let (what, unit) = match self.resource {
            Resource::Link => return self.rates(f, "bandwidth for the base layer"),
            Resource::SwitchCpu => ("switch CPU", "permille"),
            Resource::HostCpu => ("host CPU", "permille"),
            Resource::ReceiverRate => return self.rates(f, "receiver capacity"),
            Resource::TooManyMembers => ("places for members", "members"),
            Resource::TooManyFlows => ("places for flows", "flows"),
            Resource::Delay => {
                return write!(
                    f,
                    "{node}: the path takes {} ms, but only {} ms are allowed",
                    millis(*needed),
                    millis(*available)
                );
            }
            Resource::UnknownFlow => return write!(f, "{node}: no such flow"),
            Resource::Token => {
                return write!(
                    f,
                    "{node}: the flow takes a valid token, for this flow and member"
                );
            }
            Resource::TokenExpired => {
                return write!(f, "{node}: the token for the flow has expired");
            }
            Resource::StaleProof => {
                return write!(
                    f,
                    "{node}: the proof of the token was not made now: set the clocks of this host and of {node}"
                );
            }
            Resource::NameInUse => {
                return write!(
                    f,
                    "{node}: another member of the flow has this name: join under another name"
                );
            }
            Resource::Identity => {
                return write!(f, "{node}: the flow is not signed by the source asked for");
            }
            Resource::Policy => return write!(f, "{node}: the policy of the flow forbids it"),
            Resource::Timeout => return write!(f, "{node}: no answer within {needed} ms"),
            Resource::Carriage => {
                return write!(f, "{node}: cells and datagrams cannot be mixed in one flow");
            }
            Resource::WantedThroughput
            | Resource::OfferedThroughput
            | Resource::LineThroughput
            | Resource::LevelThroughput => {
                return self.contradiction(f, Parameter::Throughput);
            }
            Resource::WantedDelay | Resource::PathDelay => {
                return self.contradiction(f, Parameter::Delay);
            }
            Resource::WantedJitter => return self.contradiction(f, Parameter::Jitter),
            Resource::WantedErrorRate => return self.contradiction(f, Parameter::ErrorRate),
        };
        let short = needed.saturating_sub(*available);
        write!(
            f,
            "{node}: not enough {what}: needs {needed} {unit}, has {available}, {short} short"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_written_with_the_unit_of_its_amounts_and_read_without() {
        for (resource, unit) in [
            (Resource::Link, Some("cells/s")),
            (Resource::HostCpu, Some("permille")),
            (Resource::PathDelay, Some("us")),
            (Resource::LineThroughput, Some("bit/s")),
            (Resource::WantedErrorRate, Some("1e-12")),
            (Resource::Timeout, Some("ms")),
            (Resource::TooManyMembers, Some("members")),
            (Resource::Token, None),
        ] {
            let refusal = Refusal {
                node: "chuff".into(),
                resource,
                needed: 480,
                available: 400,
                measured: None,
            };
            let written = serde_json::to_value(&refusal).unwrap();
            assert_eq!(written.get("unit").and_then(|it| it.as_str()), unit);
            assert_eq!(written.get("measured"), None);
            assert_eq!(serde_json::from_value::<Refusal>(written).unwrap(), refusal);
        }
        // What a parameter is multiplied by to be in the unit of its resource.
        for parameter in Parameter::ALL {
            let scale = match Resource::wanted(parameter).unit() {
                Some(Unit::Rate) => 1.0,
                Some(Unit::Micros) => 1e6,
                Some(Unit::Share) => 1e12,
                other => panic!("{other:?}"),
            };
            assert_eq!(Resource::scale(parameter), scale);
        }
    }
}
