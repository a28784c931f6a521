//! Partial order connections over UDP and QUIC datagrams of this host.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use layercast_core::{Serial, Span, Stream};
use layercast_net::{Identity, PartialOrderError, PartialOrderReceiver, PartialOrderSender, Trust};
use layercast_partial_order::pdu::{Body, Pdu, Reject, Report};
use layercast_partial_order::{
    Config, FlowConfig, Hold, LossCause, Order, Policy, ReceiverEvent, ReceiverOptions, Sdu,
    Tolerance,
};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::common::{LONG, localhost};

/// Blocks that a test sends: two SDUs of flow 0 and one of flow 1 each.
const BLOCKS: u64 = 12;

fn config(policy: Policy, tolerances: [Tolerance; 2]) -> Config {
    let [video, audio] = tolerances;
    let flows = vec![
        FlowConfig::new(Span::from_ms(10), video),
        FlowConfig::new(Span::from_ms(20), audio),
    ];
    Config::new(0, flows, Order::blocks(&[2, 1]).unwrap(), policy)
}

fn reliable() -> Config {
    config(Policy::PerGroup, [Tolerance::Full; 2])
}

async fn bound() -> PartialOrderReceiver {
    let options = ReceiverOptions {
        explain: 64,
        ..ReceiverOptions::default()
    };
    PartialOrderReceiver::bind(localhost(), options)
        .await
        .unwrap()
}

/// Sends all blocks and closes.
fn send_blocks(sender: PartialOrderSender) -> JoinHandle<Result<(), PartialOrderError>> {
    tokio::spawn(async move {
        for block in 0..BLOCKS {
            for (flow, number) in [(0, 2 * block), (0, 2 * block + 1), (1, block)] {
                let payload = vec![flow as u8, number as u8];
                assert_eq!(sender.send(flow, payload).await?, number);
            }
        }
        sender.close().await
    })
}

/// What a receiver reported.
#[derive(Debug, Default)]
struct Outcome {
    delivered: usize,
    lost: [Vec<u64>; 2],
    by_group: usize,
    late: usize,
    end: Option<ReceiverEvent>,
}

/// Receives to the end; every SDU is settled once, none before what its order demands.
async fn receive(receiver: &mut PartialOrderReceiver, order: &Order) -> Outcome {
    let mut outcome = Outcome::default();
    let mut settled = BTreeSet::new();
    let all = async {
        while let Some(event) = receiver.recv().await {
            match event {
                ReceiverEvent::Deliver {
                    flow,
                    number,
                    payload,
                    ..
                } => {
                    assert_eq!(payload[..], [flow as u8, number as u8]);
                    let sdu = Sdu { flow, number };
                    for chain in 0..order.chains() {
                        for number in 0..order.need(sdu, chain) {
                            let before = Sdu {
                                flow: chain,
                                number,
                            };
                            assert!(settled.contains(&before), "{before} after {sdu}");
                        }
                    }
                    assert!(settled.insert(sdu), "{sdu} twice");
                    outcome.delivered += 1;
                }
                ReceiverEvent::Lost {
                    flow,
                    numbers,
                    cause,
                } => {
                    for number in numbers {
                        assert!(settled.insert(Sdu { flow, number }));
                        outcome.lost[flow].push(number);
                        outcome.by_group += usize::from(matches!(cause, LossCause::Group { .. }));
                    }
                }
                ReceiverEvent::Late { flow, number } => {
                    assert!(outcome.lost[flow].contains(&number));
                    outcome.late += 1;
                }
                ReceiverEvent::QosViolated { flow } => panic!("tolerance of {flow} exceeded"),
                end @ (ReceiverEvent::Closed | ReceiverEvent::PeerDead) => outcome.end = Some(end),
                ReceiverEvent::Opened { .. } | ReceiverEvent::Stalled { .. } => {}
            }
        }
    };
    timeout(LONG, all).await.expect("the connection ends");
    outcome
}

/// A path to a receiver that loses, repeats, delays and reorders datagrams of both directions.
#[derive(Clone, Copy)]
struct Path {
    loss: f64,
    repeat: f64,
    /// Longest delay, milliseconds.
    delay: u64,
    /// Whether each datagram is followed by forged ones of another connection.
    forged: bool,
    seed: u64,
}

impl Path {
    async fn to(self, to: SocketAddr) -> SocketAddr {
        let socket = Arc::new(UdpSocket::bind(localhost()).await.unwrap());
        let local = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut random = Stream::new(self.seed, "path");
            let (mut buffer, mut client) = ([0; 2_048], None);
            while let Ok((len, from)) = socket.recv_from(&mut buffer).await {
                if from != to {
                    client = Some(from);
                }
                let Some(next) = (if from == to { client } else { Some(to) }) else {
                    continue;
                };
                if self.forged {
                    for datagram in forgeries(&buffer[..len]) {
                        let _ = socket.send_to(&datagram, next).await;
                    }
                }
                if random.chance(self.loss) {
                    continue;
                }
                for _ in 0..1 + u32::from(random.chance(self.repeat)) {
                    let delay = Duration::from_millis(random.below(self.delay + 1));
                    let (socket, datagram) = (Arc::clone(&socket), buffer[..len].to_vec());
                    tokio::spawn(async move {
                        sleep(delay).await;
                        let _ = socket.send_to(&datagram, next).await;
                    });
                }
            }
        });
        local
    }
}

fn encoded(connection: u32, body: Body) -> Bytes {
    let mut bytes = BytesMut::new();
    let pdu = Pdu {
        flow: 0,
        connection,
        stamp: 1,
        body,
    };
    pdu.encode(&mut bytes);
    bytes.freeze()
}

/// What an attacker sends that does not know the number of the connection.
fn forgeries(datagram: &[u8]) -> Vec<Bytes> {
    let mut other = datagram.to_vec();
    if let Some(byte) = other.get_mut(5) {
        *byte ^= 0x55;
    }
    let last = Serial(1_000);
    let list = vec![];
    vec![
        other.into(),
        Bytes::from_static(b"noise"),
        encoded(1, Body::Close(vec![Serial(0), Serial(0)])),
        encoded(2, Body::Reject(Reject::Ended)),
        encoded(3, Body::AckRes(Report { last, list })),
        encoded(4, Body::CloseAck),
    ]
}

#[tokio::test]
async fn a_bundle_arrives_over_udp() {
    let mut receiver = bound().await;
    let queries = receiver.queries();
    let sender = PartialOrderSender::connect(receiver.local_addr(), reliable()).await;
    let sending = send_blocks(sender.unwrap());
    let outcome = receive(&mut receiver, &reliable().order).await;
    assert_eq!(outcome.delivered as u64, 3 * BLOCKS);
    assert_eq!(outcome.end, Some(ReceiverEvent::Closed));
    sending.await.unwrap().unwrap();
    assert_eq!(queries.stats(1).await.unwrap().delivered, BLOCKS);
    assert_eq!(queries.ignored().await.unwrap().strangers, 0);
}

/// Property: every SDU is delivered once after what its order demands, or is declared lost with its cause within the
/// tolerance of its flow.
#[tokio::test]
async fn sdus_are_delivered_once_in_order_or_lost_over_bad_paths() {
    let tolerances = [
        [Tolerance::Full; 2],
        [Tolerance::Consecutive(1), Tolerance::Full],
        [Tolerance::rate(0.1), Tolerance::cumulative(0.3)],
        [Tolerance::None; 2],
    ];
    let mut cases = tokio::task::JoinSet::new();
    for seed in 0..8 {
        let policy = [Policy::MediaPerMedia, Policy::PerGroup][seed % 2];
        let mut config = config(policy, tolerances[seed / 2]);
        (config.infer, config.opportunistic) = (seed % 3 == 0, seed % 3 == 1);
        cases.spawn(async move {
            let path = Path {
                loss: 0.12,
                repeat: 0.1,
                delay: 4,
                forged: false,
                seed: seed as u64,
            };
            let mut receiver = bound().await;
            let queries = receiver.queries();
            let path = path.to(receiver.local_addr()).await;
            let sender = PartialOrderSender::connect(path, config.clone()).await;
            let sending = send_blocks(sender.unwrap());
            let outcome = receive(&mut receiver, &config.order).await;
            sending.await.unwrap().unwrap();
            assert_eq!(outcome.end, Some(ReceiverEvent::Closed));
            let mut late = 0;
            for (flow, submitted) in [(0, 2 * BLOCKS), (1, BLOCKS)] {
                let stats = queries.stats(flow).await.unwrap();
                let lost = &outcome.lost[flow];
                assert_eq!(stats.delivered + stats.lost, submitted, "case {seed}");
                assert_eq!(stats.lost, lost.len() as u64);
                late += stats.late;
                match config.flows[flow].tolerance {
                    Tolerance::Full => assert!(lost.is_empty()),
                    Tolerance::Consecutive(_) => {
                        assert!(lost.iter().all(|it| !lost.contains(&(it + 1))));
                    }
                    Tolerance::Cumulative { .. } => {
                        assert!(10 * stats.lost <= 3 * (submitted + 1));
                    }
                    Tolerance::Rate { .. } => assert!(stats.lost <= 10),
                    Tolerance::None => {}
                }
            }
            // Those that come after the end are counted only.
            assert!(late >= outcome.late as u64);
            assert!(policy == Policy::PerGroup || outcome.by_group == 0);
        });
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

#[tokio::test]
async fn forged_datagrams_are_counted_and_change_nothing() {
    let mut receiver = bound().await;
    let queries = receiver.queries();
    let path = Path {
        loss: 0.0,
        repeat: 0.5,
        delay: 0,
        forged: true,
        seed: 1,
    };
    let path = path.to(receiver.local_addr()).await;
    let sender = PartialOrderSender::connect(path, reliable()).await.unwrap();
    // A stranger that knows the address of the receiver only.
    let stranger = UdpSocket::bind(localhost()).await.unwrap();
    for datagram in forgeries(&[0x11; 20]) {
        let to = receiver.local_addr();
        stranger.send_to(&datagram, to).await.unwrap();
    }
    sender.send(0, vec![0, 0]).await.unwrap();
    sender.send(0, vec![0, 1]).await.unwrap();
    let mut delivered = 0;
    while delivered < 2 {
        let event = timeout(LONG, receiver.recv()).await.unwrap().unwrap();
        delivered += usize::from(matches!(event, ReceiverEvent::Deliver { .. }));
    }
    let there = queries.ignored().await.unwrap();
    assert!(there.strangers == 6 && there.bad_pdu >= 12, "{there:?}");
    let here = sender.ignored().await.unwrap();
    assert!(here.bad_pdu >= 6, "{here:?}");
    sender.close().await.unwrap();
}

#[tokio::test]
async fn each_end_notices_that_the_other_is_gone() {
    // The program at the receiver ends: a message comes.
    let receiver = bound().await;
    let sender = PartialOrderSender::connect(receiver.local_addr(), reliable()).await;
    let sender = sender.unwrap();
    drop(receiver);
    let ended = async {
        loop {
            if let Err(error) = sender.send(0, "picture").await {
                return error;
            }
        }
    };
    let error = timeout(LONG, ended).await.unwrap();
    assert!(
        matches!(error, PartialOrderError::Rejected(Reject::Ended)),
        "{error}"
    );
    // The cause stays.
    let error = sender.stats(0).await.unwrap_err();
    assert!(matches!(error, PartialOrderError::Rejected(_)), "{error}");
    // The program at the sender ends without a close: what arrived is delivered.
    let mut receiver = bound().await;
    let sender = PartialOrderSender::connect(receiver.local_addr(), reliable()).await;
    let sender = sender.unwrap();
    sender.send(0, vec![0, 0]).await.unwrap();
    drop(sender);
    let outcome = receive(&mut receiver, &reliable().order).await;
    assert_eq!(outcome.delivered, 1);
    assert_eq!(outcome.end, Some(ReceiverEvent::PeerDead));
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_is_an_error() {
    let silent = UdpSocket::bind(localhost()).await.unwrap();
    let sender = PartialOrderSender::connect(silent.local_addr().unwrap(), reliable());
    let error = timeout(LONG, sender).await.unwrap().unwrap_err();
    assert!(matches!(error, PartialOrderError::PeerDead), "{error}");
}

#[tokio::test]
async fn a_bundle_arrives_over_quic_datagrams() {
    let (ours, theirs) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let bind = |identity: &Identity| {
        PartialOrderReceiver::bind_quic(localhost(), identity, ReceiverOptions::default()).unwrap()
    };
    let mut receiver = bind(&theirs);
    let (to, trust) = (receiver.local_addr(), Trust::Node(theirs.fingerprint()));
    let config = config(Policy::PerGroup, [Tolerance::rate(0.1), Tolerance::Full]);
    // Garbage does not keep a sender out.
    let stranger = UdpSocket::bind(localhost()).await.unwrap();
    for datagram in forgeries(&[0xc3; 1_200]) {
        stranger.send_to(&datagram, to).await.unwrap();
    }
    let path = Path {
        loss: 0.05,
        repeat: 0.1,
        delay: 3,
        forged: true,
        seed: 5,
    };
    let path = path.to(to).await;
    let sender = PartialOrderSender::connect_quic(path, config.clone(), &ours, &trust).await;
    let sending = send_blocks(sender.unwrap());
    let outcome = receive(&mut receiver, &config.order).await;
    assert_eq!(outcome.end, Some(ReceiverEvent::Closed));
    assert!(outcome.lost[1].is_empty());
    let lost = outcome.lost[0].len() + outcome.lost[1].len();
    assert_eq!((outcome.delivered + lost) as u64, 3 * BLOCKS);
    sending.await.unwrap().unwrap();
    // A receiver with another identity is not trusted.
    let receiver = bind(&ours);
    let to = receiver.local_addr();
    let refused = PartialOrderSender::connect_quic(to, config.clone(), &theirs, &trust).await;
    assert!(matches!(refused, Err(PartialOrderError::Call(_))));
    // The sender ends without a close: the connection is lost.
    let mut receiver = bind(&theirs);
    let to = receiver.local_addr();
    let sender = PartialOrderSender::connect_quic(to, config.clone(), &ours, &trust).await;
    drop(sender.unwrap());
    let outcome = receive(&mut receiver, &config.order).await;
    assert_eq!(outcome.end, Some(ReceiverEvent::PeerDead));
}

#[tokio::test]
async fn a_receiver_explains_and_renegotiates() {
    let mut receiver = bound().await;
    let queries = receiver.queries();
    let sender = PartialOrderSender::connect(receiver.local_addr(), reliable()).await;
    let sender = sender.unwrap();
    // The third SDU of flow 0 needs the first of flow 1.
    for number in 0..3 {
        sender.send(0, vec![0, number]).await.unwrap();
    }
    for _ in 0..3 {
        receiver.recv().await.unwrap();
    }
    let held = loop {
        if let Some(held) = queries.explain(0, 2).await.unwrap() {
            break held;
        }
        tokio::task::yield_now().await;
    };
    let hold = Hold::OtherTolerance { flow: 1, number: 0 };
    assert_eq!(held.held[0].hold, hold);
    assert!(queries.renegotiate(1, Tolerance::None).await.unwrap());
    assert!(!queries.renegotiate(2, Tolerance::None).await.unwrap());
    assert_eq!(queries.timeline().await.unwrap().len(), 2);
    assert_eq!(queries.stats(0).await.unwrap().delivered, 2);
    assert_eq!(sender.stats(0).await.unwrap().submitted, 3);
    let too_big = sender.send(0, vec![0; 5_000]).await;
    assert!(matches!(too_big, Err(PartialOrderError::Submit(_))));
    let unknown = sender.pause(2).await.unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "the connection has 2 flows, there is no flow 2"
    );
    sender.pause(1).await.unwrap();
    sender.close().await.unwrap();
}

/// The first CLOSE_ACK is lost, and the user drops the receiver while `Closed` waits behind 64 events.
#[tokio::test]
async fn a_receiver_that_is_dropped_with_its_end_unread_still_answers_close() {
    let receiver = bound().await;
    let to = receiver.local_addr();
    let socket = UdpSocket::bind(localhost()).await.unwrap();
    let path = socket.local_addr().unwrap();
    let (lost, first) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut buffer, mut client, mut lost) = ([0; 2_048], path, Some(lost));
        while let Ok((len, from)) = socket.recv_from(&mut buffer).await {
            let is_close_ack = buffer[0] & 0x0f == 8;
            if from != to {
                client = from;
            } else if let Some(lost) = lost.take_if(|_| is_close_ack) {
                let _ = lost.send(());
                continue;
            }
            let next = if from == to { client } else { to };
            let _ = socket.send_to(&buffer[..len], next).await;
        }
    });
    let flows = vec![FlowConfig::new(Span::from_ms(1), Tolerance::None)];
    let config = Config::new(0, flows, Order::none(1).unwrap(), Policy::PerGroup);
    let sender = PartialOrderSender::connect(path, config).await.unwrap();
    for _ in 0..63 {
        sender.send(0, "sdu").await.unwrap();
    }
    let closing = tokio::spawn(sender.close());
    timeout(LONG, first).await.unwrap().unwrap();
    drop(receiver);
    let closed = timeout(Duration::from_secs(8), closing).await;
    closed.expect("an answer").unwrap().unwrap();
}

/// More events than wait between a connection and its user do not keep a query from its answer.
#[tokio::test]
async fn queries_are_answered_while_events_wait() {
    let receiver = bound().await;
    let flows = vec![FlowConfig::new(Span::from_ms(1), Tolerance::None)];
    let config = Config::new(0, flows, Order::none(1).unwrap(), Policy::PerGroup);
    let sender = PartialOrderSender::connect(receiver.local_addr(), config).await;
    let sender = sender.unwrap();
    for _ in 0..150 {
        sender.send(0, "sdu").await.unwrap();
    }
    let many = async {
        while receiver.queries().stats(0).await.unwrap().delivered < 64 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONG, many).await.unwrap();
}
