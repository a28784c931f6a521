//! Flows from atc over three switches to dwp, as the evaluations of METS have them (specs/mets.md 4.1),
//! with hosts of 1996 or of today: what to run comes as JSON on standard input.

use std::io::{Read, stdin};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use layercast_core::{
    FlowId, FrameRate, GroupId, NodeId, Observer, Record, Span, Time, TraceEvent,
};
use layercast_link::host::{ReceiveCosts, SendCosts};
use layercast_media::Clip;
use layercast_mets::{PlayoutConfig, Shaping, SinkConfig, SourceConfig};
use layercast_net::{CancellationToken, Clock, HostEmulation, JoinConfig, JoinSummary, run_join};
use layercast_wire::Carriage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Failed;
use crate::flow::{Hosting, Running, chain, frames, local, runtime, source};

/// Until all have joined.
const LEAD: Span = Span::from_secs(2);
/// What is on its way at the end still arrives.
const DRAIN: Span = Span::from_ms(1_500);
const CARRIAGE: Carriage = Carriage::Cells;

/// What to run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    /// How long.
    seconds: f64,
    /// Of everything that is random.
    #[serde(default)]
    seed: u64,
    flows: Vec<FlowJob>,
    /// What the sending and the receiving host cost; nothing: they are those of today.
    #[serde(default)]
    sender: Costs,
    #[serde(default)]
    receiver: Costs,
    /// Stalls of the receiving host: when, how long, in seconds.
    #[serde(default)]
    stalls: Vec<(f64, f64)>,
    /// How the first flow is played.
    #[serde(default)]
    playout: PlayoutConfig,
    /// Whether to tell the times of each frame.
    #[serde(default)]
    frames: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowJob {
    /// Lines `frame_no type bytes`.
    trace: String,
    /// Frames in this number of seconds.
    frame_rate: (u32, u32),
    /// When the first frame is due, in seconds.
    start: f64,
    shaping: Shaping,
    /// Fixed playout delay in ms; 0: the jitter filter finds it.
    delay_max_ms: u32,
}

/// Costs in microseconds, by the names they have in a scenario.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Costs {
    send_cell: u64,
    send_packet: u64,
    receive_cell: u64,
    receive_packet: u64,
    nic_cells: u32,
    stall_rate: f64,
    stall_max: u64,
    deliver_packet: u64,
    deliver_cell: u64,
    clock_tick: u64,
}

/// What happened to a frame, and when: sent, received (its delay with it) or played.
#[derive(Clone, Copy, Serialize)]
struct Seen(&'static str, u32, u32, f64, f64);

/// Takes the times of all frames, at source and sinks; all nodes share one.
#[derive(Clone)]
struct Recorder {
    epoch: Time,
    wanted: bool,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Observer for Recorder {
    fn record(&mut self, record: &Record<'_>) {
        let end = matches!(record.subject.machine, "source" | "sink");
        let (what, flow, seq, delay) = match &record.event {
            TraceEvent::Sent { flow, seq, .. } => ("sent", flow, seq, Span::ZERO),
            TraceEvent::Received {
                flow, seq, delay, ..
            } => ("received", flow, seq, *delay),
            TraceEvent::Played {
                flow, seq, delay, ..
            } => ("played", flow, seq, *delay),
            _ => return,
        };
        if let (true, Ok(mut seen)) = (end, self.seen.lock()) {
            let time = record.time.as_secs_f64() - self.epoch.as_secs_f64();
            seen.push(Seen(what, flow.0, *seq, time, delay.as_secs_f64()));
        }
    }

    fn enabled(&self) -> bool {
        self.wanted
    }
}

pub fn run() -> Result<Value, Failed> {
    let mut text = String::new();
    stdin().read_to_string(&mut text)?;
    let job: Job = serde_json::from_str(&text)?;
    let epoch = Clock::get().now() + LEAD;
    let end = epoch + Span::from_secs_f64(job.seconds);
    let recorder = Recorder {
        epoch,
        wanted: job.frames,
        seen: Arc::default(),
    };
    let mut sources = Vec::new();
    for (number, flow) in job.flows.iter().enumerate() {
        let config = source_of(flow, number as u32, epoch, &job)?;
        sources.push(local(config.0, frames(&config.1)));
    }
    let atc = Hosting {
        sources,
        carriage: CARRIAGE,
        host: job.sender.emulation(&job, Vec::new()),
    };
    let atc = Running::with("atc", 1, &[], atc, recorder.clone())?;
    let mut nodes = chain(atc, &["chuff", "sparrow", "rook"], CARRIAGE)?;
    let at = |seconds: f64| epoch + Span::from_secs_f64(seconds);
    let stalls = job.stalls.iter();
    let stalls = stalls.map(|(from, length)| (at(*from), Span::from_secs_f64(*length)));
    let dwp = Hosting {
        carriage: CARRIAGE,
        host: job.receiver.emulation(&job, stalls.collect()),
        ..Hosting::default()
    };
    let upstream = nodes[nodes.len() - 1].addr;
    nodes.push(Running::with(
        "dwp",
        5,
        &[upstream],
        dwp,
        layercast_core::Off,
    )?);
    let sinks = join_all(
        &job,
        nodes[nodes.len() - 1].addr,
        epoch,
        end + DRAIN,
        &recorder,
    )?;
    let mut ends = Vec::new();
    let mut host_lost: u64 = sinks.iter().map(|sink| sink.udp.host_lost).sum();
    for node in nodes {
        let (summary, _) = node.stop()?;
        host_lost += summary.udp.host_lost;
        ends.push(summary);
    }
    let sent = ends[0].sources.values();
    let seen = recorder.seen.lock().map_err(|_| "a recorder panicked")?;
    Ok(json!({
        "atc": ends[0].host,
        "dwp": ends[4].host,
        "frames_sent": sent.map(|it| it.sent.iter().map(|(_, n)| *n).sum::<u64>()).sum::<u64>(),
        "host_lost": host_lost,
        "latest_timer_us": ends.iter().map(|it| it.timers.worst_us).max(),
        "missed_ticks": ends.iter().map(|it| it.timers.missed_ticks).sum::<u64>(),
        "frames": *seen,
    }))
}

/// The source of flow `number`, and its clip.
fn source_of(
    flow: &FlowJob,
    number: u32,
    epoch: Time,
    job: &Job,
) -> Result<(SourceConfig, Clip), Failed> {
    let rate = FrameRate {
        num: flow.frame_rate.0,
        den: flow.frame_rate.1,
    };
    let clip = Clip::parse_trace(&flow.trace, rate)?;
    let start = epoch + Span::from_secs_f64(flow.start);
    let mut config = source(&clip, flow.delay_max_ms, start);
    config.carriage = CARRIAGE;
    config.mtu_payload =
        SourceConfig::new("", NodeId(1), config.flow.clone(), CARRIAGE).mtu_payload;
    config.flow.id = FlowId(1 + number);
    config.flow.spec.flow_id = config.flow.id;
    config.flow.group = GroupId(1 + number);
    config.flow.name = format!("flow{number}");
    config.vci = SourceConfig::FIRST_VCI + u16::try_from(number)?;
    config.shaping = flow.shaping;
    config.clock_tick = Span::from_us(job.sender.clock_tick);
    config.seed = job.seed;
    config.admission = false;
    Ok((config, clip))
}

impl Costs {
    fn emulation(&self, job: &Job, stalls: Vec<(Time, Span)>) -> HostEmulation {
        HostEmulation {
            send: SendCosts {
                cell: Span::from_us(self.send_cell),
                packet: Span::from_us(self.send_packet),
            },
            receive: ReceiveCosts {
                cell: Span::from_us(self.receive_cell),
                packet: Span::from_us(self.receive_packet),
                nic_cells: self.nic_cells,
                deliver_packet: Span::from_us(self.deliver_packet),
                deliver_cell: Span::from_us(self.deliver_cell),
            },
            stall_rate: self.stall_rate,
            stall_max: Span::from_us(self.stall_max),
            stalls,
            seed: job.seed,
        }
    }
}

/// A receiver for each flow, all behind dwp, until `end`.
fn join_all(
    job: &Job,
    dwp: std::net::SocketAddr,
    epoch: Time,
    end: Time,
    recorder: &Recorder,
) -> Result<Vec<JoinSummary>, Failed> {
    let joined = runtime()?.block_on(async {
        let mut joining = Vec::new();
        for number in 0..job.flows.len() as u32 {
            let (name, flow) = (format!("sink{number}"), format!("flow{number}"));
            let mut sink = SinkConfig::new(&name, NodeId(100 + number), &flow, CARRIAGE);
            sink.seed = job.seed + u64::from(number);
            if number == 0 {
                sink.playout = job.playout;
            }
            let config = JoinConfig {
                leave_at: Some(end),
                until_closed: false,
                ..JoinConfig::new(dwp, sink, epoch)
            };
            let mut recorder = recorder.clone();
            joining.push(tokio::spawn(async move {
                let (events, _) = tokio::sync::mpsc::channel(1);
                run_join(config, CancellationToken::new(), events, &mut recorder).await
            }));
        }
        let mut sinks = Vec::new();
        for sink in joining {
            sinks.push(sink.await??);
        }
        Ok::<_, Failed>(sinks)
    });
    // What the last of them said is on its way.
    thread::sleep(Duration::from_millis(100));
    joined
}
