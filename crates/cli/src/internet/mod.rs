//! `layercast sim` with a scenario of an internetwork (docs/simulator.md).

pub mod capture;
mod files;
mod parquet;
pub mod table;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use indicatif::ProgressBar;
use layercast_core::Time;
use layercast_sim::internet::scenario::{Attachment, Scenario, ScenarioError};
use layercast_sim::internet::{
    Internet, Measurements, Network, Progress, Sample, Stopped, Summary, Watch,
};
use layercast_wire::Ipv4Packet;

use crate::args;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::progress;
pub use crate::scenario::Override;
use crate::sim::on_interrupt;
use capture::Capture;
use files::SampleFile;

/// Runs the scenario `text`, which was read from the file of `args`.
pub fn run(args: &args::Sim, path: &Path, text: &str) -> Outcome {
    for (flag, given) in [
        ("--trace", args.trace.is_some()),
        ("--wire-check", args.wire_check),
    ] {
        if given {
            let what = format!(
                "{flag} is for scenarios of METS, {} is an internetwork",
                path.display()
            );
            return Err(Failure::Usage(what));
        }
    }
    let instead = Override {
        seed: args.seed,
        at_most: args.duration,
    };
    let (scenario, mut network, attachments) = load(path, text, instead)?;
    if let Some(atm) = &mut network.atm {
        atm.per_cell = args.per_cell;
    }
    if !attachments.is_empty() {
        eprintln!(
            "note: no program is attached in the simulator; for that there is: layercast emulate {}",
            path.display()
        );
    }
    for warning in network.warnings() {
        eprintln!("warning: {warning}");
    }
    let mut internet = Internet::new(&network)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    if args.check {
        return print(&counts(path, &network));
    }
    let stop = on_interrupt()?;
    let mut watch = Watcher::new(&network, &stop);
    if let Some(folder) = &args.out {
        watch.file = Some(SampleFile::create(folder, names(&network))?);
    }
    if let Some(file) = &args.pcap {
        internet.capture();
        watch.capture = Some(Capture::create(file, internet.interfaces())?);
    }
    let report = internet.run(&mut watch);
    watch.bar.finish_and_clear();
    let summary = Summary {
        scenario: scenario.name,
        seed: network.seed,
        wall_seconds: watch.started.elapsed().as_secs_f64(),
        report,
        measurements: watch.measurements.finish(),
    };
    if let Some(capture) = watch.capture {
        capture.finish()?;
    }
    if let (Some(folder), Some(file)) = (&args.out, watch.file) {
        file.finish()?;
        files::write_summary(folder, &summary)?;
    }
    match args.json {
        true => print_json(&summary)?,
        false => print(&table::describe(&summary))?,
    }
    match summary.report.stopped {
        None => Ok(()),
        Some(Stopped::Interrupted) => Err(Failure::Interrupted),
        Some(stopped) => {
            let what = format!("{}: {}", path.display(), table::reason(stopped));
            Err(Failure::new(what).hint("the result is partial; raise the budget in [run]"))
        }
    }
}

/// Reads and checks a scenario, with some of its values exchanged.
pub fn load(
    path: &Path,
    text: &str,
    instead: Override,
) -> Result<(Scenario, Network, Vec<Attachment>), Failure> {
    let explain = |error: ScenarioError| {
        let error = error.located(text);
        let line = error.line.map_or(String::new(), |line| format!(":{line}"));
        Failure::new(format!("{}{line}: {}", path.display(), error.message()))
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut scenario = Scenario::from_toml(text, folder).map_err(explain)?;
    scenario.run.seed = instead.seed.unwrap_or(scenario.run.seed);
    if let Some(most) = instead.at_most {
        scenario.run.duration.0 = scenario.run.duration.0.min(most);
    }
    let (network, attachments) = scenario.resolve_attached().map_err(explain)?;
    Ok((scenario, network, attachments))
}

fn names(network: &Network) -> Vec<&str> {
    let workload = network.workload.iter();
    workload
        .flat_map(|population| population.workload.apps())
        .collect()
}

/// What `--check` prints.
fn counts(path: &Path, network: &Network) -> String {
    let atm = network.atm.as_ref();
    format!(
        "{}: {} nodes, {} links, {} LANs, {} switches, {} flows, {} applications: nothing wrong\n",
        path.display(),
        network.nodes.len(),
        network.links.len() + atm.map_or(0, |atm| atm.links.len()),
        network.lans.len(),
        atm.map_or(0, |atm| atm.switches.len()),
        network.flows.len(),
        names(network).len(),
    )
}

/// Shows how far a run is, and takes its measurements.
struct Watcher<'a> {
    bar: ProgressBar,
    started: Instant,
    stop: &'a AtomicBool,
    measurements: Measurements,
    file: Option<SampleFile<'a>>,
    capture: Option<Capture>,
}

impl<'a> Watcher<'a> {
    fn new(network: &Network, stop: &'a AtomicBool) -> Watcher<'a> {
        let template = "{bar:40} {percent}% of the network's time, {eta} left {msg}";
        Watcher {
            bar: progress::bar(network.duration.as_ms().max(1), template),
            started: Instant::now(),
            stop,
            measurements: Measurements::new(network),
            file: None,
            capture: None,
        }
    }
}

impl Watch for Watcher<'_> {
    fn sample(&mut self, sample: &Sample) {
        self.measurements.add(sample);
        if let Some(file) = &mut self.file {
            file.add(sample);
        }
    }

    fn packet(&mut self, at: Time, interface: u32, packet: &Ipv4Packet) {
        if let Some(capture) = &mut self.capture {
            capture.add(at, interface, packet);
        }
    }

    fn progress(&mut self, progress: Progress) -> bool {
        self.bar.set_position(progress.now.as_us() / 1_000);
        let wall = self.started.elapsed().as_secs_f64();
        if wall > 0.0 {
            let (rate, times) = (
                progress.events as f64 / wall,
                progress.now.as_secs_f64() / wall,
            );
            let message = format!(
                "({:.2} million events/s, {times:.0} times real time)",
                rate / 1e6
            );
            self.bar.set_message(message);
        }
        let full = self.capture.as_ref().is_some_and(Capture::failed);
        !full && !self.stop.load(Ordering::Relaxed)
    }
}
