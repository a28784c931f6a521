use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::outbox::Batch;
use crate::udp::Udp;

/// Runs that wait for the kernel: with more, the sender makes no new ones.
const WAITING: usize = 16;

/// Packets on their way to the kernel: encoded once, however many they go to.
#[derive(Debug, Default)]
pub struct Outgoing {
    runs: VecDeque<Run>,
    spare: Vec<Vec<u8>>,
}

/// Datagrams of one size, the last one possibly shorter, and where they go, one after the other.
#[derive(Debug)]
struct Run {
    batch: Batch,
    bytes: Vec<u8>,
    to: Arc<[SocketAddr]>,
    /// Those before this one have got it.
    next: usize,
}

impl Outgoing {
    /// Whether no more should be added before something has left.
    pub fn is_full(&self) -> bool {
        self.runs.len() >= WAITING
    }

    /// Whether everything has left.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a datagram of `len` octets for each of the addresses, which `put` appends; if it appends none, nothing is
    /// sent.
    pub fn push(&mut self, to: &Arc<[SocketAddr]>, len: usize, put: impl FnOnce(&mut Vec<u8>)) {
        if to.is_empty() {
            return;
        }
        if let Some(run) = self.runs.back_mut()
            && run.next == 0
            && Arc::ptr_eq(&run.to, to)
            && run.batch.takes(len, false)
        {
            let before = run.bytes.len();
            put(&mut run.bytes);
            if run.bytes.len() > before {
                debug_assert_eq!(run.bytes.len() - before, len);
                run.batch.bytes += len;
                run.batch.count += 1;
            }
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        put(&mut bytes);
        if bytes.is_empty() {
            self.spare.push(bytes);
            return;
        }
        debug_assert_eq!(bytes.len(), len);
        let batch = Batch {
            bytes: len,
            segment: len,
            count: 1,
            congestion: false,
        };
        self.runs.push_back(Run {
            batch,
            bytes,
            to: Arc::clone(to),
            next: 0,
        });
    }

    /// Passes the queue to the kernel; `false` if it is full and must be retried.
    pub fn flush(&mut self, udp: &mut Udp) -> bool {
        while let Some(run) = self.runs.front_mut() {
            for &to in &run.to[run.next..] {
                if !udp.send_batch((None, to), run.batch, &run.bytes) {
                    return false;
                }
                run.next += 1;
            }
            if let Some(mut run) = self.runs.pop_front() {
                run.bytes.clear();
                self.spare.push(run.bytes);
            }
        }
        true
    }
}
