use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use layercast_core::{FlowId, Serial};
use layercast_fec::{BlockDecoder, Codes, Header, Put, Scheme};
use layercast_wire::{BasePackets, BaseParities, FrameType, MetsPacket, ParityTable, Payload, Run};
use serde::Serialize;

use crate::octets::whole;

/// Blocks that are waited for simultaneously: those of a parity that comes behind many others are past repair.
const BLOCKS: usize = 8;
/// Blocks done with that are remembered, so that no late parity opens one again.
const PAST: usize = 64;
/// Packets and octets of the base layer that are kept for parities to come.
const KEPT: usize = 512;
const KEPT_OCTETS: usize = 1 << 20;

/// A packet among those of its flow: frame, and offset in it.
type PlaceInFlow = (Serial, u32);

/// What the parities of the base layer did for a [`Sink`](super::Sink).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct RepairStats {
    /// Parities accepted.
    pub parities: u64,
    /// Base-layer packets recovered.
    pub recovered: u64,
    /// Base-layer packets that cannot be recovered any more.
    pub unrecoverable: u64,
    /// Duplicate parities, and parities of closed blocks.
    pub unused: u64,
    /// Parities that contradict their header, their block or the flow description.
    pub malformed: u64,
    /// Recovered packets that are not of this flow.
    pub corrupt: u64,
    /// Packets of closed blocks before repair.
    pub packets: BasePackets,
}

/// Recovers packets of the base layer from parities (specs/packet-level-fec.md 2.2); in memory that nothing that comes
/// can exceed.
#[derive(Debug)]
pub(super) struct Repair {
    flow: FlowId,
    most: BaseParities,
    /// In order of arrival.
    kept: VecDeque<(PlaceInFlow, Bytes)>,
    octets: usize,
    memory: BytesMut,
    blocks: VecDeque<Block>,
    past: VecDeque<Serial>,
    codes: Codes,
    ready: VecDeque<MetsPacket>,
    stats: RepairStats,
}

/// A block that a parity came of.
#[derive(Debug)]
struct Block {
    number: Serial,
    n: u8,
    m: u8,
    scheme: Scheme,
    pitch: u16,
    runs: Vec<Run>,
    /// Packets that came, a bit each.
    seen: [u64; 4],
    /// `None`: nothing is missing, or not any more.
    decoder: Option<BlockDecoder>,
}

impl Repair {
    pub fn new(flow: FlowId, most: BaseParities) -> Repair {
        Repair {
            flow,
            most,
            kept: VecDeque::new(),
            octets: 0,
            memory: BytesMut::new(),
            blocks: VecDeque::new(),
            past: VecDeque::new(),
            codes: Codes::default(),
            ready: VecDeque::new(),
            stats: RepairStats::default(),
        }
    }

    /// Counts on from what was counted before.
    pub fn go_on_from(&mut self, stats: RepairStats) {
        self.stats = stats;
    }

    /// The octets of a packet as it came, to be [kept](Repair::keep) if it turns out to be one of the flow.
    pub fn copy(&mut self, packet: &MetsPacket) -> Bytes {
        whole(&mut self.memory, packet)
    }

    /// Takes a packet of the base layer that came.
    pub fn keep(&mut self, place: PlaceInFlow, octets: Bytes) {
        for at in 0..self.blocks.len() {
            let block = &mut self.blocks[at];
            let Some(index) = block.index(place).filter(|&it| block.see(it)) else {
                continue;
            };
            if let Some(decoder) = &mut block.decoder {
                decoder.put_source(index, octets.clone());
                self.decode(at);
            }
        }
        self.octets += octets.len();
        self.kept.push_back((place, octets));
        while self.kept.len() > KEPT || self.octets > KEPT_OCTETS {
            let Some((_, oldest)) = self.kept.pop_front() else {
                break;
            };
            self.octets -= oldest.len();
        }
    }

    /// Takes a parity.
    pub fn on_parity(&mut self, packet: &MetsPacket) {
        match self.put(packet) {
            None => self.stats.malformed += 1,
            Some(false) => self.stats.unused += 1,
            Some(true) => self.stats.parities += 1,
        }
    }

    /// The next packet that was recovered.
    pub fn poll(&mut self) -> Option<MetsPacket> {
        self.ready.pop_front()
    }

    /// What was done so far.
    pub fn stats(&self) -> RepairStats {
        let missing = self.blocks.iter().map(Block::missing);
        RepairStats {
            unrecoverable: self.stats.unrecoverable + missing.sum::<u64>(),
            ..self.stats
        }
    }

    /// Takes a parity into its block; gives whether it was new, or `None` if it makes no sense.
    fn put(&mut self, packet: &MetsPacket) -> Option<bool> {
        let Payload::Bytes(payload) = &packet.payload else {
            return None;
        };
        let (table, packet) = ParityTable::decode(payload).ok()?;
        let header = Header::decode(&packet).ok()?;
        let (index, shape) = (header.parity()?, header.shape?);
        let scheme = shape.scheme?;
        let known = usize::from(shape.n) == table.sources();
        if !known || shape.n > self.most.n || shape.m > self.most.m {
            return None;
        }
        if self.past.contains(&header.block) {
            return Some(false);
        }
        let at = self.blocks.iter().position(|it| it.number == header.block);
        let at = match at {
            Some(at) => at,
            None => {
                let mut runs = self.retire();
                runs.extend(table.runs());
                self.open(Block {
                    number: header.block,
                    n: shape.n,
                    m: shape.m,
                    scheme,
                    pitch: table.pitch(),
                    runs,
                    seen: [0; 4],
                    decoder: None,
                })
            }
        };
        let block = &mut self.blocks[at];
        let same = block.n == shape.n && block.scheme == scheme && block.pitch == table.pitch();
        if !same || !table.runs().eq(block.runs.iter().copied()) {
            return None;
        }
        if let Some(decoder) = &mut block.decoder {
            let octets = packet.slice(Header::SIZE..);
            if decoder.put_parity(self.codes.of(scheme), index, octets) == Put::Refused {
                return None;
            }
        }
        let new = block.see(usize::from(header.index));
        self.decode(at);
        Some(new)
    }

    /// Puts what is here of a block into it; gives its place.
    fn open(&mut self, mut block: Block) -> usize {
        // Its packets were the last to come, most often.
        let mut missing = usize::from(block.n);
        for (place, _) in self.kept.iter().rev() {
            let new = block.index(*place).is_some_and(|it| block.see(it));
            missing -= usize::from(new);
            if missing == 0 {
                break;
            }
        }
        if missing > 0 {
            let mut decoder = BlockDecoder::new(usize::from(block.n));
            for (place, octets) in &self.kept {
                if let Some(index) = block.index(*place) {
                    decoder.put_source(index, octets.clone());
                }
            }
            block.decoder = Some(decoder);
        }
        self.blocks.push_back(block);
        self.blocks.len() - 1
    }

    /// Makes room for a block: is done with the oldest if there are as many as there may be. Gives memory for runs.
    fn retire(&mut self) -> Vec<Run> {
        let oldest = (self.blocks.len() == BLOCKS).then(|| self.blocks.pop_front());
        let Some(mut block) = oldest.flatten() else {
            return Vec::new();
        };
        self.stats.unrecoverable += block.missing();
        let received = block.seen.iter().map(|it| u64::from(it.count_ones()));
        self.stats.packets.received += received.sum::<u64>();
        self.stats.packets.expected += u64::from(block.n) + u64::from(block.m);
        if self.past.len() == PAST {
            self.past.pop_front();
        }
        self.past.push_back(block.number);
        block.runs.clear();
        block.runs
    }

    /// Recovers what a block lacks, if it has enough now.
    fn decode(&mut self, at: usize) {
        let block = &mut self.blocks[at];
        let Some(decoder) = block.decoder.as_mut().filter(|it| it.needed() == 0) else {
            return;
        };
        let Ok(decoded) = decoder.decode(self.codes.of(block.scheme)) else {
            return;
        };
        if decoded.corrupt > 0 {
            self.stats.corrupt += 1;
            return;
        }
        let decoder = block.decoder.take();
        for index in decoded.recovered {
            let octets = decoder.as_ref().and_then(|it| it.payload(index));
            let packet = octets.and_then(|it| MetsPacket::decode(it.clone(), false).ok());
            let ours = packet.filter(|it| {
                let header = &it.header;
                [FrameType::BL, FrameType::COMMON].contains(&header.kind)
                    && header.flow == self.flow
                    && block.index((header.seq, header.offset)) == Some(index)
            });
            match ours {
                Some(packet) => {
                    self.stats.recovered += 1;
                    self.ready.push_back(packet);
                }
                None => self.stats.corrupt += 1,
            }
        }
    }
}

impl Block {
    /// Which packet of the block lies at a place of the flow.
    fn index(&self, (seq, offset): PlaceInFlow) -> Option<usize> {
        let mut before = 0;
        for run in &self.runs {
            if run.seq == seq && offset >= run.offset {
                let pitch = u32::from(self.pitch).max(1);
                let ahead = offset - run.offset;
                if ahead % pitch == 0 && ahead / pitch < u32::from(run.count) {
                    return Some(before + (ahead / pitch) as usize);
                }
            }
            before += usize::from(run.count);
        }
        None
    }

    /// Notes a packet; `false`: it was here before.
    fn see(&mut self, index: usize) -> bool {
        let (word, bit) = (index / 64, 1 << (index % 64));
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }

    /// Source packets that are not here.
    fn missing(&self) -> u64 {
        self.decoder
            .as_ref()
            .map_or(0, |it| it.missing().count() as u64)
    }
}
