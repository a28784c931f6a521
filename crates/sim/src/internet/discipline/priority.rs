//! Strict priority of classes (RFC 2475, RFC 3246).

use std::collections::VecDeque;

use layercast_core::quantity::Quantity;

use super::{Bands, DropCause, Item, Port, QueueDiscipline};

/// What strict priority does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PriorityConfig {
    /// The band of each class.
    pub bands: Bands,
}

/// A FIFO queue for each band: one is served while all before it are empty.
#[derive(Debug)]
pub struct Priority {
    config: PriorityConfig,
    bands: Vec<VecDeque<Item>>,
}

impl Priority {
    /// For a link.
    pub fn new(config: PriorityConfig) -> Priority {
        Priority {
            config,
            bands: (0..config.bands.count()).map(|_| VecDeque::new()).collect(),
        }
    }
}

impl QueueDiscipline for Priority {
    fn enqueue(&mut self, item: Item, port: &mut Port<'_>) {
        let band = self.band(&item);
        self.bands[band].push_back(item);
        // So that packets of lower bands take no room from those of higher ones.
        while port.is_over_limit() {
            let Some(last) = self.bands.iter_mut().rev().find_map(VecDeque::pop_back) else {
                debug_assert!(false, "a packet in the queue is in a band");
                return;
            };
            port.drop(last, DropCause::Full);
        }
    }

    fn bands(&self) -> Vec<String> {
        let text = self.config.bands.write();
        text.split(", ").map(str::to_owned).collect()
    }

    fn band(&self, item: &Item) -> usize {
        self.config.bands.of(item.dscp())
    }

    fn dequeue(&mut self, _: &mut Port<'_>) -> Option<Item> {
        self.bands.iter_mut().find_map(VecDeque::pop_front)
    }
}
