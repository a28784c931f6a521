//! What a group says to itself, through tshark's dissector.

use core::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use layercast_core::Span;
use layercast_wire::{Carriage, Interface, IpBody, Ipv4Packet, PROTOCOL_XTP, PcapNg, XtpService};
use layercast_xtp::{XtpConfig, XtpRate};

use super::net::Group;
use crate::net::ms;
use crate::tshark;

fn v4(ip: IpAddr) -> Ipv4Addr {
    match ip {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// Everything that is sent in the life of an association: invitations, admissions, gaps, refusals, leave.
fn life(pcap: &mut PcapNg<Vec<u8>>, service: XtpService) -> usize {
    let face = pcap
        .add_interface(Interface {
            name: format!("group/{}", service.0),
            description: "all hosts".into(),
            carriage: Carriage::Datagrams,
            source: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            destination: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            snap_len: 0,
        })
        .unwrap();
    let mut net = Group::new(5, ms(10));
    let mut count = 0;
    net.way = Box::new(move |from, _, it| {
        count += u32::from(from == 0);
        let lost = from == 0 && count % 7 == 0;
        if lost { Vec::new() } else { vec![(ms(10), it)] }
    });
    let config = XtpConfig {
        fast_nak: true,
        ..XtpConfig::new(service)
    };
    let near = net.open(&config, &config);
    for n in 3..5 {
        net.hosts[n].unlisten(net.now, super::net::PORT);
    }
    net.run(Span::from_secs(2));
    net.send(near, &[1; 20_000]);
    let small = XtpConfig {
        max_data: 100,
        ..config.clone()
    };
    net.join(3, &config);
    net.join(4, &small);
    net.run(Span::from_secs(2));
    let limit = XtpRate {
        rate: 1_000_000,
        burst: 5_000,
    };
    net.hosts[0].set_traffic(near, limit, limit).unwrap();
    let one = net.accept(1);
    let now = net.now;
    net.hosts[1].close(now, one).unwrap();
    net.run(Span::from_secs(2));
    net.send(near, &[2; 20_000]);
    net.hosts[0].close_write(near).unwrap();
    net.run(Span::from_secs(60));
    for (now, from, to, packet) in &net.sent {
        let mut bytes = Vec::new();
        packet.encode_into(&mut bytes);
        let body = IpBody::Other {
            protocol: PROTOCOL_XTP,
            payload: bytes::Bytes::from(bytes).into(),
        };
        let ends = (v4(super::net::host(*from).ip()), v4(to.ip()));
        pcap.write_ip(face, *now, &Ipv4Packet::new(ends.0, ends.1, body))
            .unwrap();
    }
    net.sent.len()
}

#[test]
fn tshark_dissects_the_life_of_a_group_without_a_complaint() {
    let mut pcap = PcapNg::new(Vec::new()).unwrap();
    let packets =
        life(&mut pcap, XtpService::RELIABLE_MULTICAST) + life(&mut pcap, XtpService::MULTICAST);
    let pcap = pcap.finish().unwrap();
    let fields = [
        "xtp.checksum.status",
        "_ws.expert.message",
        "xtp.cmd.options.multi",
        "xtp.cmd.ptype.pformat",
    ];
    let Some(lines) = tshark::fields("xtp-multicast", &pcap, &fields) else {
        return;
    };
    assert_eq!(lines.len(), packets);
    for line in &lines {
        assert_eq!(line[..2], ["1", ""], "{line:?}");
        // DIAG for one that was not let in is of no association.
        let multicast = ["1", "True"].contains(&&*line[2]);
        assert!(multicast || line[3] == "8", "{line:?}");
    }
    for kind in ["0", "1", "2", "3", "5", "7", "8"] {
        let there = lines.iter().any(|line| line[3] == kind);
        assert!(there, "no packet of format {kind}");
    }
    tshark::no_complaint_of_xtp("xtp-multicast", &pcap);
}
