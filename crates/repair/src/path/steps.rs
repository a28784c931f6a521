//! A path that becomes longer at one moment: a delay that no queue makes.

use layercast_core::Span;

/// Two datagrams in a row whose delays differ by more than this and jitter show a step, in microseconds.
const STEP: i64 = 20_000;
/// It is judged after this number of slots of this time, in microseconds: a frame of 25 in a second.
const SLOTS: usize = 3;
const SLOT: i64 = 40_000;
/// A delay whose least values in the slots differ by no more than this and jitter is flat. The others are those of a frame behind its own datagrams.
const FLAT: i64 = 10_000;
/// From this multiple of the rate of a line with that queue on, the datagrams behind the step show that there is none.
const TOO_FAST: f64 = 2.0;

/// A datagram that arrived, by the clock of the other end in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub at: i64,
    /// How much later it came than the fastest.
    pub delay: i64,
    /// Octets sent up to and including it.
    pub total: u64,
}

/// Finds such steps.
///
/// A queue of the port's own datagrams grows by one datagram at a time: two in a row whose delays differ by 200 ms would have passed a line that
/// takes 200 ms for one of them. If those behind them arrive faster, it was no such line. A queue of others drains when their burst is over, or
/// grows; a longer path does neither.
#[derive(Default, Debug)]
pub(super) struct Steps {
    last: Option<Seen>,
    open: Option<Step>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// The first datagram after it, and the delay before.
    first: Seen,
    before: i64,
    /// What a line with such a queue carries at most, in bit/s.
    carries: f64,
    /// The least delay of each slot.
    least: [Option<i64>; SLOTS],
}

impl Steps {
    /// A step has been seen, and it is not known yet what it is.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the next datagram; gives by how much the path is longer now, if it became so.
    pub fn saw(&mut self, seen: Seen, jitter: Span) -> Option<Span> {
        let last = self.last.replace(seen)?;
        let jitter = jitter.as_us() as i64;
        let Some(step) = &mut self.open else {
            let by = seen.delay - last.delay;
            self.open = (by > STEP + jitter).then(|| Step {
                first: seen,
                before: last.delay,
                carries: seen.total.saturating_sub(last.total) as f64 * 8e6 / by as f64,
                least: [Some(seen.delay), None, None],
            });
            return None;
        };
        let passed = seen.at - step.first.at;
        let slot = usize::try_from(passed / SLOT).unwrap_or(0);
        if let Some(least) = step.least.get_mut(slot) {
            *least = Some(least.map_or(seen.delay, |it| it.min(seen.delay)));
        }
        // The slot that runs may still get a lower one.
        let over = || step.least.iter().take(slot).flatten().copied();
        let low = over().min().unwrap_or(seen.delay).min(seen.delay);
        let high = over().max().unwrap_or(low);
        let is_flat = high - low <= FLAT + jitter;
        let stays = 2 * (low - step.before) > step.first.delay - step.before;
        if !is_flat || !stays || passed < 0 {
            self.open = None;
            return None;
        }
        if slot < SLOTS {
            return None;
        }
        let arrives = seen.total.saturating_sub(step.first.total) as f64 * 8e6 / passed as f64;
        let is_longer = arrives > TOO_FAST * step.carries;
        self.open = None;
        is_longer.then(|| Span::from_us(low.max(0) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds datagrams of 1,228 octets each 5 ms with these delays in milliseconds; gives what was found.
    fn found(delays: impl Iterator<Item = i64>) -> Option<Span> {
        let mut steps = Steps::default();
        let mut found = None;
        for (n, delay) in (1..).zip(delays) {
            let seen = Seen {
                at: n * 5_000 + delay * 1_000,
                delay: delay * 1_000,
                total: n as u64 * 1_228,
            };
            found = steps.saw(seen, Span::ZERO).or(found);
        }
        found
    }

    #[test]
    fn a_delay_that_jumps_and_stays_is_a_longer_path() {
        let delays = (0..100).map(|n| if n < 50 { n % 3 } else { 200 + n % 3 });
        assert_eq!(found(delays), Some(Span::from_ms(200)));
        let delays = (0..100).map(|n| if n < 50 { 0 } else { 30 });
        assert_eq!(found(delays), Some(Span::from_ms(30)));
        // Frames of eight datagrams, each behind the one before.
        let delays = (0..100).map(|n| if n < 50 { 0 } else { 60 } + n % 8 * 4);
        assert_eq!(found(delays), Some(Span::from_ms(60)));
    }

    #[test]
    fn queues_are_none() {
        // A line that has become slower, by much or by little.
        for each in [1, 4, 25, 60] {
            assert_eq!(found((0..100).map(|n| (n - 50).max(0) * each)), None);
        }
        // A burst of others, or a pause of the line, that drains.
        let drains = (0..100).map(|n| {
            if n < 50 {
                0
            } else {
                (200 - (n - 50) * 2).max(0)
            }
        });
        assert_eq!(found(drains), None);
        // A slow line that one datagram takes 200 ms for: so does the next one, and the queue of it stays.
        let mut steps = Steps::default();
        for n in 1..100 {
            let delay = if n < 50 { 0 } else { 200_000 };
            let at = n * 200_000 + delay;
            let total = n as u64 * 1_228;
            assert_eq!(steps.saw(Seen { at, delay, total }, Span::ZERO), None);
        }
    }
}
