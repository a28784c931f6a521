//! The session channel over XTP: the same flows, and what must go well when a neighbour dies, raves or loses packets.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use layercast_core::{Level, NodeId, Stream};
use layercast_link::{LinkConfig, Loss, PathConfig};
use layercast_net::{
    Bearer, CancellationToken, Clock, Control, Hello, JoinConfig, JoinEvent, NetError, Node,
    NodeConfig, NodeEvent, Relay, RelayConfig, Remote, SESSION_VERSION, SignalChannel,
    SignalReceiver, SignalSender, XtpAssociation, XtpChannel, XtpHost, XtpNode, get_stats,
    list_flows, random_seed, sink_protection, source_protection, wall_clock,
};
use layercast_protect::{Claims, JoinUrl, Seed, Signer, Token};
use layercast_wire::{Carriage, Resource, Signal, XtpService};
use layercast_xtp::SendOptions;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::common::neighbour::{identity, protected, trusted};
use crate::common::{Joined, Running, join, join_config, localhost, server, sink, start, switch};

const DATAGRAMS: Carriage = Carriage::Datagrams;
/// The port of XTP that nodes take calls on.
const PORT: u16 = 7_400;
/// Flows that continue until they are stopped.
const LONG: u32 = 600;

fn over_xtp(addr: SocketAddr) -> Remote {
    Remote::new(addr, Bearer::Xtp)
}

/// `config` as a node that takes its calls over XTP.
fn xtp(mut config: NodeConfig) -> NodeConfig {
    config.control = Control::Xtp;
    config
}

fn guest(addr: SocketAddr, name: &str, id: u32) -> JoinConfig {
    JoinConfig {
        upstream: over_xtp(addr),
        ..join_config(addr, sink(name, id, DATAGRAMS))
    }
}

/// XTP or the session channel misses the neighbour, whichever is first.
fn is_of_silence(reason: &str) -> bool {
    reason.contains("connection lost") || reason.contains("said nothing for 3 s")
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), what)
        .await
        .expect("in time")
}

async fn hears(receiver: &mut Joined, what: impl Fn(&JoinEvent) -> bool) {
    in_time(async { while !what(&receiver.events.recv().await.expect("the receiver runs")) {} })
        .await;
}

async fn tells(node: &mut Running, what: impl Fn(&NodeEvent) -> bool) {
    in_time(async { while !what(&node.events.recv().await.expect("the node runs")) {} }).await;
}

fn plays_everything(event: &JoinEvent) -> bool {
    matches!(event, JoinEvent::Second(it) if it.level == Level::FULL && it.frames.e2 > 0)
}

fn joined(event: &JoinEvent) -> bool {
    matches!(event, JoinEvent::Joined(_))
}

#[tokio::test]
async fn a_flow_goes_its_way_with_its_control_over_xtp_and_quic() {
    let own = identity();
    let server = start(xtp(server(DATAGRAMS, LONG))).await;
    let mut config = protected(switch("mixed", 2, DATAGRAMS, &[]), &own);
    config.upstreams = vec![over_xtp(server.addr)];
    let mixed = start(config).await;
    let mut config = xtp(switch("last", 3, DATAGRAMS, &[]));
    config.upstreams = vec![trusted(mixed.addr, &own)];
    let last = start(config).await;
    let mut receiver = join(guest(last.addr, "guest", 11));
    hears(&mut receiver, plays_everything).await;

    let flows = list_flows(over_xtp(server.addr)).await.unwrap();
    assert_eq!(flows.len(), 1);
    in_time(async {
        // The figures come with the reports of the receiver.
        while !get_stats(over_xtp(last.addr), None)
            .await
            .is_ok_and(|all| all.iter().any(|it| it.report.is_some()))
        {}
    })
    .await;
    let summary = receiver.stop().await;
    assert!(summary.receiver.frames.base > 0);
    for node in [last, mixed, server] {
        let channels = node.stop().await.channels;
        assert_eq!((channels.rejected, channels.malformed), (0, 0));
    }
}

/// Forwards datagrams between the caller and `to`, until it is cut.
async fn cable(to: SocketAddr, cut: Arc<AtomicBool>) -> SocketAddr {
    let front = tokio::net::UdpSocket::bind(localhost()).await.unwrap();
    let addr = front.local_addr().unwrap();
    tokio::spawn(async move {
        let mut lines: Vec<(SocketAddr, Arc<tokio::net::UdpSocket>)> = Vec::new();
        let front = Arc::new(front);
        let mut buffer = vec![0; 2_000];
        while let Ok((len, from)) = front.recv_from(&mut buffer).await {
            let known = lines.iter().position(|(who, _)| *who == from);
            let line = match known {
                Some(at) => Arc::clone(&lines[at].1),
                // A socket for each, as a NAT has it.
                None => {
                    let line = Arc::new(tokio::net::UdpSocket::bind(localhost()).await.unwrap());
                    lines.push((from, Arc::clone(&line)));
                    let (back, front, cut) = (Arc::clone(&line), Arc::clone(&front), cut.clone());
                    tokio::spawn(async move {
                        let mut buffer = vec![0; 2_000];
                        while let Ok(len) = back.recv(&mut buffer).await {
                            if !cut.load(Ordering::Relaxed) {
                                let _ = front.send_to(&buffer[..len], from).await;
                            }
                        }
                    });
                    line.connect(to).await.unwrap();
                    line
                }
            };
            if !cut.load(Ordering::Relaxed) {
                let _ = line.send(&buffer[..len]).await;
            }
        }
    });
    addr
}

#[tokio::test]
async fn a_neighbour_that_falls_silent_is_missed_on_both_sides_and_taken_back() {
    let mut node = start(xtp(server(DATAGRAMS, LONG))).await;
    let cut = Arc::new(AtomicBool::new(false));
    let through = cable(node.addr, Arc::clone(&cut)).await;
    let mut receiver = join(guest(through, "guest", 11));
    hears(&mut receiver, plays_everything).await;

    cut.store(true, Ordering::Relaxed);
    hears(
        &mut receiver,
        |event| matches!(event, JoinEvent::Disconnected { reason } if is_of_silence(reason)),
    )
    .await;
    tells(&mut node, |event| {
        matches!(event, NodeEvent::PeerDown { name, reason } if name == "guest" && is_of_silence(reason))
    })
    .await;

    cut.store(false, Ordering::Relaxed);
    hears(&mut receiver, joined).await;
    hears(&mut receiver, plays_everything).await;
    let summary = receiver.stop().await;
    assert!(summary.connected >= 2);
    node.stop().await;
}

#[tokio::test]
async fn a_node_that_is_killed_and_comes_back_is_called_again() {
    let first = start(xtp(server(DATAGRAMS, LONG))).await;
    let listen = first.addr;
    let mut receiver = join(guest(listen, "guest", 11));
    hears(&mut receiver, plays_everything).await;
    first.kill().await;
    hears(&mut receiver, |event| {
        matches!(event, JoinEvent::Disconnected { .. })
    })
    .await;
    let mut config = xtp(server(DATAGRAMS, LONG));
    config.listen = listen;
    let second = start(config).await;
    hears(&mut receiver, joined).await;
    receiver.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn signals_get_through_a_port_that_loses_a_fifth() {
    let node = start(xtp(server(DATAGRAMS, LONG))).await;
    let path = PathConfig {
        link: LinkConfig {
            loss: Loss::Bernoulli { p: 0.2 },
            ..LinkConfig::default()
        },
        ..PathConfig::default()
    };
    let config = RelayConfig {
        listen: localhost(),
        to: node.addr,
        there: path.clone(),
        back: path,
        seed: 5,
        max_clients: 64,
        believe_clients: false,
        from_port: None,
    };
    let relay = Relay::bind(config).await.unwrap();
    let through = relay.local_addr();
    let stop = CancellationToken::new();
    let (told, _told) = mpsc::channel(1_024);
    let carrying = tokio::spawn(relay.run(stop.clone(), told));
    // The media use another path: full quality means that the join and the reports came through despite the
    // loss.
    let mut receiver = join(guest(through, "guest", 11));
    hears(&mut receiver, plays_everything).await;
    receiver.stop().await;
    stop.cancel();
    let stats = carrying.await.unwrap().unwrap();
    assert!(
        stats.there.link.lost + stats.back.link.lost > 0,
        "{stats:?}"
    );
    node.stop().await;
}

async fn call(near: &XtpHost, to: SocketAddr) -> XtpAssociation {
    let it = near.register(XtpService::STREAM).connect(to, PORT).unwrap();
    in_time(it.connected()).await.unwrap();
    it
}

/// Reads until there is nothing more.
async fn is_cut_off(it: &XtpAssociation) {
    in_time(async { while let Ok(Some(_)) = it.receive(65_536).await {} }).await;
}

fn hello(name: &str) -> Vec<u8> {
    let hello = Signal::Hello {
        node: name.into(),
        id: NodeId(66),
        version: SESSION_VERSION,
        udp_port: 0,
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
    hello.to_line().unwrap()
}

#[tokio::test]
async fn garbage_is_answered_counted_and_cut_off() {
    let node = start(xtp(server(DATAGRAMS, LONG))).await;
    // Datagrams that are not XTP, and XTP that no implementation sends.
    let noise = UdpSocket::bind(localhost()).unwrap();
    let mut random = Stream::new(7, "noise");
    for _ in 0..500 {
        let bytes: Vec<u8> = (0..random.below(1_300))
            .map(|_| random.below(256) as u8)
            .collect();
        noise.send_to(&bytes, node.addr).unwrap();
    }
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/xtp");
    for file in std::fs::read_dir(corpus).unwrap().flatten() {
        let bytes = std::fs::read(file.path()).unwrap();
        let _ = noise.send_to(&bytes, node.addr);
    }

    let near = XtpHost::new(XtpNode::udp(localhost()).unwrap());
    let how = SendOptions::default();
    let texts: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"{\"type\":\"list_flows\"}\n",
        b"{\"type\":\"hello\",\"node\":\"x\",\"id\":1,\"version\":99,\"udp_port\":1,\"carriage\":\"cells\",\"clock\":\"\"}\n",
        &[b'x'; 70_000],
    ];
    for text in texts {
        let it = call(&near, node.addr).await;
        // The node may have hung up before it has read everything.
        let _ = in_time(it.send(Bytes::copy_from_slice(text), &how)).await;
        is_cut_off(&it).await;
    }
    // One that spoke well at first and then raves, and one that sends what may get lost.
    let raver = call(&near, node.addr).await;
    in_time(raver.send(Bytes::from(hello("raver")), &how))
        .await
        .unwrap();
    for _ in 0..40 {
        let _ = in_time(raver.send(Bytes::from_static(b"[1,2,3]\n"), &how)).await;
    }
    is_cut_off(&raver).await;
    // Others are served all the while.
    assert_eq!(list_flows(over_xtp(node.addr)).await.unwrap().len(), 1);
    let mut receiver = join(guest(node.addr, "guest", 11));
    hears(&mut receiver, plays_everything).await;
    receiver.stop().await;
    let summary = node.stop().await;
    assert_eq!(summary.channels.rejected, 4, "{:?}", summary.channels);
    assert!(summary.channels.malformed >= 16, "{:?}", summary.channels);
}

#[tokio::test]
async fn who_reads_nothing_is_cut_off() {
    let node = start(xtp(server(DATAGRAMS, LONG))).await;
    let near = XtpHost::new(XtpNode::udp(localhost()).unwrap());
    let deaf = call(&near, node.addr).await;
    let how = SendOptions::default();
    in_time(deaf.send(Bytes::from(hello("deaf")), &how))
        .await
        .unwrap();
    let questions = Bytes::from(Signal::ListFlows.to_line().unwrap().repeat(100));
    in_time(async { while deaf.send(questions.clone(), &how).await.is_ok() {} }).await;
    assert_eq!(node.stop().await.channels.slow, 1);
}

#[tokio::test]
async fn callers_beyond_the_limit_are_turned_away() {
    let mut config = xtp(server(DATAGRAMS, LONG));
    config.max_connections = 1;
    let node = start(config).await;
    let channel = in_time(XtpChannel::connect(node.addr, None)).await.unwrap();
    let (mut receiver, mut sender) = channel.split();
    let hello: Hello = Hello::from_signal(Signal::Hello {
        node: "first".into(),
        id: NodeId(5),
        version: SESSION_VERSION,
        udp_port: 0,
        carriage: DATAGRAMS,
        clock: "none".into(),
        link_key: None,
        repair: None,
        group: None,
        group_repair: None,
        prompt: false,
        clocks: false,
        pings: false,
    })
    .unwrap();
    sender.send(&[hello.signal()]).await.unwrap();
    assert!(matches!(
        in_time(receiver.recv()).await,
        Ok(Some(Signal::Hello { .. }))
    ));
    let error = list_flows(over_xtp(node.addr)).await.unwrap_err();
    assert!(matches!(error, NetError::TurnedAway { .. }), "{error}");
    assert!(error.to_string().contains("all 1 places"), "{error}");
    drop((receiver, sender));
    assert_eq!(node.stop().await.channels.rejected, 1);
}

#[tokio::test]
async fn who_calls_in_the_wrong_way_is_told() {
    let node = start(xtp(server(DATAGRAMS, LONG))).await;
    let error = list_flows(node.addr).await.unwrap_err();
    assert!(error.to_string().contains("control=xtp"), "{error}");
    // The port says nothing else.
    assert!(TcpStream::connect(node.addr).await.is_ok());
    node.stop().await;

    let node = start(server(DATAGRAMS, LONG)).await;
    let error = list_flows(over_xtp(node.addr)).await.unwrap_err();
    assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
    node.stop().await;

    let both = protected(xtp(server(DATAGRAMS, LONG)), &identity());
    let error = Node::bind(both).await.err().unwrap();
    assert!(matches!(error, NetError::NotProtected), "{error}");
}

#[tokio::test]
async fn sealed_media_and_tokens_work_without_protected_links() {
    let seed = Seed([1; 32]);
    let mut config = xtp(server(DATAGRAMS, LONG));
    config.switch.require_tokens = true;
    config.switch.clock = wall_clock();
    config.sources[0].config.protection = Some(source_protection(Seed(seed.0), true));
    let node = start(config).await;
    let source = Signer::from_seed(&seed.0);
    let claims = Claims {
        flow: "film".into(),
        member: None,
        level: Level::FULL,
        expires: wall_clock().at(Clock::get().now()) + 600,
    };
    let token = Token::issue(&source, claims, random_seed().0);
    let url = format!("layercast://{}/film?control=xtp", node.addr);
    let mut url: JoinUrl = url.parse().unwrap();
    url.source = Some(source.public().0);
    let with = |url: &JoinUrl, name, id| {
        let mut config = guest(node.addr, name, id);
        config.sink.protection = Some(sink_protection(url).unwrap());
        join(config)
    };
    let none = in_time(with(&url, "stranger", 12).end()).await;
    assert!(
        matches!(&none, Err(NetError::Refused(it)) if it.resource == Resource::Token),
        "{none:?}"
    );
    url.token = Some(token.to_string());
    let mut receiver = with(&url, "guest", 11);
    hears(&mut receiver, plays_everything).await;
    let summary = receiver.stop().await;
    assert_eq!(summary.sink.dropped.forged, 0);
    node.stop().await;
}
