//! Receivers of 1.5 Mbit/s that one core feeds, and that one core takes.

use std::thread;
use std::time::{Duration, Instant};

use layercast_core::{NodeId, Off, Span};
use layercast_media::{Clip, Synthetic};
use layercast_mets::SinkConfig;
use layercast_net::{CancellationToken, Clock, JoinConfig, JoinSummary, run_join};
use layercast_wire::Carriage;
use serde_json::{Value, json};

use crate::Failed;
use crate::flow::{FLOW, Running, cpu_seconds, fps, frames, local, runtime, source};

/// 28 frames a second of Canyon are 1.5 Mbit/s.
const FPS: u32 = 28;
const SECONDS: u32 = 12;
const GOP: u64 = 12;
/// Receivers of the first step; twice as many each time, until some are too many.
const FIRST: usize = 16;
/// What a node can have, with its ports for neighbours that are gone.
const MOST: usize = 60_000;
/// The number of times the bound is then halved.
const HALVINGS: usize = 3;
/// How long all receivers together may take to join.
const JOINING: Duration = Duration::from_secs(60);

/// The result with this number of receivers.
struct Step {
    receivers: usize,
    base_lost: u64,
    base_late: u64,
    host_lost: u64,
    played: u64,
    /// Of all layers.
    all_played: u64,
    server_load: f64,
    receiver_load: f64,
}

pub fn run() -> Result<Value, Failed> {
    let mut steps = Vec::new();
    let (mut good, mut bad) = (0, None);
    let mut next = Some(FIRST);
    while let Some(receivers) = next {
        eprintln!("sockets: {receivers} receivers");
        let step = step(receivers)?;
        match step.held() {
            true => good = receivers,
            false => bad = Some(receivers),
        }
        steps.push(step);
        let tried = steps.iter().filter(|step| step.receivers > good).count();
        next = match bad {
            None => Some(2 * receivers).filter(|&more| more <= MOST),
            Some(bad) => Some((good + bad) / 2).filter(|_| tried <= HALVINGS),
        };
    }
    let shown = steps.iter().map(|step| {
        json!({
            "receivers": step.receivers, "base_expected": step.base_expected(),
            "base_played": step.played, "base_lost": step.base_lost, "base_late": step.base_late,
            "host_lost": step.host_lost, "frames_played": step.all_played,
            "server_core_load": round(step.server_load),
            "receiver_core_load": round(step.receiver_load),
        })
    });
    Ok(json!({
        "without_loss": good, "with_loss": bad, "steps": shown.collect::<Vec<Value>>()
    }))
}

impl Step {
    fn base_expected(&self) -> u64 {
        self.receivers as u64 * u64::from(FPS * SECONDS).div_ceil(GOP)
    }

    /// Whether every receiver got every base-layer frame in time.
    fn held(&self) -> bool {
        self.played == self.base_expected() && self.base_lost + self.base_late + self.host_lost == 0
    }
}

fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// One server on one thread, all receivers on another.
fn step(count: usize) -> Result<Step, Failed> {
    let clip = Clip::synthetic(Synthetic::Canyon, fps(FPS), FPS * SECONDS, 1);
    let mut config = source(&clip, 1_000, Clock::get().now());
    // Joining takes its time; the media start when all are there.
    config.start = Clock::get().now() + Span::from_secs(3);
    let start = config.start;
    let mut source = local(config, frames(&clip));
    source.start_when_joined = count as u32;
    let server = Running::server(vec![source])?;
    let addr = server.addr;
    let stop = CancellationToken::new();
    let receiving = thread::spawn({
        let stop = stop.clone();
        move || -> Result<(Vec<JoinSummary>, f64), Failed> {
            let begun = cpu_seconds();
            let mut summaries = Vec::new();
            runtime()?.block_on(async {
                let mut joined = Vec::new();
                for id in 0..count as u32 {
                    let name = format!("receiver{id}");
                    let mut sink =
                        SinkConfig::new(&name, NodeId(100 + id), FLOW, Carriage::Datagrams);
                    sink.seed = u64::from(id);
                    let config = JoinConfig::new(addr, sink, start);
                    let (events, _) = tokio::sync::mpsc::channel(1);
                    let stop = stop.clone();
                    joined.push(tokio::spawn(async move {
                        run_join(config, stop, events, &mut Off).await
                    }));
                }
                for receiver in joined {
                    summaries.push(receiver.await??);
                }
                Ok::<(), Failed>(())
            })?;
            Ok((summaries, cpu_seconds() - begun))
        }
    });
    let begun = Instant::now();
    let most = JOINING + Duration::from_secs(u64::from(SECONDS) + 5);
    // The flow ends by itself once all have joined.
    while !receiving.is_finished() && begun.elapsed() < most {
        thread::sleep(Duration::from_millis(100));
    }
    stop.cancel();
    let (summaries, receiver_seconds) = receiving.join().map_err(|_| "a receiver panicked")??;
    let (node, server_seconds) = server.stop()?;
    let sum = |get: fn(&JoinSummary) -> u64| summaries.iter().map(get).sum::<u64>();
    Ok(Step {
        receivers: count,
        base_lost: sum(|it| it.receiver.lost.base),
        base_late: sum(|it| it.receiver.late_base),
        host_lost: sum(|it| it.udp.host_lost) + node.udp.host_lost,
        played: sum(|it| it.receiver.frames.base),
        all_played: sum(|it| it.receiver.frames.iter().map(|(_, count)| *count).sum()),
        server_load: server_seconds / f64::from(SECONDS),
        receiver_load: receiver_seconds / f64::from(SECONDS),
    })
}
