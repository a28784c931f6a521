//! `layercast ilp explain`.

use std::path::Path;

use clap::Args;
use layercast_ilp::planner::{Plan, parse, plan};
use layercast_ilp::profile::{Profile, Temperature};
use layercast_sim::file;
use serde::Serialize;

use super::temperature;
use crate::failure::{Failure, Outcome};
use crate::output::{Table, complain, print, print_json};

/// `layercast ilp explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
CHAIN is stages with commas between them, the one next to the application first:
  copy, bswap (or xdr), checksum, crc32-aal5, crc32c, parity, pes, safer-k64, aes-ctr, chacha20,
  poly1305
  STATE/INSTRUCTIONS   any other: words that it carries from word to word, and arithmetic
                       instructions a word, such as 2/10
  deflate, header-checksum, cbc-mac   those that no loop can be fused with

The model has one price for an instruction. It does not know the loops of libraries with vector
instructions: crc32-aal5, crc32c, aes-ctr, chacha20 and poly1305 alone can be several times as
fast as it says, and best as loops of their own. The output names such stages; layercast ilp
measure compares them on this machine.

--machine is ss2 (SPARCstation 2 of 1990), hp (HP 9000/735 of 1992), conservative (few registers,
spilled words are dear), or a file of `layercast ilp calibrate`.

Examples:
  layercast ilp explain xdr,safer-k64,checksum --machine ss2
  layercast ilp explain 5/10,5/10,1/10 --machine ss2 --json
  layercast ilp explain bswap,deflate,checksum --cold")]
pub struct Explain {
    /// Stages with commas between them
    pub chain: String,
    /// The machine: ss2, hp, conservative, or a file of `layercast ilp calibrate`
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// The data is in no cache, neither before the first loop nor between two loops
    #[arg(long)]
    pub cold: bool,
    /// Print one JSON object (docs/src/reference/json-ilp.md)
    #[arg(long)]
    pub json: bool,
}

/// A plan and its machine.
#[derive(Debug, Serialize)]
struct Report {
    /// Name of the machine.
    machine: String,
    /// Whether the data is in the cache.
    temperature: Temperature,
    /// The cheapest way to run the chain.
    #[serde(flatten)]
    plan: Plan,
}

/// Runs the command.
pub fn run(args: &Explain) -> Outcome {
    let members = parse(&args.chain).map_err(Failure::wrong_use)?;
    let profile = match &args.machine {
        Some(machine) => self::profile(machine)?,
        None => {
            complain(
                "nothing is known of this machine: few registers are assumed (layercast ilp calibrate finds out)",
            );
            Profile::conservative()
        }
    };
    let temperature = temperature(args.cold);
    let plan = plan(&members, &profile, temperature).map_err(Failure::wrong_use)?;
    let report = Report {
        machine: profile.name,
        temperature,
        plan,
    };
    match args.json {
        true => print_json(&report),
        false => print(&describe(&report)),
    }
}

/// The machine of this name or file.
fn profile(machine: &str) -> Result<Profile, Failure> {
    if let Some(profile) = Profile::named(machine) {
        return Ok(profile);
    }
    let path = Path::new(machine);
    let text = file::read_text(path, file::MAX_DATA_FILE);
    let text = text.map_err(|error| {
        Failure::file(path, "read", &error)
            .hint("--machine is ss2, hp, conservative, or a file of `layercast ilp calibrate`")
    })?;
    let profile: Profile =
        toml::from_str(&text).map_err(|error| no_machine(path, error.message()))?;
    let checked = profile.check();
    checked.map_err(|what| no_machine(path, &what))?;
    Ok(profile)
}

/// What is wrong with a machine file, and how to get one.
fn no_machine(path: &Path, what: &str) -> Failure {
    Failure::of(path, format!("this is no machine file: {what}"))
        .hint("layercast ilp calibrate --out this.toml writes one for this machine")
}

fn describe(report: &Report) -> String {
    let plan = &report.plan;
    let mut table = Table::new(&["loop", "stages", "unit", "state", "spilled", "ns an octet"]);
    for (at, group) in plan.groups.iter().enumerate() {
        let ns = match (&group.alone, group.ns_per_octet) {
            (Some(why), _) => why.clone(),
            (None, Some(ns)) => format!("{ns:.3}"),
            (None, None) => String::new(),
        };
        table.row([
            (at + 1).to_string(),
            group.stages.join(" + "),
            group.unit.to_string(),
            group.state.to_string(),
            group.spilled.to_string(),
            ns,
        ]);
    }
    if plan.once_ns > 0.0 {
        let empty = String::new;
        let once = match plan.strip {
            Some(_) => "once, with fetching the data",
            None => "once, whatever runs",
        };
        let ns = format!("{:.3}", plan.once_ns);
        table.row([empty(), once.to_owned(), empty(), empty(), empty(), ns]);
    }
    let unknown: Vec<&str> = plan
        .groups
        .iter()
        .filter(|it| it.ns_per_octet.is_none())
        .flat_map(|it| it.stages.iter().map(String::as_str))
        .collect();
    let without = match &unknown[..] {
        [] => String::new(),
        names => format!(
            "all times are without {}, of which the model knows no time\n",
            names.join(", ")
        ),
    };
    let warning = match &plan.library_loops[..] {
        [] => String::new(),
        names => format!(
            "warning: the loop of {} alone is that of a library with vector instructions, of which the machine has no time: it\n\
             can be several times as fast as predicted (remedy: --machine with a file of layercast ilp calibrate)\n",
            names.join(", ")
        ),
    };
    let fused = match plan.fused_ns {
        Some(ns) => format!("{ns:.3}"),
        None => "not possible".to_owned(),
    };
    let strips = match plan.strip {
        Some(octets) => format!(", each over {octets} octets in turn"),
        None => String::new(),
    };
    format!(
        "{}\n\n{}\nmachine {}, {} buffers: {:.3} ns an octet in all{strips}; {} accesses to memory a word\n\
         one loop for each stage {:.3}, one loop for all {fused}, one for each in strips {:.3} ns an octet\n{without}{warning}",
        plan.reason,
        table.render(),
        report.machine,
        match report.temperature {
            Temperature::Warm => "warm",
            Temperature::Cold => "cold",
        },
        plan.ns_per_octet,
        plan.memory_accesses,
        plan.sequential_ns,
        plan.strip_ns,
    )
}
