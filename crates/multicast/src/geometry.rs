use layercast_wire::multicast::{Content, Object, State};

use crate::ConfigError;

/// Division of an object into packets, and of packets into blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Octets of the object.
    pub size: u64,
    /// Octets of a full packet.
    pub packet_size: u16,
    /// Source packets of a full block.
    pub block: u16,
}

impl Geometry {
    /// The geometry of an object; an error if the packets cannot be numbered.
    pub fn of(object: &Object, packet_size: u16) -> Result<Geometry, ConfigError> {
        Geometry::new(object.size, packet_size, object.block)
    }

    /// The geometry of `size` octets; an error if the packets cannot be numbered.
    pub fn new(size: u64, packet_size: u16, block: u16) -> Result<Geometry, ConfigError> {
        if packet_size == 0 || block == 0 {
            return Err(ConfigError::Zero("packet or block"));
        }
        let geometry = Geometry {
            size,
            packet_size,
            block,
        };
        match geometry.packets() {
            packets if packets > u64::from(u32::MAX) => Err(ConfigError::TooLarge(packets)),
            _ => Ok(geometry),
        }
    }

    /// Source packets.
    pub fn packets(&self) -> u64 {
        self.size.div_ceil(self.packet_size.into())
    }

    /// Blocks.
    pub fn blocks(&self) -> u32 {
        self.packets().div_ceil(self.block.into()) as u32
    }

    /// The block of a packet.
    #[inline]
    pub fn block_of(&self, packet: u64) -> u32 {
        (packet / u64::from(self.block)) as u32
    }

    /// The first packet of a block, and the first after it.
    #[inline]
    pub fn range(&self, block: u32) -> (u64, u64) {
        let first = u64::from(block) * u64::from(self.block);
        let end = first + u64::from(self.block);
        (first.min(self.packets()), end.min(self.packets()))
    }

    /// Source packets of a block.
    #[inline]
    pub fn packets_of(&self, block: u32) -> u16 {
        let (first, end) = self.range(block);
        (end - first) as u16
    }

    /// Whether the needs in a report are possible for this object and in the agreed form; a report without needs
    /// fits.
    pub(crate) fn fits(&self, content: Content, state: &State) -> bool {
        match state {
            State::Missing(spans) => content == Content::Ranges && spans.end() <= self.packets(),
            State::Ready(spans) => spans.end() <= self.packets(),
            State::Need(needs) => {
                let fits =
                    |(block, count)| block < self.blocks() && count <= self.packets_of(block);
                content == Content::Counts && needs.iter().all(fits)
            }
            State::Complete { .. } | State::Busy | State::Corrupt | State::Levels { .. } => true,
        }
    }

    /// Offset of a packet in the object, in octets.
    #[inline]
    pub fn offset(&self, packet: u64) -> u64 {
        packet * u64::from(self.packet_size)
    }

    /// Length of a packet in octets.
    #[inline]
    pub fn len(&self, packet: u64) -> usize {
        let left = self.size.saturating_sub(self.offset(packet));
        left.min(self.packet_size.into()) as usize
    }

    /// Whether the object is empty.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }
}
