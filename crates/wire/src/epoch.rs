use serde::{Deserialize, Serialize};

use crate::Flags;

/// When a life of a flow began: a source that is started again has the same flow with a later epoch.
///
/// The unit is the microsecond since 1970 (a clock that runs on while the source is down, as RFC 9293, 3.4.1,
/// asks of initial sequence numbers). The epoch is an argument of the source; the simulator has the default, 0.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The four bits of the epoch that each packet of the life carries ([`Flags::life`]).
    ///
    /// They count steps of 65,536 us: lives that begin 66 ms to 983 ms apart always differ. Packets of an older
    /// life have left the network by then, or are recognised by their frame numbers.
    pub const fn mark(self) -> u8 {
        (self.0 >> 16) as u8 & 0x0f
    }

    /// The flags of a packet of this life.
    pub const fn stamp(self, flags: Flags) -> Flags {
        flags.with_life(self.mark())
    }

    /// Whether this is the default epoch, which a signal leaves out.
    pub(crate) fn is_default(&self) -> bool {
        *self == Epoch::default()
    }
}
