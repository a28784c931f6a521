//! What must go well when something else does not: killed nodes, strangers, hostile neighbours,
//! wrong addresses.

use crate::common;

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::neighbour::{identity, protected, trusted};
use crate::common::{
    LONG, join, join_config, link_to, localhost, port, real_time, server, sink, source, start,
    switch, switch_config,
};
use layercast_core::{FlowId, Level, NodeId, Span};
use layercast_link::PathConfig;
use layercast_mets::SinkEvent;
use layercast_mets::switch::{MAX_MEMBERS_PER_PORT, SwitchEvent};
use layercast_net::{
    CancellationToken, Clock, Connect, JoinEvent, LiveFrom, LiveInput, NetError, Node, NodeConfig,
    NodeEvent, Output, Relay, RelayConfig, flow_epoch, get_stats, list_flows,
};
use layercast_wire::{Carriage, Member, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

const DATAGRAMS: Carriage = Carriage::Datagrams;

fn free_port() -> SocketAddr {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}

#[real_time(tokio)]
async fn a_restarted_switch_is_back_in_service_without_the_server_noticing_more() {
    let server = start(server(DATAGRAMS, 7)).await;
    let mut config = switch("chuff", 2, DATAGRAMS, &[server.addr]);
    config.listen = free_port();
    let listen = config.listen;
    let chuff = start(config).await;
    let mut receiver = join(join_config(listen, sink("guest", 11, DATAGRAMS)));
    let playing = |event: &JoinEvent| matches!(event, JoinEvent::Second(p) if p.frames.base > 0);
    receiver.wait_for(playing).await;
    chuff.kill().await;
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Disconnected { .. }))
        .await;

    let mut config = switch("chuff", 2, DATAGRAMS, &[server.addr]);
    config.listen = listen;
    let chuff = start(config).await;
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    let summary = receiver.end().await.unwrap();
    assert!(summary.connected >= 2);
    let told = format!("{:#?}", summary.receiver);
    assert_eq!(summary.receiver.late_base, 0, "{told}");
    let last = summary.receiver.levels.last().map(|(_, level)| *level);
    assert!(last.is_some(), "{told}");
    let received: Vec<_> = summary.receiver.series.iter().rev().take(3).collect();
    assert!(received.iter().any(|s| s.rate_bps > 100_000), "{told}");
    chuff.stop().await;
    server.stop().await;
}

#[real_time(tokio)]
async fn a_flow_goes_on_over_a_second_switch_when_the_first_is_gone() {
    for killed in [true, false] {
        let server = start(server(DATAGRAMS, 7)).await;
        let mut ways = BTreeMap::new();
        for (id, name) in [(2, "left"), (3, "right")] {
            let way = start(switch(name, id, DATAGRAMS, &[server.addr])).await;
            ways.insert(name.to_owned(), way);
        }
        let upstreams = [ways["left"].addr, ways["right"].addr];
        let last = start(switch("last", 4, DATAGRAMS, &upstreams)).await;
        let mut guest = join(join_config(last.addr, sink("guest", 11, DATAGRAMS)));
        guest
            .wait_for(|event| matches!(event, JoinEvent::Second(it) if it.frames.base > 0))
            .await;
        let told = get_stats(last.addr, None).await.unwrap();
        let used = told[0].upstream.clone().expect("a node upstream");
        let used = ways.remove(&used).expect("one of both");
        let at = Instant::now();
        if killed {
            used.kill().await;
        } else {
            used.stop().await;
        }
        let joined_again = timeout(LONG, async {
            loop {
                let told = get_stats(last.addr, None).await.unwrap();
                let now = told.first().and_then(|it| it.upstream.clone());
                if now.is_some_and(|now| ways.contains_key(&now)) {
                    return at.elapsed();
                }
                sleep(Duration::from_millis(20)).await;
            }
        });
        let after = joined_again.await.expect("the other way is taken");
        assert!(after < Duration::from_secs(1), "after {after:?}");
        let summary = guest.end().await.unwrap();
        let receiver = &summary.receiver;
        // Its place was kept: it has joined once.
        assert_eq!(summary.connected, 1);
        // Two key frames a second.
        assert!(receiver.frames.base >= 10, "{receiver:#?}");
        assert!(receiver.lost.base <= 2, "{receiver:#?}");
        for node in ways.into_values().chain([last, server]) {
            node.stop().await;
        }
    }
}

/// A server at `listen`, in a life of its own.
fn server_at(listen: SocketAddr) -> NodeConfig {
    let mut config = server(DATAGRAMS, 30);
    config.listen = listen;
    config.sources[0].config.flow.epoch = flow_epoch();
    config
}

#[real_time(tokio)]
async fn a_server_that_is_killed_and_started_again_is_back_at_every_receiver() {
    let at = free_port();
    let server = start(server_at(at)).await;
    let one = start(switch("one", 2, DATAGRAMS, &[server.addr])).await;
    let two = start(switch("two", 3, DATAGRAMS, &[one.addr])).await;
    let mut receivers = Vec::new();
    for (index, upstream) in [server.addr, one.addr, two.addr].into_iter().enumerate() {
        let mut config = join_config(
            upstream,
            sink(&format!("r{index}"), 11 + index as u32, DATAGRAMS),
        );
        let (frames, played) = mpsc::channel(4_096);
        config.output = Output::Channel(frames);
        receivers.push((join(config), played));
    }
    for (_, played) in &mut receivers {
        let first = timeout(LONG, played.recv()).await.unwrap().unwrap();
        assert_eq!(first.count, 0);
    }
    // Long enough for the numbers of the first life to be ahead of those of the next.
    sleep(Duration::from_millis(1_500)).await;
    server.kill().await;
    let server = start(server_at(at)).await;
    let back = Instant::now();
    for (index, (_, played)) in receivers.iter_mut().enumerate() {
        let anew = async { while played.recv().await.is_some_and(|frame| frame.count == 0) {} };
        let within = Duration::from_secs(5).saturating_sub(back.elapsed());
        assert!(timeout(within, anew).await.is_ok(), "receiver {index}");
    }
    for addr in [one.addr, two.addr] {
        assert_eq!(list_flows(addr).await.unwrap().len(), 1);
    }
    sleep(Duration::from_millis(500)).await;
    for (index, (receiver, mut played)) in receivers.into_iter().enumerate() {
        let summary = receiver.stop().await;
        played.close();
        let mut numbers = Vec::new();
        while let Ok(frame) = played.try_recv() {
            numbers.push((frame.count, frame.seq.0));
        }
        // In the second life as in the first, frames follow one another.
        assert!(
            numbers.is_sorted() && numbers.len() > 10,
            "{index}: {numbers:?}"
        );
        let told = format!("{index}: {summary:#?}");
        assert_eq!(summary.sink.lost.base, 0, "{told}");
        assert_eq!(summary.output.dropped, 0, "{told}");
    }
    for node in [two, one, server] {
        node.stop().await;
    }
}

#[real_time(tokio)]
async fn a_switch_gives_up_a_flow_that_its_server_does_not_know_any_more() {
    let at = free_port();
    let server = start(server_at(at)).await;
    let chuff = start(switch("chuff", 2, DATAGRAMS, &[server.addr])).await;
    let mut receiver = join(join_config(chuff.addr, sink("guest", 11, DATAGRAMS)));
    let joined = |event: &JoinEvent| matches!(event, JoinEvent::Joined(_));
    receiver.wait_for(joined).await;
    server.kill().await;
    let mut other = server_at(at);
    other.sources[0] = source("news", 2, DATAGRAMS, 30);
    let server = start(other).await;
    let released = |event: &JoinEvent| matches!(event, JoinEvent::Sink(SinkEvent::Released { .. }));
    receiver.wait_for(released).await;
    let flows = list_flows(chuff.addr).await.unwrap();
    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["news"]);
    receiver.stop().await;
    chuff.stop().await;
    server.stop().await;
}

/// Its farewell is what ends the branch to it, and not its silence; a receiver hears why its flow is gone.
#[real_time(tokio)]
async fn a_switch_that_is_stopped_leaves_its_flows() {
    let mut server = start(server_at(localhost())).await;
    let chuff = start(switch("chuff", 2, DATAGRAMS, &[server.addr])).await;
    let mut receiver = join(join_config(chuff.addr, sink("guest", 11, DATAGRAMS)));
    let joined = |event: &JoinEvent| matches!(event, JoinEvent::Joined(_));
    receiver.wait_for(joined).await;
    chuff.stop().await;
    let ended = async {
        loop {
            let event = server.events.recv().await.expect("the server runs");
            if let NodeEvent::Switch { event, .. } = event {
                match event {
                    SwitchEvent::Released { .. } => return true,
                    SwitchEvent::BranchExpired { .. } => return false,
                    _ => {}
                }
            }
        }
    };
    assert_eq!(timeout(LONG, ended).await, Ok(true));
    let told = |event: &JoinEvent| matches!(event, JoinEvent::Sink(SinkEvent::Released { reason }) if reason.contains("node chuff,"));
    receiver.wait_for(told).await;
    receiver.stop().await;
    server.stop().await;
}

/// Datagrams that no node sends: the corpus of the fuzzer, or noise if it is not there.
fn hostile_datagrams() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut all = Vec::new();
    for kind in ["datagram", "mets", "adapter", "cell", "aal5"] {
        let Ok(entries) = std::fs::read_dir(corpus.join(kind)) else {
            continue;
        };
        for entry in entries.flatten().take(2_000) {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            // The first byte of the fuzzer's input chooses the carriage: keep both readings.
            all.push(bytes.get(1..).unwrap_or_default().to_vec());
            all.push(bytes);
        }
    }
    let mut noise = layercast_core::Stream::new(7, "noise");
    for _ in 0..500 {
        let len = noise.below(1_300) as usize;
        all.push((0..len).map(|_| noise.below(256) as u8).collect());
    }
    all.retain(|bytes| bytes.len() < 2_000);
    all
}

/// Sends in bursts for `how_long`; returns the number of datagrams.
fn storm(from: UdpSocket, to: SocketAddr, how_long: Duration) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let datagrams = hostile_datagrams();
        let (end, mut sent) = (Instant::now() + how_long, 0);
        while Instant::now() < end {
            for datagram in datagrams.iter().cycle().skip(sent as usize).take(20) {
                sent += u64::from(from.send_to(datagram, to).is_ok());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        sent
    })
}

async fn hello(addr: SocketAddr, name: &str, udp_port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let hello = Signal::Hello {
        node: name.into(),
        id: layercast_core::NodeId(66),
        version: layercast_net::SESSION_VERSION,
        udp_port,
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
    stream.write_all(&hello.to_line().unwrap()).await.unwrap();
    stream
}

#[real_time(tokio)]
async fn a_storm_of_hostile_datagrams_does_not_touch_the_base_layer() {
    let server = start(server(DATAGRAMS, 5)).await;
    let chuff = start(switch("chuff", 2, DATAGRAMS, &[server.addr])).await;
    let mut receiver = join(join_config(chuff.addr, sink("guest", 11, DATAGRAMS)));
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;

    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let enemy = UdpSocket::bind("127.0.0.1:0").unwrap();
    let channel = hello(chuff.addr, "enemy", enemy.local_addr().unwrap().port()).await;
    sleep(Duration::from_millis(100)).await;
    let storms = [
        storm(stranger, chuff.addr, Duration::from_millis(2_500)),
        storm(enemy, chuff.addr, Duration::from_millis(2_500)),
    ];
    let summary = receiver.end().await.unwrap();
    let [unknown, known] = storms.map(|storm| storm.join().unwrap());
    drop(channel);

    let told = format!("{:#?}", summary.receiver);
    assert_eq!(
        (summary.receiver.lost.base, summary.receiver.late_base),
        (0, 0),
        "{told}"
    );
    assert!(summary.receiver.frames.base > 10, "{told}");
    let chuff = chuff.stop().await;
    let told = format!("{chuff:#?}, sent {unknown} {known}");
    assert_eq!(chuff.udp.unknown, unknown, "{told}");
    assert!(unknown > 1_000 && known > 1_000, "{told}");
    let rejected = &chuff.switch.rejected_pdus;
    let turned_down =
        chuff.malformed + rejected.unknown + rejected.malformed + rejected.stale + rejected.origins;
    assert!(turned_down >= known, "{told}");
    server.stop().await;
}

/// A neighbour sends as fast as its processor can, far more than the node can process.
#[real_time(tokio)]
async fn a_neighbour_that_floods_is_the_only_one_whose_datagrams_are_dropped() {
    let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    if most.trim().parse::<u64>().unwrap() < 4 << 20 {
        eprintln!("skipped: the kernel keeps too little with a net.core.rmem_max below 4 MiB");
        return;
    }
    let server = start(server(DATAGRAMS, 5)).await;
    let chuff = start(switch("chuff", 2, DATAGRAMS, &[server.addr])).await;
    let mut receiver = join(join_config(chuff.addr, sink("guest", 11, DATAGRAMS)));
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;

    let enemy = UdpSocket::bind("127.0.0.1:0").unwrap();
    let channel = hello(chuff.addr, "enemy", enemy.local_addr().unwrap().port()).await;
    sleep(Duration::from_millis(100)).await;
    let to = chuff.addr;
    let flood = std::thread::spawn(move || {
        let end = Instant::now() + Duration::from_secs(1);
        let mut sent = 0;
        while Instant::now() < end {
            sent += u64::from(enemy.send_to(&[7; 900], to).is_ok());
        }
        sent
    });
    let summary = receiver.end().await.unwrap();
    let sent = flood.join().unwrap();
    drop(channel);

    let told = format!("{:#?}", summary.receiver);
    assert_eq!(summary.receiver.lost.base, 0, "{told}");
    assert!(summary.receiver.frames.base > 10, "{told}");
    let chuff = chuff.stop().await;
    let told = format!("{chuff:#?}, sent {sent}");
    let dropped = chuff.crowded_out.get("enemy").copied().unwrap_or(0);
    assert!(dropped > 0, "{told}");
    assert_eq!(chuff.udp.crowded_out, dropped, "{told}");
    server.stop().await;
}

#[real_time(tokio)]
async fn garbage_on_the_session_channel_is_answered_counted_and_cut_off() {
    let node = start(server(DATAGRAMS, 5)).await;
    let lines: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"{\"type\":\"list_flows\"}\n",
        b"{\"type\":\"hello\",\"node\":\"x\",\"id\":1,\"version\":99,\"udp_port\":1,\"carriage\":\"cells\",\"clock\":\"\"}\n",
        &[b'x'; 70_000],
    ];
    for line in lines {
        let mut stream = TcpStream::connect(node.addr).await.unwrap();
        // The node may have hung up before it has read everything.
        let _ = stream.write_all(line).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let read = timeout(LONG, stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "not cut off after {:?}", &line[..20]);
    }
    // A neighbour that spoke well at first and then raves.
    let mut stream = hello(node.addr, "raver", 9).await;
    for _ in 0..40 {
        let _ = stream.write_all(b"[1,2,3]\n").await;
    }
    let mut answer = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the raver was not cut off");
    // Others are served all the while.
    assert_eq!(list_flows(node.addr).await.unwrap().len(), 1);
    let summary = node.stop().await;
    assert_eq!(summary.channels.rejected, 4, "{:?}", summary.channels);
    assert!(summary.channels.malformed >= 16, "{:?}", summary.channels);
}

#[real_time(tokio)]
async fn session_messages_of_the_fuzzer_do_no_harm() {
    let node = start(server(DATAGRAMS, 4)).await;
    let mut receiver = join(join_config(node.addr, sink("guest", 11, DATAGRAMS)));
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/signal");
    let files = std::fs::read_dir(corpus).into_iter().flatten().flatten();
    for (i, file) in files.take(200).enumerate() {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let mut fuzzer = hello(node.addr, &format!("fuzzer{i}"), 10_000 + i as u16).await;
        // The node may hang up at any time.
        let _ = fuzzer.write_all(&bytes).await;
        let _ = fuzzer.write_all(b"\n").await;
    }
    assert!(!list_flows(node.addr).await.unwrap().is_empty());
    let summary = receiver.end().await.unwrap();
    assert!(summary.receiver.frames.base > 8);
    assert_eq!(
        (summary.receiver.lost.base, summary.receiver.late_base),
        (0, 0)
    );
    node.stop().await;
}

#[real_time(tokio)]
async fn a_neighbour_that_reads_nothing_is_cut_off() {
    let node = start(server(DATAGRAMS, 5)).await;
    let mut deaf = hello(node.addr, "deaf", 9).await;
    let question = Signal::ListFlows.to_line().unwrap().repeat(100);
    let asking = async { while deaf.write_all(&question).await.is_ok() {} };
    assert!(
        timeout(LONG, asking).await.is_ok(),
        "the node still listens to somebody who does not"
    );
    let summary = node.stop().await;
    assert_eq!(summary.channels.slow, 1, "{:?}", summary.channels);
}

#[real_time(tokio)]
async fn callers_beyond_the_limit_are_turned_away() {
    let mut config = server(DATAGRAMS, 5);
    config.max_connections = 3;
    let node = start(config).await;
    let mut held = Vec::new();
    for i in 0..3 {
        held.push(hello(node.addr, &format!("n{i}"), 0).await);
    }
    sleep(Duration::from_millis(50)).await;
    let mut one_more = hello(node.addr, "n3", 0).await;
    let mut answer = Vec::new();
    let read = timeout(LONG, one_more.read_to_end(&mut answer)).await;
    assert!(read.is_ok());
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.contains("\"error\"") && answer.contains("all 3 places"),
        "{answer}"
    );
    drop(held);
    assert_eq!(node.stop().await.channels.rejected, 1);
}

#[real_time(tokio)]
async fn nobody_takes_the_name_or_the_address_of_somebody_else() {
    let node = start(server(DATAGRAMS, 5)).await;
    let own = hello(node.addr, "server", 7_001).await;
    let first = hello(node.addr, "first", 7_002).await;
    sleep(Duration::from_millis(50)).await;
    let thief = hello(node.addr, "thief", 7_002).await;
    let twin = hello(node.addr, "first", 7_003).await;
    for (mut stream, refused) in [(own, true), (first, false), (thief, true), (twin, true)] {
        let mut answer = vec![0; 4_096];
        let count = timeout(LONG, stream.read(&mut answer))
            .await
            .unwrap()
            .unwrap();
        let text = String::from_utf8_lossy(&answer[..count]);
        let first = text.lines().next().unwrap_or_default();
        let no = first.contains("\"error\"") || first.contains("\"name_in_use\"");
        assert_eq!(no, refused, "{first}");
    }
    node.stop().await;
}

#[real_time(tokio)]
async fn a_port_in_use_is_told_as_such() {
    let node = start(server(DATAGRAMS, 5)).await;
    let mut second = switch("second", 3, DATAGRAMS, &[]);
    second.listen = node.addr;
    let error = Node::bind(second).await.err().unwrap();
    assert!(matches!(error, NetError::PortInUse { .. }), "{error}");
    assert!(error.to_string().contains(&node.addr.to_string()));
    node.stop().await;
}

/// As that of a server that was killed immediately before.
#[real_time(tokio)]
async fn a_port_that_becomes_free_within_a_second_is_taken() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = switch("next", 3, DATAGRAMS, &[]);
    config.listen = held.local_addr().unwrap();
    let input = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = LiveFrom::Udp(input.local_addr().unwrap());
    let free = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop((held, input));
    });
    let bound = Node::bind(config).await;
    assert!(bound.is_ok(), "{:?}", bound.err());
    free.join().unwrap();
    let held = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let live = LiveFrom::Udp(held.local_addr().unwrap());
    let free = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(held);
    });
    assert!(LiveInput::open(live).is_ok());
    free.join().unwrap();
    assert!(LiveInput::open(from).is_ok());
}

#[real_time(tokio)]
async fn an_unreachable_upstream_ends_the_node_only_if_asked_to() {
    let nobody = free_port();
    let mut config = switch("hasty", 2, DATAGRAMS, &[nobody]);
    config.connect = Connect::FailFast;
    let error = start(config).await.end().await.unwrap_err();
    assert!(matches!(error, NetError::Unreachable { .. }), "{error}");

    let mut hasty = join_config(nobody, sink("hasty", 3, DATAGRAMS));
    hasty.start_within = Some(Span::from_ms(300));
    let begun = Instant::now();
    let error = join(hasty).end().await.unwrap_err();
    assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&nobody.to_string()), "{error}");
    let passed = begun.elapsed();
    assert!(
        Duration::from_millis(300) <= passed && passed < Duration::from_secs(20),
        "{passed:?}"
    );

    // The patient ones are served once somebody is there.
    let mut patient = join(join_config(nobody, sink("patient", 4, DATAGRAMS)));
    patient
        .wait_for(|event| matches!(event, JoinEvent::Disconnected { .. }))
        .await;
    let mut config = server(DATAGRAMS, 5);
    config.listen = nobody;
    let server = start(config).await;
    patient
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    patient.stop().await;
    server.stop().await;
}

/// Waiting changes nothing where another program listens.
#[real_time(tokio)]
async fn a_receiver_that_calls_another_program_does_not_wait() {
    let web = TcpListener::bind(localhost()).await.unwrap();
    let addr = web.local_addr().unwrap();
    let answering = tokio::spawn(async move {
        let (mut stream, _) = web.accept().await.unwrap();
        let mut question = [0; 512];
        let _ = stream.read(&mut question).await.unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    });
    let mut config = join_config(addr, sink("guest", 4, DATAGRAMS));
    config.start_within = Some(Span::from_secs(60));
    let error = timeout(Duration::from_secs(10), join(config).end()).await;
    let error = error.expect("an immediate end").unwrap_err();
    assert!(error.to_string().contains("another protocol"), "{error}");
    answering.await.unwrap();
}

/// All packets of the first call are lost: it fails after 3 s, and the next one succeeds.
#[real_time(tokio)]
async fn a_receiver_calls_a_silent_host_again() {
    let own = identity();
    let node = start(protected(server(DATAGRAMS, 5), &own)).await;
    let lossy = UdpSocket::bind(localhost()).unwrap();
    let through = lossy.local_addr().unwrap();
    let mut config = join_config(through, sink("patient", 4, DATAGRAMS));
    config.upstream = trusted(through, &own);
    config.start_within = Some(Span::from_secs(20));
    let mut patient = join(config);
    patient
        .wait_for(|event| matches!(event, JoinEvent::Disconnected { reason } if reason.contains("no answer")))
        .await;
    drop(lossy);
    let relay = RelayConfig {
        listen: through,
        to: node.addr,
        there: PathConfig::default(),
        back: PathConfig::default(),
        seed: 1,
        max_clients: 8,
        believe_clients: false,
        from_port: None,
    };
    let relay = Relay::bind(relay).await.unwrap();
    let stop = CancellationToken::new();
    let (statistics, _) = mpsc::channel(1);
    let carrying = tokio::spawn(relay.run(stop.clone(), statistics));
    patient
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    patient.stop().await;
    stop.cancel();
    carrying.await.unwrap().unwrap();
    node.stop().await;
}

#[real_time(tokio)]
async fn losses_of_a_link_are_those_that_were_ordered() {
    let mut config = NodeConfig::new(
        switch_config("server", 1),
        common::localhost(),
        port(DATAGRAMS, None),
    );
    config.sources = vec![source("film", 1, DATAGRAMS, 3)];
    link_to(&mut config, "far", port(DATAGRAMS, None));
    let far: &mut layercast_net::Neighbour = config.ports.get_mut("far").unwrap();
    far.link.delay = layercast_core::Span::from_ms(30);
    far.link.loss = layercast_link::Loss::Bernoulli { p: 0.02 };
    let server = start(config).await;
    let receiver = join(join_config(server.addr, sink("far", 11, DATAGRAMS)));
    let summary = receiver.end().await.unwrap();
    let links: BTreeMap<_, _> = server.stop().await.links;
    assert!(links["far"].lost > 0, "{links:?}");
    let receiver = &summary.receiver;
    assert!(receiver.delay_ms.p50 >= 30.0, "{receiver:#?}");
    let lost = receiver.lost.base + receiver.lost.e1 + receiver.lost.e2;
    assert!(lost > 0 && lost <= links["far"].lost, "{receiver:#?}");
    assert!(
        receiver
            .levels
            .iter()
            .any(|(_, level)| *level == Level::FULL)
    );
}

#[real_time(tokio)]
async fn a_flood_of_joins_by_one_neighbour_makes_no_frame_of_others_late() {
    let node = start(server(DATAGRAMS, 6)).await;
    let mut honest = join(join_config(node.addr, sink("guest", 11, DATAGRAMS)));
    honest
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    let flood = hello(node.addr, "flood", 7_004).await;
    let (mut answers, mut joins) = flood.into_split();
    let reading = tokio::spawn(async move {
        let mut all = Vec::new();
        let _ = answers.read_to_end(&mut all).await;
        String::from_utf8_lossy(&all)
            .matches("too_many_members")
            .count()
    });
    for n in 0..4_096 {
        let join = Signal::Join {
            flow: FlowId(1),
            epoch: layercast_wire::Epoch::default(),
            member: Member {
                name: format!("member {n}"),
                id: NodeId(1_000 + n),
            },
            level: Level::FULL,
            proof: None,
            again: false,
            answer: None,
        };
        joins.write_all(&join.to_line().unwrap()).await.unwrap();
    }
    let receiver = honest.end().await.unwrap().receiver;
    assert_eq!(
        (receiver.lost.base, receiver.late_base),
        (0, 0),
        "{receiver:#?}"
    );
    assert!(receiver.frames.base > 8, "{receiver:#?}");
    node.stop().await;
    drop(joins);
    let refused = timeout(LONG, reading).await.unwrap().unwrap();
    assert_eq!(refused, 4_096 - MAX_MEMBERS_PER_PORT);
}

#[real_time(tokio)]
async fn a_receiver_whose_media_come_from_another_address_says_so() {
    let server = start(server(DATAGRAMS, 30)).await;
    // A forwarder of TCP connections: the media of the server come from its own address.
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let called = listener.local_addr().unwrap();
    let to = server.addr;
    let forwarder = tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(to).await.unwrap();
        tokio::io::copy_bidirectional(&mut near, &mut far).await
    });
    let mut config = join_config(called, sink("guest", 11, DATAGRAMS));
    config.must_receive = true;
    config.leave_at = Some(Clock::get().now() + Span::from_secs(3));
    let error = join(config).end().await.unwrap_err();
    assert!(matches!(error, NetError::Nothing { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&called.to_string()) && text.contains("address other than"),
        "{text}"
    );
    server.stop().await;
    forwarder.abort();
}
