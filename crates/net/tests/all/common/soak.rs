//! Receivers that come and go and switches that are restarted, at random but from a seed, with a
//! book of what each receiver got. `examples/soak.rs` runs it for long, `tests/soak.rs` for short.
//!
//! ```text
//! server ---- chuff ---- sparrow      receivers at all four
//!                  \---- rook
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use layercast_core::{Level, PerLayer, Span, Stream, Time};
use layercast_media::{Clip, Synthetic};
use layercast_mets::AppFrame;
use layercast_net::{Clock, Frames, JoinEvent, Node, NodeConfig, get_stats};
use layercast_wire::{Carriage, Payload};
use serde::Serialize;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{sleep, sleep_until, timeout};

use crate::common::{Running, join, join_config, server, sink, start, switch};

const CARRIAGE: Carriage = Carriage::Datagrams;
/// A receiver that is joined plays again within this time, whatever was restarted.
const STUCK: Span = Span::from_secs(12);
/// Gaps in the figures of a receiver count for a restart if they begin around it.
const SHADOW: Span = Span::from_secs(2);
/// Length of the clip that is sent over and over again.
const CLIP_SECONDS: u32 = 60;
const FRAMES_PER_SECOND: u32 = 48;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub length: Duration,
    pub receivers: usize,
    /// Mean time between two restarts of a switch; `None`: no restarts.
    pub restarts: Option<Duration>,
    /// Whether a receiver comes back under a new name.
    pub fresh_names: bool,
}

/// What came of it.
#[derive(Clone, Default, Debug, Serialize)]
pub struct Report {
    pub seed: u64,
    pub seconds: f64,
    pub joins: u64,
    /// Receivers that left without a word.
    pub killed: u64,
    pub restarts: u64,
    /// Visits on whose way no switch was restarted.
    pub undisturbed: u64,
    /// Frames played, and lost or late on undisturbed ways.
    pub played: PerLayer<u64>,
    pub lost: PerLayer<u64>,
    pub late: PerLayer<u64>,
    pub off_boundary: u64,
    /// Frames lost on the ways that were disturbed, during outages included.
    pub lost_disturbed: PerLayer<u64>,
    /// Datagrams the kernel dropped: with any, loss is not the network's.
    pub host_lost: u64,
    pub malformed: u64,
    /// Members that the server still knew after all had left.
    pub members_left: usize,
    /// What went wrong, each with its time.
    pub troubles: Vec<String>,
    /// Resident memory in KiB: time in seconds, and how much.
    pub rss: Vec<(f64, u64)>,
}

/// One visit of a receiver.
struct Visit {
    name: String,
    at: usize,
    from: Time,
    left: String,
}

struct World {
    plan: Plan,
    begun: Time,
    addresses: [SocketAddr; 4],
    /// When a node was last disturbed.
    disturbed: [Option<Time>; 4],
    report: Report,
    /// The member that left each node last, and when.
    last_left: [Option<(String, Time)>; 4],
}

type Shared = Rc<RefCell<World>>;

const NAMES: [&str; 4] = ["server", "chuff", "sparrow", "rook"];

/// The nodes on the way from the server to a node, without the server.
fn way(at: usize) -> &'static [usize] {
    match at {
        0 => &[],
        1 => &[1],
        2 => &[1, 2],
        _ => &[1, 3],
    }
}

fn now() -> Time {
    Clock::get().now()
}

/// Runs the plan; must be called on a runtime of one thread.
pub async fn soak(plan: Plan, every: impl FnMut(&Report) + 'static) -> Report {
    LocalSet::new().run_until(run(plan, every)).await
}

async fn run(plan: Plan, mut every: impl FnMut(&Report) + 'static) -> Report {
    let source = start(endless(server(CARRIAGE, CLIP_SECONDS))).await;
    let mut nodes: BTreeMap<usize, Running> = BTreeMap::new();
    let mut addresses = [source.addr; 4];
    for node in 1..4 {
        let running = start(config(node, &addresses)).await;
        addresses[node] = running.addr;
        nodes.insert(node, running);
    }
    let world = Rc::new(RefCell::new(World {
        plan,
        begun: now(),
        addresses,
        disturbed: [None; 4],
        report: Report {
            seed: plan.seed,
            ..Report::default()
        },
        last_left: [const { None }; 4],
    }));
    let end = tokio::time::Instant::now() + plan.length;
    let receivers: Vec<JoinHandle<()>> = (0..plan.receivers)
        .map(|slot| tokio::task::spawn_local(receiver(Rc::clone(&world), slot, end)))
        .collect();
    let mut random = Stream::new(plan.seed, "soak/restarts");
    let mut next = pause(&mut random, plan.restarts);
    while tokio::time::Instant::now() < end {
        let second = Duration::from_secs(1);
        sleep(second.min(next)).await;
        next = next.saturating_sub(second);
        sample(&world);
        every(&world.borrow().report);
        if next.is_zero() && plan.restarts.is_some() {
            restart(&world, &mut nodes, &mut random).await;
            next = pause(&mut random, plan.restarts);
        }
    }
    for receiver in receivers {
        if let Err(error) = receiver.await {
            world
                .borrow_mut()
                .trouble(format!("a receiver failed: {error}"));
        }
    }
    // Soft state of those that left without a word lives for three eras, on each of three nodes.
    let gone = async {
        while get_stats(source.addr, None)
            .await
            .is_ok_and(|members| members.iter().any(|it| !it.gone))
        {
            sleep(Duration::from_millis(250)).await;
        }
    };
    let _ = timeout(Duration::from_secs(15), gone).await;
    let mut left = get_stats(source.addr, None).await.unwrap_or_default();
    // Those are listed for a minute more, as gone.
    left.retain(|it| !it.gone);
    let mut nodes: Vec<Running> = nodes.into_values().collect();
    nodes.push(source);
    let mut report = world.borrow().report.clone();
    for node in nodes {
        let summary = node.stop().await;
        report.host_lost += summary.udp.host_lost;
        report.malformed += summary.malformed;
    }
    report.members_left = left.len();
    report.seconds = now().since(world.borrow().begun).as_secs_f64();
    report
}

/// The same clip over and over again.
fn endless(mut config: NodeConfig) -> NodeConfig {
    let rate = layercast_core::FrameRate {
        num: FRAMES_PER_SECOND,
        den: 1,
    };
    let count = FRAMES_PER_SECOND * CLIP_SECONDS;
    let clip = Clip::synthetic(Synthetic::Lougher, rate, count, 1);
    for source in &mut config.sources {
        let frames = clip.frames.clone().into_iter().cycle();
        source.frames = Frames::of(frames.map(|frame| AppFrame {
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            time: None,
            payload: Payload::Zeros(frame.size),
        }));
    }
    config
}

fn config(node: usize, addresses: &[SocketAddr; 4]) -> NodeConfig {
    let upstream = match node {
        1 => addresses[0],
        _ => addresses[1],
    };
    switch(NAMES[node], 1 + node as u32, CARRIAGE, &[upstream])
}

fn pause(random: &mut Stream, mean: Option<Duration>) -> Duration {
    mean.unwrap_or(Duration::MAX).mul_f64(0.5 + random.unit())
}

/// Kills a switch, or asks it to stop, and starts it again at the same address.
async fn restart(world: &Shared, nodes: &mut BTreeMap<usize, Running>, random: &mut Stream) {
    let node = 1 + random.below(3) as usize;
    let Some(running) = nodes.remove(&node) else {
        return;
    };
    world.borrow_mut().disturb(node);
    let addresses = world.borrow().addresses;
    if random.chance(0.5) {
        running.kill().await;
    } else {
        let summary = running.stop().await;
        let mut world = world.borrow_mut();
        world.report.host_lost += summary.udp.host_lost;
        world.report.malformed += summary.malformed;
    }
    sleep(Duration::from_millis(random.below(1_500))).await;
    let mut again = config(node, &addresses);
    again.listen = addresses[node];
    // The kernel may need a moment to give the port back.
    let bound = async {
        while Node::bind(NodeConfig::new(
            again.switch.clone(),
            again.listen,
            again.default_port.clone(),
        ))
        .await
        .is_err()
        {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let _ = timeout(Duration::from_secs(5), bound).await;
    nodes.insert(node, start(again).await);
    let mut world = world.borrow_mut();
    world.disturb(node);
    world.report.restarts += 1;
}

/// One receiver that comes and goes until `end`.
async fn receiver(world: Shared, slot: usize, end: tokio::time::Instant) {
    let seed = world.borrow().plan.seed;
    let mut random = Stream::new(seed, &format!("soak/receiver{slot}"));
    let mut visits = 0;
    loop {
        // Half of them are back immediately: the next one comes right after the last one left.
        let idle = match random.chance(0.5) {
            true => random.below(200),
            false => random.below(4_000),
        };
        let longest = match random.chance(0.3) {
            true => 25_000,
            false => 5_000,
        };
        let stay = 500 + random.below(longest);
        sleep(Duration::from_millis(idle)).await;
        let leave = (tokio::time::Instant::now() + Duration::from_millis(stay)).min(end);
        if tokio::time::Instant::now() >= end {
            return;
        }
        let at = random.below(4) as usize;
        let level = Level::new(random.below(3) as u8).unwrap_or(Level::BASE);
        let kill = random.chance(0.2);
        visits += 1;
        visit(&world, slot, visits, at, level, leave, kill).await;
    }
}

async fn visit(
    world: &Shared,
    slot: usize,
    number: u32,
    at: usize,
    level: Level,
    leave: tokio::time::Instant,
    kill: bool,
) {
    let (address, name, visit) = {
        let mut world = world.borrow_mut();
        world.report.joins += 1;
        let name = match world.plan.fresh_names {
            true => format!("guest{slot}-{number}"),
            false => format!("guest{slot}"),
        };
        let left = world.last_left[at].as_ref();
        let left = left.map_or("nobody".to_owned(), |(name, when)| {
            format!("{name} {} ago", now().since(*when))
        });
        let visit = Visit {
            name: name.clone(),
            at,
            from: now(),
            left,
        };
        (world.addresses[at], name, visit)
    };
    let mut config = sink(&name, 100 + slot as u32, CARRIAGE);
    config.level = level;
    let mut config = join_config(address, config);
    config.until_closed = false;
    config.stop_if_refused = false;
    let mut receiver = join(config);
    let (mut joined, mut base, mut alive) = (false, 0, now());
    loop {
        tokio::select! {
            () = sleep_until(leave) => break,
            event = receiver.events.recv() => match event {
                Some(JoinEvent::Joined(_)) => (joined, alive) = (true, now()),
                Some(JoinEvent::Second(progress)) => {
                    if progress.frames.base > base {
                        (base, alive) = (progress.frames.base, now());
                    }
                    let silent = now().since(alive);
                    if silent > STUCK {
                        let state = if joined { "joined" } else { "not joined" };
                        let text = format!("stuck for {silent}, {state}");
                        world.borrow_mut().trouble_of(&visit, &text);
                        alive = now();
                    }
                }
                Some(_) => {}
                None => break,
            },
        }
    }
    if kill {
        receiver.kill().await;
        let mut world = world.borrow_mut();
        world.report.killed += 1;
        world.last_left[at] = Some((name, now()));
        return;
    }
    let until = now();
    match receiver.try_stop().await {
        Ok(summary) => world.borrow_mut().enter(&visit, until, &summary),
        Err(error) => world.borrow_mut().trouble_of(&visit, &error.to_string()),
    }
    world.borrow_mut().last_left[at] = Some((name, now()));
}

impl World {
    fn disturb(&mut self, node: usize) {
        self.disturbed[node] = Some(now());
    }

    fn trouble(&mut self, text: String) {
        let t = now().since(self.begun).as_secs_f64();
        self.report.troubles.push(format!("{t:.1} s: {text}"));
    }

    fn trouble_of(&mut self, visit: &Visit, text: &str) {
        let Visit {
            name,
            at,
            from,
            left,
        } = visit;
        let node = NAMES[*at];
        let stayed = now().since(*from);
        let text = format!("{name} at {node} for {stayed}, before it left {left}: {text}");
        self.trouble(text);
    }

    /// Whether the way of a visit was disturbed while it lasted, or shortly before.
    fn is_disturbed(&self, visit: &Visit, until: Time) -> bool {
        let mut times = way(visit.at)
            .iter()
            .filter_map(|&node| self.disturbed[node]);
        times.any(|at| at.saturating_add(SHADOW) >= visit.from && at <= until)
    }

    /// Enters what a receiver got into the book.
    fn enter(&mut self, visit: &Visit, until: Time, summary: &layercast_net::JoinSummary) {
        let sink = &summary.sink;
        let report = &mut self.report;
        add(&mut report.played, &sink.played);
        report.host_lost += summary.udp.host_lost;
        report.malformed += summary.malformed;
        if self.is_disturbed(visit, until) {
            let report = &mut self.report;
            add(&mut report.lost_disturbed, &sink.lost);
            add(&mut report.lost_disturbed, &sink.outage);
            return;
        }
        let report = &mut self.report;
        report.undisturbed += 1;
        add(&mut report.lost, &sink.lost);
        add(&mut report.late, &sink.late);
        report.off_boundary += summary.receiver.off_boundary;
        let lost: u64 = sink.lost.iter().map(|(_, lost)| *lost).sum();
        if lost > 0 || summary.receiver.off_boundary > 0 {
            let text = format!(
                "lost {:?}, {} off a boundary, played {:?}, granted {:?}, received {:?}",
                sink.lost,
                summary.receiver.off_boundary,
                sink.played,
                summary.receiver.levels,
                summary.receiver.received,
            );
            self.trouble_of(visit, &text);
        }
        // Three GOPs and a join are over by then.
        let stayed = until.since(visit.from);
        if stayed > Span::from_secs(4) && sink.played.base == 0 {
            self.trouble_of(visit, "never played a frame");
        }
    }
}

fn add(sum: &mut PerLayer<u64>, more: &PerLayer<u64>) {
    for (layer, count) in more.iter() {
        sum[layer] += count;
    }
}

/// Notes the resident memory of this process.
fn sample(world: &Shared) {
    let mut world = world.borrow_mut();
    let t = now().since(world.begun).as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse().ok());
    if let Some(kib) = kib {
        world.report.rss.push((t, kib));
    }
}
