//! Base layers that are admitted by their measured rate (specs/admission-control.md).

use std::collections::BTreeMap;

use layercast_admission::{CallId, Decision, Event, Mbac, MbacConfig, Promise, TSpec};
use layercast_core::{CellRate, FlowId, MeasuredLink, Rate, Refusal, Resource, Span, Time};
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;

/// What a port promises its base layers if it admits them by measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LatePromise {
    /// Most base-layer bits that are late or lost here, parts in a million.
    pub late_ppm: u32,
    /// Time in the queue and on the line after which a bit is late.
    pub within: Span,
    /// Over which time the promise holds.
    pub period: Span,
}

impl Default for LatePromise {
    fn default() -> LatePromise {
        LatePromise {
            late_ppm: 1_000,
            within: Span::from_ms(16),
            period: Span::from_secs(12 * 3_600),
        }
    }
}

impl LatePromise {
    /// Checks the bounds of all fields.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fail = |field, problem: &str| {
            let problem = problem.to_owned();
            Err(ConfigError { field, problem })
        };
        if !(1..1_000_000).contains(&self.late_ppm) {
            return fail("late", "is above 0 and below 100 %");
        }
        if self.period < Span::from_secs(10) {
            return fail("period", "is 10 s or more");
        }
        // A packet alone takes longer than that on a line of a few hundred Mbit/s.
        if self.within < Span::from_us(10) || self.within >= self.period {
            return fail("within", "is 10 us or more and shorter than the period");
        }
        Ok(())
    }

    fn controller(&self, capacity: Rate) -> MbacConfig {
        MbacConfig {
            promise: Promise {
                late_ppm: self.late_ppm,
                period: self.period,
                sliding: false,
            },
            ..MbacConfig::new(capacity)
        }
    }
}

/// How a port stands that admits base layers by measurement; rates in bit/s.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MeasuredStats {
    /// Measurement window, milliseconds.
    pub window_ms: u64,
    /// Measured rate at which the window grows.
    pub trigger: Rate,
    /// Estimated rate of the base layers.
    pub estimate: Rate,
    /// Their rate in the last half second.
    pub measured: Rate,
    /// Sum of their declared rates.
    pub declared: Rate,
    /// Base layers on the port.
    pub flows: u32,
    /// Bits late or lost in this period, parts in a million.
    pub late_ppm: u32,
    /// Those that are promised at most.
    pub target_ppm: u32,
    /// Whether the promise is kept in this period up to now.
    pub kept: bool,
    /// Periods that ended with the promise kept.
    pub periods_kept: u64,
    /// Periods that ended with the promise broken.
    pub periods_broken: u64,
    /// Base layers admitted.
    pub admitted: u64,
    /// Base layers admitted without a test, as they were in progress before the node started again.
    pub survived: u64,
    /// Admissions taken back, as a node upstream refused.
    pub rolled_back: u64,
    /// Refused: too much now.
    pub refused: u64,
    /// Refused: more than the link can ever carry.
    pub refused_never: u64,
}

/// What happened to a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// A period ended.
    Ended {
        /// Bits late or lost, parts in a million.
        late_ppm: u32,
        /// Whether the promise was kept.
        kept: bool,
    },
    /// The link cannot carry what was admitted.
    Overcommitted {
        /// What is too much.
        excess: Rate,
    },
}

/// A reservation on the port.
#[derive(Clone, Copy, Debug)]
pub struct Reservation {
    /// Of the base layer.
    pub rate: CellRate,
    /// Whether the nodes upstream agreed: what is given back before has not been used.
    pub committed: bool,
}

/// The controller of a queue: reservations and measurements of base layers in, headroom out.
#[derive(Debug)]
pub struct Measured {
    promise: LatePromise,
    mbac: Mbac,
    line: Rate,
    born: Time,
    known: BTreeMap<FlowId, Reservation>,
    survived: u64,
    refused: u64,
    refused_never: u64,
}

impl Measured {
    /// The controller of a link that may carry `capacity`; none for a promise or a capacity that cannot be meant.
    pub fn new(promise: LatePromise, capacity: Rate, now: Time) -> Option<Measured> {
        let mbac = Mbac::new(promise.controller(capacity), now).ok()?;
        Some(Measured {
            promise,
            mbac,
            line: capacity,
            born: now,
            known: BTreeMap::new(),
            survived: 0,
            refused: 0,
            refused_never: 0,
        })
    }

    /// Units of a base layer enter the queue, and leave the line after `wait`.
    pub fn arrive(&mut self, now: Time, cells: u32, wait: Span) {
        let late = wait > self.promise.within;
        self.mbac.on_arrival(now, bits(cells), late);
    }

    /// Units of a base layer are dropped: they are as good as late.
    pub fn lose(&mut self, now: Time, cells: u32) {
        self.mbac.on_arrival(now, bits(cells), true);
    }

    /// The transmission of units of a base layer begins.
    pub fn leave(&mut self, at: Time, cells: u32) {
        self.mbac.on_transmit(at, bits(cells));
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Time) {
        self.mbac.handle_timeout(now);
    }

    /// Whether `more` fits beside what is measured, and beside base layers of this rate that are reserved and do not pass now.
    pub fn check(&self, node: &str, more: CellRate, absent: CellRate) -> Result<(), Refusal> {
        let available = self.mbac.headroom();
        let available = Rate::from_bps(available.as_bps().saturating_sub(absent.rate().as_bps()));
        if more.rate() <= available {
            return Ok(());
        }
        Err(Refusal {
            node: node.into(),
            resource: Resource::Link,
            needed: more.0.into(),
            available: available.cells().0.into(),
            measured: Some(self.state(more)),
        })
    }

    /// Whether the link can never carry it, however little is measured.
    fn is_never(&self, needed: CellRate) -> bool {
        needed.rate() > self.line
    }

    /// Counts a refusal.
    pub fn refuse(&mut self, needed: CellRate) {
        match self.is_never(needed) {
            true => self.refused_never += 1,
            false => self.refused += 1,
        }
    }

    /// Whether the controller started less than `life` ago: flows may have survived the loss of the channel or of the
    /// node's state.
    pub fn is_young(&self, now: Time, life: Span) -> bool {
        now.since(self.born) < life
    }

    /// Follows the reservations on the port: rate, and whether it is committed. A flow without a base layer takes
    /// nothing, and is not known here.
    pub fn book(&mut self, now: Time, branches: &BTreeMap<FlowId, Reservation>) {
        let wanted = |id: &FlowId| branches.get(id).filter(|it| it.rate > CellRate(0));
        let gone = self.known.iter().filter(|(id, _)| wanted(id).is_none());
        let gone: Vec<(FlowId, Reservation)> = gone.map(|(id, known)| (*id, *known)).collect();
        for (id, before) in gone {
            self.known.remove(&id);
            // A call that is known here is known there.
            let _ = match before.committed {
                true => self.mbac.release(now, call(id)),
                false => self.mbac.rollback(now, call(id)),
            };
        }
        for (&id, &branch) in branches {
            let Ok(spec) = TSpec::peak(branch.rate.rate()) else {
                continue;
            };
            let decision = match self.known.insert(id, branch) {
                None => self.mbac.request(now, call(id), &spec),
                Some(before) if before.rate != branch.rate => {
                    self.mbac.resize(now, call(id), &spec)
                }
                Some(_) => continue,
            };
            if matches!(decision, Ok(Decision::Reject(_))) {
                // What the switch let in without a test had the flow, or the rate, before.
                let _ = self.mbac.release(now, call(id));
                self.mbac.survive(now, call(id), &spec);
                self.survived += 1;
            }
        }
    }

    /// The link may carry another rate.
    pub fn set_capacity(&mut self, now: Time, capacity: Rate) {
        if self.mbac.set_capacity(now, capacity).is_ok() {
            self.line = capacity;
        }
    }

    /// What happened since the last call.
    pub fn news(&mut self) -> Option<News> {
        loop {
            return Some(match self.mbac.poll_event()? {
                Event::PeriodEnd { outcome, .. } => News::Ended {
                    late_ppm: outcome.late_ppm,
                    kept: outcome.kept,
                },
                Event::Overcommitted { excess, .. } => News::Overcommitted { excess },
                _ => continue,
            });
        }
    }

    fn state(&self, needed: CellRate) -> MeasuredLink {
        let report = self.mbac.report();
        MeasuredLink {
            window_ms: report.window.unwrap_or_default().as_ms(),
            trigger: report.trigger.unwrap_or_default(),
            late_ppm: report.promise.late_ppm,
            target_ppm: self.promise.late_ppm,
            never: self.is_never(needed),
        }
    }

    /// How it stands.
    pub fn stats(&self) -> MeasuredStats {
        let report = self.mbac.report();
        MeasuredStats {
            window_ms: report.window.unwrap_or_default().as_ms(),
            trigger: report.trigger.unwrap_or_default(),
            estimate: report.estimate,
            measured: report.measured,
            declared: report.declared,
            flows: report.calls,
            late_ppm: report.promise.late_ppm,
            target_ppm: self.promise.late_ppm,
            kept: report.promise.kept,
            periods_kept: report.kept,
            periods_broken: report.broken,
            admitted: report.counts.admitted,
            survived: self.survived,
            rolled_back: report.counts.rolled_back,
            refused: self.refused,
            refused_never: self.refused_never,
        }
    }
}

/// A port is one path.
fn call(flow: FlowId) -> CallId {
    CallId {
        path: 0,
        call: flow.0.into(),
    }
}

/// Reservations count cells for datagrams, too.
fn bits(cells: u32) -> u64 {
    CellRate(cells).rate().as_bps()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;
    /// 2358 cells/s.
    const LINE: Rate = Rate::from_bps(1_000_000);

    fn port() -> Measured {
        Measured::new(LatePromise::default(), LINE, NOW).unwrap()
    }

    fn reserve(port: &mut Measured, flows: &[(u32, u32)]) -> MeasuredStats {
        let reservation = |cells| Reservation {
            rate: CellRate(cells),
            committed: true,
        };
        let flows = flows.iter().map(|it| (FlowId(it.0), reservation(it.1)));
        port.book(NOW, &flows.collect());
        port.stats()
    }

    #[test]
    fn a_flow_without_a_base_layer_takes_nothing() {
        let mut port = port();
        assert_eq!(reserve(&mut port, &[(1, 480), (2, 0)]).flows, 1);
        let none = reserve(&mut port, &[(1, 0), (2, 0)]);
        assert_eq!((none.flows, none.declared), (0, Rate::default()));
        let again = reserve(&mut port, &[(1, 480), (2, 100)]);
        assert_eq!((again.flows, again.declared), (2, CellRate(580).rate()));
    }

    #[test]
    fn what_the_switch_let_in_counts_as_declared_however_much_it_is() {
        let mut port = port();
        reserve(&mut port, &[(1, 480)]);
        let grown = reserve(&mut port, &[(1, 3_000), (2, 2_000)]);
        assert_eq!((grown.flows, grown.survived), (2, 2));
        assert_eq!(grown.declared, CellRate(5_000).rate());
        assert_eq!(grown.estimate, LINE);
        assert_eq!(reserve(&mut port, &[]).declared, Rate::default());
    }

    #[test]
    fn a_refusal_says_whether_it_is_for_now() {
        let mut port = port();
        reserve(&mut port, &[(1, 2_000)]);
        let mut refused = |cells| {
            let needed = CellRate(cells);
            port.refuse(needed);
            port.check("fen", needed, CellRate(0))
                .unwrap_err()
                .to_string()
        };
        assert!(refused(400).ends_with("promised: kept"));
        assert!(refused(2_400).ends_with("more than the link can ever carry"));
        let stats = port.stats();
        assert_eq!((stats.refused, stats.refused_never), (1, 1));
    }
}
