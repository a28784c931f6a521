use std::collections::BTreeMap;

use layercast_core::PerLayer;
use layercast_link::{MeasuredStats, PortStats};
use layercast_media::{FilterRule, FlowFilterStats};
use layercast_wire::{RejectedPdus, RejectedSignals, SwitchReport};
use serde::{Deserialize, Serialize};

/// Filters whose counters are kept, those of neighbours that left included.
const MAX_FILTERS: usize = 1_024;

/// What a switch counted since it started.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SwitchStats {
    /// Ports, by name.
    pub ports: BTreeMap<String, PortStats>,
    /// Copies of data units towards ports.
    pub copies: u64,
    /// Data units without a member behind this node: sent before the first receiver joined, or in flight when the
    /// last one left.
    pub unwanted: u64,
    /// Signals refused, by cause.
    pub rejected_signals: RejectedSignals,
    /// PDUs not forwarded, by cause.
    pub rejected_pdus: RejectedPdus,
    /// Frames of an unknown type, which are treated as base layer.
    pub unknown_types: u64,
    /// Filters, by `FLOW/NEIGHBOUR`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filters: BTreeMap<String, FilterStats>,
    /// Ports that admit base layers by measurement, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub admission: BTreeMap<String, MeasuredStats>,
    /// Starts of a frame without the end of the frame before, at the media selector.
    pub resyncs: u64,
    /// Answers of members that went beyond what the flow offers: what is offered was agreed.
    #[serde(default)]
    pub clipped_answers: u64,
    /// Fast starts: receivers that joined between two GOP starts and got the running GOP.
    #[serde(default)]
    pub fast_starts: u64,
    /// Receivers that joined between two GOP starts and begin with the next one: the running GOP would reach them too late, or
    /// without layers that they get, or it is too long to keep.
    #[serde(default)]
    pub fast_starts_skipped: u64,
    /// Data units sent for fast starts.
    #[serde(default)]
    pub fast_start_units: u64,
    /// Bytes of these, link headers included.
    #[serde(default)]
    pub fast_start_bytes: u64,
}

/// What a filter on a branch did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FilterStats {
    /// The filter.
    pub rule: FilterRule,
    /// Frames and bytes.
    #[serde(flatten)]
    pub filter: FlowFilterStats,
    /// Frames dropped because the shaper of the filter was full.
    pub dropped: PerLayer<u64>,
    /// Packets or AAL5 frames that could not be reassembled.
    pub broken: u64,
}

impl FilterStats {
    /// The sums of both, and the later rule.
    fn followed_by(self, later: FilterStats) -> FilterStats {
        let (a, b) = (self.filter, later.filter);
        FilterStats {
            rule: later.rule,
            filter: FlowFilterStats {
                frames: a.frames + b.frames,
                bytes_in: a.bytes_in + b.bytes_in,
                bytes_out: a.bytes_out + b.bytes_out,
                passed: a.passed + b.passed,
                over_budget: a.over_budget + b.over_budget,
            },
            dropped: PerLayer {
                base: self.dropped.base + later.dropped.base,
                e1: self.dropped.e1 + later.dropped.e1,
                e2: self.dropped.e2 + later.dropped.e2,
            },
            broken: self.broken + later.broken,
        }
    }
}

impl SwitchStats {
    /// What it counted, without what is counted for each port, filter and measured link.
    pub fn report(&self) -> SwitchReport {
        SwitchReport {
            copies: self.copies,
            unwanted: self.unwanted,
            rejected_signals: self.rejected_signals,
            rejected_pdus: self.rejected_pdus,
            unknown_types: self.unknown_types,
            resyncs: self.resyncs,
            clipped_answers: self.clipped_answers,
            fast_starts: self.fast_starts,
            fast_starts_skipped: self.fast_starts_skipped,
            fast_start_units: self.fast_start_units,
            fast_start_bytes: self.fast_start_bytes,
        }
    }

    /// Adds what a filter did to what those before it on the same branch did: counters do not fall.
    pub(crate) fn filtered(&mut self, flow: &str, to: &str, stats: FilterStats) {
        let name = format!("{flow}/{to}");
        if let Some(before) = self.filters.get_mut(&name) {
            *before = before.followed_by(stats);
        } else if self.filters.len() < MAX_FILTERS {
            self.filters.insert(name, stats);
        }
    }
}
