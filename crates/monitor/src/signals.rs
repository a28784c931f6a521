//! Signals of changed zones: from how many windows a zone follows, and how many signals there are (specs/user-to-user-qos.md 2.4).

use layercast_core::{Parameter, Zone};
use serde::Serialize;

use crate::direction::Direction;

/// Signals of a connection in a second at most.
const A_SECOND: usize = 10;
const SECOND: u64 = 1_000_000_000;
/// Windows that can decide about a zone.
pub(crate) const MOST_WINDOWS: usize = 16;

/// A zone has changed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Signal {
    /// The connection.
    pub conn: u64,
    /// The direction.
    pub dir: Direction,
    /// What has deviated, or does no more.
    pub parameter: Parameter,
    /// The negotiated value, in the unit of the parameter.
    pub contract: f64,
    /// What was measured in the window that makes the zone.
    pub measured: f64,
    /// As a share of the contract; null: infinite.
    pub deviation: f64,
    /// The zone before.
    pub zone_from: Zone,
    /// The zone now.
    pub zone_to: Zone,
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// When the zone changed, in nanoseconds of the producer's clock.
    pub t_ns: u64,
    /// Signals of the connection that were held back since the last one.
    pub suppressed: u64,
}

/// What a window of comparison said of a parameter.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Window {
    pub(crate) agreed: f64,
    pub(crate) measured: f64,
    pub(crate) deviation: f64,
    pub(crate) window_ns: u64,
}

/// A zone that changes only if `k` of the last `n` windows say so.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hysteresis {
    pub(crate) zone: Zone,
    last: [Window; MOST_WINDOWS],
    seen: usize,
}

impl Hysteresis {
    /// Takes one window. Gives the window whose value makes the zone, and the zone before if it changes.
    pub(crate) fn take(
        &mut self,
        window: Window,
        (k, n): (usize, usize),
    ) -> (Window, Option<Zone>) {
        self.last.rotate_right(1);
        self.last[0] = window;
        self.seen = (self.seen + 1).min(n);
        let recent = &self.last[..self.seen];
        // k windows are as bad as the k-th worst, or worse. Until there are k windows nothing is known.
        let mut deviations = self.last.map(|it| it.deviation);
        let deviations = &mut deviations[..self.seen];
        deviations.sort_unstable_by(|a, b| b.total_cmp(a));
        let decisive = deviations.get(k - 1);
        let now = decisive.map_or(Zone::Grey, |it| Zone::of(*it));
        let decisive = recent.iter().find(|it| Some(&it.deviation) == decisive);
        let decisive = *decisive.unwrap_or(&window);
        let before = std::mem::replace(&mut self.zone, now);
        (decisive, (before != now).then_some(before))
    }
}

/// Ten signals a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limit {
    times: [Option<u64>; A_SECOND],
    suppressed: u64,
}

impl Limit {
    /// Whether a signal may leave at `t`, with the number of those that might not since the last.
    pub(crate) fn admit(&mut self, t: u64) -> Option<u64> {
        let oldest = self.times[A_SECOND - 1];
        if oldest.is_some_and(|oldest| t - oldest < SECOND) {
            self.suppressed += 1;
            return None;
        }
        self.times.rotate_right(1);
        self.times[0] = Some(t);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Zone::{Green, Grey, Red, Yellow};

    fn course(windows: &[Zone], rule: (usize, usize)) -> Vec<Zone> {
        let mut zone = Hysteresis::default();
        let step = |it: &Zone| {
            let deviation = match it {
                Red => f64::INFINITY,
                Yellow => 0.1,
                _ => 0.0,
            };
            let window = Window {
                deviation,
                ..Window::default()
            };
            let (decisive, _) = zone.take(window, rule);
            // The value reported is one of the zone.
            assert!(zone.zone == Grey || Zone::of(decisive.deviation) == zone.zone);
            zone.zone
        };
        windows.iter().map(step).collect()
    }

    #[test]
    fn one_of_one_follows_each_window() {
        let windows = [Green, Red, Yellow, Green];
        assert_eq!(course(&windows, (1, 1)), windows);
    }

    #[test]
    fn two_of_three_hold_against_single_windows() {
        let windows = [
            Green, Green, Red, Green, Red, Red, Green, Red, Green, Green, Yellow, Red,
        ];
        let zones = [
            Grey, Green, Green, Green, Red, Red, Red, Red, Green, Green, Green, Yellow,
        ];
        assert_eq!(course(&windows, (2, 3)), zones);
    }

    #[test]
    fn an_eleventh_signal_within_a_second_waits() {
        let mut limit = Limit::default();
        let times = (0..12).map(|n| n * 10_000_000);
        let admitted: Vec<_> = times.filter_map(|t| limit.admit(t)).collect();
        assert_eq!(admitted, [0; 10]);
        assert_eq!(limit.admit(SECOND), Some(2));
        assert_eq!(limit.admit(SECOND + 1), None);
    }
}
