use layercast_core::{Span, Time};

/// For how long a train counts, and how many are kept.
const FRESH: Span = Span::from_secs(6);
const KEPT: usize = 8;

/// What trains of the ports of a line show. Datagrams of the other ports pass between those of a train, so that it shows no more than the line carries,
/// and often less: the second highest rate counts, since jitter may move the datagrams of one train together.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Shown {
    trains: [Option<(Time, f64)>; KEPT],
    next: usize,
    /// Trains since these were forgotten.
    count: u32,
}

impl Shown {
    pub fn add(&mut self, at: Time, bps: f64) {
        self.trains[self.next % KEPT] = Some((at, bps));
        self.next += 1;
        self.count += 1;
    }

    /// What two of the last trains show at least, in bit/s.
    pub fn bps(&self, now: Time) -> Option<f64> {
        let fresh = self.trains.iter().flatten();
        let fresh = fresh.filter(|it| now.since(it.0) < FRESH);
        let two = fresh.fold([0.0_f64; 2], |[first, second], (_, bps)| {
            [first.max(*bps), second.max(first.min(*bps))]
        });
        (two[1] > 0.0).then_some(two[1])
    }

    /// How many there were.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The line is another one than those trains showed.
    pub fn forget(&mut self) {
        *self = Shown::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_trains_show_what_a_line_carries_and_one_does_not() {
        let at = |s: u64| Time::ZERO + Span::from_secs(s);
        let mut shown = Shown::default();
        shown.add(at(1), 9e6);
        assert_eq!(shown.bps(at(1)), None);
        shown.add(at(2), 3e6);
        assert_eq!(shown.bps(at(2)), Some(3e6));
        shown.add(at(3), 8e6);
        assert_eq!((shown.bps(at(3)), shown.count()), (Some(8e6), 3));
        assert_eq!(shown.bps(at(7)), Some(3e6), "the first one is old");
        for n in 4..100 {
            shown.add(at(n), 1e6);
        }
        assert_eq!(shown.bps(at(100)), Some(1e6));
        shown.forget();
        assert_eq!((shown.bps(at(100)), shown.count()), (None, 0));
    }
}
