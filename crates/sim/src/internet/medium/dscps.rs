//! The classes of the flows that have one: each of their packets carries its DSCP (RFC 2474), whichever way it goes.

use std::collections::BTreeMap;

use super::Medium;
use super::ecmp::Conversation;
use crate::internet::discipline::Dscp;
use crate::internet::network::NodeIndex;

/// The class of each conversation of two nodes that has another one than the default.
pub(crate) type Dscps = BTreeMap<(NodeIndex, NodeIndex, Conversation), Dscp>;

impl Medium<'_> {
    /// Packets of a conversation have this class from now on, in both directions.
    pub(crate) fn classify(
        &mut self,
        conversation: Conversation,
        (src, dst): (NodeIndex, NodeIndex),
        dscp: Dscp,
    ) {
        for (ends, conversation) in [
            ((src, dst), conversation),
            ((dst, src), conversation.back()),
        ] {
            let key = (ends.0, ends.1, conversation);
            // Another one may have had the same ports before.
            match dscp == Dscp::default() {
                true => self.dscps.remove(&key),
                false => self.dscps.insert(key, dscp),
            };
        }
    }

    /// The class of a new packet.
    #[inline]
    pub(crate) fn dscp(
        &self,
        conversation: Conversation,
        (src, dst): (NodeIndex, NodeIndex),
    ) -> Dscp {
        match self.dscps.is_empty() {
            true => Dscp::default(),
            false => *self
                .dscps
                .get(&(src, dst, conversation))
                .unwrap_or(&Dscp::default()),
        }
    }
}
