//! Links: two directions, each with a channel for data and a reliable one for signals, and perhaps repair of losses.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::VecDeque;
use std::io;

use layercast_core::{Machine, Observer, PortId, Rate, Span, Stream, Time};
use layercast_link::{Awaiting, Framed, Link, LinkConfig, LinkInput, LinkStats, RepairEnd};
use layercast_wire::{ADAPTER_VCI, Interface, LinkPdu, PcapNg, Signal, UDP_IP_HEADER};

use crate::kernel::{Kernel, SourceId};
use crate::scenario::{NetLink, Network, Port};
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
    pub data: Medium,
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
pub fn send<O: Observer>(
    (wires, place): (&mut [Wire], usize),
    now: Time,
    (start, tx): (Time, Span),
    pdu: LinkPdu,
    kernel: &mut Kernel,
    obs: &mut O,
) {
    match wires[place].repair.send(now, start, pdu, obs) {
        Some(pdu) => {
            let item = (start.saturating_add(tx), Framed::bare(pdu));
            fan_out((wires, place), now, item, kernel, obs);
        }
        None => drain_repair((wires, place), now, kernel, obs),
    }
}

/// Puts what the end with repair at `place` sends on its port.
pub fn drain_repair<O: Observer>(
    (wires, place): (&mut [Wire], usize),
    now: Time,
    kernel: &mut Kernel,
    obs: &mut O,
) {
    let Some(event) = wires[place].repair_event else {
        return;
    };
    while let Some((item, ready)) = wires[place].repair.poll(now, obs) {
        fan_out((wires, place), now, (ready, item), kernel, obs);
    }
    kernel.schedule(event, wires[place].repair.next_timeout());
}

fn fan_out<O: Observer>(
    (wires, place): (&mut [Wire], usize),
    now: Time,
    (ready, item): (Time, Framed),
    kernel: &mut Kernel,
    obs: &mut O,
) {
    if !wires[place].is_group() {
        return wires[place].put(now, (ready, item), kernel, obs);
    }
    for at in 0..wires[place].fan.len() {
        let to = wires[place].fan[at];
        wires[to].put(now, (ready, item.clone()), kernel, obs);
    }
}

/// The wire of `link` that leaves `node`.
pub fn out_wire_of(net: &Network, node: usize, link: usize) -> usize {
    2 * link + usize::from(net.links[link].ends[1] == node)
}

/// What carries the data of one direction of a link.
#[expect(
    clippy::large_enum_variant,
    reason = "a run has one kind, and most have links"
)]
#[derive(Debug)]
pub enum Medium {
    /// A link of its own.
    Link(Link<Framed>),
    /// An internetwork, whose packets they are.
    Network(Crossing),
}

/// One direction of a link whose data an internetwork carries.
#[derive(Debug, Default)]
pub struct Crossing {
    /// The rate at which the port sends.
    rate: Option<Rate>,
    /// Datagrams that have not left the port, with the time at which the first bit does.
    leaving: VecDeque<(Time, Framed)>,
    sent: u64,
    /// Those that came.
    pub delivered: u64,
}

impl Medium {
    /// A link of its own.
    pub fn link(net: &Network, port: &Port, name: &str) -> Medium {
        Medium::Link(Link::new(port.out, net.seed, name))
    }

    /// An internetwork.
    pub fn network(_: &Network, port: &Port, _: &str) -> Medium {
        Medium::Network(Crossing {
            rate: port.config.rate,
            ..Crossing::default()
        })
    }

    /// Puts a datagram on it, whose last bit leaves the port at `ready`.
    fn put<O: Observer>(&mut self, now: Time, ready: Time, item: Framed, obs: &mut O) {
        match self {
            Medium::Link(link) => link.handle(now, LinkInput { ready, item }, obs),
            Medium::Network(crossing) => {
                let octets = (item.encoded_len() + UDP_IP_HEADER) as u64;
                let tx = crossing.rate.map_or(Span::ZERO, |it| it.time_for(octets));
                // Feedback takes no time of the line.
                let start = ready.saturating_sub(tx).max(now);
                let last = crossing.leaving.back().map_or(start, |(at, _)| *at);
                crossing.leaving.push_back((start.max(last), item));
            }
        }
    }

    /// The next datagram at the end of the link, or at the entry of the internetwork, by now.
    pub fn poll<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Framed> {
        match self {
            Medium::Link(link) => link.poll_transmit(now, obs),
            Medium::Network(crossing) => {
                let (_, framed) = crossing.leaving.pop_front_if(|(at, _)| *at <= now)?;
                crossing.sent += 1;
                Some(framed)
            }
        }
    }

    /// When the next one does.
    pub fn next_timeout(&self) -> Option<Time> {
        match self {
            Medium::Link(link) => link.next_timeout(),
            Medium::Network(crossing) => crossing.leaving.front().map(|(at, _)| *at),
        }
    }

    /// What happened so far. What an internetwork lost is known to it.
    pub fn stats(&self) -> LinkStats {
        match self {
            Medium::Link(link) => link.stats(),
            Medium::Network(crossing) => LinkStats {
                sent: crossing.sent,
                delivered: crossing.delivered,
                ..LinkStats::default()
            },
        }
    }
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
        medium: fn(&Network, &Port, &str) -> Medium,
        kernel: &mut Kernel,
    ) -> Wire {
        let NetLink {
            ends,
            ports,
            repair,
            ..
        } = net.links[link];
        let (from, to) = (ends[side], ends[1 - side]);
        let here = &net.nodes[from].ports;
        let own = here.iter().find(|port| port.link == link);
        let port = own.expect("a node has a port for each of its links");
        let (config, rate) = (port.out, port.config.rate);
        // The wires of all links on this port: one, but in a multicast group.
        let same = here.iter().filter(|other| other.id == port.id);
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
            data: medium(net, port, &name),
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
    fn put<O: Observer>(
        &mut self,
        now: Time,
        (ready, item): (Time, Framed),
        kernel: &mut Kernel,
        obs: &mut O,
    ) {
        if !self.loses_adapter(item.pdu()) {
            self.data.put(now, ready, item, obs);
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

/// A capture of all links: one interface for each direction.
pub struct Capture<'a> {
    pcap: PcapNg<&'a mut (dyn io::Write + Send)>,
    interfaces: Vec<u32>,
    error: Option<io::Error>,
}

/// The UDP port of every node in a capture.
const PORT: u16 = 4_900;

impl<'a> Capture<'a> {
    /// Starts a capture of `wires`.
    pub fn new(
        out: &'a mut (dyn io::Write + Send),
        net: &Network,
        wires: &[Wire],
    ) -> io::Result<Capture<'a>> {
        let mut pcap = PcapNg::new(out)?;
        let mut interfaces = Vec::with_capacity(wires.len());
        for wire in wires {
            let (from, to) = (&net.nodes[wire.from].name, &net.nodes[wire.to].name);
            interfaces.push(pcap.add_interface(Interface {
                name: format!("{from}/{to}"),
                description: format!("{from} -> {to}"),
                carriage: net.carriage,
                source: address(wire.from),
                destination: address(wire.to),
                snap_len: 0,
            })?);
        }
        Ok(Capture {
            pcap,
            interfaces,
            error: None,
        })
    }

    /// Writes a PDU that leaves on `wire`; after an error nothing more is written.
    pub fn write(&mut self, wire: usize, start: Time, pdu: &LinkPdu) {
        if self.error.is_none() {
            self.error = self.pcap.write(self.interfaces[wire], start, pdu).err();
        }
    }

    /// Ends the capture, or tells what went wrong on the way.
    pub fn finish(self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.pcap.finish().map(drop),
        }
    }
}

/// An address for documentation (RFC 5737): 192.0.2/24, then 198.51.100/24 and 203.0.113/24.
fn address(node: usize) -> SocketAddrV4 {
    const NETS: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];
    let [a, b, c] = NETS[node / 254 % 3];
    SocketAddrV4::new(Ipv4Addr::new(a, b, c, (node % 254) as u8 + 1), PORT)
}
