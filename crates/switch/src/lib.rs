//! The switch and the link as sans-I/O machines.

mod api;
mod config;
mod link;
mod stats;

pub use api::{SwitchEvent, SwitchInput, SwitchTransmit};
pub use config::{ConfigError, Discard, Lowering, PortConfig, QueueConfig, SwitchConfig};
pub use link::{Jitter, Link, LinkConfig, LinkInput, LinkStats, Loss};
pub use stats::{PortStats, RejectedPdus, RejectedSignals, SwitchStats};

use std::collections::VecDeque;

use layercast_core::{Machine, Observer, PortId, Time};

/// The switch machine.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    events: VecDeque<SwitchEvent>,
    out: VecDeque<SwitchTransmit>,
    stats: SwitchStats,
}

impl Switch {
    /// A switch without ports but the local one.
    pub fn new(config: SwitchConfig) -> Switch {
        Switch {
            config,
            events: VecDeque::new(),
            out: VecDeque::new(),
            stats: SwitchStats::default(),
        }
    }

    /// Adds a link, or replaces its configuration.
    pub fn add_port(&mut self, _: PortId, _: PortConfig) {}

    /// Removes a link.
    pub fn remove_port(&mut self, _: PortId) {}

    /// What happened so far.
    pub fn stats(&self) -> SwitchStats {
        self.stats.clone()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Copies of data units made towards ports so far.
    pub fn copies(&self) -> u64 {
        self.stats.copies
    }
}

impl Machine for Switch {
    type Input = SwitchInput;
    type Transmit = SwitchTransmit;
    type Event = SwitchEvent;

    fn handle<O: Observer>(&mut self, _: Time, _: SwitchInput, _: &mut O) {}
    fn on_timeout<O: Observer>(&mut self, _: Time, _: &mut O) {}
    fn poll_transmit<O: Observer>(&mut self, _: Time, _: &mut O) -> Option<SwitchTransmit> {
        self.out.pop_front()
    }
    fn poll_event(&mut self) -> Option<SwitchEvent> {
        self.events.pop_front()
    }
    fn next_timeout(&self) -> Option<Time> {
        None
    }
}
