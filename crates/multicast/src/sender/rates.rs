use layercast_wire::multicast::{Count, DataFlags, Symbol};

use super::*;
use crate::Monitor;

/// Gain of the smoothed loss.
const GAIN: f64 = 0.25;

/// The running measurement: packets between two monitor bits, and the reports about it (specs/rmtp-large-scale.md
/// 2.5).
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    monitor: Monitor,
    number: u32,
    state: State,
    /// Least rate of TCP to any receiver that reported.
    fair: f64,
    reports: u32,
    bad: u32,
    /// Whether any loss was ever reported: it ends the doubling of the rate.
    lossy: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The next packet begins a measurement.
    Idle,
    /// This many packets followed the first.
    Counting {
        round: u16,
        start: Symbol,
        sent: u32,
    },
    /// Reports are awaited.
    Waiting {
        round: u16,
        start: Symbol,
        stop: Symbol,
        sent: u32,
        until: Time,
    },
}

impl Measurement {
    pub fn new(monitor: Monitor) -> Measurement {
        Measurement {
            monitor,
            number: 0,
            state: State::Idle,
            fair: f64::INFINITY,
            reports: 0,
            bad: 0,
            lossy: false,
        }
    }

    /// Sets the monitor bits of a data packet.
    pub fn bits(&mut self, now: Time, round: u16, symbol: Symbol, last: bool) -> DataFlags {
        match self.state {
            State::Idle if !last => {
                self.state = State::Counting {
                    round,
                    start: symbol,
                    sent: 0,
                };
                self.number += 1;
                (self.fair, self.reports, self.bad) = (f64::INFINITY, 0, 0);
                DataFlags::START
            }
            State::Counting { round, start, sent } => {
                let sent = sent + 1;
                if sent < self.monitor.packets && !last {
                    self.state = State::Counting { round, start, sent };
                    return DataFlags::default();
                }
                self.state = State::Waiting {
                    round,
                    start,
                    stop: symbol,
                    sent,
                    until: now + self.monitor.wait,
                };
                DataFlags::STOP
            }
            _ => DataFlags::default(),
        }
    }

    /// When the wait for reports ends.
    pub fn until(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until, .. } => Some(until),
            _ => None,
        }
    }
}

impl<S: Source> Sender<S> {
    pub(super) fn on_count(&mut self, at: usize, count: &Count) {
        let packet_size = f64::from(self.config.packet_size);
        let largest = self.clock.largest();
        let Some(it) = &mut self.measurement else {
            self.stats.strangers += 1;
            return;
        };
        let State::Waiting {
            round,
            start,
            stop,
            sent,
            ..
        } = it.state
        else {
            self.stats.stale += 1;
            return;
        };
        if (count.round, count.start, count.stop) != (round, start, stop) {
            self.stats.stale += 1;
            return;
        }
        let record = self.roster.get_mut(at);
        if record.status != Status::Joined || record.slowest == it.number {
            self.stats.stale += 1;
            return;
        }
        // For receivers of an object this is the last measurement that they reported.
        record.slowest = it.number;
        // Reordered packets and duplicates may be included in the count.
        let lost = sent.saturating_sub(count.received);
        let share = f64::from(lost) / f64::from(sent.max(1));
        let before = f64::from(record.loss) / 65_535.0;
        let smooth = before + (share - before) * GAIN;
        record.loss = (smooth * 65_535.0) as u16;
        it.reports += 1;
        it.lossy |= lost > 0;
        it.bad += u32::from(share * 1_000.0 > f64::from(it.monitor.loss_permille));
        let round_trip = match record.rtt_us {
            0 => largest.as_secs_f64(),
            us => f64::from(us) * 1e-6,
        };
        it.fair = it.fair.min(tcp_rate(packet_size, round_trip, smooth));
    }

    /// Evaluates a measurement whose reports are complete or late.
    pub(super) fn measured(&mut self) {
        let alive = self.roster.weigh(|status| status == Status::Joined);
        let rate = self.pacer.rate();
        let (Some(it), Some(rate)) = (&mut self.measurement, rate) else {
            return;
        };
        it.state = State::Idle;
        let share = u64::from(alive) * u64::from(it.monitor.counters) / 65_535;
        let expected = (share as u32).max(it.reports).max(1);
        let missing = it.bad + (expected - it.reports);
        let bps = rate.as_bps();
        let down = u64::from(missing) * 1_000 > u64::from(expected * it.monitor.down_permille);
        let wanted = if let RateControl::Friendly(_) = self.config.rate {
            let silent = it.reports * 2 < expected;
            match (silent, it.lossy) {
                (true, _) => bps / 2,
                (false, false) => bps * 2,
                (false, true) => (it.fair as u64).min(bps * 2),
            }
        } else if down {
            bps / 2
        } else if u64::from(it.bad) * 1_000 <= u64::from(expected * it.monitor.up_permille) {
            bps + it.monitor.start.as_bps() / 10
        } else {
            bps
        };
        let (least, most) = (it.monitor.least.as_bps(), it.monitor.most.as_bps());
        let wanted = Rate::from_bps(wanted.clamp(least, most));
        if wanted != rate {
            self.pacer.set_rate(wanted);
            self.events.push_back(SenderEvent::Rate(wanted));
        }
    }
}

/// The rate of TCP at this loss, bits per second (RFC 5348 3.1, RFC 4654 2).
fn tcp_rate(packet: f64, round_trip: f64, loss: f64) -> f64 {
    if loss <= 0.0 {
        return f64::INFINITY;
    }
    let root = libm::sqrt(2.0 * loss / 3.0);
    let timeouts = 12.0 * libm::sqrt(3.0 * loss / 8.0) * loss * (1.0 + 32.0 * loss * loss);
    8.0 * packet / (round_trip * (root + timeouts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_the_tcp_equation() {
        // 1460 octets, 100 ms, 1 %: the equation of RFC 5348 gives 1.31 Mbit/s.
        let rate = tcp_rate(1_460.0, 0.1, 0.01);
        assert!((1.29e6..1.32e6).contains(&rate), "{rate}");
        assert!(tcp_rate(1_460.0, 0.1, 0.0).is_infinite());
    }

    #[test]
    fn a_measurement_ends_with_its_pass() {
        let rate = Rate::from_bps(1);
        let monitor = SenderConfig::monitor(rate, rate, rate);
        let mut it = Measurement::new(Monitor {
            packets: 3,
            ..monitor
        });
        let mut bits = |number, last| it.bits(Time::ZERO, 0, Symbol::Source(number), last);
        let none = DataFlags::default();
        let got = [0, 1, 2, 3, 4].map(|number| bits(number, false));
        assert_eq!(got, [DataFlags::START, none, none, DataFlags::STOP, none]);
        it.state = State::Idle;
        let mut bits = |number, last| it.bits(Time::ZERO, 0, Symbol::Source(number), last);
        let got = [bits(5, false), bits(6, true)];
        assert_eq!(got, [DataFlags::START, DataFlags::STOP]);
    }
}
