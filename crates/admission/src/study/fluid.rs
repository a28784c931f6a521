//! A link that carries a fluid (specs/admission-control.md 2.1).

use layercast_core::{Span, Time};

/// The queue of a link between two events, with exact arithmetic for a constant input rate.
#[derive(Debug)]
pub(super) struct Fluid {
    /// Rate of the link, bit/s.
    link: f64,
    /// Backlog from which on arriving bits are late.
    limit: f64,
    /// Sum of the rates of the calls that are ON, bit/s: whole numbers, so that it returns to 0.
    pub input: u64,
    pub backlog: f64,
    now: Time,
    arrived: f64,
    late: f64,
    sent: f64,
    pub highest: f64,
}

/// Whole bits since the last report; fractions are kept for the next one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Bits {
    pub arrived: u64,
    pub late: u64,
    pub sent: u64,
}

impl Fluid {
    pub fn new(link_bps: u64, late: Span) -> Fluid {
        let link = link_bps as f64;
        Fluid {
            link,
            limit: link * late.as_secs_f64(),
            input: 0,
            backlog: 0.0,
            now: Time::ZERO,
            arrived: 0.0,
            late: 0.0,
            sent: 0.0,
            highest: 0.0,
        }
    }

    /// Lets the time pass with the present input.
    pub fn advance(&mut self, to: Time) {
        debug_assert!(to >= self.now, "the link goes back in time");
        let dt = to.since(self.now).as_secs_f64();
        self.now = to;
        let (input, q0) = (self.input as f64, self.backlog);
        let excess = input - self.link;
        let arrived = input * dt;
        let q1 = (q0 + excess * dt).max(0.0);
        // The queue was never empty, or it was: then all of the backlog and the input has left.
        self.sent += match q0 + excess * dt >= 0.0 && (q0 > 0.0 || excess >= 0.0) {
            true => self.link * dt,
            false => q0 + arrived - q1,
        };
        self.arrived += arrived;
        if input > 0.0 && (q0 > self.limit || q1 > self.limit) {
            let late = if excess > 0.0 {
                dt - ((self.limit - q0) / excess).max(0.0)
            } else if excess < 0.0 {
                ((q0 - self.limit) / -excess).clamp(0.0, dt)
            } else {
                dt
            };
            self.late += input * late.max(0.0);
        }
        self.backlog = q1;
        self.highest = self.highest.max(q1);
    }

    /// How long a bit waits that arrives now.
    pub fn delay(&self) -> Span {
        Span::from_secs_f64(self.backlog / self.link)
    }

    /// Backlog, and the part of it that waits longer than promised.
    pub fn beyond(&self) -> (u64, u64) {
        let beyond = (self.backlog - self.limit).max(0.0);
        (self.backlog as u64, beyond as u64)
    }

    pub fn take(&mut self) -> Bits {
        let whole = |bits: &mut f64| {
            let count = bits.floor();
            *bits -= count;
            count as u64
        };
        Bits {
            arrived: whole(&mut self.arrived),
            late: whole(&mut self.late),
            sent: whole(&mut self.sent),
        }
    }
}
