use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use layercast_core::{Span, Time};
use layercast_protect::WallClock;
use layercast_wire::Epoch;
use rustix::time::{ClockId, clock_gettime};

/// Timestamps on the wire are microseconds modulo 2^32, so the origin of time is a multiple of it.
const WRAP_NS: u64 = (1 << 32) * 1_000;

/// The wall clock of this process: `CLOCK_MONOTONIC` mapped onto [`Time`].
///
/// Time zero is the last multiple of 2^32 us before the process first asked, so timestamps agree
/// between all processes of one machine without any synchronisation (specs/mets.md 3.3).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_ns: u64,
}

impl Clock {
    /// The clock of this process; every call gives the same one.
    pub fn get() -> Clock {
        static ORIGIN_NS: OnceLock<u64> = OnceLock::new();
        let origin_ns = *ORIGIN_NS.get_or_init(|| monotonic_ns() / WRAP_NS * WRAP_NS);
        Clock { origin_ns }
    }

    /// The present instant.
    pub fn now(self) -> Time {
        self.at_monotonic(monotonic_ns())
    }

    /// The instant at which `CLOCK_MONOTONIC` shows `ns` nanoseconds; processes hand a common
    /// epoch to each other this way.
    pub fn at_monotonic(self, ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns.saturating_sub(self.origin_ns))
    }

    /// What `CLOCK_MONOTONIC` shows in nanoseconds when `time` has come: never a little earlier.
    pub fn to_monotonic(self, time: Time) -> u64 {
        self.origin_ns.saturating_add(time.as_ps().div_ceil(1_000))
    }
}

/// What time it is for others at [`Time::ZERO`] of this process's [`Clock`].
pub fn wall_clock() -> WallClock {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix = unix.map_or(0, |since| since.as_micros() as u64);
    WallClock(unix.saturating_sub(Clock::get().now().as_us()))
}

/// The epoch of a flow that starts now.
pub fn flow_epoch() -> Epoch {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    Epoch(unix.map_or(0, |since| since.as_micros() as u64))
}

/// Which clock this process reads: two processes with equal names share it, so a delay measured
/// between them is real; otherwise it is relative (`unsynchronised`).
pub fn clock_name() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{}/{}", boot.trim(), namespace.display())
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_monotonic_microseconds_modulo_2_32() {
        let clock = Clock::get();
        let ns = monotonic_ns();
        assert_eq!(clock.at_monotonic(ns).as_us() as u32, (ns / 1_000) as u32);
        assert_eq!(clock.to_monotonic(clock.at_monotonic(ns)), ns);
        assert!(clock.now() >= clock.at_monotonic(ns));
    }

    #[test]
    fn a_timer_for_an_instant_between_nanoseconds_is_not_early() {
        let clock = Clock::get();
        let between = clock.now() + Span::from_ps(1);
        assert!(clock.at_monotonic(clock.to_monotonic(between)) > between);
    }

    #[test]
    fn wall_clocks_made_at_different_moments_agree() {
        let first = wall_clock();
        for _ in 0..12 {
            std::thread::sleep(std::time::Duration::from_millis(90));
            let off = wall_clock().0.abs_diff(first.0);
            assert!(off < 100_000, "{off} us apart");
        }
    }

    #[test]
    fn the_clock_has_a_name() {
        assert!(clock_name().len() > 16, "{}", clock_name());
    }
}
