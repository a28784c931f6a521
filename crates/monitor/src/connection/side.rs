//! One direction of a connection.

use layercast_core::{Contract, Parameter, QosEvent, Zone};

use crate::delay::{Delays, Method};
use crate::direction::Direction;
use crate::errors::Reports;
use crate::monitor::Settings;
use crate::report::Compared;
use crate::signals::{Hysteresis, Signal, Window};
use crate::window::SlidingSum;

/// What was counted since the connection opened.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Totals {
    pub(super) packets: u64,
    pub(super) bits: u64,
    pub(super) user_bits: u64,
    pub(super) delivered_bits: u64,
    pub(super) error_bits: u64,
    pub(super) error_bits_literal: u64,
    pub(super) deadlines_missed: u64,
    pub(super) checksum_failures: u64,
    pub(super) gaps: u64,
    pub(super) bad_totals: u64,
}

/// The window of comparison that is running.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Period {
    pub(super) start: u64,
    /// The connection gave a sign of life.
    pub(super) heard: bool,
    bits: u128,
    delay: (i128, u64),
}

#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) dir: Direction,
    pub(super) totals: Totals,
    /// The sum that the transport tells.
    told: Option<u64>,
    /// Bits on the wire, and of user data.
    pub(super) sizes: [SlidingSum; 3],
    /// Bits missing, and offered.
    pub(super) errors: [SlidingSum; 3],
    /// The same as in the longest window, since the contract has its error rate.
    judged_errors: SlidingSum,
    errors_since: u64,
    pub(super) delays: Delays,
    pub(super) reports: Reports,
    pub(super) contract: Contract,
    pub(super) period: Period,
    zones: [Hysteresis; 4],
    pub(super) compared: [Option<Compared>; 4],
}

impl Side {
    pub(super) fn new(dir: Direction, t: u64, settings: &Settings) -> Side {
        Side {
            dir,
            totals: Totals::default(),
            told: None,
            sizes: settings.windows.map(SlidingSum::new),
            errors: settings.windows.map(SlidingSum::new),
            judged_errors: SlidingSum::new(settings.windows[2]),
            errors_since: t,
            delays: Delays::new(settings.compare),
            reports: Reports::default(),
            contract: Contract::default(),
            period: Period {
                start: t,
                ..Period::default()
            },
            zones: [Hysteresis::default(); 4],
            compared: [None; 4],
        }
    }

    /// A packet; if the sum of the transport says that there were others, their bits count as well, and it is false.
    pub(super) fn packet(&mut self, t: u64, event: &QosEvent) -> bool {
        let mut bits = event.a;
        if event.b > 0 {
            match self.told.replace(event.b) {
                Some(before) if event.b < before => self.totals.bad_totals += 1,
                Some(before) => bits = bits.max(event.b - before),
                None => {}
            }
        }
        let again = event.flags & QosEvent::AGAIN != 0;
        let user = match event.flags & QosEvent::USER != 0 {
            _ if again => 0,
            true => u64::from(event.aux),
            false => bits,
        };
        self.totals.packets += 1;
        self.totals.bits = self.totals.bits.saturating_add(bits);
        self.totals.user_bits = self.totals.user_bits.saturating_add(user);
        self.period.bits += u128::from(bits);
        for window in &mut self.sizes {
            window.add(t, [bits, user]);
        }
        bits == event.a
    }

    /// Data were found missing or damaged.
    pub(super) fn drop(&mut self, t: u64, event: &QosEvent) {
        let count = u64::from(event.aux.max(1));
        match event.flags & QosEvent::CHECKSUM != 0 {
            true => self.totals.checksum_failures += count,
            false => self.totals.gaps += count,
        }
        // Of packets that never came the size is not known: it is that of the others.
        let bits = match (event.a, self.totals.packets) {
            // Before any came, all are of one size.
            (0, 0) => count,
            (0, packets) => (self.totals.bits / packets).saturating_mul(count),
            (bits, _) => bits,
        };
        self.err(t, bits, bits);
    }

    pub(super) fn err(&mut self, t: u64, missing: u64, offered: u64) {
        self.totals.error_bits = self.totals.error_bits.saturating_add(missing);
        for window in self.errors.iter_mut().chain([&mut self.judged_errors]) {
            window.add(t, [missing, offered]);
        }
    }

    /// Jitter is estimated only if the contract has it.
    pub(super) fn wants_jitter(&self) -> bool {
        self.contract.jitter.is_some()
    }

    pub(super) fn delay(&mut self, t: u64, ns: i64, method: Method) {
        let jitters = self.wants_jitter();
        if self.delays.sample(t, ns, method, jitters) {
            self.period.delay.0 += i128::from(ns);
            self.period.delay.1 += 1;
        }
    }

    /// Another window of comparison begins.
    pub(super) fn begin(&mut self, start: u64) {
        self.period = Period {
            start,
            ..Period::default()
        };
    }

    /// Another contract holds from `t` on.
    pub(super) fn agree(&mut self, t: u64, contract: Contract) {
        for (n, parameter) in Parameter::ALL.into_iter().enumerate() {
            if contract.term(parameter).is_none() {
                (self.zones[n], self.compared[n]) = (Hysteresis::default(), None);
            }
        }
        let errors = |it: &Contract| it.error_rate.map(|it| it.agreed);
        if errors(&self.contract) != errors(&contract) {
            self.judged_errors = SlidingSum::new(self.judged_errors.span());
            self.errors_since = t;
        }
        self.contract = contract;
        self.begin(t);
    }

    /// What was measured of a parameter in the window that ends at `end`. A second has too few packets to tell a loss of
    /// 1 % from none: errors have the longest window.
    fn measured(&mut self, parameter: Parameter, end: u64) -> Option<f64> {
        let period = &self.period;
        if !period.heard {
            return None;
        }
        match parameter {
            Parameter::Throughput => Some(period.bits as f64 * 1e9 / (end - period.start) as f64),
            Parameter::Delay => {
                let (sum, count) = period.delay;
                (count > 0).then(|| sum as f64 / count as f64 / 1e9)
            }
            Parameter::Jitter => self.delays.jitter().map(|ns| ns / 1e9),
            Parameter::ErrorRate => {
                self.judged_errors.expire(end);
                let [missing, offered] = self.judged_errors.sums();
                (offered > 0).then(|| missing as f64 / offered as f64)
            }
        }
    }

    /// Compares the window that ends at `end`, and gives the signals of zones that change.
    pub(super) fn compare(
        &mut self,
        end: u64,
        settings: &Settings,
        mut signal: impl FnMut(Signal),
    ) {
        if end <= self.period.start {
            return;
        }
        for (n, parameter) in Parameter::ALL.into_iter().enumerate() {
            let Some(agreed) = self.contract.term(parameter).map(|it| it.agreed) else {
                continue;
            };
            let Some(measured) = self.measured(parameter, end) else {
                continue;
            };
            let deviation = settings.comparison.deviation(parameter, agreed, measured);
            let window_ns = match parameter {
                Parameter::ErrorRate => (end - self.errors_since).min(self.judged_errors.span()),
                _ => end - self.period.start,
            };
            let window = Window {
                agreed,
                measured,
                deviation,
                window_ns,
            };
            let (decisive, changed) = self.zones[n].take(window, settings.rule);
            let zone = self.zones[n].zone;
            self.compared[n] = Some(Compared {
                parameter,
                contract: decisive.agreed,
                measured: decisive.measured,
                deviation: decisive.deviation,
                zone,
            });
            // That all is well from the first window on is nothing to tell.
            if let Some(zone_from) = changed
                && (zone_from, zone) != (Zone::Grey, Zone::Green)
            {
                signal(Signal {
                    conn: 0,
                    dir: self.dir,
                    parameter,
                    contract: decisive.agreed,
                    measured: decisive.measured,
                    deviation: decisive.deviation,
                    zone_from,
                    zone_to: zone,
                    window_ns: decisive.window_ns,
                    t_ns: end,
                    suppressed: 0,
                });
            }
        }
    }

    /// The worst zone of all parameters.
    pub(super) fn zone(&self) -> Zone {
        let zones = self.zones.iter().map(|it| it.zone);
        zones.max().unwrap_or_default()
    }
}
