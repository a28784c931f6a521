//! Links: two directions, each with a channel for data and a reliable one for signals.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::io;

use layercast_core::{Machine, Observer, PortId, Stream, Time};
use layercast_switch::{Link, LinkConfig, LinkInput};
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
    pub data: Link<LinkPdu>,
    /// Signals on their way.
    pub signals: Link<Signal>,
    /// Event source of `data`.
    pub data_event: SourceId,
    /// Probability that RES or ADAPT is lost, and what draws it.
    adapter_loss: f64,
    adapter_stream: Stream,
    /// Event source of `signals`.
    pub signal_event: SourceId,
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
        let NetLink { ends, ports } = net.links[link];
        let (from, to) = (ends[side], ends[1 - side]);
        let config = net.nodes[from].ports[usize::from(ports[side].0)].out;
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
            adapter_loss: net.nodes[from].ports[usize::from(ports[side].0)].adapter_loss,
            adapter_stream: Stream::new(net.seed, &format!("{name}/adapter_loss")),
            signals: Link::new(reliable, net.seed, &format!("{name}/signals")),
            data_event: kernel.add(),
            signal_event: kernel.add(),
        }
    }

    /// Puts a PDU on the line; its last bit leaves at `ready`.
    pub fn send<O: Observer>(
        &mut self,
        now: Time,
        ready: Time,
        pdu: LinkPdu,
        kernel: &mut Kernel,
        obs: &mut O,
    ) {
        if self.adapter_loss > 0.0
            && is_adapter(&pdu)
            && self.adapter_stream.chance(self.adapter_loss)
        {
            return;
        }
        self.data.handle(now, LinkInput { ready, item: pdu }, obs);
        kernel.schedule(self.data_event, self.data.next_timeout());
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
