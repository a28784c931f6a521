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
    /// A link with a queue discipline is free.
    Port(u32),
    /// Transfers of a generator begin.
    Generator(u32),
    /// The warm-up is over.
    Warm,
}

impl Source {
    /// The kind, as the names of sources begin.
    pub fn kind(self) -> &'static str {
        match self {
            Source::Cpu(_) => "cpu",
            Source::Tcp(_) => "tcp",
            Source::Xtp(_) => "xtp",
            Source::Flow(_) => "flow",
            Source::Atm(_) => "atm",
            Source::Contract(_) => "contract",
            Source::Arrivals => "workload",
            Source::Conversation(_) => "conversation",
            Source::Mets => "mets",
            Source::Class(_) => "class",
            Source::Port(_) => "port",
            Source::Generator(_) => "generate",
            Source::Warm => "warm-up",
        }
    }
}
