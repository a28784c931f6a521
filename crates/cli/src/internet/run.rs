//! One run, and what it leaves in its folder.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use indicatif::ProgressBar;
use layercast_core::Time;
use layercast_sim::internet::{Internet, Measurements, Network, Progress, Sample, Summary, Watch};
use layercast_wire::{Cell, Ipv4Packet};

use super::capture::Capture;
use super::files::{self, SampleFile};
use super::names;
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
    /// Moves on by [`steps`].
    pub bar: &'a ProgressBar,
    /// Whether it is the only one of the bar, which then tells its speed.
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
            run: self,
        };
        if let Some(folder) = self.out {
            watch.file = Some(SampleFile::create(folder, names(network))?);
        }
        if let Some(file) = self.pcap {
            watch.capture = Some(Capture::create(file, &mut internet, self.no_cells)?);
        }
        let report = internet.run(&mut watch);
        self.bar.inc(steps(network).saturating_sub(watch.shown));
        let wall_seconds = watch.started.elapsed().as_secs_f64();
        let Watcher {
            measurements,
            file,
            capture,
            ..
        } = watch;
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
            files::write_summary(folder, &summary)?;
        }
        Ok(summary)
    }
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
            let message = format!(
                "({:.2} million events/s, {times:.0} times real time)",
                rate / 1e6
            );
            self.run.bar.set_message(message);
        }
        let full = self.capture.as_ref().is_some_and(Capture::failed);
        !full && !self.run.stop.load(Ordering::Relaxed)
    }
}
