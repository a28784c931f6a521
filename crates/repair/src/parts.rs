//! Datagrams that are too long for their path, in parts.

use bytes::{Bytes, BytesMut};

use crate::message::Head;

/// Most parts of a datagram.
pub const MAX_PARTS: u8 = 8;
/// Datagrams of which some parts have come and others not yet, at most; beyond, the oldest is given up.
const OPEN: usize = 16;

/// The parts of one datagram.
#[derive(Debug)]
struct Datagram {
    session: u16,
    number: u16,
    parts: Vec<Option<Bytes>>,
}

/// Puts datagrams together again of which a link carries parts.
///
/// State is bounded: 16 datagrams of [`MAX_PARTS`] parts.
#[derive(Default, Debug)]
pub struct Parts {
    /// Oldest first.
    open: Vec<Datagram>,
}

impl Parts {
    /// Takes the `content` of a part with the header `head`; gives the datagram if it is whole. Other headers than [`Head::Part`] are none of a
    /// part.
    pub fn take(&mut self, head: &Head, content: Bytes) -> Option<Bytes> {
        let Head::Part {
            session,
            number,
            index,
            count,
        } = *head
        else {
            return None;
        };
        let is_it = |it: &Datagram| {
            it.session == session && it.number == number && it.parts.len() == usize::from(count)
        };
        let at = self.open.iter().position(is_it).unwrap_or_else(|| {
            if self.open.len() == OPEN {
                self.open.remove(0);
            }
            self.open.push(Datagram {
                session,
                number,
                parts: vec![None; count.into()],
            });
            self.open.len() - 1
        });
        *self.open[at].parts.get_mut(usize::from(index))? = Some(content);
        if self.open[at].parts.iter().any(Option::is_none) {
            return None;
        }
        let whole = self.open.remove(at);
        let mut octets = BytesMut::new();
        whole
            .parts
            .iter()
            .flatten()
            .for_each(|part| octets.extend_from_slice(part));
        Some(octets.freeze())
    }
}

/// The parts of `datagram`, `count` of about the same length, each with its header in front, which names the datagram by `session` and `number`.
pub fn split(
    datagram: &[u8],
    (session, number): (u16, u16),
    count: u8,
) -> impl Iterator<Item = (Head, &[u8])> {
    let len = datagram.len().div_ceil(count.max(1).into()).max(1);
    let count = datagram.chunks(len).count() as u8;
    let heads = (0..count).map(move |index| Head::Part {
        session,
        number,
        index,
        count,
    });
    heads.zip(datagram.chunks(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_any_order_make_the_datagram_and_others_are_bounded() {
        let mut parts = Parts::default();
        for count in 2..=MAX_PARTS {
            let datagram: Vec<u8> = (0..1_225_u32).map(|n| n as u8).collect();
            let mut pieces: Vec<_> = split(&datagram, (3, count.into()), count).collect();
            assert_eq!(pieces.len(), usize::from(count));
            pieces.reverse();
            for (n, (head, piece)) in (1..).zip(pieces) {
                let whole = parts.take(&head, Bytes::copy_from_slice(piece));
                assert_eq!(whole.is_some(), n == count);
                assert!(whole.is_none_or(|it| it == datagram));
            }
        }
        for number in 0..1_000 {
            let datagram = [number as u8; 100];
            let (head, piece) = split(&datagram, (3, number), 2).next().unwrap();
            assert_eq!(parts.take(&head, Bytes::copy_from_slice(piece)), None);
        }
        assert_eq!(parts.open.len(), OPEN);
    }
}
