//! `layercast ilp measure`: real stages, fused and not.

use std::time::Instant;

use clap::Args;
use layercast_ilp::measure::{Bench, Measured};
use serde::Serialize;

use super::cache;
use crate::failure::{Failure, Outcome};
use crate::output::{Table, print, print_json};
use crate::units;

/// `layercast ilp measure`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each chain copies from one buffer to another, as one fused loop, as a copy and one loop for each
stage, and as such loops over strips of 1 KiB. The loops of CRC-32C, ChaCha20 and Poly1305 alone
are those of libraries with vector instructions. The runs of the ways alternate; the shortest
counts.

The column `with calls` is the time of one loop that calls a function for each stage and unit:
what fusing takes if the stages are chosen at run time. The column `gain` says how much faster
the fused loop is than a copy and one loop for each stage: +50 % takes two thirds of their time,
and a negative one takes longer. `safer-k64 of 6` is SAFER K-64 with six rounds.

Examples:
  layercast ilp measure --size 1024
  layercast ilp measure --runs 51 --json")]
pub struct Measure {
    /// Octets of an ADU; several with commas
    #[arg(long, value_name = "OCTETS,..", value_delimiter = ',', default_values_t = [1_024, 16_384, 65_536], value_parser = units::whole(64..=LARGEST))]
    pub size: Vec<u32>,
    /// Runs of each way
    #[arg(long, value_name = "N", default_value_t = 101, value_parser = units::whole(1..=100_000_u32))]
    pub runs: u32,
    /// Print one JSON object (docs/src/reference/json-ilp.md)
    #[arg(long)]
    pub json: bool,
}

/// Times of chains on this machine.
#[derive(Debug, Serialize)]
struct Report {
    /// The chains.
    chains: Vec<Measured>,
}

/// Largest ADU.
const LARGEST: u32 = 1 << 24;

/// Runs the command.
pub fn run(args: &Measure) -> Outcome {
    if let Some(size) = args.size.iter().find(|it| !it.is_multiple_of(64)) {
        let what = format!("--size {size} is not a multiple of 64 octets");
        return Err(Failure::Usage(what));
    }
    let start = Instant::now();
    let mut clock = || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut bench = Bench::new(&mut clock, args.runs, cache());
    let mut chains = Vec::new();
    for size in &args.size {
        for cold in [false, true] {
            chains.extend(bench.all(*size as usize, cold));
        }
    }
    let report = Report { chains };
    match args.json {
        true => print_json(&report),
        false => print(&describe(&report)),
    }
}

fn describe(report: &Report) -> String {
    let mut table = Table::new(&[
        "chain",
        "octets",
        "buffers",
        "each",
        "fused",
        "strips",
        "with calls",
        "gain",
    ]);
    for it in &report.chains {
        table.row([
            it.chain.clone(),
            it.octets.to_string(),
            if it.cold { "cold" } else { "warm" }.to_owned(),
            format!("{:.3}", it.sequential_ns),
            format!("{:.3}", it.fused_ns),
            format!("{:.3}", it.strip_ns),
            format!("{:.3}", it.calls_ns),
            format!("{:+.0} %", 100.0 * (it.gain - 1.0)),
        ]);
    }
    format!(
        "Times in ns an octet: a copy and one loop for each stage, one fused loop, strips of 1 KiB.\n\n{}",
        table.render()
    )
}
