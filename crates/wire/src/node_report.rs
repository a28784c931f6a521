use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::signal::{MAX_NAME, SignalError, text};

/// What a node counted since it started, beside what it says of its links, flows and members.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeReport {
    /// Datagrams of its socket.
    pub udp: UdpStats,
    /// Datagrams that do not decode.
    pub malformed: u64,
    /// Its session channels.
    pub channels: ChannelStats,
    /// How late it ran.
    pub timers: TimerReport,
    /// What its switch did, all ports together.
    pub switch: SwitchReport,
}

/// What a node counted of one of its parts since it started, as its summary has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartReport {
    /// What the part is.
    pub kind: PartKind,
    /// Its name.
    pub name: String,
    /// Its counters.
    pub counters: Value,
}

/// A part of a node that has counters of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// The queue of a port, by neighbour.
    Port,
    /// A filter, by `FLOW/NEIGHBOUR`.
    Filter,
    /// A port that admits base layers by measurement, by neighbour.
    Admission,
    /// The source of a flow, by flow.
    Source,
    /// A link with impairments, by neighbour.
    Link,
    /// A link on which lost datagrams are repaired, by neighbour.
    Repair,
    /// One that only newer versions know.
    #[serde(other)]
    Other,
}

impl PartReport {
    pub(crate) fn check(&self) -> Result<(), SignalError> {
        // That of a filter has two names in it.
        text("name", &self.name, 2 * MAX_NAME + 1)
    }
}

/// How late the timers of a node ran.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TimerReport {
    /// Timers that ran.
    pub fired: u64,
    /// Largest lateness in microseconds.
    pub worst_us: u64,
    /// Whole ticks of 1 ms between the deadlines of timers and their execution.
    pub missed_ticks: u64,
}

/// What a switch counted, all ports together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchReport {
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
    /// Starts of a frame without the end of the frame before, at the media selector.
    pub resyncs: u64,
    /// Answers of members that went beyond what the flow offers: what is offered was agreed.
    pub clipped_answers: u64,
    /// Fast starts: receivers that joined between two GOP starts and got the running GOP.
    pub fast_starts: u64,
    /// Receivers that joined between two GOP starts and begin with the next one: the running GOP would reach them too late, or
    /// without layers that they get, or it is too long to keep.
    pub fast_starts_skipped: u64,
    /// Data units sent for fast starts.
    pub fast_start_units: u64,
    /// Bytes of these, link headers included.
    pub fast_start_bytes: u64,
}

/// What a socket moved and lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct UdpStats {
    /// Datagrams received.
    pub received: u64,
    /// Of these, datagrams from an address of no neighbour; dropped unread.
    pub unknown: u64,
    /// Of these, datagrams whose authentication failed; dropped.
    pub forged: u64,
    /// Of these, datagrams received before, or so late that this is not known; dropped.
    pub replayed: u64,
    /// Of these, datagrams dropped because their neighbour had more than its share of the buffers, which it filled faster than
    /// this host processes them; datagrams of others were not.
    pub crowded_out: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the kernel refused to send (unreachable, too large for the link, no buffer).
    pub send_failed: u64,
    /// Datagrams that the kernel dropped before they were read: loss of this host, not of the network.
    pub host_lost: u64,
}

impl UdpStats {
    /// Adds what another socket did.
    pub fn add(&mut self, other: &UdpStats) {
        self.received += other.received;
        self.unknown += other.unknown;
        self.forged += other.forged;
        self.replayed += other.replayed;
        self.crowded_out += other.crowded_out;
        self.sent += other.sent;
        self.send_failed += other.send_failed;
        self.host_lost += other.host_lost;
    }
}

/// What went wrong on the connections of a node.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelStats {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused: no valid hello in time, wrong version, or too many connections.
    pub rejected: u64,
    /// Messages that do not decode.
    pub malformed: u64,
    /// Neighbours disconnected because they did not read.
    pub slow: u64,
}

/// Signals that were not served, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
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
#[serde(default)]
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
