use layercast_core::Serial;
use thiserror::Error;

use crate::Scheme;

/// The FEC header in front of each packet (specs/packet-level-fec.md 2.2), eight octets: block (4), index, n, m,
/// scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Serial number of the block; it wraps.
    pub block: Serial,
    /// Below N the index of a source packet, else N plus that of a parity.
    pub index: u8,
    /// Shape of the block; `None` while it is open: only its last source packet and its parities carry it.
    pub shape: Option<Shape>,
}

/// Shape of a closed block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Source packets, at least one.
    pub n: u8,
    /// Parities so far; `n + m` is at most 255.
    pub m: u8,
    /// The code; `None` without parities.
    pub scheme: Option<Scheme>,
}

/// Reason why octets are not an FEC header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HeaderError {
    /// Fewer than eight octets.
    #[error("{0} octets are too short for an FEC header of 8")]
    Short(usize),
    /// An unsupported code.
    #[error("unknown FEC scheme {0}")]
    Scheme(u8),
    /// The numbers contradict each other.
    #[error("index {index} is impossible in a block of {n} + {m} packets")]
    Shape {
        /// Index of the packet.
        index: u8,
        /// Source packets.
        n: u8,
        /// Parities.
        m: u8,
    },
}

impl Header {
    /// Octets of a header.
    pub const SIZE: usize = 8;

    /// Number of the parity, counted from 0; `None` for a source packet.
    pub fn parity(&self) -> Option<usize> {
        self.index.checked_sub(self.shape?.n).map(usize::from)
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; Header::SIZE] {
        let [b0, b1, b2, b3] = self.block.0.to_be_bytes();
        let (n, m, scheme) = self
            .shape
            .map_or((0, 0, None), |it| (it.n, it.m, it.scheme));
        [
            b0,
            b1,
            b2,
            b3,
            self.index,
            n,
            m,
            scheme.map_or(0, Scheme::number),
        ]
    }

    /// Decodes a header at the beginning of a packet.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] for anything that no encoder produces.
    pub fn decode(octets: &[u8]) -> Result<Header, HeaderError> {
        let Some((&[b0, b1, b2, b3, index, n, m, number], _)) = octets.split_first_chunk() else {
            return Err(HeaderError::Short(octets.len()));
        };
        let scheme = Scheme::from_number(number);
        if number != 0 && scheme.is_none() {
            return Err(HeaderError::Scheme(number));
        }
        let fits = match n {
            0 => m == 0 && number == 0 && index < u8::MAX,
            _ => n.checked_add(m).is_some_and(|all| index < all) && (m == 0) == scheme.is_none(),
        };
        if !fits {
            return Err(HeaderError::Shape { index, n, m });
        }
        Ok(Header {
            block: Serial(u32::from_be_bytes([b0, b1, b2, b3])),
            index,
            shape: (n > 0).then_some(Shape { n, m, scheme }),
        })
    }
}
