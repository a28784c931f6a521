use layercast_wire::Payload;
use layercast_wire::multicast::{Spans, Symbol};

use super::*;

/// State of a stream.
#[derive(Clone, Default, Debug)]
pub(super) struct StreamState {
    /// 1 + the highest number received in order (FRM rseq).
    received: u64,
    /// 1 + the last number delivered to the user (FRM dseq).
    delivered: u64,
    /// Packets from `delivered` on.
    slots: VecDeque<Option<Payload>>,
    /// The last number, once the sender has ended the stream.
    pub end: Option<u64>,
}

impl StreamState {
    /// Whether all of it was received.
    pub fn is_whole(&self) -> bool {
        self.end == Some(self.received)
    }

    /// rseq, dseq, and what is missing below `upto`.
    pub fn levels(&self, upto: u64, in_order: bool) -> State {
        let mut gaps = Spans::new();
        if !in_order {
            let mut from = self.received;
            for number in self.received..upto {
                let place = (number - self.delivered) as usize;
                if self.slots.get(place).is_some_and(Option::is_some) {
                    if from < number && !gaps.push(from, number) {
                        break;
                    }
                    from = number + 1;
                }
                // Everything beyond the slots is one gap.
                if place >= self.slots.len() {
                    break;
                }
            }
            gaps.push(from, upto);
        }
        State::Levels {
            received: self.received,
            delivered: self.delivered,
            gaps,
        }
    }
}

impl<T: Store> Receiver<T> {
    /// Returns the next packet of the stream, if it has arrived.
    pub fn take(&mut self) -> Option<Payload> {
        let stream = self.stream.as_mut()?;
        if stream.delivered == stream.received {
            return None;
        }
        stream.delivered += 1;
        let next = stream.slots.pop_front().flatten();
        debug_assert!(next.is_some(), "packets up to `received` are present");
        next
    }

    /// Number of packets that can be read.
    pub fn readable(&self) -> u64 {
        let stream = self.stream.as_ref();
        stream.map_or(0, |it| it.received - it.delivered)
    }

    pub(super) fn keep_of_stream(&mut self, data: &Data) {
        let in_order = self.session.as_ref().is_some_and(|it| it.terms.in_order);
        let room = u64::from(self.config.buffer);
        let longest = self.packet_size;
        let Some(stream) = &mut self.stream else {
            return;
        };
        let Symbol::Source(number) = data.symbol else {
            self.stats.malformed += 1;
            return;
        };
        if data.payload.len() > usize::from(longest) {
            self.stats.malformed += 1;
        } else if number < stream.received {
            self.stats.duplicates += 1;
        } else if number - stream.delivered >= room || (in_order && number != stream.received) {
            self.stats.overflow += 1;
        } else {
            let place = (number - stream.delivered) as usize;
            if stream.slots.len() <= place {
                stream.slots.resize(place + 1, None);
            }
            if stream.slots[place].is_some() {
                self.stats.duplicates += 1;
                return;
            }
            stream.slots[place] = Some(data.payload.clone());
            let readable = stream.received > stream.delivered;
            let before = stream.received;
            while let Some(Some(_)) = stream
                .slots
                .get((stream.received - stream.delivered) as usize)
            {
                stream.received += 1;
            }
            debug_assert!(
                stream.slots.len() as u64 <= room,
                "the buffer bounds the slots"
            );
            if !readable && stream.received > before {
                self.events.push_back(ReceiverEvent::Readable);
            }
        }
    }
}
