//! The clock of a neighbour, as nodes tell of it.

use layercast_core::{Serial, Time};
use layercast_repair::HopClock;
use layercast_wire::{ClockHop, ClockReport};

/// What is known of the clock of a neighbour, for a reading that goes to it.
pub fn clock_hop(clock: &HopClock) -> ClockHop {
    let most = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    ClockHop {
        there_us: clock.there.0,
        drift_ppb: clock.drift_ppb,
        bound_us: most(clock.bound.as_us()),
        age_ms: most(clock.age.as_ms()),
    }
}

/// The same for a user, when the clock of the node shows `now`.
pub fn clock_report(now: Time, clock: &HopClock) -> ClockReport {
    ClockReport {
        ahead_us: clock.there.diff(Serial(now.as_us() as u32)),
        drift_ppb: clock.drift_ppb,
        bound_us: clock.bound.as_us(),
        age_ms: clock.age.as_ms(),
        delay_us: clock.delay.as_us(),
        delay_back_us: clock.delay_back.as_us(),
    }
}
