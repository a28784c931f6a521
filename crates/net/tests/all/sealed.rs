//! Sealed media and tokens through real sockets: which receivers get nothing, and the effect of attacks on the
//! path.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::common::neighbour::Neighbour;
use crate::common::{LONG, join, join_config, real_time, server, sink, start, switch};
use layercast_core::{Level, NodeId};
use layercast_mets::{SinkProtection, SourceEvent, SourceProtection};
use layercast_net::{
    Clock, JoinConfig, JoinEvent, JoinSummary, NetError, NodeConfig, NodeEvent, random_seed,
    wall_clock,
};
use layercast_protect::{Claims, Seed, Signer, Token, WallClock};
use layercast_wire::{Carriage, Member, Resource, Signal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

const DATAGRAMS: Carriage = Carriage::Datagrams;
const IDENTITY: Seed = Seed([1; 32]);

fn now() -> u64 {
    wall_clock().at(Clock::get().now())
}

/// A server of a sealed film for those with a token.
fn sealed(seconds: u32) -> NodeConfig {
    let mut config = server(DATAGRAMS, seconds);
    config.switch.require_tokens = true;
    config.switch.clock = wall_clock();
    config.sources[0].config.protection = Some(SourceProtection {
        identity: IDENTITY,
        random: random_seed(),
        tokens: true,
        clock: wall_clock(),
        born: now(),
    });
    config
}

fn token(flow: &str, member: &str, seconds: u64) -> Token {
    let claims = Claims {
        flow: flow.into(),
        member: Some(member.into()),
        level: Level::FULL,
        expires: now() + seconds,
    };
    Token::issue(&Signer::from_seed(&IDENTITY.0), claims, random_seed().0)
}

fn guest(addr: SocketAddr, name: &str, id: u32, token: Option<Token>) -> JoinConfig {
    let mut sink = sink(name, id, DATAGRAMS);
    sink.protection = Some(SinkProtection {
        source: Some(Signer::from_seed(&IDENTITY.0).public()),
        token,
        random: random_seed(),
        clock: wall_clock(),
    });
    join_config(addr, sink)
}

/// What a receiver was refused for.
fn refused(ended: Result<JoinSummary, NetError>) -> Resource {
    match ended {
        Err(NetError::Refused(refusal)) => refusal.resource,
        other => panic!("{other:?}"),
    }
}

fn everything_arrived(summary: &JoinSummary) {
    let receiver = &summary.receiver;
    assert_eq!(
        (receiver.lost.base, receiver.late_base),
        (0, 0),
        "{receiver:#?}"
    );
    assert!(
        receiver.frames.base > 8 && receiver.frames.e2 > 0,
        "{receiver:#?}"
    );
}

#[real_time(tokio)]
async fn a_flow_that_takes_tokens_is_for_those_who_have_one() {
    let server = start(sealed(5)).await;
    let mut config = switch("chuff", 2, DATAGRAMS, &[server.addr]);
    config.switch.require_tokens = true;
    config.switch.clock = wall_clock();
    let chuff = start(config).await;
    let good = join(guest(
        chuff.addr,
        "alice",
        11,
        Some(token("film", "alice", 600)),
    ));
    let bad = [
        ("m0", None),
        ("m1", Some(token("film", "m1", 0))),
        ("m2", Some(token("film", "alice", 600))),
        ("m3", Some(token("other", "m3", 600))),
    ];
    for (id, (name, token)) in bad.into_iter().enumerate() {
        for addr in [server.addr, chuff.addr] {
            let config = guest(addr, name, 20 + id as u32, token.clone());
            let missing = match name {
                "m1" => Resource::TokenExpired,
                _ => Resource::Token,
            };
            assert_eq!(refused(join(config).end().await), missing);
        }
    }
    everything_arrived(&good.end().await.unwrap());
    assert_eq!(chuff.stop().await.switch.rejected_signals.token, 4);
    assert_eq!(server.stop().await.switch.rejected_signals.token, 4);
}

#[real_time(tokio)]
async fn whoever_gets_all_datagrams_without_a_key_plays_no_frame() {
    let server = start(sealed(5)).await;
    // A switch that lets anybody in, as long as somebody with a token is there.
    let lax = start(switch("lax", 2, DATAGRAMS, &[server.addr])).await;
    let mut alice = join(guest(
        lax.addr,
        "alice",
        11,
        Some(token("film", "alice", 600)),
    ));
    alice
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    // A receiver of all datagrams that asks for no key.
    let sniffer = sink("sniffer", 12, DATAGRAMS);
    let sniffer = join(join_config(lax.addr, sniffer));
    everything_arrived(&alice.end().await.unwrap());
    let sniffed = sniffer.end().await.unwrap();
    assert_eq!(sniffed.receiver.refused, None);
    assert!(
        sniffed.sink.dropped.unkeyed > 100,
        "{:?}",
        sniffed.sink.dropped
    );
    assert_eq!(sniffed.sink.played, Default::default());
    lax.stop().await;
    server.stop().await;
}

#[real_time(tokio)]
async fn who_has_no_valid_token_is_told_by_the_source_where_switches_let_anybody_in() {
    let server = start(sealed(8)).await;
    let lax = start(switch("lax", 2, DATAGRAMS, &[server.addr])).await;
    let mut alice = join(guest(
        lax.addr,
        "alice",
        11,
        Some(token("film", "alice", 600)),
    ));
    alice
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    let bad = [
        (12, None, Resource::Token),
        (13, Some(token("film", "alice", 600)), Resource::Token),
        (14, Some(token("film", "bob", 0)), Resource::TokenExpired),
    ];
    for (id, token, missing) in bad {
        let config = guest(lax.addr, "bob", id, token);
        assert_eq!(refused(join(config).end().await), missing);
    }
    // A token that expires while the flow runs.
    let short = guest(lax.addr, "carol", 15, Some(token("film", "carol", 3)));
    let mut carol = join(short);
    let playing = |event: &JoinEvent| matches!(event, JoinEvent::Second(p) if p.frames.base > 0);
    carol.wait_for(playing).await;
    assert_eq!(refused(carol.end().await), Resource::TokenExpired);
    everything_arrived(&alice.end().await.unwrap());
    lax.stop().await;
    let source = &server.stop().await.sources["film"];
    assert!(source.denied >= 3, "{source:?}");
}

#[real_time(tokio)]
async fn the_proof_of_another_is_of_no_use() {
    let mut server = start(sealed(8)).await;
    let alice = token("film", "alice", 600);
    let proof = alice.prove(
        layercast_core::FlowId(1),
        ("alice", NodeId(11)),
        [3; 32],
        now(),
    );
    let proof: layercast_wire::Opaque = proof.encode().into();
    let mut honest = join(guest(server.addr, "alice", 11, Some(alice)));
    honest
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    let mut thief = Neighbour::call_in_the_clear(server.addr, "thief").await;
    let cases = [
        ("thief", 77, Resource::Token),
        ("alice", 11, Resource::NameInUse),
        ("alice", 78, Resource::NameInUse),
    ];
    for (name, id, expected) in cases {
        let member = Member {
            name: name.into(),
            id: NodeId(id),
        };
        let (flow, level) = (layercast_core::FlowId(1), Level::FULL);
        let join = Signal::Join {
            flow,
            epoch: layercast_wire::Epoch::default(),
            member: member.clone(),
            level,
            proof: Some(proof.clone()),
            again: false,
            answer: None,
        };
        thief.say(join).await;
        let answer = thief
            .wait_for(|signal| matches!(signal, Signal::JoinNak { .. }))
            .await;
        assert!(
            matches!(&answer, Signal::JoinNak { refusal, .. } if refusal.resource == expected),
            "{answer:?}"
        );
        // Nor does it send anybody else away.
        thief
            .say(Signal::Leave {
                flow,
                member: member.clone(),
            })
            .await;
        thief.say(Signal::Left { flow, member }).await;
    }
    everything_arrived(&honest.end().await.unwrap());
    let mut left = Vec::new();
    while let Ok(event) = server.events.try_recv() {
        if let NodeEvent::Source {
            event: SourceEvent::Rekeyed { .. },
            ..
        } = event
        {
            left.push(event);
        }
    }
    assert!(left.is_empty(), "no member left: {left:?}");
    server.stop().await;
}

#[real_time(tokio)]
async fn a_member_that_leaves_takes_no_key_along_and_costs_the_others_nothing() {
    let server = start(sealed(10)).await;
    let chuff = start(switch("chuff", 2, DATAGRAMS, &[server.addr])).await;
    let stays = join(guest(
        chuff.addr,
        "alice",
        11,
        Some(token("film", "alice", 600)),
    ));
    let mut leaves = join(guest(
        chuff.addr,
        "bob",
        12,
        Some(token("film", "bob", 600)),
    ));
    let playing = |event: &JoinEvent| matches!(event, JoinEvent::Second(p) if p.frames.base > 4);
    leaves.wait_for(playing).await;
    leaves.stop().await;
    let summary = stays.end().await.unwrap();
    everything_arrived(&summary);
    assert_eq!(summary.receiver.lost, Default::default());
    assert_eq!(summary.sink.dropped.forged, 0);
    chuff.stop().await;
    let server = server.stop().await;
    let source = &server.sources["film"];
    assert_eq!((source.rekeys, source.denied), (1, 0), "{source:?}");
}

/// A node on the way that passes everything on, and forges and repeats media as it likes.
struct Forger {
    addr: SocketAddr,
    forged: Arc<Mutex<u64>>,
}

async fn forger(server: SocketAddr) -> Forger {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let forged = Arc::new(Mutex::new(0));
    let count = Arc::clone(&forged);
    tokio::spawn(async move {
        let (down, _) = listener.accept().await.unwrap();
        let up = TcpStream::connect(server).await.unwrap();
        let to_receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to_server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let ports = [&to_receiver, &to_server].map(|socket| socket.local_addr().unwrap().port());
        let (from_down, into_down) = down.into_split();
        let (from_up, into_up) = up.into_split();
        let (mut from_down, mut from_up) = (BufReader::new(from_down), BufReader::new(from_up));
        let (mut into_down, mut into_up) = (into_down, into_up);
        // The receiver says hello first, the server answers.
        let receiver = hello(&mut from_down, &mut into_up, ports[1]).await;
        let media = hello(&mut from_up, &mut into_down, ports[0]).await;
        tokio::spawn(async move { tokio::io::copy(&mut from_down, &mut into_up).await });
        tokio::spawn(async move { tokio::io::copy(&mut from_up, &mut into_down).await });
        let (mut up, mut down) = (vec![0; 2_000], vec![0; 2_000]);
        let mut old: VecDeque<Vec<u8>> = VecDeque::new();
        loop {
            tokio::select! {
                Ok((len, _)) = to_server.recv_from(&mut down) => {
                    let packet = &down[..len];
                    // METS media: an octet of the media, one of the header, then the true one.
                    if len > 60 {
                        for at in [40, 13] {
                            let mut forged = packet.to_vec();
                            forged[at] ^= 1;
                            let _ = to_receiver.send_to(&forged, receiver).await;
                            *count.lock().unwrap() += 1;
                        }
                        old.push_back(packet.to_vec());
                    }
                    let _ = to_receiver.send_to(packet, receiver).await;
                    if old.len() > 300 && let Some(packet) = old.pop_front() {
                        let _ = to_receiver.send_to(&packet, receiver).await;
                    }
                }
                Ok((len, _)) = to_receiver.recv_from(&mut up) => {
                    let _ = to_server.send_to(&up[..len], media).await;
                }
            }
        }
    });
    Forger { addr, forged }
}

/// Passes on a hello, with another port for datagrams; gives the address that it named.
async fn hello(
    from: &mut BufReader<OwnedReadHalf>,
    to: &mut OwnedWriteHalf,
    port: u16,
) -> SocketAddr {
    let mut line = Vec::new();
    let read = timeout(LONG, from.read_until(b'\n', &mut line));
    read.await.unwrap().unwrap();
    let mut signal = Signal::from_line(&line).unwrap();
    let Signal::Hello { udp_port, .. } = &mut signal else {
        panic!("{signal:?}");
    };
    let named = SocketAddr::from(([127, 0, 0, 1], *udp_port));
    *udp_port = port;
    to.write_all(&signal.to_line().unwrap()).await.unwrap();
    named
}

#[real_time(tokio)]
async fn a_node_that_forges_and_repeats_media_changes_nothing() {
    let server = start(sealed(6)).await;
    let forger = forger(server.addr).await;
    let summary = join(guest(
        forger.addr,
        "alice",
        11,
        Some(token("film", "alice", 600)),
    ));
    let summary = summary.end().await.unwrap();
    everything_arrived(&summary);
    assert_eq!(summary.receiver.lost, Default::default());
    let dropped = summary.sink.dropped;
    let forged = *forger.forged.lock().unwrap();
    // Datagrams before the key was there are not distinguishable from honest ones.
    assert!(
        dropped.forged > forged / 2 && forged > 500,
        "{dropped:?} of {forged}"
    );
    assert!(dropped.duplicate > 100, "{dropped:?}");
    assert_eq!(dropped.malformed, 0, "{dropped:?}");
    server.stop().await;
}

#[real_time(tokio)]
async fn tokens_do_not_outlive_a_clock_that_is_set() {
    use std::sync::atomic::{AtomicU64, Ordering};
    /// Seconds by which the clock of the node has been set forward.
    static SET: AtomicU64 = AtomicU64::new(0);
    let mut config = sealed(8);
    config.wall_clock = || {
        let WallClock(us) = wall_clock();
        WallClock(us + SET.load(Ordering::Relaxed) * 1_000_000)
    };
    SET.store(0, Ordering::Relaxed);
    let node = start(config).await;
    let carol = token("film", "carol", 600);
    let mut early = join(guest(node.addr, "carol", 12, Some(carol.clone())));
    early
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    SET.store(3_600, Ordering::Relaxed);
    // The source notices while she receives, and says so.
    assert_eq!(refused(early.end().await), Resource::TokenExpired);
    // Until its name is free.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let late = guest(node.addr, "carol", 12, Some(carol));
    assert_eq!(refused(join(late).end().await), Resource::TokenExpired);
    node.stop().await;
}
