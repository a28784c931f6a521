//! Nodes and receivers in one process, on ports of 127.0.0.1 that the kernel chooses.
#![allow(dead_code, unused_imports, reason = "each test uses its part")]

pub mod neighbour;
pub mod xtpd;

/// For tests whose answer is that of a machine in time: one that has something else to do may miss it, three times in a row it does
/// not. What does not depend on the clock is tested in virtual time.
pub use flaky_test::flaky_test as real_time;

use std::net::SocketAddr;
use std::time::Duration;

use layercast_core::{FlowId, FrameRate, NodeId, Off, QosPolicy, Rate, Span};
use layercast_link::LinkConfig;
use layercast_media::{Clip, Synthetic};
use layercast_mets::switch::{PortConfig, SwitchConfig};
use layercast_mets::{AppFrame, SinkConfig, SourceConfig};
use layercast_net::{
    CancellationToken, Clock, Frames, JoinConfig, JoinEvent, JoinSummary, LocalSource, Neighbour,
    NetError, Node, NodeConfig, NodeEvent, NodeSummary, clock_name, run_join,
};
use layercast_wire::{Carriage, FlowInfo, Payload};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Everything is four times as fast as in real life: GOPs and eras of 250 ms.
pub const ERA: Span = Span::from_ms(250);
pub const RES_INTERVAL: Span = Span::from_ms(60);
/// Longest wait for what has to happen, on the slowest machine.
pub const LONG: Duration = Duration::from_secs(60);
const FRAME_RATE: FrameRate = FrameRate { num: 48, den: 1 };

pub struct Running {
    pub addr: SocketAddr,
    pub media: SocketAddr,
    pub events: mpsc::Receiver<NodeEvent>,
    stop: CancellationToken,
    task: JoinHandle<Result<NodeSummary, NetError>>,
}

pub struct Joined {
    pub events: mpsc::Receiver<JoinEvent>,
    stop: CancellationToken,
    task: JoinHandle<Result<JoinSummary, NetError>>,
}

pub fn localhost() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub fn switch_config(name: &str, id: u32) -> SwitchConfig {
    SwitchConfig {
        name: name.into(),
        id: NodeId(id),
        era: ERA,
        res_interval: RES_INTERVAL,
        seed: u64::from(id),
        ..SwitchConfig::default()
    }
}

pub fn port(carriage: Carriage, cells: Option<u64>) -> PortConfig {
    PortConfig {
        carriage,
        rate: cells.map(|cells| Rate::from_bps(cells * 424)),
        ..PortConfig::default()
    }
}

pub fn switch(name: &str, id: u32, carriage: Carriage, upstreams: &[SocketAddr]) -> NodeConfig {
    let mut config = NodeConfig::new(switch_config(name, id), localhost(), port(carriage, None));
    config.upstreams = upstreams.iter().copied().map(Into::into).collect();
    config
}

pub fn link_to(config: &mut NodeConfig, name: &str, port: PortConfig) {
    let link = LinkConfig::default();
    config.ports.insert(name.into(), Neighbour { port, link });
}

/// A source of `seconds` of a talking head, 480 + 660 + 1120 cells/s.
pub fn source(flow: &str, id: u32, carriage: Carriage, seconds: u32) -> LocalSource {
    let clip = Clip::synthetic(Synthetic::Lougher, FRAME_RATE, 48 * seconds, 1);
    source_of(clip, flow, id, carriage)
}

/// A source of a clip.
pub fn source_of(clip: Clip, flow: &str, id: u32, carriage: Carriage) -> LocalSource {
    let mut spec = clip.flow_spec();
    spec.flow_id = FlowId(id);
    spec.delay_max_ms = 800;
    let info = FlowInfo {
        spec,
        policy: policy(),
        clock: clock_name(),
        ..FlowInfo::new(FlowId(id), flow, "server")
    };
    let mut config = SourceConfig::new("server", NodeId(1), info, carriage);
    config.era = ERA;
    config.res_interval = RES_INTERVAL;
    config.start = Clock::get().now();
    config.vci = SourceConfig::FIRST_VCI + id as u16;
    let frames = clip.frames.into_iter().map(|frame| AppFrame {
        layer: frame.layer(),
        gop_start: frame.gop_start,
        sound: frame.sound,
        time: frame.time,
        payload: match frame.data {
            Some(data) => Payload::Bytes(data),
            None => Payload::Zeros(frame.size),
        },
    });
    LocalSource {
        config,
        frames: Frames::of(frames),
        start_when_joined: 0,
    }
}

pub fn server(carriage: Carriage, seconds: u32) -> NodeConfig {
    let mut config = switch("server", 1, carriage, &[]);
    config.sources = vec![source("film", 1, carriage, seconds)];
    config
}

fn policy() -> QosPolicy {
    QosPolicy {
        signal_period_ms: 250,
        ..QosPolicy::default()
    }
}

pub async fn start(config: NodeConfig) -> Running {
    let node = Node::bind(config).await.unwrap();
    let (addr, media) = (node.local_addr(), node.media_addr());
    let stop = CancellationToken::new();
    let (sender, events) = mpsc::channel(4_096);
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { node.run(stop, sender, &mut Off).await }
    });
    Running {
        addr,
        media,
        events,
        stop,
        task,
    }
}

pub fn sink(name: &str, id: u32, carriage: Carriage) -> SinkConfig {
    let mut config = SinkConfig::new(name, NodeId(id), "film", carriage);
    config.policy = policy();
    config.era = ERA;
    config.res_interval = RES_INTERVAL;
    config.seed = u64::from(id);
    config
}

pub fn join_config(upstream: SocketAddr, sink: SinkConfig) -> JoinConfig {
    JoinConfig::new(upstream, sink, Clock::get().now())
}

pub fn join(config: JoinConfig) -> Joined {
    let stop = CancellationToken::new();
    let (sender, events) = mpsc::channel(4_096);
    let task = tokio::spawn({
        let stop = stop.clone();
        async move {
            let joined = run_join(config, stop, sender, &mut Off).await;
            joined.map_err(|failure| failure.error)
        }
    });
    Joined { events, stop, task }
}

impl Running {
    /// Asks the node to stop, and waits for what it did.
    pub async fn stop(self) -> NodeSummary {
        self.stop.cancel();
        self.end().await.unwrap()
    }

    /// Waits for the end.
    pub async fn end(self) -> Result<NodeSummary, NetError> {
        timeout(LONG, self.task)
            .await
            .expect("the node does not stop")
            .unwrap()
    }

    /// Kills the node: nothing is closed in order.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        // Its connections end with the next turn of the runtime.
        sleep(Duration::from_millis(20)).await;
    }
}

impl Joined {
    pub async fn stop(self) -> JoinSummary {
        self.stop.cancel();
        self.end().await.unwrap()
    }

    pub async fn end(self) -> Result<JoinSummary, NetError> {
        timeout(LONG, self.task)
            .await
            .expect("the receiver does not stop")
            .unwrap()
    }

    /// Stops it, or says why it ended before.
    pub async fn try_stop(self) -> Result<JoinSummary, NetError> {
        self.stop.cancel();
        self.end().await
    }

    /// Kills it: nothing is closed in order.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Waits for an event, for as long as a slow machine may take.
    pub async fn wait_for(&mut self, what: impl Fn(&JoinEvent) -> bool) {
        let found = async {
            while let Some(event) = self.events.recv().await {
                if what(&event) {
                    return true;
                }
            }
            false
        };
        let found = timeout(LONG, found).await;
        assert_eq!(found, Ok(true), "what was waited for did not happen");
    }
}
