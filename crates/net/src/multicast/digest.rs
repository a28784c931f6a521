use std::io;

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

/// Octets that are hashed together: a power of two, so that pieces are subtrees of BLAKE3's tree.
pub const PIECE: u64 = 1 << 20;

/// The BLAKE3 digest of a content of known size whose pieces become known in any order.
#[derive(Debug)]
pub struct TreeDigest {
    size: u64,
    pieces: Vec<Option<Piece>>,
}

#[derive(Clone, Copy, Debug)]
enum Piece {
    /// Of several.
    Part(ChainingValue),
    /// There is only this one.
    Root([u8; 32]),
}

impl TreeDigest {
    /// Of so many octets, none of which is known.
    pub fn new(size: u64) -> TreeDigest {
        let count = size.div_ceil(PIECE).max(1);
        TreeDigest {
            size,
            pieces: vec![None; count as usize],
        }
    }

    /// Pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// First octet of a piece and the first behind it.
    pub fn range(&self, piece: usize) -> (u64, u64) {
        let first = piece as u64 * PIECE;
        (first, (first + PIECE).min(self.size))
    }

    /// The octets of a piece.
    pub fn put(&mut self, piece: usize, octets: &[u8]) {
        let mut hasher = Hasher::new();
        let value = match self.pieces.len() {
            1 => Piece::Root(*hasher.update(octets).finalize().as_bytes()),
            _ => {
                hasher.set_input_offset(self.range(piece).0);
                Piece::Part(hasher.update(octets).finalize_non_root())
            }
        };
        self.pieces[piece] = Some(value);
    }

    /// The digest, once all pieces are known.
    pub fn digest(&self) -> Option<[u8; 32]> {
        let parts: Option<Vec<Piece>> = self.pieces.iter().copied().collect();
        match parts?.as_slice() {
            [Piece::Root(digest)] => Some(*digest),
            parts => {
                let (left, right) = parts.split_at(half(parts.len()));
                let hash = merge_subtrees_root(&node(left)?, &node(right)?, Mode::Hash);
                Some(*hash.as_bytes())
            }
        }
    }
}

/// Pieces of the left subtree: the largest power of two below all.
fn half(pieces: usize) -> usize {
    pieces.div_ceil(2).next_power_of_two()
}

fn node(pieces: &[Piece]) -> Option<ChainingValue> {
    match pieces {
        [Piece::Part(value)] => Some(*value),
        [] | [Piece::Root(_)] => None,
        pieces => {
            let (left, right) = pieces.split_at(half(pieces.len()));
            Some(merge_subtrees_non_root(
                &node(left)?,
                &node(right)?,
                Mode::Hash,
            ))
        }
    }
}

/// The digest of what a reader gives.
///
/// # Errors
/// Those of the reader.
pub fn digest_of(reader: impl io::Read) -> io::Result<[u8; 32]> {
    let mut hasher = Hasher::new();
    hasher.update_reader(reader)?;
    Ok(*hasher.finalize().as_bytes())
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
        ] {
            let octets: Vec<u8> = (0..size).map(|at| ((at * 31) >> 7) as u8).collect();
            let mut tree = TreeDigest::new(size);
            let mut order: Vec<usize> = (0..tree.len()).collect();
            order.reverse();
            for piece in order {
                assert_eq!(tree.digest(), None);
                let (from, to) = tree.range(piece);
                tree.put(piece, &octets[from as usize..to as usize]);
            }
            let whole = *blake3::hash(&octets).as_bytes();
            assert_eq!(tree.digest(), Some(whole), "{size} octets");
            assert_eq!(digest_of(&octets[..]).unwrap(), whole);
        }
    }
}
