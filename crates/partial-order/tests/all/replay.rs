//! The committed fuzz corpus, replayed on the stable tool chain.

use bytes::Bytes;
use layercast_partial_order::pdu::Pdu;

#[path = "../../../../fuzz/src/partial_order.rs"]
mod checks;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_is_taken_without_harm() {
    corpus::replay(&[("partial_order", checks::partial_order)]);
}

#[test]
fn the_valid_seeds_of_the_corpus_decode() {
    // As examples/corpus.rs makes them.
    let datagrams: corpus::Decodes = |mut data| {
        while let Some((len, rest)) = data.split_first_chunk::<2>() {
            let len = usize::from(u16::from_be_bytes(*len));
            let datagram = Bytes::copy_from_slice(&rest[..len.min(rest.len())]);
            if rest.len() < len || Pdu::decode(datagram).is_err() {
                return false;
            }
            data = &rest[len..];
        }
        true
    };
    corpus::valid_seeds_decode(&[("partial_order", &["all"], datagrams)]);
}
