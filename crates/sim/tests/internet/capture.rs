//! tshark opens what an internetwork's links carry, and finds nothing wrong with it.

use layercast_core::{Span, Time};
use layercast_sim::internet::*;
use layercast_wire::{Ipv4Packet, PcapNg, XtpService};
use layercast_xtp::XtpConfig;

use super::common::*;
use super::tshark;

/// Writes all packets to a capture.
struct Capture(PcapNg<Vec<u8>>);

impl Watch for Capture {
    fn sample(&mut self, _: &Sample) {}

    fn packet(&mut self, at: Time, interface: u32, packet: &Ipv4Packet) {
        self.0.write_ip(interface, at, packet).expect("a packet");
    }
}

fn captured(network: &Network) -> (Report, Vec<u8>) {
    let mut internet = Internet::new(network).expect("a network");
    internet.capture();
    let mut pcap = PcapNg::new(Vec::new()).expect("a capture");
    for interface in internet.interfaces() {
        pcap.add_interface(interface).expect("an interface");
    }
    let mut capture = Capture(pcap);
    let report = internet.run(&mut capture);
    (report, capture.0.finish().expect("a file"))
}

#[test]
fn every_packet_is_whole_and_its_checksums_are_right() {
    let mut network = dumbbell(2, 10_000_000, Span::from_ms(5), Limit::Packets(10), 1.0);
    // Fragments: of TCP in the middle, of UDP from the start.
    network.links[0].mtu = 1_000;
    for way in &mut network.links[0].ways {
        way.impair = Impairments::losing(0.01);
    }
    network.flows[1].traffic = Traffic::Datagrams {
        gap: Law::Constant(Span::from_ms(10)),
        size: SizeLaw::Constant(4_000),
        bursts: None,
    };
    let (report, pcap) = captured(&network);
    let sent: u64 = report.queues.iter().map(|queue| queue.sent).sum();
    assert!(report.queues[0].lost > 0 && report.queues[0].dropped_full > 0);
    let fields = [
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
        "_ws.malformed",
        "ip.flags.mf",
        "ip.frag_offset",
    ];
    let Some(lines) = tshark::fields("internet", &pcap, &fields) else {
        return;
    };
    assert_eq!(lines.len() as u64, sent);
    let count = |column: usize, value: &str| lines.iter().filter(|it| it[column] == value).count();
    // 0 is bad, 1 is good, 2 is not looked at: parts of what was cut.
    assert_eq!(count(0, "1"), lines.len());
    assert!(
        count(1, "1") > 300 && count(2, "1") > 50,
        "{} {}",
        count(1, "1"),
        count(2, "1")
    );
    assert_eq!(count(1, "0") + count(2, "0"), 0);
    assert!(lines.iter().all(|line| line[3].is_empty()));
    assert!(lines.iter().filter(|line| line[5] != "0").count() > 300);
}

/// XTP of all kinds that a run has: streams that lose packets, with questions, spans and closing.
#[test]
fn every_packet_of_xtp_is_dissected_without_a_complaint() {
    let mut network = dumbbell(2, 10_000_000, Span::from_ms(5), Limit::Packets(10), 3.0);
    for way in &mut network.links[0].ways {
        way.impair = Impairments::losing(0.02);
    }
    for (n, flow) in network.flows.iter_mut().enumerate() {
        let config = XtpConfig {
            error_control: n == 0,
            checksum: n == 0,
            fast_nak: true,
            ..XtpConfig::new(XtpService::STREAM)
        };
        flow.traffic = Traffic::Xtp {
            bytes: Some(300_000),
            config: Box::new(config),
            delivery: XtpDelivery::Ip,
        };
    }
    let (report, pcap) = captured(&network);
    let sent: u64 = report.queues.iter().map(|queue| queue.sent).sum();
    assert!(report.flows[0].retransmitted > 0 && report.flows[0].completed.is_some());
    let fields = [
        "xtp.checksum.status",
        "_ws.expert.message",
        "xtp.cmd.ptype.pformat",
    ];
    let Some(lines) = tshark::fields("internet-xtp", &pcap, &fields) else {
        return;
    };
    assert_eq!(lines.len() as u64, sent);
    assert!(lines.iter().all(|line| line[..2] == ["1", ""]), "{lines:?}");
    // DATA, CNTL, FIRST, ECNTL, TCNTL.
    for kind in ["0", "1", "2", "3", "5"] {
        assert!(lines.iter().any(|line| line[2] == kind), "{kind}");
    }
    tshark::no_complaint_of_xtp("internet-xtp", &pcap);
}
