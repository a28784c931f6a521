//! Settings of a sender, and why it refuses an SDU.

use layercast_core::Span;

use super::flow::WindowRule;
use crate::config::MAX_PDU;

/// Settings of a sender that its peer does not need to know.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SenderOptions {
    /// Size of the window.
    pub window: WindowRule,
    /// Round trip assumed before the first sample.
    pub initial_rtt: Span,
    /// Whether unanswered requests slow down.
    pub backoff: bool,
    /// Largest PDU that the path carries, bytes.
    pub max_pdu: usize,
}

impl Default for SenderOptions {
    fn default() -> SenderOptions {
        SenderOptions {
            window: WindowRule::default(),
            initial_rtt: Span::from_ms(100),
            backoff: true,
            max_pdu: MAX_PDU,
        }
    }
}

/// Why an SDU is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubmitError {
    /// The window is exhausted; [`SenderEvent::Writable`](crate::SenderEvent::Writable) follows.
    #[error("the window of flow {flow} is exhausted; wait until it is writable")]
    Full {
        /// The flow: that of the SDU, or one that pauses.
        flow: usize,
    },
    /// The SDU exceeds the largest of its flow.
    #[error("the SDU has {bytes} bytes, the flow accepts {most}")]
    TooBig {
        /// Size of the SDU.
        bytes: usize,
        /// Largest SDU of the flow.
        most: usize,
    },
    /// The flow has no such number: it does not exist, or its finite order has no SDU left.
    #[error("the order has no further SDU of flow {flow}")]
    Beyond {
        /// The flow.
        flow: usize,
    },
    /// The flow pauses.
    #[error("flow {flow} pauses; resume it")]
    Paused {
        /// The flow.
        flow: usize,
    },
    /// The connection is not open.
    #[error("the connection is not open")]
    NotOpen,
}
