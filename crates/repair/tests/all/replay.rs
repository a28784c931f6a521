//! The committed fuzz corpus, replayed on the stable tool chain.

use layercast_repair::Head;

#[path = "../../../../fuzz/src/repair.rs"]
mod checks;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/src/shared_line.rs"]
mod lies;

#[test]
fn every_file_of_the_corpus_is_taken_without_harm() {
    corpus::replay(&[
        ("repair", checks::repair),
        ("shared_line", lies::shared_line),
    ]);
}

#[test]
fn the_valid_seeds_of_the_corpus_decode() {
    // As examples/repair_corpus.rs makes them.
    let datagrams: corpus::Decodes = |mut data| {
        while let Some((len, rest)) = data.split_first_chunk::<2>() {
            let len = usize::from(u16::from_be_bytes(*len));
            if rest.len() < len || Head::decode(&rest[..len]).is_err() {
                return false;
            }
            data = &rest[len..];
        }
        true
    };
    corpus::valid_seeds_decode(&[("repair", &[], datagrams)]);
}
