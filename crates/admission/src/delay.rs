//! Delays that are added up in one of two arithmetics.

use layercast_core::{Rate, Span};

use crate::config::Arithmetic;

/// A delay, or a sum of delays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Delay {
    /// Exact.
    Exact(Span),
    /// Double-precision seconds, as in the paper's simulator.
    Paper(f64),
}

impl Delay {
    pub fn of(span: Span, arithmetic: Arithmetic) -> Delay {
        match arithmetic {
            Arithmetic::Exact => Delay::Exact(span),
            Arithmetic::Paper => Delay::Paper(span.as_secs_f64()),
        }
    }

    /// How long a link takes for a bucket of this depth.
    pub fn of_bucket(bits: u64, link: Rate, arithmetic: Arithmetic) -> Delay {
        let bps = link.as_bps();
        match arithmetic {
            Arithmetic::Exact => Delay::Exact(Span::from_secs(1).mul_div(bits, bps)),
            Arithmetic::Paper => Delay::Paper(bits as f64 / bps as f64),
        }
    }

    pub fn plus(self, other: Delay) -> Delay {
        match (self, other) {
            (Delay::Paper(a), b) => Delay::Paper(a + b.seconds()),
            (Delay::Exact(a), b) => {
                Delay::Exact(Span::from_ps(a.as_ps().saturating_add(b.span().as_ps())))
            }
        }
    }

    pub fn minus(self, other: Delay) -> Delay {
        match (self, other) {
            (Delay::Paper(a), b) => Delay::Paper((a - b.seconds()).max(0.0)),
            (Delay::Exact(a), b) => Delay::Exact(a.saturating_sub(b.span())),
        }
    }

    /// A measured delay with its factor in permille.
    pub fn times(self, permille: u32) -> Delay {
        match self {
            Delay::Paper(a) => Delay::Paper(a * f64::from(permille) / 1e3),
            Delay::Exact(a) => Delay::Exact(a.mul_div(permille.into(), 1_000)),
        }
    }

    pub fn exceeds(self, other: Delay) -> bool {
        match (self, other) {
            (Delay::Paper(a), b) => a > b.seconds(),
            (Delay::Exact(a), b) => a > b.span(),
        }
    }

    pub fn span(self) -> Span {
        match self {
            Delay::Exact(span) => span,
            Delay::Paper(seconds) => Span::from_secs_f64(seconds),
        }
    }

    fn seconds(self) -> f64 {
        match self {
            Delay::Exact(span) => span.as_secs_f64(),
            Delay::Paper(seconds) => seconds,
        }
    }
}
