//! The committed fuzz corpus, replayed on the stable tool chain.

#[path = "../../../fuzz/src/atm.rs"]
mod checks;
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_is_decoded_without_harm() {
    corpus::replay(&[("atm_signal", checks::signal)]);
}
