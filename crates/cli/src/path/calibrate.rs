//! `layercast path calibrate`: thresholds of a service, and the index of an idle path.

use std::path::Path;

use layercast_net::PathSender;
use layercast_sim::file;
use layercast_sync_index::{Run, SenderEvent, ServiceMap, calibrate};
use serde::Serialize;

use super::args::Calibrate;
use super::send;
use crate::failure::{Failure, Outcome};
use crate::node::{Stop, runtime};
use crate::output::{count, print, print_json};

/// The index of an idle path.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Baseline {
    /// Median of the results, milliseconds: for `recv --baseline`.
    pub baseline_ms: f64,
    /// The largest result, milliseconds.
    pub most_ms: f64,
    /// Results.
    pub results: usize,
}

/// Runs the command.
pub fn run(args: &Calibrate) -> Outcome {
    match (&args.idle, &args.runs) {
        (Some(to), _) => idle(args, to),
        (None, Some(runs)) => thresholds(args, runs),
        (None, None) => Err(Failure::Usage(
            "give RUNS.csv, or --idle HOST:PORT".to_owned(),
        )),
    }
}

fn thresholds(args: &Calibrate, path: &Path) -> Outcome {
    let text = file::read_text(path, file::MAX_DATA_FILE);
    let text = text.map_err(|error| Failure::file(path, "read", &error))?;
    let mut runs = Vec::new();
    for (place, line) in text.lines().enumerate() {
        if place == 0 && line.starts_with("xi_ms") || line.trim().is_empty() {
            continue;
        }
        let run = line.split_once(',').and_then(|(xi, quality)| {
            let xi_ms = xi.trim().parse().ok()?;
            let quality = quality.trim().to_owned();
            Some(Run { xi_ms, quality })
        });
        let run = run.ok_or_else(|| {
            Failure::of(path, format!("line {}: {line:?} is no run", place + 1))
                .hint("a line is xi_ms,quality such as 4.7,best")
        })?;
        runs.push(run);
    }
    let levels: Vec<&str> = args.levels.iter().map(String::as_str).collect();
    let service =
        calibrate(&args.service, &levels, &runs).map_err(|error| Failure::of(path, error))?;
    if args.json {
        return print_json(&service);
    }
    let map = ServiceMap {
        service: vec![service],
    };
    let text = toml::to_string(&map).map_err(Failure::new)?;
    print(&format!("# From {}.\n{text}", count(runs.len(), "run")))
}

fn idle(args: &Calibrate, to: &str) -> Outcome {
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let to = super::resolve(to).await?;
        let config = send::train(args.period, Some(args.duration), false, None);
        config.check().map_err(Failure::wrong_use)?;
        let sender = PathSender::bind(to, config).map_err(super::failed)?;
        let (mut found, mut failure) = (Vec::new(), None);
        let stats = sender.run(stop.token.clone(), |event| match event {
            SenderEvent::Report { outcome, .. } => {
                found.extend(outcome.estimate().map(|it| it.xi_ms))
            }
            SenderEvent::Refused(reason) => failure = Some(send::refused(to, reason)),
            SenderEvent::NoAnswer => failure = Some(send::no_answer(to)),
            SenderEvent::Silent => failure = Some(send::silent(to)),
            SenderEvent::Started | SenderEvent::Finished => {}
        });
        stats.await.map_err(super::failed)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        stop.outcome()?;
        found.sort_by(f64::total_cmp);
        let (Some(baseline_ms), Some(most_ms)) =
            (found.get(found.len() / 2).copied(), found.last().copied())
        else {
            return Err(Failure::new(format!("no result within {}", args.duration))
                .hint("give a longer --for: the first result takes 300 probes"));
        };
        let results = found.len();
        if args.json {
            return print_json(&Baseline {
                baseline_ms,
                most_ms,
                results,
            });
        }
        print(&format!(
            "index of the idle path {baseline_ms:.3} ms (median of {}, at most {most_ms:.3} ms)\n\
             layercast path recv --baseline {:.0}us subtracts it\n",
            count(results, "result"),
            1e3 * baseline_ms
        ))
    })
}
