//! The queue of one viewer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::message::Chunk;

/// Pictures and frames of sound that wait for a viewer, some seconds; more are skipped up to the next key picture.
const MOST: usize = 256;
/// Octets that wait for a viewer.
const MOST_OCTETS: usize = 8 << 20;

/// The queue of a viewer. What it has no room for is skipped, and everything from there to the next key picture.
#[derive(Debug, Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    chunks: VecDeque<Arc<Chunk>>,
    octets: usize,
    /// Pictures are skipped up to the next key picture.
    waits_for_key: bool,
    skipped: u64,
}

impl Queue {
    /// A queue that begins with the pictures since the last key picture.
    pub fn starting_with(chunks: &[Arc<Chunk>]) -> Queue {
        let queue = Queue::default();
        queue.lock().waits_for_key = true;
        for chunk in chunks {
            queue.push(chunk);
        }
        queue
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a chunk, or skips it.
    pub fn push(&self, chunk: &Arc<Chunk>) {
        let mut inner = self.lock();
        if inner.chunks.len() >= MOST || inner.octets + chunk.message.len() > MOST_OCTETS {
            // The queue is older than what the viewer wants to see by now.
            inner.skipped += inner.chunks.iter().filter(|it| it.is_picture).count() as u64;
            inner.chunks.clear();
            inner.octets = 0;
            inner.waits_for_key = true;
        }
        if chunk.is_picture {
            if inner.waits_for_key && !chunk.is_key {
                inner.skipped += 1;
                return;
            }
            inner.waits_for_key = false;
        }
        inner.octets += chunk.message.len();
        inner.chunks.push_back(Arc::clone(chunk));
        drop(inner);
        self.filled.notify_one();
    }

    /// The next chunk, once it is there.
    pub async fn next(&self) -> Arc<Chunk> {
        loop {
            {
                let mut inner = self.lock();
                if let Some(chunk) = inner.chunks.pop_front() {
                    inner.octets -= chunk.message.len();
                    return chunk;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Pictures that were skipped because the viewer was too slow.
    pub fn skipped(&self) -> u64 {
        self.lock().skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(is_key: bool, number: i64) -> Arc<Chunk> {
        Arc::new(Chunk::picture(is_key, (number, number), &[0; 100]))
    }

    async fn next(queue: &Queue) -> i64 {
        queue.next().await.time_us
    }

    #[tokio::test]
    async fn a_slow_viewer_continues_with_the_next_key_picture() {
        let queue = Queue::starting_with(&[picture(true, 0)]);
        for number in 1..=MOST as i64 + 10 {
            queue.push(&picture(false, number));
        }
        queue.push(&picture(true, 1_000));
        queue.push(&picture(false, 1_001));
        assert_eq!((next(&queue).await, next(&queue).await), (1_000, 1_001));
        assert_eq!(queue.skipped(), MOST as u64 + 11);
    }

    #[tokio::test]
    async fn a_viewer_gets_nothing_before_a_key_picture_but_sound() {
        let queue = Queue::starting_with(&[]);
        queue.push(&picture(false, 1));
        queue.push(&Arc::new(Chunk::sound(2, &[1])));
        queue.push(&picture(true, 3));
        assert_eq!((next(&queue).await, next(&queue).await), (2, 3));
    }
}
