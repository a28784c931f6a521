//! Writes the seeds of the fuzz corpus for FEC tunnels: the datagrams of a peer, and copies with one fault each.
//!
//! `cargo run -p layercast-fec --example edge_corpus -- fuzz/corpus`

use bytes::Bytes;
use layercast_core::{Span, Time};
use layercast_fec::{FecEdge, FecEdgeConfig, Scheme};

#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

fn main() -> std::io::Result<()> {
    let names = ["xor-shift", "reed-solomon", "raptorq"];
    seeds::write("edge", names.into_iter().zip(Scheme::ALL.map(conversation)))
}

/// The datagrams of an edge in two seconds, to an edge of session 7 that sends as well; every third datagram is lost.
fn conversation(scheme: Scheme) -> Vec<u8> {
    let config = |session| FecEdgeConfig {
        scheme,
        code: Some((4, 2)),
        mtu: 1_472,
        interleave: 1,
        flush: Span::from_ms(20),
        order: Span::from_ms(100),
        session,
    };
    let [mut edge, mut peer] =
        [9, 7].map(|session| FecEdge::new(config(session)).expect("a configuration"));
    let (mut all, mut out, mut sent) = (Vec::new(), Vec::new(), 0_u32);
    for step in 0..20_u8 {
        let now = Time::ZERO + Span::from_ms(u64::from(step) * 100);
        let mut wait = 100;
        for it in [&mut edge, &mut peer] {
            it.on_timeout(now);
            it.send(now, &vec![step; usize::from(step) * 3]);
        }
        while peer.poll_transmit(&mut out) {
            edge.receive(now, &Bytes::copy_from_slice(&out));
        }
        while edge.poll_packet().is_some() {}
        while edge.poll_transmit(&mut out) {
            sent += 1;
            if !sent.is_multiple_of(3) {
                all.push(wait);
                all.extend_from_slice(&(out.len() as u16).to_be_bytes());
                all.extend_from_slice(&out);
                wait = 0;
            }
        }
    }
    all
}
