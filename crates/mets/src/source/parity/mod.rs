mod config;
mod steering;

use std::collections::VecDeque;

use bytes::{BufMut, BytesMut};
use layercast_core::{FlowSpec, NodeId, Span, Time};
use layercast_fec::{ConfigError, Encoder};
use layercast_wire::{
    BasePackets, BaseParities, Carriage, Flags, FrameType, METS_HEADER, MetsHeader, MetsPacket,
    ParityTable, Run, Sound, Waited,
};
use serde::Serialize;

pub use config::{ParityConfig, ParityConfigError, Redundancy};

use config::{RUNS, ends_blocks, flush, parity_len};
use steering::Steering;

use crate::octets::{CHUNK, reserve, whole};

/// The parities that a [`Source`](super::Source) sent with its base layer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ParityStats {
    /// Base-layer packets protected.
    pub packets: u64,
    /// Bytes of the protected packets, METS headers included.
    pub bytes: u64,
    /// Parities made.
    pub parities: u64,
    /// Bytes of the parities, METS headers included.
    pub parity_bytes: u64,
    /// Parities dropped because the shaper was full.
    pub dropped: u64,
    /// Source packets of a block now.
    pub n: u8,
    /// Parities of a block now.
    pub m: u8,
}

/// Makes the parities of the base layer of a flow: to every block of packets some METS packets that replace any
/// lost ones (specs/packet-level-fec.md 2.2).
///
/// The packets themselves stay as they are; a parity names the packets it is computed from.
#[derive(Debug)]
pub(super) struct Parities {
    config: ParityConfig,
    carriage: Carriage,
    /// Most bytes of a packet after its header.
    payload: usize,
    pitch: usize,
    ends_blocks: bool,
    encoder: Encoder,
    /// What the open block is made of.
    runs: Vec<Run>,
    /// Of its newest packet.
    newest: Option<MetsHeader>,
    sources: BytesMut,
    out: BytesMut,
    /// The FEC packet that is being made a METS packet.
    packet: Vec<u8>,
    ready: VecDeque<MetsPacket>,
    steering: Option<Steering>,
    pub stats: ParityStats,
}

impl Parities {
    /// For packets of at most `payload` bytes after their header.
    pub fn new(
        config: ParityConfig,
        carriage: Carriage,
        payload: usize,
        spec: &FlowSpec,
    ) -> Result<Parities, ConfigError> {
        let pitch = config.pitch(payload)?;
        let shape = config.first();
        Ok(Parities {
            encoder: Encoder::new(config.encoder(config.most(), payload, flush(spec)))
                .and_then(|mut it| it.set_redundancy(shape.0, shape.1).map(|()| it))?,
            steering: (config.redundancy == Redundancy::Auto).then(|| Steering::new(spec, pitch)),
            config,
            carriage,
            payload,
            pitch,
            ends_blocks: ends_blocks(spec),
            runs: Vec::new(),
            newest: None,
            sources: BytesMut::new(),
            out: BytesMut::new(),
            packet: Vec::new(),
            ready: VecDeque::new(),
            stats: ParityStats {
                n: shape.0,
                m: shape.1,
                ..ParityStats::default()
            },
        })
    }

    /// What receivers have to know.
    pub fn advertised(&self) -> BaseParities {
        let (n, m) = self.config.most();
        BaseParities { n, m }
    }

    /// Most bytes of a source packet after its header.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// The flow with its parities counted into the base layer.
    pub fn reserved(&self, spec: &FlowSpec) -> FlowSpec {
        self.config.reserved(spec, self.carriage, self.payload)
    }

    /// Most credits that the parities made along with a frame cost, which travels in `bytes`.
    pub fn cost(&self, bytes: usize) -> u32 {
        let (n, m) = (u32::from(self.stats.n), u32::from(self.stats.m));
        let packets = u32::try_from(bytes.div_ceil(self.pitch)).unwrap_or(u32::MAX);
        // One that is open may end first, and one stay open.
        let blocks = packets.div_ceil(n) + 1;
        let frame = if self.ends_blocks { bytes } else { self.pitch };
        let parity = parity_len(self.payload, self.pitch, frame);
        let each = self.carriage.cost(parity);
        blocks.saturating_mul(m).saturating_mul(each)
    }

    /// Takes a base-layer packet that goes out now.
    pub fn take(&mut self, now: Time, packet: &MetsPacket) {
        self.follow(&packet.header);
        let octets = whole(&mut self.sources, packet);
        self.stats.packets += 1;
        self.stats.bytes += octets.len() as u64;
        let header = self.encoder.push(now, octets);
        debug_assert!(header.is_ok(), "packets are cut to fit: {header:?}");
        if header.is_ok_and(|it| it.shape.is_some()) {
            self.collect();
        }
    }

    /// A frame is complete: no block waits for a later frame beyond its deadline.
    pub fn end_frame(&mut self) {
        if self.ends_blocks {
            self.close();
        }
    }

    /// The next parity to send.
    pub fn poll(&mut self) -> Option<MetsPacket> {
        self.ready.pop_front()
    }

    /// When a block has to end, full or not.
    pub fn next_timeout(&self) -> Option<Time> {
        self.encoder.next_timeout()
    }

    /// Ends the block that waited long enough.
    pub fn on_timeout(&mut self, now: Time) {
        self.encoder.on_timeout(now);
        self.collect();
    }

    /// There is no more: the open block ends.
    pub fn close(&mut self) {
        self.encoder.close();
        self.collect();
    }

    /// The flow has another specification.
    pub fn set_spec(&mut self, spec: &FlowSpec) {
        self.ends_blocks = ends_blocks(spec);
        if let Some(steering) = &mut self.steering {
            steering.set_spec(spec, self.pitch);
        }
    }

    /// A member tells what came of the packets.
    pub fn on_report(&mut self, now: Time, member: NodeId, seen: BasePackets, period: Span) {
        let Some(steering) = &mut self.steering else {
            return;
        };
        let chosen = steering.on_report(now, member, seen, period);
        let now = (self.stats.n, self.stats.m);
        let Some((n, m)) = chosen.filter(|it| *it != now) else {
            return;
        };
        let set = self.encoder.set_redundancy(n, m);
        debug_assert!(set.is_ok(), "the limits of auto fit: {set:?}");
        (self.stats.n, self.stats.m) = (n, m);
        self.collect();
    }

    /// A member left.
    pub fn forget(&mut self, member: NodeId) {
        if let Some(steering) = &mut self.steering {
            steering.forget(member);
        }
    }

    /// Notes the place of a packet that comes next.
    fn follow(&mut self, header: &MetsHeader) {
        self.newest = Some(*header);
        let next = |run: &Run| run.offset + u32::from(run.count) * self.pitch as u32;
        match self.runs.last_mut() {
            Some(run) if run.seq == header.seq && next(run) == header.offset => run.count += 1,
            _ => {
                if self.runs.len() == RUNS {
                    self.close();
                }
                self.runs.push(Run {
                    seq: header.seq,
                    offset: header.offset,
                    count: 1,
                });
            }
        }
    }

    /// Makes METS packets of the parities of the block that ended, if one did.
    fn collect(&mut self) {
        let Some(newest) = self.newest else {
            return;
        };
        if self.encoder.next_timeout().is_some() {
            return;
        }
        while self.encoder.poll_parity(&mut self.packet) {
            let table = ParityTable::PREFIX + Run::SIZE * self.runs.len();
            reserve(&mut self.out, table + self.packet.len());
            ParityTable::put(self.pitch as u16, &self.runs, &mut self.out);
            self.out.put_slice(&self.packet);
            let payload = self.out.split().freeze();
            self.stats.parities += 1;
            self.stats.parity_bytes += (METS_HEADER + payload.len()) as u64;
            self.ready.push_back(MetsPacket {
                header: MetsHeader {
                    kind: FrameType::PARITY,
                    flags: (Flags::FIRST | Flags::LAST).with_life(newest.flags.life()),
                    alf_len: payload.len() as u32,
                    offset: 0,
                    waited: Waited::default(),
                    sound: Sound::default(),
                    ..newest
                },
                payload: payload.into(),
                congestion: false,
            });
        }
        self.runs.clear();
        // The packets of the block are no longer referenced: the next block reuses their memory.
        let _ = self.sources.try_reclaim(CHUNK);
    }
}
