//! The order of simultaneous events.

use layercast_core::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Order of events of the same instant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    /// A seeded draw: no order is preferred.
    #[default]
    Random,
    /// The event that was scheduled first.
    Fifo,
}

/// A draw for each instant and each of the simultaneous events: independent of the caller and of the order of
/// calls.
#[inline]
pub(crate) fn draw(seed: u64, at: Time, who: u64) -> u64 {
    // Two rounds of what SplitMix64 does.
    mix(mix(seed ^ at.as_ps()) ^ who)
}

/// Each bit of the result depends on all bits (the finaliser of SplitMix64; Steele, Lea and Flood 2014).
#[inline]
pub(crate) fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
