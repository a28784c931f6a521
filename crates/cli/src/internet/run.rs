//! One run, and what it leaves in its folder.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use indicatif::ProgressBar;
use layercast_core::{Span, Time};
use layercast_sim::internet::{
    Division, Internet, Measurements, Network, Point, PointSink, Progress, Sample, Summary, Watch,
};
use layercast_wire::{Cell, Ipv4Packet};

use super::capture::Capture;
use super::files::{self, SampleFile};
use super::names;
use super::series::SeriesFile;
use crate::failure::Failure;

/// How often a run moves its bar: once each simulated millisecond.
pub fn steps(network: &Network) -> u64 {
    network.duration.as_ms().max(1)
}

/// A run to be made.
pub struct Run<'a> {
    /// Of its scenario.
    pub name: &'a str,
    pub network: &'a Network,
    /// Folder for the results.
    pub out: Option<&'a Path>,
    /// File for its packets and cells.
    pub pcap: Option<&'a Path>,
    /// Only for packets.
    pub no_cells: bool,
    /// Ends it early.
    pub stop: &'a AtomicBool,
    /// Threads it may have; none: as many as make it quicker.
    pub threads: Option<u16>,
    /// Its machines are traced.
    pub traced: bool,
    /// File for a series, and the time between its points.
    pub series: Option<(&'a Path, Span)>,
    /// Moves on by [`steps`].
    pub bar: &'a ProgressBar,
    /// Whether it is the only run of the bar, which then shows its speed.
    pub alone: bool,
}

impl Run<'_> {
    /// Makes it: runs `internet`, which was made of its network.
    pub fn simulate(&self, mut internet: Internet) -> Result<Summary, Failure> {
        let network = self.network;
        let mut watch = Watcher {
            started: Instant::now(),
            shown: 0,
            measurements: Measurements::new(network),
            file: None,
            capture: None,
            series: None,
            threads: 1,
            run: self,
        };
        if let Some(folder) = self.out {
            watch.file = Some(SampleFile::create(folder, names(network))?);
        }
        if let Some(file) = self.pcap {
            watch.capture = Some(Capture::create(file, &mut internet, self.no_cells)?);
        }
        if let Some((path, _)) = self.series {
            watch.series = Some(SeriesFile::create(path)?);
        }
        let report = match (self.division(&internet), self.series) {
            (_, Some((_, every))) => internet.run_with_series(every, &mut watch),
            (Some(division), None) => {
                watch.threads = division.parts();
                let report = internet.run_divided(network, &division, &mut watch);
                report.map_err(Failure::new)?
            }
            (None, None) => internet.run(&mut watch),
        };
        self.bar.inc(steps(network).saturating_sub(watch.shown));
        let wall_seconds = watch.started.elapsed().as_secs_f64();
        let Watcher {
            measurements,
            file,
            capture,
            series,
            ..
        } = watch;
        if let Some(series) = series {
            series.finish()?;
        }
        if let Some(capture) = capture {
            capture.finish()?;
        }
        let summary = Summary {
            seed: network.seed,
            wall_seconds,
            report,
            measurements: measurements.finish(),
            scenario: self.name.to_owned(),
        };
        if let (Some(folder), Some(file)) = (self.out, file) {
            file.finish()?;
            files::write_summary(folder, network, &summary)?;
        }
        Ok(summary)
    }

    /// The parts that threads of their own are to run, if there are any.
    fn division(&self, internet: &Internet) -> Option<Division> {
        let network = self.network;
        let Some(threads) = self.threads else {
            let is_watched = self.pcap.is_some() || self.traced || self.series.is_some();
            let may = network.nodes.len() >= LARGE && !is_watched;
            let found = may.then(|| internet.divide(network, processors()))?;
            return found.ok().filter(|it| it.gain() >= WORTH_IT);
        };
        if threads == 1 {
            return None;
        }
        let alone = |why: &dyn Display| self.note(format_args!("one thread runs it: {why}"));
        if self.pcap.is_some() {
            alone(&"the packets are captured");
            return None;
        }
        if self.traced {
            alone(&"the machines are traced");
            return None;
        }
        if self.series.is_some() {
            alone(&"a series shows all flows and queues at one instant");
            return None;
        }
        let found = internet.divide(network, threads.into());
        let found = found.inspect_err(|why| alone(why)).ok()?;
        if found.gain() < 1.0 {
            self.note(format_args!(
                "one thread would be quicker, by estimate: there is little to do between two barriers of the threads"
            ));
        }
        Some(found)
    }

    fn note(&self, what: impl Display) {
        self.bar.suspend(|| eprintln!("note: {what}"));
    }
}

/// Networks of at least this number of nodes are run by several threads by default, where the estimated
/// speed-up is at least this factor.
const LARGE: usize = 2_000;
const WORTH_IT: f64 = 1.25;

/// How many threads this process can have at a time.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Shows how far a run is, and takes its measurements.
struct Watcher<'a> {
    run: &'a Run<'a>,
    started: Instant,
    /// Steps of the bar so far.
    shown: u64,
    measurements: Measurements,
    file: Option<SampleFile<'a>>,
    capture: Option<Capture>,
    series: Option<SeriesFile>,
    threads: usize,
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

    fn cell(&mut self, at: Time, interface: u32, cell: &Cell) {
        if let Some(capture) = &mut self.capture {
            capture.add_cell(at, interface, cell);
        }
    }

    fn point(&mut self, point: &Point<'_>) {
        if let Some(series) = &mut self.series {
            series.point(point);
        }
    }

    fn progress(&mut self, progress: Progress) -> bool {
        let done = progress.now.as_us() / 1_000;
        self.run.bar.inc(done.saturating_sub(self.shown));
        self.shown = done;
        let wall = self.started.elapsed().as_secs_f64();
        if self.run.alone && wall > 0.0 {
            let (rate, times) = (
                progress.events as f64 / wall,
                progress.now.as_secs_f64() / wall,
            );
            let threads = match self.threads {
                1 => String::new(),
                threads => format!(", {threads} threads"),
            };
            let message = format!(
                "({:.2} million events/s, {times:.0} times real time{threads})",
                rate / 1e6
            );
            self.run.bar.set_message(message);
        }
        let full = self.capture.as_ref().is_some_and(Capture::failed)
            || self.series.as_ref().is_some_and(SeriesFile::is_failed);
        !full && !self.run.stop.load(Ordering::Relaxed)
    }
}
