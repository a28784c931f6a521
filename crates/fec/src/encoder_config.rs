use layercast_core::Span;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::unit::PREFIX;
use crate::{Code, Header, MAX_PAYLOAD, Scheme, Shape};

/// Configuration of the protection of a packet stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderConfig {
    /// The code.
    pub scheme: Scheme,
    /// Source packets of a block, at least 1.
    pub n: u8,
    /// Parities of a block; with 0 packets only get their headers.
    pub m: u8,
    /// Longest packet in octets, FEC header included.
    pub mtu: usize,
    /// Time after which an open block is closed and its parities are sent: at most a round trip or half of the delay
    /// budget (specs/packet-level-fec.md 2.2).
    pub flush: Span,
    /// Number of interleaved blocks, at least 1: a burst of that many lost packets costs each block one.
    pub interleave: u8,
    /// Closed blocks that are kept for [`further`](crate::Encoder::further) parities.
    pub keep: usize,
}

/// Reason why a configuration is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConfigError {
    /// The index of a packet has only eight bits.
    #[error("blocks of {n} + {m} packets: n must be at least 1 and n + m at most 255")]
    Block {
        /// Source packets.
        n: u8,
        /// Parities.
        m: u8,
    },
    /// The interleave is 0.
    #[error("interleave must be at least 1")]
    Interleave,
    /// Not even an empty payload fits.
    #[error(
        "packets of {mtu} octets leave no room for a payload: {needed} octets go to header, length and shifts"
    )]
    Mtu {
        /// Longest packet.
        mtu: usize,
        /// Octets needed besides the payload.
        needed: usize,
    },
}

impl EncoderConfig {
    /// Largest payload, in octets, that such packets can carry.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if no packet can be protected in this way.
    pub fn most_payload(&self, code: &dyn Code) -> Result<usize, ConfigError> {
        if self.n == 0 || self.n.checked_add(self.m).is_none() {
            return Err(ConfigError::Block {
                n: self.n,
                m: self.m,
            });
        }
        if self.interleave == 0 {
            return Err(ConfigError::Interleave);
        }
        let most = self.room(code, usize::from(self.m))?;
        Ok(most.min(MAX_PAYLOAD))
    }

    /// Octets left for the payload by `parities` parities of a block.
    fn room(&self, code: &dyn Code, parities: usize) -> Result<usize, ConfigError> {
        let Some(last) = parities.checked_sub(1) else {
            let needed = Header::SIZE;
            return self.mtu.checked_sub(needed).ok_or(ConfigError::Mtu {
                mtu: self.mtu,
                needed,
            });
        };
        let len = |unit| Header::SIZE + code.parity_len(usize::from(self.n), last, unit);
        let needed = len(PREFIX);
        // A parity may be rounded up by one octet.
        let spare = self.mtu.checked_sub(needed);
        let spare = spare.ok_or(ConfigError::Mtu {
            mtu: self.mtu,
            needed,
        })?;
        Ok(spare - usize::from(len(PREFIX + spare) > self.mtu))
    }

    /// The shape of a block of `n` source packets.
    pub(crate) fn shape(&self, n: u8) -> Shape {
        let scheme = (self.m > 0).then_some(self.scheme);
        Shape {
            n,
            m: self.m,
            scheme,
        }
    }
}
