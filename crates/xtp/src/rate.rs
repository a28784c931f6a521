use layercast_core::{Span, Time};

use super::XtpRate;

/// Periods that a late timer may make up for; after more there is one burst, as after any pause (specs/xtp.md 7).
const MOST_LATE: u64 = 8;

/// Rate control (specs/xtp.md 2.9): `burst` bytes each period of `burst / rate`; credit does not accumulate.
///
/// A sender released late by its timer gets the bursts of the periods that passed meanwhile; otherwise the
/// timer would limit the rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    limit: XtpRate,
    /// In force from the next period.
    next: XtpRate,
    credit: u64,
    /// When the period ends; `None`: none is running.
    ends: Option<Time>,
    /// Something waits for the end of the period.
    blocked: bool,
}

impl Credit {
    pub(crate) fn new() -> Credit {
        Credit {
            limit: XtpRate::UNLIMITED,
            next: XtpRate::UNLIMITED,
            credit: 0,
            ends: None,
            blocked: false,
        }
    }

    /// Sets the limit for the next period. A burst below `packet` is raised to it, or none could ever leave; one
    /// that would be over before a timer of this `resolution` can tell is stretched, at the same rate.
    pub(crate) fn set(&mut self, limit: XtpRate, packet: u64, resolution: Span) {
        let burst = limit.burst.max(packet);
        let mut next = XtpRate { burst, ..limit };
        let period = next.period();
        if limit.rate > 0 && period < resolution {
            let times = resolution.as_ps().div_ceil(period.as_ps().max(1));
            next.burst = burst.saturating_mul(times);
        }
        self.next = next;
    }

    pub(crate) fn agreed(&self) -> XtpRate {
        self.next
    }

    /// When `cost` bytes may leave; `None`: now.
    pub(crate) fn wait(&mut self, now: Time, cost: u64) -> Option<Time> {
        if self.ends.is_none_or(|ends| ends <= now) {
            let late = self.ends.map(|ends| now.since(ends));
            self.limit = self.next;
            let period = self.limit.period();
            let missed = late.map_or(0, |late| late.as_ps() / period.as_ps().max(1));
            let made_up = match self.blocked && missed <= MOST_LATE {
                true => missed,
                false => 0,
            };
            self.credit = self.limit.burst.saturating_mul(1 + made_up);
            // In time, the phase is kept; after a pause the next packet begins a period.
            self.ends = late
                .filter(|_| missed == made_up && self.limit.rate > 0)
                .map(|late| {
                    now.saturating_sub(late)
                        .saturating_add(period.times(1 + missed))
                });
            self.blocked = false;
        }
        if self.limit.rate == 0 || self.credit >= cost.min(self.limit.burst) {
            return None;
        }
        self.blocked = true;
        self.ends
    }

    /// A limit other than the rate holds the data back from now on: that time is not compensated.
    pub(crate) fn hold(&mut self) {
        self.blocked = false;
    }

    /// Takes `cost` bytes that leave now.
    pub(crate) fn take(&mut self, now: Time, cost: u64) {
        if self.limit.rate == 0 {
            return;
        }
        self.credit = self.credit.saturating_sub(cost);
        let period = self.limit.period();
        self.ends.get_or_insert(now.saturating_add(period));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that left by `end`, packet after packet.
    fn run(credit: &mut Credit, packet: u64, end: Time) -> u64 {
        let (mut now, mut sent) = (Time::ZERO, 0);
        loop {
            match credit.wait(now, packet) {
                None => {
                    credit.take(now, packet);
                    sent += packet;
                }
                Some(at) if at > end => return sent,
                Some(at) => now = at,
            }
        }
    }

    #[test]
    fn the_rate_is_kept_exactly_and_nothing_is_saved_up() {
        let limit = |rate, burst| XtpRate { rate, burst };
        let second = Time::ZERO + Span::from_secs(1);
        for (rate, burst, packet) in [(100_000, 1_000, 1_000), (100_000, 4_000, 1_000), (7, 1, 1)] {
            let mut credit = Credit::new();
            credit.set(limit(rate, burst), packet, Span::ZERO);
            let sent = run(&mut credit, packet, second);
            assert!(
                sent.abs_diff(rate) <= burst.max(packet),
                "{rate} {burst}: {sent}"
            );
            // After a pause there is one burst.
            let later = second + Span::from_secs(100);
            let mut packets = 0;
            while credit.wait(later, packet).is_none() {
                credit.take(later, packet);
                packets += 1;
            }
            assert_eq!(packets, burst / packet);
        }
    }

    #[test]
    fn what_a_handshake_holds_back_is_not_made_up_for() {
        let (rate, burst) = (1_000_000, 1_000);
        for holds in [false, true] {
            let mut credit = Credit::new();
            credit.set(XtpRate { rate, burst }, 1_000, Span::ZERO);
            assert_eq!(credit.wait(Time::ZERO, 1_000), None);
            credit.take(Time::ZERO, 1_000);
            assert!(credit.wait(Time::ZERO, 1_000).is_some());
            if holds {
                credit.hold();
            }
            let later = Time::ZERO + Span::from_ms(5);
            let mut packets = 0;
            while credit.wait(later, 1_000).is_none() {
                credit.take(later, 1_000);
                packets += 1;
            }
            assert_eq!(packets, if holds { 1 } else { 5 });
        }
    }

    #[test]
    fn a_late_timer_does_not_lower_the_rate() {
        let limit = XtpRate {
            rate: 1_000_000,
            burst: 1_000,
        };
        let mut credit = Credit::new();
        credit.set(limit, 500, Span::ZERO);
        let (mut now, mut sent) = (Time::ZERO, 0_u64);
        while now < Time::ZERO + Span::from_secs(10) {
            match credit.wait(now, 500) {
                None => {
                    credit.take(now, 500);
                    sent += 500;
                }
                // Up to four periods of 1 ms too late.
                Some(at) => now = at + Span::from_us(at.as_us() * 7919 % 4_000),
            }
        }
        let due = now.as_us();
        assert!(sent.abs_diff(due) <= 5_000, "{sent} of {due}");
        // A machine that slept sends one burst.
        let mut packets = 0;
        let later = now + Span::from_secs(1);
        while credit.wait(later, 500).is_none() {
            credit.take(later, 500);
            packets += 1;
        }
        assert_eq!(packets, 2);
    }

    #[test]
    fn a_burst_is_a_packet_at_least_and_a_tick_of_the_timer() {
        let mut credit = Credit::new();
        let limit = XtpRate {
            rate: 1_000_000,
            burst: 10,
        };
        credit.set(limit, 500, Span::from_ms(2));
        assert_eq!(credit.agreed().burst, 2_000);
        assert_eq!(credit.agreed().period(), Span::from_ms(2));
    }
}
