mod few;

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use reed_solomon_simd::engine::DefaultEngine;
use reed_solomon_simd::rate::{LowRateDecoder, LowRateEncoder, RateDecoder, RateEncoder};

use self::few::Few;
use crate::code::{check_block, lost, present, restore};
use crate::unit::{unit_len, write};
use crate::{Code, CodeError, Decoded, Scheme};

/// Reed-Solomon over GF(2^16) by FFT, of the crate `reed-solomon-simd` (the Leopard code).
///
/// Always uses the variant in which a parity does not depend on the number of parities ("low rate"), so that further
/// ones can follow. Parities have the length of a unit, rounded up to an even number of octets. The first use in a
/// process fills the tables of the field, which takes some tens of milliseconds.
#[derive(Default)]
pub struct ReedSolomon {
    encoder: Option<LowRateEncoder<DefaultEngine>>,
    decoder: Option<LowRateDecoder<DefaultEngine>>,
    few: Few,
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

/// An encoder for blocks of `n`, for the first parities; `None` if impossible.
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

/// A decoder for the same blocks.
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
        let missing = lost(payloads).count();
        let Some(last) = parities.iter().map(|it| it.0).max().filter(|_| missing > 0) else {
            return Ok(Decoded::default());
        };
        let len = even(unit);
        self.unit.resize(len, 0);
        if missing <= few::MOST {
            let block = (&*payloads, &mut self.unit[..]);
            if let Some(units) = self.few.solve(&mut self.encoder, block, parities) {
                let units = units.iter().map(|(source, unit)| (*source, &unit[..]));
                return Ok(restore(payloads, units));
            }
        }
        self.transform(payloads, len, parities, last)
    }
}

impl ReedSolomon {
    /// Decodes by the transform of the whole block.
    fn transform(
        &mut self,
        payloads: &mut [Option<Bytes>],
        len: usize,
        parities: &[(usize, Bytes)],
        last: usize,
    ) -> Result<Decoded, CodeError> {
        let n = payloads.len();
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Payloads of several lengths, some missing, and parities with arbitrary numbers.
    fn blocks() -> impl Strategy<Value = (Vec<Bytes>, Vec<usize>, Vec<usize>)> {
        let payload = vec(any::<u8>(), 0..150).prop_map(Bytes::from);
        vec(payload, 1..40).prop_flat_map(|payloads| {
            let all: Vec<usize> = (0..payloads.len()).collect();
            let most = payloads.len().min(few::MOST);
            let missing = proptest::sample::subsequence(all, 1..=most);
            let parities = proptest::sample::subsequence((0..90).collect::<Vec<usize>>(), 40);
            (Just(payloads), missing, parities)
        })
    }

    proptest! {
        #[test]
        fn few_missing_sources_are_those_of_the_transform((payloads, missing, numbers) in blocks()) {
            let mut code = ReedSolomon::default();
            let mut parities = Vec::new();
            for &number in &numbers[..missing.len()] {
                let put = &mut |it: &[u8]| parities.push((number, Bytes::copy_from_slice(it)));
                code.encode(&payloads, number..number + 1, put).unwrap();
            }
            let unit = unit_len(&payloads).unwrap();
            let mut solved: Vec<Option<Bytes>> = payloads.iter().cloned().map(Some).collect();
            for &it in &missing {
                solved[it] = None;
            }
            let mut transformed = solved.clone();
            let mut empty = vec![0; even(unit)];
            let found = code.few.solve(&mut code.encoder, (&solved, &mut empty), &parities);
            let found = found.expect("any of its parities suffice");
            prop_assert_eq!(found.iter().map(|it| it.0).collect::<Vec<_>>(), missing);
            code.decode(&mut solved, unit, &parities).unwrap();
            let last = numbers[parities.len() - 1];
            code.transform(&mut transformed, even(unit), &parities, last).unwrap();
            prop_assert_eq!(&solved, &transformed);
            prop_assert!(solved.iter().flatten().eq(&payloads));
        }
    }

    #[test]
    fn a_parity_that_came_twice_is_no_second_equation() {
        let payloads: Vec<Bytes> = (0..4).map(|it| Bytes::from(vec![it; 9])).collect();
        let mut code = ReedSolomon::default();
        let mut parity = Bytes::new();
        let put = &mut |it: &[u8]| parity = Bytes::copy_from_slice(it);
        code.encode(&payloads, 2..3, put).unwrap();
        let block = [
            None,
            None,
            Some(payloads[2].clone()),
            Some(payloads[3].clone()),
        ];
        let twice = [(2, parity.clone()), (2, parity)];
        let mut unit = vec![0; 12];
        let solved = code
            .few
            .solve(&mut code.encoder, (&block, &mut unit), &twice);
        assert!(solved.is_none());
    }
}
