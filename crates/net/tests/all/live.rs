//! Frames of live producers, frames for programs, and commands to what runs.

use crate::common::{LONG, join, join_config, real_time, server, sink, source, start, switch};
use layercast_core::{Layer, Span};
use layercast_mets::AppFrame;
use layercast_net::{Frames, JoinCommand, JoinEvent, NodeCommand, NodeConfig, Output};
use layercast_wire::{Carriage, Payload};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

fn frame(number: usize) -> AppFrame {
    AppFrame {
        layer: Layer::Base,
        gop_start: true,
        sound: false,
        time: None,
        payload: Payload::Bytes(vec![number as u8; 100].into()),
    }
}

fn live_server(frames: mpsc::Receiver<AppFrame>) -> (NodeConfig, mpsc::Sender<NodeCommand>) {
    let (commands, queue) = mpsc::channel(8);
    let mut config = server(Carriage::Datagrams, 1);
    config.sources[0].frames = Frames::Channel(frames);
    config.commands = Some(queue);
    (config, commands)
}

async fn ask<C, T>(
    commands: &mpsc::Sender<C>,
    question: impl FnOnce(oneshot::Sender<T>) -> C,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    let sent = commands.send(question(reply)).await;
    sent.expect("it runs");
    let within = timeout(LONG, answer);
    within.await.expect("an answer in time").ok()
}

#[real_time(tokio)]
async fn what_a_live_producer_sends_reaches_a_program_and_its_end_ends_the_flow() {
    let (frames, queue) = mpsc::channel(4);
    let (mut config, _commands) = live_server(queue);
    config.sources[0].start_when_joined = 1;
    let server = start(config).await;
    let (played, mut taken) = mpsc::channel(64);
    let mut config = join_config(server.addr, sink("program", 11, Carriage::Datagrams));
    config.output = Output::Channel(played);
    let receiver = join(config);
    let producer = tokio::spawn(async move {
        for number in 0..20 {
            frames.send(frame(number)).await.unwrap();
        }
    });
    let taking = async {
        for number in 0..20 {
            let got = taken.recv().await.expect("a frame");
            assert_eq!(got.payload, frame(number).payload);
        }
    };
    timeout(LONG, taking).await.unwrap();
    producer.await.unwrap();
    // The producer is gone, so the flow closes, and with it the receiver.
    let summary = receiver.end().await.unwrap();
    assert_eq!(summary.receiver.frames.base, 20);
    assert_eq!(server.stop().await.sources["film"].submitted, 20);
}

#[real_time(tokio)]
async fn a_flow_that_waits_for_a_receiver_begins_at_the_level_there_is_room_for() {
    for hops in 0..=2 {
        let mut config = server(Carriage::Datagrams, 2);
        config.sources[0].start_when_joined = 1;
        let mut nodes = vec![start(config).await];
        for hop in 0..hops {
            let upstream = nodes[nodes.len() - 1].addr;
            let name = format!("s{hop}");
            let config = switch(&name, 20 + hop, Carriage::Datagrams, &[upstream]);
            nodes.push(start(config).await);
        }
        let mut sink = sink("guest", 11, Carriage::Datagrams);
        sink.asks_at_once = true;
        let receiver = join(join_config(nodes[nodes.len() - 1].addr, sink));
        let summary = receiver.end().await.unwrap();
        let told = format!("{hops} hops: {:#?}", summary.sink);
        // Two seconds of 48 frames, of every layer.
        let played = &summary.sink.played;
        assert_eq!(played.base + played.e1 + played.e2, 96, "{told}");
        for node in nodes.into_iter().rev() {
            node.stop().await;
        }
    }
}

#[real_time(tokio)]
async fn a_closed_flow_sends_what_was_handed_over_or_counts_it() {
    let (frames, queue) = mpsc::channel(64);
    let (config, commands) = live_server(queue);
    let server = start(config).await;
    for number in 0..64 {
        frames.send(frame(number)).await.unwrap();
    }
    let close = |grace| {
        move |reply| NodeCommand::Close {
            flow: "film".into(),
            grace,
            reply,
        }
    };
    let undelivered = ask(&commands, close(Span::ZERO)).await.unwrap();
    // Those that were on their way through the shaper count as both.
    let sent = {
        let summary = server.stop().await;
        assert!(frames.is_closed());
        summary.sources["film"].sent.base + summary.sources["film"].masked.base
    };
    let all = u64::from(undelivered) + sent;
    assert!((64..70).contains(&all), "{undelivered} and {sent} of 64");
    assert!(undelivered > 32, "{undelivered}");
}

#[real_time(tokio)]
async fn flows_open_and_close_while_a_node_runs() {
    let (_frames, queue) = mpsc::channel(4);
    let (config, commands) = live_server(queue);
    let server = start(config).await;
    let open = |name: &str, id| {
        let source = Box::new(source(name, id, Carriage::Datagrams, 1));
        move |reply| NodeCommand::Open { source, reply }
    };
    let opened = ask(&commands, open("second", 2)).await.unwrap();
    assert_eq!(opened.unwrap().name, "second");
    let twice = ask(&commands, open("second", 3)).await.unwrap();
    assert!(twice.unwrap_err().to_string().contains("open already"));
    let close = |reply| NodeCommand::Close {
        flow: "second".into(),
        grace: Span::from_secs(5),
        reply,
    };
    assert_eq!(ask(&commands, close).await, Some(0));
    let again = ask(&commands, open("second", 2)).await.unwrap();
    assert_eq!(again.unwrap().name, "second");
    let info = |flow: &str| {
        let flow = flow.to_owned();
        move |reply| NodeCommand::Info { flow, reply }
    };
    assert!(ask(&commands, info("third")).await.is_none());
    let state = ask(&commands, info("film")).await.unwrap();
    assert_eq!((state.info.name.as_str(), state.members.len()), ("film", 0));
    let summary = server.stop().await;
    assert_eq!(summary.sources.len(), 2);
}

#[real_time(tokio)]
async fn a_receiver_answers_while_it_receives() {
    let server = start(server(Carriage::Datagrams, 6)).await;
    let (commands, queue) = mpsc::channel(1);
    let mut config = join_config(server.addr, sink("guest", 11, Carriage::Datagrams));
    config.commands = Some(queue);
    let mut receiver = join(config);
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Second(_)))
        .await;
    let stats = ask(&commands, |reply| JoinCommand::Stats { reply }).await;
    assert_eq!(stats.unwrap().joins, 1);
    receiver.stop().await;
    server.stop().await;
}
