//! Strangers and hostile peers: forged packets do no harm, memory is bounded, the rest is not affected.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use bytes::Bytes;
use layercast_core::{Machine, Off, Serial, Span, Stream};
use layercast_wire::{
    Payload, XtpAddress, XtpBody, XtpControl, XtpDiagCode, XtpDiagValue, XtpKey, XtpOptions,
    XtpPacket, XtpService, XtpTraffic, XtpTrafficSpec,
};
use layercast_xtp::{ContextId, XtpConfig, XtpDatagram, XtpEvent, XtpFailure};

use super::net::{Net, PORT, ms, number, socket, text};

fn stream() -> XtpConfig {
    XtpConfig::new(XtpService::STREAM)
}

fn open(net: &mut Net) -> (ContextId, ContextId) {
    let id = net.connect(&stream(), &stream());
    net.run(ms(200));
    (id, net.accept())
}

fn packet(key: XtpKey, body: XtpBody) -> XtpPacket {
    XtpPacket {
        key,
        options: XtpOptions::NONE,
        sort: 0,
        sync: Serial(0),
        seq: 0,
        body,
    }
}

fn first(data: Payload) -> XtpBody {
    XtpBody::First {
        address: XtpAddress::Ports {
            dst: PORT,
            src: 6_000,
        },
        traffic: XtpTraffic::Unspecified(XtpService::STREAM),
        data,
    }
}

/// Gives a packet to host 1 as if `from` had sent it; what it answers is not delivered.
fn give(net: &mut Net, from: SocketAddr, packet: XtpPacket) -> Vec<XtpPacket> {
    let datagram = XtpDatagram {
        src: from,
        dst: socket(1).net,
        packet,
    };
    let now = net.now;
    net.hosts[1].handle(now, datagram, &mut Off);
    let mut out = Vec::new();
    while let Some(datagram) = net.hosts[1].poll_transmit(now, &mut Off) {
        out.push(datagram.packet);
    }
    out
}

fn stranger(n: u32) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::from_bits(0xc0a8_0000 + n), 0).into()
}

/// The key by which the initiator is known to host 1, and where it is.
fn initiator(net: &Net) -> (XtpKey, SocketAddr) {
    (net.sent[0].1.key, socket(0).net)
}

#[test]
fn any_packet_at_any_time_is_taken_without_harm() {
    for seed in 0..30 {
        let mut random = Stream::new(seed, "hostile");
        let mut net = Net::losing(ms(5), &[]);
        let (near, far) = open(&mut net);
        net.send(0, near, &Payload::Zeros(30_000));
        net.send(1, far, &Payload::Zeros(30_000));
        let (key, from) = initiator(&net);
        for _ in 0..1_000 {
            let control = XtpControl {
                rseq: number(&mut random),
                alloc: number(&mut random),
                echo: Serial(number(&mut random) as u32),
            };
            let traffic = XtpTraffic::Spec(
                XtpService(random.below(8) as u8),
                XtpTrafficSpec {
                    max_data: number(&mut random) as u32,
                    in_rate: number(&mut random) as u32,
                    in_burst: number(&mut random) as u32,
                    out_rate: number(&mut random) as u32,
                    out_burst: number(&mut random) as u32,
                },
            );
            let data = Payload::Zeros(8 + random.below(3_000) as u32);
            let body = match random.below(8) {
                0..=2 => XtpBody::Data(data),
                3 => XtpBody::Cntl(control),
                4 => XtpBody::Ecntl {
                    control,
                    spans: (0..random.below(5))
                        .map(|_| (number(&mut random), number(&mut random)))
                        .collect(),
                },
                5 => XtpBody::Tcntl {
                    control,
                    xkey: XtpKey(number(&mut random)),
                    traffic,
                },
                6 => first(data),
                _ => XtpBody::Diag {
                    code: XtpDiagCode(random.below(9) as u32),
                    value: XtpDiagValue(0),
                    message: Bytes::new(),
                },
            };
            let mut packet = packet(key, body);
            packet.options = XtpOptions(random.below(1 << 24) as u32);
            if random.chance(0.95) {
                packet.options = packet.options.without(XtpOptions::END);
            }
            packet.seq = number(&mut random);
            packet.sync = Serial(number(&mut random) as u32);
            give(&mut net, from, packet);
            let info = net.hosts[1].info(far).unwrap();
            assert!(info.memory < 256 << 10, "{} bytes", info.memory);
            assert!(info.unread <= 64 << 10);
            if random.chance(0.1) {
                net.run(ms(random.below(50)));
            }
        }
        net.run(Span::from_secs(1_000));
        assert!(net.hosts[1].contexts() < 64);
    }
}

#[test]
fn claims_that_cannot_be_break_off_the_third_time() {
    let impossible: [fn(u64) -> XtpBody; 4] = [
        |sent| status(sent + 1, &[]),
        |sent| status(0, &[(0, sent)]),
        |sent| status(0, &[(20, 30), (25, sent)]),
        |sent| status(0, &[(20, sent + 1)]),
    ];
    for claim in impossible {
        let mut net = Net::losing(ms(5), &[]);
        let (_, far) = open(&mut net);
        net.channel = Box::new(|_, _| Vec::new());
        net.send(1, far, &Payload::Zeros(1_000));
        net.run(ms(1));
        let (key, from) = initiator(&net);
        for round in 0..3 {
            let sent = net.hosts[1].info(far).unwrap().counts.bytes_sent;
            assert_eq!((sent, net.failure(1)), (1_000, None), "{round}");
            let answers = give(&mut net, from, packet(key, claim(sent)));
            assert!(
                matches!(answers[0].body, XtpBody::Diag { .. }),
                "{answers:?}"
            );
        }
        net.drain();
        assert_eq!(net.failure(1), Some(XtpFailure::Violated));
        assert_eq!(net.hosts[1].stats().violations, 3);
    }
}

fn status(rseq: u64, spans: &[(u64, u64)]) -> XtpBody {
    let control = XtpControl {
        rseq,
        alloc: u64::MAX,
        echo: Serial(0),
    };
    XtpBody::Ecntl {
        control,
        spans: spans.to_vec(),
    }
}

#[test]
fn a_huge_allocation_is_only_a_number() {
    let mut net = Net::losing(ms(5), &[]);
    let (_, far) = open(&mut net);
    let (key, from) = initiator(&net);
    give(&mut net, from, packet(key, status(0, &[])));
    let data = Payload::Zeros(1 << 20);
    let how = layercast_xtp::SendOptions::MESSAGE;
    assert_eq!(net.hosts[1].send(far, &data, &how), Ok(64 << 10));
    assert_eq!(net.hosts[1].send(far, &data, &how), Ok(0));
}

#[test]
fn a_flood_of_first_stays_within_the_backlog_and_is_not_reflected() {
    let mut net = Net::losing(ms(5), &[]);
    net.hosts[1].listen(PORT, 8, stream()).unwrap();
    net.channel = Box::new(|_, _| Vec::new());
    let (mut received, mut sent) = (0, 0);
    for n in 0..2_000 {
        let first = packet(XtpKey(u64::from(n)), first(Payload::default()));
        received += first.encoded_len();
        // Half of them from one address.
        let answers = give(&mut net, stranger(if n % 2 == 0 { n } else { 1 }), first);
        sent += answers.iter().map(XtpPacket::encoded_len).sum::<usize>();
    }
    assert_eq!(net.hosts[1].contexts(), 8);
    let stats = net.hosts[1].stats();
    assert_eq!((stats.refused, stats.passive_opens), (1_992, 8));
    assert!(
        stats.muted_diags > 900 && sent < 3 * received,
        "{stats:?} {sent}"
    );
    // There is no answer: the contexts are given up, and the port serves again once they are accepted and
    // released.
    net.run(Span::from_secs(200));
    while let Some((id, _)) = net.hosts[1].accept(PORT) {
        let now = net.now;
        let _ = net.hosts[1].abort(now, id);
    }
    net.run(Span::from_secs(60));
    assert_eq!(net.hosts[1].contexts(), 0);
    net.channel = Box::new(|_, packet| vec![(ms(5), packet)]);
    let bytes: usize = net.sent.iter().map(|(_, it)| it.encoded_len()).sum();
    assert!(
        bytes <= 3 * 8 * 64,
        "{bytes} bytes to eight peers that never answered"
    );
    let id = net.hosts[0]
        .connect(net.now, socket(0), socket(1), &stream())
        .unwrap();
    net.send(0, id, &text(b"x"));
    net.run(ms(100));
    let far = net.accept();
    assert_eq!(net.read(1, far), b"x");
}

#[test]
fn who_has_not_proved_its_address_gets_three_times_what_it_sent() {
    let mut net = Net::losing(ms(5), &[]);
    net.hosts[1].listen(PORT, 8, stream()).unwrap();
    net.channel = Box::new(|_, _| Vec::new());
    let first = packet(XtpKey(5), first(Payload::Zeros(100)));
    let allowed = 3 * first.encoded_len();
    let mut sent: usize = give(&mut net, stranger(1), first)
        .iter()
        .map(XtpPacket::encoded_len)
        .sum();
    let far = net.accept();
    net.send(1, far, &Payload::Zeros(60_000));
    // An echo that was guessed proves nothing.
    let guess = XtpBody::Cntl(XtpControl {
        rseq: 0,
        alloc: 1 << 20,
        echo: Serial(1),
    });
    let guessed = packet(XtpKey(5), guess);
    let allowed = allowed + 3 * guessed.encoded_len();
    sent += give(&mut net, stranger(1), guessed)
        .iter()
        .map(XtpPacket::encoded_len)
        .sum::<usize>();
    net.run(Span::from_secs(300));
    sent += net
        .sent
        .iter()
        .map(|(_, it)| it.encoded_len())
        .sum::<usize>();
    assert!(sent <= allowed, "{sent} of {allowed}");
    assert_eq!(net.failure(1), Some(XtpFailure::TimedOut));
}

#[test]
fn a_listener_that_validates_hands_out_only_peers_that_receive() {
    let mut net = Net::losing(ms(5), &[]);
    let validating = XtpConfig {
        validate_peer: true,
        ..stream()
    };
    net.hosts[1].listen(PORT, 8, validating).unwrap();
    net.channel = Box::new(|_, _| Vec::new());
    // A whole conversation in the name of a victim, and many more beginnings than there are places.
    for n in 0..200 {
        let opening = packet(XtpKey(5), first(text(b"hello, send me media")));
        give(&mut net, stranger(n), opening);
        let mut data = packet(XtpKey(5), XtpBody::Data(text(b"join")));
        data.seq = 20;
        give(&mut net, stranger(n), data);
        assert_eq!(net.hosts[1].accept(PORT), None);
    }
    assert_eq!(
        (net.hosts[1].contexts(), net.hosts[1].stats().refused),
        (8, 0)
    );
    // One that receives gets a place, and is handed out as soon as it has shown that.
    net.channel = Box::new(|_, packet| vec![(ms(5), packet)]);
    let id = net.hosts[0]
        .connect(net.now, socket(0), socket(1), &stream())
        .unwrap();
    net.send(0, id, &text(b"x"));
    net.run(ms(100));
    let (far, remote) = net.hosts[1].accept(PORT).unwrap();
    assert_eq!(remote.net, socket(0).net);
    assert_eq!(net.read(1, far), b"x");
    // Those that never answer are given up and forgotten.
    net.run(Span::from_secs(200));
    assert_eq!(net.hosts[1].accept(PORT), None);
    assert_eq!(net.hosts[1].contexts(), 1);
}

#[test]
fn keys_are_not_guessed_and_strangers_are_told_little() {
    let mut net = Net::losing(ms(5), &[]);
    let (near, far) = open(&mut net);
    let (key, from) = initiator(&net);
    let mut random = Stream::new(1, "guess");
    let abandon = || XtpBody::Diag {
        code: XtpDiagCode::ABANDONED,
        value: XtpDiagValue(0),
        message: Bytes::new(),
    };
    let mut told = 0;
    for n in 0..5_000_u64 {
        // The place is easy to guess, the rest is not; and the right key from elsewhere is none.
        let guess = XtpKey((random.below(1 << 31) << 32) | (n % 4));
        told += give(
            &mut net,
            from,
            packet(guess.returned(), XtpBody::Data(text(b"x"))),
        )
        .len();
        give(&mut net, from, packet(guess, abandon()));
        give(&mut net, from, packet(guess.returned(), abandon()));
        give(&mut net, stranger(n as u32), packet(key, abandon()));
    }
    let stats = net.hosts[1].stats();
    assert_eq!(
        (told, stats.muted_diags, stats.stray_diags),
        (10, 4_990, 15_000)
    );
    net.send(0, near, &text(b"unharmed"));
    net.run(ms(100));
    assert_eq!(net.read(1, far), b"unharmed");
}

#[test]
fn bytes_that_are_no_packet_are_counted() {
    let mut net = Net::losing(ms(5), &[]);
    let now = net.now;
    let mut bytes = Vec::new();
    packet(XtpKey(1), XtpBody::Data(text(b"x"))).encode_into(&mut bytes);
    bytes[31] ^= 1;
    let ends = (stranger(1), socket(1).net);
    net.hosts[1].handle_bytes(now, ends, bytes.clone().into(), &mut Off);
    net.hosts[1].handle_bytes(now, ends, Bytes::from_static(b"short"), &mut Off);
    bytes[31] ^= 1;
    net.hosts[1].handle_bytes(now, ends, bytes.into(), &mut Off);
    let stats = net.hosts[1].stats();
    assert_eq!((stats.damaged, stats.malformed, stats.stray), (1, 1, 1));
    assert_eq!(net.hosts[1].poll_transmit(now, &mut Off), None);
}

#[test]
fn an_opening_that_is_not_understood_is_refused_with_the_reason() {
    let mut net = Net::losing(ms(5), &[]);
    net.hosts[1].listen(PORT, 8, stream()).unwrap();
    let ports = |dst| XtpAddress::Ports { dst, src: 1 };
    let plain = XtpTraffic::Unspecified(XtpService::STREAM);
    let other = |format| XtpAddress::Other {
        format,
        bytes: Bytes::from_static(b"???"),
    };
    let strange = |format| XtpTraffic::Other {
        service: XtpService::STREAM,
        format,
        bytes: Bytes::new(),
    };
    let tiny = XtpTrafficSpec {
        max_data: 1,
        ..XtpTrafficSpec::default()
    };
    let cases = [
        (ports(PORT + 1), plain.clone(), XtpDiagValue::NO_LISTENER),
        (
            XtpAddress::Null,
            plain.clone(),
            XtpDiagValue::ADDRESS_FORMAT,
        ),
        (other(77), plain.clone(), XtpDiagValue::ADDRESS_FORMAT),
        (other(1), plain, XtpDiagValue::ADDRESS),
        (ports(PORT), strange(9), XtpDiagValue::TRAFFIC_FORMAT),
        (ports(PORT), strange(1), XtpDiagValue::TRAFFIC),
        (
            ports(PORT),
            XtpTraffic::Spec(XtpService::STREAM, tiny),
            XtpDiagValue::TRAFFIC_REFUSED,
        ),
        (
            ports(PORT),
            XtpTraffic::Unspecified(XtpService(7)),
            XtpDiagValue::NO_PROVIDER,
        ),
    ];
    for (n, (address, traffic, why)) in (0..).zip(cases) {
        let data = Payload::default();
        let body = XtpBody::First {
            address,
            traffic,
            data,
        };
        let answers = give(&mut net, stranger(n), packet(XtpKey(5), body));
        let told = match &answers[..] {
            [
                XtpPacket {
                    key,
                    body: XtpBody::Diag { code, value, .. },
                    ..
                },
            ] => (*key, *code, *value),
            other => panic!("{other:?}"),
        };
        assert_eq!(told, (XtpKey(5).returned(), XtpDiagCode::REFUSED, why));
    }
    assert_eq!(net.hosts[1].contexts(), 0);
}

#[test]
fn who_has_not_proved_its_address_is_told_few_ranges() {
    let mut net = Net::losing(ms(5), &[]);
    net.channel = Box::new(|_, _| Vec::new());
    net.hosts[1].listen(PORT, 8, stream()).unwrap();
    let opening = packet(XtpKey(5), first(Payload::default()));
    let mut received = opening.encoded_len();
    let mut sent: usize = give(&mut net, stranger(1), opening)
        .iter()
        .map(XtpPacket::encoded_len)
        .sum();
    for n in 0..200 {
        let mut asks = packet(XtpKey(5), XtpBody::Data(text(b"x")));
        (asks.seq, asks.sync, asks.options) = (10 * n + 10, Serial(n as u32), XtpOptions::SREQ);
        received += asks.encoded_len();
        let answers = give(&mut net, stranger(1), asks);
        assert!(answers.iter().all(|it| it.encoded_len() <= 88));
        sent += answers.iter().map(XtpPacket::encoded_len).sum::<usize>();
        assert!(sent <= 3 * received, "{sent} for {received}");
    }
}

#[test]
fn what_changes_all_the_time_is_told_once() {
    let mut net = Net::losing(ms(5), &[]);
    net.channel = Box::new(|_, _| Vec::new());
    net.hosts[1].listen(PORT, 8, stream()).unwrap();
    give(
        &mut net,
        stranger(1),
        packet(XtpKey(5), first(Payload::default())),
    );
    for n in 0..1_000 {
        let spec = XtpTrafficSpec {
            in_rate: 1_000 + n,
            ..XtpTrafficSpec::default()
        };
        let body = XtpBody::Tcntl {
            control: XtpControl::default(),
            xkey: XtpKey(5),
            traffic: XtpTraffic::Spec(XtpService::STREAM, spec),
        };
        give(&mut net, stranger(1), packet(XtpKey(5), body));
    }
    let far = net.accept();
    net.drain();
    let told = |event: &XtpEvent| *event == XtpEvent::Traffic(far);
    assert_eq!(net.events[1].iter().filter(|event| told(event)).count(), 1);
    assert_eq!(net.hosts[1].traffic(far).map(|it| it.in_rate), Some(1_999));
}
