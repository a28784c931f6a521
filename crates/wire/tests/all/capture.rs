//! Captures must be dissected by tshark without a complaint.

use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;
use layercast_core::{Level, Span, Time};
use layercast_wire::{
    AdapterKind, Carriage, FrameType, Interface, LinkPdu, Mark, MetsPacket, Payload, PcapNg,
    Segmenter,
};

use crate::samples::pdus as samples;
use crate::tshark::tshark;

fn packet(payload: Payload, congestion: bool) -> MetsPacket {
    let packet = samples::packet(FrameType::BL, payload);
    MetsPacket {
        congestion,
        ..packet
    }
}

fn adapter() -> LinkPdu {
    LinkPdu::Adapter(samples::adapter(AdapterKind::Res, Level::FULL))
}

fn capture() -> Vec<u8> {
    let mut pcap = PcapNg::new(Vec::new()).unwrap();
    let face = |name: &str, carriage, snap_len| Interface {
        name: name.into(),
        description: format!("{name} -> rook"),
        carriage,
        source: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 47_001),
        destination: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 47_002),
        snap_len,
    };
    let cells = pcap
        .add_interface(face("chuff/0", Carriage::Cells, 0))
        .unwrap();
    let udp = pcap
        .add_interface(face("chuff/1", Carriage::Datagrams, 0))
        .unwrap();
    let cut = pcap
        .add_interface(face("chuff/2", Carriage::Datagrams, 64))
        .unwrap();

    let mut now = Time::from_ps(1_234_567_890_123);
    let mut write = |face, pdu| {
        pcap.write(face, now, &pdu).unwrap();
        now += Span::from_ns(4_240);
    };
    let media = packet(Payload::Zeros(1_000), true);
    for cell in Segmenter::mets(&media, 0, 100, Mark::Last).unwrap() {
        write(cells, LinkPdu::Cell(cell));
    }
    write(
        cells,
        LinkPdu::Cell(samples::adapter(AdapterKind::Res, Level::FULL).to_cell()),
    );
    for seq in 2..20_u32 {
        let bytes = Bytes::from((0..1_176).map(|i| (i * seq) as u8).collect::<Vec<_>>());
        let media = packet(bytes.into(), seq % 2 == 0);
        write(udp, LinkPdu::Mets(media.clone()));
        write(cut, LinkPdu::Mets(media));
    }
    write(udp, adapter());
    pcap.finish().unwrap()
}

#[test]
fn tshark_dissects_cells_and_datagrams_without_a_complaint() {
    let pcap = capture();
    let fields = |filter: &str, names: &[&str]| -> Option<Vec<String>> {
        let mut args = vec!["-Y", filter, "-T", "fields"];
        args.extend(names.iter().flat_map(|name| ["-e", *name]));
        // Bad IP and UDP checksums only show when asked for.
        args.extend([
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "udp.check_checksum:TRUE",
        ]);
        tshark("wire", &pcap, &args).map(|out| out.lines().map(str::to_owned).collect())
    };
    let Some(all) = fields("frame", &["frame.time_epoch", "frame.interface_name"]) else {
        return;
    };
    // 1024 bytes and the trailer are 22 cells.
    assert_eq!(all.len(), 22 + 1 + 2 * 18 + 1);
    assert_eq!(all[0], "1.234567890\tchuff/0");
    assert_eq!(all[1], "1.234572130\tchuff/0");
    let complaints = "_ws.malformed || _ws.expert.severity >= \"Warning\"";
    assert_eq!(
        fields(complaints, &["_ws.expert.message"]).unwrap(),
        [""; 0]
    );

    let cells = fields("atm", &["atm.vci", "atm.payload_type", "frame.len"]).unwrap();
    assert_eq!(cells.len(), 23);
    assert!(
        cells[..21].iter().all(|cell| cell == "100\t2\t52"),
        "{cells:?}"
    );
    assert_eq!(cells[21], "100\t3\t52");
    assert_eq!(cells[22], "34\t1\t52");

    let ecn = |n| format!("udp.dstport == 47002 && ip.dsfield.ecn == {n}");
    assert_eq!(fields(&ecn(3), &["udp.length"]).unwrap(), ["1208"; 18]);
    assert_eq!(fields(&ecn(2), &["udp.length"]).unwrap().len(), 18 + 1);
    assert_eq!(
        fields("frame.cap_len == 64", &["frame.len"]).unwrap(),
        ["1228"; 18]
    );
}

#[test]
fn the_same_packets_give_the_same_bytes() {
    assert_eq!(capture(), capture());
}
