//! Links: two directions, each with a channel for data and a reliable one for signals, and perhaps repair of losses.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::io;

use layercast_core::{Machine, Observer, PortId, Rate, Span, Stream, Time};
use layercast_link::{Framed, Link, LinkConfig, LinkInput, LinkRepair, LinkRepairStats};
use layercast_wire::{ADAPTER_VCI, Interface, LinkPdu, PcapNg, Signal};

use crate::kernel::{Kernel, SourceId};
use crate::scenario::{NetLink, Network};

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
    pub data: Link<Framed>,
    /// Signals on their way.
    pub signals: Link<Signal>,
    /// Event source of `data`.
    pub data_event: SourceId,
    /// Probability that RES or ADAPT is lost, and what draws it.
    adapter_loss: f64,
    adapter_stream: Stream,
    /// Event source of `signals`.
    pub signal_event: SourceId,
    /// The sending node's end of a link with repair; `None` before the channel stands.
    pub repair: Option<Box<LinkRepair<Option<LinkPdu>>>>,
    /// Event source of `repair`, on a link with repair.
    pub repair_event: Option<SourceId>,
    /// The session of the counters of this direction.
    pub session: u16,
    /// What former ends repaired.
    repaired: LinkRepairStats,
    name: String,
    rate: Option<Rate>,
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
    pub fn new(net: &Network, link: usize, side: usize, kernel: &mut Kernel) -> Wire {
        let NetLink {
            ends,
            ports,
            repair,
        } = net.links[link];
        let (from, to) = (ends[side], ends[1 - side]);
        let port = &net.nodes[from].ports[usize::from(ports[side].0)];
        let (config, rate) = (port.out, port.config.rate);
        let name = format!("{}-{}", net.nodes[from].name, net.nodes[to].name);
        let reliable = LinkConfig {
            delay: config.delay,
            ..LinkConfig::default()
        };
        Wire {
            from,
            to,
            to_port: ports[1 - side],
            link,
            data: Link::new(config, net.seed, &name),
            adapter_loss: port.adapter_loss,
            adapter_stream: Stream::new(net.seed, &format!("{name}/adapter_loss")),
            signals: Link::new(reliable, net.seed, &format!("{name}/signals")),
            data_event: kernel.add(),
            signal_event: kernel.add(),
            repair: None,
            repair_event: repair.then(|| kernel.add()),
            session: 0,
            repaired: LinkRepairStats::default(),
            name,
            rate,
        }
    }

    /// Puts a PDU on the line; its first bit leaves at `start`, the last one `tx` later.
    pub fn send<O: Observer>(
        &mut self,
        now: Time,
        (start, tx): (Time, Span),
        pdu: LinkPdu,
        kernel: &mut Kernel,
        obs: &mut O,
    ) {
        if let Some(repair) = &mut self.repair {
            repair.send(now, start, pdu, obs);
            return self.drain_repair(now, kernel, obs);
        }
        if self.loses_adapter(Some(&pdu)) {
            return;
        }
        let (ready, item) = (start.saturating_add(tx), Framed::bare(pdu));
        self.data.handle(now, LinkInput { ready, item }, obs);
        kernel.schedule(self.data_event, self.data.next_timeout());
    }

    /// Whether this is RES or ADAPT, and lost.
    fn loses_adapter(&mut self, pdu: Option<&LinkPdu>) -> bool {
        self.adapter_loss > 0.0
            && pdu.is_some_and(is_adapter)
            && self.adapter_stream.chance(self.adapter_loss)
    }

    /// Begins to repair losses, with the sessions of both ends, that of this end first.
    pub fn renew_repair(&mut self, sessions: (u16, u16)) {
        if self.repair_event.is_some() {
            self.repaired = self.repair_stats().unwrap_or_default();
            let repair = LinkRepair::new(&self.name, sessions, self.rate);
            self.repair = Some(Box::new(repair));
        }
    }

    /// Puts what the end with repair sends on the line.
    pub fn drain_repair<O: Observer>(&mut self, now: Time, kernel: &mut Kernel, obs: &mut O) {
        let Some(event) = self.repair_event else {
            return;
        };
        while let Some((item, ready)) = self.repair.as_mut().and_then(|it| it.poll(now, obs)) {
            if !self.loses_adapter(item.pdu.as_ref()) {
                self.data.handle(now, LinkInput { ready, item }, obs);
            }
        }
        kernel.schedule(self.data_event, self.data.next_timeout());
        let next = self.repair.as_ref().and_then(|it| it.next_timeout());
        kernel.schedule(event, next);
    }

    /// What the sending node's end repaired so far, on a link with repair.
    pub fn repair_stats(&self) -> Option<LinkRepairStats> {
        let mut stats = self.repair.as_ref()?.stats();
        stats.add(&self.repaired);
        Some(stats)
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
    pcap: PcapNg<&'a mut dyn io::Write>,
    interfaces: Vec<u32>,
    error: Option<io::Error>,
}

/// The UDP port of every node in a capture.
const PORT: u16 = 4_900;

impl<'a> Capture<'a> {
    /// Starts a capture of `wires`.
    pub fn new(
        out: &'a mut dyn io::Write,
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
