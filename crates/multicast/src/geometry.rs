use layercast_wire::multicast::{Content, Object, State};

use crate::ConfigError;

/// How an object is cut into packets, and packets into blocks.
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
    /// Of an object in packets of so many octets; an error if the packets cannot be numbered.
    pub fn of(object: &Object, packet_size: u16) -> Result<Geometry, ConfigError> {
        Geometry::new(object.size, packet_size, object.block)
    }

    /// Of so many octets; an error if the packets cannot be numbered.
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

    /// First packet of a block and the first behind it.
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

    /// Whether what a receiver says that it lacks is of this object, and told as was agreed; what says nothing of
    /// that fits.
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

    /// Octet at which a packet begins.
    #[inline]
    pub fn offset(&self, packet: u64) -> u64 {
        packet * u64::from(self.packet_size)
    }

    /// Octets of a packet.
    #[inline]
    pub fn len(&self, packet: u64) -> usize {
        let left = self.size.saturating_sub(self.offset(packet));
        left.min(self.packet_size.into()) as usize
    }

    /// Whether there is nothing to be sent.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }
}
