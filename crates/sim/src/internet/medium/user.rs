//! Whose the things are that travel.

use layercast_workload::app;

/// Whose datagram it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Of a flow, by its number.
    Flow(u32),
    /// Of a conversation: its slot, and its number there.
    Conversation(u32, u64),
}

/// The user of one side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum User {
    Nobody,
    Sender(u32),
    Receiver(u32),
    /// The sender of a transfer of a generator, by its number.
    Source(u32),
    /// Its receiver.
    Sink(u32),
    Conversation {
        slot: u32,
        number: u64,
        conn: app::ConnId,
        end: app::End,
    },
}
