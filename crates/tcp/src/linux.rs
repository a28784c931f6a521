use layercast_core::{Span, Time};

use super::control::{Acked, CongestionControl, Window};
use super::cubic::{C, cubic};
use super::hystart::Rounds;

/// What a loss leaves of the window: 717 of 1024.
const BETA: f64 = 717.0 / 1024.0;
/// Growth of the window that Reno would have, in segments for each window acknowledged: at all times, where RFC 9438 has 1 above
/// the window of the last loss. In Linux a segment for each 15/8 windows.
const ALPHA: f64 = 8.0 / 15.0;
/// As long as there was no loss, a segment is added for this number of segments acknowledged, at least.
const FIRST: f64 = 20.0;
/// HyStart begins with this window, in segments.
const LOW_WINDOW: u64 = 16;
/// Acknowledgements that follow each other so fast are one train.
const TRAIN_GAP: Span = Span::from_ms(2);
/// Samples of a round before its least round trip counts.
const SAMPLES: u32 = 8;
/// The round trip may grow by an eighth, but by no less and no more than these.
const DELAY: (Span, Span) = (Span::from_ms(4), Span::from_ms(16));

/// CUBIC as Linux has it (`tcp_cubic.c`, 5.15 to 6.18): windows of whole segments, the growth of Reno at its slower rate for good,
/// HyStart. Recovery is that of RFC 6675; Linux reduces the window by PRR meanwhile.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Linux {
    /// When this stage of congestion avoidance began.
    epoch: Option<Time>,
    /// The window of the last loss, after fast convergence; 0: none.
    w_max: f64,
    origin: f64,
    k: f64,
    w_est: f64,
    /// Segments acknowledged since the window grew.
    counted: f64,
    least_rtt: Option<Span>,
    slow_start: HyStart,
}

impl Linux {
    /// For how many segments acknowledged one is added (`bictcp_update`).
    fn each(&mut self, cwnd: u64, acked: &Acked, segments: f64) -> f64 {
        let window = cwnd as f64;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                (self.k, self.origin) = match self.w_max > window {
                    true => (libm::cbrt((self.w_max - window) / C), self.w_max),
                    false => (0.0, window),
                };
                self.w_est = window;
                *self.epoch.insert(acked.now)
            }
        };
        let ahead = self.least_rtt.unwrap_or(acked.srtt);
        let t = (acked.now.since(epoch) + ahead).as_secs_f64();
        let target = cubic(t - self.k, self.origin).floor();
        self.w_est += ALPHA * segments / window;
        let most = target.max(self.w_est.floor());
        let each = match most > window {
            true => window / (most - window),
            false => 100.0 * window,
        };
        let each = if self.w_max == 0.0 {
            each.min(FIRST)
        } else {
            each
        };
        each.max(2.0)
    }
}

impl CongestionControl for Linux {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        let mss = window.mss();
        if let Some(rtt) = acked.rtt {
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let bytes = if window.cwnd() < window.ssthresh() {
            let ends = self
                .slow_start
                .ends(window.cwnd() / mss, acked, self.least_rtt);
            if ends {
                window.set_ssthresh(window.cwnd());
            }
            // In full, however much an acknowledgement covers.
            let counted = acked.bytes.min(window.ssthresh() - window.cwnd());
            window.grow(counted);
            acked.bytes - counted
        } else {
            acked.bytes
        };
        if bytes > 0 {
            let (cwnd, segments) = (window.cwnd() / mss, bytes as f64 / mss as f64);
            let each = self.each(cwnd.max(1), acked, segments);
            // What was counted while more were needed is worth one segment (`tcp_cong_avoid_ai`).
            let mut whole = 0;
            if self.counted >= each {
                (self.counted, whole) = (0.0, 1);
            }
            self.counted += segments;
            let more = (self.counted / each).floor();
            self.counted -= more * each;
            window.grow((whole + more as u64) * mss);
        }
    }

    fn on_loss(&mut self, window: &mut Window, _: u64) {
        let mss = window.mss();
        let cwnd = (window.cwnd() / mss) as f64;
        self.w_max = match cwnd < self.w_max {
            true => (cwnd * (1.0 + BETA) / 2.0).floor(),
            false => cwnd,
        };
        self.epoch = None;
        window.set_ssthresh((cwnd * BETA) as u64 * mss);
    }

    fn on_timeout(&mut self) {
        *self = Linux::default();
    }

    fn on_idle(&mut self) {
        self.epoch = None;
    }
}

/// Leaves slow start before the queue is full (Ha and Rhee 2011): when the acknowledgements of a round take half of a round trip
/// to come, or round trips grow.
#[derive(Clone, Copy, Default, Debug)]
struct HyStart {
    rounds: Rounds,
    round_start: Option<Time>,
    last: Time,
    samples: u32,
    least: Option<Span>,
}

impl HyStart {
    fn ends(&mut self, cwnd: u64, acked: &Acked, least_ever: Option<Span>) -> bool {
        if self.rounds.begins(acked) {
            self.round_start = Some(acked.now);
            (self.last, self.samples, self.least) = (acked.now, 0, None);
        }
        let (Some(start), Some(rtt), Some(least_ever)) = (self.round_start, acked.rtt, least_ever)
        else {
            return false;
        };
        if cwnd < LOW_WINDOW {
            return false;
        }
        let mut found = false;
        if acked.now.since(self.last) <= TRAIN_GAP {
            self.last = acked.now;
            found = acked.now.since(start) > least_ever.mul_div(1, 2);
        }
        let least = *self
            .least
            .insert(self.least.map_or(rtt, |least| least.min(rtt)));
        self.samples += 1;
        let more = least_ever.mul_div(1, 8).clamp(DELAY.0, DELAY.1);
        found | (self.samples > SAMPLES && least > least_ever + more)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cubic::Cubic;
    use super::*;

    /// The mean window, in segments, with a loss after each `interval` segments and a round trip of `rtt`.
    fn mean_window(control: &mut dyn CongestionControl, interval: u64, rtt: Span) -> f64 {
        let mss = 1_448;
        let mut window = Window::new(mss, u64::MAX);
        window.set_cwnd(20 * mss);
        control.on_loss(&mut window, 20 * mss);
        window.set_cwnd(window.ssthresh());
        let (mut now, mut trips, mut segments) = (Time::ZERO, 0.0, 0);
        for epoch in 0..60 {
            for _ in 0..interval {
                let flight = window.cwnd();
                let acked = Acked {
                    now,
                    bytes: mss,
                    flight,
                    srtt: rtt,
                    rtt: Some(rtt),
                };
                now += rtt.mul_div(mss, flight);
                if epoch >= 20 {
                    trips += mss as f64 / flight as f64;
                    segments += 1;
                }
                control.on_ack(&mut window, &acked);
            }
            let flight = window.cwnd();
            control.on_loss(&mut window, flight);
            window.set_cwnd(window.ssthresh());
        }
        f64::from(segments) / trips
    }

    #[test]
    fn with_short_round_trips_it_is_slower_than_the_standard() {
        // Whole segments: from floor(.7 W) to W a segment more after each 15/8 windows, 100 segments from loss to loss at 1 %. RFC
        // 9438 has no whole segments, and grows by 1 instead of .53 of one above the window of the last loss.
        let (interval, rtt) = (100, Span::from_ms(20));
        let linux = mean_window(&mut Linux::default(), interval, rtt);
        let standard = mean_window(&mut Cubic::default(), interval, rtt);
        let sent = |top: u64| ((top as f64 * BETA) as u64..=top).sum::<u64>() as f64 / ALPHA;
        let top = (1..)
            .find(|&top| sent(top) >= interval as f64)
            .expect("windows grow");
        let levels = top + 1 - (top as f64 * BETA) as u64;
        let law = interval as f64 * ALPHA / levels as f64;
        assert!((linux / law - 1.0).abs() < 0.04, "{linux} beside {law}");
        assert!(standard > 1.05 * linux, "{standard} {linux}");
    }

    #[test]
    fn with_long_round_trips_both_are_the_same_curve() {
        let (interval, rtt) = (50_000, Span::from_ms(100));
        let linux = mean_window(&mut Linux::default(), interval, rtt);
        let standard = mean_window(&mut Cubic::default(), interval, rtt);
        // RFC 9438 5.1, equation 6, less what fast convergence gives to others.
        let law = 1.054 * libm::pow(0.1 * interval as f64, 0.75);
        assert!(
            (0.9 * law..law).contains(&linux),
            "{linux} beside {law}, {standard}"
        );
        assert!((linux / standard - 1.0).abs() < 0.03, "{linux} {standard}");
    }

    /// Slow start over a path of `bdp` segments at 100 ms, whose queue makes round trips longer: the window at its end.
    fn slow_start(bdp: f64) -> u64 {
        let mss = 1_000;
        let mut window = Window::new(mss, u64::MAX);
        window.set_cwnd(10 * mss);
        let mut linux = Linux::default();
        let mut now = Time::ZERO + Span::from_secs(1);
        // Windows are sent in bursts of a round trip, which the path stretches to its rate.
        while window.cwnd() < window.ssthresh() && window.cwnd() < 100 * bdp as u64 * mss {
            let round = window.cwnd() / mss;
            let start = now;
            for n in 0..round {
                let at = n as f64 / bdp * 0.1;
                // The queue that the first half of the round has left.
                let waits = (at - 0.05 * round as f64 / bdp).max(0.0);
                let acked = Acked {
                    now: start + Span::from_secs_f64(at),
                    bytes: mss,
                    flight: round * mss,
                    srtt: Span::from_ms(100),
                    rtt: Some(Span::from_secs_f64(0.1 + waits)),
                };
                linux.on_ack(&mut window, &acked);
            }
            now = start + Span::from_secs_f64(0.1_f64.max(round as f64 / bdp * 0.1));
        }
        window.cwnd() / mss
    }

    #[test]
    fn slow_start_ends_before_the_window_is_twice_what_the_path_holds() {
        for bdp in [100.0, 400.0, 1_600.0] {
            let left = slow_start(bdp) as f64;
            // When half of a round trip of a round has come: its window was a half of what the path holds at least, and all at most.
            assert!((bdp..1.51 * bdp).contains(&left), "{left} of {bdp}");
        }
    }
}
