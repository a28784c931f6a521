use layercast_core::Time;

use super::control::{Acked, CongestionControl, Window};

/// RFC 9438 5: how fast the window returns, in segments per second cubed.
pub(crate) const C: f64 = 0.4;
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
    /// Growth that is no whole byte yet.
    rest: f64,
}

impl Cubic {
    /// Bytes to add to the window for `bytes` of `acked`.
    fn growth(&mut self, cwnd: u64, mss: u64, bytes: u64, acked: &Acked) -> u64 {
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
        let segments = bytes as f64 / mss as f64;
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
        let grown = grown * mss as f64 + self.rest;
        let whole = grown as u64;
        self.rest = grown - whole as f64;
        whole
    }

    fn at(&self, t: f64) -> f64 {
        cubic(t - self.k, self.w_max)
    }
}

/// The window `t` seconds after it is back at `w_max` (RFC 9438 4.2, figure 1).
pub(crate) fn cubic(t: f64, w_max: f64) -> f64 {
    C * t * t * t + w_max
}

impl CongestionControl for Cubic {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        let bytes = window.slow_start(acked.bytes);
        if bytes > 0 {
            let (cwnd, mss) = (window.cwnd(), window.mss());
            let grown = self.growth(cwnd, mss, bytes, acked);
            window.grow(grown);
        }
    }

    /// The threshold after a loss (4.6), with fast convergence (4.7).
    fn on_loss(&mut self, window: &mut Window, flight: u64) {
        let cwnd = window.cwnd() as f64 / window.mss() as f64;
        self.w_max = if cwnd < self.w_max {
            cwnd * (1.0 + BETA) / 2.0
        } else {
            cwnd
        };
        self.prior = cwnd;
        self.epoch = None;
        window.set_ssthresh((flight as f64 * BETA) as u64);
    }

    /// 4.8: the next stage of congestion avoidance begins at its own plateau, with K = 0.
    fn on_timeout(&mut self) {
        (self.epoch, self.w_max) = (None, 0.0);
    }

    /// The clock starts again.
    fn on_idle(&mut self) {
        self.epoch = None;
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
        let mut window = Window::new(mss, u64::MAX);
        window.set_cwnd(250 * mss);
        cubic.on_loss(&mut window, 250 * mss);
        assert_eq!(window.ssthresh(), 175 * mss);
        window.set_cwnd(window.ssthresh());
        let grown = grows(&mut cubic, &mut window, Span::from_secs(10));
        let reached = grown.iter().find(|(_, cwnd)| *cwnd >= 249 * mss);
        let k = libm::cbrt(250.0 * 0.3 / 0.4);
        assert!(
            (cubic.k - 5.72).abs() < 0.01 && (k - cubic.k).abs() < 1e-9,
            "{}",
            cubic.k
        );
        let reached = reached.expect("the window returns").0;
        // It is flat around W_max: one segment below it is 1.36 s earlier.
        assert!((k - 1.6..k).contains(&reached), "{reached}");
        assert!(window.cwnd() > 260 * mss);
    }

    /// Acknowledgements of full windows with a round trip of 100 ms, for this long: seconds, and the window then.
    fn grows(cubic: &mut Cubic, window: &mut Window, span: Span) -> Vec<(f64, u64)> {
        let (mss, srtt) = (window.mss(), Span::from_ms(100));
        let (mut now, mut seen) = (Time::ZERO, Vec::new());
        while now < Time::ZERO + span {
            let before = window.cwnd();
            let acked = Acked {
                now,
                bytes: mss,
                flight: before,
                srtt,
                rtt: Some(srtt),
            };
            cubic.on_ack(window, &acked);
            assert!(window.cwnd() <= before + mss);
            seen.push((now.as_secs_f64(), window.cwnd()));
            now += srtt.mul_div(mss, window.cwnd());
        }
        seen
    }

    #[test]
    fn after_a_time_out_it_grows_from_a_plateau_of_its_own() {
        // RFC 9438 4.8: K = 0, and W_max is the window at which congestion avoidance begins: 175 + 0.4 t^3 segments, where
        // Reno would have 175 + 0.53 t / RTT.
        let mut cubic = Cubic::default();
        let mss = 1_000;
        let mut window = Window::new(mss, u64::MAX);
        window.set_cwnd(250 * mss);
        cubic.on_loss(&mut window, 250 * mss);
        window.on_timeout();
        cubic.on_timeout();
        let grown = grows(&mut cubic, &mut window, Span::from_secs(9));
        assert!(cubic.k == 0.0 && cubic.w_max < 180.0, "{cubic:?}");
        let begins = grown
            .iter()
            .find(|(_, cwnd)| *cwnd >= 175 * mss)
            .expect("slow start ends")
            .0;
        for after in [6.0, 7.0] {
            let cwnd = grown
                .iter()
                .find(|(at, _)| *at >= begins + after)
                .expect("it lasts")
                .1;
            let expected = 175.0 + 0.4 * libm::pow(after, 3.0);
            let segments = cwnd as f64 / mss as f64;
            assert!(
                (segments / expected - 1.0).abs() < 0.05,
                "{after} s: {segments} of {expected}"
            );
        }
    }

    #[test]
    fn steps_below_a_byte_are_not_lost() {
        // The plateau of a window of 9,000 segments: an acknowledgement adds a fraction of a byte.
        let mut cubic = Cubic::default();
        let mss = 1_448;
        let mut window = Window::new(mss, u64::MAX);
        window.set_cwnd(9_000 * mss);
        cubic.on_loss(&mut window, 9_000 * mss);
        window.set_cwnd(window.ssthresh());
        let k = libm::cbrt(9_000.0 * 0.3 / 0.4);
        let grown = grows(&mut cubic, &mut window, Span::from_secs(k.ceil() as u64));
        let cwnd = grown.last().expect("there are some").1 as f64 / mss as f64;
        assert!((cwnd / 9_000.0 - 1.0).abs() < 0.01, "{cwnd}");
    }
}
