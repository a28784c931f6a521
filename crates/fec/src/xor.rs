use pulp::{Arch, NullaryFnOnce};

/// XORs `src` into the beginning of `dst`, which must be at least as long.
pub(crate) fn xor_into(dst: &mut [u8], src: &[u8]) {
    for (to, from) in dst[..src.len()].iter_mut().zip(src) {
        *to ^= from;
    }
}

/// Pieces that are XORed together: their destination is loaded and stored only once.
const TOGETHER: usize = 8;

/// XORs pieces, each at its own offset, into `dst`.
pub(crate) fn xor_all<'a>(dst: &mut [u8], pieces: impl Iterator<Item = (usize, &'a [u8])>) {
    let mut some = [(0, &[][..]); TOGETHER];
    let mut count = 0;
    for piece in pieces {
        some[count] = piece;
        count += 1;
        if count == TOGETHER {
            xor_some(dst, &some);
            count = 0;
        }
    }
    xor_some(dst, &some[..count]);
}

fn xor_some(dst: &mut [u8], some: &[(usize, &[u8])]) {
    match some {
        [a, b, c, d, e, f, g, h] => xor_together(dst, [*a, *b, *c, *d, *e, *f, *g, *h]),
        [a, b, c, d, e, f, g] => xor_together(dst, [*a, *b, *c, *d, *e, *f, *g]),
        [a, b, c, d, e, f] => xor_together(dst, [*a, *b, *c, *d, *e, *f]),
        [a, b, c, d, rest @ ..] => {
            xor_together(dst, [*a, *b, *c, *d]);
            xor_some(dst, rest);
        }
        [a, b, rest @ ..] => {
            xor_together(dst, [*a, *b]);
            xor_some(dst, rest);
        }
        [(offset, piece)] => xor_into(&mut dst[*offset..], piece),
        [] => {}
    }
}

/// Octets of a step: they fit a few registers, so that a step has no branches.
const STEP: usize = 128;

fn xor_together<const K: usize>(dst: &mut [u8], pieces: [(usize, &[u8]); K]) {
    let from = pieces.iter().map(|it| it.0).max().unwrap_or(0);
    let end = pieces
        .iter()
        .map(|it| it.0 + it.1.len())
        .min()
        .unwrap_or(0)
        .max(from);
    let to = end - (end - from) % STEP;
    for (offset, piece) in pieces {
        // Handles the ends outside the common range.
        let (before, after) = piece.split_at(piece.len().min(from - offset));
        xor_into(&mut dst[offset..], before);
        let begin = offset + before.len();
        let common = after.len().min(to.saturating_sub(begin));
        xor_into(&mut dst[begin + common..], &after[common..]);
    }
    if from < to {
        let pieces = pieces.map(|(offset, piece)| &piece[from - offset..to - offset]);
        // Uses the widest registers of the processor.
        Arch::new().dispatch(Together {
            dst: &mut dst[from..to],
            pieces,
        });
    }
}

/// XORs pieces of the length of the destination, a multiple of [`STEP`].
struct Together<'a, const K: usize> {
    dst: &'a mut [u8],
    pieces: [&'a [u8]; K],
}

impl<const K: usize> NullaryFnOnce for Together<'_, K> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (step, out) in self.dst.as_chunks_mut::<STEP>().0.iter_mut().enumerate() {
            let mut sum = *out;
            for piece in self.pieces {
                let piece = &piece[step * STEP..][..STEP];
                for (sum, octet) in sum.iter_mut().zip(piece) {
                    *sum ^= octet;
                }
            }
            *out = sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_at_any_place_are_added(
            pieces in prop::collection::vec((0_usize..90, prop::collection::vec(any::<u8>(), 0..400)), 0..20),
        ) {
            let (mut found, mut expected) = ([0; 500], [0; 500]);
            xor_all(&mut found, pieces.iter().map(|it| (it.0, &it.1[..])));
            for (offset, piece) in &pieces {
                for (at, octet) in piece.iter().enumerate() {
                    expected[offset + at] ^= octet;
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
