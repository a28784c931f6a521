use std::collections::BTreeMap;

use layercast_core::{Cause, Layer, PerLayer};
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

/// What a port counted; a unit is a cell or a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PortStats {
    /// Units that entered the queue. A unit is a cell or a datagram.
    pub units_in: u64,
    /// Bytes that entered the queue, link headers included.
    pub bytes_in: u64,
    /// Units sent.
    pub units_out: u64,
    /// Bytes sent, link headers included.
    pub bytes_out: u64,
    /// Units dropped because the queue was full.
    pub queue_full: PerLayer<u64>,
    /// Units of frames refused early to protect the base layer.
    pub selective_discard: PerLayer<u64>,
    /// Units of frames that were already damaged.
    pub partial_discard: PerLayer<u64>,
    /// RES and ADAPT queued.
    pub adapter: u64,
    /// RES and ADAPT dropped because the queue was full.
    pub adapter_dropped: u64,
    /// Largest queue, in cells.
    pub max_queue: u32,
    /// Sum of the waiting times of cells in microseconds. Divided by the time it is the mean length of the queue,
    /// by the cells sent the mean wait (Little).
    pub waited_us: u64,
    /// Units marked with congestion experienced.
    pub marked: u64,
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

impl PortStats {
    /// Units dropped, all causes together.
    pub fn dropped(&self) -> PerLayer<u64> {
        let mut sum = PerLayer::default();
        for layer in Layer::ALL {
            sum[layer] = self.queue_full[layer]
                + self.selective_discard[layer]
                + self.partial_discard[layer];
        }
        sum
    }

    pub(crate) fn drop_unit(&mut self, layer: Layer, cause: Cause) {
        let counter = match cause {
            Cause::SelectiveDiscard => &mut self.selective_discard,
            Cause::PartialDiscard => &mut self.partial_discard,
            _ => &mut self.queue_full,
        };
        counter[layer] += 1;
    }
}
