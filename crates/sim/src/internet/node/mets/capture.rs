//! Captures of what METS nodes send.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::io;

use layercast_core::Time;
use layercast_wire::{Interface, LinkPdu, PcapNg};

use super::wires::Wire;
use crate::internet::medium::packet::METS_PORT;
use crate::scenario::Network;

/// A capture of all links: one interface for each direction.
pub struct Capture<'a> {
    pcap: PcapNg<&'a mut (dyn io::Write + Send)>,
    interfaces: Vec<u32>,
    error: Option<io::Error>,
}

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
    SocketAddrV4::new(Ipv4Addr::new(a, b, c, (node % 254) as u8 + 1), METS_PORT)
}
