//! Strangers: forged segments do no harm.

use core::net::SocketAddrV4;

use layercast_core::{Machine, Off, Serial, Span, Stream};
use layercast_tcp::{Ecn, Failure, Profile, State, TcpEvent, TcpPacket};
use layercast_wire::{Payload, TcpFlags, TcpOptions, TcpSegment, Timestamps};

use super::net::{Net, PORT, address, ms};

fn segment(from: SocketAddrV4, to: SocketAddrV4, flags: TcpFlags, seq: u32, ack: u32) -> TcpPacket {
    TcpPacket {
        src: *from.ip(),
        dst: *to.ip(),
        ecn: Ecn::NotCapable,
        segment: TcpSegment {
            src_port: from.port(),
            dst_port: to.port(),
            seq: Serial(seq),
            ack: Serial(ack),
            flags,
            window: 1_000,
            urgent: 0,
            options: TcpOptions::default(),
            payload: Payload::default(),
        },
    }
}

#[test]
fn any_segment_at_any_time_is_taken_without_harm() {
    for seed in 0..40 {
        let mut random = Stream::new(seed, "hostile");
        let mut net = Net::plain(Profile::Modern, ms(5));
        let (near, far) = net.open();
        net.write(0, near, Payload::Zeros(30_000));
        let info = net.hosts[1].info(far).unwrap();
        for round in 0..2_000 {
            let mut packet = segment(
                info.remote,
                info.local,
                TcpFlags(random.below(256) as u8),
                0,
                0,
            );
            // Often near what is expected, sometimes anywhere.
            let near_to = |random: &mut Stream, base: u32| match random.below(4) {
                0 => random.below(1 << 32) as u32,
                _ => base
                    .wrapping_add(random.below(70_000) as u32)
                    .wrapping_sub(2_000),
            };
            let last = net.log.len() as u32;
            packet.segment.seq = Serial(near_to(&mut random, last.wrapping_mul(977)));
            packet.segment.ack = Serial(near_to(&mut random, last.wrapping_mul(331)));
            packet.segment.window = random.below(1 << 16) as u16;
            packet.segment.payload = Payload::Zeros(random.below(3_000) as u32);
            if random.chance(0.7) {
                packet.segment.options.timestamps = Some(Timestamps {
                    value: random.below(1 << 32) as u32,
                    echo: random.below(1 << 32) as u32,
                });
            }
            for _ in 0..random.below(5) {
                let (a, b) = (random.below(1 << 32) as u32, random.below(1 << 32) as u32);
                packet.segment.options.sack.push(Serial(a), Serial(b));
            }
            let host = (round % 2) as usize;
            if host == 0 {
                (packet.src, packet.dst) = (packet.dst, packet.src);
                let ports = (packet.segment.dst_port, packet.segment.src_port);
                (packet.segment.src_port, packet.segment.dst_port) = ports;
            }
            let now = net.now;
            net.hosts[host].handle(now, packet, &mut Off);
            net.drain();
            if random.chance(0.1) {
                net.run(ms(random.below(50)));
            }
            assert!(net.hosts[host].connections() < 1_000);
        }
        net.run(Span::from_secs(1));
    }
}

#[test]
fn a_reset_must_be_exact() {
    let mut net = Net::plain(Profile::Modern, ms(5));
    let (near, far) = net.open();
    net.write(0, near, Payload::Zeros(100));
    net.run(Span::from_secs(1));
    let info = net.hosts[1].info(far).unwrap();
    let expected = {
        // What B acknowledged last is what it expects next.
        let now = net.now;
        let probe = segment(info.remote, info.local, TcpFlags::SYN, 1, 0);
        net.hosts[1].handle(now, probe, &mut Off);
        let challenge = net.hosts[1]
            .poll_transmit(now, &mut Off)
            .expect("a challenge");
        assert_eq!(challenge.segment.flags, TcpFlags::ACK);
        challenge.segment.ack.0
    };
    for off in [1, 1_000, u32::MAX, 1 << 31] {
        let seq = expected.wrapping_add(off);
        let now = net.now;
        net.hosts[1].handle(
            now,
            segment(info.remote, info.local, TcpFlags::RST, seq, 0),
            &mut Off,
        );
        net.drain();
        assert_eq!(net.hosts[1].info(far).unwrap().state, State::Established);
    }
    let now = net.now;
    let exact = segment(info.remote, info.local, TcpFlags::RST, expected, 0);
    net.hosts[1].handle(now, exact, &mut Off);
    net.drain();
    assert_eq!(net.failure(1), Some(Failure::Reset));
    assert_eq!(net.hosts[1].connections(), 0);
}

#[test]
fn a_flood_of_syns_stays_within_the_backlog() {
    let mut net = Net::plain(Profile::Modern, ms(5));
    net.hosts[1].listen(PORT, 8).unwrap();
    for port in 1..=2_000 {
        let syn = segment(address(0, port), address(1, PORT), TcpFlags::SYN, 5, 0);
        let now = net.now;
        net.hosts[1].handle(now, syn, &mut Off);
    }
    assert_eq!(net.hosts[1].connections(), 8);
    assert_eq!(net.hosts[1].stats().refused_syns, 1_992);
    // They are given up in the end, and the port serves again. Host 0 resets them already.
    net.run(Span::from_secs(200));
    assert_eq!(net.hosts[1].connections(), 0);
    let near = net.connect();
    net.run(Span::from_secs(1));
    assert!(net.was_told(0, TcpEvent::Connected(near)));
}

#[test]
fn what_belongs_to_nothing_is_reset_but_resets_are_not() {
    let mut net = Net::plain(Profile::Modern, ms(5));
    let (from, to) = (address(0, 9), address(1, 9));
    let now = net.now;
    net.hosts[1].handle(now, segment(from, to, TcpFlags::SYN, 41, 0), &mut Off);
    let reset = net.hosts[1].poll_transmit(now, &mut Off).unwrap().segment;
    assert_eq!(reset.flags, TcpFlags::RST | TcpFlags::ACK);
    assert_eq!((reset.seq, reset.ack), (Serial(0), Serial(42)));
    net.hosts[1].handle(now, segment(from, to, TcpFlags::ACK, 41, 77), &mut Off);
    let reset = net.hosts[1].poll_transmit(now, &mut Off).unwrap().segment;
    assert_eq!((reset.flags, reset.seq), (TcpFlags::RST, Serial(77)));
    net.hosts[1].handle(now, segment(from, to, TcpFlags::RST, 41, 77), &mut Off);
    assert_eq!(net.hosts[1].poll_transmit(now, &mut Off), None);
}

#[test]
fn an_idle_connection_takes_less_than_2_kib() {
    let mut net = Net::plain(Profile::Modern, ms(5));
    let (near, far) = net.open();
    for _ in 0..40 {
        net.write(0, near, Payload::Zeros(100_000));
        net.run(Span::from_secs(2));
        net.read(1, far);
        net.run(ms(100));
    }
    for (host, id) in [(0, near), (1, far)] {
        let memory = net.hosts[host].info(id).unwrap().memory;
        println!("host {host}: {memory} bytes");
        // A slot and three entries of trees come on top: less than 200 bytes.
        assert!(memory <= 1_800, "{memory} bytes");
    }
}
