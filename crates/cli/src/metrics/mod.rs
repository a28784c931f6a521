//! `--metrics ADDR`: what a running command counts, for Prometheus and for health checks.
//!
//! The values are those that the command prints with `--json`: the status of the last second, and of a node also what
//! `layercast stats` asks for, fresh for each scrape.

mod encode;
mod families;
mod http;
mod place;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use layercast_net::Remote;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::line::Line;
use crate::output::complain;
use crate::units;

/// Age of the last status above which a command that reports each second counts as stopped.
const STALE: Duration = Duration::from_secs(5);

/// `--metrics`.
#[derive(Clone, Debug, Default, Args)]
pub struct MetricsArgs {
    /// Serve counters for Prometheus at http://ADDR/metrics, and http://ADDR/health; a port alone is one of 127.0.0.1. No
    /// password protects them (docs/src/how-to/monitor.md)
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub metrics: Option<SocketAddr>,
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
    /// Answers at `address`, if there is one, from now until the command ends, and prints the URL on standard error.
    ///
    /// # Errors
    /// The address is taken, or is none of this host.
    pub fn open(address: Option<SocketAddr>, command: &'static str) -> Result<Metrics, Failure> {
        let Some(address) = address else {
            return Ok(Metrics::default());
        };
        let failed = |error| {
            Failure::new(format!("cannot serve metrics at {address}: {error}")).hint(
                "--metrics takes a free TCP port of this host, or 0 for any: --metrics 127.0.0.1:0",
            )
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let start = SystemTime::now().duration_since(UNIX_EPOCH);
        let metrics = Metrics(Some(Arc::new(State {
            command,
            started: Instant::now(),
            kept: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })));
        let start_s = start.map_or(0.0, |it| it.as_secs_f64());
        metrics.keep("command", "start_s", json!(start_s));
        if let Some(state) = &metrics.0 {
            http::serve(listener, Arc::clone(state)).map_err(failed)?;
        }
        complain(&format!("metrics at http://{address}/metrics"));
        Ok(metrics)
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

    /// Keeps a value under two keys.
    pub fn keep(&self, part: &str, key: &str, value: Value) {
        if let Some(state) = &self.0 {
            state.lock().keep(part, key, value);
        }
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
            (kept.values.clone(), kept.asked.clone())
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
