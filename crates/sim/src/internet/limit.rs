//! How much may wait.

/// A bound of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// None.
    Unlimited,
    /// This number of packets.
    Packets(u32),
    /// This number of bytes.
    Bytes(u64),
}
