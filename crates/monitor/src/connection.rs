//! What is measured of one connection.

mod report;
mod side;

use std::collections::VecDeque;

use layercast_core::{Contract, Parameter, QosAction, QosEvent, QosInfo, Term};

use crate::delay::{Method, Probes};
use crate::descriptor::{Descriptor, LossReport, RttSource};
use crate::direction::Direction;
use crate::monitor::Settings;
use crate::report::ConnectionCounts;
use crate::signals::{Limit, Signal};
use side::Side;

/// Signals that wait to be taken, of all connections, at most.
const MOST_SIGNALS: usize = 1_024;

#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) conn: u64,
    /// It was not seen to open.
    pub(crate) implicit: bool,
    descriptor: Option<&'static Descriptor>,
    /// The last event, or the latest instant that was looked at.
    at: u64,
    heard: u64,
    since: u64,
    sides: [Side; 2],
    probes: Probes,
    limit: Limit,
    pub(crate) counts: ConnectionCounts,
    gap_at: Option<u64>,
}

impl Connection {
    pub(crate) fn new(conn: u64, t: u64, settings: &Settings) -> Connection {
        let side = |dir| Side::new(dir, t, settings);
        Connection {
            conn,
            implicit: false,
            descriptor: None,
            at: t,
            heard: t,
            since: t,
            sides: Direction::ALL.map(side),
            probes: Probes::default(),
            limit: Limit::default(),
            counts: ConnectionCounts::default(),
            gap_at: None,
        }
    }

    /// Takes an event that came at `now`; true: the connection is over.
    pub(crate) fn handle(
        &mut self,
        now: u64,
        event: &QosEvent,
        settings: &Settings,
        signals: &mut VecDeque<Signal>,
    ) -> bool {
        // Neither back, nor ahead of the monitor: one wrong stamp would stop all later ones.
        let t = event.t_ns.clamp(self.at, now.max(self.at));
        self.counts.clamped += u64::from(t != event.t_ns);
        self.advance(t, settings, signals);
        (self.at, self.heard) = (t, t);
        self.counts.events += 1;
        for side in &mut self.sides {
            side.period.heard = true;
        }
        if self.take(t, event, settings, signals).is_none() {
            self.counts.malformed += 1;
        }
        event.action == QosAction::Close as u8
    }

    /// `None`: the event means nothing.
    fn take(
        &mut self,
        t: u64,
        event: &QosEvent,
        settings: &Settings,
        signals: &mut VecDeque<Signal>,
    ) -> Option<()> {
        match QosAction::of(event.action)? {
            QosAction::Open => self.descriptor = Descriptor::of(event.aux),
            QosAction::Close => {}
            QosAction::Sent | QosAction::Received => self.on_packet(t, event)?,
            QosAction::ProbeStart => {
                let again = event.flags & QosEvent::AGAIN != 0;
                self.probes.start(t, event.a, again);
            }
            QosAction::ProbeEnd => self.on_answer(t, event)?,
            QosAction::ErrReport => self.on_error_report(t, event)?,
            QosAction::ContractSet => self.on_contract(t, event, settings, signals)?,
            QosAction::Delivered => self.on_delivered(t, event)?,
            QosAction::Dropped => self.side(event)?.drop(t, event),
            QosAction::DeadlineMiss => {
                let side = self.side(event)?;
                side.totals.deadlines_missed += u64::from(event.aux.max(1));
                // Late data are lost to an isochronous user.
                side.err(t, event.a, 0);
            }
            QosAction::EventsLost => self.lost(t, event.a),
        }
        Some(())
    }

    /// Events of the connection were lost at `t`.
    pub(crate) fn lost(&mut self, t: u64, count: u64) {
        self.counts.events_lost = self.counts.events_lost.saturating_add(count);
        self.gap_at = Some(t);
        for side in &mut self.sides {
            side.reports.abandon();
        }
    }

    fn side(&mut self, event: &QosEvent) -> Option<&mut Side> {
        Some(&mut self.sides[Direction::of(event.dir)? as usize])
    }

    fn on_packet(&mut self, t: u64, event: &QosEvent) -> Option<()> {
        let reports = self.descriptor.map(|it| it.loss_report);
        match QosInfo::of(event.info_type)? {
            QosInfo::Size => {
                let side = self.side(event)?;
                let whole = side.packet(t, event);
                // Where no report says up to where losses are known, all that comes is offered.
                if event.action == QosAction::Received as u8
                    && reports != Some(LossReport::ReceivedSpans)
                {
                    side.err(t, 0, event.a);
                }
                if !whole {
                    self.gap_at = Some(t);
                }
            }
            QosInfo::Seq => {
                let sent = &mut self.side(event)?.reports.sent;
                *sent = (*sent).max(Some(event.a));
            }
            QosInfo::Time => return self.on_delivered(t, event),
            // A sign of life.
            QosInfo::None => {}
            _ => return None,
        }
        Some(())
    }

    fn on_delivered(&mut self, t: u64, event: &QosEvent) -> Option<()> {
        let side = self.side(event)?;
        match QosInfo::of(event.info_type)? {
            QosInfo::Size => {
                side.totals.delivered_bits = side.totals.delivered_bits.saturating_add(event.a);
            }
            QosInfo::Time if event.flags & QosEvent::CLOCKS == 0 => {
                let jitters = side.wants_jitter();
                side.delays.relative(t, event.a as i64, jitters);
            }
            QosInfo::Time => side.delay(t, event.a as i64, Method::OneWay),
            QosInfo::None => {}
            _ => return None,
        }
        Some(())
    }

    fn on_answer(&mut self, t: u64, event: &QosEvent) -> Option<()> {
        let rtt = match QosInfo::of(event.info_type)? {
            QosInfo::Rtt => self.probes.end(t, event.a),
            QosInfo::Time => {
                self.probes.learn(event.a);
                Some(event.a)
            }
            _ => return None,
        };
        let stamps = self.descriptor.map(|it| it.rtt_source) == Some(RttSource::Timestamp);
        let method = match stamps {
            true => Method::EchoedStamp,
            false => Method::HalfRtt,
        };
        if let Some(rtt) = rtt {
            for side in &mut self.sides {
                side.delay(t, (rtt / 2).min(i64::MAX as u64) as i64, method);
            }
        }
        Some(())
    }

    fn on_error_report(&mut self, t: u64, event: &QosEvent) -> Option<()> {
        let side = self.side(event)?;
        let told = match QosInfo::of(event.info_type)? {
            QosInfo::SpansHead => side.reports.head(event.a, event.b, event.aux),
            QosInfo::Span => side.reports.span(event.a, event.b),
            _ => return None,
        };
        if let Some(told) = told {
            let literal = &mut side.totals.error_bits_literal;
            *literal = literal.saturating_add(told.literal.saturating_mul(8));
            side.err(
                t,
                told.missing.saturating_mul(8),
                told.offered.saturating_mul(8),
            );
        }
        Some(())
    }

    fn on_contract(
        &mut self,
        t: u64,
        event: &QosEvent,
        settings: &Settings,
        signals: &mut VecDeque<Signal>,
    ) -> Option<()> {
        let dir = Direction::of(event.dir)?;
        if event.info_type != QosInfo::Contract as u8 {
            return None;
        }
        let mut contract = self.sides[dir as usize].contract;
        match (event.aux, Parameter::of(event.aux)) {
            (0, _) => contract = Contract::default(),
            (_, Some(parameter)) => {
                contract.set(parameter, Some(Term::agreed(f64::from_bits(event.a))));
            }
            _ => return None,
        }
        match contract.check() {
            Ok(()) => self.set_contract(t, dir, contract, settings, signals),
            Err(_) => self.counts.bad_contracts += 1,
        }
        Some(())
    }

    /// From `t` on another contract holds; what was before is compared with the old one.
    pub(crate) fn set_contract(
        &mut self,
        t: u64,
        dir: Direction,
        contract: Contract,
        settings: &Settings,
        signals: &mut VecDeque<Signal>,
    ) {
        let t = t.max(self.at);
        self.advance(t, settings, signals);
        self.at = t;
        let side = &mut self.sides[dir as usize];
        // A tenth of a window says enough.
        if t - side.period.start >= settings.compare / 10 {
            compare(
                self.conn,
                &mut self.limit,
                &mut self.counts,
                side,
                (t, settings),
                signals,
            );
        }
        side.agree(t, contract);
    }

    /// Ends the windows of comparison that are over before `t`.
    pub(crate) fn advance(&mut self, t: u64, settings: &Settings, signals: &mut VecDeque<Signal>) {
        if t <= self.at {
            return;
        }
        for side in &mut self.sides {
            let end = side.period.start.saturating_add(settings.compare);
            if t <= end {
                continue;
            }
            compare(
                self.conn,
                &mut self.limit,
                &mut self.counts,
                side,
                (end, settings),
                signals,
            );
            // In the windows between nothing was heard: they say nothing.
            let silent = (t - end - 1) / settings.compare;
            side.begin(end + silent * settings.compare);
        }
        self.probes.expire(t);
        self.at = t;
    }

    /// When a window of comparison is over next.
    pub(crate) fn next_timeout(&self, settings: &Settings) -> u64 {
        let start = self.sides.iter().map(|it| it.period.start).min();
        start
            .unwrap_or(0)
            .saturating_add(settings.compare)
            .saturating_add(1)
    }
}

/// Compares the window that ends at `end` with the contract.
fn compare(
    conn: u64,
    limit: &mut Limit,
    counts: &mut ConnectionCounts,
    side: &mut Side,
    (end, settings): (u64, &Settings),
    signals: &mut VecDeque<Signal>,
) {
    side.compare(end, settings, |mut signal| {
        signal.conn = conn;
        if signals.len() >= MOST_SIGNALS {
            return;
        }
        if let Some(suppressed) = limit.admit(end) {
            signal.suppressed = suppressed;
            counts.signals += 1;
            signals.push_back(signal);
        }
    });
}
