//! What a run tells of packets and cells, and a backbone for it.

use std::collections::BTreeMap;

use layercast_core::Time;
use layercast_sim::internet::*;
use layercast_wire::{Cell, Interface, Ipv4Packet, LinkPdu, Mark, PcapNg, Reassembler};
use scenario::Scenario;

/// The VCI of the controllers.
pub const SIGNALLING: u16 = 32;

/// All input of a capture, and the file made of it.
pub struct Capture {
    pub pcap: PcapNg<Vec<u8>>,
    pub interfaces: Vec<Interface>,
    pub cells: Vec<(Time, u32, Cell)>,
    pub packets: Vec<(Time, u32, Ipv4Packet)>,
    /// The time of the last input.
    last: Time,
}

impl Watch for Capture {
    fn sample(&mut self, _: &Sample) {}

    fn packet(&mut self, at: Time, interface: u32, packet: &Ipv4Packet) {
        self.pcap.write_ip(interface, at, packet).expect("a packet");
        self.packets.push((at, interface, packet.clone()));
        self.comes(at);
    }

    fn cell(&mut self, at: Time, interface: u32, cell: &Cell) {
        let pdu = LinkPdu::Cell(*cell);
        self.pcap.write(interface, at, &pdu).expect("a cell");
        self.cells.push((at, interface, *cell));
        self.comes(at);
    }
}

impl Capture {
    pub fn of(internet: &Internet) -> Capture {
        let mut pcap = PcapNg::new(Vec::new()).expect("a capture");
        let interfaces: Vec<_> = internet.interfaces().collect();
        for interface in &interfaces {
            pcap.add_interface(interface.clone()).expect("one");
        }
        Capture {
            pcap,
            interfaces,
            cells: Vec::new(),
            packets: Vec::new(),
            last: Time::ZERO,
        }
    }

    pub fn comes(&mut self, at: Time) {
        assert!(at >= self.last, "{at:?} after {:?}", self.last);
        self.last = at;
    }

    pub fn interface(&self, name: &str) -> u32 {
        let found = self.interfaces.iter().position(|it| it.name == name);
        found.expect(name) as u32
    }

    /// Cells that left in a direction.
    pub fn cells(&self, interface: u32) -> impl Iterator<Item = &Cell> {
        let cells = self.cells.iter().filter(move |it| it.1 == interface);
        cells.map(|(_, _, cell)| cell)
    }

    /// What frames are made of the data cells of a direction, in the order of their ends; and how many are damaged.
    pub fn frames(&self, name: &str) -> (Vec<Vec<u8>>, u64) {
        let mut circuits: BTreeMap<(u8, u16), Reassembler> = BTreeMap::new();
        let (mut frames, mut damaged) = (Vec::new(), 0);
        let cells = self.cells(self.interface(name));
        for cell in cells.filter(|it| (it.vpi, it.vci) != (0, SIGNALLING)) {
            let circuit = circuits.entry((cell.vpi, cell.vci));
            let circuit = circuit.or_insert_with(|| Reassembler::new(Mark::Last));
            match circuit.push(cell) {
                Some(Ok(frame)) => frames.push(frame.bytes.to_vec()),
                Some(Err(_)) => damaged += 1,
                None => {}
            }
        }
        (frames, damaged)
    }

    /// Packets that a link took, as bytes.
    pub fn packets(&self, name: &str) -> Vec<Vec<u8>> {
        let interface = self.interface(name);
        let packets = self.packets.iter().filter(|it| it.1 == interface);
        packets.map(|(_, _, packet)| bytes(packet)).collect()
    }
}

pub fn bytes(packet: &Ipv4Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode_into(&mut bytes).expect("a packet");
    bytes
}

pub fn network(text: &str) -> Network {
    let scenario = Scenario::from_toml(text, std::path::Path::new("."));
    scenario.expect("TOML").resolve().expect("a network")
}

pub fn captured(network: &Network) -> (Report, Capture, Vec<u8>) {
    let mut internet = Internet::new(network).expect("a network");
    assert!(internet.capture_cells());
    let mut capture = Capture::of(&internet);
    let report = internet.run(&mut capture);
    let pcap = std::mem::replace(&mut capture.pcap, PcapNg::new(Vec::new()).expect("another"));
    (report, capture, pcap.finish().expect("a file"))
}

/// Two hosts behind routers and two with adapters, on both sides of a line that is too slow for them: TCP, datagrams that
/// are cut for the backbone and break their contract, and XTP without IP. All is over before the end.
pub fn backbone(policy: &str) -> Network {
    network(&format!(
        r#"schema = "internet/1"
        name = "cells"
        run = {{ duration = "20s" }}
        [[host]]
        name = "a"
        [[host]]
        name = "b"
        [[host]]
        name = "c"
        [[host]]
        name = "d"
        [[router]]
        name = "r{{1..2}}"
        [[link]]
        ends = ["a", "r1"]
        rate = "100 Mbit/s"
        delay = "1ms"
        mtu = 9000
        [[link]]
        ends = ["b", "r2"]
        rate = "100 Mbit/s"
        delay = "1ms"
        mtu = 9000
        [atm]
        policy = "{policy}"
        mtu = 1500
        queue = {{ discard = "none", per_vc_limit = 60, port_limit = 90, adapter_limit = 5000, low_limit = 40 }}
        [[atm.switch]]
        name = "w{{1..2}}"
        [[atm.link]]
        ends = ["w1", "w2"]
        rate = "4 Mbit/s"
        delay = "5ms"
        [[atm.link]]
        ends = ["r{{1..2}}", "w{{1..2}}"]
        rate = "25 Mbit/s"
        delay = "1ms"
        [[atm.link]]
        ends = ["c", "w1"]
        rate = "25 Mbit/s"
        delay = "1ms"
        [[atm.link]]
        ends = ["d", "w2"]
        rate = "25 Mbit/s"
        delay = "1ms"
        [[flow]]
        from = "a"
        to = "b"
        bytes = 400000
        [[flow]]
        from = "b"
        to = "a"
        stop = "3s"
        datagrams = {{ gap = "40ms", size = "4000 B" }}
        contract = {{ kind = "vbr", peak = "4 Mbit/s", sustained = "500 kbit/s", burst = 40, conformance = "A", shape = "tagged" }}
        [[flow]]
        from = "c"
        to = "d"
        bytes = 200000
        xtp = {{ delivery = "host-pair" }}
        "#
    ))
}
