//! `layercast sim`: a scenario in the simulator.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::ValueEnum;
use indicatif::ProgressBar;
use layercast_core::{Observer, Off, Time};
use layercast_mets::ReceiverSummary;
use layercast_sim::group::scenario::{GroupScenario, is_group};
use layercast_sim::internet::scenario::{Scenario as InternetScenario, is_internet};
use layercast_sim::scenario::{Network, Scenario as LayeredScenario};
use layercast_sim::{FlowSummary, Outputs, QueueSummary, SimSummary, Simulation};
use serde_json::{Value, to_value};

use crate::args::{self, SchemaKind};
use crate::check;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Table, count, print, print_json};
use crate::progress;
use crate::scenario::{self, Override};
use crate::signals;
use crate::sim_files::OutFiles;
use crate::trace::Trace;
use crate::{group, internet, repair};

/// Runs the command.
pub fn run(args: &args::Sim) -> Outcome {
    if let (Some(path), Some(_)) = (&args.scenario, args.schema) {
        let failure = Failure::wrong_use("--schema prints a schema and takes no scenario");
        return Err(
            match path.to_str().map(|it| SchemaKind::from_str(it, true)) {
                Some(Ok(kind)) => {
                    let kind = kind.to_possible_value();
                    let kind = kind.as_ref().map_or("KIND", |it| it.get_name());
                    failure.hint(format!("the kind follows an equals sign: --schema={kind}"))
                }
                _ => failure.hint(
                    "a kind follows an equals sign: --schema=internet, --schema=group or --schema=mets; \
                     --check holds a scenario against its schema, and against more",
                ),
            },
        );
    }
    let Some(path) = &args.scenario else {
        return print_json(&match args.schema {
            Some(SchemaKind::Group) => GroupScenario::json_schema(),
            Some(SchemaKind::Mets) => LayeredScenario::json_schema(),
            Some(SchemaKind::Internet) | None => InternetScenario::json_schema(),
        });
    };
    let text = scenario::read(path)?;
    scenario::names_its_schema(path, &text)?;
    if args.check {
        check::check(path, &text)?;
    }
    let outputs = [
        ("--series", args.series.as_deref()),
        ("--pcap", args.pcap.as_deref()),
        ("--trace", args.trace.as_deref()),
    ];
    let outputs: Vec<_> = outputs
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?)))
        .collect();
    output::check_distinct(path, &outputs)?;
    if (is_internet(&text) || is_group(&text)) && args.protect_base.is_some() {
        let what = "--protect-base is for scenarios of METS";
        return Err(Failure::Usage(what.to_owned()));
    }
    if is_internet(&text) {
        return internet::run(args, path, &text);
    }
    if is_group(&text) {
        return group::run(args, path, &text);
    }
    if args.seeds.is_some() {
        let what = "--seeds is for internetworks; scenarios of METS have --seed";
        return Err(Failure::Usage(what.to_owned()));
    }
    if args.per_cell {
        let what = "--per-cell is for internetworks; METS moves its cells one by one";
        return Err(Failure::Usage(what.to_owned()));
    }
    if args.threads.is_some() {
        let what = "--threads is for internetworks; a scenario of METS has one";
        return Err(Failure::Usage(what.to_owned()));
    }
    if args.no_cells {
        let what = "--no-cells is for internetworks; a capture of METS has what its links carry";
        return Err(Failure::Usage(what.to_owned()));
    }
    let instead = Override {
        seed: args.seed,
        at_most: args.duration,
        protect_base: args.protect_base,
    };
    let named = (path.as_path(), &*text);
    let mut scenario = scenario::load(named, instead)?;
    scenario.wire_check |= args.wire_check;
    let network = scenario::resolve(named, &scenario)?;
    for warning in network.warnings() {
        output::complain(&format!("warning: {warning}"));
    }
    if args.check {
        return print(&format!("{}: no errors\n", path.display()));
    }
    let series = args.series.as_deref();
    let series = series.map(|path| (args.series_interval, path));
    let mut files = OutFiles::new(args.pcap.as_deref(), args.out.as_deref(), series, &network)?;
    let stop = on_interrupt()?;
    let (summary, traced) = match &args.trace {
        Some(path) => {
            let mut trace = Trace::open(Some(path), &network.name)?;
            let summary = simulate(network, trace.observer(), Some(&mut files), &stop)?;
            (summary, trace.finish())
        }
        None => (
            simulate(network, &mut Off, Some(&mut files), &stop)?,
            Ok(()),
        ),
    };
    files.finish(&summary)?;
    match args.json {
        true => print_json(&summary)?,
        false => print(&describe(&summary))?,
    }
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Interrupted),
        false => traced,
    }
}

/// A flag that the first SIGINT or SIGTERM sets ([`signals::on_first`]).
pub fn on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let listener = stop.clone();
    signals::on_first(move || listener.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// Runs the simulation with a progress bar on standard error, until its end or `stop`.
pub fn simulate(
    network: Network,
    obs: &mut (dyn Observer + Send),
    files: Option<&mut OutFiles>,
    stop: &AtomicBool,
) -> Result<SimSummary, Failure> {
    let started = Instant::now();
    let seconds = network.duration.as_ms().div_ceil(1_000);
    let bar = progress::bar(
        seconds,
        "{bar:40} {pos}/{len} s of network, {eta} left {msg}",
    );
    let on_second = |now: Time| {
        show(&bar, now, started);
        match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let simulation = Simulation::new(network);
    let summary = match files {
        Some(files) => simulation
            .run(obs, files.outputs(), on_second)
            .map_err(|error| files.failure(&error)),
        None => simulation
            .run(obs, Outputs::default(), on_second)
            .map_err(|error| Failure::new(error.to_string())),
    };
    bar.finish_and_clear();
    let mut summary = summary?;
    summary.wall_seconds = started.elapsed().as_secs_f64();
    Ok(summary)
}

fn show(bar: &ProgressBar, now: Time, started: Instant) {
    bar.set_position(now.as_us() / 1_000_000);
    let wall = started.elapsed().as_secs_f64();
    if wall > 0.0 {
        bar.set_message(format!("({:.0} times real time)", now.as_secs_f64() / wall));
    }
}

fn describe(summary: &SimSummary) -> String {
    let rate = summary.events as f64 / summary.wall_seconds.max(1e-9);
    let mut text = format!(
        "{}, seed {}: {:.0} s of network in {:.2} s, {} events ({:.2} million/s)\n",
        summary.scenario,
        summary.seed,
        summary.sim_seconds,
        summary.wall_seconds,
        summary.events,
        rate / 1e6
    );
    if summary.wire_errors > 0 {
        text += &format!(
            "{} did not survive their encoding\n",
            count(summary.wire_errors, "PDU")
        );
    }
    text + &layered(&summary.flows, summary.queues.iter())
}

/// Layered flows, their receivers, and the ports that they pass.
pub fn layered<'s>(
    flows: &[FlowSummary],
    queues: impl Iterator<Item = &'s QueueSummary>,
) -> String {
    let mut receivers = Table::new(&[
        "receiver", "flow", "link", "BL", "E1", "E2", "lost BL", "E1", "E2", "late", "p50 ms",
        "p99 ms",
    ]);
    let mut levels = String::new();
    for flow in flows {
        for receiver in &flow.receivers {
            let (frames, lost) = (receiver.frames, receiver.lost);
            let mut cells = vec![
                receiver.name.clone(),
                flow.name.clone(),
                receiver.link.clone(),
            ];
            let counts = [
                frames.base,
                frames.e1,
                frames.e2,
                lost.base,
                lost.e1,
                lost.e2,
            ];
            cells.extend(counts.map(|count| count.to_string()));
            cells.push(receiver.late.to_string());
            let delay = receiver.delay_ms;
            cells.extend([delay.p50, delay.p99].map(|ms| format!("{ms:.1}")));
            receivers.row(cells);
            levels += &format!("  {:<12} {}\n", receiver.name, timeline(receiver));
        }
    }
    let repairs = flows.iter().flat_map(|flow| &flow.receivers);
    let repairs = repairs.filter(|it| it.repair.is_some());
    let repairs: Vec<Value> = repairs.filter_map(|it| to_value(it).ok()).collect();
    let repairs = repair::lines(&repairs);
    let mut table = Table::new(&[
        "queue",
        "units",
        "bytes",
        "dropped BL",
        "E1",
        "E2",
        "longest",
        "marked",
        "lost on link",
    ]);
    for queue in queues.filter(|queue| queue.queue.units_out > 0) {
        let (port, dropped) = (&queue.queue, queue.queue.dropped());
        table.row([
            format!("{} -> {}", queue.node, queue.port),
            port.units_out.to_string(),
            port.bytes_out.to_string(),
            dropped.base.to_string(),
            dropped.e1.to_string(),
            dropped.e2.to_string(),
            count(port.max_queue, "cell"),
            port.marked.to_string(),
            queue.link.lost.to_string(),
        ]);
    }
    format!(
        "\nframes played, lost and late:\n{}\nlevels granted (0 = BL, 1 = BL+E1, 2 = BL+E1+E2):\n{levels}{repairs}\nqueues:\n{}",
        receivers.render(),
        table.render()
    )
}

/// The levels of a receiver and when they began: `2 from 0.1 s, 0 from 11.0 s`.
fn timeline(receiver: &ReceiverSummary) -> String {
    if let Some(refused) = &receiver.refused {
        return format!("refused: {refused}");
    }
    let steps = receiver.levels.iter();
    let steps: Vec<String> = steps
        .map(|(t, level)| format!("{} from {t:.1} s", level.get()))
        .collect();
    match steps.is_empty() {
        true => "never joined".to_owned(),
        false => steps.join(", "),
    }
}
