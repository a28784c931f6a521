use layercast_core::{CellRate, NodeId, Rate, Span};
use layercast_link::{ConfigError, Discard, LatePromise, QueueConfig};
use layercast_protect::WallClock;
use layercast_qos::{HostCost, Merge};
use layercast_wire::Carriage;
use serde::{Deserialize, Serialize};

use crate::switch::FilterPlace;

/// When a lower level of a branch takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lowering {
    /// At the next base-layer frame that starts a GOP: every change of layers is on a GOP boundary.
    #[default]
    GopStart,
    /// At the next frame (specs/mets.md 2.12).
    NextFrame,
}

/// What a switch needs to know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchConfig {
    /// Name of the node, as refusals and traces tell it.
    pub name: String,
    /// Signs the RES messages it merges.
    pub id: NodeId,
    /// Cycle of the receivers; soft state lives for three of them (specs/mets.md 2.11).
    pub era: Span,
    /// How often merged RES messages go upstream (specs/mets.md 2.11).
    pub res_interval: Span,
    /// How long a reservation stands without an answer from upstream (specs/mets.md 2.10).
    pub tentative: Span,
    /// Seed of its random streams.
    pub seed: u64,
    /// When a lower level takes effect.
    pub lowering: Lowering,
    /// How the demands of several branches become one (specs/mets.md 6.2).
    pub merge: Merge,
    /// Whether base layers are tested against what there is (specs/mets.md 2.10); without, every join is
    /// granted, for experiments with overload.
    pub admission: bool,
    /// Processor time to copy one cell to one port; `None`: not a limit (specs/mets.md 2.10).
    pub cpu_per_cell: Option<Span>,
    /// What the sources of this node cost its processor; `None`: not a limit (specs/mets.md 2.10).
    pub sender: Option<HostCost>,
    /// Whether members need a token of the source to join.
    pub require_tokens: bool,
    /// For tokens that expire.
    pub clock: WallClock,
    /// Whether a receiver that joins between two GOP starts gets the running GOP from its start on (datagrams only).
    pub fast_start: bool,
    /// Filters on branches of flows (specs/mets.md 2.11, 2.13).
    pub filters: Vec<FilterPlace>,
    /// Most flows it remembers.
    pub max_flows: u32,
    /// Most members of its branches, and most members below them, it remembers over all flows.
    pub max_members: u32,
}

/// One link of the switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortConfig {
    /// Name, as in the scenario: that of the neighbour.
    pub name: String,
    /// Line rate; `None`: units leave immediately.
    pub rate: Option<Rate>,
    /// The rate is what the repair of the link estimates of its path, and its pacer keeps to it: the queue of the port does not.
    pub estimated: bool,
    /// Cells, or whole METS packets.
    pub carriage: Carriage,
    /// The queue in front of the line.
    pub queue: QueueConfig,
    /// Fixed delay of the link, as far as it is known: part of the delay of the way (specs/mets.md 2.10).
    pub delay: Span,
    /// What METS flows may use of the line; `None`: all of it (specs/mets.md 2.11).
    pub adapt_capacity: Option<CellRate>,
    /// Whether the adapter divides the line among the flows. If not, each branch has all layers that its receivers want, and the
    /// queue alone decides what is lost; base layers are admitted all the same.
    pub adapts: bool,
    /// Share of the line that base layers may reserve, in permille (specs/mets.md 2.10).
    pub bl_permille: u16,
    /// What the host at the other end can take, if one is there that has limits.
    pub receiver: Option<ReceiverLimits>,
    /// What a full queue does to frames.
    pub discard: Discard,
    /// Admits base layers by their measured rate and keeps this promise; `None`: by what they declare
    /// (specs/admission-control.md). A port without a rate has nothing to measure.
    pub measured: Option<LatePromise>,
}

/// What base layers may ask of a receiving host (specs/mets.md 2.10).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiverLimits {
    /// What it spends on what it receives.
    pub cost: HostCost,
    /// Up to what rate it loses nothing (R_safe); `None`: not a limit.
    pub safe: Option<CellRate>,
}

impl Default for SwitchConfig {
    fn default() -> SwitchConfig {
        SwitchConfig {
            name: "switch".into(),
            id: NodeId(0),
            era: Span::from_secs(1),
            res_interval: Span::from_ms(250),
            tentative: Span::from_secs(5),
            seed: 0,
            lowering: Lowering::GopStart,
            merge: Merge::Join,
            admission: true,
            cpu_per_cell: None,
            sender: None,
            require_tokens: false,
            clock: WallClock::default(),
            fast_start: false,
            filters: Vec::new(),
            max_flows: 1_024,
            max_members: 4_096,
        }
    }
}

impl Default for PortConfig {
    fn default() -> PortConfig {
        PortConfig {
            name: String::new(),
            rate: None,
            estimated: false,
            carriage: Carriage::Datagrams,
            queue: QueueConfig::default(),
            delay: Span::ZERO,
            adapt_capacity: None,
            adapts: true,
            bl_permille: 900,
            receiver: None,
            discard: Discard::default(),
            measured: None,
        }
    }
}

impl PortConfig {
    /// Cells/s of the line; unlimited without a rate.
    pub fn line(&self) -> CellRate {
        self.rate.map_or(CellRate(u32::MAX), Rate::cells)
    }

    /// The rate at which units leave the queue.
    pub fn queue_rate(&self) -> Option<Rate> {
        self.rate.filter(|_| !self.estimated)
    }

    /// Cells/s that METS flows may use.
    pub fn capacity(&self) -> CellRate {
        self.adapt_capacity
            .unwrap_or(CellRate(u32::MAX))
            .min(self.line())
    }

    /// Checks that the thresholds lie within the queue.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.queue.validate(self.queue_rate())?;
        if self.bl_permille > 1_000 {
            return Err(ConfigError {
                field: "bl_permille",
                problem: format!("{} is above 1000", self.bl_permille),
            });
        }
        if self.discard.classes.is_some() && self.measured.is_some() {
            return Err(ConfigError {
                field: "discard",
                problem: "by class removes units that measured admission has counted: admit by declaration"
                    .into(),
            });
        }
        self.measured.as_ref().map_or(Ok(()), LatePromise::validate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_line_and_share_is_the_capacity() {
        let port = PortConfig {
            rate: Some(Rate::from_bps(100_000_000)),
            adapt_capacity: Some(CellRate(3_500)),
            ..PortConfig::default()
        };
        assert_eq!(port.capacity(), CellRate(3_500));
        assert_eq!(PortConfig::default().capacity(), CellRate(u32::MAX));
    }
}
