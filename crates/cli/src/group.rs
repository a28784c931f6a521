//! `layercast sim` with a scenario of reliable multicast (docs/src/reference/multicast-simulator.md).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use layercast_core::{Observer, Off};
use layercast_sim::group::scenario::GroupScenario;
use layercast_sim::group::{Group, GroupError, GroupSummary, Simulation};

use crate::args;
use crate::failure::{Failure, Outcome};
use crate::output::{Table, count, print, print_json};
use crate::progress;
use crate::scenario::{Override, explain_located};
use crate::sim::on_interrupt;
use crate::trace::Trace;

/// Runs the scenario `text`, which was read from the file of `args`.
pub fn run(args: &args::Sim, path: &Path, text: &str) -> Outcome {
    for (flag, given) in [
        ("--wire-check", args.wire_check),
        ("--pcap", args.pcap.is_some()),
        ("--out", args.out.is_some()),
        ("--seeds", args.seeds.is_some()),
        ("--per-cell", args.per_cell),
        ("--threads", args.threads.is_some()),
        ("--series", args.series.is_some()),
    ] {
        if given {
            let what = format!(
                "{flag} is not for scenarios of reliable multicast, as {} is one; they have --json, --seed and --trace",
                path.display()
            );
            return Err(Failure::Usage(what));
        }
    }
    let explain = |error| explain_located(path, text, error);
    let mut scenario = GroupScenario::from_toml(text).map_err(explain)?;
    scenario.run.seed = args.seed.unwrap_or(scenario.run.seed);
    let instead = Override {
        at_most: args.duration,
        ..Override::default()
    };
    scenario.run.duration.0 = instead.shorten(scenario.run.duration.0);
    let group = scenario.resolve().map_err(explain)?;
    let failed = |error| Failure::of(path, error);
    if args.check {
        Simulation::new(group).map_err(failed)?;
        return print(&format!("{}: no errors\n", path.display()));
    }
    let stop = on_interrupt()?;
    let (summary, traced) = match &args.trace {
        Some(to) => {
            let mut trace = Trace::open(Some(to), &group.name)?;
            let summary = simulate(group, trace.observer(), &stop).map_err(failed)?;
            (summary, trace.finish())
        }
        None => (simulate(group, &mut Off, &stop).map_err(failed)?, Ok(())),
    };
    match args.json {
        true => print_json(&summary)?,
        false => print(&describe(&summary))?,
    }
    match (stop.load(Ordering::Relaxed), summary.partial) {
        (true, _) => Err(Failure::Interrupted),
        (false, true) => Err(Failure::of(path, "it was not over")
            .hint("the result is partial; raise duration or events in [run]")),
        (false, false) => traced,
    }
}

/// Runs a group with a progress bar, until its end or `stop`.
fn simulate(
    group: Group,
    obs: &mut (dyn Observer + Send),
    stop: &AtomicBool,
) -> Result<GroupSummary, GroupError> {
    let started = Instant::now();
    let mut simulation = Simulation::observed(group, obs)?;
    let bar = progress::bar(1, "{bar:40} {pos}/{len} receivers have it all {msg}");
    simulation.run(|progress| {
        let (complete, all) = progress.complete;
        bar.set_length(all.into());
        bar.set_position(complete.into());
        let rate = progress.events as f64 / started.elapsed().as_secs_f64().max(1e-9);
        let now = progress.now.as_secs_f64();
        bar.set_message(format!(
            "at {now:.1} s ({:.2} million events/s)",
            rate / 1e6
        ));
        !stop.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let mut summary = simulation.summary();
    summary.wall_seconds = started.elapsed().as_secs_f64();
    Ok(summary)
}

fn describe(summary: &GroupSummary) -> String {
    let GroupSummary {
        outcomes,
        completion_s: done,
        sent,
        feedback,
        cpu,
        ..
    } = summary;
    let mut text = format!(
        "{}, seed {}: {:.1} s of network in {:.2} s, {} events\n\n",
        summary.scenario, summary.seed, summary.sim_seconds, summary.wall_seconds, summary.events
    );
    let mut table = Table::new(&["what", "value"]);
    let mut row = |what: &str, value: String| table.row([what.to_owned(), value]);
    let failure = summary.failure.as_deref().unwrap_or("success");
    row("result", failure.to_owned());
    row(
        "receivers",
        format!(
            "{}: {} delivered, {} failed, {} never answered, {} pending",
            summary.receivers,
            outcomes.delivered,
            outcomes.failed,
            outcomes.never,
            outcomes.pending
        ),
    );
    row(
        "data packets",
        format!(
            "{} for {}: {:.4} for each; {} parities, {} sent again, {} to one alone",
            sent.data,
            summary.packets,
            summary.transmissions_per_packet,
            sent.parities,
            sent.again,
            sent.unicast
        ),
    );
    row(
        "passes",
        format!(
            "{}; {} polls of the group, {} of one receiver, {} handshakes",
            sent.rounds, sent.polls, sent.polls_each, sent.handshakes
        ),
    );
    row(
        "complete",
        format!(
            "first {:.3} s, median {:.3}, 99 of 100 {:.3}, last {:.3}; session over at {:.3}",
            done.first,
            done.p50,
            done.p99,
            done.last,
            summary.ended_s.unwrap_or(f64::NAN)
        ),
    );
    row(
        "feedback",
        format!(
            "{} packets, {} octets, at most {} in 0.1 s; {} suppressed, {} dropped, {} late",
            feedback.came.packets,
            feedback.came.octets,
            feedback.came.peak,
            feedback.suppressed,
            feedback.dropped,
            feedback.late
        ),
    );
    row(
        "processors",
        format!(
            "source {:.3} s ({:.1} %), receivers' hosts {:.3} s, the busiest {:.3} s",
            cpu.source_s,
            cpu.source_share * 100.0,
            cpu.hosts_s,
            cpu.busiest_s
        ),
    );
    if let Some(stream) = &summary.stream {
        row(
            "response time",
            format!(
                "mean {:.1} ms, 95 of 100 packets {:.1} ms, most {:.1} ms; {} of {} packets made",
                stream.response_s * 1e3,
                stream.quantiles_s[1] * 1e3,
                stream.most_response_s * 1e3,
                stream.made,
                summary.packets
            ),
        );
    }
    text += &table.render();
    let mut links = Table::new(&[
        "branch", "down", "parities", "lost", "up", "lost", "dropped",
    ]);
    for link in &summary.links {
        let count = &link.count;
        let numbers = [
            count.down,
            count.parities,
            count.lost,
            count.up,
            count.up_lost,
            count.dropped,
        ];
        let cells = numbers.map(|number| number.to_string());
        links.row([vec![link.name.clone()], cells.to_vec()].concat());
    }
    text += &format!("\nlinks:\n{}", links.render());
    for (number, code) in (1..).zip(&summary.codes) {
        let share = |count: u64| count as f64 / code.expected.max(1) as f64 * 100.0;
        text += &format!(
            "\ncode {number}: {} for {}; {:.4} % lost, {:.4} % after decoding; recovered {:.1} ms \
             later than the others\n",
            match code.parities {
                1 => "1 parity".to_owned(),
                parities => format!("{parities} parities"),
            },
            count(code.sources, "packet"),
            share(code.lost),
            share(code.lost.saturating_sub(code.recovered)),
            code.added_ms
        );
    }
    for cross in &summary.cross {
        let (flows, sum) = (
            cross.goodput_bps.len(),
            cross.goodput_bps.iter().sum::<f64>(),
        );
        text += &format!(
            "\nTCP on {}: {}, {:.3} Mbit/s each; {} dropped, {} lost\n",
            cross.branch,
            count(flows, "connection"),
            sum / 1e6 / flows.max(1) as f64,
            count(cross.count.dropped, "segment"),
            cross.count.lost
        );
    }
    for note in summary.notes.iter().take(10) {
        text += &format!("\n{:.3} s: {}", note.at_s, note.what);
    }
    match summary.notes.len() {
        0 => {}
        1..=10 => text.push('\n'),
        more => text += &format!("\n... and {} more\n", more - 10),
    }
    text
}
