//! The order of simultaneous events.
//!
//! What is due at one instant happens in the order of its class, then of the turns of the actors, then of sending. Nothing
//! depends on the order of scheduling: code that moves, another node elsewhere, or another division among threads changes no
//! result.

use layercast_core::{Time, Who};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Order of events of the same instant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    /// A seeded draw at each instant: no order is preferred.
    #[default]
    Random,
    /// By their place in the scenario: a fixed order, in which somebody is always first.
    Ordered,
}

/// What happens of two kinds of event at one instant: packets arrive before timers run out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// Something comes to the end of a link.
    Arrival,
    /// A timer runs out.
    Timer,
}

/// The rule by which actors take turns at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    ties: Ties,
    seed: u64,
}

/// The turn of an actor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Turn {
    /// A draw decides.
    Drawn(Who),
    /// The place does.
    Placed(u64),
}

impl Turns {
    /// The rule of a run.
    pub fn new(ties: Ties, seed: u64) -> Turns {
        Turns { ties, seed }
    }

    /// The turn of an actor with a name and a place among those of its kind.
    pub fn of(self, name: &str, place: u32) -> Turn {
        match self.ties {
            Ties::Random => Turn::Drawn(Who::of(self.seed, name)),
            Ties::Ordered => Turn::Placed(u64::from(place) << 32),
        }
    }
}

impl Turn {
    /// What decides at an instant: the least goes first.
    #[inline]
    pub fn at(self, at: Time) -> u64 {
        match self {
            Turn::Drawn(who) => who.draw(at),
            Turn::Placed(place) => place,
        }
    }

    /// The turn of one of several actors that share this one, with its turn among them.
    #[inline]
    pub fn with(self, other: Turn) -> Turn {
        match (self, other) {
            (Turn::Drawn(one), Turn::Drawn(other)) => Turn::Drawn(one.with(other.draw(Time::ZERO))),
            (Turn::Placed(one), Turn::Placed(other)) => Turn::Placed(one | other >> 32),
            _ => self,
        }
    }
}

impl Class {
    /// What decides at an instant among those of all classes: the least goes first.
    #[inline]
    pub fn turn(self, turn: Turn, at: Time) -> u64 {
        turn.at(at) >> 1 | (self as u64) << 63
    }
}
