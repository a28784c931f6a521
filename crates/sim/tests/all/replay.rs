//! The committed fuzz corpus, replayed on the stable tool chain.

#[path = "../../../../fuzz/src/scenario.rs"]
mod checks;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_is_a_network_that_runs_or_an_error() {
    corpus::replay(&[("scenario", checks::scenario)]);
}
