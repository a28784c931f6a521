//! Ports that estimate what their path carries, on sockets and through an emulated path.

use std::time::Duration;

use layercast_core::{FlowId, Level, Rate, Span};
use layercast_link::{LinkConfig, PathConfig, QueueConfig, RateSchedule, RateStep};
use layercast_media::{Clip, Synthetic};
use layercast_mets::AppFrame;
use layercast_mets::switch::PortConfig;
use layercast_net::{
    CancellationToken, Frames, JoinConfig, Means, NodeConfig, Relay, RelayConfig, get_node_stats,
};
use layercast_wire::{Carriage, Payload};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::common::{join, join_config, localhost, port, real_time, server, sink, start};

const DATAGRAMS: Carriage = Carriage::Datagrams;
const SECONDS: u32 = 11;

/// A server of a flow with GOPs of half a second, whose links have no known rate; and the rates of its levels.
fn film() -> (NodeConfig, [f64; 3]) {
    let fps = layercast_core::FrameRate { num: 24, den: 1 };
    let clip = Clip::synthetic(Synthetic::Lougher, fps, 24 * SECONDS, 1);
    let mut config = server(DATAGRAMS, SECONDS);
    config.repair = Some(Means::Auto);
    config.default_port = PortConfig {
        estimated: true,
        ..port(DATAGRAMS, None)
    };
    let source = &mut config.sources[0];
    source.config.flow.spec = clip.flow_spec();
    source.config.flow.spec.flow_id = FlowId(1);
    source.config.flow.spec.delay_max_ms = 1_000;
    let rates = [Level::BASE, Level::E1, Level::FULL]
        .map(|level| clip.flow_spec().rate_at(level).rate().as_bps() as f64);
    let frames = clip.frames.into_iter().map(|frame| AppFrame {
        layer: frame.layer(),
        gop_start: frame.gop_start,
        sound: frame.sound,
        time: frame.time,
        payload: Payload::Zeros(frame.size),
    });
    source.frames = Frames::of(frames);
    source.start_when_joined = 1;
    (config, rates)
}

#[real_time(tokio)]
async fn behind_a_foreign_line_that_becomes_slower_the_base_layer_is_whole() {
    let (config, [base, _, full]) = film();
    let server = start(config).await;
    // Nine tenths of it carry all layers; three quarters of that, not.
    let line = full * 1.15;
    let slower = RateStep {
        after: Span::from_secs(5),
        permille: 650,
    };
    assert!(base < line * 0.65 * 0.9, "{base} of {line}");
    let way = PathConfig {
        rate: Some(Rate::from_bps(line as u64)),
        schedule: RateSchedule::new(vec![slower]).unwrap(),
        queue: QueueConfig::of_limit((line / 8.0 / 48.0 * 0.5) as u32),
        link: LinkConfig {
            delay: Span::from_ms(10),
            ..LinkConfig::default()
        },
    };
    let relay = Relay::bind(RelayConfig {
        listen: localhost(),
        to: server.addr,
        there: way.clone(),
        back: way,
        seed: 1,
        max_clients: 8,
        believe_clients: false,
        from_port: None,
    });
    let relay = relay.await.unwrap();
    let called = relay.local_addr();
    let stop = CancellationToken::new();
    let path = tokio::spawn(relay.run(stop.clone(), mpsc::channel(1).0));
    let mut config = JoinConfig {
        repair: true,
        ..join_config(called, sink("guest", 11, DATAGRAMS))
    };
    // A key frame of this clip alone takes 300 ms on the slower line.
    config.sink.playout.delay = Some(Span::from_ms(800));
    let receiver = join(config);
    sleep(Duration::from_secs(9)).await;
    let links = get_node_stats(server.addr, None).await.unwrap().links;
    let summary = receiver.end().await.unwrap();
    drop(server.stop().await);
    stop.cancel();
    let relayed = path.await.unwrap().unwrap();
    let told = format!("{links:#?} {summary:#?} {relayed:#?}");
    let link = links.iter().find(|link| link.neighbour == "guest");
    let found = link.expect("the link is repaired").path.expect("measured");
    let rate = found.rate_bps.expect("the line was full") as f64;
    assert!(found.cuts > 0, "{told}");
    // The line counts the headers of IP and UDP, and the path is used to nine tenths.
    assert!((0.4..1.1).contains(&(rate / (line * 0.65))), "{told}");
    let report = &summary.receiver;
    assert_eq!((report.lost.base, report.late_base), (0, 0), "{told}");
    assert!(report.frames.e2 > 0 && report.withheld.e2 > 0, "{told}");
}
