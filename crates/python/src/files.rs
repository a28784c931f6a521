//! Files and folders to many receivers: what `python/layercast/files.py` is made of. Structures travel as JSON.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use layercast_core::{Off, Rate, Span};
use layercast_multicast::{Members, Outcome, Repair, SenderConfig};
use layercast_net::{
    CancellationToken, Destination, FileReceiver, Folder, RECEIVE_BUFFER, ReceiveConfig,
    ReceivedFile, ReceiverReport, SendConfig, SendPlan, SendReport, SentFile, TreeOptions,
    printable, receiver_identity, send_plan,
};
use layercast_wire::multicast::MemberId;
use pyo3::prelude::*;
use pyo3_async_runtimes::tokio::future_into_py;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::failed;

/// How long answers to an announcement are waited for before it is repeated, milliseconds.
const REPEAT_MS: u64 = 250;
/// Packets of a block, and parities that the code has for it, as `layercast send` has them.
const BLOCK: (u16, u32) = (256, 768);
/// Receivers at most.
const MOST: u32 = 65_536;

/// What is sent, and how.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sending {
    paths: Vec<PathBuf>,
    to: Vec<SocketAddr>,
    group: Option<SocketAddrV4>,
    interface: Ipv4Addr,
    hops: u8,
    rate_bps: u64,
    receivers: Option<u32>,
    wait_ms: u64,
    packet: u16,
    follow_links: bool,
    rename: bool,
}

/// Where files are received.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Receiving {
    out: PathBuf,
    listen: SocketAddr,
    group: Option<SocketAddrV4>,
    interface: Ipv4Addr,
    overwrite: bool,
    wait_ms: u64,
}

/// Sends files and folders; the report is JSON.
#[pyfunction]
fn send_json<'py>(py: Python<'py>, request: &str) -> PyResult<Bound<'py, PyAny>> {
    let request: Sending = serde_json::from_str(request).map_err(failed)?;
    future_into_py(py, async move {
        let options = TreeOptions {
            follow: request.follow_links,
            rename: request.rename,
        };
        let paths = request.paths.clone();
        let plan = tokio::task::spawn_blocking(move || SendPlan::of(&paths, options));
        let plan = plan.await.map_err(failed)?.map_err(|faults| {
            let faults = faults.iter();
            let lines = faults.map(|it| format!("cannot send {}: {}", printable(&it.path), it.why));
            failed(lines.collect::<Vec<String>>().join("\n"))
        })?;
        let (events, _) = mpsc::channel(1);
        let stop = CancellationToken::new();
        // If the user's task is cancelled, receivers are notified, by a task of its own.
        let _guard = stop.clone().drop_guard();
        let config = sending(request)?;
        let sent =
            tokio::spawn(async move { send_plan(plan, config, stop, events, &mut Off).await });
        let sent = sent.await.map_err(failed)?;
        Ok(about_all(&sent.map_err(failed)?).to_string())
    })
}

fn sending(request: Sending) -> PyResult<SendConfig> {
    if request.rate_bps == 0 {
        return Err(failed("a rate of 0 carries nothing"));
    }
    let mut machine = SenderConfig::layercast(Rate::from_bps(request.rate_bps));
    machine.packet_size = request.packet;
    if let Repair::Parity { most, .. } = &mut machine.repair {
        (machine.block, *most) = BLOCK;
    }
    machine.opening.wait = Span::from_ms(REPEAT_MS);
    let tries = request.wait_ms.div_ceil(REPEAT_MS);
    machine.opening.tries = u32::try_from(tries).unwrap_or(u32::MAX).max(1);
    let hosts = request.to.len() as u32;
    let to = match request.group {
        Some(group) => Destination::Group {
            group,
            interface: request.interface,
            hops: request.hops,
            side: None,
        },
        None => Destination::Hosts(request.to),
    };
    Ok(SendConfig {
        files: Vec::new(),
        to,
        machine,
        members: Members::Anyone {
            expect: request.receivers.or((hosts > 0).then_some(hosts)),
            most: MOST,
            late: true,
        },
    })
}

fn about_all(report: &SendReport) -> Value {
    let withheld = report.withheld.iter();
    let withheld = withheld.map(|it| json!({"file": it.name, "size": it.size, "why": it.why}));
    json!({
        "of": report.files, "octets": report.octets, "seconds": report.took.as_secs_f64(),
        "files": report.sent.iter().map(about_sent).collect::<Vec<Value>>(),
        "manifest": report.manifest.as_ref().map(about_sent),
        "withheld": withheld.collect::<Vec<Value>>(),
        "error": report.error.as_ref().map(ToString::to_string),
    })
}

fn about_sent(file: &SentFile) -> Value {
    let receivers = file.receivers.iter().map(about_receiver);
    json!({
        "file": file.name, "size": file.size, "seconds": file.took.as_secs_f64(),
        "failure": file.failure.as_ref().map(ToString::to_string),
        "receivers": receivers.collect::<Vec<Value>>(), "unreached": file.unreached,
        "in_use": file.in_use,
        "packets": file.stats.data, "parities": file.stats.parities, "passes": file.stats.rounds,
    })
}

fn about_receiver(it: &ReceiverReport) -> Value {
    let (outcome, why) = match it.outcome {
        Outcome::Pending => ("pending", None),
        Outcome::Delivered => ("delivered", None),
        Outcome::Failed(reason) => ("failed", Some(reason.name())),
        Outcome::NeverConnected => ("never answered", None),
    };
    json!({
        "member": format!("{:016x}", it.member.0), "name": it.name.as_deref(), "address": it.address,
        "outcome": outcome, "why": why, "seconds": it.took.map(|it| it.as_secs_f64()),
        "repairs": it.repairs, "loss": it.loss,
    })
}

/// Receives the files of one sender; what came of them is JSON.
#[pyfunction]
fn receive_json<'py>(py: Python<'py>, request: &str) -> PyResult<Bound<'py, PyAny>> {
    let request: Receiving = serde_json::from_str(request).map_err(failed)?;
    future_into_py(py, async move {
        std::fs::create_dir_all(&request.out)?;
        let identity = receiver_identity(&request.out)?;
        let receiver = FileReceiver::bind(ReceiveConfig {
            name: format!("{identity:016x}"),
            folder: Folder {
                path: request.out,
                overwrite: request.overwrite,
                most: u64::MAX,
            },
            group: request.group.map(|group| (group, request.interface)),
            side: None,
            listen: request.listen,
            member: MemberId(identity),
            identity: Some(identity),
            buffer: RECEIVE_BUFFER,
            key: None,
            forever: false,
            patience: Span::from_ms(request.wait_ms),
        });
        let (events, _) = mpsc::channel(1);
        let receiver = receiver.map_err(failed)?;
        let stop = CancellationToken::new();
        // If the user's task is cancelled, senders are notified, by a task of its own.
        let _guard = stop.clone().drop_guard();
        let received = tokio::spawn(async move { receiver.run(stop, events, &mut Off).await });
        let received = received.await.map_err(failed)?.map_err(failed)?;
        let files: Vec<Value> = received.files.iter().map(about_received).collect();
        Ok(
            json!({"files": files, "missing": received.missing, "listed": received.listed})
                .to_string(),
        )
    })
}

fn about_received(file: &ReceivedFile) -> Value {
    json!({
        "file": file.name.name, "size": file.size, "path": file.path.as_ref().map(|it| it.to_string_lossy()),
        "why": file.reason.map(|it| it.name()), "error": file.error,
        "seconds": file.took.as_secs_f64(),
    })
}

/// Puts the functions into the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(send_json, module)?)?;
    module.add_function(wrap_pyfunction!(receive_json, module)?)
}
