use std::collections::BTreeMap;

use layercast_core::{PortId, Rate, Time};
use layercast_link::RateSchedule;

use crate::ports::Ports;

/// Lines whose rates change with time.
pub(crate) struct Rates {
    start: Time,
    lines: Vec<Line>,
}

struct Line {
    neighbour: String,
    full: Rate,
    schedule: RateSchedule,
    next: usize,
}

impl Line {
    fn step(&self, start: Time) -> Option<(Time, Rate)> {
        self.schedule.step(self.next, start, self.full)
    }
}

impl Rates {
    /// The schedules of lines that have a rate, from `start` on.
    pub fn new(start: Time, ports: &Ports, schedules: BTreeMap<String, RateSchedule>) -> Rates {
        let line = |(neighbour, schedule): (String, RateSchedule)| {
            Some(Line {
                full: ports.rate_to(&neighbour)?,
                neighbour,
                schedule,
                next: 0,
            })
        };
        Rates {
            start,
            lines: schedules.into_iter().filter_map(line).collect(),
        }
    }

    /// Applies what is due; gives one port whose line changed, with its rate, until there is none.
    pub fn due(&mut self, now: Time, ports: &mut Ports) -> Option<(PortId, Rate)> {
        for line in &mut self.lines {
            while let Some((_, rate)) = line.step(self.start).filter(|(at, _)| *at <= now) {
                line.next += 1;
                if let Some(port) = ports.set_rate(&line.neighbour, rate) {
                    return Some((port, rate));
                }
            }
        }
        None
    }

    /// When the next rate changes.
    pub fn next_timeout(&self) -> Option<Time> {
        let steps = self.lines.iter().filter_map(|line| line.step(self.start));
        steps.map(|(at, _)| at).min()
    }
}
