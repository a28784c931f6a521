use layercast_core::Span;

use super::control::{Acked, Window};

/// The least and the most that a round trip has to grow (RFC 9406 4.3).
const THRESHOLD: (Span, Span) = (Span::from_ms(4), Span::from_ms(16));
/// Between these, a round trip has to grow by this part.
const DIVISOR: u64 = 8;
/// Samples of a round before its least round trip counts.
const SAMPLES: u32 = 8;
/// By this factor conservative slow start is slower.
const CSS_GROWTH: u8 = 4;
/// Rounds of conservative slow start, that in which it begins among them.
const CSS_ROUNDS: u32 = 5;
/// Segments that an acknowledgement adds at most, of a sender that does not pace.
const LIMIT: u8 = 8;

/// Round trips as acknowledgements tell of them: one ends when what had been sent at its start is acknowledged.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rounds {
    /// Bytes acknowledged, and how many will be when the round ends.
    acked: u64,
    end: u64,
}

impl Rounds {
    /// Takes an acknowledgement of data; tells whether a round begins with it.
    pub(crate) fn begins(&mut self, acked: &Acked) -> bool {
        self.acked += acked.bytes;
        let begins = self.acked > self.end;
        if begins {
            // What is unacknowledged now ends the next round.
            self.end = self.acked + acked.flight.saturating_sub(acked.bytes);
        }
        begins
    }
}

/// HyStart++ (RFC 9406): when the least round trip of a round is above that of the round before, the window grows more slowly
/// for some rounds, and slow start ends unless round trips become shorter again.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct HyStart {
    rounds: Rounds,
    samples: u32,
    /// Least round trip of this round, and of the one before.
    least: Option<Span>,
    last: Option<Span>,
    conservative: Option<Conservative>,
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The least round trip with which it began.
    baseline: Span,
    rounds: u32,
}

impl HyStart {
    /// Takes an acknowledgement of slow start, before the window grows by it.
    pub(crate) fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        if self.rounds.begins(acked) {
            (self.last, self.least, self.samples) = (self.least, None, 0);
            if let Some(css) = &mut self.conservative {
                css.rounds += 1;
                if css.rounds > CSS_ROUNDS {
                    self.conservative = None;
                    window.set_ssthresh(window.cwnd());
                    window.slow_start_by(LIMIT, 1);
                    return;
                }
            }
        }
        if let Some(rtt) = acked.rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        let known = self.least.filter(|_| self.samples >= SAMPLES);
        match (&self.conservative, known, self.last) {
            (None, Some(least), Some(last)) => {
                let more = last.mul_div(1, DIVISOR).clamp(THRESHOLD.0, THRESHOLD.1);
                if least >= last + more {
                    self.conservative = Some(Conservative {
                        baseline: least,
                        rounds: 1,
                    });
                }
            }
            // The round trip was long for another reason.
            (Some(css), Some(least), _) if least < css.baseline => self.conservative = None,
            _ => {}
        }
        let divisor = match self.conservative {
            Some(_) => CSS_GROWTH,
            None => 1,
        };
        window.slow_start_by(LIMIT, divisor);
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Time;

    use super::*;

    const MSS: u64 = 1_000;

    /// A sender in slow start.
    struct Sender {
        window: Window,
        slow_start: HyStart,
    }

    impl Sender {
        fn new(segments: u64) -> Sender {
            let mut window = Window::new(MSS, u64::MAX);
            window.set_cwnd(segments * MSS);
            Sender {
                window,
                slow_start: HyStart::default(),
            }
        }

        /// A round, all of whose segments are acknowledged one by one with this round trip in ms; gives the window behind it.
        fn round(&mut self, rtt: u64) -> u64 {
            let flight = self.window.cwnd();
            for _ in 0..flight / MSS {
                let acked = Acked {
                    now: Time::ZERO,
                    bytes: MSS,
                    flight,
                    srtt: Span::from_ms(rtt),
                    rtt: Some(Span::from_ms(rtt)),
                };
                if self.is_over() {
                    break;
                }
                self.slow_start.on_ack(&mut self.window, &acked);
                self.window.slow_start(MSS);
            }
            self.window.cwnd() / MSS
        }

        fn is_over(&self) -> bool {
            self.window.cwnd() >= self.window.ssthresh()
        }
    }

    #[test]
    fn the_threshold_is_an_eighth_between_4_and_16_ms() {
        // RFC 9406 4.2: RttThresh = max(4 ms, min(lastRoundMinRTT / 8, 16 ms)).
        for (last, more) in [(16, 4), (32, 4), (80, 10), (128, 16), (400, 16)] {
            for (grows, is_slower) in [(more - 1, false), (more, true)] {
                let mut sender = Sender::new(16);
                assert_eq!(sender.round(last), 32);
                sender.round(last + grows);
                let found = sender.slow_start.conservative.is_some();
                assert_eq!(found, is_slower, "{last} + {grows} ms");
            }
        }
    }

    #[test]
    fn conservative_slow_start_grows_by_a_quarter_and_lasts_five_rounds() {
        let mut sender = Sender::new(16);
        sender.round(40);
        // It begins at the eighth sample: 8 segments before that, and a quarter of the 24 from then on.
        let begun = sender.round(50);
        assert_eq!(begun, 32 + 7 + 25 / 4);
        let mut windows = vec![begun];
        while !sender.is_over() {
            let next = sender.round(50);
            windows.push(next);
            assert!(windows.len() < 9, "{windows:?}");
        }
        for pair in windows[..4].windows(2) {
            assert!((pair[1] * 100).abs_diff(pair[0] * 125) < 200, "{windows:?}");
        }
        // The round in which it began is the first of five; the first acknowledgement of the sixth ends it.
        assert_eq!(windows.len(), 6, "{windows:?}");
        assert_eq!(sender.window.ssthresh(), sender.window.cwnd());
    }

    #[test]
    fn slow_start_goes_on_if_round_trips_become_shorter() {
        let mut sender = Sender::new(16);
        sender.round(40);
        sender.round(50);
        assert!(sender.slow_start.conservative.is_some());
        let before = sender.round(50);
        let after = sender.round(44);
        assert!(sender.slow_start.conservative.is_none());
        assert!(after > before * 17 / 10, "{before} {after}");
        assert!(!sender.is_over());
    }

    #[test]
    fn fewer_than_eight_samples_say_nothing() {
        let mut sender = Sender::new(3);
        assert_eq!(sender.round(40), 6);
        // Six of 90 ms in a round.
        assert_eq!(sender.round(90), 12);
        assert!(sender.slow_start.conservative.is_none());
    }

    #[test]
    fn an_acknowledgement_counts_for_eight_segments_at_most() {
        let mut sender = Sender::new(40);
        let acked = Acked {
            now: Time::ZERO,
            bytes: 20 * MSS,
            flight: 40 * MSS,
            srtt: Span::from_ms(40),
            rtt: None,
        };
        sender.slow_start.on_ack(&mut sender.window, &acked);
        sender.window.slow_start(acked.bytes);
        assert_eq!(sender.window.cwnd(), 48 * MSS);
    }
}
