use layercast_core::{Span, Time};

/// Weights of the newest value in the means of the round trip, of the loss, and of the loss of repairs.
const RTT_WEIGHT: u64 = 8;
const LOSS_WEIGHT: f64 = 1.0 / 128.0;
const REPAIR_LOSS_WEIGHT: f64 = 1.0 / 16.0;
/// Before anything is known: a line that loses some datagrams.
const FIRST_LOSS: f64 = 0.02;
/// For how long the least one-way delay holds: longer than queues stand.
const DELAY_WINDOW: Span = Span::from_secs(10);
/// A datagram is overdue when it is later than usual by this at least.
const LEAST_MARGIN: Span = Span::from_ms(5);
/// Longest round trip that is believed.
const MAX_RTT: Span = Span::from_secs(5);

/// The least of the values of a window of time, to within half a window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeastOf {
    /// Least value of this half of the window and of the one before, and when this half began.
    now: Option<(Time, i64)>,
    before: Option<i64>,
}

impl LeastOf {
    pub fn add(&mut self, at: Time, value: i64, window: Span) {
        match &mut self.now {
            Some((begun, least)) if at.since(*begun) < window => *least = value.min(*least),
            now => {
                self.before = now.take().map(|(_, least)| least);
                self.now = Some((at, value));
            }
        }
    }

    pub fn get(&self) -> Option<i64> {
        let now = self.now.map(|(_, least)| least)?;
        Some(self.before.map_or(now, |before| before.min(now)))
    }
}

/// What a sending end knows of its link.
#[derive(Debug)]
pub(crate) struct Estimates {
    rtt: Option<Span>,
    /// Mean deviation of the round trip.
    deviation: Span,
    loss: f64,
    repair_loss: f64,
    delays: LeastOf,
    queue: Span,
}

impl Estimates {
    pub fn new() -> Estimates {
        Estimates {
            rtt: None,
            deviation: Span::ZERO,
            loss: FIRST_LOSS,
            repair_loss: FIRST_LOSS,
            delays: LeastOf::default(),
            queue: Span::ZERO,
        }
    }

    /// The smoothed round trip.
    pub fn rtt(&self) -> Option<Span> {
        self.rtt
    }

    /// Takes a sample of the round trip.
    pub fn sample(&mut self, rtt: Span) {
        let rtt = rtt.min(MAX_RTT);
        let Some(mean) = self.rtt else {
            (self.rtt, self.deviation) = (Some(rtt), rtt.mul_div(1, 2));
            return;
        };
        // A stall raises the mean by an eighth of four round trips, not to its own length.
        let rtt = rtt.min(mean.times(4));
        let deviation = rtt.saturating_sub(mean).max(mean.saturating_sub(rtt));
        let blend =
            |old: Span, new: Span, weight| old.mul_div(weight - 1, weight) + new.mul_div(1, weight);
        self.deviation = blend(self.deviation, deviation, RTT_WEIGHT / 2);
        self.rtt = Some(blend(mean, rtt, RTT_WEIGHT));
    }

    /// How much later than usual almost every datagram arrives at most: four deviations of the round trip (RFC 6298).
    pub fn margin(&self) -> Span {
        self.deviation.times(4).max(LEAST_MARGIN)
    }

    /// The one-way delay of the newest datagrams, in microseconds from the zero of [`delay`](Self::delay).
    pub fn usual_delay(&self) -> Option<i64> {
        let base = self.delays.get()?;
        Some(base.saturating_add(self.queue.as_us() as i64))
    }

    /// Takes the least one-way delay of a report, in microseconds from an arbitrary zero.
    pub fn delay(&mut self, now: Time, least: i64) {
        self.delays.add(now, least, DELAY_WINDOW);
        let base = self.delays.get().unwrap_or(least);
        self.queue = Span::from_us(least.abs_diff(base.min(least)));
    }

    /// How long datagrams wait in queues of the path.
    pub fn queue(&self) -> Span {
        self.queue
    }

    /// Takes the fate of a datagram.
    pub fn outcome(&mut self, lost: bool, is_repair: bool) {
        let value = f64::from(u8::from(lost));
        self.loss += (value - self.loss) * LOSS_WEIGHT;
        if is_repair {
            self.repair_loss += (value - self.repair_loss) * REPAIR_LOSS_WEIGHT;
        }
    }

    /// The share of datagrams that are lost.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// The share of repairs that are lost.
    pub fn repair_loss(&self) -> f64 {
        self.repair_loss
    }

    /// How many copies a repair needs that has no second chance: 1 to `most`.
    pub fn copies(&self, most: u32, residual: f64) -> u32 {
        let loss = self.loss.max(1e-4);
        let each = self.repair_loss.max(loss).min(0.9);
        let target = residual / (7.5 * loss);
        let mut all = each;
        let mut count = 1;
        while all > target && count < most {
            all *= each;
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_line_needs_one_copy_and_a_bad_one_several() {
        let mut line = Estimates::new();
        for _ in 0..2_000 {
            line.outcome(false, true);
        }
        assert_eq!(line.copies(4, 5e-5), 1);
        for n in 0..4_000 {
            line.outcome(n % 10 == 0, n % 10 == 0);
        }
        assert_eq!(line.copies(4, 5e-5), 4);
    }

    #[test]
    fn a_stall_does_not_poison_the_round_trip() {
        let mut line = Estimates::new();
        for _ in 0..50 {
            line.sample(Span::from_ms(40));
        }
        line.sample(Span::from_secs(3));
        assert!(line.rtt().unwrap() <= Span::from_ms(56));
    }

    #[test]
    fn the_least_of_a_window_forgets() {
        let mut least = LeastOf::default();
        let at = |s| Time::ZERO + Span::from_secs(s);
        let window = Span::from_secs(10);
        least.add(at(0), 5, window);
        least.add(at(5), 9, window);
        assert_eq!(least.get(), Some(5));
        least.add(at(11), 9, window);
        assert_eq!(least.get(), Some(5));
        least.add(at(22), 8, window);
        assert_eq!(least.get(), Some(8));
    }
}
