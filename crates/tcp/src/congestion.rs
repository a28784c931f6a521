use super::control::{Acked, CongestionControl, INFINITE, Reno, Window};
use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::ecn::Echo;
use super::hystart::HyStart;
use super::linux::Linux;
use super::{Quirks, SlowStart, TcpConfig, Variant};

/// Congestion window and slow-start threshold of a connection, and what moves them.
#[derive(Debug)]
pub(crate) struct Congestion {
    window: Window,
    initial: u64,
    control: Control,
    /// Until the first slow start ends, with HyStart++.
    slow_start: Option<Box<HyStart>>,
}

/// What moves the window.
#[derive(Debug)]
enum Control {
    /// 4.4BSD-Lite counts acknowledgements.
    Lite(Quirks),
    Reno(Reno),
    Cubic(Cubic),
    Linux(Box<Linux>),
    Dctcp(Box<Dctcp>),
    /// Of the user.
    Own(Box<dyn CongestionControl>),
}

impl Control {
    fn new(config: &TcpConfig) -> Control {
        match (&config.control, config.variant) {
            (Some(own), _) => Control::Own(own.make()),
            (None, Variant::Cubic) => Control::Cubic(Cubic::default()),
            (None, Variant::Linux) => Control::Linux(Box::default()),
            (None, Variant::Dctcp) => Control::Dctcp(Box::default()),
            (None, _) if config.quirks.count_acks => Control::Lite(config.quirks),
            (None, _) => Control::Reno(Reno::default()),
        }
    }

    /// All but that of 4.4BSD-Lite.
    fn modern(&mut self) -> Option<&mut dyn CongestionControl> {
        match self {
            Control::Lite(_) => None,
            Control::Reno(reno) => Some(reno),
            Control::Cubic(cubic) => Some(cubic),
            Control::Linux(linux) => Some(linux.as_mut()),
            Control::Dctcp(dctcp) => Some(dctcp.as_mut()),
            Control::Own(own) => Some(own.as_mut()),
        }
    }
}

impl Congestion {
    pub(crate) fn new(config: &TcpConfig) -> Congestion {
        let most = config.max_cwnd.map_or(INFINITE, u64::from);
        let mut congestion = Congestion {
            window: Window::new(u64::from(config.mss), most),
            initial: u64::from(config.initial_window),
            control: Control::new(config),
            slow_start: match config.slow_start {
                SlowStart::Loss => None,
                SlowStart::HyStartPlusPlus => Some(Box::default()),
            },
        };
        congestion.set_mss(u64::from(config.mss), 0);
        congestion
    }

    /// What the handshake settled: the segment size, and the scale of the windows we may send into.
    pub(crate) fn set_mss(&mut self, mss: u64, scale: u8) {
        self.window.set_mss(mss);
        self.window.scale_most(scale);
        self.window.set_cwnd(self.initial * mss);
    }

    pub(crate) fn cwnd(&self) -> u64 {
        self.window.cwnd()
    }

    pub(crate) fn ssthresh(&self) -> u64 {
        self.window.ssthresh()
    }

    pub(crate) fn set_cwnd(&mut self, cwnd: u64) {
        self.window.set_cwnd(cwnd);
    }

    /// Opens the window for new data acknowledged outside of recovery.
    pub(crate) fn on_ack(&mut self, acked: Acked) {
        let window = &mut self.window;
        let (cwnd, mss) = (window.cwnd(), window.mss());
        // A window that is not used tells nothing about the path (RFC 7661).
        let is_used = match cwnd < window.ssthresh() {
            true => cwnd < 2 * acked.flight,
            false => acked.flight + 2 * mss > cwnd,
        };
        if let Some(slow_start) = &mut self.slow_start {
            match window.ssthresh() < INFINITE {
                true => {
                    self.slow_start = None;
                    window.standard_slow_start();
                }
                false if is_used => slow_start.on_ack(window, &acked),
                false => {}
            }
        }
        match &mut self.control {
            Control::Lite(quirks) => {
                let step = if cwnd <= window.ssthresh() {
                    mss
                } else if quirks.extra_eighth {
                    mss * mss / cwnd + mss / 8
                } else {
                    mss * mss / cwnd
                };
                window.grow(step);
            }
            _ if !is_used => {}
            Control::Reno(reno) => reno.on_ack(window, &acked),
            Control::Cubic(cubic) => cubic.on_ack(window, &acked),
            Control::Linux(linux) => linux.on_ack(window, &acked),
            Control::Dctcp(dctcp) => dctcp.on_ack(window, &acked),
            Control::Own(own) => own.on_ack(window, &acked),
        }
    }

    /// Sets the threshold for a loss: `usable` is what the sender could use, `flight` what it did.
    pub(crate) fn on_loss(&mut self, usable: u64, flight: u64) {
        let window = &mut self.window;
        match self.control.modern() {
            Some(control) => control.on_loss(window, flight),
            None => window.set_ssthresh(usable / 2 / window.mss() * window.mss()),
        }
    }

    /// Reduces the window for marks: `usable` is what the sender could use, `flight` what it did.
    pub(crate) fn on_mark(&mut self, usable: u64, flight: u64) {
        match self.control.modern() {
            Some(control) => control.on_mark(&mut self.window, flight),
            None => self.on_loss(usable, flight),
        }
        self.window.set_cwnd(self.window.ssthresh());
    }

    /// What an acknowledgement says of marks.
    pub(crate) fn on_echo(&mut self, echo: &Echo) {
        if let Some(control) = self.control.modern() {
            control.on_echo(echo);
        }
    }

    /// Back to one segment after a time-out.
    pub(crate) fn on_timeout(&mut self) {
        self.window.on_timeout();
        if let Some(control) = self.control.modern() {
            control.on_timeout();
        }
    }

    /// Back to the initial window after an idle time (RFC 5681 4.1; BSD since 1990).
    pub(crate) fn on_idle(&mut self) {
        let initial = self.initial * self.window.mss();
        self.window.set_cwnd(self.window.cwnd().min(initial));
        if let Some(control) = self.control.modern() {
            control.on_idle();
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{Span, Time};

    use super::*;
    use crate::Profile;

    /// A connection of RFC 5681 in congestion avoidance, all of whose segments are acknowledged in acknowledgements of one or
    /// two. What it carries takes the time of the path.
    struct Path {
        congestion: Congestion,
        /// Segments that an acknowledgement covers.
        each: u64,
        /// Round trips that have passed.
        trips: f64,
        segments: u64,
    }

    impl Path {
        fn new(mss: u64, window: u64, each: u64) -> Path {
            let mut congestion = Congestion::new(&TcpConfig {
                variant: Variant::Sack,
                ..TcpConfig::from(Profile::Modern)
            });
            congestion.set_mss(mss, 0);
            congestion.set_cwnd(window * mss);
            let mut path = Path {
                congestion,
                each,
                trips: 0.0,
                segments: 0,
            };
            path.loses();
            path
        }

        fn window(&self) -> f64 {
            self.congestion.cwnd() as f64 / self.congestion.window.mss() as f64
        }

        fn acknowledges(&mut self) {
            let flight = self.congestion.cwnd();
            self.trips += self.each as f64 / self.window();
            self.segments += self.each;
            self.congestion.on_ack(Acked {
                now: Time::ZERO,
                bytes: self.each * self.congestion.window.mss(),
                flight,
                srtt: Span::from_ms(100),
                rtt: None,
            });
        }

        fn loses(&mut self) {
            let flight = self.congestion.cwnd();
            self.congestion.on_loss(flight, flight);
            self.congestion.set_cwnd(self.congestion.ssthresh());
        }
    }

    #[test]
    fn the_window_follows_the_square_root_law_whatever_a_segment_is() {
        // Mathis et al. 1997: with a loss after each 1/p segments the mean window is sqrt(3/2) / sqrt(p).
        let law = 1.5_f64.sqrt();
        for each in [1, 2] {
            for mss in [256, 536, 1_448, 8_960] {
                for interval in [1_000, 10_000, 100_000_u64] {
                    let p = 1.0 / interval as f64;
                    let mut path = Path::new(mss, 2 * (law / p.sqrt()) as u64, each);
                    let (mut trips, mut segments) = (0.0, 0);
                    for epoch in 0..24 {
                        if epoch == 12 {
                            (trips, segments) = (path.trips, path.segments);
                        }
                        for _ in 0..interval / each {
                            path.acknowledges();
                        }
                        path.loses();
                    }
                    let window = (path.segments - segments) as f64 / (path.trips - trips);
                    let constant = window * p.sqrt();
                    assert!(
                        (constant / law - 1.0).abs() < 0.02,
                        "MSS {mss}, p {p}, {each} each: {constant} beside {law}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_long_fat_path_overflows_after_the_time_that_theory_says() {
        // 1 Gbit/s, 100 ms, a buffer of a tenth of the product of both: from half of the largest window it grows by a segment
        // for each round trip; 375 s until the link is full, then 87 s while the queue fills.
        let (bdp, buffer) = (8_333.0, 833.0);
        let mut path = Path::new(1_448, 9_166, 2);
        let (mut seconds, mut overflows) = (0.0, Vec::new());
        while overflows.len() < 4 {
            let window = path.window();
            if window > bdp + buffer {
                overflows.push(seconds);
                path.loses();
            }
            seconds += 0.1 / bdp * 2.0 * (bdp / window).max(1.0);
            path.acknowledges();
        }
        for between in overflows.windows(2).map(|it| it[1] - it[0]) {
            assert!((between / 462.0 - 1.0).abs() < 0.05, "{between} s");
        }
    }

    #[test]
    fn slow_start_doubles_with_delayed_acknowledgements_too() {
        let grown = |each: u64, after_timeout: bool| {
            let mut path = Path::new(1_000, 200, each);
            path.congestion.set_cwnd(8_000);
            if after_timeout {
                path.congestion.window.on_timeout();
                path.congestion.set_cwnd(8_000);
            }
            for _ in 0..8 / each {
                path.acknowledges();
            }
            path.congestion.cwnd()
        };
        // RFC 3465 2.2: at most two segments for an acknowledgement; 2.3: one after a time-out.
        assert_eq!(
            [1, 2, 4].map(|each| grown(each, false)),
            [16_000, 16_000, 12_000]
        );
        assert_eq!(
            [1, 2, 4].map(|each| grown(each, true)),
            [16_000, 12_000, 10_000]
        );
    }

    #[test]
    fn lite_counts_acknowledgements() {
        // A window of 20 segments of 512 bytes above the threshold: 512^2 / cwnd for each acknowledgement, whatever it covers.
        let mut congestion = Congestion::new(&TcpConfig::from(Profile::Bsd44Lite));
        congestion.set_cwnd(10_240);
        congestion.on_loss(10_240, 10_240);
        congestion.set_cwnd(10_240);
        for bytes in [512, 1_024] {
            let before = congestion.cwnd();
            congestion.on_ack(Acked {
                now: Time::ZERO,
                bytes,
                flight: 0,
                srtt: Span::from_ms(100),
                rtt: None,
            });
            assert_eq!(congestion.cwnd() - before, 512 * 512 / before);
        }
    }
}
