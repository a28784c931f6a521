use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{FlowId, Layer, Serial, Span, Time};
use layercast_fec::{BlockEncoder, Code, Scheme};

use crate::message::{PARITY_HEAD, Parity, SHARED_HEAD, SPREAD};
use crate::repairer::Unit;

/// Most blocks that are remembered.
pub const MAX_BLOCKS: usize = 512;
/// Most contents of a block.
pub const MAX_CONTENTS: usize = 64;
/// Most parities of a block: their number has 8 bits.
const MAX_PARITIES: u32 = 255;
/// Octets that a parity is longer than the longest of its contents, at most.
const PARITY_EXTRA: u32 = (PARITY_HEAD - SHARED_HEAD) as u32 + 3;

/// Contents of one layer that are repaired together: any of their parities restores any one of them.
///
/// `S` is what else the sending end knows of it.
#[derive(Debug)]
pub(crate) struct Block<S = ()> {
    pub number: u64,
    /// Counter of the first content.
    pub first: u64,
    /// Bit `n` is the content with the counter `first + n`.
    pub mask: u128,
    pub layer: Layer,
    pub flow: FlowId,
    /// The latest nominal departure of its contents.
    pub nominal: Time,
    /// For how long its contents are of use; `None`: the budget of a receiving end.
    pub lasts: Option<Span>,
    encoder: BlockEncoder,
    /// Counters of the parities sent.
    pub sent: Vec<u64>,
    /// Parities that wait for the line.
    pub queued: u32,
    /// Octets of a parity on the line, as the rate is charged.
    pub octets: u32,
    pub state: S,
}

impl<S> Block<S> {
    /// Counters of its contents.
    pub fn contents(&self) -> impl Iterator<Item = u64> + use<S> {
        contents(self.first, self.mask)
    }

    /// Parities that it can still have.
    pub fn room(&self) -> u32 {
        MAX_PARITIES.saturating_sub(self.queued + self.sent.len() as u32)
    }

    /// What one of its parities is to the pacer.
    pub fn unit(&self) -> Unit {
        Unit {
            flow: self.flow,
            layer: self.layer,
            stamp_us: None,
            octets: self.octets,
            last: false,
            repair: false,
            lasts: self.lasts,
        }
    }
}

/// Octets on the line of a parity of contents of up to `octets` octets.
pub(crate) fn parity_octets(octets: u32) -> u32 {
    octets.saturating_add(PARITY_EXTRA)
}

/// The counters that a mask names.
pub(crate) fn contents(first: u64, mask: u128) -> impl Iterator<Item = u64> + use<> {
    let bits = (0..SPREAD as u64).filter(move |bit| mask >> bit & 1 == 1);
    bits.map(move |bit| first + bit)
}

/// Contents of a layer, in the order of their counters, that become a block.
#[derive(Debug)]
pub(crate) struct Gathered {
    first: u64,
    mask: u128,
    of: Unit,
    octets: u32,
    nominal: Time,
    payloads: Vec<Bytes>,
}

impl Gathered {
    /// Begins with the content of this counter.
    pub fn new(counter: u64, of: Unit, nominal: Time, payload: Bytes) -> Gathered {
        Gathered {
            first: counter,
            mask: 1,
            of,
            octets: of.octets,
            nominal,
            payloads: vec![payload],
        }
    }

    /// Adds a content with a later counter; gives it back if it fits no more.
    pub fn add(
        &mut self,
        counter: u64,
        of: Unit,
        nominal: Time,
        payload: Bytes,
    ) -> Result<(), Bytes> {
        let bit = counter - self.first;
        if bit >= SPREAD as u64 || self.payloads.len() >= MAX_CONTENTS {
            return Err(payload);
        }
        self.mask |= 1 << bit;
        self.octets = self.octets.max(of.octets);
        self.nominal = self.nominal.max(nominal);
        self.of = of;
        self.payloads.push(payload);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.payloads.len()
    }

    pub fn layer(&self) -> Layer {
        self.of.layer
    }

    /// Octets of a parity of it on the line, as the rate is charged.
    pub fn parity_octets(&self) -> u32 {
        parity_octets(self.octets)
    }

    /// Whether a content with this nominal departure is of the same frame as its last one.
    pub fn is_of(&self, unit: &Unit, nominal: Time) -> bool {
        let of = (self.of.layer, self.of.flow, self.nominal);
        of == (unit.layer, unit.flow, nominal)
    }

    pub fn contents(&self) -> impl Iterator<Item = u64> + use<> {
        contents(self.first, self.mask)
    }
}

/// The blocks of a sending end, oldest first, at most [`MAX_BLOCKS`].
#[derive(Debug)]
pub(crate) struct Blocks<S = ()> {
    list: VecDeque<Block<S>>,
    next: u64,
    code: Box<dyn Code>,
    /// Parities sent.
    parities: u64,
}

impl<S: Default> Blocks<S> {
    pub fn new() -> Blocks<S> {
        Blocks {
            list: VecDeque::new(),
            next: 0,
            code: Scheme::ReedSolomon.code(),
            parities: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Parities sent, modulo 2^8.
    pub fn parities(&self) -> u8 {
        self.parities as u8
    }

    /// Makes a block; gives its number. `None`: a content is too long for a parity.
    pub fn form(&mut self, gathered: Gathered) -> Option<u64> {
        let octets = gathered.parity_octets();
        let encoder = BlockEncoder::new(gathered.payloads).ok()?;
        let number = self.next;
        self.list.push_back(Block {
            number,
            first: gathered.first,
            mask: gathered.mask,
            layer: gathered.of.layer,
            flow: gathered.of.flow,
            nominal: gathered.nominal,
            lasts: gathered.of.lasts,
            encoder,
            sent: Vec::new(),
            queued: 0,
            octets,
            state: S::default(),
        });
        self.next += 1;
        if self.list.len() > MAX_BLOCKS {
            self.list.pop_front();
        }
        Some(number)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Block<S>> {
        self.list.iter()
    }

    pub fn get(&self, number: u64) -> Option<&Block<S>> {
        let first = self.list.front()?.number;
        self.list
            .get(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Block<S>> {
        let first = self.list.front()?.number;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        self.list.get_mut(place)
    }

    /// Forgets the oldest block if it `is_over`, and gives it.
    pub fn pop_if(&mut self, is_over: impl FnOnce(&Block<S>) -> bool) -> Option<Block<S>> {
        self.list.front().filter(|block| is_over(block))?;
        self.list.pop_front()
    }

    /// The next parity of a block that waits for the line: it leaves with this counter.
    pub fn parity(&mut self, number: u64, session: u16, counter: u64) -> Option<(Parity, Bytes)> {
        let first = self.list.front()?.number;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        let block = self.list.get_mut(place)?;
        let index = block.sent.len();
        let until = index + block.queued as usize;
        block.queued = block.queued.saturating_sub(1);
        let octets = block.encoder.parity(&mut *self.code, index).ok()?;
        let parity = Parity {
            session,
            counter: Serial(counter as u32),
            layer: block.layer,
            parities: self.parities as u8,
            back: u16::try_from(counter - block.first).ok()?,
            index: u8::try_from(index).ok()?,
            until: u8::try_from(until).ok()?,
            contents: block.mask,
        };
        block.sent.push(counter);
        self.parities += 1;
        Some((parity, octets))
    }
}
