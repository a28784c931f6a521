//! A delay that may be a queue of a line's own ports or a longer path.

use layercast_core::Span;

/// Least delays of two halves of a run that differ by no more than this are the same: what is sent differs from what a line carries by more.
const STEADY: Span = Span::from_ms(10);
/// Such a delay is no queue if no more than this share of what was carried with it is sent, over this number of slots: a queue would be shorter by
/// 80 ms.
const LESS: f64 = 0.8;
const SLOTS: usize = 8;

/// A delay that stays the same while the ports of a line send: as a queue does if they send as much as the line carries, or a path that is longer.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Doubt {
    /// The most that was carried with it, in bit/s; 0: there is no such delay.
    carried: f64,
    /// What was carried last.
    lately: f64,
}

impl Doubt {
    /// Whether the delay of a run is flat, of which these are the least delays of its halves.
    pub fn is_flat(halves: [Option<Span>; 2]) -> bool {
        let [Some(a), Some(b)] = halves else {
            return false;
        };
        a.max(b).saturating_sub(a.min(b)) <= STEADY
    }

    /// Takes the rate of arrivals over a flat run of this number of slots, and the highest one of its parts. Gives whether the path is longer: less is
    /// sent than what was carried with the same delay.
    pub fn is_longer(&mut self, slots: usize, bps: f64, most: f64) -> bool {
        self.carried = self.carried.max(most);
        self.lately = bps;
        slots >= SLOTS && bps <= LESS * self.carried
    }

    /// The rate below which what is sent shows what the delay is; `None`: there is no doubt.
    pub fn below(&self) -> Option<f64> {
        (self.carried > 0.0).then_some(self.lately)
    }

    /// The delay changes, or is gone.
    pub fn end(&mut self) {
        *self = Doubt::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_stays_while_less_is_sent_is_a_longer_path() {
        let ms = |halves: [u64; 2]| halves.map(|it| Some(Span::from_ms(it)));
        assert!(Doubt::is_flat(ms([50, 55])));
        assert!(!Doubt::is_flat(ms([50, 90])), "it grows");
        assert!(!Doubt::is_flat([None, Some(Span::ZERO)]));
        let mut doubt = Doubt::default();
        assert!(!doubt.is_longer(4, 4e6, 4e6), "too short");
        assert_eq!(doubt.below(), Some(4e6));
        assert!(
            !doubt.is_longer(8, 3.6e6, 4e6),
            "as much as a line may carry"
        );
        assert!(doubt.is_longer(8, 3e6, 3e6));
        doubt.end();
        assert_eq!(doubt.below(), None);
        assert!(!doubt.is_longer(8, 3e6, 3e6));
    }
}
