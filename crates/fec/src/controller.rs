use std::collections::BTreeMap;

use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::model::{reseq, residual, residual_cost};
use crate::{LEAST_EXPECTED, LossCount};

/// Objective of the choice of redundancy.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "for")]
pub enum Objective {
    /// Fewest transmissions until all receivers have everything.
    Goodput,
    /// Least overhead that keeps in-order delivery within a delay budget.
    Delay {
        /// Packets in a round trip, the time that a repair takes.
        window: u16,
        /// Delay budget in packet times, for the 95th percentile of the resequencing delay and for the time to fill a
        /// block.
        budget: u32,
    },
    /// Least overhead that meets a bound on the loss after decoding: live media, without later repair.
    Live {
        /// Largest loss after decoding, as a share of all packets.
        loss: f64,
        /// Packets that are sent together, such as those of a frame; the last block of a batch ends with it.
        batch: u32,
    },
}

/// Configuration of the choice of redundancy (specs/packet-level-fec.md 2.7).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerConfig {
    /// The objective.
    pub objective: Objective,
    /// Largest block in packets, parities included: the memory of the receivers.
    pub block: u8,
    /// Largest number of parities of a block.
    pub parities: u8,
    /// Largest share of parities among all packets, which bounds what a single receiver can cause.
    pub cap: f64,
    /// Share of the receivers with the highest losses that are treated like the next lower one, in groups of more
    /// than ten: they may report falsely, or no code may help them.
    pub trim: f64,
    /// Least relative gain that justifies a change.
    pub hysteresis: f64,
    /// Largest number of receivers remembered; reports of further ones are refused.
    pub receivers: usize,
}

impl Default for ControllerConfig {
    /// Goodput, blocks of at most 8 with up to 3 parities as in the paper, at most half of all packets parities, the
    /// worst twentieth trimmed, changes for 3 %, 100,000 receivers.
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

/// A choice, and the receiver that determined it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Choice {
    /// Source packets of a block.
    pub n: u8,
    /// Parities of a block; 0 means no FEC.
    pub m: u8,
    /// Packets sent per source packet by the model; at least a thousand if the objective cannot be met.
    pub cost: f64,
    /// The counted receiver with the highest loss, and that loss.
    pub driver: Option<(u64, f64)>,
}

/// State of a receiver.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Smoothed loss; `None` until enough packets were counted.
    loss: Option<f64>,
    /// Counts that are not yet included in the loss.
    pending: LossCount,
}

/// A class of receivers: mean loss and number.
type Kind = (f64, f64);

/// Chooses N and M from the reports of the receivers, by the cost model with the actual losses of the group.
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
/// Classes of loss per factor of two.
const KINDS: f64 = 8.0;
/// Losses below the range count as none, above it as hopeless.
const RANGE: (f64, f64) = (1e-7, 0.9);

impl Controller {
    /// Creates a controller without reports, which chooses no FEC.
    pub fn new(config: ControllerConfig) -> Controller {
        Controller {
            config,
            receivers: BTreeMap::new(),
            current: (1, 0),
            changed: None,
            refused: 0,
        }
    }

    /// Changes the objective; the state of the receivers is kept.
    pub fn set_config(&mut self, config: ControllerConfig) {
        self.config = config;
    }

    /// Processes a report: what a receiver counted before decoding since its last report.
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

    /// Removes a receiver that left.
    pub fn forget(&mut self, receiver: u64) {
        self.receivers.remove(&receiver);
    }

    /// Reports refused because too many receivers are remembered.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the current choice, which changes only for a sufficient gain, and at most once in two round trips.
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

    /// Receivers by class of loss, and the counted receiver with the highest loss.
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

    /// The code with the least cost.
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

    /// Packets sent per source packet; under [`Objective::Delay`] and [`Objective::Live`] the overhead, plus a large
    /// penalty if the objective is not met.
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

/// Penalty that exceeds any overhead.
const LATE: f64 = 1e3;
