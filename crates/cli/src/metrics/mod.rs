//! `--metrics ADDR`: what a running command counts, for Prometheus and for health checks.
//!
//! The values are those that the command prints with `--json`: the status of the last second, and of a node also what
//! `layercast stats` asks for, fresh for each scrape.

mod encode;
mod families;
mod http;
mod mib;
mod place;
mod snmp;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use layercast_net::{Monitors, Producer, Remote, Watch};
use layercast_snmp::MOST_COMMUNITY;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::line::Line;
use crate::output::complain;
use crate::units;
use snmp::Snmp;

/// Age of the last status above which a command that reports each second counts as stopped.
const STALE: Duration = Duration::from_secs(5);

/// Events of the ring of a transfer: a packet each, which come at up to a million a second.
const EVENTS: usize = 1 << 15;

/// `--metrics` and `--snmp`.
#[derive(Clone, Debug, Default, Args)]
pub struct MetricsArgs {
    /// Serve counters for Prometheus at http://ADDR/metrics, and http://ADDR/health; a port alone is one of 127.0.0.1. No
    /// password protects them (docs/src/how-to/monitor.md)
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Answer SNMPv2c requests about the same values at this UDP address, read-only; a port alone is one of 127.0.0.1
    /// (docs/src/how-to/monitor.md)
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub snmp: Option<SocketAddr>,
    /// Send an SNMP trap there when a receiver does not get what was agreed; may be given several times
    #[arg(long, value_name = "ADDR", requires = "snmp", value_parser = units::trap_manager)]
    pub snmp_trap: Vec<SocketAddr>,
    /// Community of SNMP requests and traps; an address outside 127.0.0.0/8 takes neither `public` nor `private`
    #[arg(long, value_name = "TEXT", requires = "snmp", default_value = PUBLIC, value_parser = community)]
    pub snmp_community: String,
}

/// The community that agents have by default.
const PUBLIC: &str = "public";
/// Communities that are tried first.
const KNOWN: [&str; 2] = [PUBLIC, "private"];

/// Reads a community.
fn community(text: &str) -> Result<String, String> {
    match text.len() {
        1..=MOST_COMMUNITY => Ok(text.to_owned()),
        _ => Err(format!("a community has 1 to {MOST_COMMUNITY} octets")),
    }
}

/// Reads the address of `--metrics`: `PORT` or `HOST:PORT`.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    match text.parse() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => units::listen(text),
    }
}

/// Where a running command puts what it counts; without `--metrics` nowhere.
#[derive(Clone, Default)]
pub struct Metrics(Option<Arc<State>>);

/// What a command counts.
struct State {
    command: &'static str,
    started: Instant,
    kept: Mutex<Kept>,
    /// Held while the node is asked: one scrape after the other, each with a connection of its own.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Kept {
    /// By the kind of status.
    values: Map<String, Value>,
    /// When the status of the last second came, of commands that have one.
    second: Option<Instant>,
    /// The process that is asked at each scrape.
    asked: Option<Asked>,
    /// The QoS monitor of the machines of the command.
    monitor: Option<Watch>,
}

/// A process with counters that the command does not report: each scrape requests them.
#[derive(Clone)]
enum Asked {
    /// The node of the command.
    Node(Remote),
    /// The daemon at this path.
    Xtpd(PathBuf),
}

impl Metrics {
    /// Answers at the addresses of `args`, if there are any, from now until the command ends, and prints them on standard error.
    ///
    /// # Errors
    /// An address is taken, or is none of this host.
    pub fn open(args: &MetricsArgs, command: &'static str) -> Result<Metrics, Failure> {
        if args.metrics.is_none() && args.snmp.is_none() {
            return Ok(Metrics::default());
        }
        let metrics = Metrics::keeping(command);
        if let Some(state) = &metrics.0 {
            if let Some(address) = args.metrics {
                serve_http(address, state)?;
            }
            if let Some(address) = args.snmp {
                serve_snmp(address, args, state)?;
            }
        }
        Ok(metrics)
    }

    /// Keeps what a command reports.
    fn keeping(command: &'static str) -> Metrics {
        let metrics = Metrics(Some(Arc::new(State {
            command,
            started: Instant::now(),
            kept: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })));
        let start = SystemTime::now().duration_since(UNIX_EPOCH);
        let start_s = start.map_or(0.0, |it| it.as_secs_f64());
        metrics.keep("command", "start_s", json!(start_s));
        metrics
    }

    /// Keeps the status of the last second.
    pub fn line(&self, line: &Line) {
        let Some(state) = &self.0 else { return };
        if let Some((report, object)) = reported(line) {
            let mut kept = state.lock();
            kept.values.insert(report, object);
            kept.second = Some(Instant::now());
        }
    }

    /// Keeps a line of the progress of a command that has no status each second, as a part of that.
    pub fn line_of(&self, part: &str, line: &impl Serialize) {
        let Some(state) = &self.0 else { return };
        if let Some((report, object)) = reported(line) {
            state.lock().keep(part, &report, object);
        }
    }

    /// Keeps all counters of a command, beside its status of the last second.
    pub fn counted(&self, counters: &impl Serialize) {
        if let Some(state) = &self.0
            && let Ok(counters) = serde_json::to_value(counters)
        {
            state.lock().values.insert("counted".into(), counters);
        }
    }

    /// Keeps a value under two keys.
    pub fn keep(&self, part: &str, key: &str, value: Value) {
        if let Some(state) = &self.0 {
            state.lock().keep(part, key, value);
        }
    }

    /// The ring of a QoS monitor for the machines of the command, whose values are in each scrape; without `--metrics` none.
    pub fn monitor(&self) -> Option<Producer> {
        let state = self.0.as_ref()?;
        let watched = Monitors::of_process().watch_more(EVENTS);
        let (ring, watch) = watched.expect("a power of two is a capacity");
        state.lock().monitor = Some(watch);
        Some(ring)
    }

    /// The node of the command is asked for its flows, members and links at each scrape.
    pub fn ask_node(&self, node: Remote) {
        self.ask(Asked::Node(node));
    }

    /// The daemon at `path`, which the command is, is asked at each scrape.
    pub fn ask_xtpd(&self, path: PathBuf) {
        self.ask(Asked::Xtpd(path));
    }

    fn ask(&self, asked: Asked) {
        if let Some(state) = &self.0 {
            state.lock().asked = Some(asked);
        }
    }
}

fn serve_http(address: SocketAddr, state: &Arc<State>) -> Result<(), Failure> {
    let failed = |error| {
        Failure::new(format!("cannot serve metrics at {address}: {error}")).hint(
            "--metrics takes a free TCP port of this host, or 0 for any: --metrics 127.0.0.1:0",
        )
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    http::serve(listener, Arc::clone(state)).map_err(failed)?;
    complain(&format!("metrics at http://{address}/metrics"));
    Ok(())
}

fn serve_snmp(address: SocketAddr, args: &MetricsArgs, state: &Arc<State>) -> Result<(), Failure> {
    if !address.ip().to_canonical().is_loopback() && KNOWN.contains(&&*args.snmp_community) {
        let why = format!(
            "the community `{}` at {address} is one that every host knows: requests from forged addresses would have longer answers sent there",
            args.snmp_community
        );
        return Err(Failure::wrong_use(why).hint("choose one that others do not know: --snmp-community TEXT; or --snmp PORT, which other hosts do not reach"));
    }
    let failed = |error| {
        Failure::new(format!("cannot answer SNMP at {address}: {error}")).hint(
            "--snmp takes a free UDP port of this host, or 0 for any; 161 needs root: --snmp 127.0.0.1:1161",
        )
    };
    let socket = UdpSocket::bind(address).map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    let snmp = Snmp {
        socket,
        traps: args
            .snmp_trap
            .iter()
            .map(trap_socket)
            .collect::<Result<_, _>>()?,
        community: args.snmp_community.clone(),
    };
    snmp::serve(snmp, Arc::clone(state)).map_err(failed)?;
    complain(&format!("SNMP at udp:{address}"));
    Ok(())
}

/// A socket for traps to a manager: that of an agent on 127.0.0.1 reaches no other host.
fn trap_socket(manager: &SocketAddr) -> Result<UdpSocket, Failure> {
    let any: IpAddr = match manager {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let connected = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(manager)?;
        Ok(socket)
    });
    connected.map_err(|error| {
        Failure::new(format!("cannot send SNMP traps to {manager}: {error}"))
            .hint("--snmp-trap takes the address and UDP port of a manager that this host has a route to: --snmp-trap 127.0.0.1:162")
    })
}

/// The kind of a line, and its other values.
fn reported(line: &impl Serialize) -> Option<(String, Value)> {
    let Ok(Value::Object(mut object)) = serde_json::to_value(line) else {
        return None;
    };
    match object.remove("report") {
        Some(Value::String(report)) => Some((report, Value::Object(object))),
        _ => None,
    }
}

impl Kept {
    fn keep(&mut self, part: &str, key: &str, value: Value) {
        let entry = self.values.entry(part).or_insert_with(|| json!({}));
        if let Value::Object(object) = entry {
            object.insert(key.to_owned(), value);
        }
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All values, with those that have to be asked for.
    async fn values(&self) -> Result<Value, Failure> {
        let (mut values, asked) = {
            let kept = self.lock();
            let mut values = kept.values.clone();
            if let Some(monitor) = &kept.monitor {
                values.insert("monitor".into(), json!(monitor.overall()));
            }
            (values, kept.asked.clone())
        };
        let _turn = self.asking.lock().await;
        match asked {
            None => {}
            Some(Asked::Node(node)) => {
                values.insert("stats".into(), crate::stats::of_node(node).await?);
            }
            Some(Asked::Xtpd(path)) => {
                values.insert("xtpd".into(), json!(crate::xtpd::ask(&path).await?));
            }
        }
        Ok(Value::Object(values))
    }

    /// Whether the command works, and what it says at `/health`.
    fn health(&self) -> (bool, Value) {
        let age = self.lock().second.map(|at| at.elapsed());
        let is_stale = age.is_some_and(|age| age > STALE);
        let health = json!({
            "status": if is_stale { "stopped" } else { "ok" },
            "command": self.command,
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_s": self.started.elapsed().as_secs_f64(),
            "status_age_s": age.map(|age| age.as_secs_f64()),
        });
        (!is_stale, health)
    }
}

#[cfg(test)]
mod tests;
