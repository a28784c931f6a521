//! Flows, nodes on threads of their own, and quantiles.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

use layercast_core::{FlowId, FrameRate, GroupId, NodeId, Observer, Off, Time};
use layercast_media::Clip;
use layercast_mets::switch::{PortConfig, SwitchConfig};
use layercast_mets::{AppFrame, SourceConfig};
use layercast_net::{
    CancellationToken, Frames, HostEmulation, LocalSource, Node, NodeConfig, NodeSummary,
    clock_name,
};
use layercast_wire::{Carriage, FlowInfo, Payload};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::Failed;

pub const FLOW: &str = "film";

/// A source of `clip` that starts at `start`.
pub fn source(clip: &Clip, delay_max_ms: u32, start: Time) -> SourceConfig {
    let mut spec = clip.flow_spec();
    spec.flow_id = FlowId(1);
    spec.delay_max_ms = delay_max_ms;
    let info = FlowInfo {
        group: GroupId(1),
        spec,
        clock: clock_name(),
        ..FlowInfo::new(FlowId(1), FLOW, "server")
    };
    SourceConfig {
        start,
        ..SourceConfig::new("server", NodeId(1), info, Carriage::Datagrams)
    }
}

/// The frames of `clip` as a source takes them.
pub fn frames(clip: &Clip) -> impl Iterator<Item = AppFrame> + Send + use<> {
    clip.frames.clone().into_iter().map(|frame| AppFrame {
        layer: frame.layer(),
        gop_start: frame.gop_start,
        sound: frame.sound,
        time: None,
        payload: Payload::Zeros(frame.size),
    })
}

pub fn fps(num: u32) -> FrameRate {
    FrameRate { num, den: 1 }
}

/// What a node has besides neighbours.
#[derive(Default)]
pub struct Hosting {
    pub sources: Vec<LocalSource>,
    /// Of its links.
    pub carriage: Carriage,
    /// The host it plays.
    pub host: HostEmulation,
}

/// A node that runs on a thread of its own.
pub struct Running {
    pub addr: SocketAddr,
    stop: CancellationToken,
    thread: JoinHandle<Result<(NodeSummary, f64), Failed>>,
}

impl Running {
    /// Starts a server of `sources`, links carrying datagrams.
    pub fn server(sources: Vec<LocalSource>) -> Result<Running, Failed> {
        let hosting = Hosting {
            sources,
            ..Hosting::default()
        };
        Running::with("server", 1, &[], hosting, Off)
    }

    /// Starts a node with these neighbours upstream; `obs` sees its machines.
    pub fn with<O: Observer + Send + 'static>(
        name: &str,
        id: u32,
        upstreams: &[SocketAddr],
        hosting: Hosting,
        mut obs: O,
    ) -> Result<Running, Failed> {
        let switch = SwitchConfig {
            name: name.into(),
            id: NodeId(id),
            seed: u64::from(id),
            ..SwitchConfig::default()
        };
        let port = PortConfig {
            carriage: hosting.carriage,
            ..PortConfig::default()
        };
        let mut config = NodeConfig::new(switch, "127.0.0.1:0".parse()?, port);
        config.upstreams = upstreams.iter().copied().map(Into::into).collect();
        config.sources = hosting.sources;
        config.host = hosting.host;
        config.max_connections = 60_000;
        let stop = CancellationToken::new();
        let (told, addr) = std::sync::mpsc::channel();
        let thread = thread::spawn({
            let stop = stop.clone();
            move || {
                runtime()?.block_on(async {
                    let node = Node::bind(config).await?;
                    told.send(node.local_addr())?;
                    let begun = cpu_seconds();
                    let (events, _) = tokio::sync::mpsc::channel(1);
                    let summary = node.run(stop, events, &mut obs).await?;
                    Ok((summary, cpu_seconds() - begun))
                })
            }
        });
        Ok(Running {
            addr: addr.recv()?,
            stop,
            thread,
        })
    }

    /// Stops it: what it did, and the processor seconds it took.
    pub fn stop(self) -> Result<(NodeSummary, f64), Failed> {
        self.stop.cancel();
        self.thread.join().map_err(|_| "a node panicked")?
    }
}

/// A server, and switches of these names in a row behind it.
pub fn chain(
    server: Running,
    switches: &[&str],
    carriage: Carriage,
) -> Result<Vec<Running>, Failed> {
    let (mut nodes, mut id) = (vec![server], 1);
    for name in switches {
        id += 1;
        let upstream = nodes[nodes.len() - 1].addr;
        let hosting = Hosting {
            carriage,
            ..Hosting::default()
        };
        nodes.push(Running::with(name, id, &[upstream], hosting, Off)?);
    }
    Ok(nodes)
}

/// A source for a node.
pub fn local(
    config: SourceConfig,
    frames: impl Iterator<Item = AppFrame> + Send + 'static,
) -> LocalSource {
    LocalSource {
        config,
        frames: Frames::of(frames),
        start_when_joined: 0,
    }
}

pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Processor time of this thread.
pub fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Quantiles of values in microseconds.
pub fn quantiles(values: &mut [f64]) -> Value {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (share * values.len() as f64) as usize;
        let value = values.get(place.min(values.len().saturating_sub(1)));
        value.map(|us| (us * 10.0).round() / 10.0)
    };
    json!({
        "count": values.len(), "min_us": at(0.0), "p50_us": at(0.5), "p90_us": at(0.9),
        "p99_us": at(0.99), "max_us": at(1.0),
    })
}

/// Takes the delay of every frame that arrives whole.
#[derive(Default)]
pub struct Delays(pub Vec<f64>);

impl Observer for Delays {
    fn record(&mut self, record: &layercast_core::Record<'_>) {
        if let layercast_core::TraceEvent::Received { delay, .. } = &record.event {
            self.0.push(delay.as_ps() as f64 / 1e6);
        }
    }
}

/// A clip of base-layer frames only, of these sizes in bytes.
pub fn base_clip(sizes: impl Iterator<Item = u32>, rate: FrameRate) -> Result<Clip, Failed> {
    let lines = sizes
        .enumerate()
        .map(|(number, bytes)| format!("{number} I {bytes}\n"));
    Ok(Clip::parse_trace(&lines.collect::<String>(), rate)?)
}
