use layercast_atm::SharedPolicy;
use layercast_core::{Cause, Layer, PerLayer, Rate};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The queue of a port, in cells; a datagram counts as one for each 48 bytes begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    /// Most that wait.
    pub limit: u32,
    /// Departing units are marked once more than this wait (EFCI, ECN) ...
    pub efci_on: u32,
    /// ... until fewer than this wait.
    pub efci_off: u32,
    /// A new E2 frame is discarded when more than this wait.
    pub e2_limit: u32,
    /// A new E1 frame is discarded when more than this wait.
    pub e1_limit: u32,
}

/// What a full queue does to frames (specs/mets.md 2.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Discard {
    /// Refuse whole enhancement frames early, to keep room for the base layer.
    pub selective: bool,
    /// After a drop, drop the rest of the frame too (its last cell excepted).
    pub partial: bool,
    /// Discard by what units are to their pictures, instead of both of the above (specs/mpeg-picture-quality.md 2.5): the base
    /// layer is class I, E1 class P, E2 class B, and what is no media is class S.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<SharedPolicy>,
}

/// A configuration that cannot be meant.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{field} {problem}")]
pub struct ConfigError {
    /// The offending field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        QueueConfig::of_limit(256)
    }
}

impl QueueConfig {
    /// The default thresholds scaled to a queue of `limit` cells: mark from a quarter down to an
    /// eighth, E2 up to a half, E1 up to three quarters (specs/mets.md 2.10, 3.1).
    pub const fn of_limit(limit: u32) -> QueueConfig {
        QueueConfig {
            limit,
            efci_on: limit / 4,
            efci_off: limit / 8,
            e2_limit: limit / 2,
            e1_limit: limit - limit / 4,
        }
    }

    /// Checks that it holds something, that the thresholds are in order, and that the line behind it has a rate above
    /// zero; `None`: units leave immediately.
    ///
    /// # Errors
    /// The field, and what is wrong with it.
    pub fn validate(&self, rate: Option<Rate>) -> Result<(), ConfigError> {
        let fail = |field, problem: String| Err(ConfigError { field, problem });
        if self.limit == 0 {
            return fail("queue", "of no cells holds nothing".into());
        }
        if self.efci_off > self.efci_on {
            let (on, off) = (self.efci_on, self.efci_off);
            return fail("efci_off", format!("{off} is above efci_on {on}"));
        }
        if rate.is_some_and(|rate| rate.as_bps() == 0) {
            return fail("rate", "must not be zero".into());
        }
        Ok(())
    }
}

impl Default for Discard {
    fn default() -> Discard {
        Discard {
            selective: true,
            partial: true,
            classes: None,
        }
    }
}

/// What a port counted; a unit is a cell or a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PortStats {
    /// Units that came in from the neighbour. A unit is a cell or a datagram.
    pub units_in: u64,
    /// Bytes of these, link headers included.
    pub bytes_in: u64,
    /// Units sent.
    pub units_out: u64,
    /// Bytes sent, link headers included.
    pub bytes_out: u64,
    /// Units dropped because the queue was full.
    pub queue_full: PerLayer<u64>,
    /// Units of frames refused early to protect the base layer.
    pub selective_discard: PerLayer<u64>,
    /// Units of frames that were already damaged.
    pub partial_discard: PerLayer<u64>,
    /// RES and ADAPT queued.
    pub adapter: u64,
    /// RES and ADAPT dropped because the queue was full.
    pub adapter_dropped: u64,
    /// Largest queue, in cells.
    pub max_queue: u32,
    /// Sum of the waiting times of cells in microseconds. Divided by the time it is the mean length of the queue,
    /// by the cells sent the mean wait (Little).
    pub waited_us: u64,
    /// Units marked with congestion experienced.
    pub marked: u64,
}

impl PortStats {
    /// Units dropped, all causes together.
    pub fn dropped(&self) -> PerLayer<u64> {
        let mut sum = PerLayer::default();
        for layer in Layer::ALL {
            sum[layer] = self.queue_full[layer]
                + self.selective_discard[layer]
                + self.partial_discard[layer];
        }
        sum
    }

    pub(crate) fn drop_unit(&mut self, layer: Layer, cause: Cause) {
        let counter = match cause {
            Cause::SelectiveDiscard => &mut self.selective_discard,
            Cause::PartialDiscard => &mut self.partial_discard,
            _ => &mut self.queue_full,
        };
        counter[layer] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_queue_is_that_of_the_spec() {
        let queue = QueueConfig {
            limit: 256,
            efci_on: 64,
            efci_off: 32,
            e2_limit: 128,
            e1_limit: 192,
        };
        assert_eq!(QueueConfig::default(), queue);
        assert_eq!(QueueConfig::default().validate(None), Ok(()));
    }
}
