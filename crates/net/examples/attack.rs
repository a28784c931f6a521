//! How many hostile datagrams a second a protected switch takes while media go through it undisturbed: `cargo
//! run --release -p layercast-net --example attack`, figures as JSON.
//!
//! A server, the switch and four receivers of 1.5 Mbit/s, on protected links, each part on a thread of its own;
//! another thread sends datagrams of 1225 octets at a given rate, twice as many each time: `strangers` to the
//! port of the media from an unused address, `forged` from the address of a neighbour and with the number of
//! its key, as an attacker would that takes its address, and `session` to the port of the session channel.

#[allow(dead_code, reason = "shared with the other measurements")]
#[path = "sockets/flow.rs"]
mod flow;

use std::error::Error;
use std::io::IoSlice;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use layercast_core::{NodeId, Off, Span, Stream};
use layercast_media::{Clip, Synthetic};
use layercast_mets::SinkConfig;
use layercast_mets::switch::{PortConfig, SwitchConfig};
use layercast_net::{
    Bearer, CancellationToken, Clock, Hello, Identity, JoinConfig, JoinSummary, LocalSource, Node,
    NodeConfig, NodeSummary, QuicChannel, Remote, SignalChannel, SignalReceiver, SignalSender,
    Trust, clock_name, run_join,
};
use layercast_protect::LinkKey;
use layercast_wire::Carriage;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, sendmmsg};
use serde_json::{Value, json};

use flow::{FLOW, cpu_seconds, fps, frames, local, runtime, source};

type Failed = Box<dyn Error + Send + Sync>;

/// 28 frames a second of Canyon are 1.5 Mbit/s.
const FPS: u32 = 28;
const SECONDS: u32 = 8;
const RECEIVERS: u32 = 4;
/// A sealed datagram of a full packet.
const OCTETS: usize = 1_225;
const BATCH: usize = 32;
/// Datagrams per second of the first step.
const FIRST: u64 = 12_500;
const STEPS: u32 = 8;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Strangers,
    Forged,
    Session,
}

/// What came of an attack.
struct Step {
    asked: u64,
    sent: u64,
    seconds: f64,
    switch: NodeSummary,
    switch_load: f64,
    receivers: Vec<JoinSummary>,
}

fn main() -> Result<(), Failed> {
    let quiet = step(Kind::Strangers, 0)?;
    let mut kinds = Vec::new();
    for kind in [Kind::Strangers, Kind::Forged, Kind::Session] {
        let (mut steps, mut most) = (Vec::new(), 0.0);
        for number in 0..STEPS {
            let step = step(kind, FIRST << number)?;
            let (calm, rate) = (step.is_calm(), step.rate());
            eprintln!("attack: {kind:?}, {rate:.0} a second, undisturbed: {calm}");
            let at_its_limit = rate < 0.8 * step.asked as f64;
            steps.push(step.shown());
            if calm {
                most = f64::max(most, rate);
            }
            if !calm || at_its_limit {
                break;
            }
        }
        kinds.push(json!({
            "kind": format!("{kind:?}").to_lowercase(),
            "undisturbed_per_second": most.round(),
            "steps": steps,
        }));
    }
    println!("{}", json!({ "quiet": quiet.shown(), "attacks": kinds }));
    Ok(())
}

impl Step {
    fn rate(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    /// Whether nothing at all was lost or late.
    fn is_calm(&self) -> bool {
        let figures = self.receivers.iter().map(|it| &it.receiver);
        self.switch.udp.host_lost == 0
            && figures
                .map(|it| it.lost.iter().map(|(_, n)| *n).sum::<u64>() + it.late)
                .sum::<u64>()
                == 0
    }

    fn shown(&self) -> Value {
        let sum = |get: fn(&JoinSummary) -> u64| self.receivers.iter().map(get).sum::<u64>();
        let udp = self.switch.udp;
        json!({
            "asked_per_second": self.asked, "sent_per_second": self.rate().round(), "sent": self.sent,
            "unknown": udp.unknown, "forged": udp.forged, "host_lost": udp.host_lost,
            "base_played": sum(|it| it.receiver.frames.base),
            "base_lost": sum(|it| it.receiver.lost.base),
            "base_late": sum(|it| it.receiver.late_base),
            "all_lost": sum(|it| it.receiver.lost.iter().map(|(_, n)| *n).sum()),
            "switch_core_load": (self.switch_load * 1_000.0).round() / 1_000.0,
        })
    }
}

/// The network under attack, from beginning to end.
fn step(kind: Kind, rate: u64) -> Result<Step, Failed> {
    let clip = Clip::synthetic(Synthetic::Canyon, fps(FPS), FPS * SECONDS, 1);
    let mut film = source(&clip, 1_000, Clock::get().now());
    film.start = Clock::get().now() + Span::from_secs(1);
    let mut film = local(film, frames(&clip));
    film.start_when_joined = RECEIVERS;
    let server = start("server", 1, None, vec![film])?;
    let switch = start("switch", 2, Some(server.remote.clone()), Vec::new())?;
    let receiving = thread::spawn({
        let upstream = switch.remote.clone();
        move || receive(&upstream)
    });
    let stop = CancellationToken::new();
    let attacking = thread::spawn({
        let (target, stop) = (switch.remote.clone(), stop.clone());
        let media = switch.media;
        move || runtime()?.block_on(attack(kind, rate, &target, media, &stop))
    });
    let receivers = receiving.join().map_err(|_| "a receiver panicked")??;
    stop.cancel();
    let (sent, seconds) = attacking.join().map_err(|_| "the attacker panicked")??;
    let (switch, busy) = switch.stop()?;
    server.stop()?;
    Ok(Step {
        asked: rate,
        sent,
        seconds,
        switch,
        switch_load: busy / seconds,
        receivers,
    })
}

/// A node on a thread of its own.
struct Running {
    remote: Remote,
    media: SocketAddr,
    stop: CancellationToken,
    thread: thread::JoinHandle<Result<(NodeSummary, f64), Failed>>,
}

fn start(
    name: &str,
    id: u32,
    upstream: Option<Remote>,
    sources: Vec<LocalSource>,
) -> Result<Running, Failed> {
    let identity = Arc::new(Identity::generate()?);
    let trust = Trust::Node(identity.fingerprint());
    let switch = SwitchConfig {
        name: name.into(),
        id: NodeId(id),
        seed: u64::from(id),
        ..SwitchConfig::default()
    };
    let mut config = NodeConfig::new(switch, "127.0.0.1:0".parse()?, PortConfig::default());
    config.identity = Some(identity);
    config.upstreams = upstream.into_iter().collect();
    config.sources = sources;
    let stop = CancellationToken::new();
    let (told, heard) = std::sync::mpsc::channel();
    let thread = thread::spawn({
        let stop = stop.clone();
        move || {
            runtime()?.block_on(async {
                let node = Node::bind(config).await?;
                told.send((node.local_addr(), node.media_addr()))?;
                let begun = cpu_seconds();
                let (events, _) = tokio::sync::mpsc::channel(1);
                let summary = node.run(stop, events, &mut Off).await?;
                Ok((summary, cpu_seconds() - begun))
            })
        }
    });
    let (addr, media) = heard.recv()?;
    Ok(Running {
        remote: Remote::protected(addr, trust),
        media,
        stop,
        thread,
    })
}

impl Running {
    fn stop(self) -> Result<(NodeSummary, f64), Failed> {
        self.stop.cancel();
        self.thread.join().map_err(|_| "a node panicked")?
    }
}

/// All receivers, to the end of the flow.
fn receive(upstream: &Remote) -> Result<Vec<JoinSummary>, Failed> {
    runtime()?.block_on(async {
        let mut joined = Vec::new();
        for id in 0..RECEIVERS {
            let name = format!("receiver{id}");
            let sink = SinkConfig::new(&name, NodeId(100 + id), FLOW, Carriage::Datagrams);
            let now = Clock::get().now();
            let mut config = JoinConfig::new(upstream.clone(), sink, now);
            // Whatever the attack does, it ends.
            config.leave_at = Some(now + Span::from_secs(u64::from(SECONDS) + 8));
            let (events, _) = tokio::sync::mpsc::channel(1);
            joined.push(tokio::spawn(async move {
                run_join(config, CancellationToken::new(), events, &mut Off).await
            }));
        }
        let mut summaries = Vec::new();
        for receiver in joined {
            summaries.push(receiver.await??);
        }
        Ok(summaries)
    })
}

/// Sends `rate` datagrams a second until stopped; returns their number and the seconds.
async fn attack(
    kind: Kind,
    rate: u64,
    target: &Remote,
    media: SocketAddr,
    stop: &CancellationToken,
) -> Result<(u64, f64), Failed> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let to = match kind {
        Kind::Session => target.addr,
        Kind::Strangers | Kind::Forged => media,
    };
    if kind == Kind::Forged {
        become_neighbour(target, &socket).await?;
    }
    let mut noise = Stream::new(1, "attack");
    let mut datagrams = vec![vec![0; OCTETS]; BATCH];
    for octet in datagrams.iter_mut().flatten() {
        *octet = noise.below(256) as u8;
    }
    for datagram in &mut datagrams {
        // Sealed with key 0 by the look of it.
        datagram[0] = 0xD0;
    }
    let SocketAddr::V4(to) = to else {
        return Err("loopback is IPv4 here".into());
    };
    let to = [Some(SockaddrIn::from(to as SocketAddrV4)); BATCH];
    let slices: Vec<[IoSlice<'_>; 1]> = datagrams.iter().map(|it| [IoSlice::new(it)]).collect();
    let mut headers = MultiHeaders::preallocate(BATCH, None);
    let (begun, mut sent) = (Instant::now(), 0);
    while !stop.is_cancelled() {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        let burst = (due - sent.min(due)) / BATCH as u64;
        // No more than a millisecond's worth, so that what it cannot send does not pile up.
        for _ in 0..burst.min(1 + rate / 1_000 / BATCH as u64) {
            let flags = MsgFlags::empty();
            let done = sendmmsg(socket.as_raw_fd(), &mut headers, &slices, to, [], flags)?;
            sent += done.count() as u64;
        }
        match burst {
            0 => tokio::time::sleep(Duration::from_micros(500)).await,
            _ => tokio::task::yield_now().await,
        }
    }
    Ok((sent, begun.elapsed().as_secs_f64()))
}

/// Says hello to the node, so that the address of `socket` is that of a neighbour with a key.
async fn become_neighbour(target: &Remote, socket: &UdpSocket) -> Result<(), Failed> {
    let Bearer::Quic(trust) = &target.bearer else {
        return Err("a protected node".into());
    };
    let channel = QuicChannel::connect(target.addr, None, &Identity::generate()?, trust).await?;
    let hello = Hello {
        node: "victim".into(),
        id: NodeId(99),
        udp_port: socket.local_addr()?.port(),
        carriage: Carriage::Datagrams,
        clock: clock_name(),
        link_key: Some(LinkKey::new(0, [7; 32])),
        repair: None,
        group: None,
        group_repair: None,
        prompt: false,
        clocks: false,
        pings: false,
    };
    let (mut receiver, mut sender) = channel.split();
    sender.send(&[hello.signal()]).await?;
    receiver.recv().await?.ok_or("the switch hung up")?;
    tokio::spawn(async move {
        // The channel is open as long as both halves are there.
        let _sender = sender;
        while let Ok(Some(_)) = receiver.recv().await {}
    });
    Ok(())
}
