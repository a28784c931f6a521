//! What is simulated.

use layercast_core::{Span, Time};
use layercast_multicast::{Members, Peer, SenderConfig};
use layercast_wire::multicast::MemberId;

use super::cross::CrossSpec;
use super::edge::EdgeSpec;
use super::host::HostSpec;
use super::speaker;
use super::tree::{Branch, NONE, Nodes};

/// A group: one sender, a tree, receivers at its ends.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Of its scenario.
    pub name: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// It ends then at the latest.
    pub until: Time,
    /// Events, after which it stops with what it has.
    pub most_events: u64,
    /// The tree: branches, each after what it hangs on.
    pub branches: Vec<Branch>,
    /// Codes on regions of the tree, that of region 1 first.
    pub edges: Vec<EdgeSpec>,
    /// TCP that shares links with the group.
    pub cross: Vec<CrossSpec>,
    /// The sender's host.
    pub source: HostSpec,
    /// What the sender does.
    pub sender: SenderConfig,
    /// The members that may take part.
    pub invited: Invited,
    /// What is sent.
    pub content: Content,
    /// What happens to receivers, in the order of time.
    pub faults: Vec<Fault>,
    /// Results list every receiver.
    pub per_receiver: bool,
}

/// The members that may take part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invited {
    /// All receivers of the tree, by their names.
    Listed,
    /// Every receiver that answers, until all receivers of the tree have.
    Anyone {
        /// Also while the session runs.
        late: bool,
    },
}

impl Invited {
    /// In the words of the machine.
    pub(super) fn members(self, tree: &Nodes, above: &[u32]) -> Members {
        let receivers = tree.members.len() as u32;
        match self {
            Invited::Listed => {
                // The sender does not know which receivers report to an aggregator.
                let own = (0..).zip(&tree.members);
                let own = own.filter(|&(_, &node)| above[node as usize] == NONE);
                let own = own.map(|(id, _): (u32, _)| (id, Peer(id + 1)));
                let speakers = (speaker::FIRST..).take(tree.aggregators.len());
                let all = own.chain(speakers.map(|number| (number, Peer(number))));
                Members::Listed(
                    all.map(|(id, peer)| (MemberId(id.into()), Some(peer)))
                        .collect(),
                )
            }
            Invited::Anyone { late } => Members::Anyone {
                expect: Some(receivers),
                most: receivers,
                late,
            },
        }
    }
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// An object of this number of octets.
    Object {
        /// Octets.
        octets: u64,
    },
    /// Packets that an application makes.
    Stream {
        /// How many.
        packets: u64,
        /// Octets of each.
        octets: u16,
        /// Time between them.
        interval: Span,
        /// What the process at a receiver needs for each.
        service: Span,
        /// Packets a receiver holds that its process has not taken.
        buffer: u32,
    },
}

/// What happens to receivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When.
    pub at: Time,
    /// The first receiver, from 0.
    pub first: u32,
    /// The receiver after the last.
    pub end: u32,
    /// What.
    pub what: FaultKind,
}

/// What happens to a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// It cannot take data (RMTP BUSY).
    Busy,
    /// It can again (RMTP RRDY).
    Ready,
    /// It dies.
    Kill,
    /// It starts again.
    Restart {
        /// With what it had on its disk.
        resume: bool,
    },
    /// Its process needs another time for each packet of a stream.
    Service(Span),
}
