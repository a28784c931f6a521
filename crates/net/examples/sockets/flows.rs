//! METS E3 on loopback (specs/mets.md 4.5, 4.6 and section 5, b2): one-way delay of one flow and of
//! eight over three switches to one host.

use layercast_core::{FlowId, GroupId, NodeId, Span};
use layercast_media::{Clip, Synthetic};
use layercast_net::{CancellationToken, Clock, JoinConfig, run_join};
use layercast_transport::mets::{Shaping, SinkConfig, SourceConfig};
use layercast_wire::Carriage;
use serde_json::{Value, json};

use crate::Failed;
use crate::flow::{Delays, Running, fps, frames, local, runtime, source};

const SWITCHES: u32 = 3;
const SECONDS: u32 = 20;
const FPS: u32 = 24;

pub fn run() -> Result<Value, Failed> {
    let mut all = Vec::new();
    for count in [1, 8] {
        eprintln!("sockets: {count} flows");
        all.push((count, delays(count)?));
    }
    let shown = all.iter().map(|(count, delays)| {
        let (mean, max) = mean_and_max(delays);
        json!({ "flows": count, "frames": delays.len(), "mean_ms": mean, "max_ms": max })
    });
    let [one, eight] = [mean_and_max(&all[0].1), mean_and_max(&all[1].1)];
    Ok(json!({
        "mean_grows_less_than_max": eight.0 - one.0 < eight.1 - one.1,
        "runs": shown.collect::<Vec<Value>>(),
    }))
}

fn mean_and_max(delays: &[f64]) -> (f64, f64) {
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let max = delays.iter().copied().fold(0.0, f64::max);
    let ms = |us: f64| (us / 10.0).round() / 100.0;
    (ms(mean), ms(max))
}

/// Delays in microseconds of all frames of so many flows of a talking head, at random phases.
fn delays(count: u32) -> Result<Vec<f64>, Failed> {
    let start = Clock::get().now() + Span::from_secs(2);
    let mut random = layercast_core::Stream::new(1, "phases");
    let mut sources = Vec::new();
    for number in 0..count {
        let clip = Clip::synthetic(Synthetic::Lougher, fps(FPS), FPS * SECONDS, number.into());
        let phase = Span::from_ms(random.below(500));
        let mut config = source(&clip, 1_000, start + phase);
        config.flow.id = FlowId(1 + number);
        config.flow.spec.flow_id = config.flow.id;
        config.flow.group = GroupId(1 + number);
        config.flow.name = format!("flow{number}");
        config.vci = SourceConfig::FIRST_VCI + number as u16;
        // mets.md 4.5.
        config.shaping = Shaping::Bucket { b: 17, p: 1 };
        sources.push(local(config, frames(&clip)));
    }
    let mut nodes = vec![Running::with("server", 1, &[], sources)?];
    for number in 0..SWITCHES {
        let upstream = nodes[nodes.len() - 1].addr;
        nodes.push(Running::start(
            &format!("switch{number}"),
            2 + number,
            &[upstream],
        )?);
    }
    let addr = nodes[nodes.len() - 1].addr;
    let mut all = Vec::new();
    runtime()?.block_on(async {
        let mut joined = Vec::new();
        for number in 0..count {
            let name = format!("sink{number}");
            let flow = format!("flow{number}");
            let sink = SinkConfig::new(&name, NodeId(100 + number), &flow, Carriage::Datagrams);
            let config = JoinConfig::new(addr, sink, start);
            joined.push(tokio::spawn(async move {
                let mut delays = Delays::default();
                let (events, _) = tokio::sync::mpsc::channel(1);
                let running = run_join(config, CancellationToken::new(), events, &mut delays);
                running.await.map(|_| delays.0)
            }));
        }
        for sink in joined {
            all.append(&mut sink.await??);
        }
        Ok::<(), Failed>(())
    })?;
    for node in nodes {
        node.stop()?;
    }
    Ok(all)
}
