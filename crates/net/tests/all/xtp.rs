//! XTP between two UDP sockets, straight and through a path that loses.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use layercast_core::Span;
use layercast_link::{LinkConfig, Loss, PathConfig};
use layercast_net::{CancellationToken, Relay, RelayConfig, XtpNode};
use layercast_wire::{Payload, XtpDiagValue, XtpService};
use layercast_xtp::{SendOptions, XtpConfig, XtpEvent, XtpFailure};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::common::localhost;

const PORT: u16 = 7_000;
const LENGTH: usize = 3_000_000;

fn stream() -> XtpConfig {
    XtpConfig {
        window: 256 << 10,
        send_buffer: 256 << 10,
        fast_nak: true,
        ..XtpConfig::new(XtpService::STREAM)
    }
}

fn pattern() -> Bytes {
    (0..LENGTH)
        .map(|at| ((at * 31) >> 3) as u8)
        .collect::<Vec<_>>()
        .into()
}

/// Sends the pattern as one message and waits for the end.
async fn send(mut node: XtpNode, to: SocketAddr) -> XtpNode {
    let data = pattern();
    let id = node.connect(to, PORT, stream()).unwrap();
    let mut sent = 0;
    loop {
        while sent < LENGTH {
            let rest = Payload::Bytes(data.slice(sent..));
            let taken = node
                .endpoint()
                .send(id, &rest, &SendOptions::MESSAGE)
                .unwrap();
            sent += taken;
            if taken == 0 {
                break;
            }
        }
        if sent == LENGTH {
            node.endpoint().close_write(id).unwrap();
        }
        match node.event().await.unwrap() {
            XtpEvent::Closed(_) => return node,
            XtpEvent::Failed(_, why) => panic!("{why}"),
            _ => {}
        }
    }
}

/// Receives until the end.
async fn receive(mut node: XtpNode) -> Vec<u8> {
    let mut got = Vec::new();
    loop {
        match node.event().await.unwrap() {
            XtpEvent::Incoming(port) => {
                node.endpoint().accept(port).unwrap();
            }
            XtpEvent::Readable(id) => {
                while let Some(chunk) = node.endpoint().receive(id, usize::MAX).unwrap() {
                    chunk.data.append_to(&mut got);
                }
            }
            XtpEvent::PeerClosed(id) => node.endpoint().close_write(id).unwrap(),
            XtpEvent::Closed(_) => return got,
            XtpEvent::Failed(_, why) => panic!("{why}"),
            _ => {}
        }
    }
}

/// Both together, for a minute at most.
async fn transfer(near: XtpNode, far: XtpNode, to: SocketAddr) -> XtpNode {
    let both = async {
        let mut far = tokio::spawn(receive(far));
        let near = send(near, to).await;
        // END may have been lost: its sender answers for a while.
        let mut near = near;
        let got = loop {
            tokio::select! {
                got = &mut far => break got.unwrap(),
                event = near.event() => {
                    event.unwrap();
                }
            }
        };
        assert!(got == pattern(), "{} bytes", got.len());
        near
    };
    timeout(Duration::from_secs(60), both)
        .await
        .expect("in time")
}

async fn nodes() -> (XtpNode, XtpNode) {
    let near = XtpNode::udp(localhost()).unwrap();
    let mut far = XtpNode::udp(localhost()).unwrap();
    far.listen(PORT, 4, stream()).unwrap();
    (near, far)
}

#[tokio::test]
async fn a_stream_arrives_byte_for_byte() {
    let (near, far) = nodes().await;
    let to = far.local_addr();
    transfer(near, far, to).await;
}

#[tokio::test]
async fn a_stream_arrives_through_a_path_that_loses() {
    let (near, far) = nodes().await;
    let link = LinkConfig {
        delay: Span::from_ms(5),
        loss: Loss::Bernoulli { p: 0.02 },
        ..LinkConfig::default()
    };
    let path = PathConfig {
        link,
        ..PathConfig::default()
    };
    let config = RelayConfig {
        listen: localhost(),
        to: far.local_addr(),
        there: path.clone(),
        back: path,
        seed: 1,
        max_clients: 8,
        believe_clients: false,
        from_port: None,
    };
    let relay = Relay::bind(config).await.unwrap();
    let (to, stop) = (relay.local_addr(), CancellationToken::new());
    let (told, _) = mpsc::channel(1);
    let task = tokio::spawn(relay.run(stop.clone(), told));
    let near = transfer(near, far, to).await;
    assert!(near.stats().retransmitted > 10, "{:?}", near.stats());
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn nobody_listens_or_is_there() {
    let (mut near, far) = nodes().await;
    let to = far.local_addr();
    let task = tokio::spawn(receive(far));
    let id = near.connect(to, PORT + 1, stream()).unwrap();
    let refused = XtpEvent::Failed(id, XtpFailure::Refused(XtpDiagValue::NO_LISTENER));
    let event = timeout(Duration::from_secs(20), near.event()).await;
    assert_eq!(event.expect("in time").unwrap(), refused);
    task.abort();
    let _ = task.await;
    // The port is closed now: the system refuses, the machine continues until it gives up.
    let config = XtpConfig {
        first_wait: Span::from_ms(10),
        retries: 2,
        ..stream()
    };
    let id = near.connect(to, PORT, config).unwrap();
    let event = timeout(Duration::from_secs(20), near.event()).await;
    let silent = XtpEvent::Failed(id, XtpFailure::TimedOut);
    assert_eq!(event.expect("in time").unwrap(), silent);
}

/// XTP over IP itself, between two addresses of the loopback; needs the right to it.
#[tokio::test]
async fn a_stream_arrives_over_ip() {
    let node = |host: u8| XtpNode::raw(IpAddr::from([127, 0, 0, host]));
    let (near, mut far) = match (node(1), node(2)) {
        (Ok(near), Ok(far)) => (near, far),
        (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::PermissionDenied => {
            eprintln!("skipped: IP protocol 36 needs CAP_NET_RAW");
            return;
        }
        (near, far) => panic!("{:?} {:?}", near.err(), far.err()),
    };
    assert_eq!(near.config(XtpService::STREAM).max_data, 1_448);
    far.listen(PORT, 4, stream()).unwrap();
    let to = far.local_addr();
    transfer(near, far, to).await;
}
