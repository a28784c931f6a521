use layercast_core::{Newest, Numbered, Serial, Span, Time};

use crate::calm::ROUND;
use crate::clock::ClockEstimator;
use crate::estimate::Estimates;
use crate::message::{Arrival, Feedback, expand};

/// The budget as long as the other end has not given one.
const FIRST_BUDGET: Span = Span::from_ms(500);
/// The period of feedback before the first one, and at least.
const FIRST_PERIOD: Span = Span::from_ms(15);
/// By how much the clock of the other end may show more than has passed since the last feedback: a queue on the way back became shorter.
/// One that shows more is held until a second one follows.
const SHORTER: Span = Span::from_secs(5);
/// After this silence any feedback is newer: its 32-bit clock wraps, and says nothing about long pauses.
const SILENCE: Span = Span::from_secs(60);
/// Feedback that is used: one in this time on average, and this many in a row.
const FEEDBACK_EVERY: Span = Span::from_ms(1);
const FEEDBACK_BURST: u64 = 16;

/// What a sending end knows of one receiving end and of the way to it, from its feedback.
#[derive(Debug)]
pub(crate) struct Hearing {
    pub line: Estimates,
    pub clock: ClockEstimator,
    /// For how long after its usual arrival a datagram is of use there.
    pub budget: Span,
    /// Its reorder window.
    pub window: Span,
    /// Between two of its reports.
    pub period: Span,
    /// When the newest feedback came.
    heard: Option<Time>,
    /// When it, and some before it, were sent.
    sent: Newest,
    /// When feedback is next used without drawing on the burst.
    due: Time,
    /// Zero of one-way delays.
    zero: Option<Serial>,
}

/// The one-way delay of a datagram that left at `sent`, in microseconds from an arbitrary zero.
pub(crate) fn one_way(feedback: &Feedback, arrival: &Arrival, sent: Time) -> Serial {
    let arrived = feedback.tx_us.0.wrapping_sub(arrival.ago_us);
    Serial(arrived.wrapping_sub(sent.as_us() as u32))
}

impl Hearing {
    pub fn new() -> Hearing {
        Hearing {
            line: Estimates::new(),
            clock: ClockEstimator::default(),
            budget: FIRST_BUDGET,
            window: Span::ZERO,
            period: FIRST_PERIOD,
            heard: None,
            sent: Newest::default(),
            due: Time::ZERO,
            zero: None,
        }
    }

    /// Takes feedback about the counters of `session`, those below `next`; gives the newest counter it knows of, or
    /// `None` if it is not used.
    pub fn hear(
        &mut self,
        now: Time,
        feedback: &Feedback,
        (session, next): (u16, u64),
    ) -> Option<u64> {
        let hi =
            expand(feedback.hi, next).filter(|hi| *hi < next && feedback.session == session)?;
        let passed = self.heard.map(|heard| now.since(heard));
        if passed.is_none_or(|passed| passed > SILENCE) {
            self.sent = Newest::default();
        }
        let most = passed.unwrap_or(Span::ZERO).min(SILENCE) + SHORTER;
        let mut sent = self.sent;
        let judged = sent.judge(feedback.tx_us, most.as_us() as u32);
        if judged == Numbered::Stray {
            self.sent = sent;
        }
        if judged != Numbered::Next || !self.may_hear(now) {
            return None;
        }
        (self.heard, self.sent) = (Some(now), sent);
        if let Some(ms) = feedback.budget_ms {
            self.budget = Span::from_ms(ms.into());
        }
        self.window = Span::from_us(feedback.window_us.into()).min(ROUND.times(4));
        self.period = Span::from_ms(feedback.next_ms.into()).max(FIRST_PERIOD);
        Some(hi)
    }

    /// When the newest feedback came.
    pub fn heard(&self) -> Option<Time> {
        self.heard
    }

    /// Whether feedback is used at `now`: a flood of it costs no more than its look-up.
    fn may_hear(&mut self, now: Time) -> bool {
        let burst = FEEDBACK_EVERY.times(FEEDBACK_BURST);
        let due = self.due.max(now.saturating_sub(burst));
        let may = due <= now;
        if may {
            self.due = due.saturating_add(FEEDBACK_EVERY);
        }
        may
    }

    /// Learns round trip, delay and clock from the arrival times of datagrams whose departure is known: of the last bit at the
    /// rate of the port, and of the first one.
    pub fn measure(
        &mut self,
        now: Time,
        hi: u64,
        feedback: &Feedback,
        (sent_at, begun_at): (impl Fn(u64) -> Option<Time>, impl Fn(u64) -> Option<Time>),
    ) {
        self.clock.hear(now, hi, feedback, begun_at);
        let mut least = None;
        for arrival in &feedback.arrivals {
            let counter = hi.checked_sub(arrival.back.into());
            let Some(sent) = counter.and_then(&sent_at) else {
                continue;
            };
            if least.is_none() {
                let ago = Span::from_us(arrival.ago_us.into());
                self.line.sample(now.since(sent).saturating_sub(ago));
            }
            let delay = one_way(feedback, arrival, sent);
            let zero = *self.zero.get_or_insert(delay);
            let delay = i64::from(delay.diff(zero));
            least = Some(least.map_or(delay, |least: i64| least.min(delay)));
        }
        if let Some(least) = least {
            self.line.delay(now, least);
        }
    }

    /// Whether a datagram that left at `sent` should have arrived before `feedback` left, which is read now. What is sent in the
    /// turn in which the feedback is read may leave after the feedback did, however long that is. A queue may have grown by
    /// `growth` since the last feedback.
    pub fn is_overdue(&self, now: Time, sent: Time, feedback: &Feedback, growth: Span) -> bool {
        let Some((zero, usual)) = self.zero.zip(self.line.usual_delay()) else {
            return false;
        };
        let patience = self
            .line
            .margin()
            .as_ps()
            .saturating_add(self.window.as_ps())
            .saturating_add(growth.as_ps());
        let due = (sent.as_us() as u32)
            .wrapping_add(zero.0)
            .wrapping_add(usual as u32);
        let passed = feedback.tx_us.diff(Serial(due)).max(0);
        sent < now && Span::from_us(passed as u64).as_ps() > patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(tx_us: u32) -> Feedback {
        Feedback {
            session: 7,
            tx_us: Serial(tx_us),
            hi: Serial(3),
            known: 1,
            window_us: 0,
            budget_ms: None,
            next_ms: 15,
            missing: Vec::new(),
            arrivals: Vec::new(),
        }
    }

    #[test]
    fn feedback_that_says_it_was_sent_far_ahead_keeps_none_out() {
        let mut hearing = Hearing::new();
        let mut hear = |ms: u64, tx_us: u32| {
            let now = Time::ZERO + Span::from_ms(ms);
            hearing.hear(now, &feedback(tx_us), (7, 4)).is_some()
        };
        assert!(hear(100, 100_000));
        assert!(!(0..20).any(|_| hear(101, 1_800_000_000)));
        assert!(hear(115, 115_000));
        // The same one, and one that was overtaken.
        assert!(!hear(116, 115_000) && !hear(116, 110_000));
        // Some that follow one another are believed, and soon those of the other end again.
        assert!(!hear(120, 1_800_000_000) && hear(121, 1_800_000_100));
        assert!(!hear(130, 130_000));
        assert!(hear(145, 145_000) && hear(160, 160_000));
        // A way back whose queue ends.
        assert!(hear(200, 4_000_000));
        // After a long silence any is news.
        assert!(hear(70_000, 5));
    }
}
