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
pub struct Chain {
    /// The first chunk, which lies at `start`; most streams of a simulator have no other.
    first: Payload,
    /// The others, with their offsets; none if the first is empty.
    #[allow(clippy::box_collection)]
    rest: Option<Box<VecDeque<(u64, Payload)>>>,
    start: u64,
    end: u64,
}

impl Chain {
    /// An empty queue whose first byte will be at `start`.
    pub fn new(start: u64) -> Chain {
        Chain {
            first: Payload::default(),
            rest: None,
            start,
            end: start,
        }
    }

    /// Offset after the last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes in the queue.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, payload: Payload) {
        let at = self.end;
        self.end += payload.len() as u64;
        if at == self.start {
            debug_assert!(self.rest.as_ref().is_none_or(|rest| rest.is_empty()));
            self.first = payload;
        } else if at != self.end {
            self.push_behind(at, payload);
        }
    }

    fn push_behind(&mut self, at: u64, payload: Payload) {
        let back = self.rest.as_mut().and_then(|rest| rest.back_mut());
        let last = back.map_or(&mut self.first, |(_, last)| last);
        match (last, payload) {
            (Payload::Zeros(last), Payload::Zeros(more)) if last.checked_add(more).is_some() => {
                *last += more;
            }
            (Payload::Bytes(last), Payload::Bytes(more)) if last.len() + more.len() <= MERGE => {
                *last = Bytes::from([&last[..], &more[..]].concat());
            }
            (_, payload) => self.rest.get_or_insert_default().push_back((at, payload)),
        }
    }

    /// The bytes `from..to`, which must be in the queue; copied only if no chunk has them all.
    #[inline]
    pub fn slice(&self, from: u64, to: u64) -> Payload {
        if from >= to {
            return Payload::default();
        }
        debug_assert!(
            self.start <= from && to <= self.end,
            "{from}..{to} is not in the queue"
        );
        let range = (from - self.start) as usize..(to - self.start) as usize;
        match range.end <= self.first.len() {
            true => self.first.slice(range),
            false => self.slice_of_all(from, to),
        }
    }

    fn slice_of_all(&self, from: u64, to: u64) -> Payload {
        const NONE: &VecDeque<(u64, Payload)> = &VecDeque::new();
        let rest = self.rest.as_deref().unwrap_or(NONE);
        let after = rest.partition_point(|&(at, _)| at <= from);
        let (at, chunk) = match after.checked_sub(1) {
            Some(place) => (rest[place].0, &rest[place].1),
            None => (self.start, &self.first),
        };
        let range = (from - at) as usize..(to - at) as usize;
        if range.end <= chunk.len() {
            return chunk.slice(range);
        }
        let mut bytes = Vec::with_capacity((to - from) as usize);
        chunk.slice(range.start..chunk.len()).append_to(&mut bytes);
        for (at, chunk) in rest.range(after..).take_while(|(at, _)| *at < to) {
            chunk.slice(0..(to - at) as usize).append_to(&mut bytes);
        }
        Payload::Bytes(bytes.into())
    }

    /// Drops everything before `at`.
    #[inline]
    pub fn drop_to(&mut self, at: u64) {
        match &mut self.first {
            Payload::Zeros(len) if at >= self.start && at - self.start < u64::from(*len) => {
                *len -= (at - self.start) as u32;
                self.start = at;
            }
            _ => self.drop_chunks_to(at),
        }
    }

    fn drop_chunks_to(&mut self, at: u64) {
        let at = at.clamp(self.start, self.end);
        loop {
            let len = self.first.len() as u64;
            if self.start + len > at {
                self.first.advance((at - self.start) as usize);
                break;
            }
            self.drop_first();
            if self.is_empty() || self.start == at {
                break;
            }
        }
        self.start = at;
        debug_assert!(
            self.first.len() <= self.len(),
            "the first chunk is part of the queue"
        );
    }

    /// Takes up to `max` bytes off the front: as many as lie together.
    pub fn pop(&mut self, max: usize) -> Option<Payload> {
        if self.is_empty() {
            return None;
        }
        if self.first.len() > max {
            let taken = self.first.slice(0..max);
            self.drop_to(self.start + max as u64);
            return Some(taken).filter(|taken| !taken.is_empty());
        }
        Some(self.drop_first())
    }

    /// The first chunk gives way to the next.
    #[inline]
    fn drop_first(&mut self) -> Payload {
        let first = std::mem::take(&mut self.first);
        self.start += first.len() as u64;
        if self.rest.is_some() {
            self.next_is_first();
        }
        first
    }

    fn next_is_first(&mut self) {
        let Some(rest) = &mut self.rest else {
            return;
        };
        if let Some((_, next)) = rest.pop_front() {
            self.first = next;
        }
        if rest.is_empty() && rest.capacity() > IDLE_CHUNKS {
            self.rest = None;
        }
    }

    /// Drops everything.
    #[inline]
    pub fn clear(&mut self) {
        match self.rest.is_none() {
            true => {
                self.first = Payload::default();
                self.start = self.end;
            }
            false => self.drop_to(self.end),
        }
    }

    /// Bytes of memory beside the bytes themselves.
    pub fn memory(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.capacity());
        rest * size_of::<(u64, Payload)>()
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
        let chunks = |chain: &Chain| 1 + chain.rest.as_ref().map_or(0, |rest| rest.len());
        assert_eq!(chunks(&chain), 10_000_usize.div_ceil(MERGE));
        for _ in 0..10_000 {
            chain.push(Payload::Zeros(1));
        }
        assert_eq!(chunks(&chain), 10_000_usize.div_ceil(MERGE) + 1);
    }
}
