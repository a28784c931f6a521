//! One direction of a path: a link with a rate, delay, jitter in sequence, and loss.

use layercast_core::{CELL_SIZE, Span, Stream, Time, aal5_cells};

use super::{Path, ms};

/// IP and UDP headers, bytes.
const DATAGRAM: u64 = 28;
/// LLC and SNAP before the frame of a PDU in cells, bytes.
const ENCAPSULATION: usize = 8;

pub(super) struct Direction {
    path: Path,
    lossy: bool,
    loss: Stream,
    jitter: Stream,
    free: Time,
    last: Time,
    pub(super) bytes: u64,
    pub(super) sent: u64,
    pub(super) discarded: u64,
}

impl Direction {
    pub(super) fn new(path: &Path, lossy: bool, name: &str, seed: u64) -> Direction {
        Direction {
            path: path.clone(),
            lossy,
            loss: Stream::new(seed, &format!("{name}/loss")),
            jitter: Stream::new(seed, &format!("{name}/jitter")),
            free: Time::ZERO,
            last: Time::ZERO,
            bytes: 0,
            sent: 0,
            discarded: 0,
        }
    }

    /// When a PDU arrives; `None`: it is discarded.
    pub(super) fn carry(&mut self, bytes: usize, now: Time) -> Option<Time> {
        self.sent += 1;
        let carried = if self.path.cells {
            u64::from(aal5_cells(bytes + ENCAPSULATION)) * CELL_SIZE as u64
        } else {
            bytes as u64 + DATAGRAM
        };
        self.bytes += carried;
        // The loss module stands between the protocol and the link: what it discards takes no time of the link.
        if self.lossy && self.loss.chance(self.path.loss) {
            self.discarded += 1;
            return None;
        }
        self.free = self.free.max(now) + Span::from_secs_f64(8.0 * carried as f64 / self.path.bps);
        let jitter = self.jitter.exponential(self.path.jitter_ms);
        self.last = self
            .last
            .max(self.free + ms(self.path.delay_ms) + ms(jitter));
        Some(self.last)
    }
}
