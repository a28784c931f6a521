//! A receiver that joins between two GOP starts, on sockets.

use std::time::{Duration, Instant};

use layercast_core::{CellRate, FlowId, FrameRate, Layer, Span};
use layercast_media::{Clip, Synthetic};
use layercast_mets::{AppFrame, PlayoutConfig};
use layercast_net::{Frames, JoinConfig, Means, NodeConfig, Output};
use layercast_wire::{Carriage, Payload};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::common::{join, join_config, real_time, server, sink, start};

const DATAGRAMS: Carriage = Carriage::Datagrams;

/// A server of a flow with GOPs of 1 s: three layers, or all frames in the base layer.
fn film(is_layered: bool) -> NodeConfig {
    let rate = FrameRate { num: 12, den: 1 };
    let clip = Clip::synthetic(Synthetic::Lougher, rate, 120, 1);
    let mut config = server(DATAGRAMS, 1);
    config.switch.fast_start = true;
    config.repair = Some(Means::Auto);
    let source = &mut config.sources[0];
    source.config.all_layers = true;
    source.config.flow.spec = clip.flow_spec();
    source.config.flow.spec.flow_id = FlowId(1);
    source.config.flow.spec.delay_max_ms = 800;
    if !is_layered {
        let layers = &mut source.config.flow.spec.layers;
        layers.base.mean.0 += layers.e1.mean.0 + layers.e2.mean.0;
        layers.base.peak.0 += layers.e1.peak.0 + layers.e2.peak.0;
        for layer in [&mut layers.e1, &mut layers.e2] {
            (layer.mean, layer.peak) = (CellRate(0), CellRate(0));
        }
    }
    let frames = clip.frames.into_iter().map(move |frame| AppFrame {
        layer: match is_layered {
            true => frame.layer(),
            false => Layer::Base,
        },
        gop_start: frame.gop_start,
        sound: frame.sound,
        time: frame.time,
        payload: Payload::Zeros(frame.size),
    });
    source.frames = Frames::of(frames);
    config
}

#[real_time(tokio)]
async fn a_late_receiver_starts_within_half_a_second_and_is_not_behind() {
    starts_at_once(film(true)).await;
}

/// No receiver asks for layers of it, and no node grants any.
#[real_time(tokio)]
async fn a_flow_of_base_layer_frames_alone_has_a_fast_start_too() {
    starts_at_once(film(false)).await;
}

async fn starts_at_once(film: NodeConfig) {
    let server = start(film).await;
    let mut early = sink("early", 11, DATAGRAMS);
    early.asks_at_once = true;
    let early = join(join_config(server.addr, early));
    // In the second GOP.
    sleep(Duration::from_millis(1_300)).await;
    let (played, mut frames) = mpsc::channel(4_096);
    let mut late = sink("late", 12, DATAGRAMS);
    late.asks_at_once = true;
    late.playout = PlayoutConfig::live();
    let config = JoinConfig {
        repair: true,
        output: Output::Channel(played),
        ..join_config(server.addr, late)
    };
    let begun = Instant::now();
    let late = join(config);
    let first = timeout(Duration::from_secs(5), frames.recv()).await;
    let first = first.expect("nothing is played").expect("it receives");
    let waited = begun.elapsed();
    assert!(
        first.gop_start && waited < Duration::from_millis(500),
        "{waited:?}"
    );
    let mut last = first;
    while begun.elapsed() < Duration::from_millis(1_500) {
        if let Ok(Some(frame)) = timeout(Duration::from_millis(300), frames.recv()).await {
            last = frame;
        }
    }
    let delay = last.deadline.since(last.emitted);
    assert!(delay < Span::from_ms(300), "{delay:?}");
    let summary = late.stop().await;
    drop(early.stop().await);
    let node = server.stop().await;
    let lost = summary.receiver.lost;
    assert_eq!((lost.base, lost.e1, lost.e2), (0, 0, 0), "{summary:#?}");
    assert!(summary.sink.fast_start > 0, "{summary:#?}");
    // One of the early receiver, too, if it came after the first key frame.
    assert!(matches!(node.switch.fast_starts, 1 | 2));
}
