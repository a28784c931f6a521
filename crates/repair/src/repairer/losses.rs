use layercast_core::{Span, Time};

/// Weight of the newest datagram in the share of those that are lost: the mean of some hundreds.
const WEIGHT: f64 = 1.0 / 512.0;
/// Weight of the newest run of losses in the means of runs.
const RUN_WEIGHT: u64 = 8;
/// A link is lossy from the first of these shares on, until the share falls below the second one.
const LOSSY: (f64, f64) = (0.004, 0.001);
/// Or until nothing was lost for this time. The other end keeps contents for parities for longer than that.
pub(crate) const QUIET: Span = Span::from_secs(10);
/// Runs of losses this long on average are bursts.
const BURSTS: f64 = 1.5;

/// How a link loses datagrams: whether it does at all, with hysteresis, and whether in bursts.
#[derive(Debug)]
pub(crate) struct Losses {
    share: f64,
    lossy: bool,
    last: Option<Time>,
    run: Option<Run>,
    /// Means of the number of datagrams in a run of losses, and of the time over which they were sent.
    length: f64,
    span: Span,
}

/// Consecutive counters that were lost.
#[derive(Clone, Copy, Debug)]
struct Run {
    len: u64,
    next: u64,
    /// When the first and the last one were sent.
    sent: (Time, Time),
}

impl Losses {
    pub fn new() -> Losses {
        Losses {
            share: 0.0,
            lossy: false,
            last: None,
            run: None,
            length: 1.0,
            span: Span::ZERO,
        }
    }

    /// Takes the fate of a counter, which becomes known at `now`.
    pub fn outcome(&mut self, now: Time, (counter, sent): (u64, Time), lost: bool) {
        self.share += (f64::from(u8::from(lost)) - self.share) * WEIGHT;
        if lost {
            self.last = Some(now);
            match &mut self.run {
                Some(run) if run.next == counter => {
                    run.len += 1;
                    run.next += 1;
                    run.sent.1 = sent;
                }
                _ => {
                    self.end_run();
                    self.run = Some(Run {
                        len: 1,
                        next: counter + 1,
                        sent: (sent, sent),
                    });
                }
            }
        } else if self.run.is_some_and(|run| run.next <= counter) {
            self.end_run();
        }
        self.lossy = match self.lossy {
            true => self.share >= LOSSY.1,
            false => self.share >= LOSSY.0,
        };
    }

    fn end_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.length += (run.len as f64 - self.length) / RUN_WEIGHT as f64;
            let span = run.sent.1.since(run.sent.0);
            self.span = self.span.mul_div(RUN_WEIGHT - 1, RUN_WEIGHT) + span.mul_div(1, RUN_WEIGHT);
        }
    }

    /// Whether the link loses datagrams.
    pub fn is_lossy(&self, now: Time) -> bool {
        self.lossy && self.last.is_some_and(|last| now.since(last) < QUIET)
    }

    /// The share that is lost.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Datagrams in a burst and the time that it takes, on average; `None`: losses are independent.
    pub fn burst(&self) -> Option<(u32, Span)> {
        (self.length >= BURSTS).then_some((self.length as u32, self.span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn a_link_is_lossy_after_several_losses_and_until_they_are_long_past() {
        let mut losses = Losses::new();
        let mut counter = 0;
        let mut take = |losses: &mut Losses, count, lost| {
            for _ in 0..count {
                losses.outcome(at(counter * 5), (counter, at(counter * 5)), lost);
                counter += 1;
            }
            losses.is_lossy(at(counter * 5))
        };
        assert!(!take(&mut losses, 1_000, false));
        assert!(!take(&mut losses, 1, true), "one loss is none");
        assert!(take(&mut losses, 3, true));
        assert!(take(&mut losses, 500, false), "it stays so");
        assert!(!take(&mut losses, 1_000, false));
        assert!(take(&mut losses, 4, true));
        assert!(!losses.is_lossy(at(60_000)), "nothing was lost for long");
    }

    #[test]
    fn bursts_are_told_from_independent_losses() {
        let mut losses = Losses::new();
        for counter in 0..2_000 {
            let lost = counter % 20 == 0;
            losses.outcome(at(counter), (counter, at(counter)), lost);
        }
        assert_eq!(losses.burst(), None);
        for counter in 2_000..6_000 {
            let lost = counter % 200 < 10;
            losses.outcome(at(counter), (counter, at(counter)), lost);
        }
        let (length, span) = losses.burst().unwrap();
        assert!((8..=10).contains(&length), "{length}");
        assert!((7..=9).contains(&span.as_ms()), "{span}");
    }
}
