use layercast_core::{Span, Time};

/// How many buffers a client needs, from its arrivals and the time that it holds a buffer.
#[derive(Debug)]
pub(crate) struct Meter {
    since: Time,
    arrivals: u64,
    returns: u64,
    held: Span,
    wanted: u32,
}

impl Meter {
    /// A client that has `initial` buffers.
    pub fn new(now: Time, initial: u32) -> Meter {
        Meter {
            since: now,
            arrivals: 0,
            returns: 0,
            held: Span::ZERO,
            wanted: initial.max(1),
        }
    }

    pub fn on_arrival(&mut self) {
        self.arrivals += 1;
    }

    pub fn on_return(&mut self, held: Span) {
        self.returns += 1;
        self.held += held;
    }

    /// Buffers that it needs, measured since the last call: the rate of arrivals times the mean time that a buffer is away
    /// (Little's law), twice that for bursts, and one for the packet that arrives.
    ///
    /// A client that returned nothing has shown no need, and is given no more than before.
    pub fn wanted(&mut self, now: Time) -> u32 {
        let elapsed = now.since(self.since);
        if elapsed > Span::ZERO && self.returns > 0 {
            let held = u128::from(self.held.as_ps()) / u128::from(self.returns);
            let away = 2 * u128::from(self.arrivals) * held;
            let away = away.div_ceil(u128::from(elapsed.as_ps()));
            self.wanted = u32::try_from(away + 1).unwrap_or(u32::MAX);
        }
        if elapsed > Span::ZERO {
            (self.since, self.arrivals, self.returns, self.held) = (now, 0, 0, Span::ZERO);
        }
        self.wanted
    }
}

/// Divides `total` buffers: each gets what it wants, or an equal share of what those that want less leave (max-min).
/// What is left of a division goes to the first.
///
/// ```
/// let mut wanted = [2, 100, 30];
/// layercast_nif::max_min(40, &mut wanted);
/// assert_eq!(wanted, [2, 19, 19]);
/// ```
pub fn max_min(total: u32, wanted: &mut [u32]) {
    let mut by_want: Vec<usize> = (0..wanted.len()).collect();
    by_want.sort_by_key(|at| wanted[*at]);
    let mut left = total;
    for (done, at) in by_want.iter().enumerate() {
        let sharers = (wanted.len() - done) as u32;
        wanted[*at] = wanted[*at].min(left.div_ceil(sharers));
        left -= wanted[*at];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_ms(n)
    }

    #[test]
    fn a_client_needs_what_arrives_while_a_buffer_is_away() {
        let mut meter = Meter::new(ms(0), 4);
        for _ in 0..100 {
            meter.on_arrival();
            meter.on_return(Span::from_ms(20));
        }
        // 100 packets/s of 20 ms are 2 buffers, twice that, and one.
        assert_eq!(meter.wanted(ms(1_000)), 5);
        // Nothing came and nothing returned: it keeps what it has.
        assert_eq!(meter.wanted(ms(2_000)), 5);
        // At one instant nothing is known of a rate.
        meter.on_return(Span::from_secs(9));
        assert_eq!(meter.wanted(ms(2_000)), 5);
    }

    #[test]
    fn a_client_that_returns_nothing_gets_no_more() {
        let mut meter = Meter::new(ms(0), 4);
        for _ in 0..10_000 {
            meter.on_arrival();
        }
        assert_eq!(meter.wanted(ms(1_000)), 4);
    }

    #[test]
    fn division_wastes_nothing_and_favours_nothing() {
        let share = |total, mut wanted: Vec<u32>| {
            max_min(total, &mut wanted);
            wanted
        };
        assert_eq!(share(100, vec![10, 20, 30]), [10, 20, 30]);
        assert_eq!(share(10, vec![100, 100, 100]), [4, 3, 3]);
        assert_eq!(share(0, vec![1, 2]), [0, 0]);
        assert_eq!(share(5, vec![]), Vec::<u32>::new());
        assert_eq!(
            share(u32::MAX, vec![u32::MAX, u32::MAX])
                .iter()
                .map(|it| u64::from(*it))
                .sum::<u64>(),
            u64::from(u32::MAX)
        );
    }
}
