//! `contract` of a flow: what its cells may do on the backbone.

use layercast_atm::{CellContract, Conformance, FramePolicing, Peak, Sustained};
use layercast_core::{Rate, Span, aal5_cells};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{check_rate, check_span};
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::quantity::MOST_QUEUED;
use crate::internet::network::{ContractTerms, Shape};
use crate::scenario::units::Quantity;
use crate::text::{Text, above_zero_to};

/// Bytes of a cell.
const CELL: u64 = 53;

/// Traffic contract of a flow on the backbone (specs/vbr-atm-lan.md 2.2). It applies to all packets from one host
/// to the other and reserves nothing.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContractSpec {
    /// Constant, variable or unspecified bit rate.
    pub kind: ContractKind,
    /// Peak rate, such as "155 Mbit/s" or "3622 cells/s".
    pub peak: Text<Rate>,
    /// Cell delay variation tolerance.
    #[serde(default = "none")]
    pub tolerance: Text<Span>,
    /// Of VBR: the sustainable rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<Text<Rate>>,
    /// Of VBR: cells of the longest burst at the peak rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub burst: Option<u32>,
    /// Of VBR: treatment of cells above the sustainable rate; default: C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conformance: Option<ConformanceName>,
    /// How the adapter spaces cells.
    #[serde(default)]
    pub shape: ShapeName,
    /// Of shape = "softclock": the period of the clock; default: 10 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = above_zero_to(1)))]
    pub tick: Option<Text<Span>>,
    /// Whether the network polices the contract.
    #[serde(default = "yes")]
    pub police: bool,
    /// Of VBR: the unit that is policed.
    #[serde(default)]
    pub frames: FramesName,
    /// Packets that wait in the adapter for shaping.
    #[serde(default = "queue")]
    #[schemars(range(min = 1, max = MOST_QUEUED))]
    pub queue: u32,
}

/// A service category (ATM Forum UNI 3.0).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContractKind {
    /// Constant bit rate: the peak rate.
    Cbr,
    /// Variable bit rate: the peak rate, the sustainable rate and a burst.
    Vbr,
    /// Unspecified bit rate: judged as a constant one.
    Ubr,
}

/// What the sustainable rate says of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum ConformanceName {
    /// Cells above it are discarded, except cells that arrived tagged (CLP = 1).
    A,
    /// Cells above it are tagged and pass.
    B,
    /// Cells above it are discarded.
    C,
}

/// What the sustainable rate judges; of conformance "B" what is said to be discarded is marked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FramesName {
    /// Each cell.
    #[default]
    Cells,
    /// Each cell; after a discarded one the rest of its packet, except its last cell (PPD).
    Partial,
    /// Whole packets at their first cell, as if all were of the largest size.
    Early,
    /// Whole packets by their first cell alone (F-GCRA).
    First,
}

/// How an adapter spaces the cells of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShapeName {
    /// As fast as its link takes them.
    None,
    /// At the peak rate.
    #[default]
    Peak,
    /// At the sustainable rate.
    Sustained,
    /// As soon as each conforms.
    Cells,
    /// Whole packets at the peak rate, as soon as all their cells conform.
    Packets,
    /// The same, but they begin at the ticks of a clock.
    Softclock,
    /// At the peak rate; of packets that do not keep the contract all cells but the last are marked (CLP = 1). Not of
    /// conformance "C".
    Tagged,
}

impl ContractSpec {
    /// What is in a field of a part of the scenario, checked; `mtu` is the largest packet of the backbone.
    pub(super) fn terms(
        &self,
        place: Place,
        field: &str,
        mtu: u32,
    ) -> Result<ContractTerms, ScenarioError> {
        let at = |name: &str| place.field(format_args!("{field}.{name}"));
        let period = |name: &str, rate: Rate| {
            check_rate(&at(name), rate)?;
            Ok(rate.time_for(CELL))
        };
        let peak = Peak {
            period: period("peak", self.peak.0)?,
            tolerance: self.tolerance.0,
        };
        let most = Span::from_secs(60);
        check_span(&at("tolerance"), self.tolerance.0, Span::ZERO, most)?;
        if self.queue == 0 || u64::from(self.queue) > MOST_QUEUED {
            let accepted = format!("1 to {MOST_QUEUED} packets");
            return Err(ScenarioError::value(at("queue"), self.queue, accepted));
        }
        let contract = match self.kind {
            ContractKind::Cbr => CellContract::Cbr(peak),
            ContractKind::Ubr => CellContract::Ubr(peak),
            ContractKind::Vbr => {
                let missing = |name: &str, such: &str| {
                    let problem =
                        Problem::Missing(format!("kind = \"vbr\" needs it, such as {such}"));
                    ScenarioError::new(at(name), problem)
                };
                let such = "sustained = \"10 Mbit/s\"";
                let rate = self.sustained.ok_or_else(|| missing("sustained", such))?.0;
                let burst = self.burst.ok_or_else(|| missing("burst", "burst = 1000"))?;
                if burst == 0 {
                    return Err(ScenarioError::value(at("burst"), burst, "1 cell or more"));
                }
                if rate > self.peak.0 {
                    let accepted = format!("at most the peak rate, {}", self.peak.0.write());
                    return Err(ScenarioError::value(
                        at("sustained"),
                        rate.write(),
                        accepted,
                    ));
                }
                let period = period("sustained", rate)?;
                CellContract::Vbr {
                    peak,
                    sustained: Sustained { period, burst },
                    conformance: match self.conformance {
                        Some(ConformanceName::A) => Conformance::A,
                        Some(ConformanceName::B) => Conformance::B,
                        Some(ConformanceName::C) | None => Conformance::C,
                    },
                }
            }
        };
        if self.kind != ContractKind::Vbr {
            for (name, given) in [
                ("sustained", self.sustained.is_some()),
                ("burst", self.burst.is_some()),
                ("conformance", self.conformance.is_some()),
                ("frames", self.frames != FramesName::Cells),
            ] {
                if given {
                    let problem = Problem::Needless("it is for kind = \"vbr\"".to_owned());
                    return Err(ScenarioError::new(at(name), problem));
                }
            }
        }
        let tick = self.tick.map_or(Span::from_ms(10), |tick| tick.0);
        check_span(&at("tick"), tick, Span::from_us(1), Span::from_secs(1))?;
        if self.tick.is_some() && self.shape != ShapeName::Softclock {
            let problem = Problem::Needless("it is for shape = \"softclock\"".to_owned());
            return Err(ScenarioError::new(at("tick"), problem));
        }
        let marks = match contract {
            CellContract::Vbr { conformance, .. } => conformance != Conformance::C,
            CellContract::Cbr(_) | CellContract::Ubr(_) => false,
        };
        if self.shape == ShapeName::Tagged && !marks {
            let accepted = "for VBR of conformance \"A\" or \"B\": others know no marks";
            return Err(ScenarioError::value(at("shape"), "\"tagged\"", accepted));
        }
        Ok(ContractTerms {
            contract,
            shape: match self.shape {
                ShapeName::None => Shape::None,
                ShapeName::Peak => Shape::Peak,
                ShapeName::Sustained => Shape::Sustained,
                ShapeName::Cells => Shape::Cells,
                ShapeName::Packets => Shape::Packets,
                ShapeName::Softclock => Shape::Softclock(tick),
                ShapeName::Tagged => Shape::Tagged,
            },
            police: self.police,
            frames: match self.frames {
                FramesName::Cells => FramePolicing::Cells,
                FramesName::Partial => FramePolicing::Partial,
                FramesName::Early => FramePolicing::Early {
                    longest: aal5_cells(mtu as usize),
                },
                FramesName::First => FramePolicing::First,
            },
            queue: self.queue,
        })
    }
}

fn none() -> Text<Span> {
    Text(Span::ZERO)
}
fn yes() -> bool {
    true
}
fn queue() -> u32 {
    1_000
}
