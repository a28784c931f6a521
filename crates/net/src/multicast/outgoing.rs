use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use layercast_wire::multicast::Packet;

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

    /// Adds a packet for each of the addresses.
    pub fn push(&mut self, to: &Arc<[SocketAddr]>, packet: &Packet) {
        if to.is_empty() {
            return;
        }
        let len = packet.encoded_len();
        match self.runs.back_mut() {
            Some(run)
                if run.next == 0 && Arc::ptr_eq(&run.to, to) && run.batch.takes(len, false) =>
            {
                run.batch.bytes += len;
                run.batch.count += 1;
                packet.encode_into(&mut run.bytes);
            }
            _ => {
                let mut bytes = self.spare.pop().unwrap_or_default();
                packet.encode_into(&mut bytes);
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
        }
    }

    /// Hands what waits to the kernel; `false` if it is full and must be asked again.
    pub fn flush(&mut self, udp: &mut Udp) -> bool {
        while let Some(run) = self.runs.front_mut() {
            for &to in &run.to[run.next..] {
                if !udp.send_batch(to, run.batch, &run.bytes) {
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
