use layercast_core::{Span, Time};

/// Bytes that leave immediately: what one call of the kernel takes.
const BATCH: usize = 64 << 10;
/// Sends as close as that are taken for those of one turn of a task.
const CLOSE: Span = Span::from_us(50);

/// Decides which sends leave in their own system call, and which wait for those after them.
///
/// A single send should not wait for a task switch, and many small ones in a row should not cost one system
/// call each. So the first leaves immediately. Those close behind it wait until the task of the socket runs,
/// which is when the user's task waits, or until they fill a batch.
#[derive(Default)]
pub(super) struct Coalescer {
    /// When something was sent last, if the task of the socket has not had its turn since.
    last: Option<Time>,
    /// Bytes that wait.
    waiting: usize,
}

impl Coalescer {
    /// `bytes` were sent at `now`: returns whether they, and the waiting ones, leave.
    pub(super) fn flushes(&mut self, now: Time, bytes: usize) -> bool {
        let first = self.last.is_none_or(|last| now.since(last) > CLOSE);
        self.last = Some(now);
        self.waiting += bytes;
        let flushes = first || self.waiting >= BATCH;
        if flushes {
            self.waiting = 0;
        }
        flushes
    }

    /// Whether something waits for the task of the socket, which knows of it.
    pub(super) fn holds(&self) -> bool {
        self.waiting > 0
    }

    /// Everything leaves now.
    pub(super) fn flush(&mut self) {
        self.waiting = 0;
    }

    /// The task of the socket has its turn.
    pub(super) fn turn(&mut self) {
        *self = Coalescer::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn one_that_comes_alone_leaves_at_once() {
        let mut coalescer = Coalescer::default();
        for us in [0, 51, 1_000, 1_051] {
            assert!(coalescer.flushes(at(us), 200));
            assert!(!coalescer.holds());
        }
        coalescer.turn();
        assert!(coalescer.flushes(at(1_052), 200), "in a turn of its own");
    }

    #[test]
    fn those_close_behind_wait_for_the_turn() {
        let mut coalescer = Coalescer::default();
        assert!(coalescer.flushes(at(0), 200));
        assert!(!coalescer.flushes(at(1), 200) && !coalescer.flushes(at(50), 200));
        assert!(coalescer.holds());
        coalescer.turn();
        assert!(!coalescer.holds() && coalescer.flushes(at(51), 200));
    }

    #[test]
    fn what_waits_leaves_with_one_that_does_not_and_when_it_fills_a_batch() {
        let mut coalescer = Coalescer::default();
        assert!(coalescer.flushes(at(0), 512));
        let waited = (1..=1_000)
            .take_while(|_| !coalescer.flushes(at(1), 512))
            .count();
        assert_eq!(waited, (64 << 10) / 512 - 1);
        assert!(!coalescer.holds() && !coalescer.flushes(at(2), 512));
        assert!(coalescer.flushes(at(60), 512) && !coalescer.holds());
        assert!(coalescer.flushes(at(61), 64 << 10), "a batch by itself");
    }
}
