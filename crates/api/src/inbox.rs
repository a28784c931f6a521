use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A queue for a user that may read it at any time, from any task; the writer bounds it.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    state: Mutex<State<T>>,
    news: Notify,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        Inbox {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                closed: false,
            }),
            news: Notify::new(),
        }
    }
}

impl<T> Inbox<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while it holds the lock; a queue is whole in any case.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something in by `put`, which keeps the bound.
    pub fn put(&self, put: impl FnOnce(&mut VecDeque<T>)) {
        put(&mut self.lock().waiting);
        self.news.notify_one();
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.news.notify_waiters();
        self.news.notify_one();
    }

    /// The oldest, if there is one now.
    pub fn try_take(&self) -> Option<T> {
        let mut state = self.lock();
        let taken = state.waiting.pop_front();
        if !state.waiting.is_empty() || state.closed {
            // Another task may wait for the rest.
            self.news.notify_one();
        }
        taken
    }

    /// The oldest, as soon as there is one; `None` after the last.
    pub async fn take(&self) -> Option<T> {
        loop {
            let news = self.news.notified();
            if let Some(taken) = self.try_take() {
                return Some(taken);
            }
            if self.lock().closed {
                return None;
            }
            news.await;
        }
    }
}
