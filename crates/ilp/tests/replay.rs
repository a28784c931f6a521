//! The committed fuzz corpus, replayed on the stable tool chain.

#[path = "../../../fuzz/src/ilp.rs"]
mod checks;
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_is_taken_without_harm() {
    corpus::replay(&[("ilp", checks::ilp)]);
}
