//! SMPTE 2022-1: whatever comes to the three ports, the receiver stays well, and without damage each packet comes out once.

use layercast_core::{Span, Time};
use layercast_fec::{SmpteConfig, SmpteReceiver, SmpteReceiverConfig, SmpteSender, SmpteStream};

/// Octets of the input in front of a datagram: its port and pause, and its length.
const HEAD: usize = 2;

/// Octets as datagrams on the three ports, and as losses of a stream.
pub fn smpte(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    datagrams(rest, first & 1 != 0);
    losses(rest, first);
}

fn datagrams(mut data: &[u8], steady: bool) {
    let config = SmpteReceiverConfig {
        steady,
        ..SmpteReceiverConfig::default()
    };
    let mut receiver = SmpteReceiver::new(config);
    let mut now = Time::ZERO;
    let mut came = 0;
    while let Some((&[what, len], rest)) = data.split_first_chunk::<HEAD>() {
        let (datagram, rest) = rest.split_at(usize::from(len).min(rest.len()));
        data = rest;
        now += Span::from_ms(u64::from(what >> 2));
        match what & 3 {
            0 | 1 => {
                receiver.on_media(now, datagram);
            }
            _ => {
                let _ = receiver.on_parity(now, datagram);
            }
        }
        while let Some(packet) = receiver.poll(now) {
            assert!(packet.len() >= 12);
            came += 1;
        }
        assert!(receiver.next_timeout().is_none_or(|due| due > now));
    }
    receiver.finish();
    while receiver.poll(now).is_some() {
        came += 1;
    }
    let stats = receiver.stats();
    assert!(came <= stats.packets + stats.recovered);
}

fn losses(data: &[u8], first: u8) {
    let config = SmpteConfig {
        columns: 1 + first % 8,
        rows: 4 + first / 64,
        with_rows: first % 8 >= 3,
    };
    let mut sender = SmpteSender::new(config, first.into()).expect("a block");
    let mut receiver = SmpteReceiver::new(SmpteReceiverConfig::default());
    let mut sent = Vec::new();
    let mut out = Vec::new();
    for (number, &octet) in (0_u16..).zip(data) {
        let seq = number.wrapping_add(u16::from(first) << 8);
        let mut packet = vec![0x80, 96];
        packet.extend_from_slice(&seq.to_be_bytes());
        packet.extend_from_slice(&[0, 0, octet, 1, 0, 0, 0, 9]);
        packet.resize(12 + usize::from(octet >> 3), octet);
        sender.push(&packet);
        let is_lost = octet & 7 == 0;
        if !is_lost && !receiver.on_media(Time::ZERO, &packet) {
            out.push(packet.clone());
        }
        sent.push(packet);
        while let Some(parity) = sender.poll() {
            let is_lost = octet & 7 == 1 && parity.stream == SmpteStream::Rows;
            if !is_lost {
                let taken = receiver.on_parity(Time::ZERO, &parity.octets);
                taken.expect("a parity packet");
            }
        }
        while let Some(packet) = receiver.poll(Time::ZERO) {
            out.push(packet.to_vec());
        }
    }
    receiver.finish();
    while let Some(packet) = receiver.poll(Time::ZERO) {
        out.push(packet.to_vec());
    }
    let mut rest = sent.iter();
    assert!(out.iter().all(|packet| rest.any(|it| it == packet)));
}
