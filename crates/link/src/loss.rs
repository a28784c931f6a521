use layercast_core::Stream;
use serde::{Deserialize, Serialize};

/// Random loss.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each item on its own.
    Bernoulli {
        /// Probability of loss.
        p: f64,
    },
    /// Two states, each with a loss probability of its own (Gilbert 1960, Elliott 1963).
    GilbertElliott {
        /// From good to bad, per item.
        p_gb: f64,
        /// From bad to good, per item.
        p_bg: f64,
        /// Loss in the good state.
        loss_good: f64,
        /// Loss in the bad state.
        loss_bad: f64,
    },
}

impl Loss {
    /// Of a change from good to bad and from bad to good, and of loss in the good and in the bad state. What has one state stays
    /// in the good one.
    pub fn probabilities(self) -> [f64; 4] {
        match self {
            Loss::None => [0.0; 4],
            Loss::Bernoulli { p } => [0.0, 0.0, p, p],
            Loss::GilbertElliott {
                p_gb,
                p_bg,
                loss_good,
                loss_bad,
            } => [p_gb, p_bg, loss_good, loss_bad],
        }
    }

    /// Whether the first state is the bad one: with the share of time that it has in the long run.
    pub fn begins_bad(self, random: &mut Stream) -> bool {
        let [to_bad, to_good, ..] = self.probabilities();
        to_bad > 0.0 && random.chance(to_bad / (to_bad + to_good))
    }

    /// Whether the next item is lost; its state may change before.
    #[inline]
    pub fn loses(self, is_bad: &mut bool, random: &mut Stream) -> bool {
        let [to_bad, to_good, in_good, in_bad] = self.probabilities();
        *is_bad ^= random.chance(if *is_bad { to_good } else { to_bad });
        random.chance(if *is_bad { in_bad } else { in_good })
    }
}

/// Random loss on one direction of a link: a law, its state and its stream.
#[derive(Clone, Debug)]
pub struct LossProcess {
    loss: Loss,
    is_bad: bool,
    random: Stream,
}

impl LossProcess {
    /// A process that draws from the stream `"link/NAME/loss"` of the run with this seed.
    pub fn new(loss: Loss, seed: u64, name: &str) -> LossProcess {
        let mut random = Stream::new(seed, &format!("link/{name}/loss"));
        LossProcess {
            loss,
            is_bad: loss.begins_bad(&mut random),
            random,
        }
    }

    /// Whether the next item is lost.
    #[inline]
    pub fn loses(&mut self) -> bool {
        self.loss.loses(&mut self.is_bad, &mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURSTS: Loss = Loss::GilbertElliott {
        p_gb: 0.01,
        p_bg: 0.1,
        loss_good: 0.0,
        loss_bad: 1.0,
    };

    #[test]
    fn the_first_item_is_as_likely_lost_as_any() {
        // The bad state has a share of 1/11; the next item finds it with the same chance.
        let first = (0..20_000).filter(|&seed| LossProcess::new(BURSTS, seed, "a->b").loses());
        let share = first.count() as f64 / 20_000.0;
        assert!((share - 1.0 / 11.0).abs() < 0.008, "{share}");
    }

    #[test]
    fn what_is_certain_takes_no_draw() {
        for (p, lost) in [(0.0, false), (1.0, true)] {
            let (mut used, untouched) = (Stream::new(1, "a"), Stream::new(1, "a"));
            assert_eq!(Loss::Bernoulli { p }.loses(&mut false, &mut used), lost);
            assert_eq!(used.unit(), untouched.clone().unit());
        }
    }
}
