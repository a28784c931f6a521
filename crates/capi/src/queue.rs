use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::Notify;

use crate::status::{Fault, Outcome};

/// What is taken from a socket of the asynchronous side before C asks for it.
const AHEAD: usize = 16;

/// A queue for a C program: items can be taken with a time-out, and its descriptor can be polled.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    news: Condvar,
    room: Notify,
    /// Readable while there is something to take, or nothing will ever come.
    ready: OwnedFd,
}

struct State<T> {
    waiting: VecDeque<T>,
    closed: bool,
    signalled: bool,
}

impl<T: Send + 'static> Queue<T> {
    pub fn new() -> io::Result<Arc<Queue<T>>> {
        Ok(Arc::new(Queue {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                closed: false,
                signalled: false,
            }),
            news: Condvar::new(),
            room: Notify::new(),
            ready: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        }))
    }

    /// Fills the queue from `next`, as there is room, until that has no more or the queue is closed.
    pub async fn pump(self: Arc<Self>, mut next: impl AsyncFnMut() -> Option<T>) {
        loop {
            let room = self.room.notified();
            let full = {
                let state = self.lock();
                if state.closed {
                    return;
                }
                state.waiting.len() >= AHEAD
            };
            if full {
                room.await;
                continue;
            }
            let item = tokio::select! {
                item = next() => item,
                // Closed, or there is more room than before.
                () = room => continue,
            };
            let Some(item) = item else {
                return self.close();
            };
            let mut state = self.lock();
            state.waiting.push_back(item);
            self.signal(&mut state);
        }
    }

    /// Takes the oldest by `take`, which may leave it in its place, waiting for it at most `timeout`.
    pub fn take<R>(
        &self,
        timeout: Option<Duration>,
        take: impl FnOnce(&T) -> Outcome<R>,
    ) -> Outcome<R> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock();
        loop {
            if let Some(oldest) = state.waiting.front() {
                let taken = take(oldest)?;
                state.waiting.pop_front();
                self.signal(&mut state);
                self.room.notify_one();
                return Ok(taken);
            }
            if state.closed {
                return Err(Fault::closed());
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return Err(Fault::timed_out()),
                Some(left) => {
                    let waited = self.news.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self
                    .news
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Closes the queue; items in it can still be taken.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.signal(&mut state);
        self.room.notify_one();
    }

    /// The descriptor to poll for reading.
    pub fn fd(&self) -> i32 {
        self.ready.as_raw_fd()
    }

    /// Makes the descriptor say what the queue says.
    fn signal(&self, state: &mut State<T>) {
        let ready = state.closed || !state.waiting.is_empty();
        if ready != state.signalled {
            // An eventfd that is not full takes a count, and one that is not empty gives it.
            let done = match ready {
                true => rustix::io::write(&self.ready, &1u64.to_ne_bytes()),
                false => rustix::io::read(&self.ready, &mut [0; 8]),
            };
            state.signalled = ready == done.is_ok();
        }
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A panic under the lock leaves the queue whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A time-out as C gives it: negative is forever.
pub(crate) fn timeout(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}
