//! The measurements of ORL (xtp.md O1 to O5) on this machine: throughput and processor time against the block that a
//! user hands over, by a library in the address space of the user and by a daemon that users wait for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use layercast_net::{XtpAssociation, XtpDaemon, XtpHost, XtpListener, XtpNode};
use layercast_transport::xtp::{SendOptions, XtpConfig};
use layercast_wire::{XTP_HEADER, XtpService};
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

/// A user of XTP: in its own thread, or by the daemon.
enum User {
    Library(tokio::runtime::Runtime, XtpHost),
    Daemon(XtpDaemon),
}

impl User {
    fn new(daemon: bool) -> Result<User, Failed> {
        let open = || XtpNode::udp(SocketAddr::from(([127, 0, 0, 1], 0)));
        if daemon {
            return Ok(User::Daemon(XtpDaemon::start(open)?));
        }
        let runtime = runtime()?;
        let host = runtime.block_on(async { open().map(XtpHost::new) })?;
        Ok(User::Library(runtime, host))
    }

    /// Does something with the host, and waits for what comes of it.
    fn call<T, F>(&self, work: impl FnOnce(XtpHost) -> F + Send + 'static) -> Result<T, Failed>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        match self {
            User::Library(runtime, host) => Ok(runtime.block_on(work(host.clone()))),
            User::Daemon(daemon) => Ok(daemon.call(work)?),
        }
    }

    /// Processor time of the user, and of its daemon, in seconds.
    fn cpu(&self) -> Result<f64, Failed> {
        let other = match self {
            User::Library(..) => 0.0,
            User::Daemon(daemon) => daemon.call(|_| async { cpu_seconds() })?,
        };
        Ok(cpu_seconds() + other)
    }
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
    let user = User::new(daemon)?;
    let it = user.call(move |host| async move {
        let it = host
            .register(XtpService::STREAM)
            .configure(|config| configure(config, buffer, mode, block))
            .connect(to, PORT)?;
        it.connected().await.map(|()| Arc::new(it))
    })??;
    let data = Bytes::from(vec![0x5a; block]);
    let (start, before) = (Instant::now(), user.cpu()?);
    let mut sent = 0_u64;
    while start.elapsed() < RUN {
        // A user copies its block into the buffer that it shares with the daemon.
        let (it, data) = (it.clone(), Bytes::copy_from_slice(&data));
        user.call(move |_| async move {
            it.send(data, &SendOptions::default()).await?;
            match mode {
                Mode::BlastUn => Ok(()),
                Mode::AckRel | Mode::AckUn => it.settled().await,
            }
        })??;
        sent += block as u64;
    }
    let busy = (user.cpu()? - before) / start.elapsed().as_secs_f64();
    user.call(|_| async move {
        it.close_write()?;
        // The end of the other side says that it has everything.
        it.receive(1).await
    })??;
    Ok((sent, busy))
}

/// Takes everything: bytes, seconds, and the share of a processor.
fn take(
    daemon: bool,
    buffer: u32,
    mode: Mode,
    block: usize,
    told: &mpsc::Sender<SocketAddr>,
) -> Result<(u64, f64, f64), Failed> {
    let user = User::new(daemon)?;
    let (listener, address): (XtpListener, SocketAddr) = user.call(move |host| async move {
        let listener = host
            .register(XtpService::STREAM)
            .configure(|config| configure(config, buffer, mode, block))
            .bind(PORT)
            .listen(1);
        listener.map(|listener| (listener, host.local_addr()))
    })??;
    told.send(address)?;
    let it: Arc<XtpAssociation> = Arc::new(user.call(|_| async move { listener.accept().await })??);
    let mut bytes = 0;
    let (mut start, mut before) = (Instant::now(), user.cpu()?);
    loop {
        let one = it.clone();
        let chunk = user.call(|_| async move { one.receive(64 << 10).await })??;
        let Some(chunk) = chunk else {
            break;
        };
        if bytes == 0 {
            (start, before) = (Instant::now(), user.cpu()?);
        }
        bytes += chunk.data.len() as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    let busy = (user.cpu()? - before) / seconds;
    user.call(|_| async move { it.close_write() })??;
    // END may get lost: the other side asks for it.
    thread::sleep(Duration::from_millis(50));
    Ok((bytes, seconds, busy))
}
