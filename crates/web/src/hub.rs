//! The stream of one receiver, and its viewers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

use crate::message::{Chunk, StreamInfo};
use crate::queue::Queue;

/// Octets of the running group of pictures that are kept for new viewers.
const MOST_KEPT: usize = 16 << 20;

/// Passes the stream of a receiver on to its viewers, and keeps the running group of pictures, so that a new viewer sees a picture immediately.
#[derive(Debug)]
pub struct Hub {
    inner: Mutex<Inner>,
    state: watch::Sender<State>,
    /// The flow is lost: pictures that were received before are still played, and end no outage.
    is_lost: AtomicBool,
}

/// What viewers get beside the media.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct State {
    /// The stream, once a key picture came.
    pub stream: Option<Arc<StreamInfo>>,
    /// Why nothing comes.
    pub problem: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The chunks since the last key picture, and their octets.
    group: Vec<Arc<Chunk>>,
    octets: usize,
    viewers: Vec<Weak<Queue>>,
}

impl Default for Hub {
    fn default() -> Hub {
        Hub {
            inner: Mutex::default(),
            state: watch::Sender::new(State::default()),
            is_lost: AtomicBool::new(false),
        }
    }
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue for a viewer, which ends with its last reference.
    pub fn watch(&self) -> (Arc<Queue>, watch::Receiver<State>) {
        let mut inner = self.lock();
        let queue = Arc::new(Queue::starting_with(&inner.group));
        inner.viewers.push(Arc::downgrade(&queue));
        (queue, self.state.subscribe())
    }

    /// Passes a chunk on.
    pub fn push(&self, chunk: Chunk) {
        let mut inner = self.lock();
        if chunk.is_picture && chunk.is_key {
            inner.group.clear();
            inner.octets = 0;
        }
        let chunk = Arc::new(chunk);
        // Without a key picture there is nothing to start with.
        if !inner.group.is_empty() || chunk.is_picture && chunk.is_key {
            inner.octets += chunk.message.len();
            inner.group.push(Arc::clone(&chunk));
        }
        if inner.octets > MOST_KEPT {
            inner.group.clear();
            inner.octets = 0;
        }
        inner.viewers.retain(|viewer| match viewer.upgrade() {
            Some(queue) => {
                queue.push(&chunk);
                true
            }
            None => false,
        });
    }

    /// The stream is this one from the next chunk on.
    pub fn stream(&self, info: &StreamInfo) {
        self.state.send_if_modified(|state| {
            let is_new = state.stream.as_deref() != Some(info);
            if is_new {
                state.stream = Some(Arc::new(info.clone()));
            }
            is_new
        });
    }

    /// The flow is lost until [`back`](Hub::back), for this reason.
    pub fn lost(&self, why: &str) {
        self.is_lost.store(true, Ordering::Relaxed);
        self.problem(Some(why));
    }

    /// Whether the flow is lost.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// The flow is joined again: its next key picture ends the problem.
    pub fn back(&self) {
        self.is_lost.store(false, Ordering::Relaxed);
    }

    /// What viewers get beside the media, as it changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// What keeps the receiver from getting the flow; `None` if nothing does, unless the flow is lost.
    pub fn problem(&self, problem: Option<&str>) {
        if problem.is_none() && self.is_lost() {
            return;
        }
        self.state.send_if_modified(|state| {
            let is_new = state.problem.as_deref() != problem;
            if is_new {
                state.problem = problem.map(Arc::from);
            }
            is_new
        });
    }

    /// Viewers at the moment.
    pub fn viewers(&self) -> usize {
        let inner = self.lock();
        inner
            .viewers
            .iter()
            .filter(|it| it.strong_count() > 0)
            .count()
    }

    /// The receiver starts again: new viewers get nothing of what it received before.
    pub fn restart(&self) {
        let mut inner = self.lock();
        inner.group.clear();
        inner.octets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_from_before_a_loss_do_not_end_it() {
        let hub = Hub::default();
        let state = hub.state();
        let problem = || state.borrow().problem.as_deref().map(str::to_owned);
        hub.lost("the node was stopped");
        hub.problem(None);
        assert_eq!(problem().as_deref(), Some("the node was stopped"));
        hub.back();
        assert_eq!(problem().as_deref(), Some("the node was stopped"));
        hub.problem(None);
        assert_eq!(problem(), None);
    }

    #[tokio::test]
    async fn a_viewer_who_comes_gets_the_running_group_of_pictures() {
        let hub = Hub::default();
        for (is_key, time) in [(false, 0), (true, 1), (false, 2), (true, 3), (false, 4)] {
            hub.push(Chunk::picture(is_key, (time, time), &[0; 10]));
        }
        let (queue, _state) = hub.watch();
        assert_eq!(hub.viewers(), 1);
        hub.push(Chunk::picture(false, (5, 5), &[0; 10]));
        for time in [3, 4, 5] {
            assert_eq!(queue.next().await.time_us, time);
        }
        drop(queue);
        assert_eq!(hub.viewers(), 0);
        hub.push(Chunk::picture(false, (6, 6), &[0; 10]));
        assert!(hub.lock().viewers.is_empty());
    }
}
