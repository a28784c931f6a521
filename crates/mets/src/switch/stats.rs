use std::collections::BTreeMap;

use layercast_core::PerLayer;
use layercast_link::{MeasuredStats, PortStats};
use layercast_media::{FilterRule, FlowFilterStats};
use serde::{Deserialize, Serialize};

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

/// Signals that were not served, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RejectedSignals {
    /// Signals from a port that does not exist or is down.
    pub port: u64,
    /// Signals about an unknown flow, branch or member.
    pub unknown: u64,
    /// End-to-end signals for an unknown member, in the name of a member behind another port, or beyond the limit
    /// of members.
    pub member: u64,
    /// Joins without a valid token.
    pub token: u64,
    /// Advertisements of a flow from a second place, or beyond the limit of flows.
    pub advertise: u64,
    /// Answers without a request, or with a circuit that is in use.
    pub answer: u64,
    /// Signals that are not for a switch.
    pub foreign: u64,
    /// Joins for another instance of a flow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub life: u64,
}

/// PDUs that were not served, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RejectedPdus {
    /// PDUs from a port that does not exist.
    pub port: u64,
    /// PDUs of an unknown flow, group or circuit, or from the wrong side.
    pub unknown: u64,
    /// RES or ADAPT that does not decode, and cells where datagrams are expected.
    pub malformed: u64,
    /// ADAPT older than the last one.
    pub stale: u64,
    /// RES from more origins than a branch may have.
    pub origins: u64,
    /// Media of another instance of a flow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub life: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl SwitchStats {
    /// Takes note of what a filter did that is gone, or is asked.
    pub(crate) fn filtered(&mut self, flow: &str, to: &str, stats: FilterStats) {
        self.filters.insert(format!("{flow}/{to}"), stats);
    }
}
