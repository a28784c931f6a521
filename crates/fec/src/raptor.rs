use std::ops::Range;

use bytes::Bytes;
use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder,
    SourceBlockEncoder,
};

use crate::code::{check_block, lost, present, restore};
use crate::unit::{unit_len, write};
use crate::{Code, CodeError, Decoded, Scheme};

/// RaptorQ (RFC 6330) by the crate `raptorq`: each block is one source block; parity 0 is its first repair symbol.
///
/// Not MDS: N packets, many of them parities, fail with a probability of about 1/256; each further packet divides it
/// by 256.
#[derive(Default, Debug)]
pub struct RaptorQ {
    units: Vec<u8>,
}

/// The parameters of a block of `n` symbols for the library.
fn parameters(n: usize, unit: usize) -> Result<ObjectTransmissionInformation, CodeError> {
    let symbol = u16::try_from(unit).map_err(|_| CodeError::Payload { octets: unit })?;
    Ok(ObjectTransmissionInformation::new(
        (n * unit) as u64,
        symbol,
        1,
        1,
        1,
    ))
}

impl Code for RaptorQ {
    fn scheme(&self) -> Scheme {
        Scheme::RaptorQ
    }

    fn parity_len(&self, _n: usize, _index: usize, unit: usize) -> usize {
        unit
    }

    fn batch(&self) -> usize {
        16
    }

    fn encode(
        &mut self,
        payloads: &[Bytes],
        parities: Range<usize>,
        put: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CodeError> {
        if parities.is_empty() {
            return Ok(());
        }
        let (n, unit) = (payloads.len(), unit_len(payloads)?);
        self.scheme().check(n, parities.end - 1)?;
        self.units.resize(n * unit, 0);
        for (payload, out) in payloads.iter().zip(self.units.chunks_exact_mut(unit)) {
            write(payload, out);
        }
        let encoder = SourceBlockEncoder::new(0, &parameters(n, unit)?, &self.units);
        let packets = encoder.repair_packets(parities.start as u32, parities.len() as u32);
        packets.iter().for_each(|it| put(it.data()));
        Ok(())
    }

    fn decode(
        &mut self,
        payloads: &mut [Option<Bytes>],
        unit: usize,
        parities: &[(usize, Bytes)],
    ) -> Result<Decoded, CodeError> {
        check_block(self, payloads, unit, parities)?;
        let n = payloads.len();
        let symbol =
            |id: usize, octets: Vec<u8>| EncodingPacket::new(PayloadId::new(0, id as u32), octets);
        let mut packets = Vec::with_capacity(n + parities.len());
        for (source, payload) in present(payloads) {
            let mut octets = vec![0; unit];
            write(payload, &mut octets);
            packets.push(symbol(source, octets));
        }
        packets.extend(
            parities
                .iter()
                .map(|(index, parity)| symbol(n + index, parity.to_vec())),
        );
        let have = packets.len();
        let mut decoder = SourceBlockDecoder::new(0, &parameters(n, unit)?, (n * unit) as u64);
        let Some(units) = decoder.decode(packets) else {
            return Err(CodeError::TooFew {
                have,
                needed: have + 1,
            });
        };
        let lost: Vec<usize> = lost(payloads).collect();
        let units = lost.iter().map(|&it| (it, &units[it * unit..][..unit]));
        Ok(restore(payloads, units))
    }
}
