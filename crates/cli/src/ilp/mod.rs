//! `layercast ilp`: loops over data, fused only where it pays.

mod calibrate;
mod emit;
mod explain;
mod measure;
mod verify;

use clap::{Args, Subcommand};
use layercast_ilp::profile::Temperature;

use crate::failure::Outcome;

/// `layercast ilp`.
#[derive(Debug, Args)]
#[command(after_help = "\
A protocol touches each octet several times: it swaps, encrypts, sums, copies. One fused loop over
the data spares loads and stores; but if the state of all its stages does not fit into the
registers, it is slower than one loop for each. `explain` says what is best for a chain on a
machine, `calibrate` finds out about this machine, `measure` compares real loops on it, and `emit`
writes the code.

Examples:
  layercast ilp explain bswap,chacha20,crc32c
  layercast ilp calibrate --out this.toml
  layercast ilp explain 2/10,8/10,8/10 --machine this.toml --cold")]
pub struct Ilp {
    /// What to do
    #[command(subcommand)]
    pub command: IlpCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum IlpCommand {
    /// Say which stages of a chain to fuse on a machine, and what it takes
    Explain(explain::Explain),
    /// Find the constants of this machine: registers for state, loads, stores, spilled words
    Calibrate(calibrate::Calibrate),
    /// Compare one fused loop with one loop for each stage on this machine
    Measure(measure::Measure),
    /// Run random chains over random ADUs in all ways, and compare
    Verify(verify::Verify),
    /// Write the loops of a configuration file in C or Rust
    Emit(emit::Emit),
}

/// Runs the command.
pub fn run(args: &Ilp) -> Outcome {
    match &args.command {
        IlpCommand::Explain(args) => explain::run(args),
        IlpCommand::Calibrate(args) => calibrate::run(args),
        IlpCommand::Measure(args) => measure::run(args),
        IlpCommand::Verify(args) => verify::run(args),
        IlpCommand::Emit(args) => emit::run(args),
    }
}

/// Where the data is.
fn temperature(cold: bool) -> Temperature {
    match cold {
        true => Temperature::Cold,
        false => Temperature::Warm,
    }
}

/// Octets of the largest cache of this machine, or a guess.
fn cache() -> usize {
    const GUESS: usize = 32 << 20;
    let read = |index: u32| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok()
    };
    let largest = (0..5).filter_map(read).max();
    // Memory for it is taken twice.
    largest.map_or(GUESS, |kib| (kib << 10).min(128 << 20))
}
