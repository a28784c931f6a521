//! The delay that each switch on the way adds.

use layercast_core::{NodeId, Span};
use layercast_mets::{Shaping, SinkConfig};
use layercast_net::{CancellationToken, Clock, JoinConfig, run_join};
use layercast_wire::Carriage;
use serde_json::{Value, json};

use crate::Failed;
use crate::flow::{
    Delays, FLOW, Running, base_clip, chain, fps, frames, local, quantiles, runtime, source,
};

const SWITCHES: [&str; 3] = ["chuff", "sparrow", "rook"];
/// Frames of one datagram, of the base layer only.
const FPS: u32 = 500;
const BYTES: u32 = 1_000;
const SECONDS: u32 = 10;

pub fn run() -> Result<Value, Failed> {
    let mut ways = Vec::new();
    for switches in 0..=SWITCHES.len() {
        eprintln!("sockets: {switches} switches");
        let mut delays = way(switches)?;
        ways.push(json!({ "switches": switches, "delay": quantiles(&mut delays) }));
    }
    let between = |what: &str| -> Option<f64> {
        let delay = |way: &Value| way["delay"][what].as_f64();
        let added = (delay(ways.last()?)? - delay(ways.first()?)?) / SWITCHES.len() as f64;
        Some((added * 10.0).round() / 10.0)
    };
    Ok(json!({
        "added_per_switch_p50_us": between("p50_us"),
        "added_per_switch_p99_us": between("p99_us"),
        "ways": ways,
    }))
}

/// Delays of frames that cross `switches` switches, each on a thread of its own.
fn way(switches: usize) -> Result<Vec<f64>, Failed> {
    let sizes = std::iter::repeat_n(BYTES, (FPS * SECONDS) as usize);
    let clip = base_clip(sizes, fps(FPS))?;
    let start = Clock::get().now() + Span::from_secs(1);
    let mut config = source(&clip, 1_000, start);
    config.shaping = Shaping::Off;
    let server = Running::server(vec![local(config, frames(&clip))])?;
    let nodes = chain(server, &SWITCHES[..switches], Carriage::Datagrams)?;
    let sink = SinkConfig::new("sink", NodeId(100), FLOW, Carriage::Datagrams);
    let config = JoinConfig::new(nodes[nodes.len() - 1].addr, sink, start);
    let mut delays = Delays::default();
    let (events, _) = tokio::sync::mpsc::channel(1);
    let running = run_join(config, CancellationToken::new(), events, &mut delays);
    runtime()?.block_on(running)?;
    for node in nodes {
        node.stop()?;
    }
    Ok(delays.0)
}
