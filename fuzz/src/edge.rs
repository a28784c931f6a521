//! A tunnel of parities: whatever comes in the peer's name, an edge stays well, and a peer gets what it sends.

use bytes::Bytes;
use layercast_core::{Span, Time};
use layercast_fec::{FecEdge, FecEdgeConfig, Scheme};

const CONFIG: FecEdgeConfig = FecEdgeConfig {
    scheme: Scheme::XorShift,
    code: None,
    mtu: 1_472,
    interleave: 1,
    flush: Span::from_ms(20),
    order: Span::from_ms(100),
    session: 7,
};

/// Datagrams, each behind the milliseconds since the one before and its length (two octets).
pub fn edge(data: &[u8]) {
    let edges = || FecEdge::new(CONFIG).expect("a configuration");
    let (mut edge, mut peer) = (edges(), edges());
    let (mut now, mut out) = (Time::ZERO, Vec::new());
    let mut rest = Bytes::copy_from_slice(data);
    while rest.len() >= 3 {
        let head = rest.split_to(3);
        let len = usize::from(u16::from_be_bytes([head[1], head[2]]));
        let datagram = rest.split_to(len.min(rest.len()));
        now += Span::from_ms(head[0].into());
        edge.set_bypass(head[0] == 0xff);
        edge.on_timeout(now);
        edge.receive(now, &datagram);
        edge.send(now, &datagram);
        while edge.poll_packet().is_some() {}
        while edge.poll_transmit(&mut out) {
            assert!(out.len() <= CONFIG.mtu);
            peer.receive(now, &Bytes::copy_from_slice(&out));
        }
        while peer.poll_packet().is_some() {}
    }
    let sent = edge.stats().sent;
    // Nothing was lost on the way.
    assert_eq!(
        peer.stats().received.packets,
        sent.packets + sent.unprotected
    );
}
