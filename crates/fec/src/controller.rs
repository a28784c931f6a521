use std::collections::BTreeMap;

use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::model::{reseq, residual, residual_cost};
use crate::{LEAST_EXPECTED, LossCount};

/// What redundancy is chosen for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "for")]
pub enum Objective {
    /// Fewest packets until all have everything.
    Goodput,
    /// Least overhead that keeps delivery in order in time.
    Delay {
        /// Packets in a round trip: what a repair takes.
        window: u16,
        /// What 95 of 100 packets may wait for others, and a block may take to fill, in packet times.
        budget: u32,
    },
    /// Least overhead that leaves little enough loss after decoding: live media, which nothing repairs later.
    Live {
        /// Most packets that may be lost after decoding, as a share of all.
        loss: f64,
        /// Packets that are sent together, such as those of a frame: the last block of each batch ends with it.
        batch: u32,
    },
}

/// How redundancy is chosen (specs/packet-level-fec.md 2.7).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerConfig {
    /// What for.
    pub objective: Objective,
    /// Most packets of a block, parities included: the memory of the receivers.
    pub block: u8,
    /// Most parities of a block.
    pub parities: u8,
    /// Most parities among all packets, so that no receiver can drive it to absurdity.
    pub cap: f64,
    /// The receivers with the highest loss that are counted as the next one below them, as a share of all, if there are
    /// more than ten: they may lie, or be beyond help.
    pub trim: f64,
    /// Gain that is worth a change.
    pub hysteresis: f64,
    /// Receivers that are remembered; reports of more are not.
    pub receivers: usize,
}

impl Default for ControllerConfig {
    /// Goodput, blocks of at most 8 with up to 3 parities as in the paper, at most half of all parities, the worst
    /// twentieth trimmed, changes for 3 %, 100,000 receivers.
    fn default() -> ControllerConfig {
        ControllerConfig {
            objective: Objective::Goodput,
            block: 8,
            parities: 3,
            cap: 0.5,
            trim: 0.05,
            hysteresis: 0.03,
            receivers: 100_000,
        }
    }
}

/// A choice, and what made it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Choice {
    /// Source packets of a block.
    pub n: u8,
    /// Parities of a block; 0: no FEC.
    pub m: u8,
    /// Packets sent per source packet that the model expects; where the objective cannot be met, a thousand and more.
    pub cost: f64,
    /// The receiver with the highest loss that counts, and that loss.
    pub driver: Option<(u64, f64)>,
}

/// What is known of a receiver.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Smoothed loss; `None`: too few packets so far.
    loss: Option<f64>,
    /// Not judged yet.
    pending: LossCount,
}

/// A kind of receivers: their mean loss, and how many they are.
type Kind = (f64, f64);

/// Chooses N and M from what receivers report, by the cost model with the real losses of the group.
#[derive(Clone, Debug)]
pub struct Controller {
    config: ControllerConfig,
    receivers: BTreeMap<u64, Known>,
    current: (u8, u8),
    changed: Option<Time>,
    refused: u64,
}

/// Gain of the smoothed loss.
const GAIN: f64 = 1.0 / 8.0;
/// Losses are counted in this many kinds per factor of two.
const KINDS: f64 = 8.0;
/// Losses below are none, above are hopeless.
const RANGE: (f64, f64) = (1e-7, 0.9);

impl Controller {
    /// A controller that has heard nothing, and sends without FEC.
    pub fn new(config: ControllerConfig) -> Controller {
        Controller {
            config,
            receivers: BTreeMap::new(),
            current: (1, 0),
            changed: None,
            refused: 0,
        }
    }

    /// Goes on with what is known of the receivers, for something else.
    pub fn set_config(&mut self, config: ControllerConfig) {
        self.config = config;
    }

    /// Takes what a receiver saw since its last report, counted before decoding.
    pub fn report(&mut self, receiver: u64, seen: LossCount) {
        if !self.receivers.contains_key(&receiver) && self.receivers.len() >= self.config.receivers
        {
            self.refused += 1;
            return;
        }
        let known = self.receivers.entry(receiver).or_default();
        known.pending = known.pending.plus(seen);
        if known.pending.expected < LEAST_EXPECTED {
            return;
        }
        let rate = std::mem::take(&mut known.pending).rate();
        known.loss = Some(known.loss.map_or(rate, |loss| loss + GAIN * (rate - loss)));
    }

    /// Forgets a receiver that left.
    pub fn forget(&mut self, receiver: u64) {
        self.receivers.remove(&receiver);
    }

    /// Reports of receivers beyond those remembered.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What to send from now on; it changes for a gain that is worth it, and at most once in two round trips.
    pub fn choose(&mut self, now: Time, round_trip: Span) -> Choice {
        let (kinds, driver) = self.kinds();
        let choice = |(n, m), cost| Choice { n, m, cost, driver };
        let here = self.cost(self.current, &kinds);
        let settled = self
            .changed
            .is_some_and(|it| now.since(it) < round_trip.times(2));
        if settled {
            return choice(self.current, here);
        }
        let (best, cost) = self.best(&kinds);
        let worth = here > cost * (1.0 + self.config.hysteresis);
        if best == self.current || !worth {
            return choice(self.current, here);
        }
        (self.current, self.changed) = (best, Some(now));
        choice(best, cost)
    }

    /// Receivers by loss, and who has the highest that counts.
    fn kinds(&self) -> (Vec<Kind>, Option<(u64, f64)>) {
        let known = self.receivers.iter();
        let mut losses: Vec<(u64, f64)> =
            known.filter_map(|it| Some((*it.0, it.1.loss?))).collect();
        losses.sort_by(|a, b| b.1.total_cmp(&a.1));
        let trimmed = match losses.len() {
            0..=10 => 0,
            count => (self.config.trim.clamp(0.0, 0.5) * count as f64) as usize,
        };
        let driver = losses.get(trimmed).copied();
        let most = driver.map_or(0.0, |it| it.1).min(RANGE.1);
        let mut sums: BTreeMap<i32, Kind> = BTreeMap::new();
        for (_, loss) in losses {
            let loss = loss.min(most);
            let kind = match loss < RANGE.0 {
                true => i32::MIN,
                false => (KINDS * libm::log2(loss)).round() as i32,
            };
            let (sum, count) = sums.entry(kind).or_insert((0.0, 0.0));
            (*sum, *count) = (*sum + loss, *count + 1.0);
        }
        let kinds = sums.into_values().map(|(sum, count)| (sum / count, count));
        (kinds.collect(), driver)
    }

    /// The code of the least cost.
    fn best(&self, kinds: &[Kind]) -> ((u8, u8), f64) {
        let mut best = ((1, 0), self.cost((1, 0), kinds));
        for m in 1..=self.config.parities {
            for n in 1..=self.config.block.saturating_sub(m) {
                if f64::from(m) > self.config.cap * (f64::from(n) + f64::from(m)) {
                    continue;
                }
                let cost = self.cost((n, m), kinds);
                if cost < best.1 {
                    best = ((n, m), cost);
                }
            }
        }
        best
    }

    /// Packets sent per source packet; under [`Objective::Delay`] and [`Objective::Live`] the overhead, and far more if it
    /// does not do what was asked for.
    fn cost(&self, (n, m): (u8, u8), kinds: &[Kind]) -> f64 {
        let (n, m) = (usize::from(n), usize::from(m));
        let factor = (n + m) as f64 / n as f64;
        match self.config.objective {
            Objective::Goodput => {
                let left = |&(e, count): &Kind| (e, residual(n, m, e), count);
                factor + residual_cost(&kinds.iter().map(left).collect::<Vec<_>>())
            }
            Objective::Delay { window, budget } => {
                let worst = kinds.iter().map(|it| it.0).fold(0.0, f64::max);
                let wait = reseq(residual(n, m, worst), window, 1.0).p95;
                let fill = if m == 0 { 0.0 } else { (n + m) as f64 };
                let late = wait.max(fill) / f64::from(budget.max(1));
                if late <= 1.0 { factor } else { LATE * late }
            }
            Objective::Live { loss, batch } => {
                let worst = kinds.iter().map(|it| it.0).fold(0.0, f64::max);
                let left = residual(n, m, worst);
                if left > loss {
                    return LATE * left / loss;
                }
                let batch = batch.max(1);
                let blocks = f64::from(batch.div_ceil(n as u32));
                1.0 + m as f64 * blocks / f64::from(batch)
            }
        }
    }
}

/// More than any overhead costs.
const LATE: f64 = 1e3;
