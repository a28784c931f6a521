use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use reed_solomon_simd::engine::DefaultEngine;
use reed_solomon_simd::rate::{LowRateDecoder, LowRateEncoder, RateDecoder, RateEncoder};

use crate::code::{check_block, present, restore};
use crate::unit::{unit_len, write};
use crate::{Code, CodeError, Decoded, Scheme};

/// Reed-Solomon over GF(2^16) by FFT, of the crate `reed-solomon-simd` (the code of Leopard).
///
/// Always the variant in which a parity does not depend on how many there are ("low rate"), so that more can follow.
/// Parities are a unit long, rounded up to an even number of octets. The first use in a process fills tables of the
/// field, which takes some tens of milliseconds.
#[derive(Default)]
pub struct ReedSolomon {
    encoder: Option<LowRateEncoder<DefaultEngine>>,
    decoder: Option<LowRateDecoder<DefaultEngine>>,
    unit: Vec<u8>,
}

impl fmt::Debug for ReedSolomon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReedSolomon")
    }
}

/// The words of the field have two octets.
fn even(octets: usize) -> usize {
    octets.next_multiple_of(2)
}

/// An encoder for blocks of `n`, of which the first parities are wanted; `None`: impossible.
fn encoder(
    slot: &mut Option<LowRateEncoder<DefaultEngine>>,
    n: usize,
    parities: usize,
    len: usize,
) -> Option<&mut LowRateEncoder<DefaultEngine>> {
    match &mut *slot {
        Some(encoder) => encoder.reset(n, parities, len).ok()?,
        none => *none = LowRateEncoder::new(n, parities, len, DefaultEngine::new(), None).ok(),
    }
    slot.as_mut()
}

/// The same for a decoder.
fn decoder(
    slot: &mut Option<LowRateDecoder<DefaultEngine>>,
    n: usize,
    parities: usize,
    len: usize,
) -> Option<&mut LowRateDecoder<DefaultEngine>> {
    match &mut *slot {
        Some(decoder) => decoder.reset(n, parities, len).ok()?,
        none => *none = LowRateDecoder::new(n, parities, len, DefaultEngine::new(), None).ok(),
    }
    slot.as_mut()
}

impl Code for ReedSolomon {
    fn scheme(&self) -> Scheme {
        Scheme::ReedSolomon
    }

    fn parity_len(&self, _n: usize, _index: usize, unit: usize) -> usize {
        even(unit)
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
        let Some(last) = parities.end.checked_sub(1).filter(|_| !parities.is_empty()) else {
            return Ok(());
        };
        let n = payloads.len();
        self.scheme().check(n, last)?;
        let len = even(unit_len(payloads)?);
        self.unit.resize(len, 0);
        let impossible = CodeError::Parity {
            n,
            index: last,
            most: 0,
        };
        let encoder = encoder(&mut self.encoder, n, parities.end, len).ok_or(impossible)?;
        for payload in payloads {
            write(payload, &mut self.unit);
            encoder
                .add_original_shard(&self.unit)
                .map_err(|_| impossible)?;
        }
        let result = encoder.encode().map_err(|_| impossible)?;
        result.recovery_iter().skip(parities.start).for_each(put);
        Ok(())
    }

    fn decode(
        &mut self,
        payloads: &mut [Option<Bytes>],
        unit: usize,
        parities: &[(usize, Bytes)],
    ) -> Result<Decoded, CodeError> {
        check_block(self, payloads, unit, parities)?;
        let Some(last) = parities.iter().map(|it| it.0).max() else {
            return Ok(Decoded::default());
        };
        let (n, len) = (payloads.len(), even(unit));
        self.unit.resize(len, 0);
        let impossible = CodeError::Parity {
            n,
            index: last,
            most: 0,
        };
        let decoder = decoder(&mut self.decoder, n, last + 1, len).ok_or(impossible)?;
        for (source, payload) in present(payloads) {
            write(payload, &mut self.unit);
            decoder
                .add_original_shard(source, &self.unit)
                .map_err(|_| impossible)?;
        }
        for (index, parity) in parities {
            decoder
                .add_recovery_shard(*index, parity)
                .map_err(|_| impossible)?;
        }
        let result = decoder.decode().map_err(|_| impossible)?;
        Ok(restore(payloads, result.restored_original_iter()))
    }
}
