//! The committed fuzz corpus, replayed on the stable tool chain.

#[path = "../../../../fuzz/src/edge.rs"]
mod checks;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/src/smpte.rs"]
mod smpte;

#[test]
fn every_file_of_the_corpus_is_taken_without_harm() {
    corpus::replay(&[("edge", checks::edge), ("smpte", smpte::smpte)]);
}
