use layercast_core::{Span, Time};

/// What a second repair needs besides a round trip and the reorder window: the period of the feedback on a lossy link.
pub(crate) const ROUND: Span = Span::from_ms(16);
/// For how long a link counts as lossy after a gap, and at its start.
const LOSSY: Span = Span::from_secs(3);
/// The round trip as long as it is not known.
const FIRST_RTT: Span = Span::from_ms(50);
/// Longest wait of a calm link.
const LONGEST: Span = Span::from_ms(100);

/// Whether a link has lost or reordered datagrams lately. On a calm link, reports and markers are rarer: they may take a
/// part of the time that two repairs leave of the budget.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Calm {
    lossy_until: Option<Time>,
}

impl Calm {
    /// A datagram is sent or arrives.
    pub fn on_traffic(&mut self, now: Time) {
        self.lossy_until
            .get_or_insert_with(|| now.saturating_add(LOSSY));
    }

    /// A datagram is missing.
    pub fn on_gap(&mut self, now: Time) {
        self.lossy_until = Some(now.saturating_add(LOSSY));
    }

    /// How long something may wait at `now` that may wait for `least` on a lossy link: on a calm one, for one in `part` of
    /// the time that two repairs leave of the budget.
    pub fn wait(
        &self,
        now: Time,
        least: Span,
        part: u64,
        (budget, rtt): (Option<Span>, Option<Span>),
    ) -> Span {
        if self.lossy_until.is_none_or(|until| now < until) {
            return least;
        }
        let round = rtt
            .unwrap_or(FIRST_RTT)
            .as_ps()
            .saturating_add(ROUND.as_ps());
        let spare = budget.unwrap_or_default().as_ps();
        let spare = Span::from_ps(spare.saturating_sub(round.saturating_mul(2)));
        spare.mul_div(1, part).clamp(least, LONGEST.max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_calm_link_with_time_to_spare_waits_longer() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let ms = Span::from_ms;
        let mut calm = Calm::default();
        let wait = |calm: &Calm, now, budget: u64, rtt: u64| {
            let path = (Some(ms(budget)), Some(ms(rtt)));
            calm.wait(at(now), ms(15), 5, path).as_ms()
        };
        assert_eq!(wait(&calm, 0, 500, 0), 15, "nothing is known yet");
        calm.on_traffic(at(0));
        assert_eq!(wait(&calm, 2_999, 500, 0), 15);
        assert_eq!(wait(&calm, 3_000, 500, 0), 93);
        assert_eq!(wait(&calm, 3_000, 2_000, 0), 100);
        assert_eq!(
            wait(&calm, 3_000, 120, 40),
            15,
            "two repairs take all of it"
        );
        assert_eq!(wait(&calm, 3_000, 232, 40), 24);
        calm.on_gap(at(4_000));
        assert_eq!(wait(&calm, 6_999, 500, 0), 15);
        assert_eq!(wait(&calm, 7_000, 500, 0), 93);
    }
}
