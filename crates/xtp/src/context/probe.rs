//! What a QoS monitor has to know of a context before it sends or takes a packet.

use layercast_core::Serial;
use layercast_wire::XtpPacket;

use super::Context;
use crate::endpoint::status_of;

/// A context before it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub(crate) retransmitted: u64,
    asked: Option<Serial>,
}

/// A context before it takes a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) duplicates: u64,
    /// The packet answers a question that is open.
    pub(crate) is_answer: bool,
    /// The end of what the peer can know of, of a report that is possible.
    pub(crate) reported: Option<u64>,
}

impl Arrival {
    /// Of the packet that opened a context.
    pub(crate) const FIRST: Arrival = Arrival {
        duplicates: 0,
        is_answer: false,
        reported: None,
    };
}

impl Context {
    pub(crate) fn departure(&self) -> Departure {
        Departure {
            retransmitted: self.counts.retransmitted,
            asked: self.requests.back().map(|it| it.sync),
        }
    }

    /// Whether a question was asked since.
    pub(crate) fn asked_since(&self, before: Departure) -> bool {
        let asked = self.requests.back().map(|it| it.sync);
        asked.is_some() && asked != before.asked
    }

    pub(crate) fn arrival(&self, packet: &XtpPacket) -> Arrival {
        // Of many receivers each has a state of its own.
        let status = status_of(&packet.body).filter(|_| self.group().is_none());
        let reported = status.and_then(|(control, spans)| {
            let possible = !self.is_inactive() && self.is_possible(control, spans);
            let answered = self.requests.iter();
            let answered = answered.take_while(|it| !it.sync.is_after(control.echo));
            // Bytes sent after the question are in flight, not missing.
            let asked = answered.last().map(|it| it.sent);
            let last = spans.last().map_or(control.rseq, |&(_, right)| right);
            possible.then(|| asked.unwrap_or(last).max(last))
        });
        Arrival {
            duplicates: self.tally.duplicates,
            is_answer: status
                .is_some_and(|(control, _)| self.requests.iter().any(|it| it.sync == control.echo)),
            reported,
        }
    }
}
