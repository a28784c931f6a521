//! `layercast nif jitter`.

use layercast_core::Span;
use layercast_host::Network;
use layercast_host::jitter::{Jitter, JitterReport, Scheduling};

use super::{Shown, named};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::units;

const SCHEDULINGS: &str = "fcfs, softirq, softirq-priority, priority, preemptive, deadline";

/// `layercast nif jitter`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The video has 10 frames a second of one packet each; a frame is shown when the application has it.
The transfers come from one machine. --scheduling:
  fcfs              threads of one priority: what came first is processed first
  softirq           a handler of software interrupts, as in BSD, before all programs
  softirq-priority  the same, packets of the video first
  priority          threads; that of the video has a higher priority; no packet is interrupted
  preemptive        the same, and packets of transfers are interrupted
  deadline          threads; that of the video by deadlines (deadline/workahead scheduling)
All but the first two need --network atm, where each connection has a circuit and a client of its
own; on Ethernet all have one. --program adds a program that always computes.

Examples:
  layercast nif jitter --transfers 3
  layercast nif jitter --transfers 3 --network atm --scheduling priority
  layercast nif jitter --transfers 8 --network atm --scheduling softirq-priority --program --json")]
pub struct Args {
    /// File transfers to the host
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = units::whole(0..=32_u32))]
    pub transfers: u32,
    /// How it is connected: ethernet (10 Mbit/s) or atm (155 Mbit/s)
    #[arg(long, value_name = "ethernet|atm", default_value = "ethernet", value_parser = named::<Network>("ethernet, atm"))]
    pub network: Network,
    /// How it processes packets
    #[arg(long, value_name = "NAME", default_value = "fcfs", value_parser = named::<Scheduling>(SCHEDULINGS))]
    pub scheduling: Scheduling,
    /// A program that always computes runs beside, with the priority of the transfers
    #[arg(long)]
    pub program: bool,
    /// Frames of video
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = units::whole(3..=1_000_000_u32))]
    pub frames: u32,
    /// Packets of a frame
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole(1..=64_u32))]
    pub packets_per_frame: u32,
    /// Mean time of the protocols for a packet of a transfer (exponential)
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = units::span_within(Span::from_secs(1)))]
    pub service: Span,
    /// Packets of a transfer that are not acknowledged
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = units::whole(1..=40_u32))]
    pub window: u32,
    /// Mean time from an acknowledgement to the packet that it permits (exponential)
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = units::span_within(Span::from_secs(10)))]
    pub turn_around: Span,
    /// What each step from the adapter to the code of a client takes
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = units::span_within(Span::from_ms(10)))]
    pub step: Span,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole(0..=u64::MAX))]
    pub seed: u64,
    /// Print one JSON object (docs/src/reference/json-nif.md)
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let config = Jitter {
        network: args.network,
        scheduling: args.scheduling,
        transfers: args.transfers,
        frames: args.frames,
        packets_per_frame: args.packets_per_frame,
        has_program: args.program,
        service: args.service,
        window: args.window,
        turn_around: args.turn_around,
        step: args.step,
        seed: args.seed,
        ..Jitter::default()
    };
    let report = config.run().map_err(Failure::wrong_use)?;
    match args.json {
        true => print_json(&report),
        false => print(&describe(&report)),
    }
}

fn describe(report: &JitterReport) -> String {
    let shown = Shown {
        frames: report.frames,
        variance_ms2: report.variance_ms2,
        periods_ms: [report.max_period_ms, report.min_period_ms],
        before: ("at the network interface", report.network_variance_ms2),
        missed: report.missed,
        transfer_packets_per_s: report.transfer_packets_per_s,
    };
    let mut table = shown.table();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    if let (Some(share), Some(starved)) = (report.program_share, report.program_starved_ms) {
        row(
            "processor for the program",
            format!("{:.0} %", 100.0 * share),
        );
        row("longest wait of the program", format!("{starved:.0} ms"));
    }
    row(
        "load of the network",
        format!("{:.0} %", 100.0 * report.network_load),
    );
    table.render()
}
