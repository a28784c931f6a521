//! The committed fuzz corpus, replayed on the stable tool chain.

use crate::receive_checks as checks;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_is_taken_without_harm() {
    corpus::replay(&[("receive", checks::receive)]);
}
