//! Late bits: of the period, of the window, and as level 2 remembers them.

use layercast_core::Span;

use crate::config::Promise;
use crate::event::Outcome;

/// Fraction bits of what is forgotten gradually, so that small counts decay, too.
const FRACTION: u32 = 16;

/// Bits that arrived, and those of them that were late.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Share {
    pub arrived: u128,
    pub late: u128,
}

impl Share {
    fn add(&mut self, bits: u64, late: bool, shift: u32) {
        let bits = u128::from(bits) << shift;
        self.arrived = self.arrived.saturating_add(bits);
        if late {
            self.late = self.late.saturating_add(bits);
        }
    }

    /// Late bits in parts in a million; 0 if nothing arrived.
    pub fn ppm(&self) -> u32 {
        let ppm = self.late.saturating_mul(1_000_000) / self.arrived.max(1);
        u32::try_from(ppm).unwrap_or(u32::MAX)
    }

    /// Whether more than the target is late.
    pub fn exceeds(&self, target_ppm: u32) -> bool {
        self.late.saturating_mul(1_000_000) > self.arrived.saturating_mul(target_ppm.into())
    }

    /// Whether less than the target is late; nothing is less than any target.
    pub fn is_below(&self, target_ppm: u32) -> bool {
        self.late == 0
            || self.late.saturating_mul(1_000_000) < self.arrived.saturating_mul(target_ppm.into())
    }

    /// Forgets for a time, with the time constant.
    fn decay(&mut self, passed: Span, constant: Span) {
        let (passed, constant) = (u128::from(passed.as_ps()), u128::from(constant.as_ps()));
        let keep = constant.saturating_sub(passed);
        // 2^64 fits beside any count below 2^64; larger counts lose their last bits.
        let part = |count: u128| match count.checked_mul(keep) {
            Some(product) => product / constant,
            None => count / constant * keep,
        };
        (self.arrived, self.late) = (part(self.arrived), part(self.late));
    }
}

/// The promise and what was counted for it.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub terms: Promise,
    /// Since the start of the period.
    period: Share,
    sent: u128,
    /// What level 2 compares with the target in the long run.
    long: Share,
    /// Since the last window.
    recent: Share,
}

impl Ledger {
    pub fn new(terms: Promise) -> Ledger {
        Ledger {
            terms,
            period: Share::default(),
            sent: 0,
            long: Share::default(),
            recent: Share::default(),
        }
    }

    pub fn arrive(&mut self, bits: u64, late: bool) {
        self.period.add(bits, late, 0);
        self.long.add(bits, late, FRACTION);
        self.recent.add(bits, late, 0);
    }

    pub fn send(&mut self, bits: u64) {
        self.sent = self.sent.saturating_add(bits.into());
    }

    /// What was late since the last call.
    pub fn take_recent(&mut self) -> Share {
        std::mem::take(&mut self.recent)
    }

    /// Whether fewer bits are late in the long run than the target allows.
    pub fn is_below(&self) -> bool {
        self.long.is_below(self.terms.late_ppm)
    }

    /// Forgets what a sliding commitment forgets in this time.
    pub fn pass(&mut self, time: Span) {
        if self.terms.sliding {
            self.long.decay(time, self.terms.period);
        }
    }

    pub fn outcome(&self) -> Outcome {
        let bits = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
        Outcome {
            arrived: bits(self.period.arrived),
            late: bits(self.period.late),
            sent: bits(self.sent),
            late_ppm: self.period.ppm(),
            kept: !self.period.exceeds(self.terms.late_ppm),
        }
    }

    /// Ends the period; window and trigger are not of its concern.
    pub fn end_period(&mut self) -> Outcome {
        let outcome = self.outcome();
        self.period = Share::default();
        self.sent = 0;
        if !self.terms.sliding {
            self.long = Share::default();
        }
        outcome
    }
}
