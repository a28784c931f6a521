use super::control::{Acked, CongestionControl, Reno, Window};
use super::ecn::Echo;

/// RFC 8257 4.2: the gain of the estimate, as recommended.
const G: f64 = 1.0 / 16.0;

/// DCTCP (RFC 8257): grows as Reno, and reduces the window by the share of bytes that were marked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dctcp {
    reno: Reno,
    /// The estimated share of marked bytes.
    alpha: f64,
    /// Of this window.
    acked: u64,
    marked: u64,
    window_end: u64,
}

impl Default for Dctcp {
    fn default() -> Dctcp {
        Dctcp {
            reno: Reno::default(),
            // 3.3: the most careful start.
            alpha: 1.0,
            acked: 0,
            marked: 0,
            window_end: 0,
        }
    }
}

impl CongestionControl for Dctcp {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        self.reno.on_ack(window, acked);
    }

    /// 3.5: as any other TCP.
    fn on_loss(&mut self, window: &mut Window, flight: u64) {
        self.reno.on_loss(window, flight);
    }

    /// 3.3, steps 1 to 8.
    fn on_echo(&mut self, echo: &Echo) {
        self.acked += echo.bytes;
        if echo.is_marked {
            self.marked += echo.bytes;
        }
        if echo.acked <= self.window_end {
            return;
        }
        let share = self.marked as f64 / self.acked as f64;
        self.alpha = self.alpha * (1.0 - G) + G * share;
        (self.acked, self.marked, self.window_end) = (0, 0, echo.sent);
    }

    /// 3.3, step 9.
    fn on_mark(&mut self, window: &mut Window, flight: u64) {
        self.reno.on_loss(window, flight);
        window.set_ssthresh((window.cwnd() as f64 * (1.0 - self.alpha / 2.0)) as u64);
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{Span, Time};

    use super::*;

    const MSS: u64 = 1_000;

    /// A sender alone at a switch: a round trip carries a window, all of whose segments are marked if it is above `limit`, which the
    /// path and the threshold hold together. Gives the mean of the estimate, and least and largest window, all without the start.
    fn at_a_threshold(limit: u64) -> (f64, [u64; 2]) {
        let mut dctcp = Dctcp::default();
        let mut window = Window::new(MSS, u64::MAX);
        window.set_ssthresh(limit / 2 * MSS);
        window.set_cwnd(limit / 2 * MSS);
        let (mut una, mut reduced) = (0, 0);
        let (mut estimates, mut windows) = (0.0, [u64::MAX, 0]);
        for trip in 0..8_000 {
            let sent = window.cwnd() / MSS;
            let end = una + sent * MSS;
            let is_marked = sent > limit;
            for _ in 0..sent {
                una += MSS;
                dctcp.on_echo(&Echo {
                    bytes: MSS,
                    is_marked,
                    acked: una,
                    sent: end,
                });
                if is_marked && una > reduced {
                    dctcp.on_mark(&mut window, sent * MSS);
                    window.set_cwnd(window.ssthresh());
                    reduced = end;
                } else if !is_marked {
                    dctcp.on_ack(
                        &mut window,
                        &Acked {
                            now: Time::ZERO,
                            bytes: MSS,
                            flight: sent * MSS,
                            srtt: Span::from_ms(1),
                            rtt: None,
                        },
                    );
                }
            }
            if trip >= 4_000 {
                estimates += dctcp.alpha / 4_000.0;
                windows = [windows[0].min(sent), windows[1].max(sent)];
            }
        }
        (estimates, windows)
    }

    #[test]
    fn share_of_marks_and_sawtooth_are_those_of_theory() {
        // Alizadeh et al. 2010, 3.3: alpha is about sqrt(2 / W), where the gain is below 1.386 / sqrt(2 W) (3.4).
        for limit in [60, 120] {
            let (estimate, [least, largest]) = at_a_threshold(limit);
            let theory = (2.0 / limit as f64).sqrt();
            assert!(
                (estimate / theory - 1.0).abs() < 0.15,
                "W {limit}: {estimate} of {theory}"
            );
            // One window of n is marked: the estimate is 1 / n in the mean. The sawtooth is (W + 1) alpha / 2 deep with the alpha
            // before those marks count: that after n - 1 windows without any.
            let depth = (largest - least) as f64;
            let others = libm::pow(1.0 - G, 1.0 / estimate - 1.0);
            let alpha = G * others / (1.0 - others * (1.0 - G));
            let expected = (limit as f64 + 1.0) * alpha / 2.0;
            assert!(
                (depth - expected).abs() <= 1.0,
                "W {limit}: {depth} of {expected}"
            );
        }
    }

    #[test]
    fn the_estimate_moves_by_a_sixteenth_of_each_window() {
        let mut dctcp = Dctcp::default();
        let mut una = 0;
        let mut window = |dctcp: &mut Dctcp, marked: bool| {
            una += 10 * MSS;
            dctcp.on_echo(&Echo {
                bytes: 10 * MSS,
                is_marked: marked,
                acked: una,
                sent: una,
            });
        };
        window(&mut dctcp, false);
        assert_eq!(dctcp.alpha, 15.0 / 16.0);
        window(&mut dctcp, true);
        assert_eq!(dctcp.alpha, 15.0 / 16.0 * 15.0 / 16.0 + 1.0 / 16.0);
        for _ in 0..400 {
            window(&mut dctcp, false);
        }
        // Hardly a mark: hardly a reduction.
        let mut cwnd = Window::new(MSS, u64::MAX);
        cwnd.set_cwnd(100 * MSS);
        dctcp.on_mark(&mut cwnd, 100 * MSS);
        assert!(cwnd.ssthresh() > 99 * MSS, "{}", cwnd.ssthresh());
    }
}
