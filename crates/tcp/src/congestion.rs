use layercast_core::{Span, Time};

use super::cubic::Cubic;
use super::{Quirks, TcpConfig, Variant};

/// A threshold that is never reached: slow start until the first loss.
const INFINITE: u64 = 1 << 30;

/// What an acknowledgement of new data tells congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) now: Time,
    /// Bytes newly acknowledged.
    pub(crate) bytes: u64,
    /// Bytes that were unacknowledged before.
    pub(crate) flight: u64,
    /// Smoothed round trip.
    pub(crate) srtt: Span,
}

/// Congestion window and slow-start threshold, in bytes (RFC 5681), with CUBIC's growth if wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Congestion {
    cwnd: u64,
    ssthresh: u64,
    mss: u64,
    initial: u64,
    max: u64,
    quirks: Quirks,
    cubic: Option<Cubic>,
}

impl Congestion {
    pub(crate) fn new(config: &TcpConfig) -> Congestion {
        let mut congestion = Congestion {
            cwnd: 0,
            ssthresh: INFINITE,
            mss: 0,
            initial: u64::from(config.initial_window),
            max: config.max_cwnd.map_or(INFINITE, u64::from),
            quirks: config.quirks,
            cubic: (config.variant == Variant::Cubic).then(Cubic::default),
        };
        congestion.set_mss(u64::from(config.mss), 0);
        congestion
    }

    /// What the handshake settled: the segment size, and the scale of the windows we may send into.
    pub(crate) fn set_mss(&mut self, mss: u64, scale: u8) {
        self.mss = mss;
        self.cwnd = self.initial * mss;
        if self.max < INFINITE {
            self.max <<= scale;
        }
    }

    pub(crate) fn cwnd(&self) -> u64 {
        self.cwnd
    }

    pub(crate) fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    pub(crate) fn set_cwnd(&mut self, cwnd: u64) {
        self.cwnd = cwnd.max(self.mss);
    }

    /// Opens the window for new data acknowledged outside of recovery.
    pub(crate) fn on_ack(&mut self, acked: Acked) {
        if self.quirks.count_acks {
            let mss = self.mss;
            let step = if self.cwnd <= self.ssthresh {
                mss
            } else if self.quirks.extra_eighth {
                mss * mss / self.cwnd + mss / 8
            } else {
                mss * mss / self.cwnd
            };
            self.cwnd = (self.cwnd + step).min(self.max);
            return;
        }
        // A window that is not used tells nothing about the path (RFC 7661).
        let slow_start = self.cwnd < self.ssthresh;
        if slow_start {
            if self.cwnd < 2 * acked.flight {
                self.cwnd += acked.bytes.min(self.mss);
            }
        } else if acked.flight + 2 * self.mss > self.cwnd {
            self.cwnd += match &mut self.cubic {
                Some(cubic) => cubic.growth(self.cwnd, self.mss, acked),
                None => (self.mss * self.mss / self.cwnd).max(1),
            };
        }
        self.cwnd = self.cwnd.min(self.max);
    }

    /// Halves the threshold for a loss: `window` is what the sender could use, `flight` what it did.
    pub(crate) fn on_loss(&mut self, window: u64, flight: u64) {
        self.ssthresh = match &mut self.cubic {
            Some(cubic) => cubic.on_loss(self.cwnd, flight, self.mss),
            None if self.quirks.count_acks => window / 2 / self.mss * self.mss,
            None => flight / 2,
        }
        .max(2 * self.mss);
    }

    /// Back to one segment after a time-out.
    pub(crate) fn on_timeout(&mut self) {
        self.cwnd = self.mss;
        if let Some(cubic) = &mut self.cubic {
            cubic.restart();
        }
    }

    /// Back to the initial window after an idle time (RFC 5681 4.1; BSD since 1990).
    pub(crate) fn on_idle(&mut self) {
        self.cwnd = self.cwnd.min(self.initial * self.mss);
        if let Some(cubic) = &mut self.cubic {
            cubic.restart();
        }
    }
}
