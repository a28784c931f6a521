//! How many packets a second one core of the soft switch forwards on loopback, beside a bare
//! recvmmsg/sendmmsg loop that looks at nothing: `{"switch_pps", "bare_pps", "ratio"}` as JSON.
//!
//! Both are driven by the same overload and measured by the processor time of their thread, so
//! that a busy machine disturbs little.

use std::error::Error;
use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use layercast_core::{FlowId, FlowSpec, GroupId, LayerRate, Level, NodeId, Off, QosPolicy, Serial};
use layercast_net::{CancellationToken, Node, NodeConfig, SESSION_VERSION, clock_name};
use layercast_switch::{PortConfig, SwitchConfig};
use layercast_wire::{
    Carriage, Flags, FlowInfo, FrameType, Mark, Member, MetsHeader, MetsPacket, Payload, Signal,
};
use nix::sys::socket::{
    MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt,
};
use rustix::time::{ClockId, clock_gettime};

const BATCH: usize = 32;
const PAYLOAD: u32 = 1_176;
const DATAGRAM: usize = PAYLOAD as usize + 24;
const RUN: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let (mut switch, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(run_bare()?);
        switch.push(run_switch()?);
    }
    let (switch, bare) = (median(switch), median(bare));
    println!(
        "{}",
        serde_json::json!({
            "switch_pps": switch.round(),
            "bare_pps": bare.round(),
            "ratio": (switch / bare * 1_000.0).round() / 1_000.0,
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

/// Floods `to` until told to stop.
fn generate(from: &UdpSocket, to: SocketAddr, stop: &AtomicBool) -> Result<(), Failed> {
    let mut packets: Vec<Vec<u8>> = (0..BATCH as u32).map(packet).collect();
    let to = [Some(v4(to)?); BATCH];
    let mut headers = MultiHeaders::preallocate(BATCH, None);
    let mut seq = BATCH as u32;
    while !stop.load(Ordering::Relaxed) {
        for packet in &mut packets {
            packet[8..12].copy_from_slice(&seq.to_be_bytes());
            seq = seq.wrapping_add(1);
        }
        let slices: Vec<[IoSlice<'_>; 1]> = packets.iter().map(|p| [IoSlice::new(p)]).collect();
        let flags = MsgFlags::empty();
        let sent = sendmmsg(from.as_raw_fd(), &mut headers, &slices, to, [], flags)?;
        sent.for_each(drop);
    }
    Ok(())
}

/// Takes datagrams in batches until told to stop, and gives each batch to `each`.
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
            Err(nix::errno::Errno::EAGAIN) => continue,
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
fn flood(source: UdpSocket, to: SocketAddr, sink: UdpSocket) -> Result<(), Failed> {
    let stop = Arc::new(AtomicBool::new(false));
    let reader = thread::spawn({
        let stop = Arc::clone(&stop);
        move || receive(&sink, &stop, |_, _| Ok(()))
    });
    let writer = thread::spawn({
        let stop = Arc::clone(&stop);
        move || generate(&source, to, &stop)
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
    flood(source, to, sink)?;
    stop.store(true, Ordering::Relaxed);
    forwarder.join().map_err(|_| "the forwarder panicked")?
}

/// Packets per processor second of a node with one flow and one branch.
fn run_switch() -> Result<f64, Failed> {
    let (source, sink) = (socket()?, socket()?);
    let stop = CancellationToken::new();
    let (told, addr) = std::sync::mpsc::channel();
    let node = thread::spawn({
        let stop = stop.clone();
        move || -> Result<f64, Failed> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let switch = SwitchConfig::default();
                let listen = "127.0.0.1:0".parse()?;
                let config = NodeConfig::new(switch, listen, PortConfig::default());
                let node = Node::bind(config).await?;
                told.send(node.local_addr())?;
                let start = cpu_seconds();
                let (events, _) = tokio::sync::mpsc::channel(1);
                let summary = node.run(stop, events, &mut Off).await?;
                Ok(summary.udp.sent as f64 / (cpu_seconds() - start))
            })
        }
    });
    let node_addr = addr.recv()?;
    let mut upstream = Neighbour::call(node_addr, "generator", 1, &source)?;
    upstream.say(&Signal::Advertise { flow: flow() })?;
    let mut downstream = Neighbour::call(node_addr, "counter", 2, &sink)?;
    downstream.wait_for(|signal| matches!(signal, Signal::Advertise { .. }))?;
    downstream.say(&Signal::Join {
        flow: FlowId(1),
        member: Member {
            name: "counter".into(),
            id: NodeId(2),
        },
        level: Level::BASE,
        proof: None,
    })?;
    upstream.wait_for(|signal| matches!(signal, Signal::Join { .. }))?;
    upstream.say(&Signal::JoinAck {
        flow: FlowId(1),
        vci: 64,
        level: Level::BASE,
    })?;
    downstream.wait_for(|signal| matches!(signal, Signal::JoinAck { .. }))?;
    flood(source, node_addr, sink)?;
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
        id: FlowId(1),
        name: "flood".into(),
        group: GroupId(1),
        spec,
        policy: QosPolicy::default(),
        source: "generator".into(),
        clock: clock_name(),
        aal5_mark: Mark::default(),
        revision: 0,
        path_delay_us: 0,
        core: None,
        identity: None,
        via: Default::default(),
    }
}

/// The session channel of a neighbour that is only a thread here.
struct Neighbour {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Neighbour {
    fn call(node: SocketAddr, name: &str, id: u32, data: &UdpSocket) -> Result<Neighbour, Failed> {
        let stream = TcpStream::connect(node)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let lines = BufReader::new(stream.try_clone()?);
        let mut neighbour = Neighbour { stream, lines };
        neighbour.say(&Signal::Hello {
            node: name.into(),
            id: NodeId(id),
            version: SESSION_VERSION,
            udp_port: data.local_addr()?.port(),
            carriage: Carriage::Datagrams,
            clock: clock_name(),
            link_key: None,
        })?;
        neighbour.wait_for(|signal| matches!(signal, Signal::Hello { .. }))?;
        Ok(neighbour)
    }

    fn say(&mut self, signal: &Signal) -> Result<(), Failed> {
        Ok(self.stream.write_all(&signal.to_line()?)?)
    }

    fn wait_for(&mut self, what: impl Fn(&Signal) -> bool) -> Result<(), Failed> {
        loop {
            let mut line = Vec::new();
            self.lines.read_until(b'\n', &mut line)?;
            if what(&Signal::from_line(&line)?) {
                return Ok(());
            }
        }
    }
}
