//! `layercast emulate SCENARIO`: an internetwork in real time, with real programs at some of its hosts.
//!
//! The simulator is the one of `layercast sim`; here its time follows the clock, packets of programs are injected as
//! they come, and those for them leave when they arrive. How late that is, is counted.

mod device;
mod lateness;
mod path;
mod ports;
mod tap;

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use layercast_core::{Span, Time};
use layercast_sim::internet::{
    ExternalCounts, Internet, Measurements, Network, Progress, Sample, Stopped, Summary, Watch,
};
use layercast_wire::{Cell, Ipv4Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;
use serde::{Deserialize, Serialize};

use crate::args;
use crate::failure::{Failure, Outcome};
use crate::internet::capture::Capture;
use crate::internet::{Override, load, table};
use crate::line::Line;
use crate::metrics::Metrics;
use crate::output::{self, Lines, Table, count};
use crate::reporter::Reporter;
use crate::scenario;
use crate::sim::on_interrupt;
use lateness::{Lateness, LatenessReport};
use ports::{PortCounts, Ports};

/// Interval of reports.
const STATUS: Duration = Duration::from_secs(1);
/// How long a flag that Ctrl-C sets may go unseen.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long the simulator may work before devices are served.
const SLICE: Duration = Duration::from_millis(2);
/// A simulator this far behind does not keep up.
const BEHIND: Duration = Duration::from_millis(20);

/// The status of an emulation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmulationStatus {
    /// Seconds since the start.
    pub t_s: f64,
    /// How far the simulator is behind the clock, in milliseconds.
    pub behind_ms: f64,
    /// Packets that programs sent into the network so far.
    pub injected: u64,
    /// Packets that arrived at programs so far.
    pub delivered: u64,
    /// Lateness of events so far.
    pub events: LatenessReport,
    /// Lateness of packets so far.
    pub packets: LatenessReport,
}

/// The final counts.
#[derive(Debug, Serialize)]
struct EmulationSummary {
    #[serde(flatten)]
    summary: Summary,
    /// Lateness of events.
    event_lateness: LatenessReport,
    /// Lateness of packets.
    packet_lateness: LatenessReport,
    /// Times that the simulator began to fall behind.
    fell_behind: u64,
    /// Packets that programs sent into the network, and received from it.
    external: ExternalCounts,
    /// The attachments of programs.
    attachments: Vec<PortCounts>,
}

/// Runs the scenario in the file `path`.
pub fn run(args: &args::Emulate, path: &Path) -> Outcome {
    let text = scenario::read(path)?;
    let instead = Override {
        seed: args.seed,
        at_most: args.duration,
        ..Override::default()
    };
    let (scenario, network, attachments) = load(path, &text, instead)?;
    if attachments.is_empty() {
        let what = format!("{}: no program is attached to this network", path.display());
        let hint = "add [[attach]] with node and kind (docs/src/reference/simulator.md), or run it with: layercast sim";
        return Err(Failure::new(what).hint(hint));
    }
    for warning in network.warnings() {
        output::complain(&format!("warning: {warning}"));
    }
    let mut internet = Internet::new(&network)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    for attachment in &attachments {
        for node in attachment.nodes() {
            internet.attach(node);
        }
    }
    let stop = on_interrupt()?;
    let mut watch = Watcher {
        measurements: Measurements::new(&network),
        capture: None,
        stop: &stop,
    };
    if let Some(file) = &args.pcap {
        watch.capture = Some(Capture::create(file, &mut internet, args.no_cells)?);
    }
    // By default the kernel wakes sleepers up to 50 us late to save power.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let ports = Ports::open(&attachments, &network, args.namespaces)?;
    let reporter = Reporter::new(
        args.json,
        Lines::Stdout,
        Metrics::open(&args.metrics, "emulate")?,
    );
    reporter.ready("emulation", None, &greeting(&network, &ports))?;
    let mut emulation = Emulation {
        internet,
        ports,
        epoch: Instant::now(),
        end: Duration::from_nanos(network.duration.as_ns()),
        events: Lateness::new(),
        packets: Lateness::new(),
        is_behind: false,
        fell_behind: 0,
    };
    let stopped = emulation.run(&mut watch, &reporter)?;
    let report = emulation.internet.finish(stopped, &mut watch);
    let summary = EmulationSummary {
        summary: Summary {
            scenario: scenario.name,
            seed: network.seed,
            wall_seconds: emulation.epoch.elapsed().as_secs_f64(),
            report,
            measurements: watch.measurements.finish(),
        },
        event_lateness: emulation.events.report(),
        packet_lateness: emulation.packets.report(),
        fell_behind: emulation.fell_behind,
        external: emulation.internet.external_counts(),
        attachments: emulation.ports.counts(),
    };
    if let Some(capture) = watch.capture {
        capture.finish()?;
    }
    reporter.summary(&summary, &in_words(&summary))?;
    match stopped {
        None => Ok(()),
        Some(Stopped::Interrupted) => Err(Failure::Interrupted),
        Some(stopped) => {
            let what = format!("{}: {}", path.display(), table::reason(stopped));
            Err(Failure::new(what).hint("raise the budget in [run]"))
        }
    }
}

/// A network that runs by the clock.
struct Emulation {
    internet: Internet<'static>,
    ports: Ports,
    epoch: Instant,
    end: Duration,
    events: Lateness,
    packets: Lateness,
    is_behind: bool,
    fell_behind: u64,
}

impl Emulation {
    fn run(
        &mut self,
        watch: &mut Watcher,
        reporter: &Reporter,
    ) -> Result<Option<Stopped>, Failure> {
        let mut reported = Duration::ZERO;
        loop {
            let stopped = self.catch_up(watch);
            let now = self.epoch.elapsed();
            if stopped.is_some() {
                return Ok(stopped);
            }
            if watch.stop.load(Ordering::Relaxed) || watch.failed() {
                return Ok(Some(Stopped::Interrupted));
            }
            if now >= self.end {
                return Ok(None);
            }
            let (internet, epoch) = (&mut self.internet, self.epoch);
            self.ports.receive(&mut |node, packet| {
                // What is refused is counted there.
                let _ = internet.inject(time(epoch.elapsed()), node, packet);
            })?;
            self.hand_out();
            if now - reported >= STATUS {
                reported = now;
                self.report_status(now, reporter)?;
            }
            self.wait(reported + STATUS);
        }
    }

    /// Runs due events, for as long as devices can wait.
    fn catch_up(&mut self, watch: &mut Watcher) -> Option<Stopped> {
        let mut now = self.epoch.elapsed();
        let enough = now + SLICE;
        while let Some(next) = self.internet.next_event().filter(|&at| at <= time(now)) {
            let before = self.internet.progress().events;
            let stopped = self.internet.run_until(next, watch);
            now = self.epoch.elapsed();
            let count = self.internet.progress().events - before;
            self.events.add(late(now, next), count);
            self.hand_out();
            if stopped.is_some() || now >= enough {
                return stopped;
            }
        }
        self.internet.run_until(time(now), watch)
    }

    fn hand_out(&mut self) {
        while let Some(delivery) = self.internet.poll_external() {
            self.ports.send(&delivery);
            let now = self.epoch.elapsed();
            self.packets.add(late(now, delivery.at), 1);
        }
    }

    fn report_status(&mut self, now: Duration, reporter: &Reporter) -> Outcome {
        let next = self.internet.next_event();
        let behind = next.map_or(Duration::ZERO, |next| late(now, next));
        let t_s = now.as_secs_f64();
        let was_behind = std::mem::replace(&mut self.is_behind, behind > BEHIND);
        if self.is_behind && !was_behind {
            self.fell_behind += 1;
            let ms = behind.as_millis();
            reporter.event(t_s, &format!("the simulator does not keep up with real time: it is {ms} ms behind; give it less traffic or slower links"))?;
        } else if was_behind && !self.is_behind {
            reporter.event(t_s, "the simulator keeps up again")?;
        }
        let external = self.internet.external_counts();
        let status = EmulationStatus {
            t_s,
            behind_ms: behind.as_secs_f64() * 1e3,
            injected: external.injected,
            delivered: external.delivered,
            events: self.events.report(),
            packets: self.packets.report(),
        };
        reporter.status(&Line::Emulation(status), || moving(&status))
    }

    /// Sleeps until a timer, input or report is due.
    fn wait(&mut self, status: Duration) {
        let now = self.epoch.elapsed();
        let next = self.internet.next_event();
        let next = next.map_or(Duration::MAX, |at| Duration::from_nanos(at.as_ps() / 1_000));
        let until = next.min(status).min(self.end).min(now + PATIENCE);
        let left = until.saturating_sub(now);
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let sources = self.ports.sources();
        let mut sources: Vec<PollFd<'_>> = sources
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // Interrupted or not, the next turn looks at everything again.
        let _ = poll(&mut sources, Some(&timeout));
    }
}

fn time(since: Duration) -> Time {
    let ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    Time::ZERO.saturating_add(Span::from_ns(ns))
}

fn late(now: Duration, due: Time) -> Duration {
    now.saturating_sub(Duration::from_nanos(due.as_ps() / 1_000))
}

/// Takes the measurements of simulated applications.
struct Watcher<'a> {
    measurements: Measurements,
    capture: Option<Capture>,
    stop: &'a AtomicBool,
}

impl Watcher<'_> {
    fn failed(&self) -> bool {
        self.capture.as_ref().is_some_and(Capture::failed)
    }
}

impl Watch for Watcher<'_> {
    fn sample(&mut self, sample: &Sample) {
        self.measurements.add(sample);
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

    fn progress(&mut self, _: Progress) -> bool {
        !self.failed() && !self.stop.load(Ordering::Relaxed)
    }
}

fn greeting(network: &Network, ports: &Ports) -> String {
    let mut text = format!(
        "{} in real time; stop it with Ctrl-C",
        count(network.nodes.len(), "node")
    );
    for PortCounts { node, what, .. } in ports.counts() {
        text += &format!("\n  {node}: {what}");
        let address = network.nodes.iter().find(|it| it.name == node);
        if let Some(address) = address
            .map(|it| it.address)
            .filter(|_| !what.starts_with("udp"))
        {
            text += &format!(", {address}");
        }
    }
    text
}

fn moving(status: &EmulationStatus) -> String {
    let EmulationStatus {
        t_s,
        behind_ms,
        injected,
        delivered,
        packets,
        events,
    } = status;
    let behind = match *behind_ms >= 1.0 {
        true => format!(", {behind_ms:.0} ms behind"),
        false => String::new(),
    };
    format!(
        "{t_s:8.0} s  {} in, {delivered} out; events late by {:.0} us (p99 {:.0}, max {:.0}), {} of {} \
         above 1 ms{behind}",
        count(*injected, "packet"),
        events.p50_us,
        events.p99_us,
        events.max_us,
        packets.above_1ms,
        count(packets.count, "packet")
    )
}

fn in_words(summary: &EmulationSummary) -> String {
    let mut text = table::describe(&summary.summary);
    let mut ports = Table::new(&["host", "attached to", "from it", "to it", "dropped"]);
    for port in &summary.attachments {
        let counts = [port.received, port.sent, port.dropped].map(|count| count.to_string());
        ports.row(
            [port.node.clone(), port.what.clone()]
                .into_iter()
                .chain(counts),
        );
    }
    text += &format!("\nreal programs:\n{}", ports.render());
    let external = summary.external;
    let refused = [
        (external.not_ipv4, "not IPv4"),
        (external.malformed, "malformed"),
        (
            external.wrong_source,
            "from another address than the host's",
        ),
        (external.group, "to a group"),
        (external.full, "too many"),
    ];
    let refused = refused.iter().filter(|(count, _)| *count > 0);
    let refused: Vec<String> = refused
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    if !refused.is_empty() {
        text += &format!("  not taken: {}\n", refused.join(", "));
    }
    if external.errors_told > 0 {
        text += &format!(
            "  reported by ICMP: {}\n",
            count(external.errors_told, "error")
        );
    }
    let mut late = Table::new(&["late", "count", "p50 us", "p99 us", "max us", "above 1 ms"]);
    for (name, report) in [
        ("events", summary.event_lateness),
        ("packets to programs", summary.packet_lateness),
    ] {
        let us = [report.p50_us, report.p99_us, report.max_us].map(|us| format!("{us:.0}"));
        let cells = [name.to_owned(), report.count.to_string()].into_iter();
        late.row(cells.chain(us).chain([report.above_1ms.to_string()]));
    }
    text += &format!("\nbehind the clock:\n{}", late.render());
    if summary.fell_behind > 0 {
        text += &format!(
            "  the simulator did not keep up {}: what programs saw then is not this network\n",
            count(summary.fell_behind, "time")
        );
    }
    text
}
