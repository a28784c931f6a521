//! Links: two directions, each with a channel for data and a reliable one for signals, and perhaps repair of losses.

use layercast_core::{Machine, Observer, PortId, Span, Stream, Time};
use layercast_link::{Awaiting, Link, LinkConfig, LinkInput, RepairEnd};
use layercast_wire::{ADAPTER_VCI, LinkPdu, Signal};

use super::line::Line;
use crate::internet::engine::Engine;
use crate::internet::medium::Medium;
use crate::internet::medium::peered::Peered;
use crate::kernel::{Kernel, SourceId};
use crate::scenario::{NetLink, Network};
use crate::ties::Class;

/// One direction of a link.
#[derive(Debug)]
pub struct Wire {
    /// Place of the sending node.
    pub from: usize,
    /// Place of the receiving node.
    pub to: usize,
    /// Port of the receiving node.
    pub to_port: PortId,
    /// Place of the link.
    pub link: usize,
    /// Data on their way.
    pub data: Line,
    /// Signals on their way.
    pub signals: Link<Signal>,
    /// Event source of `data`.
    pub data_event: SourceId,
    /// Probability that RES or ADAPT is lost, and what draws it.
    adapter_loss: f64,
    adapter_stream: Stream,
    /// Event source of `signals`.
    pub signal_event: SourceId,
    /// The sending node's end of a link with repair; off before the channel stands.
    pub repair: RepairEnd<LinkPdu>,
    /// Event source of `repair`, on a link with repair.
    pub repair_event: Option<SourceId>,
    /// The session of the counters of this direction.
    pub session: u16,
    /// Place of the wire whose port this one belongs to: its own, but in a multicast group.
    pub head: usize,
    /// Places of the wires on which everything is put that leaves by the port.
    pub fan: Vec<usize>,
    /// What the node at the far end of a wire of a group awaits.
    pub awaiting: Awaiting,
}

/// Puts a PDU on the port of the wire at `place`; its first bit leaves at `start`, the last one `tx` later.
pub fn send(
    (wires, place): (&mut [Wire], usize),
    (start, tx): (Time, Span),
    pdu: LinkPdu,
    kernel: &mut Kernel,
    medium: &mut Medium,
) {
    let Engine { now, obs, .. } = &mut medium.engine;
    match wires[place].repair.send(*now, start, pdu, obs) {
        Some(pdu) => {
            let item = (start.saturating_add(tx), Peered::Bare(pdu));
            fan_out((wires, place), item, kernel, medium);
        }
        None => drain_repair((wires, place), kernel, medium),
    }
}

/// Puts what the end with repair at `place` sends on its port.
pub fn drain_repair(
    (wires, place): (&mut [Wire], usize),
    kernel: &mut Kernel,
    medium: &mut Medium,
) {
    let Some(event) = wires[place].repair_event else {
        return;
    };
    loop {
        let Engine { now, obs, .. } = &mut medium.engine;
        let Some((item, ready)) = wires[place].repair.poll(*now, obs) else {
            break;
        };
        let item = Peered::Framed(Box::new(item));
        fan_out((wires, place), (ready, item), kernel, medium);
    }
    kernel.schedule(event, wires[place].repair.next_timeout());
}

fn fan_out(
    (wires, place): (&mut [Wire], usize),
    (ready, item): (Time, Peered),
    kernel: &mut Kernel,
    medium: &mut Medium,
) {
    if !wires[place].is_group() {
        return wires[place].put((ready, item), kernel, medium);
    }
    for at in 0..wires[place].fan.len() {
        let to = wires[place].fan[at];
        wires[to].put((ready, item.clone()), kernel, medium);
    }
}

/// The wire of `link` that leaves `node`.
pub fn out_wire_of(net: &Network, node: usize, link: usize) -> usize {
    2 * link + usize::from(net.links[link].ends[1] == node)
}

/// Whether a link works, and whether its ends know.
#[derive(Clone, Copy, Debug)]
pub struct LinkState {
    /// Whether anything passes.
    pub up: bool,
    /// Whether the reliable channel stands.
    pub channel: bool,
}

impl Wire {
    /// The direction of `link` that leaves its end `side`.
    pub fn new(
        net: &Network,
        (link, side): (usize, usize),
        data: Line,
        kernel: &mut Kernel,
    ) -> Wire {
        let NetLink {
            ends,
            ports,
            repair,
            ..
        } = net.links[link];
        let (from, to) = (ends[side], ends[1 - side]);
        let here = &net.nodes[from];
        let port = here
            .port(link)
            .expect("a node has a port for each of its links");
        let (config, rate) = (port.out, port.config.rate);
        // The wires of all links on this port: one, but in a multicast group.
        let same = here.ports.iter().filter(|other| other.id == port.id);
        let fan: Vec<usize> = same
            .map(|other| out_wire_of(net, from, other.link))
            .collect();
        let place = 2 * link + side;
        let head = fan.first().copied().unwrap_or(place);
        let name = format!("{}->{}", net.nodes[from].name, net.nodes[to].name);
        let reliable = LinkConfig {
            delay: config.delay,
            ..LinkConfig::default()
        };
        Wire {
            from,
            to,
            to_port: ports[1 - side],
            link,
            data,
            adapter_loss: port.adapter_loss,
            adapter_stream: Stream::new(net.seed, &format!("link/{name}/adapter")),
            signals: Link::new(reliable, net.seed, &format!("{name}/signals")),
            data_event: kernel.add(Class::Arrival, &format!("link/{name}")),
            signal_event: kernel.add(Class::Arrival, &format!("signals/{name}")),
            repair: RepairEnd::new(&name, rate),
            repair_event: (repair.is_some() && head == place)
                .then(|| kernel.add(Class::Timer, &format!("repair/{name}"))),
            session: 0,
            head,
            fan,
            awaiting: Awaiting::default(),
        }
    }

    /// Whether several links are on the port.
    pub fn is_group(&self) -> bool {
        self.fan.len() > 1
    }

    /// Whether this is RES or ADAPT, and lost.
    fn loses_adapter(&mut self, pdu: Option<&LinkPdu>) -> bool {
        pdu.is_some_and(is_adapter) && self.adapter_stream.chance(self.adapter_loss)
    }

    /// Puts a datagram on the line; its last bit leaves at `ready`.
    fn put(&mut self, (ready, item): (Time, Peered), kernel: &mut Kernel, medium: &mut Medium) {
        if !self.loses_adapter(item.pdu()) {
            self.data.put(ready, item, medium);
            kernel.schedule(self.data_event, self.data.next_timeout());
        }
    }

    /// Sends a signal.
    pub fn signal<O: Observer>(
        &mut self,
        now: Time,
        signal: Signal,
        kernel: &mut Kernel,
        obs: &mut O,
    ) {
        let input = LinkInput {
            ready: now,
            item: signal,
        };
        self.signals.handle(now, input, obs);
        kernel.schedule(self.signal_event, self.signals.next_timeout());
    }
}

fn is_adapter(pdu: &LinkPdu) -> bool {
    match pdu {
        LinkPdu::Adapter(_) => true,
        LinkPdu::Cell(cell) => cell.vci == ADAPTER_VCI,
        LinkPdu::Mets(_) => false,
    }
}
