//! Strangers and receivers that lie: no other receiver suffers, and memory is bounded.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use layercast_core::{Machine, Off, Serial, Span, Stream};
use layercast_wire::{
    Payload, XtpAddress, XtpBody, XtpControl, XtpDiagCode, XtpDiagValue, XtpKey, XtpOptions,
    XtpPacket, XtpService, XtpTraffic, XtpTrafficSpec,
};
use layercast_xtp::{XtpConfig, XtpDatagram, XtpEvent, XtpFailure, XtpGroup};

use super::net::{Group, PORT, host, reliable};
use crate::net::{ms, number};

fn packet(key: XtpKey, body: XtpBody) -> XtpPacket {
    XtpPacket {
        key,
        options: XtpOptions::MULTI,
        sort: 0,
        sync: Serial(1),
        seq: 0,
        body,
    }
}

fn asks(key: XtpKey, control: XtpControl, spec: XtpTrafficSpec) -> XtpPacket {
    let address = XtpAddress::Ports {
        dst: PORT,
        src: 6_000,
    };
    let traffic = XtpTraffic::Spec(XtpService::RELIABLE_MULTICAST, spec);
    let body = XtpBody::Jcntl {
        control,
        xkey: key,
        address,
        traffic,
    };
    packet(key, body)
}

/// As if `src` had sent it to a host.
fn give(net: &mut Group, n: usize, src: SocketAddr, packet: XtpPacket) {
    let dst = host(n);
    let (now, datagram) = (net.now, XtpDatagram { src, dst, packet });
    net.hosts[n].handle(now, datagram, &mut Off);
}

fn stranger(n: u32) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::from_bits(0xc0a8_0000 + n), 0).into()
}

/// The key by which a host has spoken to the transmitter.
fn key_of(net: &Group, n: usize) -> XtpKey {
    net.sent.iter().find(|it| it.1 == n).unwrap().3.key
}

#[test]
fn those_who_only_ask_take_no_place_and_hold_nobody_up() {
    let mut net = Group::new(3, ms(5));
    let config = XtpConfig {
        group: XtpGroup {
            wait_for: 2,
            receivers: 100,
            ..XtpGroup::default()
        },
        ..reliable()
    };
    let near = net.open(&config, &reliable());
    net.run(Span::from_secs(1));
    let (one, two) = (net.accept(1), net.accept(2));
    let mut got = [0, 0];
    for round in 0..50 {
        for n in 0..200 {
            let key = XtpKey(u64::from(n) + 1);
            let ask = asks(key, XtpControl::default(), XtpTrafficSpec::default());
            give(&mut net, 0, stranger(round * 200 + n), ask);
        }
        net.send(near, &[round as u8; 5_000]);
        net.run(ms(100));
        got[0] += net.read(1, one).len();
        got[1] += net.read(2, two).len();
    }
    assert_eq!(got, [250_000; 2]);
    let info = net.hosts[0].info(near).unwrap();
    assert!(info.receivers == 2 && info.memory < 128 << 10, "{info:?}");
    assert_eq!(net.hosts[0].stats().admitted, 2 + 10_000);
    // Each got an answer as long as what it sent, and no more.
    let said: usize = net
        .sent
        .iter()
        .filter(|it| it.1 == 0 && it.2.ip().to_string().starts_with("192."))
        .map(|it| it.3.encoded_len())
        .sum();
    assert!(said <= 10_000 * 104, "{said}");
}

#[test]
fn one_who_lies_goes_the_third_time_and_the_others_stay() {
    let mut net = Group::new(3, ms(5));
    let config = XtpConfig {
        group: XtpGroup {
            wait_for: 2,
            ..XtpGroup::default()
        },
        ..reliable()
    };
    let near = net.open(&config, &reliable());
    net.run(Span::from_secs(1));
    net.accept(1);
    let (key, from) = (key_of(&net, 1), host(1));
    for round in 0..3 {
        assert_eq!(net.hosts[0].info(near).unwrap().receivers, 2, "{round}");
        let control = XtpControl {
            rseq: 1 << 40,
            alloc: u64::MAX,
            echo: Serial(0),
        };
        give(&mut net, 0, from, packet(key, XtpBody::Cntl(control)));
    }
    net.run(ms(100));
    assert_eq!(net.hosts[0].info(near).unwrap().receivers, 1);
    assert_eq!(net.hosts[0].stats().violations, 3);
    assert_eq!(net.failure(1), Some(XtpFailure::Abandoned));
    net.send(near, &[7; 20_000]);
    net.run(Span::from_secs(1));
    let two = net.accept(2);
    assert_eq!(net.read(2, two).len(), 20_000);
}

#[test]
fn who_is_not_the_receiver_cannot_speak_for_it() {
    let mut net = Group::new(3, ms(5));
    let near = net.open(&reliable(), &reliable());
    net.run(Span::from_secs(1));
    let key = key_of(&net, 1);
    let leave = |key, options| XtpPacket {
        options,
        ..packet(key, XtpBody::Cntl(XtpControl::default()))
    };
    let ends = XtpOptions::MULTI | XtpOptions::RCLOSE | XtpOptions::END;
    let abandon = XtpBody::Diag {
        code: XtpDiagCode::ABANDONED,
        value: XtpDiagValue(0),
        message: bytes::Bytes::new(),
    };
    for n in 0..1_000 {
        // The right key from elsewhere, the right place without the key.
        give(&mut net, 0, stranger(n), leave(key, ends));
        give(&mut net, 0, stranger(n), packet(key, abandon.clone()));
        let guess = XtpKey(u64::from(n) << 32);
        give(&mut net, 0, host(1), leave(guess, ends));
        give(
            &mut net,
            1,
            stranger(n),
            packet(key.returned(), abandon.clone()),
        );
    }
    net.run(Span::from_secs(1));
    assert_eq!(net.hosts[0].info(near).unwrap().receivers, 2);
    assert_eq!((net.failure(0), net.failure(1)), (None, None));
}

#[test]
fn any_packet_at_any_time_is_taken_without_harm() {
    for seed in 0..40 {
        let mut random = Stream::new(seed, "hostile group");
        let mut net = Group::new(4, ms(5));
        let near = net.open(&reliable(), &reliable());
        net.run(Span::from_secs(1));
        net.send(near, &[1; 30_000]);
        let keys: Vec<_> = (0..4).map(|n| key_of(&net, n)).collect();
        for _ in 0..1_500 {
            let control = XtpControl {
                rseq: number(&mut random),
                alloc: number(&mut random),
                echo: Serial(number(&mut random) as u32),
            };
            let spec = XtpTrafficSpec {
                max_data: number(&mut random) as u32,
                in_rate: number(&mut random) as u32,
                ..XtpTrafficSpec::default()
            };
            let traffic = XtpTraffic::Spec(XtpService(random.below(8) as u8), spec);
            let (to, from) = (random.below(4) as usize, random.below(4) as usize);
            let key = keys[if random.chance(0.5) { to } else { from }];
            let key = if random.chance(0.5) {
                key.returned()
            } else {
                key
            };
            let body = match random.below(8) {
                0 | 1 => XtpBody::Data(Payload::Zeros(8 + random.below(3_000) as u32)),
                2 => XtpBody::Cntl(control),
                3 => XtpBody::Ecntl {
                    control,
                    spans: vec![(number(&mut random), number(&mut random))],
                },
                4 => XtpBody::Tcntl {
                    control,
                    xkey: XtpKey(number(&mut random)),
                    traffic,
                },
                5 => asks(key, control, spec).body,
                6 => XtpBody::First {
                    address: XtpAddress::Ports { dst: PORT, src: 1 },
                    traffic,
                    data: Payload::Zeros(random.below(100) as u32),
                },
                _ => XtpBody::Diag {
                    code: XtpDiagCode(random.below(9) as u32),
                    value: XtpDiagValue(0),
                    message: bytes::Bytes::new(),
                },
            };
            let mut packet = packet(key, body);
            packet.options = XtpOptions(random.below(1 << 24) as u32);
            if random.chance(0.8) {
                packet.options |= XtpOptions::MULTI;
            }
            (packet.seq, packet.sync) = (number(&mut random), Serial(number(&mut random) as u32));
            give(&mut net, to, host(from), packet);
            if let Some(info) = net.hosts[0].info(near) {
                assert!(info.memory < 512 << 10, "{} bytes", info.memory);
            }
            if random.chance(0.1) {
                net.run(ms(random.below(50)));
            }
        }
        net.run(Span::from_secs(1_000));
        for n in 0..4 {
            let ends = |it: &&XtpEvent| matches!(it, XtpEvent::Closed(_) | XtpEvent::Failed(..));
            assert!(net.events[n].iter().filter(ends).count() <= 8);
            assert!(net.hosts[n].contexts() <= 64);
        }
    }
}
