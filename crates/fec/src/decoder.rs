use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Serial, Span, Time};
use serde::{Deserialize, Serialize};

use crate::window::{Place, Slot, Window};
use crate::{Codes, Header, LossCount, Put};

/// Limits of a decoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecoderConfig {
    /// Largest number of open blocks, 1 to 1024; beyond it the oldest is abandoned (64, or what two round trips
    /// hold).
    pub blocks: usize,
    /// Largest number of octets held; beyond it the oldest blocks are abandoned.
    pub octets: usize,
    /// Time after its first packet at which a block is abandoned.
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

/// Output of a decoder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecoderEvent {
    /// A source packet.
    Source {
        /// Number of the block.
        block: Serial,
        /// Index in the block.
        index: u8,
        /// The payload.
        payload: Bytes,
        /// How the packet was obtained.
        how: Arrival,
    },
    /// A block was abandoned. These source packets are lost; those that had arrived were delivered before.
    Unrecoverable {
        /// Number of the block.
        block: Serial,
        /// Missing source packets, as far as their numbers are known.
        missing: Vec<u8>,
    },
}

/// How a source packet was obtained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Received.
    Plain,
    /// Recovered from parities.
    Recovered,
    /// Received after its block was closed: it may be a duplicate.
    Late,
}

/// Counters of a protected stream.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct DecoderStats {
    /// Packets without a valid FEC header, or with one that contradicts its payload.
    pub malformed: u64,
    /// Packets that contradict the known shape of their block (N or code).
    pub conflicting: u64,
    /// Duplicates.
    pub duplicate: u64,
    /// Packets that arrived after their block was closed.
    pub late: u64,
    /// Packets far from the open blocks.
    pub strange: u64,
    /// Source packets recovered.
    pub recovered: u64,
    /// Parities that were not needed.
    pub unused: u64,
    /// Blocks in which decoding detected corruption.
    pub decode_corrupt: u64,
    /// Abandoned blocks.
    pub unrecoverable: u64,
    /// Source packets missing from abandoned blocks. A block without any packet counts like the block before it.
    pub lost: u64,
    /// Restarts of the block numbers.
    pub restarts: u64,
}

/// Receives the packets of an [`Encoder`](crate::Encoder) in any order and returns the source packets
/// (specs/packet-level-fec.md 2.2, 2.8, 7); sans-I/O.
///
/// Sources are delivered on arrival, recovered ones as soon as a block has enough packets. Memory stays within
/// [`DecoderConfig`] for any input; invalid packets are counted and dropped.
#[derive(Debug)]
pub struct Decoder {
    config: DecoderConfig,
    codes: Codes,
    window: Window,
    held: usize,
    /// Packets of a typical block, and source packets among them, for blocks without any packet.
    usual: u64,
    usual_sources: u64,
    past: LossCount,
    stats: DecoderStats,
    events: VecDeque<DecoderEvent>,
}

impl Decoder {
    /// Creates a decoder; limits below the minimum are raised to it.
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

    /// Processes a packet including its header.
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
            Place::Before(by) if self.window.slots.len() + by <= self.config.blocks => {
                self.window.begin_earlier(by);
                0
            }
            Place::Before(_) | Place::Past => {
                self.stats.late += 1;
                self.hand_over(&header, octets, Arrival::Late);
                return;
            }
            Place::Inside(place) => place,
            Place::Beyond(by) => self.advance(by, header.block),
        };
        self.put(now, place, &header, octets);
    }

    /// Returns the next source packet or abandoned block.
    pub fn poll_event(&mut self) -> Option<DecoderEvent> {
        self.events.pop_front()
    }

    /// When the next block is abandoned.
    pub fn next_timeout(&self) -> Option<Time> {
        let slots = self.window.slots.iter().flatten();
        slots.filter(|it| it.block.is_some()).map(|it| it.due).min()
    }

    /// Abandons the blocks whose time has expired.
    pub fn on_timeout(&mut self, now: Time) {
        let due = |it: &Option<Slot>| it.as_ref().is_some_and(|it| it.due <= now);
        // Blocks before the last expired one are older: nothing of them is still on its way.
        let Some(last) = self.window.slots.iter().rposition(due) else {
            return;
        };
        (0..=last).for_each(|_| self.retire());
    }

    /// Packets before decoding, of all closed blocks.
    pub fn loss(&self) -> LossCount {
        self.past
    }

    /// Counters since the start.
    pub fn stats(&self) -> &DecoderStats {
        &self.stats
    }

    /// Extends the window to a block `by` places beyond its end; returns its place.
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

    /// Adds a packet to the block at a place of the window.
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
        // The shape in this packet may have made earlier packets invalid.
        self.held = self
            .held
            .saturating_add_signed(block.octets() as isize - held as isize);
        match put {
            Put::Refused => self.stats.malformed += 1,
            // The first parity of a complete short block is the first packet to carry its size.
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

    /// Decodes the block at a place if it has enough packets.
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

    /// Closes the oldest block.
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
