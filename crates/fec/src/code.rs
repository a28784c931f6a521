use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::unit::{PREFIX, read};
use crate::{MAX_PAYLOAD, RaptorQ, ReedSolomon, XorShift};

/// The erasure code of a block; numbers are those of the FEC header (specs/packet-level-fec.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// XOR and shift by whole octets (specs/packet-level-fec.md 2.1): MDS, fastest for small blocks.
    XorShift,
    /// Reed-Solomon over GF(2^16) (the Leopard code): MDS, blocks of any size.
    ReedSolomon,
    /// RaptorQ (RFC 6330): N packets nearly always suffice; N + 2 fail for one block in millions.
    #[serde(rename = "raptorq")]
    RaptorQ,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 3] = [Scheme::XorShift, Scheme::ReedSolomon, Scheme::RaptorQ];

    /// The number in the FEC header.
    pub const fn number(self) -> u8 {
        match self {
            Scheme::XorShift => 1,
            Scheme::ReedSolomon => 3,
            Scheme::RaptorQ => 4,
        }
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::XorShift => "xor-shift",
            Scheme::ReedSolomon => "reed-solomon",
            Scheme::RaptorQ => "raptorq",
        }
    }

    /// The scheme with a number, if supported: 0 is "none"; 2 (GF(2^8)) and 5 (sliding window) are not supported.
    pub fn from_number(number: u8) -> Option<Scheme> {
        Scheme::ALL
            .into_iter()
            .find(|scheme| scheme.number() == number)
    }

    /// Creates the code, which can process any number of blocks in succession.
    pub fn code(self) -> Box<dyn Code> {
        match self {
            Scheme::XorShift => Box::new(XorShift::default()),
            Scheme::ReedSolomon => Box::new(ReedSolomon::default()),
            Scheme::RaptorQ => Box::new(RaptorQ::default()),
        }
    }

    /// Largest number of source packets in a block.
    pub const fn most_sources(self) -> usize {
        match self {
            Scheme::XorShift => 255,
            Scheme::ReedSolomon => 32_768,
            Scheme::RaptorQ => 56_403,
        }
    }

    /// Largest number of parities of a block of `n` source packets.
    pub const fn most_parities(self, n: usize) -> usize {
        match self {
            Scheme::XorShift => 255,
            Scheme::ReedSolomon => 65_536_usize.saturating_sub(n.next_power_of_two()),
            Scheme::RaptorQ => (1_usize << 24).saturating_sub(n),
        }
    }

    /// Checks that a block of `n` source packets can have parity `index`.
    ///
    /// # Errors
    ///
    /// [`CodeError::Sources`] and [`CodeError::Parity`], which name the limit.
    pub fn check(self, n: usize, index: usize) -> Result<(), CodeError> {
        let most = self.most_sources();
        if n == 0 || n > most {
            return Err(CodeError::Sources { n, most });
        }
        let most = self.most_parities(n);
        match index < most {
            true => Ok(()),
            false => Err(CodeError::Parity { n, index, most }),
        }
    }
}

/// A systematic erasure code on blocks of payloads (specs/packet-level-fec.md 2.1, 2.8).
///
/// Source packets are sent unchanged; parities are numbered from 0. A parity does not depend on how many others are
/// made, so further ones can follow later. Calls are independent: a code keeps only working memory.
pub trait Code: fmt::Debug + Send {
    /// The scheme of this code.
    fn scheme(&self) -> Scheme;

    /// Octets of parity `index` of a block of `n` units of `unit` octets each.
    fn parity_len(&self, n: usize, index: usize, unit: usize) -> usize;

    /// Number of parities that are most efficiently made together.
    fn batch(&self) -> usize;

    /// Makes the parities of a range, in order, and passes each to `put`.
    ///
    /// # Errors
    ///
    /// [`CodeError::Sources`], [`CodeError::Parity`], [`CodeError::Payload`].
    fn encode(
        &mut self,
        payloads: &[Bytes],
        parities: Range<usize>,
        put: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CodeError>;

    /// Recovers the payloads that are `None` from the others and the parities (index and octets, no duplicates).
    ///
    /// `unit` is the length of the units of the block in octets.
    ///
    /// # Errors
    ///
    /// [`CodeError::TooFew`] if more packets are needed; [`CodeError::Length`] if the length of a parity does not
    /// match the block, or a payload is longer than a unit; those of [`Code::encode`].
    fn decode(
        &mut self,
        payloads: &mut [Option<Bytes>],
        unit: usize,
        parities: &[(usize, Bytes)],
    ) -> Result<Decoded, CodeError>;
}

/// Result of decoding.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Decoded {
    /// Recovered source packets, in ascending order.
    pub recovered: Vec<usize>,
    /// Source packets whose unit is invalid after decoding (length or padding). Some received packet was corrupt, and
    /// nothing was recovered.
    pub corrupt: usize,
}

/// Reason why a block cannot be encoded or decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CodeError {
    /// The number of source packets is not supported.
    #[error("a block of {n} source packets: 1 to {most} are supported")]
    Sources {
        /// Requested number.
        n: usize,
        /// The limit of the code.
        most: usize,
    },
    /// The code has no such parity.
    #[error("parity {index} of a block of {n} source packets: at most {most} are supported")]
    Parity {
        /// Source packets of the block.
        n: usize,
        /// Requested parity.
        index: usize,
        /// The limit of the code.
        most: usize,
    },
    /// The length of a payload exceeds 16 bits.
    #[error("a payload of {octets} octets: at most {MAX_PAYLOAD} can be protected")]
    Payload {
        /// Octets of the payload.
        octets: usize,
    },
    /// The length of a packet does not match the units of the block.
    #[error("a packet of {octets} octets instead of {expected}")]
    Length {
        /// Octets of the packet.
        octets: usize,
        /// Expected length, or the largest allowed.
        expected: usize,
    },
    /// More packets are needed.
    #[error("{have} packets of the block were received: at least {needed} are needed")]
    TooFew {
        /// Packets present.
        have: usize,
        /// Packets that may suffice.
        needed: usize,
    },
}

/// Checks the input of a decoder: lengths match, and there are enough packets.
pub(crate) fn check_block(
    code: &dyn Code,
    payloads: &[Option<Bytes>],
    unit: usize,
    parities: &[(usize, Bytes)],
) -> Result<(), CodeError> {
    let n = payloads.len();
    let have = payloads.iter().flatten().count() + parities.len();
    if have < n {
        return Err(CodeError::TooFew { have, needed: n });
    }
    let most = unit.saturating_sub(PREFIX);
    if let Some(long) = payloads.iter().flatten().find(|it| it.len() > most) {
        return Err(CodeError::Length {
            octets: long.len(),
            expected: most,
        });
    }
    for (index, parity) in parities {
        code.scheme().check(n, *index)?;
        let expected = code.parity_len(n, *index, unit);
        if parity.len() != expected {
            return Err(CodeError::Length {
                octets: parity.len(),
                expected,
            });
        }
    }
    Ok(())
}

/// Stores the payloads of recovered units, or none of them if one is corrupt: all come from the same packets.
pub(crate) fn restore<'a>(
    payloads: &mut [Option<Bytes>],
    units: impl Iterator<Item = (usize, &'a [u8])>,
) -> Decoded {
    let mut decoded = Decoded::default();
    for (source, unit) in units {
        match read(unit) {
            Some(payload) => {
                payloads[source] = Some(Bytes::copy_from_slice(payload));
                decoded.recovered.push(source);
            }
            None => decoded.corrupt += 1,
        }
    }
    if decoded.corrupt > 0 {
        for source in decoded.recovered.drain(..) {
            payloads[source] = None;
        }
    }
    decoded
}

/// The source packets that are present, with their indices.
pub(crate) fn present(payloads: &[Option<Bytes>]) -> impl Iterator<Item = (usize, &Bytes)> + '_ {
    let all = payloads.iter().enumerate();
    all.filter_map(|(source, it)| Some((source, it.as_ref()?)))
}

/// The indices of the missing ones.
pub(crate) fn lost(payloads: &[Option<Bytes>]) -> impl Iterator<Item = usize> + '_ {
    let all = payloads.iter().enumerate();
    all.filter(|it| it.1.is_none()).map(|it| it.0)
}

/// Codes by scheme, each created on first use.
#[derive(Default, Debug)]
pub struct Codes(Vec<Box<dyn Code>>);

impl Codes {
    /// The code of a scheme.
    pub fn of(&mut self, scheme: Scheme) -> &mut dyn Code {
        let known = self.0.iter().position(|it| it.scheme() == scheme);
        let at = known.unwrap_or_else(|| {
            self.0.push(scheme.code());
            self.0.len() - 1
        });
        &mut *self.0[at]
    }
}
