//! Observers of machines: a monitor for each node of a simulation, or the ring of a protocol.

use std::collections::BTreeMap;

use layercast_core::{
    Contract, ContractError, Observer, QosAction, QosEvent, Record, Subject, Time,
};

use crate::direction::Direction;
use crate::monitor::{Monitor, MonitorConfig, MonitorConfigError};
use crate::report::ConnectionReport;
use crate::ring::Producer;
use crate::signals::Signal;

/// Signals and reports that are kept of one node.
const MOST: usize = 1 << 20;

/// A node with its monitor.
#[derive(Debug)]
pub struct Watched {
    monitor: Monitor,
    now: Time,
    /// Signals in their order.
    pub signals: Vec<Signal>,
    /// Reports in their order.
    pub reports: Vec<ConnectionReport>,
}

impl Watched {
    /// Lets time pass up to `now`, exclusively.
    fn advance(&mut self, now: Time) {
        while let Some(at) = self.monitor.next_timeout().filter(|at| *at < now) {
            self.monitor.on_timeout(at);
            self.take();
        }
        self.now = self.now.max(now);
    }

    fn take(&mut self) {
        while let Some(signal) = self.monitor.poll_signal() {
            if self.signals.len() < MOST {
                self.signals.push(signal);
            }
        }
        while let Some(report) = self.monitor.poll_report() {
            if self.reports.len() < MOST {
                self.reports.push(report);
            }
        }
    }

    /// The monitor.
    pub fn monitor(&mut self) -> &mut Monitor {
        &mut self.monitor
    }
}

/// Hands the measured events of each node to a monitor of its own, at the instant at which they happen.
#[derive(Debug)]
pub struct Watching {
    config: MonitorConfig,
    contract: Contract,
    nodes: BTreeMap<String, Watched>,
}

impl Watching {
    /// Monitors that hold each connection and direction to `contract`.
    ///
    /// # Errors
    /// A value of the configuration is not possible.
    pub fn new(config: MonitorConfig, contract: Contract) -> Result<Watching, WatchingError> {
        Monitor::new(config)?;
        contract.check()?;
        Ok(Watching {
            config,
            contract,
            nodes: BTreeMap::new(),
        })
    }

    /// Ends the windows that are over at `now`, and gives what there is by node; the last reports are those of connections
    /// that are still open.
    pub fn finish(mut self, now: Time) -> BTreeMap<String, Watched> {
        for node in self.nodes.values_mut() {
            node.advance(now);
            node.take();
            let open: Vec<u64> = node.monitor.connections().collect();
            for conn in open {
                node.reports.extend(node.monitor.snapshot(now, conn));
            }
        }
        self.nodes
    }
}

/// The events of the machines of a node, through a ring to a monitor elsewhere.
impl Observer for Producer {
    fn record(&mut self, _: &Record<'_>) {}

    fn enabled(&self) -> bool {
        false
    }

    fn measure(&mut self, _: Subject<'_>, event: &QosEvent) {
        // One that is lost is counted by the ring.
        let _ = self.put_element(event);
    }

    fn measures(&self) -> bool {
        true
    }
}

/// Why nothing is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WatchingError {
    /// The monitor.
    #[error(transparent)]
    Config(#[from] MonitorConfigError),
    /// The contract.
    #[error(transparent)]
    Contract(#[from] ContractError),
}

impl Observer for Watching {
    fn record(&mut self, _: &Record<'_>) {}

    fn enabled(&self) -> bool {
        false
    }

    fn measures(&self) -> bool {
        true
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        if !self.nodes.contains_key(subject.node) {
            let Ok(monitor) = Monitor::new(self.config) else {
                return;
            };
            let watched = Watched {
                monitor,
                now: Time::ZERO,
                signals: Vec::new(),
                reports: Vec::new(),
            };
            self.nodes.insert(subject.node.to_owned(), watched);
        }
        let Some(node) = self.nodes.get_mut(subject.node) else {
            return;
        };
        let now = node
            .now
            .max(Time::from_ps(event.t_ns.saturating_mul(1_000)));
        node.advance(now);
        // The contract of the user is in place of what the protocol negotiated.
        if event.action == QosAction::ContractSet as u8 && !self.contract.is_empty() {
            return;
        }
        node.monitor.handle_event(now, event);
        if event.action == QosAction::Open as u8 && !self.contract.is_empty() {
            for dir in Direction::ALL {
                // `new` has checked the contract.
                let _ = node
                    .monitor
                    .set_contract(now, event.conn, dir, self.contract);
            }
        }
        node.take();
    }
}
