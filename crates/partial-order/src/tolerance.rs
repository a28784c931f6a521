//! Tolerated loss of a flow, and the account of what was lost (specs/partial-order-transport.md 2.3).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Parts per million of a whole.
const WHOLE: u64 = 1_000_000;
/// Most settled SDUs over which a rate is taken.
pub const MAX_RATE_WINDOW: u32 = 65_535;
/// Settled SDUs over which a rate is taken by default.
pub const RATE_WINDOW: u32 = 100;

/// How much loss a flow tolerates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// No loss.
    Full,
    /// Any loss.
    None,
    /// At most this many adjacent SDUs.
    Consecutive(u32),
    /// At most `floor(ppm · window / 10^6)` of the last `window` settled SDUs.
    Rate {
        /// Parts per million.
        ppm: u32,
        /// Number of settled SDUs, 1 to [`MAX_RATE_WINDOW`].
        window: u32,
    },
    /// At most this share of all SDUs since the start, in parts per million.
    Cumulative {
        /// Parts per million.
        ppm: u32,
    },
}

impl Tolerance {
    /// A share of the last [`RATE_WINDOW`] settled SDUs; `share` is from 0 to 1.
    pub fn rate(share: f64) -> Tolerance {
        Tolerance::Rate {
            ppm: ppm(share),
            window: RATE_WINDOW,
        }
    }

    /// A share of all SDUs since the start; `share` is from 0 to 1.
    pub fn cumulative(share: f64) -> Tolerance {
        Tolerance::Cumulative { ppm: ppm(share) }
    }

    /// Whether its numbers are within their bounds.
    pub fn is_valid(self) -> bool {
        match self {
            Tolerance::Rate { ppm, window } => {
                u64::from(ppm) <= WHOLE && (1..=MAX_RATE_WINDOW).contains(&window)
            }
            Tolerance::Cumulative { ppm } => u64::from(ppm) <= WHOLE,
            _ => true,
        }
    }
}

fn ppm(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * WHOLE as f64).round() as u32
}

/// What was settled in a flow.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) tolerance: Tolerance,
    /// Outcomes of the last settled SDUs, the newest last; true is lost.
    recent: VecDeque<bool>,
    recent_lost: u64,
    pub(crate) lost: u64,
    pub(crate) delivered: u64,
}

impl Account {
    pub(crate) fn new(tolerance: Tolerance) -> Account {
        Account {
            tolerance,
            recent: VecDeque::new(),
            recent_lost: 0,
            lost: 0,
            delivered: 0,
        }
    }

    /// Applies to declarations from now on.
    pub(crate) fn renegotiate(&mut self, tolerance: Tolerance) {
        self.tolerance = tolerance;
        self.trim();
    }

    pub(crate) fn settle(&mut self, lost: bool) {
        self.lost += u64::from(lost);
        self.delivered += u64::from(!lost);
        if let Tolerance::Rate { .. } = self.tolerance {
            self.recent.push_back(lost);
            self.recent_lost += u64::from(lost);
            self.trim();
        }
    }

    fn trim(&mut self) {
        let window = match self.tolerance {
            Tolerance::Rate { window, .. } => window as usize,
            _ => 0,
        };
        while self.recent.len() > window {
            let lost = self.recent.pop_front().expect("it is longer than 0");
            self.recent_lost -= u64::from(lost);
        }
    }

    /// Whether `more` further losses keep the flow within its tolerance; `run` gives the longest run of adjacent
    /// losses that one of them would be part of.
    pub(crate) fn permits(&self, more: u64, run: impl FnOnce() -> u64) -> bool {
        if more == 0 {
            return true;
        }
        match self.tolerance {
            Tolerance::Full => false,
            Tolerance::None => true,
            Tolerance::Consecutive(0) => false,
            Tolerance::Consecutive(most) => run() <= u64::from(most),
            Tolerance::Rate { ppm, window } => {
                let most = u64::from(ppm) * u64::from(window) / WHOLE;
                u64::from(ppm) >= WHOLE || self.recent_lost + more <= most
            }
            Tolerance::Cumulative { ppm } => {
                let lost = self.lost + more;
                lost * WHOLE <= u64::from(ppm) * (lost + self.delivered + 1)
            }
        }
    }
}
