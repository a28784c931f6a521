//! How many packets a second one core of the soft switch forwards on loopback, beside a bare
//! recvmmsg/sendmmsg loop that looks at nothing, and with protected links, each packet opened and sealed:
//! `{"switch_pps", "bare_pps", "ratio", "protected_pps", "protected_ratio"}` as JSON, the last one to the
//! switch in the clear.
//!
//! All are driven by the same overload and measured by the processor time of their thread, so
//! that a busy machine disturbs little.

use std::error::Error;
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use layercast_core::{FlowId, FlowSpec, GroupId, LayerRate, Level, NodeId, Off, Serial};
use layercast_mets::switch::{PortConfig, SwitchConfig};
use layercast_net::{
    Bearer, CancellationToken, Control, Hello, Identity, Node, NodeConfig, QuicChannel, Remote,
    SignalChannel, SignalReceiver, SignalSender, TcpChannel, Trust, XtpChannel, clock_name,
};
use layercast_protect::{LinkKey, LinkSealer};
use layercast_wire::{
    Carriage, Flags, FlowInfo, FrameType, Member, MetsHeader, MetsPacket, Passing, Payload, Signal,
    Sound, Waited,
};
use nix::errno::Errno;
use nix::sys::socket::{
    MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;

const BATCH: usize = 32;
const PAYLOAD: u32 = 1_176;
const DATAGRAM: usize = PAYLOAD as usize + 24;
const RUN: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let (mut switch, mut bare, mut protected) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(run_bare()?);
        switch.push(run_switch(None)?);
        protected.push(run_switch(Some(Identity::generate()?))?);
    }
    let (switch, bare, protected) = (median(switch), median(bare), median(protected));
    let ratio = |a: f64, b: f64| (a / b * 1_000.0).round() / 1_000.0;
    println!(
        "{}",
        serde_json::json!({
            "switch_pps": switch.round(),
            "bare_pps": bare.round(),
            "ratio": ratio(switch, bare),
            "protected_pps": protected.round(),
            "protected_ratio": ratio(protected, switch),
        })
    );
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn socket() -> Result<UdpSocket, Failed> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    setsockopt(&socket, sockopt::RcvBuf, &(4 << 20))?;
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    Ok(socket)
}

fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Base-layer frames of one packet each.
fn packet(seq: u32) -> Vec<u8> {
    let header = MetsHeader {
        kind: FrameType::BL,
        flags: Flags::GOP_START | Flags::FIRST | Flags::LAST,
        flow: FlowId(1),
        seq: Serial(seq),
        timestamp_us: 0,
        e1_count: 0,
        e2_count: 0,
        alf_len: PAYLOAD,
        offset: 0,
        waited: Waited::default(),
        sound: Sound::default(),
        passing: Passing::default(),
    };
    let packet = MetsPacket {
        header,
        payload: Payload::Zeros(PAYLOAD),
        congestion: false,
    };
    let mut bytes = Vec::new();
    packet.encode_into(&mut bytes);
    bytes
}

/// Floods `to` until stopped.
fn generate(
    from: &UdpSocket,
    to: SocketAddr,
    mut sealer: Option<LinkSealer>,
    stop: &AtomicBool,
) -> Result<(), Failed> {
    let mut sealed = vec![Vec::new(); BATCH];
    let mut packets: Vec<Vec<u8>> = (0..BATCH as u32).map(packet).collect();
    let to = [Some(v4(to)?); BATCH];
    let mut headers = MultiHeaders::preallocate(BATCH, None);
    let mut seq = BATCH as u32;
    while !stop.load(Ordering::Relaxed) {
        for packet in &mut packets {
            packet[8..12].copy_from_slice(&seq.to_be_bytes());
            seq = seq.wrapping_add(1);
        }
        if let Some(sealer) = &mut sealer {
            for (packet, out) in packets.iter().zip(&mut sealed) {
                out.clear();
                sealer.seal(out, |out| out.extend_from_slice(packet))?;
            }
        }
        let ready = match sealer {
            Some(_) => &sealed,
            None => &packets,
        };
        let slices: Vec<[IoSlice<'_>; 1]> = ready.iter().map(|p| [IoSlice::new(p)]).collect();
        let flags = MsgFlags::empty();
        let sent = sendmmsg(from.as_raw_fd(), &mut headers, &slices, to, [], flags)?;
        sent.for_each(drop);
    }
    Ok(())
}

/// Takes datagrams in batches until stopped, and gives each batch to `each`.
fn receive(
    socket: &UdpSocket,
    stop: &AtomicBool,
    mut each: impl FnMut(&[Vec<u8>], usize) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let mut buffers = vec![vec![0; 2_048]; BATCH];
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    while !stop.load(Ordering::Relaxed) {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        let flags = MsgFlags::MSG_WAITFORONE;
        let count = match recvmmsg(socket.as_raw_fd(), &mut headers, &mut slices, flags, None) {
            Ok(received) => received.count(),
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        each(&buffers, count)?;
    }
    Ok(())
}

fn v4(addr: SocketAddr) -> Result<SockaddrIn, Failed> {
    match addr {
        SocketAddr::V4(addr) => Ok(SockaddrIn::from(addr as SocketAddrV4)),
        SocketAddr::V6(_) => Err("loopback is IPv4 here".into()),
    }
}

/// Floods `to` from `source` for a while, with somebody reading at `sink`.
fn flood(
    source: UdpSocket,
    to: SocketAddr,
    sealer: Option<LinkSealer>,
    sink: UdpSocket,
) -> Result<(), Failed> {
    let stop = Arc::new(AtomicBool::new(false));
    let reader = thread::spawn({
        let stop = Arc::clone(&stop);
        move || receive(&sink, &stop, |_, _| Ok(()))
    });
    let writer = thread::spawn({
        let stop = Arc::clone(&stop);
        move || generate(&source, to, sealer, &stop)
    });
    thread::sleep(RUN);
    stop.store(true, Ordering::Relaxed);
    for thread in [reader, writer] {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

/// Packets per processor second of the bare loop.
fn run_bare() -> Result<f64, Failed> {
    let (source, middle, sink) = (socket()?, socket()?, socket()?);
    let (to, next) = (middle.local_addr()?, v4(sink.local_addr()?)?);
    let stop = Arc::new(AtomicBool::new(false));
    let forwarder = thread::spawn({
        let stop = Arc::clone(&stop);
        move || -> Result<f64, Failed> {
            let (start, mut packets) = (cpu_seconds(), 0);
            let mut headers = MultiHeaders::preallocate(BATCH, None);
            receive(&middle, &stop, |buffers, count| {
                let slices: Vec<[IoSlice<'_>; 1]> = buffers[..count]
                    .iter()
                    .map(|b| [IoSlice::new(&b[..DATAGRAM])])
                    .collect();
                let to = vec![Some(next); count];
                let flags = MsgFlags::empty();
                packets +=
                    sendmmsg(middle.as_raw_fd(), &mut headers, &slices, to, [], flags)?.count();
                Ok(())
            })?;
            Ok(packets as f64 / (cpu_seconds() - start))
        }
    });
    flood(source, to, None, sink)?;
    stop.store(true, Ordering::Relaxed);
    forwarder.join().map_err(|_| "the forwarder panicked")?
}

/// Packets per processor second of a node with one flow and one branch, as `identity` on protected links.
fn run_switch(identity: Option<Identity>) -> Result<f64, Failed> {
    let identity = identity.map(Arc::new);
    let (source, sink) = (socket()?, socket()?);
    let stop = CancellationToken::new();
    let (told, addr) = std::sync::mpsc::channel();
    let node = thread::spawn({
        let (stop, identity) = (stop.clone(), identity.clone());
        move || -> Result<f64, Failed> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let switch = SwitchConfig::default();
                let listen = "127.0.0.1:0".parse()?;
                let mut config = NodeConfig::new(switch, listen, PortConfig::default());
                config.identity = identity;
                let node = Node::bind(config).await?;
                told.send((node.local_addr(), node.media_addr()))?;
                let start = cpu_seconds();
                let (events, _) = tokio::sync::mpsc::channel(1);
                let summary = node.run(stop, events, &mut Off).await?;
                Ok(summary.udp.sent as f64 / (cpu_seconds() - start))
            })
        }
    });
    let (node_addr, media_addr) = addr.recv()?;
    let trust = identity.map(|identity| Trust::Node(identity.fingerprint()));
    let remote = Remote::new(node_addr, Bearer::new(trust, Control::Tcp));
    let mut upstream = Neighbour::call(&remote, "generator", 1, &source)?;
    upstream.say(&Signal::Advertise {
        flow: Box::new(flow()),
    })?;
    let mut downstream = Neighbour::call(&remote, "counter", 2, &sink)?;
    downstream.wait_for(|signal| matches!(signal, Signal::Advertise { .. }))?;
    downstream.say(&Signal::Join {
        flow: FlowId(1),
        epoch: layercast_wire::Epoch::default(),
        member: Member {
            name: "counter".into(),
            id: NodeId(2),
        },
        level: Level::BASE,
        proof: None,
        again: false,
        answer: None,
    })?;
    upstream.wait_for(|signal| matches!(signal, Signal::Join { .. }))?;
    upstream.say(&Signal::JoinAck {
        flow: FlowId(1),
        vci: 64,
        level: Level::BASE,
        agreed: None,
    })?;
    downstream.wait_for(|signal| matches!(signal, Signal::JoinAck { .. }))?;
    flood(source, media_addr, upstream.sealer.take(), sink)?;
    stop.cancel();
    node.join().map_err(|_| "the node panicked")?
}

fn flow() -> FlowInfo {
    let mut spec = FlowSpec {
        flow_id: FlowId(1),
        ..FlowSpec::default()
    };
    spec.layers.base = LayerRate {
        mean: layercast_core::CellRate(1_000),
        ..LayerRate::default()
    };
    FlowInfo {
        group: GroupId(1),
        spec,
        clock: clock_name(),
        ..FlowInfo::new(FlowId(1), "flood", "generator")
    }
}

/// A neighbour that is only a thread here, which keeps its session channel alive.
struct Neighbour {
    say: mpsc::Sender<Signal>,
    heard: std::sync::mpsc::Receiver<Signal>,
    sealer: Option<LinkSealer>,
}

impl Neighbour {
    fn call(remote: &Remote, name: &str, id: u8, data: &UdpSocket) -> Result<Neighbour, Failed> {
        let key = LinkKey::new(0, [id; 32]);
        let link_key = matches!(remote.bearer, Bearer::Quic(_)).then_some(key);
        let hello = Hello {
            node: name.into(),
            id: NodeId(u32::from(id)),
            udp_port: data.local_addr()?.port(),
            carriage: Carriage::Datagrams,
            clock: clock_name(),
            link_key: link_key.clone(),
            repair: None,
            group: None,
            group_repair: None,
            prompt: false,
            clocks: false,
            pings: false,
        };
        let (say, to_say) = mpsc::channel(16);
        let (told, heard) = std::sync::mpsc::channel();
        let remote = remote.clone();
        thread::spawn(move || -> Result<(), Failed> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                match remote.bearer {
                    Bearer::Tcp => {
                        let channel = TcpChannel::connect(remote.addr, None).await?;
                        converse(channel, to_say, told).await
                    }
                    Bearer::Xtp => {
                        let channel = XtpChannel::connect(remote.addr, None).await?;
                        converse(channel, to_say, told).await
                    }
                    Bearer::Quic(trust) => {
                        let own = Identity::generate()?;
                        let channel = QuicChannel::connect(remote.addr, None, &own, &trust).await?;
                        converse(channel, to_say, told).await
                    }
                }
            })
        });
        let mut neighbour = Neighbour {
            say,
            heard,
            sealer: link_key.as_ref().map(LinkSealer::new),
        };
        neighbour.say(&hello.signal())?;
        neighbour.wait_for(|signal| matches!(signal, Signal::Hello { .. }))?;
        Ok(neighbour)
    }

    fn say(&mut self, signal: &Signal) -> Result<(), Failed> {
        Ok(self.say.blocking_send(signal.clone())?)
    }

    fn wait_for(&mut self, what: impl Fn(&Signal) -> bool) -> Result<(), Failed> {
        while !what(&self.heard.recv_timeout(Duration::from_secs(5))?) {}
        Ok(())
    }
}

async fn converse<C: SignalChannel>(
    channel: C,
    mut to_say: mpsc::Receiver<Signal>,
    told: std::sync::mpsc::Sender<Signal>,
) -> Result<(), Failed> {
    let (mut receiver, mut sender) = channel.split();
    loop {
        tokio::select! {
            said = to_say.recv() => match said {
                Some(signal) => sender.send(&[signal]).await?,
                None => return Ok(()),
            },
            heard = receiver.recv() => match heard? {
                // There may be no waiting task.
                Some(signal) => drop(told.send(signal)),
                None => return Ok(()),
            },
        }
    }
}
