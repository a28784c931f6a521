//! The committed fuzz corpus, replayed on the stable tool chain: streams behind the size of a group, and cells.

#[path = "../../../fuzz/src/picture.rs"]
mod checks;
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_is_carried_without_harm() {
    corpus::replay(&[
        ("aal5_plus", checks::aal5_plus),
        ("cell_file", checks::cell_file),
    ]);
}
