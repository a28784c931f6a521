//! How long a transfer takes in an empty network.

use layercast_core::Span;

use super::Medium;
use super::ecmp::Conversation;
use super::hop::Interface;
use super::packet::TTL;
use crate::internet::network::NodeIndex;

/// Bytes of the timestamps option in every segment.
const TIMESTAMPS: u64 = 12;
/// Bytes of the headers of IP and TCP without options.
const HEADERS: u64 = 40;

/// The segments of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segments {
    /// User bytes of a full one.
    payload: u64,
    /// Bytes of headers and options.
    header: u64,
}

impl Segments {
    /// Between two hosts, of which each has a largest segment and offers timestamps or not.
    pub fn between(a: (u16, bool), b: (u16, bool)) -> Segments {
        let options = if a.1 && b.1 { TIMESTAMPS } else { 0 };
        Segments {
            payload: u64::from(a.0.min(b.0)).saturating_sub(options).max(1),
            header: HEADERS + options,
        }
    }
}

impl Medium<'_> {
    /// From the first bit that is sent to the last that arrives, if the packets of a transfer follow each other without a gap
    /// and find all queues empty. None if cells carry it.
    pub fn ideal(
        &self,
        (src, dst): (NodeIndex, NodeIndex),
        conversation: Conversation,
        bytes: u64,
        segments: Segments,
    ) -> Option<Span> {
        let flow = self.mark(conversation, (src, dst));
        let packets = bytes.div_ceil(segments.payload).max(1);
        let full = segments.payload + segments.header;
        let last = bytes - (packets - 1) * segments.payload + segments.header;
        let mut propagation = Span::ZERO;
        // When the last full packet, and when the last packet has left the link.
        let (mut first, mut slowest) = (Span::ZERO, Span::ZERO);
        let mut end = Span::ZERO;
        let mut at = src;
        for _ in 0..TTL {
            let hop = self.routes.next(at, dst, flow)?;
            let Interface::Pipe(pipe) = hop.interface else {
                return None;
            };
            let pipe = &self.pipes[pipe as usize];
            propagation += pipe.delay();
            if packets > 1 {
                let sending = pipe.rate().time_for(full);
                first += sending;
                slowest = slowest.max(sending);
                end = end.max(first + slowest.times(packets - 2));
            }
            end += pipe.rate().time_for(last);
            at = hop.next;
            if at == dst {
                return Some(propagation + end);
            }
        }
        None
    }
}
