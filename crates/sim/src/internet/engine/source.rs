//! What has timers.

/// What an event source is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// A node has finished with a packet.
    Cpu(u32),
    /// A timer of the TCP of a host.
    Tcp(u32),
    /// A timer of the XTP of a host.
    Xtp(u32),
    /// A flow starts, sends or stops.
    Flow(u32),
    /// A timer of a node of the backbone.
    Atm(u32),
    /// The next cell of a flow with a contract.
    Contract(u32),
    /// A conversation begins.
    Arrivals,
    /// A timer of a conversation.
    Conversation(u32),
    /// A METS node.
    Mets,
    /// A link with a class queue is free.
    Class(u32),
    /// The warm-up is over.
    Warm,
}
