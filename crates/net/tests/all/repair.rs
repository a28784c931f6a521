//! Repair of lost datagrams on links: over lossy ports, frames are bit for bit those that were sent.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use layercast_core::{FrameRate, Serial, Span};
use layercast_link::{LinkConfig, Loss};
use layercast_media::{Clip, Synthetic};
use layercast_mets::switch::PortConfig;
use layercast_mets::{AppFrame, PlayedFrame};
use layercast_net::{
    Frames, GroupPort, Identity, JoinConfig, JoinSummary, LinkRepairStats, NodeConfig, NodeSummary,
    Output,
};
use layercast_repair::{Feedback, Head, LayerRepairs, Means, Missing};
use layercast_wire::{Carriage, Payload};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::common::neighbour::{Neighbour, identity, protected, trusted};
use crate::common::{join, join_config, link_to, port, real_time, server, sink, start, switch};

const SECONDS: u32 = 4;
const DATAGRAMS: Carriage = Carriage::Datagrams;

/// A server whose frames all differ, and the frames; it waits for `joined` receivers.
fn film(joined: u32) -> (NodeConfig, Vec<Bytes>) {
    let rate = FrameRate { num: 48, den: 1 };
    let clip = Clip::synthetic(Synthetic::Lougher, rate, 48 * SECONDS, 1);
    let octets = |number: usize, size: u32| {
        let octet = |at: u32| (number as u32 * 31 + at / 7 + at * at) as u8;
        Bytes::from_iter((0..size).map(octet))
    };
    let frames: Vec<AppFrame> = clip
        .frames
        .into_iter()
        .enumerate()
        .map(|(number, frame)| AppFrame {
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            time: frame.time,
            payload: Payload::Bytes(octets(number, frame.size)),
        })
        .collect();
    let sent = frames.iter().map(|frame| octets_of(&frame.payload));
    let sent = sent.collect();
    let mut config = server(DATAGRAMS, SECONDS);
    config.repair = Some(Means::Auto);
    config.sources[0].frames = Frames::of(frames.into_iter());
    config.sources[0].start_when_joined = joined;
    (config, sent)
}

fn octets_of(payload: &Payload) -> Bytes {
    let mut octets = Vec::new();
    payload.append_to(&mut octets);
    octets.into()
}

fn lossy(loss: f64) -> LinkConfig {
    LinkConfig {
        delay: Span::from_ms(20),
        loss: Loss::Bernoulli { p: loss },
        ..LinkConfig::default()
    }
}

fn lossy_port(config: &mut NodeConfig, name: &str, loss: f64) {
    link_to(config, name, port(DATAGRAMS, None));
    if let Some(port) = config.ports.get_mut(name) {
        port.link = lossy(loss);
    }
}

/// A receiver that plays 400 ms after emission, with losses on its way back, too.
fn receiver(config: JoinConfig, loss: f64) -> (JoinConfig, mpsc::Receiver<PlayedFrame>) {
    let (played, frames) = mpsc::channel(4_096);
    let mut config = JoinConfig {
        repair: true,
        link: lossy(loss),
        output: Output::Channel(played),
        ..config
    };
    config.sink.playout.delay = Some(Span::from_ms(400));
    (config, frames)
}

fn all_of(frames: &mut mpsc::Receiver<PlayedFrame>) -> Vec<Bytes> {
    std::iter::from_fn(|| frames.try_recv().ok())
        .map(|frame| octets_of(&frame.payload))
        .collect()
}

/// All frames arrived in time and bit for bit, but those of layers that were not granted yet.
fn assert_whole(summary: &JoinSummary, frames: &[Bytes], sent: &[Bytes]) {
    let receiver = &summary.receiver;
    let lost = receiver.lost;
    assert_eq!(
        (lost.base, lost.e1, lost.e2, receiver.late),
        (0, 0, 0, 0),
        "{summary:#?}"
    );
    let mut rest = sent.iter();
    assert!(
        frames.iter().all(|frame| rest.any(|sent| sent == frame)),
        "{} of {} frames differ or are out of order: {summary:#?}",
        frames.len(),
        sent.len()
    );
    let withheld = receiver.withheld;
    let withheld = (withheld.base + withheld.e1 + withheld.e2) as usize;
    assert_eq!(frames.len() + withheld, sent.len(), "{summary:#?}");
}

fn repairs(summary: &NodeSummary, name: &str) -> LinkRepairStats {
    let repairs = summary.repairs.get(name);
    *repairs.unwrap_or_else(|| panic!("{name} has no repair: {summary:?}"))
}

#[real_time(tokio)]
async fn pictures_over_lossy_links_are_those_that_were_sent() {
    let losses = [("two", 0.02), ("three", 0.03), ("five", 0.05)];
    let (mut config, sent) = film(losses.len() as u32);
    for (name, loss) in losses {
        lossy_port(&mut config, name, loss);
    }
    let server = start(config).await;
    let mut receivers = Vec::new();
    for (id, (name, loss)) in losses.into_iter().enumerate() {
        let sink = sink(name, 11 + id as u32, DATAGRAMS);
        let (config, frames) = receiver(join_config(server.addr, sink), loss);
        receivers.push((name, join(config), frames));
    }
    let mut received = Vec::new();
    for (name, receiver, mut frames) in receivers {
        let summary = receiver.end().await.unwrap();
        received.push((name, summary, all_of(&mut frames)));
    }
    let server = server.stop().await;
    for (name, summary, frames) in received {
        assert!(server.links[name].lost > 0, "{name}");
        assert_whole(&summary, &frames, &sent);
        let receiving = summary.link_repair.expect("the link is repaired").receiving;
        let repaired = receiving.repaired;
        assert!(
            repaired.base + repaired.e1 + repaired.e2 > 0,
            "{name}: {receiving:?}"
        );
        assert_eq!(summary.malformed, 0);
    }
}

#[real_time(tokio)]
async fn each_hop_of_a_protected_path_repairs_its_own_losses() {
    let own = identity();
    let (config, sent) = film(1);
    let mut config = protected(config, &own);
    lossy_port(&mut config, "middle", 0.05);
    let server = start(config).await;
    let mut middle = switch("middle", 2, DATAGRAMS, &[]);
    middle.upstreams = vec![trusted(server.addr, &own)];
    middle.repair = Some(Means::Auto);
    let middle_own = identity();
    let mut middle = protected(middle, &middle_own);
    lossy_port(&mut middle, "guest", 0.05);
    lossy_port(&mut middle, "server", 0.05);
    let middle = start(middle).await;
    let upstream = trusted(middle.addr, &middle_own);
    let mut config = join_config(middle.addr, sink("guest", 11, DATAGRAMS));
    config.upstream = upstream;
    let (config, mut frames) = receiver(config, 0.05);
    let summary = join(config).end().await.unwrap();
    let frames = all_of(&mut frames);
    let middle = middle.stop().await;
    let server = server.stop().await;
    assert_whole(&summary, &frames, &sent);
    for (node, name) in [(&server, "middle"), (&middle, "guest")] {
        let layers = repairs(node, name).sending.layers;
        assert!(
            layers.base.repairs + layers.e1.repairs + layers.e2.repairs > 0,
            "{name}"
        );
    }
    assert_eq!((server.udp.replayed, middle.udp.replayed), (0, 0));
    assert_eq!(summary.udp.forged, 0);
}

/// Two members of a group behind a link that loses 5 %, and their reports too; the second one asks for nothing.
async fn two_members_behind_a_lossy_link(group: SocketAddrV4, own: Option<Arc<Identity>>) {
    let (mut config, sent) = film(2);
    config.identity.clone_from(&own);
    config.groups.push(GroupPort {
        link: layercast_net::Neighbour {
            port: PortConfig {
                name: "lan".into(),
                ..port(DATAGRAMS, None)
            },
            link: lossy(0.05),
        },
        group,
        interface: Ipv4Addr::LOCALHOST,
        members: vec!["asks".into(), "hears".into()],
    });
    let server = start(config).await;
    let mut members = Vec::new();
    for (id, name) in [(11, "asks"), (12, "hears")] {
        let mut config = join_config(server.addr, sink(name, id, DATAGRAMS));
        config.group = Some((group, Ipv4Addr::LOCALHOST));
        if let Some(own) = &own {
            config.upstream = trusted(server.addr, own);
        }
        let (mut config, frames) = receiver(config, 0.05);
        config.repair = name == "asks";
        members.push((join(config), frames));
    }
    let mut received = Vec::new();
    for (member, mut frames) in members {
        let summary = member.end().await.unwrap();
        received.push((summary, all_of(&mut frames)));
    }
    let server = server.stop().await;
    let sending = repairs(&server, "lan").sending;
    let sum = |of: fn(&LayerRepairs) -> u64| {
        let layers = sending.layers;
        of(&layers.base) + of(&layers.e1) + of(&layers.e2)
    };
    assert!(server.links["lan"].lost > 0);
    assert!(
        sum(|layer| layer.repairs) > 0 && sending.rounds > 0,
        "{sending:?}"
    );
    for (summary, frames) in &received {
        assert_whole(summary, frames, &sent);
        let receiving = summary
            .link_repair
            .expect("the group is repaired")
            .receiving;
        let repaired = receiving.repaired;
        assert!(
            repaired.base + repaired.e1 + repaired.e2 > 0,
            "{receiving:?}"
        );
        assert_eq!((summary.malformed, summary.udp.forged), (0, 0));
    }
    let feedback = |at: usize| received[at].0.link_repair.map(|it| it.receiving.feedback);
    assert!(feedback(0) > Some(0) && feedback(1) == Some(0));
}

#[real_time(tokio)]
async fn parities_repair_the_losses_of_a_multicast_group() {
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 5), 47_805);
    two_members_behind_a_lossy_link(group, None).await;
}

#[real_time(tokio)]
async fn sealed_parities_repair_the_losses_of_a_protected_group() {
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 6), 47_806);
    two_members_behind_a_lossy_link(group, Some(identity())).await;
}

#[tokio::test]
async fn a_member_that_cannot_read_a_group_with_repair_is_turned_away() {
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 7), 47_807);
    let (mut config, _) = film(1);
    config.groups.push(GroupPort {
        link: layercast_net::Neighbour {
            port: PortConfig {
                name: "lan".into(),
                ..port(DATAGRAMS, None)
            },
            link: LinkConfig::default(),
        },
        group,
        interface: Ipv4Addr::LOCALHOST,
        members: vec!["plain".into()],
    });
    let server = start(config).await;
    // A neighbour of an earlier version.
    let called = Neighbour::try_call_in_the_clear(server.addr, "plain", None).await;
    let error = called.err().expect("it is turned away");
    assert!(error.contains("--repair off"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn a_neighbour_that_does_not_repair_is_served_as_ever() {
    let (config, _) = film(1);
    let server = start(config).await;
    let plain = join(join_config(server.addr, sink("plain", 11, DATAGRAMS)));
    let summary = plain.end().await.unwrap();
    let server = server.stop().await;
    assert!(summary.link_repair.is_none() && server.repairs.is_empty());
    assert!(summary.receiver.frames.base > 0 && summary.malformed == 0);
}

/// Reports for `time` that everything is lost, thrice each, and counters that were never sent; gives the octets that
/// arrived, with the headers of UDP and IPv4.
async fn request_everything(greedy: &Neighbour, time: Duration) -> u64 {
    let session = greedy.session.expect("the node repairs losses");
    let begun = Instant::now();
    let (mut next, mut octets) = (0_u64, 0);
    while begun.elapsed() < time {
        for datagram in greedy.take() {
            octets += datagram.len() as u64 + 28;
            let counter = match Head::decode(&datagram) {
                Ok((Head::Data { counter, .. }, _)) => counter.0,
                Ok((Head::Repair { counter, .. }, _)) => counter,
                _ => continue,
            };
            next = next.max(u64::from(counter) + 1);
        }
        let len = next.min(5_000) as u16;
        let lost = |hi: u64| {
            let feedback = Feedback {
                session,
                tx_us: Serial(begun.elapsed().as_micros() as u32),
                hi: Serial(hi as u32),
                known: len,
                window_us: 0,
                budget_ms: Some(60_000),
                next_ms: 15,
                missing: vec![Missing {
                    back: len - 1,
                    len,
                    requested: true,
                }],
                arrivals: Vec::new(),
            };
            let mut out = Vec::new();
            Head::Feedback(feedback).encode_into(&mut out);
            out
        };
        if len > 0 {
            for hi in [next + 1_000_000, next - 1, next - 1, next - 1] {
                greedy.send(&lost(hi));
            }
        }
        sleep(Duration::from_millis(2)).await;
    }
    octets
}

#[real_time(tokio)]
async fn a_receiver_that_requests_everything_gets_no_more_than_its_port_grants() {
    const TIME: Duration = Duration::from_secs(3);
    const CELLS: u64 = 3_000;
    let mut config = server(DATAGRAMS, 5);
    config.repair = Some(Means::Auto);
    link_to(&mut config, "granted", port(DATAGRAMS, Some(CELLS)));
    let server = start(config).await;
    let mut victim = join_config(server.addr, sink("victim", 11, DATAGRAMS));
    victim.repair = true;
    let victim = join(victim);
    let mut greedy = Vec::new();
    for name in ["granted", "unlimited"] {
        let mut neighbour = Neighbour::call_with_repair(server.addr, name, Some(1)).await;
        neighbour.join("film").await;
        greedy.push(neighbour);
    }
    let (granted, _) = tokio::join!(
        request_everything(&greedy[0], TIME),
        request_everything(&greedy[1], TIME)
    );
    let most = CELLS * 53 * TIME.as_secs() + (64 << 10);
    assert!(granted <= most, "{granted} of {most} octets");
    let summary = victim.end().await.unwrap();
    let victim = &summary.receiver;
    let frames = (victim.frames.base > 8, victim.lost.base, victim.late_base);
    assert_eq!(frames, (true, 0, 0), "{victim:#?}");
    let server = server.stop().await;
    for name in ["granted", "unlimited"] {
        let sending = repairs(&server, name).sending;
        let layers = [sending.layers.base, sending.layers.e1, sending.layers.e2];
        let media: u64 = layers.iter().map(|layer| layer.octets).sum();
        let repairs: u64 = layers.iter().map(|layer| layer.repair_octets).sum();
        assert!(
            repairs > 0 && sending.feedback_ignored > 0,
            "{name}: {sending:?}"
        );
        if name == "unlimited" {
            assert!(repairs <= media + (64 << 10), "{sending:?}");
        }
    }
    let spared = repairs(&server, "victim");
    assert_eq!(spared.sending.layers.base.lost, 0, "{spared:#?}");
}

#[real_time(tokio)]
async fn a_node_that_is_done_stays_until_its_last_losses_are_repaired() {
    let (mut config, sent) = film(1);
    lossy_port(&mut config, "guest", 0.1);
    config.until_finished = true;
    let server = start(config).await;
    let sink = sink("guest", 11, DATAGRAMS);
    let (config, mut frames) = receiver(join_config(server.addr, sink), 0.0);
    let summary = join(config).end().await.unwrap();
    let frames = all_of(&mut frames);
    assert_whole(&summary, &frames, &sent);
}
