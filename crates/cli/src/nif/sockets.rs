//! `layercast nif sockets`.

use layercast_core::Span;
use layercast_net::{Beside, BesideReport, Order};

use super::{Shown, named};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::units;

/// `layercast nif sockets`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
One process receives a video and bulk transfers on sockets of 127.0.0.1, each with buffers of its
own, and processes one packet after the other in real time: a packet keeps the processor for as long
as the protocols of the simulated host do (layercast nif jitter). --order:
  fcfs      what came first is processed first
  priority  the video is processed first
  deadline  a frame that is due is processed first (deadline/workahead scheduling)
No packet in progress is interrupted. Other programs of the machine add to the variance: that of the
frames as they were sent is printed beside.

Examples:
  layercast nif sockets --transfers 3
  layercast nif sockets --transfers 3 --order priority
  layercast nif sockets --transfers 3 --order deadline --frames 600 --json")]
pub struct Args {
    /// Bulk transfers to the process
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = units::whole(0..=32_u32))]
    pub transfers: u32,
    /// Which packet that waits is processed first: fcfs, priority or deadline
    #[arg(long, value_name = "NAME", default_value = "fcfs", value_parser = named::<Order>("fcfs, priority, deadline"))]
    pub order: Order,
    /// Frames of video, of one packet each
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = units::whole(3..=100_000_u32))]
    pub frames: u32,
    /// Time between two frames
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = units::span_within(Span::from_secs(10)))]
    pub period: Span,
    /// Mean time of the protocols for a packet of a transfer (exponential)
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = units::span_within(Span::from_secs(1)))]
    pub service: Span,
    /// Mean time of the protocols for a packet of video (uniform within 20 %)
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = units::span_within(Span::from_secs(1)))]
    pub video_service: Span,
    /// Packets of a transfer that are not acknowledged
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = units::whole(1..=40_u32))]
    pub window: u32,
    /// Mean time from an acknowledgement to the packet that it permits (exponential)
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = units::span_within(Span::from_secs(10)))]
    pub turn_around: Span,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole(0..=u64::MAX))]
    pub seed: u64,
    /// Print one JSON object (docs/src/reference/json-nif.md)
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let beside = Beside {
        order: args.order,
        transfers: args.transfers,
        frames: args.frames,
        period: args.period,
        service: args.service,
        video_service: args.video_service,
        window: args.window,
        turn_around: args.turn_around,
        seed: args.seed,
    };
    let report = beside
        .run()
        .map_err(|error| Failure::new(format!("sockets on 127.0.0.1: {error}")))?;
    match args.json {
        true => print_json(&report),
        false => print(&describe(&report)),
    }
}

fn describe(report: &BesideReport) -> String {
    let shown = Shown {
        frames: report.frames,
        variance_ms2: report.variance_ms2,
        periods_ms: [report.max_period_ms, report.min_period_ms],
        before: ("as they were sent", report.sent_variance_ms2),
        missed: report.missed,
        transfer_packets_per_s: report.transfer_packets_per_s,
    };
    let mut table = shown.table();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row(
        "longest wait of a transfer",
        format!("{:.0} ms", report.transfer_starved_ms),
    );
    row("packets dropped", report.dropped.to_string());
    table.render()
}
