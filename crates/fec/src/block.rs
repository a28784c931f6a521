use bytes::Bytes;

use crate::code::lost;
use crate::unit::{PREFIX, unit_len};
use crate::{Code, CodeError, Decoded};

/// The sender's side of a block: its payloads, and any of its parities on request.
///
/// Parities are made in batches ([`Code::batch`]); those not yet requested are kept.
#[derive(Clone, Debug)]
pub struct BlockEncoder {
    payloads: Vec<Bytes>,
    /// Parities from number `first` on.
    ready: Vec<Bytes>,
    first: usize,
}

impl BlockEncoder {
    /// Creates a block of these payloads, which are shared, not copied.
    ///
    /// # Errors
    ///
    /// [`CodeError::Payload`] if a payload is too long.
    pub fn new(payloads: Vec<Bytes>) -> Result<BlockEncoder, CodeError> {
        unit_len(&payloads)?;
        Ok(BlockEncoder {
            payloads,
            ready: Vec::new(),
            first: 0,
        })
    }

    /// The source packets.
    pub fn payloads(&self) -> &[Bytes] {
        &self.payloads
    }

    /// Returns parity `index`, counted from 0. Repeated calls return the same parity.
    ///
    /// # Errors
    ///
    /// [`CodeError::Sources`] or [`CodeError::Parity`] if the code has no such parity.
    pub fn parity(&mut self, code: &mut dyn Code, index: usize) -> Result<Bytes, CodeError> {
        let n = self.payloads.len();
        code.scheme().check(n, index)?;
        let known = index
            .checked_sub(self.first)
            .and_then(|at| self.ready.get(at));
        if let Some(parity) = known {
            return Ok(parity.clone());
        }
        let end = (index + code.batch()).min(code.scheme().most_parities(n));
        (self.first, self.ready) = (index, Vec::with_capacity(end - index));
        let ready = &mut self.ready;
        let mut put = |octets: &[u8]| ready.push(Bytes::copy_from_slice(octets));
        code.encode(&self.payloads, index..end, &mut put)?;
        Ok(self.ready[0].clone())
    }
}

/// Result of adding a packet to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The packet is new.
    New,
    /// The packet is a duplicate, or nothing is left to repair.
    Known,
    /// The packet cannot belong to the block: its index or length is impossible.
    Refused,
}

/// The receiver's side of a block: collects packets in any order and recovers missing sources.
///
/// Shares the given octets and copies none unless something is missing. Keeps at most N sources and N parities.
#[derive(Clone, Debug)]
pub struct BlockDecoder {
    payloads: Vec<Option<Bytes>>,
    parities: Vec<(usize, Bytes)>,
    /// Octets of a unit, known from the first parity on.
    unit: Option<usize>,
    longest: usize,
    arrived: usize,
    octets: usize,
    /// Packets beyond N that the code requested after a failed attempt.
    extra: usize,
}

impl BlockDecoder {
    /// Creates a block of `n` source packets without any of them.
    pub fn new(n: usize) -> BlockDecoder {
        BlockDecoder {
            payloads: vec![None; n],
            parities: Vec::new(),
            unit: None,
            longest: 0,
            arrived: 0,
            octets: 0,
            extra: 0,
        }
    }

    /// Changes the number of source packets to `n`; sources beyond are discarded.
    pub(crate) fn resize(&mut self, n: usize) {
        self.payloads.resize(n, None);
        let payloads = self.payloads.iter().flatten();
        let parities = self.parities.iter().map(|it| &it.1);
        self.octets = payloads.clone().chain(parities).map(Bytes::len).sum();
        self.arrived = payloads.clone().count();
        self.longest = payloads.map(Bytes::len).max().unwrap_or(0);
    }

    /// Parities received.
    pub(crate) fn parities(&self) -> usize {
        self.parities.len()
    }

    /// Octets held.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// Source packets of the block.
    pub fn n(&self) -> usize {
        self.payloads.len()
    }

    /// Source packet `index`, if it is present.
    pub fn payload(&self, index: usize) -> Option<&Bytes> {
        self.payloads.get(index)?.as_ref()
    }

    /// Missing source packets, in ascending order.
    pub fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        lost(&self.payloads)
    }

    /// Number of further packets, sources or parities, that [`decode`](BlockDecoder::decode) needs; 0 if it can run.
    pub fn needed(&self) -> usize {
        match self.is_complete() {
            true => 0,
            false => (self.n() + self.extra).saturating_sub(self.arrived + self.parities.len()),
        }
    }

    /// Whether all source packets are present.
    pub fn is_complete(&self) -> bool {
        self.arrived == self.n()
    }

    /// Adds a source packet.
    pub fn put_source(&mut self, index: usize, payload: Bytes) -> Put {
        let fits = self.unit.is_none_or(|unit| payload.len() + PREFIX <= unit);
        match self.payloads.get_mut(index) {
            Some(Some(_)) => Put::Known,
            Some(place) if fits && payload.len() <= crate::MAX_PAYLOAD => {
                self.longest = self.longest.max(payload.len());
                self.arrived += 1;
                self.octets += payload.len();
                *place = Some(payload);
                Put::New
            }
            _ => Put::Refused,
        }
    }

    /// Adds parity `index`, counted from 0.
    pub fn put_parity(&mut self, code: &dyn Code, index: usize, octets: Bytes) -> Put {
        let n = self.n();
        if code.scheme().check(n, index).is_err() {
            return Put::Refused;
        }
        // The length of a parity beyond that of a unit depends on neither the unit nor the payloads.
        let Some(unit) = octets.len().checked_sub(code.parity_len(n, index, 0)) else {
            return Put::Refused;
        };
        let rounded = |unit| code.parity_len(n, index, unit) == octets.len();
        let known = self.unit.unwrap_or(unit);
        if unit < self.longest + PREFIX || !rounded(known) {
            return Put::Refused;
        }
        let full = self.parities.len() >= n + self.extra;
        if full || self.is_complete() || self.parities.iter().any(|it| it.0 == index) {
            return Put::Known;
        }
        self.unit = Some(known);
        self.octets += octets.len();
        self.parities.push((index, octets));
        Put::New
    }

    /// Recovers the missing source packets.
    ///
    /// If it detects corruption ([`Decoded::corrupt`]), it discards the parities and needs as many new ones.
    ///
    /// # Errors
    ///
    /// [`CodeError::TooFew`] while packets are missing. A code that is not MDS may need more than N.
    pub fn decode(&mut self, code: &mut dyn Code) -> Result<Decoded, CodeError> {
        if self.is_complete() {
            return Ok(Decoded::default());
        }
        let (n, have) = (self.n(), self.arrived + self.parities.len());
        let needed = n + self.extra;
        let unit = self.unit.filter(|_| have >= needed);
        let unit = unit.ok_or(CodeError::TooFew { have, needed })?;
        let decoded = code.decode(&mut self.payloads, unit, &self.parities);
        if let Err(CodeError::TooFew { needed, .. }) = decoded {
            self.extra = needed.saturating_sub(n);
        }
        let decoded = decoded?;
        let payloads = decoded
            .recovered
            .iter()
            .filter_map(|&it| self.payloads[it].as_ref());
        self.octets += payloads.map(Bytes::len).sum::<usize>();
        self.arrived += decoded.recovered.len();
        if decoded.corrupt > 0 {
            let parities = self.parities.drain(..);
            self.octets -= parities.map(|it| it.1.len()).sum::<usize>();
        }
        Ok(decoded)
    }
}
