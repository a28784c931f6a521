//! Writes the seeds of the fuzz corpus of a receiver of files: the first packets of a sender, and copies with one
//! fault each.
//!
//! `cargo run -p layercast-multicast --example receive_corpus -- fuzz/corpus`

use std::io;

use bytes::Bytes;
use layercast_core::{Off, Rate, Span, Time};
use layercast_fec::Scheme;
use layercast_multicast::{ConfigError, Members, Memory, Peer, Sender, SenderConfig, Weak};
use layercast_wire::multicast::{Accept, Body, MemberId, Packet, PathBody, PathCheck};

#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

/// Approximate size of a seed in octets.
const LONGEST: usize = 8_192;

fn main() -> io::Result<()> {
    let coded = SenderConfig {
        block: 8,
        ..SenderConfig::layercast(Rate::from_bps(8_000_000))
    };
    let ranges = SenderConfig {
        weak: Weak::Keep,
        ..SenderConfig::rmtp()
    };
    let code = Some(Scheme::ReedSolomon);
    let mut all = Vec::new();
    for (name, config, scheme, octets) in [
        ("coded", &coded, code, 5_000),
        ("ranges", &ranges, None, 5_000),
        ("empty", &coded, code, 0),
        ("large", &coded, code, 2_000_000),
    ] {
        let said = session(config.clone(), scheme, octets).map_err(io::Error::other)?;
        all.push((name, said));
    }
    let mut path = Vec::new();
    for body in [
        PathBody::Challenge(1),
        PathBody::Response(2),
        PathBody::OtherKey,
    ] {
        let mut octets = Vec::new();
        PathCheck { session: 7, body }.encode_into(&mut octets);
        put(&mut path, &octets);
    }
    put(&mut path, &[&[0xE1, 1][..], &[7; 50]].concat());
    all.push(("path", path));
    seeds::write("receive", all)
}

/// The packets of a sender within half a second, to a receiver that only answers the announcement.
fn session(
    config: SenderConfig,
    scheme: Option<Scheme>,
    octets: usize,
) -> Result<Vec<u8>, ConfigError> {
    let source = Memory::new("x", Bytes::from(vec![5; octets]), scheme);
    let members = Members::Anyone {
        expect: Some(1),
        most: 9,
        late: true,
    };
    let mut sender = Sender::object(7, config, members, source)?;
    let mut now = Time::ZERO + Span::from_secs(1);
    sender.start(now);
    let accept = Packet {
        session: 7,
        body: Body::Accept(Accept::alone(MemberId(1))),
    };
    let mut all = Vec::new();
    for step in 0..500 {
        now += Span::from_ms(1);
        sender.on_timeout(now, &mut Off);
        while let Some(transmit) = sender.poll_transmit(now, &mut Off) {
            let mut octets = Vec::new();
            transmit.packet.encode_into(&mut octets);
            if all.len() < LONGEST {
                put(&mut all, &octets);
            }
        }
        if step == 0 {
            sender.handle(now, Peer(0), &accept, &mut Off);
        }
    }
    Ok(all)
}

/// Appends a datagram after its length.
fn put(all: &mut Vec<u8>, datagram: &[u8]) {
    all.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
    all.extend_from_slice(datagram);
}
