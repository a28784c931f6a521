//! XTP as many tasks of one process use it: with a socket of its own, and by a daemon.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use layercast_net::{XtpAssociation, XtpCallError, XtpHost, XtpNode};
use layercast_wire::{Payload, XtpDiagValue, XtpService};
use layercast_xtp::remote::ServerLimits;
use layercast_xtp::{SendOptions, XtpError, XtpFailure};
use tokio::time::timeout;

use crate::common::localhost;
use crate::common::xtpd::{Serving, in_time};

const PORT: u16 = 7_000;

/// Two hosts, and what serves them.
struct Hosts {
    near: XtpHost,
    far: XtpHost,
    _daemons: Vec<Serving>,
}

impl Hosts {
    fn with_sockets() -> Hosts {
        let host = || XtpHost::new(XtpNode::udp(localhost()).unwrap());
        Hosts {
            near: host(),
            far: host(),
            _daemons: Vec::new(),
        }
    }

    async fn by_daemons() -> Hosts {
        let daemon = || Serving::start(ServerLimits::default());
        let (near, far) = (daemon(), daemon());
        Hosts {
            near: near.host().await,
            far: far.host().await,
            _daemons: vec![near, far],
        }
    }

    /// The same over IP itself; `None` without the right to it. Each socket of a protocol gets a copy of the
    /// packets to an address, so every test has addresses of its own.
    async fn by_daemons_over_ip(addresses: [u8; 2]) -> Option<Hosts> {
        let nodes = addresses.map(|host| XtpNode::raw(IpAddr::from([127, 0, 0, host])));
        let (near, far) = match nodes.into() {
            (Ok(near), Ok(far)) => (near, far),
            (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::PermissionDenied => {
                eprintln!("skipped: IP protocol 36 needs CAP_NET_RAW");
                return None;
            }
            (near, far) => panic!("{:?} {:?}", near.err(), far.err()),
        };
        let daemon = |node| Serving::with(node, ServerLimits::default());
        let (near, far) = (daemon(near), daemon(far));
        Some(Hosts {
            near: near.host().await,
            far: far.host().await,
            _daemons: vec![near, far],
        })
    }

    /// Both ends by the same daemon, whose clients reach each other like strangers.
    async fn by_one_daemon() -> Hosts {
        let daemon = Serving::start(ServerLimits::default());
        Hosts {
            near: daemon.host().await,
            far: daemon.host().await,
            _daemons: vec![daemon],
        }
    }
}

/// The next message, whole.
async fn message(of: &XtpAssociation) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    while let Some(chunk) = of.receive(usize::MAX).await.unwrap() {
        chunk.data.append_to(&mut whole);
        if chunk.end_of_message {
            return Some(whole);
        }
    }
    assert!(whole.is_empty(), "a message without an end");
    None
}

/// Everything that comes goes back, message by message.
async fn echo(of: XtpAssociation) {
    while let Some(message) = message(&of).await {
        of.send(Bytes::from(message), &SendOptions::MESSAGE)
            .await
            .unwrap();
    }
    of.close_write().unwrap();
    of.close().await.unwrap();
}

async fn many_associations(hosts: Hosts) {
    let Hosts { near, far, .. } = &hosts;
    let listener = far
        .register(XtpService::STREAM)
        .bind(PORT)
        .listen(64)
        .await
        .unwrap();
    let echoes = tokio::spawn(async move {
        for _ in 0..20 {
            tokio::spawn(echo(listener.accept().await.unwrap()));
        }
        listener
    });
    let to = far.local_addr();
    let users = (0..20_u8).map(|user| {
        let near = near.clone();
        tokio::spawn(async move {
            let it = near
                .register(XtpService::STREAM)
                .configure(|config| config.window = 16 << 10)
                .connect(to, PORT)
                .unwrap();
            for round in 1..20 {
                // Longer than the window, too.
                let text = Bytes::from(vec![user; 3_000 * round]);
                let sent = it.send(text.clone(), &SendOptions::MESSAGE);
                let (sent, back) = tokio::join!(sent, message(&it));
                sent.unwrap();
                assert!(back.unwrap() == text);
            }
            it.settled().await.unwrap();
            assert_eq!(it.info().await.unwrap().flight, 0);
            it.close_write().unwrap();
            assert_eq!(message(&it).await, None);
            it.close().await.unwrap();
        })
    });
    in_time(async {
        for user in users.collect::<Vec<_>>() {
            user.await.unwrap();
        }
        echoes.await.unwrap();
    })
    .await;
}

async fn datagram_and_delivery(hosts: Hosts) {
    let Hosts { near, far, .. } = &hosts;
    let listener = far
        .register(XtpService::STREAM)
        .bind(PORT)
        .listen(4)
        .await
        .unwrap();
    let it = near
        .register(XtpService::DATAGRAM)
        .connect(far.local_addr(), PORT)
        .unwrap();
    it.send(Bytes::from_static(b"one"), &SendOptions::MESSAGE)
        .await
        .unwrap();
    it.close_write().unwrap();
    let there = in_time(listener.accept()).await.unwrap();
    assert_eq!(in_time(message(&there)).await.unwrap(), b"one");
    drop(it);

    let it = near
        .register(XtpService::STREAM)
        .connect(far.local_addr(), PORT)
        .unwrap();
    let how = SendOptions {
        tell_delivery: true,
        tag: Some(*b"FRAME001"),
        ..SendOptions::MESSAGE
    };
    it.send(Bytes::from_static(b"taken?"), &how).await.unwrap();
    let there = in_time(listener.accept()).await.unwrap();
    let not_yet = timeout(Duration::from_millis(100), it.delivered(14)).await;
    assert!(not_yet.is_err(), "no process has taken it");
    let chunk = in_time(there.receive(99)).await.unwrap().unwrap();
    assert_eq!(chunk.tag, Some(*b"FRAME001"));
    in_time(it.delivered(14)).await.unwrap();
}

async fn hears_of_the_end(hosts: Hosts) {
    let Hosts { near, far, .. } = &hosts;
    let refused = near
        .register(XtpService::STREAM)
        .connect(far.local_addr(), PORT)
        .unwrap();
    let why = in_time(refused.connected()).await.unwrap_err();
    let expected = XtpFailure::Refused(XtpDiagValue::NO_LISTENER);
    assert!(
        matches!(why, XtpCallError::Failed(it) if it == expected),
        "{why}"
    );

    let listener = far
        .register(XtpService::STREAM)
        .bind(PORT)
        .listen(4)
        .await
        .unwrap();
    let again = far.register(XtpService::STREAM).bind(PORT).listen(4).await;
    assert!(matches!(
        again.err(),
        Some(XtpCallError::Refused(XtpError::PortInUse(PORT)))
    ));
    let it = near
        .register(XtpService::STREAM)
        .connect(far.local_addr(), PORT)
        .unwrap();
    in_time(it.connected()).await.unwrap();
    let there = in_time(listener.accept()).await.unwrap();
    let waits = tokio::spawn(async move { there.receive(1).await });
    tokio::task::yield_now().await;
    it.abort();
    let why = in_time(waits).await.unwrap().unwrap_err();
    assert!(
        matches!(
            why,
            XtpCallError::Failed(XtpFailure::Abandoned | XtpFailure::Diagnosed(..))
        ),
        "{why}"
    );

    // Connections not yet accepted end with the listener.
    let it = near
        .register(XtpService::STREAM)
        .connect(far.local_addr(), PORT)
        .unwrap();
    in_time(it.connected()).await.unwrap();
    drop(listener);
    assert!(in_time(it.receive(1)).await.is_err());
    let empty = it.send(Payload::default(), &SendOptions::MESSAGE).await;
    assert!(empty.is_err());
}

#[tokio::test]
async fn many_associations_of_one_socket_at_once() {
    many_associations(Hosts::with_sockets()).await;
}

#[tokio::test]
async fn many_associations_of_one_socket_at_once_by_daemons() {
    many_associations(Hosts::by_daemons().await).await;
}

#[tokio::test]
async fn many_associations_of_one_socket_at_once_by_one_daemon() {
    many_associations(Hosts::by_one_daemon().await).await;
}

#[tokio::test]
async fn many_associations_of_one_socket_at_once_by_daemons_over_ip() {
    if let Some(hosts) = Hosts::by_daemons_over_ip([3, 4]).await {
        assert_eq!(hosts.far.local_addr().to_string(), "127.0.0.4:0");
        many_associations(hosts).await;
    }
}

#[tokio::test]
async fn a_datagram_is_one_packet_and_a_delivery_is_told_by_daemons_over_ip() {
    if let Some(hosts) = Hosts::by_daemons_over_ip([5, 6]).await {
        datagram_and_delivery(hosts).await;
    }
}

#[tokio::test]
async fn a_datagram_is_one_packet_and_a_delivery_is_told() {
    datagram_and_delivery(Hosts::with_sockets()).await;
}

#[tokio::test]
async fn a_datagram_is_one_packet_and_a_delivery_is_told_by_daemons() {
    datagram_and_delivery(Hosts::by_daemons().await).await;
}

#[tokio::test]
async fn a_datagram_is_one_packet_and_a_delivery_is_told_by_one_daemon() {
    datagram_and_delivery(Hosts::by_one_daemon().await).await;
}

#[tokio::test]
async fn whoever_waits_hears_of_the_end() {
    hears_of_the_end(Hosts::with_sockets()).await;
}

#[tokio::test]
async fn whoever_waits_hears_of_the_end_by_daemons() {
    hears_of_the_end(Hosts::by_daemons().await).await;
}

#[tokio::test]
async fn whoever_waits_hears_of_the_end_by_one_daemon() {
    hears_of_the_end(Hosts::by_one_daemon().await).await;
}
