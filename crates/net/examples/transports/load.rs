//! The data sent, and the measurements on received data.

use std::time::Duration;

use bytes::Bytes;
use layercast_net::monotonic_ns;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::Failed;

/// Bytes of a message whose delay is measured.
pub const MESSAGE: usize = 200;
const PER_SECOND: u32 = 1_000;
/// Bytes passed on in one call.
const BLOCK: usize = 64 << 10;
/// Messages before the delays count.
const WARM_UP: usize = 200;

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// What a sender sends, and when.
pub struct Load {
    /// When messages leave; without, as much as goes.
    pace: Option<Interval>,
    ends_ns: u64,
    lasts: Duration,
    block: Bytes,
    pub sent: u64,
    cpu_before: f64,
}

impl Load {
    /// Processor time since the start.
    pub fn cpu(&self) -> f64 {
        cpu_seconds() - self.cpu_before
    }

    pub fn bulk(lasts: Duration) -> Load {
        Load {
            pace: None,
            ends_ns: u64::MAX,
            lasts,
            block: Bytes::from(vec![0x5a; BLOCK]),
            sent: 0,
            cpu_before: 0.0,
        }
    }

    pub fn paced(lasts: Duration) -> Result<Load, Failed> {
        let mut pace = interval(Duration::from_secs(1) / PER_SECOND);
        pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Ok(Load {
            pace: Some(pace),
            ..Load::bulk(lasts)
        })
    }

    /// The association is there: from now on it counts.
    pub fn start(&mut self) {
        self.ends_ns = monotonic_ns() + self.lasts.as_nanos() as u64;
        self.cpu_before = cpu_seconds();
    }

    pub fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    /// Waits until the next piece is due; gives it, or `None` at the end.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(pace) = &mut self.pace {
            pace.tick().await;
        }
        let now = monotonic_ns();
        if now >= self.ends_ns {
            return None;
        }
        let piece = match self.pace {
            None => self.block.clone(),
            Some(_) => {
                let mut message = vec![0; MESSAGE];
                message[..8].copy_from_slice(&now.to_be_bytes());
                Bytes::from(message)
            }
        };
        self.sent += piece.len() as u64;
        Some(piece)
    }
}

/// What a receiver takes.
#[derive(Default)]
pub struct Taken {
    bytes: u64,
    /// When the first and the last byte came.
    times_ns: Option<(u64, u64)>,
    cpu_before: f64,
    cpu: f64,
    delays_us: Vec<f64>,
}

impl Taken {
    /// Bytes came.
    pub fn bytes(&mut self, count: usize) {
        let now = monotonic_ns();
        let (first, _) = *self.times_ns.get_or_insert_with(|| {
            self.cpu_before = cpu_seconds();
            (now, now)
        });
        self.times_ns = Some((first, now));
        self.bytes += count as u64;
    }

    /// The messages in `bytes` came, whole ones.
    pub fn messages(&mut self, bytes: &[u8]) {
        let now = monotonic_ns();
        for message in bytes.chunks_exact(MESSAGE) {
            let stamp = message
                .first_chunk()
                .map_or(now, |it| u64::from_be_bytes(*it));
            self.delays_us.push(now.saturating_sub(stamp) as f64 / 1e3);
        }
    }

    /// Everything has come.
    pub fn end(&mut self) {
        self.cpu = cpu_seconds() - self.cpu_before;
    }

    pub fn report(mut self) -> Value {
        let seconds = self
            .times_ns
            .map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
        let mut told = json!({
            "bytes": self.bytes,
            "seconds": seconds,
            "cpu_seconds": self.cpu,
        });
        if self.delays_us.len() > WARM_UP {
            let delays = &mut self.delays_us[WARM_UP..];
            delays.sort_by(f64::total_cmp);
            let at = |q: f64| delays[((delays.len() - 1) as f64 * q) as usize];
            told["messages"] = json!(delays.len());
            told["p50_us"] = json!(at(0.5));
            told["p99_us"] = json!(at(0.99));
            told["worst_us"] = json!(at(1.0));
        }
        told
    }
}
