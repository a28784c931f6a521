//! `layercast sim` with a scenario of an internetwork (docs/src/reference/simulator.md).

pub mod capture;
mod figures;
mod files;
mod parquet;
mod run;
pub mod series;
mod sweep;
pub mod table;
mod trace;

use std::path::Path;
use std::sync::Arc;

use layercast_sim::internet::scenario::{Attachment, Scenario};
use layercast_sim::internet::{Internet, Network, Stopped};

use crate::args;
use crate::failure::{Failure, Outcome};
use crate::output::{self, count, print, print_json};
use crate::progress;
pub use crate::scenario::Override;
use crate::scenario::explain_located;
use crate::sim::on_interrupt;
use run::Run;
use trace::SharedTrace;

/// Runs the scenario `text`, which was read from the file of `args`.
pub fn run(args: &args::Sim, path: &Path, text: &str) -> Outcome {
    if let Some(seeds) = &args.seeds {
        refuse_one_run(args)?;
        return sweep::run(args, path, text, seeds.clone());
    }
    let (name, network) = ready(args, path, text, args.seed)?;
    if args.wire_check && network.mets.is_none() {
        let what =
            "--wire-check looks at METS nodes: the scenario has none, which [mets] describes";
        return Err(Failure::Usage(what.into()));
    }
    let mut internet = Internet::new(&network).map_err(|error| Failure::of(path, error))?;
    if args.check {
        return print(&counts(path, &network));
    }
    let template = "{bar:40} {percent}% of the network's time, {eta} left {msg}";
    let trace = args
        .trace
        .as_deref()
        .map(|path| SharedTrace::open(path, &name));
    let trace = trace.transpose()?;
    if let Some(trace) = &trace {
        internet.observe(trace.clone());
    }
    let stop = on_interrupt()?;
    let bar = progress::bar(run::steps(&network), template);
    let summary = Run {
        name: &name,
        network: &network,
        out: args.out.as_deref(),
        pcap: args.pcap.as_deref(),
        no_cells: args.no_cells,
        stop: &stop,
        threads: args.threads,
        traced: args.trace.is_some(),
        series: args
            .series
            .as_deref()
            .map(|path| (path, args.series_interval)),
        bar: &bar,
        alone: true,
    }
    .simulate(internet);
    bar.finish_and_clear();
    let summary = summary?;
    let traced = trace.map_or(Ok(()), SharedTrace::finish);
    if let Some(what) = table::failures(&summary.report) {
        output::complain(&format!("warning: {what}"));
    }
    match args.json {
        true => print_json(&summary)?,
        false => print(&table::describe(&summary))?,
    }
    match summary.report.stopped {
        None => traced,
        Some(Stopped::Interrupted) => Err(Failure::Interrupted),
        Some(stopped) => Err(Failure::of(path, table::reason(stopped)).hint(RAISE)),
    }
}

/// With `--seeds` the flags for a single run have no meaning.
fn refuse_one_run(args: &args::Sim) -> Outcome {
    let given = [
        ("--trace", args.trace.is_some()),
        ("--wire-check", args.wire_check),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::Usage(format!(
            "{flag} is for one run, and --seeds makes several: leave out --seeds"
        ))),
        None => Ok(()),
    }
}

/// What to do about a partial result.
const RAISE: &str = "the result is partial; raise the budget in [run]";

/// The network that `args` ask for, and the name of its scenario; what may surprise is said.
fn ready(
    args: &args::Sim,
    path: &Path,
    text: &str,
    seed: Option<u64>,
) -> Result<(String, Network), Failure> {
    let instead = Override {
        seed,
        at_most: args.duration,
        ..Override::default()
    };
    let (scenario, mut network, attachments) = load(path, text, instead)?;
    if let Some(mets) = &mut network.mets {
        Arc::make_mut(&mut mets.machines).wire_check |= args.wire_check;
    }
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
        output::complain(&format!("warning: {warning}"));
    }
    let mets = network.mets.iter();
    for warning in mets.flat_map(|mets| mets.machines.warnings()) {
        output::complain(&format!("warning: {warning}"));
    }
    Ok((scenario.name, network))
}

/// Reads and checks a scenario, with some of its values exchanged.
pub fn load(
    path: &Path,
    text: &str,
    instead: Override,
) -> Result<(Scenario, Network, Vec<Attachment>), Failure> {
    let explain = |error| explain_located(path, text, error);
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut scenario = Scenario::from_toml(text, folder).map_err(explain)?;
    scenario.run.seed = instead.seed.unwrap_or(scenario.run.seed);
    scenario.run.duration.0 = instead.shorten(scenario.run.duration.0);
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
    let mets = network.mets.as_ref().map_or(String::new(), |mets| {
        let machines = &mets.machines;
        format!(
            ", {}, {}, {}",
            count(machines.links.len(), "peering"),
            count(machines.flows.len(), "METS flow"),
            count(machines.receivers.len(), "METS receiver"),
        )
    });
    format!(
        "{}: {}, {}, {}, {}, {}, {}, {}{mets}: no errors\n",
        path.display(),
        count(network.nodes.len(), "node"),
        count(
            network.links.len() + atm.map_or(0, |atm| atm.links.len()),
            "link"
        ),
        count(network.lans.len(), "LAN"),
        count(atm.map_or(0, |atm| atm.switches.len()), "switch"),
        count(network.flows.len(), "flow"),
        count(network.generators.len(), "generator"),
        count(names(network).len(), "application"),
    )
}
