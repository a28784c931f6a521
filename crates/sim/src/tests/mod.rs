//! Tests of the simulator as a whole that need to see into it.

#[path = "../../tests/all/golden/corpus.rs"]
mod corpus;
mod shuffle;
