use std::collections::BTreeMap;

use bytes::Bytes;
use layercast_fec::{BlockDecoder, BlockEncoder, Code, CodeError, Put, Scheme};
use layercast_wire::Payload;

use crate::{Bits, ContentError, Geometry, Rebuilt};

/// Makes the parities of an object's blocks, for a [`Source`](crate::Source) in files or memory.
///
/// Keeps the last block, since parities of one block are requested in succession.
#[derive(Debug)]
pub struct ParityMaker {
    code: Box<dyn Code>,
    open: Option<(u32, BlockEncoder)>,
}

impl ParityMaker {
    /// Creates a maker of parities of this code.
    pub fn new(scheme: Scheme) -> ParityMaker {
        ParityMaker {
            code: scheme.code(),
            open: None,
        }
    }

    /// Returns parity `index` of a block; `read` returns a source packet.
    pub fn parity(
        &mut self,
        geometry: &Geometry,
        block: u32,
        index: u32,
        mut read: impl FnMut(u64) -> Result<Bytes, ContentError>,
    ) -> Result<Payload, ContentError> {
        let failed = |error: CodeError| ContentError(error.to_string());
        let mut open = match self.open.take() {
            Some((at, open)) if at == block => open,
            _ => {
                let (first, end) = geometry.range(block);
                let payloads: Result<Vec<Bytes>, ContentError> =
                    (first..end).map(&mut read).collect();
                BlockEncoder::new(payloads?).map_err(failed)?
            }
        };
        let parity = open
            .parity(&mut *self.code, index as usize)
            .map_err(failed)?;
        self.open = Some((block, open));
        Ok(Payload::Bytes(parity))
    }
}

/// Keeps parities until their blocks can be rebuilt, for a [`Store`](crate::Store) in files or memory.
#[derive(Debug)]
pub struct Rebuilder {
    code: Box<dyn Code>,
    most: usize,
    octets: usize,
    kept: BTreeMap<u32, Vec<(u32, Bytes)>>,
}

impl Rebuilder {
    /// Creates a rebuilder with room for `most` octets of parities. Parities beyond are not kept and are requested
    /// again.
    pub fn new(scheme: Scheme, most: usize) -> Rebuilder {
        Rebuilder {
            code: scheme.code(),
            most,
            octets: 0,
            kept: BTreeMap::new(),
        }
    }

    /// Keeps a parity; `false` if there is no room.
    pub fn put(&mut self, block: u32, index: u32, payload: &Payload) -> bool {
        if self.octets + payload.len() > self.most {
            return false;
        }
        let bytes = match payload {
            Payload::Bytes(bytes) => bytes.clone(),
            Payload::Zeros(len) => vec![0; *len as usize].into(),
        };
        self.octets += bytes.len();
        debug_assert!(self.octets <= self.most);
        self.kept.entry(block).or_default().push((index, bytes));
        true
    }

    /// Discards the parities of a complete block.
    pub fn forget(&mut self, block: u32) {
        let kept = self.kept.remove(&block).unwrap_or_default();
        self.octets -= kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    }

    /// Discards all parities.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.octets = 0;
    }

    /// Rebuilds the missing packets of a block: `read` returns a packet that is present, `write` stores a missing
    /// one.
    pub fn rebuild<E>(
        &mut self,
        geometry: &Geometry,
        block: u32,
        held: &Bits,
        mut read: impl FnMut(u64) -> Result<Bytes, E>,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<Rebuilt, E> {
        let (first, end) = geometry.range(block);
        let n = (end - first) as usize;
        let mut decoder = BlockDecoder::new(n);
        for number in first..end {
            if held.get(number) {
                decoder.put_source((number - first) as usize, read(number)?);
            }
        }
        let mut kept = self.kept.remove(&block).unwrap_or_default();
        self.octets -= kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        kept.retain(|(index, bytes)| {
            let put = decoder.put_parity(&*self.code, *index as usize, bytes.clone());
            put != Put::Refused
        });
        let decoded = decoder.decode(&mut *self.code);
        let fits = |index: usize| {
            let payload = decoder.payload(index);
            payload.is_some_and(|it| it.len() == geometry.len(first + index as u64))
        };
        match decoded {
            Ok(decoded) if decoded.corrupt == 0 && decoded.recovered.iter().all(|&it| fits(it)) => {
                for index in decoded.recovered {
                    let payload = decoder.payload(index).map_or(&[][..], |it| it);
                    write(first + index as u64, payload)?;
                }
                Ok(Rebuilt::Whole)
            }
            Err(CodeError::TooFew { have, needed }) if have < needed => {
                // The parities are kept: a few more suffice.
                self.octets += kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                self.kept.insert(block, kept);
                debug_assert!(self.octets <= self.most, "a failed attempt adds no parity");
                Ok(Rebuilt::Lacks((needed - have).min(n) as u16))
            }
            _ => Ok(Rebuilt::Wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parities_beyond_the_limit_are_refused_until_others_are_discarded() {
        let mut kept = Rebuilder::new(Scheme::ReedSolomon, 25);
        let parity = Payload::Zeros(10);
        assert!(kept.put(0, 0, &parity) && kept.put(1, 0, &parity));
        assert!(!kept.put(1, 1, &parity));
        kept.forget(0);
        assert!(kept.put(1, 1, &parity));
        assert!(!kept.put(1, 2, &parity));
    }
}
