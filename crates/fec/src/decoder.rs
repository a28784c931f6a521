use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Serial, Span, Time};
use serde::{Deserialize, Serialize};

use crate::window::{Place, Slot, Window};
use crate::{Codes, Header, LossCount, Put};

/// What a decoder may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecoderConfig {
    /// Blocks that are open at once, 1 to 1024; then the oldest is given up (64, or what two round trips hold).
    pub blocks: usize,
    /// Octets that are held at once; then the oldest blocks are given up.
    pub octets: usize,
    /// How long a block is waited for after its first packet.
    pub hold: Span,
}

impl Default for DecoderConfig {
    /// 64 blocks, 8 MiB, one second.
    fn default() -> DecoderConfig {
        DecoderConfig {
            blocks: 64,
            octets: 8 << 20,
            hold: Span::from_secs(1),
        }
    }
}

/// What a decoder gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecoderEvent {
    /// A source packet.
    Source {
        /// Number of its block.
        block: Serial,
        /// Place in the block.
        index: u8,
        /// What was sent.
        payload: Bytes,
        /// How it came.
        how: Arrival,
    },
    /// A block that was given up: these source packets will not come from here; what had arrived was handed over.
    Unrecoverable {
        /// Number of the block.
        block: Serial,
        /// Source packets that are missing, as far as numbers tell.
        missing: Vec<u8>,
    },
}

/// How a source packet came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// By itself.
    Plain,
    /// Out of parities.
    Recovered,
    /// By itself, after its block was done with: it may have been here before.
    Late,
}

/// What happened to the packets of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct DecoderStats {
    /// No FEC header, or one that contradicts itself or its payload.
    pub malformed: u64,
    /// Of another shape than the block had before (N or code).
    pub conflicting: u64,
    /// Here before.
    pub duplicate: u64,
    /// After its block was done with.
    pub late: u64,
    /// From nowhere near the blocks that are open.
    pub strange: u64,
    /// Source packets recovered.
    pub recovered: u64,
    /// Parities that were not needed.
    pub unused: u64,
    /// Blocks in which decoding showed something corrupt.
    pub decode_corrupt: u64,
    /// Blocks given up.
    pub unrecoverable: u64,
    /// Source packets that blocks lacked when they were given up; one of which nothing came counts like that before.
    pub lost: u64,
    /// Times that the sequence began anew.
    pub restarts: u64,
}

/// Takes the packets of an [`Encoder`](crate::Encoder), any order, and gives the source packets
/// (specs/packet-level-fec.md 2.2, 2.8, 7); sans-I/O.
///
/// Sources are handed over on arrival, recovered ones as soon as a block has enough packets. Whatever comes, memory stays
/// within [`DecoderConfig`]; what makes no sense is counted and dropped.
#[derive(Debug)]
pub struct Decoder {
    config: DecoderConfig,
    codes: Codes,
    window: Window,
    held: usize,
    /// Packets of a block, and source packets among them, for blocks of which none came.
    usual: u64,
    usual_sources: u64,
    past: LossCount,
    stats: DecoderStats,
    events: VecDeque<DecoderEvent>,
}

impl Decoder {
    /// A decoder that has seen nothing; limits below the least are raised to it.
    pub fn new(config: DecoderConfig) -> Decoder {
        let blocks = config.blocks.clamp(1, 1_024);
        Decoder {
            config: DecoderConfig { blocks, ..config },
            codes: Codes::default(),
            window: Window::default(),
            held: 0,
            usual: 0,
            usual_sources: 0,
            past: LossCount::default(),
            stats: DecoderStats::default(),
            events: VecDeque::new(),
        }
    }

    /// Takes a packet, header and all.
    pub fn handle(&mut self, now: Time, packet: &Bytes) {
        let Ok(header) = Header::decode(packet) else {
            self.stats.malformed += 1;
            return;
        };
        let octets = packet.slice(Header::SIZE..);
        let place = match self.window.place(&header) {
            Place::Strange => {
                self.stats.strange += 1;
                return;
            }
            Place::Past => {
                self.stats.late += 1;
                self.hand_over(&header, octets, Arrival::Late);
                return;
            }
            Place::Inside(place) => place,
            Place::Beyond(by) => self.advance(by, header.block),
        };
        self.put(now, place, &header, octets);
    }

    /// The next source packet or lost block.
    pub fn poll_event(&mut self) -> Option<DecoderEvent> {
        self.events.pop_front()
    }

    /// When a block is given up next.
    pub fn next_timeout(&self) -> Option<Time> {
        let slots = self.window.slots.iter().flatten();
        slots.filter(|it| it.block.is_some()).map(|it| it.due).min()
    }

    /// Gives up the blocks that were waited for long enough.
    pub fn on_timeout(&mut self, now: Time) {
        let due = |it: &Option<Slot>| it.as_ref().is_some_and(|it| it.due <= now);
        // Those before the last that is due are older: nothing of them is on its way.
        let Some(last) = self.window.slots.iter().rposition(due) else {
            return;
        };
        (0..=last).for_each(|_| self.retire());
    }

    /// Packets before decoding, of the blocks that are done with.
    pub fn loss(&self) -> LossCount {
        self.past
    }

    /// Counters since the start.
    pub fn stats(&self) -> &DecoderStats {
        &self.stats
    }

    /// Makes room for a block that lies `by` places behind the end of the window; gives its place.
    fn advance(&mut self, by: usize, block: Serial) -> usize {
        let limit = self.config.blocks;
        if by == usize::MAX {
            while !self.window.slots.is_empty() {
                self.retire();
            }
            self.window.restart(block);
            self.stats.restarts += 1;
            self.window.slots.push_back(None);
            return 0;
        }
        for _ in 0..=by {
            if self.window.slots.len() == limit {
                self.retire();
            }
            self.window.slots.push_back(None);
        }
        self.window.slots.len() - 1
    }

    /// A packet for the block at a place of the window.
    fn put(&mut self, now: Time, place: usize, header: &Header, octets: Bytes) {
        let due = now.saturating_add(self.config.hold);
        let slot = self.window.slots[place].get_or_insert_with(|| Slot::new(due));
        if slot.block.is_none() {
            match slot.see(header.index) {
                true if header.parity().is_some() => self.stats.unused += 1,
                true => self.stats.late += 1,
                false => self.stats.duplicate += 1,
            }
            return;
        }
        if !slot.admits(header) {
            self.stats.conflicting += 1;
            return;
        }
        let scheme = slot.shape.and_then(|it| it.scheme);
        let Some(block) = &mut slot.block else {
            return;
        };
        let held = block.octets();
        let put = match (header.parity(), scheme) {
            (None, _) => block.put_source(usize::from(header.index), octets.clone()),
            (Some(index), Some(scheme)) => {
                block.put_parity(self.codes.of(scheme), index, octets.clone())
            }
            (Some(_), None) => Put::Refused,
        };
        // The shape that the packet tells may have shown others to be impossible.
        self.held = self
            .held
            .saturating_add_signed(block.octets() as isize - held as isize);
        match put {
            Put::Refused => self.stats.malformed += 1,
            // A parity of a short block that is whole: the first to tell that it is.
            Put::Known if slot.see(header.index) => {
                self.stats.unused += 1;
                self.decode(place, header.block);
            }
            Put::Known => self.stats.duplicate += 1,
            Put::New => {
                slot.see(header.index);
                self.hand_over(header, octets, Arrival::Plain);
                self.decode(place, header.block);
            }
        }
        while self.held > self.config.octets && !self.window.slots.is_empty() {
            self.retire();
        }
    }

    /// Decodes the block at a place, if it has enough packets now.
    fn decode(&mut self, place: usize, number: Serial) {
        let Some(slot) = &mut self.window.slots[place] else {
            return;
        };
        let (Some(block), Some(shape)) = (&mut slot.block, slot.shape) else {
            return;
        };
        if block.needed() > 0 {
            return;
        }
        let held = block.octets();
        let parities = block.parities();
        let Some(scheme) = shape.scheme.filter(|_| !block.is_complete()) else {
            self.stats.unused += parities as u64;
            self.held -= held;
            slot.block = None;
            return;
        };
        let Ok(decoded) = block.decode(self.codes.of(scheme)) else {
            return;
        };
        if decoded.corrupt > 0 {
            self.stats.decode_corrupt += 1;
            self.held -= held - block.octets();
            return;
        }
        self.stats.recovered += decoded.recovered.len() as u64;
        self.stats.unused += parities.saturating_sub(decoded.recovered.len()) as u64;
        self.held -= held;
        for index in decoded.recovered {
            if let Some(payload) = block.payload(index) {
                self.events.push_back(DecoderEvent::Source {
                    block: number,
                    index: index as u8,
                    payload: payload.clone(),
                    how: Arrival::Recovered,
                });
            }
        }
        slot.block = None;
    }

    /// Is done with the oldest block.
    fn retire(&mut self) {
        let Some((number, slot)) = self.window.pop() else {
            return;
        };
        let Some(slot) = slot else {
            self.past.expected += self.usual;
            self.stats.lost += self.usual_sources;
            return;
        };
        let count = slot.count();
        self.past = self.past.plus(count);
        if let Some(shape) = slot.shape {
            self.usual = count.expected;
            self.usual_sources = shape.n.into();
        }
        let Some(block) = slot.block else {
            return;
        };
        self.held -= block.octets();
        let missing: Vec<u8> = block.missing().map(|it| it as u8).collect();
        if !missing.is_empty() {
            self.stats.unrecoverable += 1;
            self.stats.lost += missing.len() as u64;
            self.events.push_back(DecoderEvent::Unrecoverable {
                block: number,
                missing,
            });
        }
    }

    fn hand_over(&mut self, header: &Header, payload: Bytes, how: Arrival) {
        if header.parity().is_some() {
            return;
        }
        let (block, index) = (header.block, header.index);
        self.events.push_back(DecoderEvent::Source {
            block,
            index,
            payload,
            how,
        });
    }
}
