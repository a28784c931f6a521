//! Explain mode: which predecessor and which rule held an SDU, and for how long.

use std::collections::VecDeque;

use layercast_core::{Span, Time};
use serde::Serialize;

/// What holds an SDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "rule")]
pub enum Hold {
    /// Predecessors of its own flow are missing, and the tolerance of the flow does not cover their loss.
    OwnTolerance {
        /// The first missing number.
        number: u64,
    },
    /// A predecessor in another flow is not settled (policy media per media).
    OtherFlow {
        /// The other flow.
        flow: usize,
        /// The first number of it that is not settled.
        number: u64,
    },
    /// Predecessors in another flow are missing, and its tolerance does not cover their loss (policy per group).
    OtherTolerance {
        /// The other flow.
        flow: usize,
        /// The first missing number.
        number: u64,
    },
    /// Predecessors are missing, and there is time to wait for them.
    Deadline {
        /// The flow of the first missing predecessor.
        flow: usize,
        /// Its number.
        number: u64,
    },
    /// Predecessors in its own flow are requested while another flow holds it (opportunistic recovery).
    Recovery {
        /// The first missing number.
        number: u64,
    },
}

/// A time during which one reason held an SDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Held {
    /// The reason.
    #[serde(flatten)]
    pub hold: Hold,
    /// From when.
    pub from: Time,
    /// Until when; of an SDU that still waits, until the last examination.
    pub until: Time,
}

/// What happened to an SDU between its arrival and its delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// The flow.
    pub flow: usize,
    /// Number in the flow.
    pub number: u64,
    /// When it arrived.
    pub arrived: Time,
    /// When it was delivered; `None`: it waits.
    pub delivered: Option<Time>,
    /// What held it, in sequence; empty: nothing did.
    pub held: Vec<Held>,
}

impl Explanation {
    /// How long it waited until its delivery or the last examination.
    pub fn waited(&self) -> Span {
        self.held
            .iter()
            .map(|it| it.until.since(it.from))
            .fold(Span::ZERO, |sum, it| sum + it)
    }
}

/// The last explanations of delivered SDUs.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) most: usize,
    pub(crate) last: VecDeque<Explanation>,
}

impl History {
    pub(crate) fn push(&mut self, explanation: Explanation) {
        if self.last.len() == self.most {
            self.last.pop_front();
        }
        self.last.push_back(explanation);
    }
}

/// Continues the last reason, or begins another.
pub(crate) fn note(held: &mut Vec<Held>, hold: Hold, arrived: Time, now: Time) {
    match held.last_mut() {
        Some(last) if last.hold == hold => last.until = now,
        Some(last) => {
            last.until = now;
            held.push(Held {
                hold,
                from: now,
                until: now,
            });
        }
        None => held.push(Held {
            hold,
            from: arrived,
            until: now,
        }),
    }
}
