//! Hosts that are real programs: their packets cross the network byte for byte, and hear of what stops them.

use core::net::Ipv4Addr;

use bytes::Bytes;
use layercast_core::{Serial, Span, Time};
use layercast_sim::internet::*;
use layercast_wire::{
    IcmpMessage, IpBody, IpError, Ipv4Packet, PROTOCOL_ICMP, Payload, TcpFlags, TcpOptions,
    TcpSegment, UdpDatagram,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::atm::xunet;
use super::common::*;

const A: NodeIndex = NodeIndex(0);
const B: NodeIndex = NodeIndex(1);
/// No host has it.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

fn address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + node)
}

/// Hosts a (0), b (1) and c (4), which is simulated; routers r1 (2) of a and c, r2 (3) of b. 8 Mbit/s and 1 ms each.
fn line() -> Network {
    let host = |name: &str| (name.to_owned(), Some(modern(1_448)));
    let router = |name: &str| (name.to_owned(), None);
    let nodes = vec![host("a"), host("b"), router("r1"), router("r2"), host("c")];
    let mut network = network(nodes, 10.0);
    for (a, b) in [(0, 2), (2, 3), (3, 1), (2, 4)] {
        let ms = Span::from_ms(1);
        network
            .links
            .push(link(a, b, 8_000_000, ms, Limit::Packets(100)));
    }
    network
}

fn attached(network: &Network) -> Internet<'static> {
    let mut internet = Internet::new(network).expect("a network");
    assert!(internet.attach(A) && internet.attach(B));
    internet
}

fn udp(to: Ipv4Addr, len: usize) -> Ipv4Packet {
    let datagram = UdpDatagram {
        src_port: 7,
        dst_port: 9,
        checksum: true,
        payload: Payload::Bytes((0..len).map(|n| n as u8).collect()),
    };
    Ipv4Packet::new(address(0), to, IpBody::Udp(datagram))
}

fn bytes(packet: &Ipv4Packet) -> Bytes {
    let mut bytes = Vec::new();
    packet.encode_into(&mut bytes).expect("a packet");
    bytes.into()
}

/// The packets that leave a network within its time when a sends a packet at 1 s.
fn sent(network: &Network, packet: &Ipv4Packet) -> Vec<(Span, NodeIndex, Ipv4Packet)> {
    let mut internet = attached(network);
    let second = Time::ZERO + Span::from_secs(1);
    internet.run_until(second, &mut ());
    let entered = internet.inject(second, A, bytes(packet));
    entered.expect("a good packet");
    internet.run(&mut ());
    let out = std::iter::from_fn(|| internet.poll_external());
    out.map(|it| {
        let whole = Ipv4Packet::decode(bytes(&it.packet)).expect("a good packet");
        (it.at.since(second), it.node, whole)
    })
    .collect()
}

/// The ICMP message that a gets, and its sender.
fn told(network: &Network, packet: &Ipv4Packet) -> (Ipv4Addr, IcmpMessage) {
    let out = sent(network, packet);
    let [(_, A, answer)] = &out[..] else {
        panic!("one answer: {out:?}");
    };
    let IpBody::Other {
        protocol: PROTOCOL_ICMP,
        payload: Payload::Bytes(data),
    } = &answer.body
    else {
        panic!("ICMP: {answer:?}");
    };
    assert_eq!(answer.dst, packet.src);
    let message = IcmpMessage::decode(data.clone()).expect("a good message");
    (answer.src, message)
}

/// Whether an error quotes the packet, but for its TTL and header checksum.
fn quotes(message: &IcmpMessage, packet: &Ipv4Packet) -> bool {
    let (quoted, packet) = (&message.data, bytes(packet));
    let same = |range: core::ops::Range<usize>| quoted[range.clone()] == packet[range];
    same(0..8) && same(12..quoted.len()) && quoted.len() == packet.len().min(548)
}

#[test]
fn a_packet_arrives_with_its_bytes_when_it_should() {
    let packet = udp(address(1), 972);
    let out = sent(&line(), &packet);
    // 1000 bytes take 1 ms on each of three links, and 1 ms of delay.
    let arrived = Ipv4Packet { ttl: 62, ..packet };
    assert_eq!(out, [(Span::from_ms(6), B, arrived)]);
}

#[test]
fn one_that_must_be_cut_arrives_whole_and_one_that_may_not_comes_back() {
    let mut network = line();
    network.links[1].mtu = 576;
    let mut packet = udp(address(1), 1_400);
    let (from, message) = told(&network, &packet);
    assert_eq!((from, message.kind, message.code), (address(2), 3, 4));
    assert_eq!(message.rest, [0, 0, 2, 64]);
    assert!(quotes(&message, &packet));
    packet.dont_fragment = false;
    packet.id = 0x1234;
    let out = sent(&network, &packet);
    let arrived = Ipv4Packet { ttl: 63, ..packet };
    let [(after, B, whole)] = &out[..] else {
        panic!("one packet: {out:?}");
    };
    assert!(*after > Span::from_ms(3));
    assert_eq!(
        Ipv4Packet {
            ttl: 63,
            ..whole.clone()
        },
        arrived
    );
}

#[test]
fn hops_are_counted_as_traceroute_wants_it() {
    for (ttl, router) in [(1, 2), (2, 3)] {
        let packet = Ipv4Packet {
            ttl,
            ..udp(address(1), 40)
        };
        let (from, message) = told(&line(), &packet);
        assert_eq!((from, message.kind, message.code), (address(router), 11, 0));
        assert!(quotes(&message, &packet));
    }
}

#[test]
fn what_reaches_nobody_is_told() {
    let (from, message) = told(&line(), &udp(NOBODY, 2_000 - 28 - 600));
    assert_eq!((from, message.kind, message.code), (address(2), 3, 1));
    // A simulated host has no program behind any port.
    let packet = udp(address(4), 10);
    let (from, message) = told(&line(), &packet);
    assert_eq!((from, message.kind, message.code), (address(4), 3, 3));
    assert!(quotes(&message, &packet));
    // There is no report about an ICMP error.
    let mut error = Vec::new();
    message.encode_into(&mut error);
    let body = IpBody::Other {
        protocol: PROTOCOL_ICMP,
        payload: Payload::Bytes(error.into()),
    };
    let error = Ipv4Packet::new(address(0), NOBODY, body);
    assert_eq!(sent(&line(), &error), []);
}

#[test]
fn simulated_hosts_and_routers_answer_echoes_and_refuse_connections() {
    let echo = IcmpMessage {
        kind: IcmpMessage::ECHO,
        code: 0,
        rest: [1, 2, 3, 4],
        data: Bytes::from_static(b"are you there?"),
    };
    let mut data = Vec::new();
    echo.encode_into(&mut data);
    for node in [2, 3, 4] {
        let body = IpBody::Other {
            protocol: PROTOCOL_ICMP,
            payload: Payload::Bytes(data.clone().into()),
        };
        let ping = Ipv4Packet::new(address(0), address(node), body);
        let (from, answer) = told(&line(), &ping);
        assert_eq!(from, address(node));
        let kind = IcmpMessage::ECHO_REPLY;
        assert_eq!(
            answer,
            IcmpMessage {
                kind,
                ..echo.clone()
            }
        );
    }
    let syn = TcpSegment {
        src_port: 40_000,
        dst_port: 80,
        seq: Serial(7),
        ack: Serial(0),
        flags: TcpFlags::SYN,
        window: 1_000,
        urgent: 0,
        options: TcpOptions::default(),
        payload: Payload::default(),
    };
    let syn = Ipv4Packet::new(address(0), address(4), IpBody::Tcp(syn));
    let out = sent(&line(), &syn);
    let [(_, A, answer)] = &out[..] else {
        panic!("one answer: {out:?}");
    };
    let IpBody::Tcp(reset) = &answer.body else {
        panic!("TCP: {answer:?}");
    };
    assert!(reset.flags.has(TcpFlags::RST));
    assert_eq!(reset.ack, Serial(8));
}

#[test]
fn what_is_no_packet_of_the_host_stays_outside() {
    let mut network = line();
    network.budget.packets = 2;
    let mut internet = attached(&network);
    let mut inject = |packet: Bytes| internet.inject(Time::ZERO, A, packet);
    let good = udp(address(1), 100);
    let foreign = Ipv4Packet {
        src: address(4),
        ..good.clone()
    };
    let group = Ipv4Packet {
        dst: Ipv4Addr::new(224, 0, 0, 1),
        ..good.clone()
    };
    assert_eq!(inject(bytes(&foreign)), Err(Refused::Source(address(4))));
    assert_eq!(inject(bytes(&group)), Err(Refused::Group(group.dst)));
    assert_eq!(
        inject(Bytes::from_static(&[0x60; 48])),
        Err(Refused::Malformed(IpError::Version(6)))
    );
    assert!(matches!(
        inject(bytes(&good).slice(..30)),
        Err(Refused::Malformed(IpError::Length { .. }))
    ));
    assert_eq!(inject(bytes(&good)), Ok(()));
    assert_eq!(inject(bytes(&good)), Ok(()));
    assert_eq!(inject(bytes(&good)), Err(Refused::Full));
    let elsewhere = internet.inject(Time::ZERO, NodeIndex(4), bytes(&good));
    assert_eq!(elsewhere, Err(Refused::NotAttached(4)));
    assert!(!internet.attach(NodeIndex(2)) && !internet.attach(NodeIndex(99)));
    internet.run(&mut ());
    let counts = internet.external_counts();
    let expected = ExternalCounts {
        injected: 2,
        injected_bytes: 256,
        delivered: 2,
        delivered_bytes: 256,
        not_ipv4: 1,
        malformed: 1,
        wrong_source: 1,
        group: 1,
        full: 1,
        errors_told: 0,
    };
    assert_eq!(counts, expected);
}

#[test]
fn real_packets_cross_a_backbone_in_cells() {
    let mut network = xunet("noqos-conv-svc", 2, 2.0);
    network.workload = None;
    let hosts = |network: &Network| {
        let hosts = network.nodes.iter().enumerate();
        let hosts = hosts.filter(|(_, node)| matches!(node.role, Role::Host(_)));
        hosts.map(|(n, _)| NodeIndex(n as u32)).collect::<Vec<_>>()
    };
    let all = hosts(&network);
    let (from, to) = (all[0], all[all.len() - 1]);
    let mut internet = Internet::new(&network).expect("a network");
    assert!(internet.attach(from) && internet.attach(to));
    let mut packet = udp(network.nodes[to.0 as usize].address, 1_200);
    packet.src = network.nodes[from.0 as usize].address;
    internet
        .inject(Time::ZERO, from, bytes(&packet))
        .expect("a good packet");
    let report = internet.run(&mut ());
    let arrived = internet.poll_external().expect("a packet");
    assert_eq!(arrived.node, to);
    let hops = packet.ttl - arrived.packet.ttl;
    assert_eq!(bytes(&arrived.packet)[20..], bytes(&packet)[20..]);
    assert_eq!(hops, 2);
    // 1228 bytes and the trailer of AAL5 are 26 cells, over an adapter and two switches at least.
    assert!(report.cell_hops >= 3 * 26, "{}", report.cell_hops);
}

#[test]
fn in_steps_everything_happens_as_in_one_run() {
    let mut lossy = dumbbell(3, 10_000_000, Span::from_ms(5), Limit::Packets(20), 2.0);
    lossy.links[0].ways[0].impair = Impairments::losing(0.01);
    for network in [lossy, xunet("noqos-conv-svc", 4, 20.0)] {
        let whole = Internet::new(&network).expect("a network").run(&mut ());
        let mut internet = Internet::new(&network).expect("a network");
        let mut at = Time::ZERO;
        let mut steps = 0;
        while let Some(next) = internet.next_event() {
            assert!(next >= at);
            at = next.saturating_add(Span::from_us(steps % 7 * 300));
            assert_eq!(internet.run_until(at, &mut ()), None);
            steps += 1;
        }
        assert!(steps > 1_000, "{steps}");
        assert_eq!(internet.run(&mut ()), whole);
    }
}

/// Bytes that look like a packet of a, more or less.
fn hostile() -> impl Strategy<Value = Bytes> {
    let head = (0..6u32, any::<(u8, u16, u16)>(), 0..4u8, any::<bool>());
    let packet = (head, vec(any::<u8>(), 0..60), 0..2_000u32);
    let shaped = packet.prop_map(|((to, (tos, id, place), ttl, may_cut), data, zeros)| {
        let protocol = [1, 6, 17, data.len() as u8][usize::from(tos % 4)];
        let zeros = vec![0; zeros as usize];
        let payload = Payload::Bytes([data, zeros].concat().into());
        bytes(&Ipv4Packet {
            tos,
            id,
            ttl,
            dont_fragment: !may_cut,
            more_fragments: place & 1 != 0,
            // Most are no fragments.
            fragment_offset: if place & 6 == 0 { place >> 3 } else { 0 },
            ..Ipv4Packet::new(address(0), address(to), IpBody::Other { protocol, payload })
        })
    });
    let raw = vec(any::<u8>(), 0..80).prop_map(Bytes::from);
    prop_oneof![4 => shaped, 1 => raw]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn whatever_is_injected_is_counted_and_leaves_nothing_behind(
        packets in vec((hostile(), 0..3_000u64), 1..40),
        mtu in 68..1_500u32,
        loss in prop_oneof![Just(0.0), Just(0.3)],
    ) {
        let mut network = line();
        network.links[1].mtu = mtu;
        network.links[1].ways[0].impair = Impairments::losing(loss);
        let mut internet = attached(&network);
        let mut at = Time::ZERO;
        let mut entered = 0;
        for (bytes, gap) in &packets {
            at = at.saturating_add(Span::from_us(*gap));
            internet.run_until(at, &mut ());
            entered += u64::from(internet.inject(at, A, bytes.clone()).is_ok());
        }
        let report = internet.run(&mut ());
        let counts = internet.external_counts();
        prop_assert_eq!(counts.injected, entered);
        let refused = counts.not_ipv4 + counts.malformed + counts.wrong_source + counts.group + counts.full;
        prop_assert_eq!(entered + refused, packets.len() as u64);
        let out: Vec<Delivery> = std::iter::from_fn(|| internet.poll_external()).collect();
        prop_assert_eq!(counts.delivered, out.len() as u64);
        for delivery in out {
            prop_assert!(Ipv4Packet::decode_outer(bytes(&delivery.packet)).is_ok());
        }
        prop_assert_eq!(report.stopped, None);
        prop_assert_eq!(internet.packets_under_way(), 0);
    }
}
