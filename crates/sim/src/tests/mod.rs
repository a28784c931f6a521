//! Tests of the simulator as a whole that need to see into it.

#[path = "../../tests/all/golden/corpus.rs"]
#[expect(dead_code, reason = "layered flows have no calendar")]
mod corpus;
mod shuffle;
