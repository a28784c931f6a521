use bytes::Bytes;

use crate::code::lost;
use crate::unit::{PREFIX, unit_len};
use crate::{Code, CodeError, Decoded};

/// A block at its sender: its payloads, and any parity of it on request.
///
/// Parities are made a few at a time ([`Code::batch`]) and those not asked for yet are kept.
#[derive(Clone, Debug)]
pub struct BlockEncoder {
    payloads: Vec<Bytes>,
    /// Parities `first..`.
    ready: Vec<Bytes>,
    first: usize,
}

impl BlockEncoder {
    /// A block of these payloads; they are shared, not copied.
    ///
    /// # Errors
    ///
    /// [`CodeError::Payload`] if one is too long.
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

    /// Parity `index`, counted from 0; the same one whenever it is asked for.
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

/// What became of a packet that was put into a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// It is new.
    New,
    /// It was here already, or there is nothing left to repair.
    Known,
    /// It cannot belong to the block: index or length are impossible.
    Refused,
}

/// A block at a receiver: what arrived of it, in any order, and what can be made of that.
///
/// Holds the octets it was given, shared, and copies none before something is missing. At most N sources and N parities
/// are kept.
#[derive(Clone, Debug)]
pub struct BlockDecoder {
    payloads: Vec<Option<Bytes>>,
    parities: Vec<(usize, Bytes)>,
    /// Octets of a unit, from the first parity on.
    unit: Option<usize>,
    longest: usize,
    arrived: usize,
    octets: usize,
    /// Packets beyond N that a code asked for after it failed.
    extra: usize,
}

impl BlockDecoder {
    /// A block of `n` source packets, none of which is here.
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

    /// Makes it a block of `n` source packets; those that it has beyond go.
    pub(crate) fn resize(&mut self, n: usize) {
        self.payloads.resize(n, None);
        let payloads = self.payloads.iter().flatten();
        let parities = self.parities.iter().map(|it| &it.1);
        self.octets = payloads.clone().chain(parities).map(Bytes::len).sum();
        self.arrived = payloads.clone().count();
        self.longest = payloads.map(Bytes::len).max().unwrap_or(0);
    }

    /// Parities that are here.
    pub(crate) fn parities(&self) -> usize {
        self.parities.len()
    }

    /// Octets that it holds.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// Source packets of the block.
    pub fn n(&self) -> usize {
        self.payloads.len()
    }

    /// Source packet `index`, if it is here.
    pub fn payload(&self, index: usize) -> Option<&Bytes> {
        self.payloads.get(index)?.as_ref()
    }

    /// Source packets that are not here, in ascending order.
    pub fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        lost(&self.payloads)
    }

    /// Packets that are needed before [`decode`](BlockDecoder::decode) can give all sources, of whatever kind; 0: it can.
    pub fn needed(&self) -> usize {
        match self.is_complete() {
            true => 0,
            false => (self.n() + self.extra).saturating_sub(self.arrived + self.parities.len()),
        }
    }

    /// Whether all source packets are here.
    pub fn is_complete(&self) -> bool {
        self.arrived == self.n()
    }

    /// Takes a source packet.
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

    /// Takes parity `index`, counted from 0.
    pub fn put_parity(&mut self, code: &dyn Code, index: usize, octets: Bytes) -> Put {
        let n = self.n();
        if code.scheme().check(n, index).is_err() {
            return Put::Refused;
        }
        // What a parity is longer than a unit depends on neither.
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

    /// Fills in what is missing.
    ///
    /// If it finds something corrupt ([`Decoded::corrupt`]), the parities are forgotten and as many are needed anew.
    ///
    /// # Errors
    ///
    /// [`CodeError::TooFew`] while packets are needed; a code that is not MDS may ask for more than N.
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
