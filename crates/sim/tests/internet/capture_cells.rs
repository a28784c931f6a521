//! The cells of a backbone in a capture: they are those that were counted, carry what was sent, and tshark takes them.

use std::collections::BTreeMap;

use layercast_atm::signal::{Body, SignalCell};
use layercast_core::{Span, Time};
use layercast_sim::internet::*;
use layercast_wire::{Carriage, Cell, IpBody, Ipv4Packet, Payload, Pti, UdpDatagram, XtpPacket};

use super::told::*;
use super::tshark;

#[test]
fn every_cell_that_is_counted_is_there_at_its_time() {
    let network = backbone("noqos-conv-svc");
    let (report, capture, _) = captured(&network);
    let atm = report.atm.as_ref().expect("a backbone");
    let mut all = 0;
    for queue in &atm.queues {
        let interface = capture.interface(&queue.name);
        let count = capture.cells(interface).count() as u64;
        assert_eq!(count, queue.sent, "{}", queue.name);
        assert!(count > 0, "{}", queue.name);
        all += count;
    }
    // The last cells arrived long ago.
    assert_eq!(all, report.cell_hops);
    // No link sends a cell before the one before it is out: 424 bits.
    let times = |bps: f64| Span::from_secs_f64(423.99 / bps);
    let mut last = BTreeMap::new();
    for &(at, interface, _) in &capture.cells {
        let name = &capture.interfaces[interface as usize].name;
        let gap = times(if name.contains("w1") && name.contains("w2") {
            4e6
        } else {
            25e6
        });
        if let Some(before) = last.insert(interface, at) {
            assert!(at.since(before) >= gap, "{name}: {before:?} {at:?}");
        }
    }
    let carriage = |name: &str| capture.interfaces[capture.interface(name) as usize].carriage;
    assert_eq!(carriage("w1->w2"), Carriage::Cells);
    assert_eq!(carriage("a->r1"), Carriage::Datagrams);
    assert_eq!(
        capture.interfaces.len(),
        report.queues.len() + atm.queues.len()
    );
}

#[test]
fn cells_make_the_packets_that_were_sent() {
    let (report, capture, _) = captured(&backbone("noqos-conv-svc"));
    let atm = report.atm.as_ref().expect("a backbone");
    // What is whole where it ends is what continues from there, one hop further.
    let (mut cut, mut lost) = (0, 0);
    for (last, next) in [("w2->r2", "r2->b"), ("w1->r1", "r1->a")] {
        let (frames, damaged) = capture.frames(last);
        let forwarded = frames.iter().map(|frame| {
            let packet = Ipv4Packet::decode_outer(frame.clone().into()).expect("a packet");
            cut += u64::from(packet.more_fragments);
            let ttl = packet.ttl - 1;
            bytes(&Ipv4Packet { ttl, ..packet })
        });
        let forwarded: Vec<_> = forwarded.collect();
        assert!(forwarded == capture.packets(next), "{last}");
        let adapter = atm.adapters.iter().find(|it| last.ends_with(&it.router));
        let adapter = adapter.expect("an adapter");
        assert_eq!(
            (frames.len() as u64, damaged),
            (adapter.frames, adapter.damaged)
        );
        assert!(frames.len() > 50, "{last}: {}", frames.len());
        lost += damaged;
    }
    assert!(cut > 50 && lost > 5, "{cut} {lost}");
    // What enters is what came, and nothing is damaged yet: one hop further, too.
    let (entered, damaged) = capture.frames("r1->w1");
    let came = capture.packets("a->r1").into_iter().map(|packet| {
        let packet = Ipv4Packet::decode_outer(packet.into()).expect("a packet");
        let ttl = packet.ttl - 1;
        bytes(&Ipv4Packet { ttl, ..packet })
    });
    assert!(damaged == 0 && entered == came.collect::<Vec<_>>());
}

/// The only circuit between the routers that way is that of TCP.
#[test]
fn what_is_left_of_a_frame_that_lost_cells_is_what_it_was() {
    let (report, capture, _) = captured(&backbone("noqos-conv-svc"));
    let cells = |name: &str| {
        let cells = capture.cells(capture.interface(name));
        cells.filter(|it| it.vci != SIGNALLING)
    };
    let mut sent = cells("r1->w1");
    let mut arrived = 0;
    for cell in cells("w2->r2") {
        let is_same =
            |it: &&Cell| (it.pti, it.clp, it.payload) == (cell.pti, cell.clp, cell.payload);
        assert!(sent.by_ref().any(|it| is_same(&it)), "{arrived}: {cell:?}");
        arrived += 1;
    }
    let atm = report.atm.as_ref().expect("a backbone");
    let adapter = atm.adapters.iter().find(|it| it.router == "r1");
    let adapter = adapter.expect("an adapter");
    assert!(adapter.cells_lost > 50, "{}", adapter.cells_lost);
    assert_eq!(arrived, adapter.cells_sent - adapter.cells_lost);
}

#[test]
fn xtp_over_aal5_has_no_ip_header_in_its_cells() {
    let (report, capture, _) = captured(&backbone("noqos-conv-svc"));
    let (frames, _) = capture.frames("w2->d");
    let mut data = 0;
    for frame in &frames {
        let packet = XtpPacket::decode(frame.clone().into()).expect("a packet of XTP");
        data += packet.body.encoded_len() as u64;
    }
    assert_eq!(report.flows[2].bytes, 200_000);
    assert!(data >= 200_000, "{data}");
}

#[test]
fn signalling_says_what_it_says_and_marks_are_where_they_belong() {
    let (report, capture, _) = captured(&backbone("noqos-conv-svc"));
    let (mut setups, mut connects, mut low) = (0, 0, 0);
    for (_, interface, cell) in &capture.cells {
        let name = &capture.interfaces[*interface as usize].name;
        if cell.vci != SIGNALLING {
            assert!(cell.vci > SIGNALLING && cell.vpi == 0);
            low += u64::from(cell.clp);
            continue;
        }
        assert_eq!((cell.pti, cell.clp), (Pti::data(false, false), false));
        let adapter = !name.starts_with('w');
        match SignalCell::decode(&cell.payload).expect("signalling") {
            SignalCell::Data { message, .. } if adapter => match message.body {
                Body::Setup(_) => setups += 1,
                Body::Connect => connects += 1,
                Body::Reject(_) | Body::Release => {}
            },
            SignalCell::Data { .. } | SignalCell::Ack { .. } => {}
        }
    }
    let atm = report.atm.as_ref().expect("a backbone");
    let requests: u64 = atm.adapters.iter().map(|it| it.requests).sum();
    assert_eq!((setups, connects), (requests, requests));
    assert!(requests > 3 && low > 50, "{requests} {low}");
}

#[test]
fn tshark_takes_every_cell() {
    let (report, capture, pcap) = captured(&backbone("noqos-conv-svc"));
    let fields = [
        "frame.protocols",
        "atm.vci",
        "frame.interface_name",
        "_ws.malformed",
        "_ws.expert.message",
    ];
    let Some(lines) = tshark::fields("internet-cells", &pcap, &fields) else {
        return;
    };
    assert!(lines.iter().all(|line| line[3].is_empty()));
    let cells = lines.iter().filter(|line| line[0].starts_with("erf:atm"));
    // Of TCP it has much to say: segments are lost.
    assert!(cells.clone().all(|line| line[4].is_empty()));
    let cells: Vec<_> = cells
        .map(|line| (line[2].as_str(), line[1].parse().expect("a VCI")))
        .collect();
    let wanted = capture.cells.iter().map(|(_, interface, cell)| {
        (
            capture.interfaces[*interface as usize].name.as_str(),
            cell.vci,
        )
    });
    assert!(cells == wanted.collect::<Vec<_>>());
    assert_eq!(cells.len() as u64, report.cell_hops);
    assert_eq!(lines.len(), capture.cells.len() + capture.packets.len());
}

/// Trains, sites, and a switch that is too large for either.
#[test]
fn results_are_the_same_with_a_capture() {
    let star = network(
        r#"schema = "internet/1"
        name = "star"
        run = { duration = "1s" }
        [[host]]
        name = "h{1..130}"
        [atm]
        [[atm.switch]]
        name = "x"
        [[atm.link]]
        ends = ["h{1..130}", "x"]
        rate = "2 Mbit/s"
        delay = "1ms"
        [[flow]]
        from = "h{1..65}"
        to = "h{66..130}"
        bytes = 20000
        "#,
    );
    let networks = [
        backbone("noqos-conv-svc"),
        backbone("sp-qos1-conv-svc"),
        backbone("edf-av-app-svccache"),
        star,
    ];
    for network in networks {
        let json = |report: &Report| serde_json::to_string(report).expect("JSON");
        let (report, capture, _) = captured(&network);
        let sent = report.atm.as_ref().expect("a backbone").queues.iter();
        assert_eq!(
            capture.cells.len() as u64,
            sent.map(|it| it.sent).sum::<u64>()
        );
        let plain = Internet::new(&network).expect("a network").run(&mut ());
        assert!(json(&report) == json(&plain));
    }
}

/// What a real program sends begins to leave before the next event, and may be all gone with that.
#[test]
fn cells_of_packets_from_outside_are_told_of_in_time() {
    let network = backbone("noqos-conv-svc");
    let node = |name: &str| {
        let place = network.nodes.iter().position(|it| it.name == name);
        NodeIndex(place.expect(name) as u32)
    };
    let address = |name: &str| network.nodes[node(name).0 as usize].address;
    let mut network = network.clone();
    network.flows.clear();
    network.contracts.clear();
    let mut internet = Internet::new(&network).expect("a network");
    assert!(internet.attach(node("c")) && internet.capture_cells());
    let mut capture = Capture::of(&internet);
    let datagram = UdpDatagram {
        src_port: 7,
        dst_port: 9,
        checksum: true,
        payload: Payload::Zeros(8),
    };
    let packet = |to| Ipv4Packet::new(address("c"), address(to), IpBody::Udp(datagram.clone()));
    let packets = [packet("d"), packet("a")].map(|packet| bytes(&packet));
    for (packet, at) in packets.iter().zip([0, 1_000]) {
        let at = Time::ZERO + Span::from_ms(at);
        internet.run_until(at, &mut capture);
        let sent = internet.inject(at, node("c"), packet.clone().into());
        sent.expect("a good packet");
    }
    let report = internet.run(&mut capture);
    assert_eq!(capture.cells.len() as u64, report.cell_hops);
    let (frames, damaged) = capture.frames("c->w1");
    assert!(frames == packets && damaged == 0);
    // Once a message has arrived its frame has no body, or that of the next: here of a set-up with another circuit.
    let cells = capture.cells(capture.interface("c->w1"));
    let signals = cells.filter_map(|cell| SignalCell::decode(&cell.payload).ok());
    let asked = signals.filter_map(|signal| match signal {
        SignalCell::Data { message, .. } => match message.body {
            Body::Setup(setup) => Some(setup.vc.0),
            _ => None,
        },
        SignalCell::Ack { .. } => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn once_cells_have_moved_it_is_too_late() {
    let mut internet = Internet::new(&backbone("noqos-conv-svc")).expect("a network");
    internet.run_until(Time::ZERO + Span::from_secs(1), &mut ());
    assert!(!internet.capture_cells());
    assert_eq!(internet.interfaces().count(), 4);
}
