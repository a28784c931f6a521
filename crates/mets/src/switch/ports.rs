use std::cmp::Reverse;
use std::collections::BinaryHeap;

use layercast_core::{PortId, Rate, Time};
use layercast_wire::LinkPdu;

use crate::switch::port::Port;
use crate::switch::{PortConfig, SwitchTransmit};

/// The ports of a switch, and which of them has something to send next.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    slots: Vec<Option<Box<Port>>>,
    /// One entry for each port whose queue is not empty: when its head starts.
    heads: BinaryHeap<Reverse<(Time, PortId)>>,
}

/// The local port comes first, so that the table is as long as the number of links.
fn slot(id: PortId) -> usize {
    if id == PortId::LOCAL {
        0
    } else {
        usize::from(id.0) + 1
    }
}

impl Ports {
    pub fn add(&mut self, id: PortId, config: PortConfig) {
        let slot = slot(id);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let mut port = Port::new(id, config);
        port.up = id == PortId::LOCAL;
        self.slots[slot] = Some(Box::new(port));
    }

    pub fn remove(&mut self, id: PortId) {
        if let Some(port) = self.slots.get_mut(slot(id)) {
            *port = None;
        }
    }

    pub fn get(&self, id: PortId) -> Option<&Port> {
        self.slots.get(slot(id))?.as_deref()
    }

    pub fn get_mut(&mut self, id: PortId) -> Option<&mut Port> {
        self.slots.get_mut(slot(id))?.as_deref_mut()
    }

    pub fn is_up(&self, id: PortId) -> bool {
        self.get(id).is_some_and(|port| port.up)
    }

    pub fn ids(&self) -> impl Iterator<Item = PortId> {
        self.iter().map(|port| port.id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Port> {
        self.slots.iter().filter_map(Option::as_deref)
    }

    /// A flow is gone; its number is that of another one from now on.
    pub fn forget(&mut self, flow: u32) {
        for port in self.slots.iter_mut().flatten() {
            port.queue.forget(flow);
        }
    }

    /// Gives the line of a port another rate.
    pub fn set_rate(&mut self, now: Time, id: PortId, rate: Option<Rate>) {
        if let Some(port) = self.get_mut(id) {
            port.set_rate(now, rate);
            if let Some(start) = port.queue.head() {
                self.heads.push(Reverse((start, id)));
            }
        }
    }

    /// Puts an admitted unit into the queue of a port.
    pub fn push(&mut self, now: Time, id: PortId, pdu: LinkPdu, cells: u32, base: bool) {
        if let Some(port) = self.get_mut(id)
            && let Some(start) = port.queue.push(now, pdu, cells, base)
        {
            self.heads.push(Reverse((start, id)));
        }
    }

    /// The next unit whose transmission has begun, on any port.
    pub fn pop(&mut self, now: Time) -> Option<SwitchTransmit> {
        while let Some(&Reverse((start, id))) = self.heads.peek()
            && start <= now
        {
            self.heads.pop();
            // A port may have gone, or come again, since its entry was made.
            let Some(port) = self.slots.get_mut(slot(id)).and_then(Option::as_deref_mut) else {
                continue;
            };
            if port.queue.head() != Some(start) {
                continue;
            }
            let unit = port.pop(now);
            if let Some(next) = port.queue.head() {
                self.heads.push(Reverse((next, id)));
            }
            if unit.is_some() {
                return unit;
            }
        }
        None
    }

    /// When the next transmission starts.
    pub fn next(&self) -> Option<Time> {
        self.heads.peek().map(|&Reverse((start, _))| start)
    }
}
