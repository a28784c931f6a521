//! The committed fuzz corpus, replayed on the stable tool chain.

use layercast_sync_index::pdu::Pdu;

#[path = "../../../../fuzz/src/sync_index.rs"]
mod checks;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_is_taken_without_harm() {
    corpus::replay(&[("sync_index", checks::sync_index)]);
}

#[test]
fn the_valid_seeds_of_the_corpus_decode() {
    // As examples/sync_index_corpus.rs makes them.
    let datagrams: corpus::Decodes = |mut data| {
        while let Some((len, rest)) = data.split_first() {
            let len = usize::from(*len);
            if rest.len() < len || Pdu::decode(&rest[..len]).is_err() {
                return false;
            }
            data = &rest[len..];
        }
        true
    };
    corpus::valid_seeds_decode(&[("sync_index", &["train", "compact", "calls"], datagrams)]);
}
