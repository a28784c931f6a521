use layercast_core::Time;

use super::congestion::Acked;

/// RFC 9438 5: how fast the window returns, in segments per second cubed.
const C: f64 = 0.4;
/// RFC 9438 4.6: what of the window is left after a loss.
const BETA: f64 = 0.7;

/// The growth of CUBIC in congestion avoidance (RFC 9438 4); windows in segments.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cubic {
    /// When this stage of congestion avoidance began.
    epoch: Option<Time>,
    w_max: f64,
    /// Seconds until the window is at `w_max` again.
    k: f64,
    /// What Reno would have.
    w_est: f64,
    /// The window before the last reduction.
    prior: f64,
}

impl Cubic {
    /// Bytes to add to the window for `acked`.
    pub(crate) fn growth(&mut self, cwnd: u64, mss: u64, acked: Acked) -> u64 {
        let window = cwnd as f64 / mss as f64;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                if self.w_max > window {
                    self.k = libm::cbrt((self.w_max - window) / C);
                } else {
                    (self.k, self.w_max) = (0.0, window);
                }
                self.w_est = window;
                *self.epoch.insert(acked.now)
            }
        };
        let segments = acked.bytes as f64 / mss as f64;
        // 4.3: as fair to Reno as Reno itself, from where the last reduction began.
        let alpha = if self.w_est < self.prior {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        } else {
            1.0
        };
        self.w_est += alpha * segments / window;
        let t = acked.now.since(epoch).as_secs_f64();
        let grown = if self.at(t) < self.w_est {
            (self.w_est - window).max(0.0)
        } else {
            let target = self.at(t + acked.srtt.as_secs_f64());
            let target = target.clamp(window, 1.5 * window);
            (target - window) / window * segments
        };
        (grown * mss as f64) as u64
    }

    /// The threshold after a loss (4.6), with fast convergence (4.7).
    pub(crate) fn on_loss(&mut self, cwnd: u64, flight: u64, mss: u64) -> u64 {
        let window = cwnd as f64 / mss as f64;
        self.w_max = if window < self.w_max {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        self.prior = window;
        self.epoch = None;
        (flight as f64 * BETA) as u64
    }

    /// The clock starts again.
    pub(crate) fn restart(&mut self) {
        self.epoch = None;
    }

    fn at(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.w_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::Span;

    #[test]
    fn the_window_returns_to_where_it_was_after_k_seconds() {
        // RFC 9438 4.2: K = cbrt(W_max (1 - beta) / C); 4.22 s for 250 segments.
        let mut cubic = Cubic::default();
        let mss = 1_000;
        let threshold = cubic.on_loss(250 * mss, 250 * mss, mss);
        assert_eq!(threshold, 175 * mss);
        let (mut cwnd, mut now) = (threshold, Time::ZERO);
        let rtt = Span::from_ms(100);
        let mut reached = None;
        while now < Time::ZERO + Span::from_secs(10) {
            let acked = Acked {
                now,
                bytes: mss,
                flight: cwnd,
                srtt: rtt,
            };
            let before = cwnd;
            cwnd += cubic.growth(cwnd, mss, acked);
            assert!(cwnd < before + mss);
            if reached.is_none() && cwnd >= 249 * mss {
                reached = Some(now);
            }
            now += rtt.mul_div(mss, cwnd);
        }
        let k = libm::cbrt(250.0 * 0.3 / 0.4);
        assert!(
            (cubic.k - 5.72).abs() < 0.01 && (k - cubic.k).abs() < 1e-9,
            "{}",
            cubic.k
        );
        let reached = reached.expect("the window returns").as_secs_f64();
        // It is flat around W_max: one segment below it is 1.36 s earlier.
        assert!((k - 1.6..k).contains(&reached), "{reached}");
        assert!(cwnd > 260 * mss);
    }
}
