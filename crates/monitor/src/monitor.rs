//! The monitor: events in, signals and reports out.

use std::collections::{BTreeMap, VecDeque};

use layercast_core::{Contract, ContractError, Machine, Observer, QosAction, QosEvent, Span, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::comparison::Comparison;
use crate::connection::Connection;
use crate::direction::Direction;
use crate::report::ConnectionReport;
use crate::signals::{MOST_WINDOWS, Signal};

/// Longest window.
const LONGEST: Span = Span::from_secs(3_600);
/// Shortest window, and shortest time between reports.
const SHORTEST: Span = Span::from_ms(1);
const OFTEN: Span = Span::from_ms(100);
/// Reports of closed connections that wait to be taken.
const MOST_CLOSED: usize = 64;

/// How a monitor measures and compares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MonitorConfig {
    /// Sliding windows of rates, from the shortest on.
    pub windows: [Span; 3],
    /// The window after which values are compared with the contract.
    pub compare: Span,
    /// Which deviations count.
    pub comparison: Comparison,
    /// A zone changes if `k` of the last `n` windows say so.
    pub rule: (usize, usize),
    /// A connection is stale after this time without an event.
    pub stale: Span,
    /// Time between reports; none: only those of closed connections.
    pub report: Option<Span>,
    /// Connections at most.
    pub connections: usize,
    /// Of these, connections that were not seen to open: the monitor began after them.
    pub implicit: usize,
}

impl Default for MonitorConfig {
    fn default() -> MonitorConfig {
        MonitorConfig {
            windows: [Span::from_ms(100), Span::from_secs(1), Span::from_secs(10)],
            compare: Span::from_secs(1),
            comparison: Comparison::Adverse,
            rule: (1, 1),
            stale: Span::from_secs(2),
            report: None,
            connections: 4_096,
            implicit: 64,
        }
    }
}

/// Why a monitor is not set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MonitorConfigError {
    /// A window that is no time, or too long.
    #[error("{0}: from 1 ms to 1 h")]
    Window(&'static str),
    /// The windows do not grow.
    #[error("windows: each longer than the one before")]
    Order,
    /// More than ten reports a second.
    #[error("report: from 100 ms to 1 h")]
    Report,
    /// No such rule.
    #[error("rule: k of n windows, with 1 <= k <= n <= {MOST_WINDOWS}")]
    Rule,
}

impl MonitorConfig {
    fn check(&self) -> Result<Settings, MonitorConfigError> {
        let sound = |it: Span| (SHORTEST..=LONGEST).contains(&it);
        if !self.windows.iter().copied().all(sound) {
            return Err(MonitorConfigError::Window("windows"));
        }
        if self.windows[0] >= self.windows[1] || self.windows[1] >= self.windows[2] {
            return Err(MonitorConfigError::Order);
        }
        if !sound(self.compare) {
            return Err(MonitorConfigError::Window("compare"));
        }
        if !sound(self.stale) {
            return Err(MonitorConfigError::Window("stale"));
        }
        if self
            .report
            .is_some_and(|it| !(OFTEN..=LONGEST).contains(&it))
        {
            return Err(MonitorConfigError::Report);
        }
        let (k, n) = self.rule;
        if !(1..=n).contains(&k) || n > MOST_WINDOWS {
            return Err(MonitorConfigError::Rule);
        }
        Ok(Settings {
            windows: self.windows.map(Span::as_ns),
            compare: self.compare.as_ns(),
            comparison: self.comparison,
            rule: self.rule,
            stale: self.stale.as_ns(),
        })
    }
}

/// The configuration in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) windows: [u64; 3],
    pub(crate) compare: u64,
    pub(crate) comparison: Comparison,
    pub(crate) rule: (usize, usize),
    pub(crate) stale: u64,
}

/// What a monitor counts, all connections together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct MonitorCounts {
    /// Events taken.
    pub events: u64,
    /// Events that rings had no place for.
    pub events_lost: u64,
    /// Events of connections that are not known, and for which there was no place.
    pub unknown: u64,
    /// Connections that opened.
    pub opened: u64,
    /// Of these, those whose number another one had that was not closed.
    pub reopened: u64,
    /// Connections for which there was no place.
    pub refused: u64,
}

/// Measures connections from events (specs/user-to-user-qos.md 2).
///
/// Events are to be handed over in the order in which they came, and before [`on_timeout`](Monitor::on_timeout) of a later
/// instant. A monitor takes no clock: `now` bounds the stamps of the events.
#[derive(Debug)]
pub struct Monitor {
    settings: Settings,
    report_every: Option<Span>,
    most: (usize, usize),
    implicit: usize,
    all: BTreeMap<u64, Connection>,
    signals: VecDeque<Signal>,
    closed: VecDeque<ConnectionReport>,
    /// Reports of this instant, from this connection on.
    reporting: Option<(u64, u64)>,
    next_report: Option<Time>,
    counts: MonitorCounts,
}

impl Monitor {
    /// A monitor that knows no connection.
    ///
    /// # Errors
    /// A value of the configuration is not possible: the error names it.
    pub fn new(config: MonitorConfig) -> Result<Monitor, MonitorConfigError> {
        Ok(Monitor {
            settings: config.check()?,
            report_every: config.report,
            most: (config.connections, config.implicit),
            implicit: 0,
            all: BTreeMap::new(),
            signals: VecDeque::new(),
            closed: VecDeque::new(),
            reporting: None,
            next_report: None,
            counts: MonitorCounts::default(),
        })
    }

    /// Takes an event at `now`, the instant at which it is read or later than its stamp.
    pub fn handle_event(&mut self, now: Time, event: &QosEvent) {
        self.counts.events += 1;
        let t = now.as_ps() / 1_000;
        if event.action == QosAction::EventsLost as u8 {
            self.counts.events_lost = self.counts.events_lost.saturating_add(event.a);
            if event.conn == 0 {
                // Those of any connections: all may lack some.
                self.all.values_mut().for_each(|it| it.lost(t, 0));
                return;
            }
        }
        if event.action == QosAction::Open as u8 {
            self.open(t, event);
        }
        if !self.all.contains_key(&event.conn) && !self.admit_unknown(t, event) {
            self.counts.unknown += 1;
            return;
        }
        let Some(connection) = self.all.get_mut(&event.conn) else {
            return;
        };
        if connection.handle(t, event, &self.settings, &mut self.signals) {
            self.close(t, event.conn);
        }
        if self.next_report.is_none() {
            self.next_report = self.report_every.map(|it| now + it);
        }
    }

    fn open(&mut self, t: u64, event: &QosEvent) {
        if self.all.contains_key(&event.conn) {
            self.counts.reopened += 1;
            self.close(t, event.conn);
        }
        if self.all.len() >= self.most.0 {
            self.counts.refused += 1;
            return;
        }
        self.counts.opened += 1;
        let connection = Connection::new(event.conn, event.t_ns.min(t), &self.settings);
        self.all.insert(event.conn, connection);
    }

    /// A place for a connection that was not seen to open.
    fn admit_unknown(&mut self, t: u64, event: &QosEvent) -> bool {
        let is_new =
            event.action != QosAction::Open as u8 && event.action != QosAction::Close as u8;
        if !is_new || self.implicit >= self.most.1 || self.all.len() >= self.most.0 {
            return false;
        }
        self.implicit += 1;
        let mut connection = Connection::new(event.conn, event.t_ns.min(t), &self.settings);
        connection.implicit = true;
        self.all.insert(event.conn, connection);
        true
    }

    fn close(&mut self, t: u64, conn: u64) {
        let Some(mut connection) = self.all.remove(&conn) else {
            return;
        };
        if self.closed.len() >= MOST_CLOSED {
            self.closed.pop_front();
        }
        self.implicit -= usize::from(connection.implicit);
        self.closed
            .push_back(connection.report(t, true, &self.settings));
    }

    /// From now on `contract` holds for a connection and direction; false: there is no such connection.
    ///
    /// # Errors
    /// A value of the contract is not possible: the error names it.
    pub fn set_contract(
        &mut self,
        now: Time,
        conn: u64,
        dir: Direction,
        contract: Contract,
    ) -> Result<bool, ContractError> {
        contract.check()?;
        let Some(connection) = self.all.get_mut(&conn) else {
            return Ok(false);
        };
        let t = now.as_ps() / 1_000;
        connection.set_contract(t, dir, contract, &self.settings, &mut self.signals);
        Ok(true)
    }

    /// Ends the windows that are over at `now`.
    pub fn on_timeout(&mut self, now: Time) {
        let t = now.as_ps() / 1_000;
        for connection in self.all.values_mut() {
            connection.advance(t, &self.settings, &mut self.signals);
        }
        if self.next_report.is_some_and(|at| at <= now) {
            self.reporting = Some((t, 0));
            self.next_report = self.report_every.map(|it| now + it);
        }
    }

    /// The next signal.
    pub fn poll_signal(&mut self) -> Option<Signal> {
        self.signals.pop_front()
    }

    /// The next report: of a closed connection, or one of all that are due.
    pub fn poll_report(&mut self) -> Option<ConnectionReport> {
        if let Some(report) = self.closed.pop_front() {
            return Some(report);
        }
        let (t, from) = self.reporting?;
        let Some((&conn, connection)) = self.all.range_mut(from..).next() else {
            self.reporting = None;
            return None;
        };
        self.reporting = conn.checked_add(1).map(|next| (t, next));
        Some(connection.report(t, false, &self.settings))
    }

    /// A connection at `now`.
    pub fn snapshot(&mut self, now: Time, conn: u64) -> Option<ConnectionReport> {
        let connection = self.all.get_mut(&conn)?;
        Some(connection.report(now.as_ps() / 1_000, false, &self.settings))
    }

    /// The connections there are.
    pub fn connections(&self) -> impl Iterator<Item = u64> + '_ {
        self.all.keys().copied()
    }

    /// What was counted.
    pub fn counts(&self) -> MonitorCounts {
        self.counts
    }

    /// When a window is over, or reports are due, next.
    pub fn next_timeout(&self) -> Option<Time> {
        let windows = self.all.values().map(|it| it.next_timeout(&self.settings));
        let window = windows.min().map(|ns| Time::ZERO + Span::from_ns(ns));
        layercast_core::earliest(window, self.next_report)
    }
}

impl Machine for Monitor {
    type Input = QosEvent;
    type Transmit = Signal;
    type Event = ConnectionReport;

    fn handle<O: Observer>(&mut self, now: Time, event: QosEvent, _: &mut O) {
        self.handle_event(now, &event);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, _: &mut O) {
        Monitor::on_timeout(self, now);
    }

    fn poll_transmit<O: Observer>(&mut self, _: Time, _: &mut O) -> Option<Signal> {
        self.poll_signal()
    }

    fn poll_event(&mut self) -> Option<ConnectionReport> {
        self.poll_report()
    }

    fn next_timeout(&self) -> Option<Time> {
        Monitor::next_timeout(self)
    }
}
