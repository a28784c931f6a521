//! The answers to an address that may be forged: at most three times the octets that came from it (RFC 9000,
//! 8.1), on every socket that answers strangers (docs/src/explanation/security.md lists them).

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::neighbour::{identity, protected};
use crate::common::{LONG, localhost, server, start};
use bytes::{Bytes, BytesMut};
use layercast_core::{AMPLIFICATION_FACTOR, FlowId, Level, NodeId, Serial, Span};
use layercast_net::{
    Control, FecTunnel, FecTunnelConfig, PartialOrderReceiver, PartialOrderSender, SESSION_VERSION,
};
use layercast_partial_order::pdu::{Body, Pdu};
use layercast_partial_order::{Config, FlowConfig, Order, Policy, ReceiverOptions, Tolerance};
use layercast_wire::{
    Carriage, Member, Payload, Signal, XtpAddress, XtpBody, XtpKey, XtpOptions, XtpPacket,
    XtpService, XtpTraffic,
};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

const DATAGRAMS: Carriage = Carriage::Datagrams;
/// How long answers are waited for: longer than any first retransmission.
const QUIET: Duration = Duration::from_millis(1_500);

/// An address that never answers, as one that was forged does not.
struct Victim {
    socket: UdpSocket,
    sent: u64,
}

impl Victim {
    fn new() -> Victim {
        let socket = UdpSocket::bind(localhost()).unwrap();
        socket.set_nonblocking(true).unwrap();
        Victim { socket, sent: 0 }
    }

    fn port(&self) -> u16 {
        self.socket.local_addr().unwrap().port()
    }

    /// A datagram with the address of the victim.
    fn forge(&mut self, to: SocketAddr, datagram: &[u8]) {
        self.sent += self.socket.send_to(datagram, to).unwrap() as u64;
    }

    /// Octets that came to it.
    async fn received(&self) -> u64 {
        let socket = self.socket.try_clone().unwrap();
        let count = move || {
            let (until, mut all, mut buffer) = (Instant::now() + QUIET, 0, [0; 65_536]);
            while Instant::now() < until {
                match socket.recv(&mut buffer) {
                    Ok(octets) => all += octets as u64,
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
            all
        };
        spawn_blocking(count).await.unwrap()
    }
}

/// A datagram that begins as an Initial of QUIC does, of this version (RFC 9000, 17.2.2).
fn initial(version: u32, n: u8) -> Vec<u8> {
    let mut datagram = vec![0xC3];
    datagram.extend_from_slice(&version.to_be_bytes());
    datagram.extend_from_slice(&[
        8, n, 1, 2, 3, 4, 5, 6, 7, 8, n, 9, 9, 9, 9, 9, 9, 9, 0, 0x44, 0x90,
    ]);
    datagram.resize(1_200, n);
    datagram
}

#[tokio::test]
async fn a_protected_node_does_not_amplify() {
    let node = start(protected(server(DATAGRAMS, 30), &identity())).await;
    let mut victim = Victim::new();
    for n in 0..100 {
        victim.forge(node.addr, &initial(1, n));
        victim.forge(node.addr, &initial(0xBABA_BABA, n));
        // A short header of a connection that does not exist.
        victim.forge(node.addr, &[0x40 | (n % 64); 60]);
        victim.forge(node.media, &[0xD0; 60]);
    }
    let received = victim.received().await;
    assert!(received > 0, "the port answers at all");
    assert!(
        received <= AMPLIFICATION_FACTOR * victim.sent,
        "{received} for {}",
        victim.sent
    );
    // Both kinds of answer, Retry and Version Negotiation, are shorter than what they answer.
    assert!(
        received <= victim.sent / 4,
        "{received} for {}",
        victim.sent
    );
    node.stop().await;
}

#[tokio::test]
async fn a_partial_order_receiver_does_not_amplify_and_keeps_no_state_of_forged_addresses() {
    let receiver = PartialOrderReceiver::bind(localhost(), ReceiverOptions::default()).await;
    let receiver = receiver.unwrap();
    let flows = vec![FlowConfig::new(Span::from_ms(10), Tolerance::Full); 2];
    let order = Order::blocks(&[2, 1]).unwrap();
    let config = Config::new(7, flows, order, Policy::PerGroup);
    let encoded = |token: u64, connection: u32| {
        let mut bytes = BytesMut::new();
        let body = Body::Open {
            token,
            config: config.to_bytes(),
        };
        let pdu = Pdu {
            flow: 0,
            connection,
            stamp: 0,
            body,
        };
        pdu.encode(&mut bytes);
        bytes.freeze()
    };
    let mut victim = Victim::new();
    for n in 0..100 {
        // An OPEN without a token, one with a token that was guessed, and a DATA PDU.
        victim.forge(receiver.local_addr(), &encoded(0, n));
        victim.forge(receiver.local_addr(), &encoded(u64::from(n) + 1, n));
        let data = [0x11, 1, 0, 0, 0, 0, 0, n as u8, 0, 0, 0, 1, 0, 0, 0, 0];
        victim.forge(receiver.local_addr(), &data);
    }
    let received = victim.received().await;
    assert!(
        received > 0 && received <= victim.sent,
        "{received} for {}",
        victim.sent
    );
    // The place is free for a sender at its own address.
    let sender = PartialOrderSender::connect(receiver.local_addr(), config);
    let sender = timeout(LONG, sender).await.unwrap().unwrap();
    sender.send(0, "picture").await.unwrap();
    sender.close().await.unwrap();
}

fn packet(body: XtpBody, seq: u64) -> Vec<u8> {
    let packet = XtpPacket {
        key: XtpKey(5),
        options: XtpOptions::SREQ,
        sort: 0,
        sync: Serial(1),
        seq,
        body,
    };
    let mut datagram = Vec::new();
    packet.encode_into(&mut datagram);
    datagram
}

#[tokio::test]
async fn a_node_over_xtp_does_not_send_media_to_a_forged_address() {
    let mut config = server(DATAGRAMS, 30);
    config.control = Control::Xtp;
    let node = start(config).await;
    let (mut victim, media) = (Victim::new(), Victim::new());
    let hello = Signal::Hello {
        node: "victim".into(),
        id: NodeId(5),
        version: SESSION_VERSION,
        udp_port: media.port(),
        carriage: DATAGRAMS,
        clock: "none".into(),
        link_key: None,
        repair: None,
        group: None,
        group_repair: None,
        prompt: false,
        clocks: false,
        pings: false,
    };
    let join = Signal::Join {
        flow: FlowId(1),
        epoch: layercast_wire::Epoch::default(),
        member: Member {
            name: "victim".into(),
            id: NodeId(5),
        },
        level: Level::FULL,
        proof: None,
        again: false,
        answer: None,
    };
    let mut said = Vec::new();
    for signal in [hello, join, Signal::ListFlows, Signal::ListFlows] {
        said.extend_from_slice(&signal.to_line().unwrap());
    }
    let said = Payload::from(Bytes::from(said));
    let len = said.len() as u64;
    let address = XtpAddress::Ports {
        dst: 7_400,
        src: 6_000,
    };
    let first = XtpBody::First {
        address,
        traffic: XtpTraffic::Unspecified(XtpService::STREAM),
        data: said.clone(),
    };
    victim.forge(node.addr, &packet(first, 0));
    for n in 1..20 {
        let data = packet(XtpBody::Data(said.clone()), n * len);
        victim.forge(node.addr, &data);
    }
    let (received, of_media) = tokio::join!(victim.received(), media.received());
    assert_eq!(
        of_media, 0,
        "no datagram is sent to an address without an answer"
    );
    assert!(received > 0, "the port answers at all");
    assert!(
        received <= AMPLIFICATION_FACTOR * victim.sent,
        "{received} for {}",
        victim.sent
    );
    assert_eq!(node.stop().await.udp.sent, 0);
}

#[tokio::test]
async fn the_media_port_of_a_node_in_the_clear_is_silent_for_strangers() {
    let node = start(server(DATAGRAMS, 30)).await;
    let mut victim = Victim::new();
    for n in 0..100 {
        victim.forge(node.media, &[n; 100]);
    }
    assert_eq!(victim.received().await, 0);
    assert!(node.stop().await.udp.unknown >= 100);
}

#[tokio::test]
async fn an_end_of_a_tunnel_is_silent_for_strangers() {
    let peer = UdpSocket::bind(localhost()).unwrap();
    let tunnel = FecTunnel::bind(&FecTunnelConfig {
        listen: localhost(),
        peer: peer.local_addr().unwrap(),
        inside: localhost(),
        out: None,
        edge: layercast_fec::FecEdgeConfig {
            scheme: layercast_fec::Scheme::XorShift,
            code: Some((6, 2)),
            mtu: 1_472,
            interleave: 1,
            flush: layercast_core::Span::from_ms(20),
            order: layercast_core::Span::from_ms(100),
            session: 1,
        },
    });
    let tunnel = tunnel.unwrap();
    let (at, stop) = (tunnel.local_addr(), layercast_net::CancellationToken::new());
    let running = tokio::spawn(tunnel.run(stop.clone(), |_| {}));
    let mut victim = Victim::new();
    for n in 0..100 {
        victim.forge(at, &[n; 100]);
    }
    assert_eq!(victim.received().await, 0);
    stop.cancel();
    let stats = tokio::time::timeout(LONG, running)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(stats.strangers, 100);
}
