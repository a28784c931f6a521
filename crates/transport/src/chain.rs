use std::collections::VecDeque;

use bytes::Bytes;
use layercast_wire::Payload;

/// Neighbours of real bytes up to this many become one, so that a stream of single bytes costs no
/// more memory than its bytes.
const MERGE: usize = 2_048;
/// Room for chunks that an empty chain keeps.
const IDLE_CHUNKS: usize = 8;

/// A queue of bytes, real or virtual, addressed by their offset in the stream.
#[derive(Debug)]
pub(crate) struct Chain {
    chunks: VecDeque<(u64, Payload)>,
    start: u64,
    end: u64,
}

impl Chain {
    /// An empty queue whose first byte will be at `start`.
    pub(crate) fn new(start: u64) -> Chain {
        Chain {
            chunks: VecDeque::new(),
            start,
            end: start,
        }
    }

    /// Offset after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, payload: Payload) {
        let len = payload.len();
        if len == 0 {
            return;
        }
        let at = self.end;
        self.end += len as u64;
        let payload = match (self.chunks.back_mut(), payload) {
            (Some((_, Payload::Zeros(last))), Payload::Zeros(more))
                if last.checked_add(more).is_some() =>
            {
                *last += more;
                return;
            }
            (Some((_, Payload::Bytes(last))), Payload::Bytes(more))
                if last.len() + more.len() <= MERGE =>
            {
                *last = Bytes::from([&last[..], &more[..]].concat());
                return;
            }
            (_, payload) => payload,
        };
        self.chunks.push_back((at, payload));
    }

    /// The bytes `from..to`, which must be in the queue; copied only if no chunk has them all.
    pub(crate) fn slice(&self, from: u64, to: u64) -> Payload {
        let place = self.chunks.partition_point(|&(at, _)| at <= from);
        let Some(place) = place.checked_sub(1).filter(|_| from < to) else {
            return Payload::default();
        };
        let (at, chunk) = &self.chunks[place];
        let range = (from - at) as usize..(to - at) as usize;
        if range.end <= chunk.len() {
            return chunk.slice(range);
        }
        let mut bytes = Vec::with_capacity((to - from) as usize);
        for (at, chunk) in self.chunks.range(place..).take_while(|(at, _)| *at < to) {
            let first = from.saturating_sub(*at) as usize;
            chunk.slice(first..(to - at) as usize).append_to(&mut bytes);
        }
        Payload::Bytes(bytes.into())
    }

    /// Drops everything before `at`.
    pub(crate) fn drop_to(&mut self, at: u64) {
        let at = at.clamp(self.start, self.end);
        while let Some((start, chunk)) = self.chunks.front_mut() {
            let end = *start + chunk.len() as u64;
            if end > at {
                if *start < at {
                    chunk.advance((at - *start) as usize);
                    *start = at;
                }
                break;
            }
            self.chunks.pop_front();
        }
        self.start = at;
        self.rest();
    }

    /// Takes up to `max` bytes off the front: as many as lie together.
    pub(crate) fn pop(&mut self, max: usize) -> Option<Payload> {
        let (_, chunk) = self.chunks.front()?;
        if chunk.len() > max {
            let taken = chunk.slice(0..max);
            self.drop_to(self.start + max as u64);
            return Some(taken).filter(|taken| !taken.is_empty());
        }
        let (_, chunk) = self.chunks.pop_front()?;
        self.start += chunk.len() as u64;
        self.rest();
        Some(chunk)
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.drop_to(self.end);
    }

    /// Bytes of memory beside the bytes themselves.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.capacity() * size_of::<(u64, Payload)>()
    }

    fn rest(&mut self) {
        if self.chunks.is_empty() && self.chunks.capacity() > IDLE_CHUNKS {
            self.chunks = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::Stream;

    fn bytes(payload: &Payload) -> Vec<u8> {
        let mut out = Vec::new();
        payload.append_to(&mut out);
        out
    }

    #[test]
    fn behaves_like_a_queue_of_bytes() {
        let mut random = Stream::new(1, "chain");
        let (mut chain, mut model) = (Chain::new(1), VecDeque::<u8>::new());
        for round in 0..3_000 {
            let len = random.below(if round % 50 == 0 { 3_000 } else { 40 }) as usize;
            match random.below(4) {
                0 => {
                    chain.push(Payload::Zeros(len as u32));
                    model.extend(std::iter::repeat_n(0, len));
                }
                1 | 2 => {
                    let more: Vec<u8> = (0..len).map(|at| (at + round) as u8).collect();
                    model.extend(&more);
                    chain.push(Payload::Bytes(more.into()));
                }
                _ => {
                    let max = 2 * len;
                    if let Some(taken) = chain.pop(max) {
                        assert!(taken.len() <= max);
                        let expected: Vec<u8> = model.drain(..taken.len()).collect();
                        assert_eq!(bytes(&taken), expected);
                    } else {
                        assert!(model.is_empty() || max == 0);
                    }
                }
            }
            assert_eq!(chain.len(), model.len());
            let from = random.below(model.len() as u64 + 1);
            let to = from + random.below(model.len() as u64 - from + 1);
            let slice = chain.slice(chain.start + from, chain.start + to);
            let expected: Vec<u8> = model.range(from as usize..to as usize).copied().collect();
            assert_eq!(bytes(&slice), expected);
        }
        chain.clear();
        assert!(chain.is_empty() && chain.memory() <= 8 * 48);
    }

    #[test]
    fn single_bytes_and_zeros_do_not_pile_up() {
        let mut chain = Chain::new(0);
        for _ in 0..10_000 {
            chain.push(Payload::Bytes(Bytes::from_static(b"x")));
        }
        assert_eq!(chain.chunks.len(), 10_000_usize.div_ceil(MERGE));
        for _ in 0..10_000 {
            chain.push(Payload::Zeros(1));
        }
        assert_eq!(chain.chunks.len(), 10_000_usize.div_ceil(MERGE) + 1);
    }
}
