use std::collections::BTreeMap;

use layercast_core::{Cause, Layer, PerLayer};
use layercast_media::{FilterRule, FlowFilterStats};
use serde::{Deserialize, Serialize};

/// What a switch counted since it started.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SwitchStats {
    /// Ports by name.
    pub ports: BTreeMap<String, PortStats>,
    /// Copies of data units made towards ports.
    pub copies: u64,
    /// Data units without a joined member behind this node: from a source before its first receiver, or in
    /// transit when the last one left.
    pub unwanted: u64,
    /// Signals that were refused or made no sense.
    pub rejected_signals: RejectedSignals,
    /// PDUs that were not forwarded, by cause.
    pub rejected_pdus: RejectedPdus,
    /// Frames of a type that is no layer; they are treated as base layer (specs/mets.md 2.12).
    pub unknown_types: u64,
    /// Filters, by `FLOW/NEIGHBOUR`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filters: BTreeMap<String, FilterStats>,
    /// Times the media selector found the start of a frame without the end of the one before.
    pub resyncs: u64,
}

/// What a filter on a branch did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FilterStats {
    /// What it does.
    pub rule: FilterRule,
    /// Frames and bytes.
    #[serde(flatten)]
    pub filter: FlowFilterStats,
    /// Frames dropped because its shaper was full.
    pub dropped: PerLayer<u64>,
    /// Packets or AAL5 frames that could not be put together.
    pub broken: u64,
}

/// What a port counted; a unit is a cell or a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PortStats {
    /// Units that came in.
    pub units_in: u64,
    /// Bytes that came in, headers of the link included.
    pub bytes_in: u64,
    /// Units that left.
    pub units_out: u64,
    /// Bytes that left, headers of the link included.
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
    /// Most cells that ever waited.
    pub max_queue: u32,
    /// Microseconds that all cells together waited: by time it gives the mean length of the queue,
    /// by cells that left the mean wait (Little).
    pub waited_us: u64,
    /// Units marked with congestion experienced.
    pub marked: u64,
}

/// Signals that were not served, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RejectedSignals {
    /// From a port that does not exist, or one that is down.
    pub port: u64,
    /// About a flow, branch or member we do not know.
    pub unknown: u64,
    /// End to end, of or for a member that is not known on that side, or in the name of one that is
    /// known elsewhere; also if there are too many members.
    pub member: u64,
    /// A join without a valid token.
    pub token: u64,
    /// A flow advertised from a second place, or one too many.
    pub advertise: u64,
    /// An unsolicited answer, or one with a circuit that is in use.
    pub answer: u64,
    /// Not for a switch.
    pub foreign: u64,
    /// A join for another life of a flow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub life: u64,
}

/// PDUs that were not served, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RejectedPdus {
    /// From a port that does not exist.
    pub port: u64,
    /// Of a flow, group or circuit we do not know, or from the wrong side.
    pub unknown: u64,
    /// RES or ADAPT that does not decode, or a cell where datagrams belong.
    pub malformed: u64,
    /// ADAPT older than what is known.
    pub stale: u64,
    /// RES from more origins than a branch may have.
    pub origins: u64,
    /// Media of another life of a flow.
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
