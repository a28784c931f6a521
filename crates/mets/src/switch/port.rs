use layercast_core::{CellRate, PortId, Rate, Time};
use layercast_link::{Departure, Queue};

use crate::switch::{PortConfig, SwitchTransmit};

/// Lowest circuit for media; those below are for signalling.
pub(crate) const FIRST_VCI: u16 = 64;

/// A port: its queue and line, and what the switch knows of the link.
#[derive(Debug)]
pub(crate) struct Port {
    pub id: PortId,
    pub config: PortConfig,
    /// Whether its reliable channel stands.
    pub up: bool,
    /// Demands or reservations changed since its capacity was divided.
    pub regrant: bool,
    /// What the last division left over.
    pub residual: CellRate,
    pub queue: Queue,
    next_vci: u16,
}

impl Port {
    pub fn new(id: PortId, config: PortConfig) -> Port {
        Port {
            id,
            up: false,
            regrant: false,
            residual: CellRate(0),
            queue: Queue::new(config.queue, config.discard, config.queue_rate()),
            next_vci: FIRST_VCI,
            config,
        }
    }

    /// A circuit number, each in turn.
    pub fn take_vci(&mut self) -> u16 {
        let vci = self.next_vci;
        self.next_vci = vci.checked_add(1).unwrap_or(FIRST_VCI);
        vci
    }

    /// Changes the rate of the line, and with it what the port shares out.
    pub fn set_rate(&mut self, now: Time, rate: Option<Rate>) {
        self.config.rate = rate;
        self.queue.set_rate(now, self.config.queue_rate());
        self.regrant = true;
    }

    /// The next unit whose transmission has begun, as the switch hands it out.
    pub fn pop(&mut self, now: Time) -> Option<SwitchTransmit> {
        let Departure { pdu, start, tx } = self.queue.depart(now)?;
        Some(SwitchTransmit::Pdu {
            port: self.id,
            pdu,
            at: (start, tx),
        })
    }
}
