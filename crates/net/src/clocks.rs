use std::collections::HashMap;

use layercast_core::{FlowId, PortId, Span, Time};
use layercast_mets::HeardClock;
use layercast_wire::{ClockReading, Epoch, FlowInfo};

/// Between two messages about the clock of a source: a receiver that comes knows it soon.
const EVERY: Span = Span::from_ms(500);
/// A reading is forgotten when none came for this long.
const FORGOTTEN: Span = Span::from_secs(120);
/// Most flows whose clocks are remembered: as many as a switch has.
const MAX_FLOWS: usize = 4_096;

/// What the clocks of the sources of flows show, as the nodes upstream say.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// The name of the clock of this node.
    own: String,
    heard: HashMap<FlowId, Heard>,
    /// When neighbours are notified next.
    due: Time,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    from: PortId,
    at: Time,
    /// Of the flow when it was first heard: another life may be stamped with another clock.
    life: Option<Epoch>,
    clock: HeardClock,
}

impl Clocks {
    /// For a node whose clock has the name `own`.
    pub fn new(own: String) -> Clocks {
        Clocks {
            own,
            heard: HashMap::new(),
            due: Time::ZERO,
        }
    }

    /// The name of the clock of this node.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// The node that a flow comes from says what the clock of its source shows. Returns whether that is believed.
    pub fn hear(&mut self, now: Time, from: PortId, flow: FlowId, reading: ClockReading) -> bool {
        if self.heard.len() >= MAX_FLOWS && !self.heard.contains_key(&flow) {
            return false;
        }
        let new = Heard {
            from,
            at: now,
            life: None,
            clock: HeardClock::default(),
        };
        let heard = self.heard.entry(flow).or_insert(new);
        if heard.from != from {
            // The flow comes by another way.
            *heard = new;
        }
        let believed = heard.clock.hear(reading);
        if believed {
            heard.at = now;
        }
        believed
    }

    /// Whether neighbours are to be notified now.
    pub fn is_due(&mut self, now: Time) -> bool {
        if now < self.due {
            return false;
        }
        self.due = now.saturating_add(EVERY);
        self.heard
            .retain(|_, heard| now.since(heard.at) < FORGOTTEN);
        true
    }

    /// What the clock of the source of a flow shows, which comes from the port `upstream`.
    pub fn reading(
        &mut self,
        now: Time,
        flow: &FlowInfo,
        upstream: PortId,
    ) -> Option<ClockReading> {
        if self.own == flow.clock {
            return Some(ClockReading::own(now.as_us() as u32));
        }
        let heard = self.heard.get_mut(&flow.id)?;
        if heard.from != upstream || heard.life.is_some_and(|life| life != flow.epoch) {
            self.heard.remove(&flow.id);
            return None;
        }
        heard.life = Some(flow.epoch);
        heard.clock.reading()
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Span;

    use super::*;

    fn reading(here_s: u32, source_us: u32) -> ClockReading {
        ClockReading {
            source_us,
            bound_us: 2_000,
            hops: 1,
            ..ClockReading::own(here_s * 1_000_000)
        }
    }

    #[test]
    fn a_forged_reading_is_not_passed_on() {
        let flow = FlowInfo::new(FlowId(7), "film", "server");
        let at = |secs| Time::ZERO + Span::from_secs(secs);
        let mut clocks = Clocks::new("own".to_owned());
        let [one, other] = [PortId(1), PortId(2)];
        assert!(clocks.hear(at(1), one, flow.id, reading(1, 5_000_000)));
        assert!(!clocks.hear(at(2), one, flow.id, reading(2, 900_000_000)));
        let known = clocks.reading(at(2), &flow, one).expect("known");
        assert_eq!(known.source_us, 5_000_000);
        // By another way it may be another clock.
        assert!(clocks.hear(at(3), other, flow.id, reading(3, 900_000_000)));
        assert_eq!(clocks.reading(at(3), &flow, one), None);
    }
}
