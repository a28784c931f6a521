//! The request line: how the producers of some rings wake the one that reads them.

use std::fmt;

use crate::ring::Consumer;
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// When a producer raises the request line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// If the reader waits. Nothing is missed.
    RaceFree,
    /// If the ring was empty before, the rule of the paper. Test and insertion are two steps, so a reader that empties the
    /// ring between them sleeps on: for simulations in one thread.
    Literal,
}

/// What wakes the reader of one or more rings (specs/user-to-user-qos.md 2.2).
///
/// The reader [arms](RequestLine::arm) it and, if that says so, blocks until the function given is called. Producers call it
/// at most once for each time that the line was armed.
pub struct RequestLine {
    rule: Rule,
    waiting: AtomicBool,
    signals: AtomicU64,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl RequestLine {
    /// A line that calls `wake` from the thread of a producer: it must not block.
    pub fn new(rule: Rule, wake: impl Fn() + Send + Sync + 'static) -> RequestLine {
        RequestLine {
            rule,
            waiting: AtomicBool::new(false),
            signals: AtomicU64::new(0),
            wake: Box::new(wake),
        }
    }

    /// Called by the reader when it found all rings empty. True: it may block until it is woken. False: something came
    /// meanwhile, and it is to read on.
    pub fn arm(&self, rings: &[Consumer]) -> bool {
        if self.rule == Rule::Literal {
            return rings.iter().all(Consumer::is_empty);
        }
        self.waiting.store(true, Ordering::Relaxed);
        // Either the producer sees that we wait, or we see what it has published.
        fence(Ordering::SeqCst);
        if rings.iter().all(Consumer::is_empty) {
            return true;
        }
        self.waiting.store(false, Ordering::Relaxed);
        false
    }

    /// How often the line was raised.
    pub fn signals(&self) -> u64 {
        self.signals.load(Ordering::Relaxed)
    }

    pub(crate) fn rule(&self) -> Rule {
        self.rule
    }

    /// Called by a producer after it has published an event.
    #[inline]
    pub(crate) fn published(&self, was_empty: bool) {
        match self.rule {
            Rule::RaceFree => {
                fence(Ordering::SeqCst);
                if self.waiting.load(Ordering::Relaxed)
                    && self.waiting.swap(false, Ordering::AcqRel)
                {
                    self.raise();
                }
            }
            Rule::Literal if was_empty => self.raise(),
            Rule::Literal => {}
        }
    }

    #[cold]
    fn raise(&self) {
        self.signals.fetch_add(1, Ordering::Relaxed);
        (self.wake)();
    }
}

impl fmt::Debug for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLine")
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}
