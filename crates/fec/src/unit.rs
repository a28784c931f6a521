use bytes::Bytes;

use crate::CodeError;

/// Octets of the length in front of a payload.
pub(crate) const PREFIX: usize = 2;
/// Largest payload in octets: with its length in front it fits 16 bits.
pub const MAX_PAYLOAD: usize = u16::MAX as usize - PREFIX;

/// The length prefix of the unit of a payload.
pub(crate) fn prefix(payload: &[u8]) -> [u8; PREFIX] {
    (payload.len() as u16).to_be_bytes()
}

/// Octets of each unit of a block: its longest payload and the length in front.
pub(crate) fn unit_len(payloads: &[Bytes]) -> Result<usize, CodeError> {
    let longest = payloads.iter().map(Bytes::len).max().unwrap_or(0);
    match longest <= MAX_PAYLOAD {
        true => Ok(longest + PREFIX),
        false => Err(CodeError::Payload { octets: longest }),
    }
}

/// Writes the unit of a payload, padded with zeros; `out` is at least as long as a unit of the block.
pub(crate) fn write(payload: &[u8], out: &mut [u8]) {
    let end = PREFIX + payload.len();
    out[..PREFIX].copy_from_slice(&prefix(payload));
    out[PREFIX..end].copy_from_slice(payload);
    out[end..].fill(0);
}

/// Returns the payload in a unit, unless its length exceeds the unit or the padding is not zero.
pub(crate) fn read(unit: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = unit.split_first_chunk::<PREFIX>()?;
    let (payload, padding) = rest.split_at_checked(usize::from(u16::from_be_bytes(*prefix)))?;
    padding.iter().all(|&it| it == 0).then_some(payload)
}
