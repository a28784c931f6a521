//! Whole ADUs: marshalled, manipulated, filled up to a unit, with the results of the stages behind
//! (specs/ilp-code-generation.md 2.8, 2.9).

use crate::adu::{Adu, Sink, Source};
use crate::error::IlpError;
use crate::pipeline::{Executor, Pipeline};
use crate::stage::{MAX_RESULT, MAX_UNIT, load, store};

/// A value whose ADU came through the checks of all stages. There is no other way to make one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// The value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> std::ops::Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// One direction of a connection: a pipeline, how it is run, and the number of the next ADU.
pub struct Channel<P> {
    pipeline: P,
    executor: Executor,
    next: u64,
    scratch: Vec<u8>,
}

impl<P: Pipeline> Channel<P> {
    /// From ADU 0 on.
    pub fn new(pipeline: P, executor: Executor) -> Channel<P> {
        Channel {
            pipeline,
            executor,
            next: 0,
            scratch: Vec::new(),
        }
    }

    /// Continues with this ADU: where some may be lost, their number travels beside them.
    pub fn seek(&mut self, adu: u64) {
        self.next = adu;
    }

    /// The number of the next ADU.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &P {
        &self.pipeline
    }

    /// The stages start with the next number. An ADU that fails has used its number up, too.
    fn begin(&mut self) {
        self.pipeline.begin(self.next);
        self.next += 1;
    }
}

/// Sends an ADU into `out` and says how many octets it takes.
///
/// # Errors
///
/// A value is longer than its type permits, or there is no room. `out` then has no meaning.
pub fn send_adu<P: Pipeline, T: Adu>(
    channel: &mut Channel<P>,
    adu: &T,
    out: &mut [u8],
) -> Result<usize, IlpError> {
    channel.begin();
    let pipeline = &mut channel.pipeline;
    let trailer = 4 * pipeline.trailer_words();
    let has = out.len();
    let room = has.checked_sub(trailer).ok_or(IlpError::NoRoom { has })?;
    let unit = 4 * pipeline.unit_words();
    let len = match channel.executor {
        Executor::Ilp => {
            let mut sink = Fused::new(pipeline, &mut out[..room]);
            adu.encode(&mut sink)?;
            sink.fill()?
        }
        by_stages => {
            let mut sink = Plain {
                out: &mut out[..room],
                at: 0,
            };
            adu.encode(&mut sink)?;
            while !sink.at.is_multiple_of(unit) {
                sink.word(0)?;
            }
            let len = sink.at;
            by_stages.fwd(pipeline, &mut out[..len]);
            len
        }
    };
    let mut at = len;
    for stage in 0..pipeline.shapes().len() {
        let words = pipeline.shapes()[stage].result_words;
        let result = pipeline.finish(stage);
        store(&result[..words], &mut out[at..at + 4 * words]);
        at += 4 * words;
    }
    Ok(at)
}

/// Receives an ADU. Nothing of it is released before the results of all stages match.
///
/// # Errors
///
/// A result differs, or the octets are no such ADU. A difference is reported first, since it explains the rest.
pub fn recv_adu<P: Pipeline, T: Adu>(
    channel: &mut Channel<P>,
    input: &[u8],
) -> Result<Verified<T>, IlpError> {
    channel.begin();
    let pipeline = &mut channel.pipeline;
    let unit = 4 * pipeline.unit_words();
    let trailer = 4 * pipeline.trailer_words();
    let len = input.len().checked_sub(trailer);
    let len = len.filter(|len| len.is_multiple_of(unit));
    let len = len.ok_or(IlpError::Truncated { at: input.len() })?;
    let (data, results) = input.split_at(len);
    match channel.executor {
        Executor::Ilp => {
            let mut source = Unfused::new(pipeline, data);
            let value = T::decode(&mut source);
            let value = value.and_then(|value| source.end().map(|()| value));
            source.drain();
            matches(pipeline, results)?;
            value.map(Verified)
        }
        by_stages => {
            let plain = &mut channel.scratch;
            plain.clear();
            plain.extend_from_slice(data);
            by_stages.inv(pipeline, plain);
            let value = matches(pipeline, results).and_then(|()| {
                let mut source = Words {
                    data: plain,
                    at: 0,
                    unit,
                    depth: 0,
                };
                let value = T::decode(&mut source)?;
                source.end().map(|()| Verified(value))
            });
            if value.is_err() {
                plain.fill(0);
            }
            value
        }
    }
}

/// Compares the results with the trailer, from the bottom up. How long that takes says nothing about where they differ.
fn matches<P: Pipeline>(pipeline: &mut P, results: &[u8]) -> Result<(), IlpError> {
    let mut end = results.len();
    let stages = pipeline.shapes().len();
    let mut differs = None;
    for stage in (0..stages).rev() {
        let shape = pipeline.shapes()[stage];
        let words = shape.result_words;
        let mut told = [0; MAX_RESULT];
        load(&results[end - 4 * words..end], &mut told[..words]);
        end -= 4 * words;
        let own = pipeline.finish(stage);
        let off = (0..words).fold(0, |off, at| off | (own[at] ^ told[at]));
        if std::hint::black_box(off) != 0 && differs.is_none() {
            let level = stages - stage;
            let stage = shape.name;
            differs = Some(IlpError::Integrity { level, stage });
        }
    }
    differs.map_or(Ok(()), Err)
}

/// Marshals into memory.
struct Plain<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Sink for Plain<'_> {
    #[inline(always)]
    fn word(&mut self, word: u32) -> Result<(), IlpError> {
        let has = self.out.len();
        let place = self.out.get_mut(self.at..self.at + 4);
        let place = place.ok_or(IlpError::NoRoom { has })?;
        place.copy_from_slice(&word.to_be_bytes());
        self.at += 4;
        Ok(())
    }

    fn octets(&mut self, octets: &[u8]) -> Result<(), IlpError> {
        let has = self.out.len();
        let padded = octets.len().next_multiple_of(4);
        let place = self.out.get_mut(self.at..self.at + padded);
        let place = place.ok_or(IlpError::NoRoom { has })?;
        let (own, filling) = place.split_at_mut(octets.len());
        own.copy_from_slice(octets);
        filling.fill(0);
        self.at += padded;
        Ok(())
    }
}

/// The send hook of the stubs: words are gathered to a unit, which goes through all stages in registers.
struct Fused<'a, P> {
    pipeline: &'a mut P,
    unit: [u32; MAX_UNIT],
    counter: usize,
    out: &'a mut [u8],
    at: usize,
}

impl<'a, P: Pipeline> Fused<'a, P> {
    fn new(pipeline: &'a mut P, out: &'a mut [u8]) -> Fused<'a, P> {
        Fused {
            pipeline,
            unit: [0; MAX_UNIT],
            counter: 0,
            out,
            at: 0,
        }
    }

    /// Zeros up to a whole unit, and the octets of all units.
    fn fill(mut self) -> Result<usize, IlpError> {
        while self.counter != 0 {
            self.word(0)?;
        }
        Ok(self.at)
    }
}

impl<P: Pipeline> Sink for Fused<'_, P> {
    #[inline(always)]
    fn word(&mut self, word: u32) -> Result<(), IlpError> {
        let words = self.pipeline.unit_words();
        if self.counter == 0 && self.out.len() - self.at < 4 * words {
            let has = self.out.len();
            return Err(IlpError::NoRoom { has });
        }
        self.unit[self.counter] = word;
        self.counter += 1;
        if self.counter == words {
            self.counter = 0;
            let unit = &mut self.unit[..words];
            self.pipeline.fwd_unit(unit);
            store(unit, &mut self.out[self.at..self.at + 4 * words]);
            self.at += 4 * words;
        }
        Ok(())
    }

    fn octets(&mut self, octets: &[u8]) -> Result<(), IlpError> {
        let unit = 4 * self.pipeline.unit_words();
        let mut rest = octets;
        // Up to a whole unit by words, then from memory to memory.
        while self.counter != 0 && rest.len() >= 4 {
            let (word, after) = rest.split_at(4);
            self.word(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))?;
            rest = after;
        }
        let whole = rest.len() / unit * unit;
        if self.counter == 0 && whole > 0 {
            let has = self.out.len();
            let place = self.out.get_mut(self.at..self.at + whole);
            let place = place.ok_or(IlpError::NoRoom { has })?;
            self.pipeline.fwd_fused(&rest[..whole], place);
            self.at += whole;
            rest = &rest[whole..];
        }
        for part in rest.chunks(4) {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            self.word(u32::from_be_bytes(word))?;
        }
        Ok(())
    }
}

/// What is left of an ADU must be the filling of its last unit.
trait End: Source {
    fn unit(&self) -> usize;

    fn end(&mut self) -> Result<(), IlpError> {
        let (left, before) = self.left();
        let filling = before.next_multiple_of(self.unit()) - before;
        if left != filling {
            return Err(IlpError::TrailingBytes(left.saturating_sub(filling)));
        }
        for _ in 0..left / 4 {
            if self.word()? != 0 {
                return Err(IlpError::BadPadding);
            }
        }
        Ok(())
    }
}

/// Unmarshals from memory.
struct Words<'a> {
    data: &'a [u8],
    at: usize,
    unit: usize,
    depth: u32,
}

impl Source for Words<'_> {
    #[inline(always)]
    fn word(&mut self) -> Result<u32, IlpError> {
        let at = self.at;
        let word = self.data.get(at..at + 4);
        let word = word.ok_or(IlpError::Truncated { at })?;
        self.at += 4;
        Ok(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    }
    fn left(&self) -> (usize, usize) {
        (self.data.len() - self.at, self.at)
    }
    fn depth(&mut self) -> &mut u32 {
        &mut self.depth
    }
}

impl End for Words<'_> {
    fn unit(&self) -> usize {
        self.unit
    }
}

/// The receive hook of the stubs: a unit is read, goes through all stages in registers, and its words are handed out.
struct Unfused<'a, P> {
    pipeline: &'a mut P,
    unit: [u32; MAX_UNIT],
    /// Words of the unit that were handed out; 0 if there is none.
    counter: usize,
    data: &'a [u8],
    /// Octets of the units that were read.
    at: usize,
    depth: u32,
}

impl<'a, P: Pipeline> Unfused<'a, P> {
    fn new(pipeline: &'a mut P, data: &'a [u8]) -> Unfused<'a, P> {
        Unfused {
            pipeline,
            unit: [0; MAX_UNIT],
            counter: 0,
            data,
            at: 0,
            depth: 0,
        }
    }

    /// Takes the units that were not asked for, since the results are over all.
    fn drain(&mut self) {
        self.counter = 0;
        while self.word().is_ok() {
            self.counter = 0;
        }
    }
}

impl<P: Pipeline> Source for Unfused<'_, P> {
    #[inline(always)]
    fn word(&mut self) -> Result<u32, IlpError> {
        let words = self.pipeline.unit_words();
        if self.counter == 0 {
            let octets = self.data.get(self.at..self.at + 4 * words);
            let octets = octets.ok_or(IlpError::Truncated { at: self.at })?;
            let unit = &mut self.unit[..words];
            load(octets, unit);
            self.pipeline.inv_unit(unit);
            self.at += 4 * words;
        }
        let word = self.unit[self.counter];
        self.counter = (self.counter + 1) % words;
        Ok(word)
    }
    fn left(&self) -> (usize, usize) {
        let kept = match self.counter {
            0 => 0,
            counter => self.pipeline.unit_words() - counter,
        };
        let before = self.at - 4 * kept;
        (self.data.len() - before, before)
    }
    fn depth(&mut self) -> &mut u32 {
        &mut self.depth
    }
}

impl<P: Pipeline> End for Unfused<'_, P> {
    fn unit(&self) -> usize {
        4 * self.pipeline.unit_words()
    }
}
