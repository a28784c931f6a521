//! `layercast path`: can a path carry a real-time service now?

pub mod args;
mod calibrate;
mod recv;
mod report;
mod send;

use std::net::SocketAddr;
use std::path::Path;

use layercast_core::Span;
use layercast_net::PathError;
use layercast_sync_index::{EstimatorConfig, Filter, Mode, OutcomeKind, Record, ServiceMap};
use serde::{Deserialize, Serialize};

use crate::address;
use crate::failure::{Failure, Outcome};
use crate::host_port;
use crate::scenario;

use args::{Estimation, PathCommand};

/// Runs the command.
pub fn run(args: &args::Path) -> Outcome {
    match &args.command {
        PathCommand::Send(args) => send::run(args),
        PathCommand::Recv(args) => recv::run(args),
        PathCommand::Report(args) => report::run(args),
        PathCommand::Calibrate(args) => calibrate::run(args),
    }
}

/// A result of a measured path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IndexStatus {
    /// Seconds since the start.
    pub t_s: f64,
    /// Address of the other end; null for a media flow.
    pub peer: Option<SocketAddr>,
    /// Whether it is the last result once more (`recv --publish`).
    pub published: bool,
    /// The result.
    #[serde(flatten)]
    pub record: Record,
    /// Whether the service of `--admit` is admitted and has its quality.
    pub admitted: Option<bool>,
    /// Rate at which the source of `--steer` should send.
    pub target_bps: Option<u64>,
}

impl IndexStatus {
    /// In words.
    fn in_words(&self) -> String {
        let record = &self.record;
        let loss = format!(
            "{:.2} % lost",
            f64::from(record.loss_ppm.unwrap_or(0)) / 1e4
        );
        let index = match (record.outcome, &record.estimate) {
            (_, Some(it)) => {
                let queue = it
                    .queue_ms
                    .map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
                let mut text = format!("index {:.2} ms, queue {queue}, {loss}", it.xi_ms);
                if it.coarse_clock {
                    text += &format!(", coarse clock: {:.2} ms is nothing", it.floor_ms);
                }
                if it.sender_unreliable {
                    text += ", the sender is too late too often";
                }
                text
            }
            (Some(OutcomeKind::NoSignal), _) => format!("no signal, {loss}"),
            (Some(_), _) => format!("too few probes, {loss}"),
            (None, _) => "no current result".to_owned(),
        };
        let levels = record.levels.iter().map(|(service, level)| {
            let level = level.as_deref().unwrap_or("not supported");
            format!("{service}: {level}")
        });
        let levels = levels.collect::<Vec<_>>().join(", ");
        let target = self.target_bps.map_or(String::new(), |bps| {
            format!("; target {:.0} kbit/s", bps as f64 / 1e3)
        });
        let again = match (self.published, record.age_ms) {
            (true, Some(age)) => format!("  ({:.1} s old)", age / 1e3),
            _ => String::new(),
        };
        format!("{index}; {levels}{target}{again}")
    }
}

/// The configuration that the options state.
fn config(args: &Estimation) -> Result<EstimatorConfig, Failure> {
    let config = EstimatorConfig {
        lags: args.lags,
        windows: args.windows,
        percentile: args.percentile,
        mode: if args.rolling {
            Mode::Rolling
        } else {
            Mode::Tumbling
        },
        filter: if args.paper {
            Filter::Paper
        } else {
            Filter::Robust
        },
        resolution: Span::ZERO,
        baseline: args.baseline,
    };
    config.check().map_err(Failure::wrong_use)?;
    Ok(config)
}

/// The table of services.
fn services(path: Option<&Path>) -> Result<ServiceMap, Failure> {
    let Some(path) = path else {
        return Ok(ServiceMap::default());
    };
    let text = scenario::read(path)?;
    let map: ServiceMap = toml::from_str(&text).map_err(|error| Failure::of(path, error))?;
    map.check().map_err(|error| Failure::of(path, error))?;
    Ok(map)
}

/// Why a path cannot be measured: the options, or the system.
fn failed(error: PathError) -> Failure {
    match error {
        PathError::Net(error) => Failure::net(error),
        PathError::Config(error) => Failure::wrong_use(error),
    }
}

/// The address of a host that runs `path recv`.
async fn resolve(to: &str) -> Result<SocketAddr, Failure> {
    let unknown = |why: String| {
        Failure::new(format!("cannot find {to}: {why}"))
            .hint("give host and port of layercast path recv, such as 192.0.2.7:9500")
    };
    let found = address::first_of(to).await.map_err(unknown)?;
    match host_port::no_destination(found) {
        Some(problem) => Err(unknown(format!("it {problem}"))),
        None => Ok(found),
    }
}
