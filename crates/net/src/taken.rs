//! Addresses in use: a process that was killed keeps its sockets until the kernel has ended it, which takes longer than to
//! start the next one.

use std::io;
use std::time::{Duration, Instant};

/// How long an address in use is tried again.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two attempts.
const EVERY: Duration = Duration::from_millis(50);

/// Attempts to bind one address.
#[derive(Debug, Default)]
pub(crate) struct Taken(Option<Instant>);

impl Taken {
    /// How long to wait until the next attempt after one that failed; `None` where it is no use.
    pub(crate) fn pause(&mut self, error: &io::Error) -> Option<Duration> {
        let begun = self.0.get_or_insert_with(Instant::now);
        let may_pass = error.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < PATIENCE;
        may_pass.then_some(EVERY)
    }
}
