use layercast_core::{FlowId, Layer, Span, Time};
use layercast_fec::BlockEncoder;

use crate::message::SPREAD;

/// Most blocks that are remembered.
pub const MAX_BLOCKS: usize = 512;

/// Contents of one layer that are repaired together: any of their parities restores any one of them.
#[derive(Debug)]
pub(super) struct Block {
    pub number: u64,
    /// Counter of the first content.
    pub first: u64,
    /// Bit `n` is the content with the counter `first + n`.
    pub mask: u128,
    pub layer: Layer,
    pub flow: FlowId,
    /// The latest nominal departure of its contents.
    pub nominal: Time,
    /// For how long its contents are of use; `None`: the budget of a member.
    pub lasts: Option<Span>,
    pub encoder: BlockEncoder,
    /// Counters of the parities sent.
    pub sent: Vec<u64>,
    /// Parities that wait for the line.
    pub queued: u32,
    /// Octets of a parity on the line, as the rate is charged.
    pub octets: u32,
}

impl Block {
    /// Counters of its contents.
    pub fn contents(&self) -> impl Iterator<Item = u64> + use<> {
        contents(self.first, self.mask)
    }
}

/// The counters that a mask names.
pub(super) fn contents(first: u64, mask: u128) -> impl Iterator<Item = u64> + use<> {
    let bits = (0..SPREAD as u64).filter(move |bit| mask >> bit & 1 == 1);
    bits.map(move |bit| first + bit)
}
