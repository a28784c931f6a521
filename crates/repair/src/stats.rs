use layercast_core::{Layer, PerLayer};
use serde::{Deserialize, Serialize};

/// Counters of the sending end for one layer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LayerRepairs {
    /// Datagrams sent for the first time.
    pub sent: u64,
    /// Octets of these.
    pub octets: u64,
    /// Datagrams that the feedback shows as lost, repairs included.
    pub lost: u64,
    /// Repairs sent.
    pub repairs: u64,
    /// Octets of the repairs.
    pub repair_octets: u64,
    /// Of the repairs, parities.
    pub parities: u64,
    /// Of the parities, those that were sent before a loss was known.
    pub ahead: u64,
    /// Losses that the parities do not cover, where nothing is sent again (`--repair fec`).
    pub uncovered: u64,
    /// Losses that were not repaired because a repair would arrive after the deadline of the frame.
    pub too_late: u64,
    /// Losses that were not repaired because the rate for repairs was used up.
    pub over_grant: u64,
    /// Datagrams of enhancement layers, and repairs, that were discarded in the queue of the pacer: they would
    /// have been late, or the queue was full.
    pub unsent: u64,
}

impl LayerRepairs {
    fn add(&mut self, other: &LayerRepairs) {
        self.sent += other.sent;
        self.octets += other.octets;
        self.lost += other.lost;
        self.repairs += other.repairs;
        self.repair_octets += other.repair_octets;
        self.parities += other.parities;
        self.ahead += other.ahead;
        self.uncovered += other.uncovered;
        self.too_late += other.too_late;
        self.over_grant += other.over_grant;
        self.unsent += other.unsent;
    }
}

/// Counters of the sending end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RepairStats {
    /// By layer.
    pub layers: PerLayer<LayerRepairs>,
    /// Feedback messages that were used.
    pub feedback: u64,
    /// Feedback messages that were ignored: older than another one, too frequent, or about counters that were
    /// never sent.
    pub feedback_ignored: u64,
    /// Markers sent.
    pub markers: u64,
    /// Losses of which the content was no longer in the history.
    pub forgotten: u64,
    /// Datagrams that were forgotten before feedback said whether they arrived.
    pub unresolved: u64,
    /// Round trip of the link in microseconds, smoothed; 0 before the first feedback. On a link to a group the longest.
    pub rtt_us: u64,
    /// Rounds of repairs to a group; there, repairs are parities, and each member's loss counts.
    pub rounds: u64,
    /// Losses that are not repaired because all members that report them lose too much.
    pub unheeded: u64,
    /// Members of a group whose feedback is used.
    pub members: u64,
    /// Members that lose too much now: their losses are not repaired.
    pub left: u64,
}

impl RepairStats {
    /// Adds the counters of a former connection of the same link; the round trip stays.
    pub fn add(&mut self, other: &RepairStats) {
        self.layers.base.add(&other.layers.base);
        self.layers.e1.add(&other.layers.e1);
        self.layers.e2.add(&other.layers.e2);
        self.feedback += other.feedback;
        self.feedback_ignored += other.feedback_ignored;
        self.markers += other.markers;
        self.forgotten += other.forgotten;
        self.unresolved += other.unresolved;
        self.rounds += other.rounds;
        self.unheeded += other.unheeded;
    }
}

/// Counters of the receiving end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RequestStats {
    /// Numbered datagrams received, repairs included.
    pub received: u64,
    /// Datagrams found missing: gaps in the counters.
    pub gaps: u64,
    /// Datagrams reported missing after the reorder window; each counts once.
    pub requested: u64,
    /// Repairs delivered, by layer: each is a datagram that arrived in spite of its loss.
    pub repaired: PerLayer<u64>,
    /// Repairs of content that had arrived, or content that arrived after its repair; dropped.
    pub spurious: u64,
    /// Datagrams given up: neither they nor a repair arrived within the time for which the sender keeps them. A
    /// lost repair is one of these, though another repair of the same content may have arrived.
    pub given_up: u64,
    /// Datagrams that arrived twice from the network, or so late that this is not known; dropped.
    pub duplicates: u64,
    /// Datagrams of another session, or far from all other counters; dropped.
    pub strays: u64,
    /// Feedback messages sent.
    pub feedback: u64,
    /// The reorder window in microseconds.
    pub window_us: u64,
    /// Parities received, by layer.
    pub parities: PerLayer<u64>,
    /// Of these, parities in vain, by layer: nothing was missing, or not enough parities came to restore it.
    pub surplus: PerLayer<u64>,
    /// Requests that a member did not send because repairs for others filled the gap before.
    pub suppressed: u64,
    /// Requests that waited because the members of a group share a rate for them.
    pub put_off: u64,
}

impl RequestStats {
    /// Counts parities of these layers that were in vain.
    pub(crate) fn in_vain(&mut self, layers: impl IntoIterator<Item = Layer>) {
        for layer in layers {
            self.surplus[layer] += 1;
        }
    }

    /// Adds the counters of a former connection of the same link; the reorder window stays.
    pub fn add(&mut self, other: &RequestStats) {
        self.received += other.received;
        self.gaps += other.gaps;
        self.requested += other.requested;
        self.repaired += other.repaired;
        self.parities += other.parities;
        self.surplus += other.surplus;
        self.spurious += other.spurious;
        self.given_up += other.given_up;
        self.duplicates += other.duplicates;
        self.strays += other.strays;
        self.feedback += other.feedback;
        self.suppressed += other.suppressed;
        self.put_off += other.put_off;
    }
}
