//! The golden corpus as it is.

#[path = "corpus.rs"]
pub mod corpus;

#[test]
fn golden_runs_of_layered_flows() {
    corpus::mets::corpus().check();
}

#[test]
fn golden_runs_of_internetworks() {
    corpus::internet::corpus().check();
}

#[test]
fn golden_runs_of_groups() {
    corpus::group::corpus().check();
}
