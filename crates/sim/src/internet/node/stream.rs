//! Streams of bytes that users give to their machines.

use layercast_wire::Payload;

/// Passes the rest of a stream to its machine, as far as the machine takes it, at most `most` bytes at a time;
/// `u64::MAX` bytes have no end. A closed stream takes nothing.
pub(crate) fn hand_over<E>(
    left: &mut u64,
    chunk: u64,
    mut take: impl FnMut(&Payload) -> Result<usize, E>,
) {
    while *left > 0 {
        let chunk = (*left).min(chunk);
        let Ok(taken) = take(&Payload::Zeros(chunk as u32)) else {
            *left = 0;
            break;
        };
        if *left != u64::MAX {
            *left -= taken as u64;
        }
        if (taken as u64) < chunk {
            break;
        }
    }
}
