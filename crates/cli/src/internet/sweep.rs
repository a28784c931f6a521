//! `layercast sim --seeds`: many runs of one scenario, in a folder that a later start continues with.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufReader, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use indicatif::ProgressBar;
use layercast_core::Span;
use layercast_sim::file;
use layercast_sim::internet::{Internet, Network, Stopped};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::figures::Figures;
use super::run::{Run, processors, steps};
use super::{RAISE, load, ready};
use crate::args;
use crate::failure::{Failure, Outcome};
use crate::metrics::{Metrics, MetricsArgs};
use crate::output::{count, print, print_json};
use crate::progress;
use crate::scenario::Override;
use crate::sim::on_interrupt;

/// Runs the scenario `text`, read from `path`, once for each seed that the folder `--out` does not have.
pub fn run(args: &args::Sim, path: &Path, text: &str, seeds: RangeInclusive<u64>) -> Outcome {
    let Some(folder) = &args.out else {
        return Err(Failure::Usage(
            "--seeds writes a folder for each seed: give the folder for all of them by --out DIR"
                .to_owned(),
        ));
    };
    // Any seed finds the errors, and identifies the scenario.
    let (name, network) = ready(args, path, text, Some(0))?;
    let _lock = claim(folder, &Stamp::new(&name, &network)?)?;
    let missing: Vec<u64> = seeds.clone().filter(|&n| !done(folder, n)).collect();
    let jobs = args.jobs.map_or_else(processors, usize::from);
    let metrics = Metrics::open(
        &MetricsArgs {
            metrics: args.metrics,
            ..MetricsArgs::default()
        },
        "sim --seeds",
    )?;
    let stop = on_interrupt()?;
    let template = "{bar:40} {msg}, {eta} left";
    let sweep = Sweep {
        args,
        path,
        text,
        folder,
        missing: &missing,
        next: AtomicUsize::new(0),
        finished: AtomicUsize::new(0),
        stop: &stop,
        duration: network.duration,
        bar: progress::bar(steps(&network) * missing.len() as u64, template),
        metrics,
    };
    drop(network);
    sweep.show_progress();
    let outcome = sweep.work(jobs);
    sweep.bar.finish_and_clear();
    outcome?;
    let mut figures = Figures::default();
    for seed in seeds.filter(|&seed| done(folder, seed)) {
        figures.add(seed, &read(&summary_of(folder, seed))?);
    }
    let made = sweep.finished.into_inner();
    let left = missing.len() - made;
    let report = figures.report(name, made, left);
    match args.json {
        true => print_json(&report)?,
        false => print(&report.describe())?,
    }
    if left > 0 {
        eprintln!(
            "stopped with {} to go; the same command continues in {}",
            count(left, "seed"),
            folder.display()
        );
        return Err(Failure::Interrupted);
    }
    match report.partial.as_slice() {
        [] => Ok(()),
        [seed, ..] => {
            let what = format!("seed {seed} came to the end of its budget");
            Err(Failure::of(path, what).hint(RAISE))
        }
    }
}

/// The work and its workers.
struct Sweep<'a> {
    args: &'a args::Sim,
    path: &'a Path,
    text: &'a str,
    folder: &'a Path,
    missing: &'a [u64],
    /// How long each run is.
    duration: Span,
    /// Index in `missing` of the next free seed.
    next: AtomicUsize,
    finished: AtomicUsize,
    stop: &'a AtomicBool,
    bar: ProgressBar,
    metrics: Metrics,
}

impl Sweep<'_> {
    /// Makes all missing runs, `jobs` at a time; the first failure ends the others.
    fn work(&self, jobs: usize) -> Outcome {
        thread::scope(|scope| {
            let worker = || {
                self.worker()
                    .inspect_err(|_| self.stop.store(true, Ordering::Relaxed))
            };
            let jobs = jobs.min(self.missing.len());
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
            let ended = workers.into_iter().map(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.fold(Ok(()), Outcome::and)
        })
    }

    fn worker(&self) -> Outcome {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(&seed) = self.missing.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            self.run(seed)?;
        }
        Ok(())
    }

    /// Makes one run; its folder gets its name when all is in it.
    fn run(&self, seed: u64) -> Outcome {
        let part = self.folder.join(format!(".seed-{seed}"));
        remove(&part)?;
        let instead = Override {
            seed: Some(seed),
            at_most: Some(self.duration),
            ..Override::default()
        };
        let (scenario, mut network, _) = load(self.path, self.text, instead)?;
        if let Some(atm) = &mut network.atm {
            atm.per_cell = self.args.per_cell;
        }
        let internet = Internet::new(&network).map_err(|error| Failure::of(self.path, error))?;
        let summary = Run {
            name: &scenario.name,
            network: &network,
            out: Some(&part),
            pcap: None,
            no_cells: false,
            stop: self.stop,
            threads: Some(1),
            traced: false,
            series: None,
            bar: &self.bar,
            alone: false,
        }
        .simulate(internet)?;
        if summary.report.stopped == Some(Stopped::Interrupted) {
            return remove(&part);
        }
        let whole = folder_of(self.folder, seed);
        // Without a summary it is not one of ours.
        remove(&whole)?;
        fs::rename(&part, &whole).map_err(|error| Failure::file(&whole, "make", &error))?;
        self.finished.fetch_add(1, Ordering::Relaxed);
        self.show_progress();
        Ok(())
    }

    fn show_progress(&self) {
        let finished = self.finished.load(Ordering::Relaxed);
        let all = self.missing.len();
        self.bar
            .set_message(format!("{finished} of {}", count(all, "seed")));
        self.metrics.keep("campaign", "done", json!(finished));
        self.metrics.keep("campaign", "of", json!(all));
    }
}

fn folder_of(folder: &Path, seed: u64) -> PathBuf {
    folder.join(format!("seed-{seed}"))
}

fn summary_of(folder: &Path, seed: u64) -> PathBuf {
    folder_of(folder, seed).join("summary.json")
}

fn done(folder: &Path, seed: u64) -> bool {
    summary_of(folder, seed).exists()
}

fn read(path: &Path) -> Result<serde_json::Value, Failure> {
    let text = file::read(path, file::MAX_DATA_FILE)
        .map_err(|error| Failure::file(path, "read", &error))?;
    let broken = |error| Failure::new(format!("{} is no summary: {error}", path.display()));
    serde_json::from_slice(&text).map_err(broken)
}

fn remove(folder: &Path) -> Outcome {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::file(folder, "remove", &error))
        }
        _ => Ok(()),
    }
}

/// What the runs of a folder have in common.
#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Stamp {
    /// Name of the scenario.
    scenario: String,
    /// Digest of the network with seed 0: the file, the files that it names, and the changes of the command line.
    network: String,
    /// Version and build of the simulator.
    engine: String,
}

impl Stamp {
    fn new(scenario: &str, network: &Network) -> Result<Stamp, Failure> {
        let mut of_network = Digest::default();
        fmt::Write::write_fmt(&mut of_network, format_args!("{network:?}"))
            .map_err(Failure::new)?;
        let program = std::env::current_exe().map_err(Failure::new)?;
        let mut of_program = Digest::default();
        File::open(&program)
            .and_then(|file| io::copy(&mut BufReader::new(file), &mut of_program))
            .map_err(|error| Failure::file(&program, "read", &error))?;
        Ok(Stamp {
            scenario: scenario.to_owned(),
            network: of_network.to_string(),
            engine: format!("{} {of_program}", env!("CARGO_PKG_VERSION")),
        })
    }
}

/// Makes `folder` and its `sweep.json`, or finds that both are there and of this `stamp`. No other process may
/// write to the folder as long as the file is held.
fn claim(folder: &Path, stamp: &Stamp) -> Result<File, Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file(folder, "make", &error))?;
    let path = folder.join("sweep.json");
    let failed = |error: io::Error| Failure::file(&path, "write", &error);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let what = format!("another sweep is at work in {}", folder.display());
            return Err(Failure::new(what));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    if text.is_empty() {
        let json = serde_json::to_string_pretty(stamp).map_err(Failure::new)? + "\n";
        file.write_all(json.as_bytes()).map_err(failed)?;
        return Ok(file);
    }
    let other = match serde_json::from_str::<Stamp>(&text) {
        Ok(there) if there == *stamp => return Ok(file),
        Ok(there) if there.engine == stamp.engine => "runs of another scenario or duration",
        Ok(_) => "runs of another build of layercast",
        Err(_) => "a sweep.json that is none",
    };
    let what = format!("{} holds {other}", folder.display());
    Err(Failure::new(what).hint("give another folder, or remove this one"))
}

/// Enough to distinguish inputs that were not made to collide.
#[derive(Default)]
struct Digest(DefaultHasher);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0.finish())
    }
}
