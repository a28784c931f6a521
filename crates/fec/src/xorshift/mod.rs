use std::ops::Range;

use bytes::Bytes;

use crate::code::{check_block, lost, present, restore};
use crate::unit::{PREFIX, prefix, unit_len};
use crate::xor::{xor_all, xor_into};
use crate::{Code, CodeError, Decoded, Scheme};

mod peel;

/// Huitema's code of XOR and shift, in whole octets: parity `j` is the XOR of all units, that of source `i` shifted
/// by `i * j` octets, both counted from 0 (specs/packet-level-fec.md 2.1).
///
/// Parity 0 is the plain XOR; parity `j` is `(n - 1) * j` octets longer than a unit.
#[derive(Default, Debug)]
pub struct XorShift {
    /// The parity being made, or the remainders of the parities being decoded.
    work: Vec<Vec<u8>>,
    /// Recovered units.
    units: Vec<Vec<u8>>,
}

impl Code for XorShift {
    fn scheme(&self) -> Scheme {
        Scheme::XorShift
    }

    fn parity_len(&self, n: usize, index: usize, unit: usize) -> usize {
        unit + n.saturating_sub(1) * index
    }

    fn batch(&self) -> usize {
        1
    }

    fn encode(
        &mut self,
        payloads: &[Bytes],
        parities: Range<usize>,
        put: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CodeError> {
        let (n, unit) = (payloads.len(), unit_len(payloads)?);
        for index in parities {
            self.scheme().check(n, index)?;
            let len = self.parity_len(n, index, unit);
            let work = buffers(&mut self.work, 1);
            work[0].resize(len, 0);
            for (source, payload) in payloads.iter().enumerate() {
                xor_into(&mut work[0][source * index..], &prefix(payload));
            }
            let places = payloads.iter().enumerate();
            xor_all(
                &mut work[0],
                places.map(|(source, it)| (source * index + PREFIX, &it[..])),
            );
            put(&work[0]);
        }
        Ok(())
    }

    fn decode(
        &mut self,
        payloads: &mut [Option<Bytes>],
        unit: usize,
        parities: &[(usize, Bytes)],
    ) -> Result<Decoded, CodeError> {
        check_block(self, payloads, unit, parities)?;
        let lost: Vec<usize> = lost(payloads).collect();
        let mut chosen: Vec<&(usize, Bytes)> = parities.iter().collect();
        chosen.sort_unstable_by_key(|it| it.0);
        chosen.truncate(lost.len());
        let indices: Vec<usize> = chosen.iter().map(|it| it.0).collect();

        let rest = buffers(&mut self.work, chosen.len());
        for ((index, parity), rest) in chosen.iter().zip(rest.iter_mut()) {
            rest.extend_from_slice(parity);
            for (source, payload) in present(payloads) {
                xor_into(&mut rest[source * index..], &prefix(payload));
            }
            xor_all(
                rest,
                present(payloads).map(|(source, it)| (source * index + PREFIX, &it[..])),
            );
        }
        let units = buffers(&mut self.units, lost.len());
        units.iter_mut().for_each(|it| it.resize(unit, 0));
        peel::peel(&lost, &indices, rest, units);

        let units = units.iter().map(Vec::as_slice);
        Ok(restore(payloads, lost.into_iter().zip(units)))
    }
}

/// Returns `count` empty buffers that reuse earlier memory.
fn buffers(pool: &mut Vec<Vec<u8>>, count: usize) -> &mut [Vec<u8>] {
    if pool.len() < count {
        pool.resize_with(count, Vec::new);
    }
    let chosen = &mut pool[..count];
    chosen.iter_mut().for_each(Vec::clear);
    chosen
}
