use std::collections::HashMap;

use layercast_core::{FlowId, PortId, Span, Time};
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
    reading: ClockReading,
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

    /// A node says what the clock of a source shows.
    pub fn hear(&mut self, now: Time, from: PortId, flow: FlowId, reading: ClockReading) {
        if self.heard.len() >= MAX_FLOWS && !self.heard.contains_key(&flow) {
            return;
        }
        let life = self.heard.get(&flow).and_then(|heard| heard.life);
        let heard = Heard {
            from,
            at: now,
            life,
            reading,
        };
        self.heard.insert(flow, heard);
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
        Some(heard.reading)
    }
}
