use layercast_core::Span;
use serde::Serialize;

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// No client has its type, and there is no default.
    NoClient,
    /// Its client gave no buffer for it.
    NoBuffer,
    /// The buffer that its client gave is too small.
    TooSmall,
    /// It has no type, or does not fit the ring.
    BadFrame,
    /// All slots of the ring were full.
    RingOverrun,
    /// Its client is being unregistered.
    Closed,
    /// Its client panicked before.
    Failed,
}

/// Packets that were dropped, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Drops {
    /// No client has the type.
    pub no_client: u64,
    /// The client gave no buffer.
    pub no_buffer: u64,
    /// The buffer was too small.
    pub too_small: u64,
    /// No type, or too long.
    pub bad_frame: u64,
    /// The ring was full.
    pub ring_overrun: u64,
    /// The client was being unregistered.
    pub closed: u64,
    /// The client had panicked.
    pub failed: u64,
}

/// What a client got.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ClientStats {
    /// Packets for it.
    pub received: u64,
    /// Packets that it was called with; for a tap, packets that it saw.
    pub delivered: u64,
    /// Packets for it that were dropped.
    pub drops: Drops,
    /// Packets that the driver copied for it.
    pub copied: u64,
    /// Octets of delivered packets.
    pub octets: u64,
    /// Octets of the buffers that these packets were delivered in.
    pub true_octets: u64,
    /// Packets that were sent for it.
    pub sent: u64,
    /// Priorities of packets that were no number, or whose function panicked.
    pub bad_priorities: u64,
    /// It panicked: it is not called again.
    pub is_failed: bool,
    /// Longest time from a delivery until the buffer was back.
    pub longest_held: Span,
}

/// What a driver did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Stats {
    /// Packets from the wire.
    pub received: u64,
    /// Packets that a client was called with; taps do not count.
    pub delivered: u64,
    /// Packets that were dropped, with and without a client.
    pub drops: Drops,
    /// Calls of taps.
    pub tapped: u64,
    /// Copies of packets.
    pub copied: u64,
    /// Packets that were sent.
    pub sent: u64,
}

impl Drops {
    /// Adds one.
    pub(crate) fn count(&mut self, reason: DropReason) {
        *match reason {
            DropReason::NoClient => &mut self.no_client,
            DropReason::NoBuffer => &mut self.no_buffer,
            DropReason::TooSmall => &mut self.too_small,
            DropReason::BadFrame => &mut self.bad_frame,
            DropReason::RingOverrun => &mut self.ring_overrun,
            DropReason::Closed => &mut self.closed,
            DropReason::Failed => &mut self.failed,
        } += 1;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        let Drops {
            no_client,
            no_buffer,
            too_small,
            bad_frame,
            ring_overrun,
            closed,
            failed,
        } = *self;
        no_client + no_buffer + too_small + bad_frame + ring_overrun + closed + failed
    }
}
