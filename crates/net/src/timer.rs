use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use layercast_core::{Span, Time};
use layercast_wire::TimerReport;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use serde::Serialize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::clock::Clock;

/// The period by which a late timer has missed a tick (specs/mets.md 2.5: the 1 ms tick).
const TICK: Span = Span::from_ms(1);

/// An absolute one-shot timer on `CLOCK_MONOTONIC`, exact to some tens of microseconds, where the
/// timer of the async runtime rounds to a millisecond.
#[derive(Debug)]
pub struct Timer {
    fd: AsyncFd<OwnedFd>,
    clock: Clock,
    armed: Option<Time>,
    /// When it fires: its deadline, or when it was armed.
    due: Option<Time>,
    lateness: Lateness,
}

/// How late timers ran, as counts in buckets that double.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Lateness {
    /// Timers that ran.
    pub fired: u64,
    /// Histogram: bucket `i` counts the timers that were less than `16 << i` us late and are not in a bucket
    /// before; the last bucket counts the others.
    pub buckets: [u64; 12],
    /// Largest lateness in microseconds.
    pub worst_us: u64,
    /// Whole ticks of 1 ms between the deadlines of timers and their execution.
    pub missed_ticks: u64,
}

impl Timer {
    /// A timer that is not armed. Must be called within a tokio runtime.
    pub fn new() -> io::Result<Timer> {
        let fd = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        // Deprecated in favour of an unsafe function that also takes descriptors which may be closed
        // or exchanged while registered; an OwnedFd cannot.
        #[allow(
            deprecated,
            reason = "an OwnedFd keeps the promise the successor asks for"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Timer {
            fd,
            clock: Clock::get(),
            armed: None,
            due: None,
            lateness: Lateness::default(),
        })
    }

    /// Runs next at `deadline`, or not at all; one in the past runs immediately.
    pub fn arm(&mut self, deadline: Option<Time>) -> io::Result<()> {
        if deadline == self.armed {
            return Ok(());
        }
        self.armed = deadline;
        self.due = deadline.map(|at| at.max(self.clock.now()));
        // Zero would disarm: a deadline at the very origin becomes one nanosecond.
        let ns = deadline.map_or(0, |time| self.clock.to_monotonic(time).max(1));
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (ns % 1_000_000_000) as _,
        };
        let spec = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }

    /// Waits until the armed deadline has passed; forever if there is none.
    pub async fn expired(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_expired(context)).await
    }

    /// Whether the armed deadline has passed; if not, the task of `context` is woken when it has.
    pub fn poll_expired(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut guard = ready!(self.fd.poll_read_ready(context))?;
        guard.clear_ready();
        let mut count = [0; 8];
        match rustix::io::read(self.fd.get_ref(), &mut count) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Poll::Ready(Ok(())),
            Err(errno) => Poll::Ready(Err(errno.into())),
        }
    }

    /// Records that deadlines up to `now` are served; counts and returns the lateness.
    pub fn served(&mut self, now: Time) -> Span {
        let Some(deadline) = self.armed.filter(|&deadline| deadline <= now) else {
            return Span::ZERO;
        };
        self.armed = None;
        // One that was in the past when it was armed is late since then.
        let late = now.since(self.due.take().unwrap_or(deadline));
        self.lateness.add(late);
        late
    }

    /// How late the timers ran so far.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }
}

impl Lateness {
    fn add(&mut self, late: Span) {
        let us = late.as_us();
        let bucket = (64 - (us / 16).leading_zeros()) as usize;
        self.buckets[bucket.min(self.buckets.len() - 1)] += 1;
        self.fired += 1;
        debug_assert_eq!(
            self.buckets.iter().sum::<u64>(),
            self.fired,
            "each timer is in one bucket"
        );
        self.worst_us = self.worst_us.max(us);
        self.missed_ticks += late.as_ps() / TICK.as_ps();
    }

    /// The same without the histogram.
    pub fn report(&self) -> TimerReport {
        TimerReport {
            fired: self.fired,
            worst_us: self.worst_us,
            missed_ticks: self.missed_ticks,
        }
    }

    /// The upper edge, in microseconds, of the bucket that holds the quantile `q` in 0..=1.
    pub fn quantile_us(&self, q: f64) -> u64 {
        let wanted = (self.fired as f64 * q.clamp(0.0, 1.0)).ceil() as u64;
        let mut seen = 0;
        for (i, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && i + 1 < self.buckets.len() {
                return 16 << i;
            }
        }
        self.worst_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_goes_into_buckets_that_double() {
        let mut lateness = Lateness::default();
        for us in [0, 15, 16, 31, 32, 2_500, 10_000_000] {
            lateness.add(Span::from_us(us));
        }
        assert_eq!(lateness.buckets[..3], [2, 2, 1]);
        assert_eq!(lateness.buckets[8], 1);
        assert_eq!(lateness.buckets[11], 1);
        assert_eq!(lateness.missed_ticks, 2 + 10_000);
        assert_eq!(lateness.quantile_us(0.5), 32);
        assert_eq!(lateness.quantile_us(1.0), 10_000_000);
    }

    #[tokio::test]
    async fn a_timer_never_runs_early_and_runs_again() {
        let clock = Clock::get();
        let mut timer = Timer::new().unwrap();
        for _ in 0..5 {
            let deadline = clock.now() + Span::from_ms(2);
            timer.arm(Some(deadline)).unwrap();
            timer.expired().await.unwrap();
            assert!(clock.now() >= deadline);
            timer.served(clock.now());
        }
        assert_eq!(timer.lateness().fired, 5);
    }

    #[tokio::test]
    async fn a_deadline_in_the_past_runs_at_once() {
        let mut timer = Timer::new().unwrap();
        timer.arm(Some(Time::ZERO)).unwrap();
        timer.expired().await.unwrap();
    }
}
