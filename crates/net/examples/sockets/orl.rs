//! The measurements of ORL (specs/xtp.md O1 to O5) on this machine: throughput and processor time against the block
//! that a user hands over, by a library in the address space of the user and by a daemon in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use layercast_net::{CancellationToken, XtpDaemon, XtpHost, XtpNode, XtpPlace};
use layercast_wire::{XTP_HEADER, XtpService};
use layercast_xtp::remote::ServerLimits;
use layercast_xtp::{SendOptions, XtpConfig};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use crate::Failed;
use crate::flow::{cpu_seconds, runtime};

pub const BLOCKS: [usize; 8] = [
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
];
pub const BUFFERS: [u32; 2] = [2_048, 4_096];
const PORT: u16 = 7_000;
/// How long each point is measured: the paper sent 100 MB.
const RUN: Duration = Duration::from_millis(500);
/// What is sent without waiting is bounded by what sockets hold.
const BLAST_WINDOW: u32 = 1 << 20;

/// The modes by the names they have in what is printed.
pub const MODES: [(&str, Mode); 3] = [
    ("ack-rel", Mode::AckRel),
    ("ack-un", Mode::AckUn),
    ("blast-un", Mode::BlastUn),
];

/// How the sender works.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    /// Reliable; the next block when the last one is acknowledged.
    AckRel,
    /// Neither repeated nor checked; the next block when the last one is acknowledged.
    AckUn,
    /// Neither repeated nor checked, and without waiting.
    BlastUn,
}

/// What serves a user: nothing but its own thread, or a daemon in a process of its own.
struct Service {
    place: XtpPlace,
    daemon: Option<(Child, PathBuf)>,
}

impl Service {
    /// A daemon runs where this thread does.
    fn new(daemon: bool, side: usize) -> Result<Service, Failed> {
        if !daemon {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            return Ok(Service {
                place: XtpPlace::Udp(any),
                daemon: None,
            });
        }
        let name = format!("layercast-orl-{}-{side}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("xtpd").arg(&path).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let said = child.stdout.take().ok_or("no output")?;
        BufReader::new(said).read_line(&mut String::new())?;
        Ok(Service {
            place: XtpPlace::Daemon(path.clone()),
            daemon: Some((child, path)),
        })
    }

    /// Processor time of the user's thread and of its daemon, in seconds.
    fn cpu(&self) -> Result<f64, Failed> {
        let other = match &self.daemon {
            None => 0.0,
            Some((child, _)) => {
                // Nanoseconds on a processor come first.
                let path = format!("/proc/{}/schedstat", child.id());
                let text = std::fs::read_to_string(path)?;
                let spent = text.split(' ').next().ok_or("no schedstat")?;
                spent.parse::<u64>()? as f64 * 1e-9
            }
        };
        Ok(cpu_seconds() + other)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some((child, path)) = &mut self.daemon {
            let _ = child.kill();
            let _ = child.wait();
            let _ = std::fs::remove_file(&path);
            path.as_mut_os_string().push(".lock");
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The daemon, until it is killed: `sockets xtpd PATH`.
pub fn serve() -> Result<Value, Failed> {
    let path = std::env::args().nth(2).ok_or("which path?")?;
    runtime()?.block_on(async {
        let node = XtpNode::udp(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let daemon = XtpDaemon::bind(path.as_ref(), node, ServerLimits::default())?;
        println!("ready");
        let never = CancellationToken::new();
        daemon.run(never, Duration::ZERO, |_| {}).await?;
        Ok(Value::Null)
    })
}

/// Keeps a thread, and those it starts, on one processor, where there are several: two hosts, each with its own.
fn stay(side: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let mut places = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    if let Some(place) = places.nth(side) {
        let mut set = CpuSet::new();
        set.set(place);
        // Where that is not allowed it runs where it may.
        let _ = sched_setaffinity(None, &set);
    }
}

pub fn run() -> Result<Value, Failed> {
    let mut points = Vec::new();
    for daemon in [false, true] {
        for buffer in BUFFERS {
            for (name, mode) in MODES {
                for block in BLOCKS {
                    let mut point = measure(daemon, buffer, mode, block)?;
                    point["how"] = json!(if daemon { "daemon" } else { "library" });
                    point["network_buffer"] = json!(buffer);
                    point["mode"] = json!(name);
                    point["block"] = json!(block);
                    points.push(point);
                }
            }
        }
    }
    Ok(json!({ "points": points }))
}

/// What both ends are configured to.
pub fn configure(config: &mut XtpConfig, buffer: u32, mode: Mode, block: usize) {
    config.max_data = buffer - XTP_HEADER as u32;
    config.window = match mode {
        // Twice the block, in synchronous mode.
        Mode::AckRel | Mode::AckUn => 2 * block as u32,
        Mode::BlastUn => BLAST_WINDOW,
    };
    config.send_buffer = config.window;
    config.error_control = mode == Mode::AckRel;
    config.checksum = mode == Mode::AckRel;
}

/// A transfer between two threads that have a processor each.
fn measure(daemon: bool, buffer: u32, mode: Mode, block: usize) -> Result<Value, Failed> {
    let (told, address) = mpsc::channel();
    let receiver = thread::spawn(move || {
        stay(1);
        take(daemon, buffer, mode, block, &told)
    });
    let sender = thread::spawn(move || {
        stay(0);
        give(daemon, buffer, mode, block, &address)
    });
    let (sent, busy) = sender.join().map_err(|_| "the sender panicked")??;
    let (bytes, seconds, receiver_busy) =
        receiver.join().map_err(|_| "the receiver panicked")??;
    Ok(json!({
        "mbit_s": bytes as f64 * 8e-6 / seconds,
        "sent": sent,
        "received": bytes,
        "sender_cpu": busy,
        "receiver_cpu": receiver_busy,
    }))
}

/// Sends for some time: bytes, and the share of a processor.
fn give(
    daemon: bool,
    buffer: u32,
    mode: Mode,
    block: usize,
    address: &mpsc::Receiver<SocketAddr>,
) -> Result<(u64, f64), Failed> {
    let to = address.recv()?;
    let service = Service::new(daemon, 0)?;
    runtime()?.block_on(async {
        let host = XtpHost::open(&service.place).await?;
        let it = host
            .register(XtpService::STREAM)
            .configure(|config| configure(config, buffer, mode, block))
            .connect(to, PORT)?;
        it.connected().await?;
        let data = Bytes::from(vec![0x5a; block]);
        let (start, before) = (Instant::now(), service.cpu()?);
        let mut sent = 0_u64;
        while start.elapsed() < RUN {
            // A user has its block in a buffer of its own.
            let data = Bytes::copy_from_slice(&data);
            it.send(data, &SendOptions::default()).await?;
            if mode != Mode::BlastUn {
                it.settled().await?;
            }
            sent += block as u64;
        }
        let busy = (service.cpu()? - before) / start.elapsed().as_secs_f64();
        it.close_write()?;
        // The end of the other side says that it has everything.
        it.receive(1).await?;
        Ok((sent, busy))
    })
}

/// Takes everything: bytes, seconds, and the share of a processor.
fn take(
    daemon: bool,
    buffer: u32,
    mode: Mode,
    block: usize,
    told: &mpsc::Sender<SocketAddr>,
) -> Result<(u64, f64, f64), Failed> {
    let service = Service::new(daemon, 1)?;
    runtime()?.block_on(async {
        let host = XtpHost::open(&service.place).await?;
        let listener = host
            .register(XtpService::STREAM)
            .configure(|config| configure(config, buffer, mode, block))
            .bind(PORT)
            .listen(1)
            .await?;
        told.send(host.local_addr())?;
        let it = listener.accept().await?;
        let mut bytes = 0;
        let (mut start, mut before) = (Instant::now(), service.cpu()?);
        while let Some(chunk) = it.receive(64 << 10).await? {
            if bytes == 0 {
                (start, before) = (Instant::now(), service.cpu()?);
            }
            bytes += chunk.data.len() as u64;
        }
        let seconds = start.elapsed().as_secs_f64();
        let busy = (service.cpu()? - before) / seconds;
        it.close_write()?;
        // END may get lost: the other side asks for it.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok((bytes, seconds, busy))
    })
}
