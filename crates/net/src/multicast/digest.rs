use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use std::collections::HashMap;

/// Octets that are hashed together: a power of two, so that pieces are subtrees of BLAKE3's tree.
pub const PIECE: u64 = 1 << 20;

/// The BLAKE3 digest of a content of known size whose pieces become known in any order.
///
/// Neighbouring subtrees are merged as soon as both are known, so that pieces in order take no memory beyond one value
/// for each level of the tree (BLAKE3, section 2.1).
#[derive(Debug)]
pub struct TreeDigest {
    size: u64,
    pieces: u64,
    /// Pieces that are known.
    known: u64,
    /// Values of whole subtrees: by the logarithm of their pieces, and their number among those of that size.
    subtrees: HashMap<(u32, u64), ChainingValue>,
    /// The digest of a content of a single piece.
    single: Option<[u8; 32]>,
}

impl TreeDigest {
    /// Of `size` octets, none of which is known.
    pub fn new(size: u64) -> TreeDigest {
        TreeDigest {
            size,
            pieces: size.div_ceil(PIECE).max(1),
            known: 0,
            subtrees: HashMap::new(),
            single: None,
        }
    }

    /// Pieces.
    pub fn len(&self) -> u64 {
        self.pieces
    }

    /// First octet of a piece and the first behind it.
    pub fn range(&self, piece: u64) -> (u64, u64) {
        let first = piece * PIECE;
        (first, (first + PIECE).min(self.size))
    }

    /// The octets of a piece, each piece once.
    pub fn put(&mut self, piece: u64, octets: &[u8]) {
        let mut hasher = Hasher::new();
        self.known += 1;
        if self.pieces == 1 {
            self.single = Some(*hasher.update(octets).finalize().as_bytes());
            return;
        }
        hasher.set_input_offset(self.range(piece).0);
        let mut value = hasher.update(octets).finalize_non_root();
        let (mut level, mut number) = (0, piece);
        // The two subtrees of the root stay apart: they are merged in another way.
        while 2 << level < self.pieces
            && let Some(other) = self.subtrees.remove(&(level, number ^ 1))
        {
            let (left, right) = match number & 1 {
                0 => (value, other),
                _ => (other, value),
            };
            value = merge_subtrees_non_root(&left, &right, Mode::Hash);
            (level, number) = (level + 1, number >> 1);
        }
        self.subtrees.insert((level, number), value);
    }

    /// The digest, once all pieces are known.
    pub fn digest(&self) -> Option<[u8; 32]> {
        if self.known < self.pieces {
            return None;
        }
        if self.pieces == 1 {
            return self.single;
        }
        let left = half(self.pieces);
        let hash = merge_subtrees_root(
            &self.node(0, left)?,
            &self.node(left, self.pieces - left)?,
            Mode::Hash,
        );
        Some(*hash.as_bytes())
    }

    /// The value of the subtree of `pieces` pieces from `first` on.
    fn node(&self, first: u64, pieces: u64) -> Option<ChainingValue> {
        if pieces.is_power_of_two() {
            let level = pieces.trailing_zeros();
            if let Some(value) = self.subtrees.get(&(level, first >> level)) {
                return Some(*value);
            }
        }
        if pieces < 2 {
            return None;
        }
        let left = half(pieces);
        let (a, b) = (
            self.node(first, left)?,
            self.node(first + left, pieces - left)?,
        );
        Some(merge_subtrees_non_root(&a, &b, Mode::Hash))
    }
}

/// Pieces of the left subtree: the largest power of two below all.
fn half(pieces: u64) -> u64 {
    pieces.div_ceil(2).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_give_the_digest_of_the_whole() {
        for size in [
            0,
            1,
            PIECE - 1,
            PIECE,
            PIECE + 1,
            3 * PIECE + 7,
            8 * PIECE,
            9 * PIECE + 1,
            13 * PIECE - 5,
        ] {
            let octets: Vec<u8> = (0..size).map(|at| ((at * 31) >> 7) as u8).collect();
            let mut tree = TreeDigest::new(size);
            // Odd ones from behind, then the others.
            let odd = (0..tree.len()).rev().filter(|it| it % 2 == 1);
            for piece in odd.chain((0..tree.len()).step_by(2)) {
                assert_eq!(tree.digest(), None);
                let (from, to) = tree.range(piece);
                tree.put(piece, &octets[from as usize..to as usize]);
            }
            let whole = *blake3::hash(&octets).as_bytes();
            assert!(tree.subtrees.len() <= 6, "subtrees are merged");
            assert_eq!(tree.digest(), Some(whole), "{size} octets");
        }
    }
}
