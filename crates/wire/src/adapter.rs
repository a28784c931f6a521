use layercast_core::{CellRate, FlowId, GroupId, Level, LevelSet, NodeId, Serial};
use thiserror::Error;

use crate::{FrameType, METS_VERSION};

/// Bytes of a RES or ADAPT message: with the AAL5 trailer exactly one cell.
pub const ADAPTER_LEN: usize = 40;

/// Which of the two adapter messages it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AdapterKind {
    /// What a branch wants; goes towards the source.
    Res,
    /// What the source gives; goes towards the receivers.
    Adapt,
}

/// A message of the distributed QoS adapter, 40 bytes big-endian (specs/mets.md 2.11).
///
/// Type 2, version 1, flags 1 (zero), group 4, flow 4, era 4, origin 4, min 1, max 1, hops 1,
/// levels 1, rate_min 4, rate_max 4, residual 4, drain 4 (zero in ADAPT). Lost messages are not
/// repeated: the next era brings another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdapterMsg {
    /// RES or ADAPT.
    pub kind: AdapterKind,
    /// Receiver group of the flow.
    pub group: GroupId,
    /// The flow.
    pub flow: FlowId,
    /// Cycle of the sender.
    pub era: Serial,
    /// The node that made (or last merged) the message.
    pub origin: NodeId,
    /// Level to fall back to.
    pub min: Level,
    /// Highest level wanted (RES) or given (ADAPT); not below `min`.
    pub max: Level,
    /// Nodes passed.
    pub hops: u8,
    /// Of a flow of alternative layers, the levels wanted (RES) or given (ADAPT), `max` among them; else none.
    pub levels: LevelSet,
    /// Rate at `min`, above the base layer.
    pub rate_min: CellRate,
    /// Rate at `max`, above the base layer.
    pub rate_max: CellRate,
    /// Bandwidth left over on the link the message passed last.
    pub residual: CellRate,
    /// RES: what the slowest receiving host below takes in without loss, all its flows together; 0 is
    /// not known (specs/mets.md 8). Zero in ADAPT.
    pub drain: CellRate,
}

/// Why bytes are not a RES or ADAPT message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum AdapterError {
    /// Not 40 bytes.
    #[error("RES/ADAPT message of {0} bytes instead of 40")]
    Length(usize),
    /// In a cell: the CRC-32 of its AAL5 frame is wrong.
    #[error("RES/ADAPT cell with a wrong CRC-32")]
    Crc,
    /// Neither RES nor ADAPT.
    #[error("type {0} is neither RES nor ADAPT")]
    Type(FrameType),
    /// A version we do not speak.
    #[error("RES/ADAPT version {0} is not 1")]
    Version(u8),
    /// Flags or, in ADAPT, the drain rate are not zero.
    #[error("RES/ADAPT message has a reserved field that is not zero")]
    Reserved,
    /// A level above 2.
    #[error("RES/ADAPT level {0} is above 2")]
    Level(u8),
    /// The fall-back is above the highest level.
    #[error("RES/ADAPT levels {0}..{1} are inverted")]
    Inverted(u8, u8),
    /// The set of levels has one above 2, or another highest one than is stated.
    #[error("RES/ADAPT set of levels {0:#010b} is not one up to level {1}")]
    Set(u8, u8),
}

impl AdapterMsg {
    /// The 40 bytes on the wire.
    pub fn encode(&self) -> [u8; ADAPTER_LEN] {
        let kind = match self.kind {
            AdapterKind::Res => FrameType::RES,
            AdapterKind::Adapt => FrameType::ADAPT,
        };
        let mut out = [0; ADAPTER_LEN];
        out[0..2].copy_from_slice(&kind.0.to_be_bytes());
        out[2] = METS_VERSION;
        out[4..8].copy_from_slice(&self.group.0.to_be_bytes());
        out[8..12].copy_from_slice(&self.flow.0.to_be_bytes());
        out[12..16].copy_from_slice(&self.era.0.to_be_bytes());
        out[16..20].copy_from_slice(&self.origin.0.to_be_bytes());
        out[20] = self.min.get();
        out[21] = self.max.get();
        out[22] = self.hops;
        out[23] = self.levels.bits();
        out[24..28].copy_from_slice(&self.rate_min.0.to_be_bytes());
        out[28..32].copy_from_slice(&self.rate_max.0.to_be_bytes());
        out[32..36].copy_from_slice(&self.residual.0.to_be_bytes());
        if self.kind == AdapterKind::Res {
            out[36..40].copy_from_slice(&self.drain.0.to_be_bytes());
        }
        out
    }

    /// Decodes a message of exactly 40 bytes.
    pub fn decode(bytes: &[u8]) -> Result<AdapterMsg, AdapterError> {
        let b: &[u8; ADAPTER_LEN] = bytes
            .try_into()
            .map_err(|_| AdapterError::Length(bytes.len()))?;
        let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let level = |n: u8| Level::new(n).ok_or(AdapterError::Level(n));
        let kind = match FrameType(u16::from_be_bytes([b[0], b[1]])) {
            FrameType::RES => AdapterKind::Res,
            FrameType::ADAPT => AdapterKind::Adapt,
            other => return Err(AdapterError::Type(other)),
        };
        if b[2] != METS_VERSION {
            return Err(AdapterError::Version(b[2]));
        }
        if b[3] != 0 || kind == AdapterKind::Adapt && word(36) != 0 {
            return Err(AdapterError::Reserved);
        }
        let (min, max) = (level(b[20])?, level(b[21])?);
        if min > max {
            return Err(AdapterError::Inverted(min.get(), max.get()));
        }
        let levels =
            LevelSet::from_bits(b[23]).filter(|set| set.highest().is_none_or(|it| it == max));
        let levels = levels.ok_or(AdapterError::Set(b[23], max.get()))?;
        Ok(AdapterMsg {
            kind,
            group: GroupId(word(4)),
            flow: FlowId(word(8)),
            era: Serial(word(12)),
            origin: NodeId(word(16)),
            min,
            max,
            hops: b[22],
            levels,
            rate_min: CellRate(word(24)),
            rate_max: CellRate(word(28)),
            residual: CellRate(word(32)),
            drain: CellRate(word(36)),
        })
    }
}
