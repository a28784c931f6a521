//! Users of an endpoint in other processes: their messages, and random schedules of what they do.

mod codec;
mod samples;
mod schedules;

#[path = "../../../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../../../fuzz/src/xtpd.rs"]
mod xtpd;
