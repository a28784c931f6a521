//! Parameter sets of H.264 and H.265 as they came.

use bytes::Bytes;

use crate::MediaError;

/// Most parameter sets kept: all that have a number in H.264, 32 SPS and 256 PPS; H.265 has fewer.
const MAX_SETS: usize = 288;
/// Longest parameter set believed; real ones have some tens of bytes.
pub(crate) const MAX_SET: usize = 4_096;
/// Bytes of all sets kept: they are repeated before each start that lacks them.
pub(crate) const MAX_BYTES: usize = 65_536;

/// Why a stream of `len` bytes has no frame: parameter sets that are not there, of which slices and sets that cannot be read tell, or
/// what is `expected`.
pub(crate) fn no_frame(
    codec: &'static str,
    len: usize,
    are_complete: bool,
    (slices, unread): (u64, u64),
    expected: &'static str,
) -> MediaError {
    match !are_complete && (slices > 0 || unread > 0) {
        true => MediaError::ParameterSets {
            codec,
            slices,
            unread,
        },
        false => MediaError::Truncated {
            offset: len as u64,
            expected,
        },
    }
}

/// The parameter sets of a stream by type and number: each is repeated behind those that it refers to.
#[derive(Default, Debug)]
pub(crate) struct Sets(Vec<(u8, u32, Bytes)>);

impl Sets {
    /// Keeps a set; whether it is new or says something new.
    pub fn keep(&mut self, kind: u8, number: u32, set: &[u8]) -> bool {
        let at = self.0.partition_point(|&(k, n, _)| (k, n) < (kind, number));
        let bytes: usize = self.all().map(Bytes::len).sum();
        let room = self.0.len() < MAX_SETS && bytes + set.len() <= MAX_BYTES;
        match self.0.get_mut(at) {
            Some((k, n, known)) if (*k, *n) == (kind, number) => {
                let changed = known[..] != *set && room;
                if changed {
                    *known = Bytes::copy_from_slice(set);
                }
                changed
            }
            _ => {
                if room {
                    let set = Bytes::copy_from_slice(set);
                    self.0.insert(at, (kind, number, set));
                }
                room
            }
        }
    }

    /// Whether there is a set of this type.
    pub fn have(&self, kind: u8) -> bool {
        self.0.iter().any(|&(it, ..)| it == kind)
    }

    /// All sets.
    pub fn all(&self) -> impl Iterator<Item = &Bytes> {
        self.0.iter().map(|(_, _, set)| set)
    }
}

/// The fraction in lowest terms; `None` if it is none, or nothing a clock can tick.
pub(crate) fn reduced(num: u32, den: u32) -> Option<(u32, u32)> {
    let (mut a, mut b) = (num, den);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let (num, den) = (num.checked_div(a)?, den.checked_div(a)?);
    let plausible = num != 0 && den != 0 && num / den <= 1_000;
    plausible.then_some((num, den))
}
