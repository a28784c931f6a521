//! A report as tables.

use layercast_sim::internet::{
    AtmReport, ClassReport, ContractReport, FlowReport, GeneratorReport, Measurement, QueueReport,
    Report, SojournReport, Stopped, Summary,
};

use crate::output::Table;
use crate::sim::layered;

/// Most rows of a table; `--json` and `--out` have all.
const ROWS: usize = 40;

/// Why the run is partial, for people.
pub fn reason(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::Interrupted => "stopped by Ctrl-C",
        Stopped::EventBudget => "stopped: as many events as run.budget.events allows",
        Stopped::PacketBudget => "stopped: as many packets as run.budget.packets allows",
    }
}

/// The report for people.
pub fn describe(summary: &Summary) -> String {
    let (report, measured) = (&summary.report, &summary.measurements);
    let wall = summary.wall_seconds;
    let mut text = format!(
        "{}, seed {}: {:.3} s of network in {wall:.2} s, {} events ({:.2} million/s), {} packet-hops, {} cell-hops\n",
        summary.scenario,
        summary.seed,
        report.seconds,
        report.events,
        report.events as f64 / wall.max(1e-9) / 1e6,
        report.packet_hops,
        report.cell_hops,
    );
    if let Some(stopped) = report.stopped {
        text += &format!("partial: {}\n", reason(stopped));
    }
    if !report.flows.is_empty() {
        text += &format!("\nflows:\n{}", flows(report));
    }
    if !report.generators.is_empty() {
        text += &format!("\ntransfers:\n{}", transfers(&report.generators));
    }
    if report.flows.iter().any(|flow| !flow.receivers.is_empty()) {
        text += &format!("\nreceivers of multicast:\n{}", receivers(report));
    }
    if !measured.is_empty() {
        text += &format!("\napplications:\n{}", applications(report, measured));
    }
    let queues: Vec<&QueueReport> = report.queues.iter().filter(|q| q.offered > 0).collect();
    if !queues.is_empty() {
        text += &format!("\nqueues:\n{}", busiest(queues));
    }
    if let Some(atm) = &report.atm {
        text += &backbone(atm);
    }
    if let Some(mets) = &report.mets {
        let ports = mets.peerings.iter().map(|peering| &peering.port);
        text += &format!("\nMETS:\n{}", layered(&mets.flows, ports));
        text += &classes(&mets.classes);
    }
    let drops = report.node_drops;
    if drops.ttl + drops.no_route + drops.too_big + drops.busy + drops.not_mine > 0 {
        text += &format!(
            "\ndropped by nodes: {} out of hops, {} without a route, {} too big, {} above the limit, {} without a receiver\n",
            drops.ttl, drops.no_route, drops.too_big, drops.busy, drops.not_mine
        );
    }
    text
}

/// Flows that are named in a line at most.
const NAMED: usize = 5;

/// The flows whose connections failed, if there are any.
pub fn failures(report: &Report) -> Option<String> {
    let failed = report.flows.iter();
    let failed = failed.filter_map(|flow| Some(format!("{} at {:.1} s", flow.name, flow.failed?)));
    let failed: Vec<String> = failed.collect();
    let names = failed[..failed.len().min(NAMED)].join(", ");
    let rest = match failed.len().saturating_sub(NAMED) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    (!failed.is_empty()).then(|| format!("connections that failed: {names}{rest}"))
}

fn more(shown: usize, all: usize, what: &str) -> String {
    match all - shown {
        0 => String::new(),
        rest => format!("  and {rest} more {what}: --json or --out show all\n"),
    }
}

fn flows(report: &Report) -> String {
    let mut table = Table::new(&[
        "flow", "Mbit/s", "bytes", "sent", "again", "timeouts", "delay ms", "done s",
    ]);
    for flow in report.flows.iter().take(ROWS) {
        let ms = |time: Option<f64>| time.map_or("-".to_owned(), |s| format!("{:.3}", s * 1e3));
        table.row([
            flow.name.clone(),
            format!("{:.3}", flow.goodput_bps / 1e6),
            flow.bytes.to_string(),
            flow.sent.to_string(),
            flow.retransmitted.to_string(),
            flow.timeouts.to_string(),
            ms(flow.mean_delay),
            end(flow),
        ]);
    }
    let all = report.flows.len();
    let mut text = table.render() + &more(all.min(ROWS), all, "flows");
    // Rates of transfers that were done at different times have no sum.
    if report.flows.iter().all(|flow| flow.completed.is_none()) {
        let total: f64 = report.flows.iter().map(|flow| flow.goodput_bps).sum();
        text += &format!("  all together: {:.3} Mbit/s\n", total / 1e6);
    }
    text
}

/// When all of it was there, or that this will not be.
fn end(flow: &FlowReport) -> String {
    match (flow.completed, flow.failed) {
        (Some(s), _) => format!("{s:.3}"),
        (None, Some(s)) => format!("failed at {s:.1} s"),
        (None, None) => "-".to_owned(),
    }
}

fn transfers(generators: &[GeneratorReport]) -> String {
    let mut table = Table::new(&[
        "generator",
        "bytes to",
        "started",
        "completed",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "slowdown",
        "p50",
        "p95",
        "p99",
    ]);
    let none = || "-".to_owned();
    for it in generators {
        let all = (
            "all".to_owned(),
            it.started,
            it.completed,
            it.completion,
            it.slowdown,
        );
        let bins = it.sizes.iter().map(|bin| {
            let to = bin.to_bytes.map_or("more".to_owned(), |to| to.to_string());
            (to, bin.started, bin.completed, bin.completion, bin.slowdown)
        });
        for (to, started, completed, completion, slowdown) in bins.chain([all]) {
            let mut row = vec![
                it.name.clone(),
                to,
                started.to_string(),
                completed.to_string(),
            ];
            row.extend(completion.map_or([none(), none(), none()], |it| {
                [it.p50, it.p95, it.p99].map(|s| format!("{:.3}", s * 1e3))
            }));
            row.extend(slowdown.map_or([none(), none(), none(), none()], |it| {
                [it.mean, it.p50, it.p95, it.p99].map(|x| format!("{x:.2}"))
            }));
            table.row(row);
        }
    }
    let mut text = table.render();
    for it in generators {
        text += &format!(
            "  {}: {} bytes, {} segments again, {} timeouts, {} connections failed, {} without a port\n",
            it.name, it.bytes, it.retransmitted, it.timeouts, it.failed, it.refused
        );
    }
    text
}

fn receivers(report: &Report) -> String {
    let mut table = Table::new(&[
        "flow",
        "receiver",
        "Mbit/s",
        "bytes",
        "joined s",
        "from byte",
        "done s",
    ]);
    let flows = report.flows.iter();
    let all: Vec<_> = flows
        .flat_map(|flow| flow.receivers.iter().map(|it| (&flow.name, it)))
        .collect();
    for (flow, receiver) in all.iter().take(ROWS) {
        let seconds = |at: Option<f64>| at.map_or("-".to_owned(), |at| format!("{at:.3}"));
        table.row([
            (*flow).clone(),
            receiver.name.clone(),
            format!("{:.3}", receiver.goodput_bps / 1e6),
            receiver.bytes.to_string(),
            seconds(receiver.joined),
            receiver
                .first_byte
                .map_or("-".to_owned(), |at| at.to_string()),
            receiver
                .failed
                .clone()
                .unwrap_or_else(|| seconds(receiver.completed)),
        ]);
    }
    table.render() + &more(all.len().min(ROWS), all.len(), "receivers")
}

fn applications(report: &Report, measured: &[Measurement]) -> String {
    let mut table = Table::new(&[
        "application",
        "measured",
        "count",
        "p50 ms",
        "p90 ms",
        "lost %",
        "late %",
    ]);
    for found in measured {
        let ms = |time: Option<f64>| time.map_or("-".to_owned(), |s| format!("{:.1}", s * 1e3));
        let share = |part: u64, of: u64| match of {
            0 => "n/a".to_owned(),
            of => format!("{:.3}", part as f64 / of as f64 * 100.0),
        };
        let stream = found.stream.map(|s| {
            let lost = s.sent.saturating_sub(s.received);
            (share(lost, s.sent), share(s.overdue, s.received))
        });
        let (lost, late) = stream.unwrap_or_else(|| ("-".to_owned(), "-".to_owned()));
        table.row([
            found.application.clone(),
            found.name.to_owned(),
            found.count.to_string(),
            ms(found.p50),
            ms(found.p90),
            lost,
            late,
        ]);
    }
    let mut text = table.render();
    for app in &report.applications {
        let open = app.started.saturating_sub(app.ended);
        text += &format!(
            "  {}: {} conversations, {open} of them not over\n",
            app.name, app.started
        );
    }
    text
}

fn busiest(mut queues: Vec<&QueueReport>) -> String {
    queues.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    let has_marks = queues.iter().any(|queue| queue.marked > 0);
    let mut columns = vec![
        "queue, busiest first",
        "used %",
        "sent",
        "full",
        "early",
        "lost",
        "mean wait ms",
        "longest",
    ];
    if has_marks {
        columns.push("marked");
    }
    let has_outages = queues.iter().any(|queue| queue.down > 0);
    if has_outages {
        columns.push("down");
    }
    let has_copies = queues.iter().any(|queue| queue.duplicated > 0);
    if has_copies {
        columns.push("twice");
    }
    let mut table = Table::new(&columns);
    for queue in queues.iter().take(ROWS) {
        let mut row = vec![
            queue.name.clone(),
            format!("{:.2}", queue.utilisation * 100.0),
            queue.sent.to_string(),
            queue.dropped_full.to_string(),
            queue.dropped_red.to_string(),
            queue.lost.to_string(),
            format!("{:.3}", queue.mean_wait * 1e3),
            queue.max_waiting.to_string(),
        ];
        if has_marks {
            row.push(queue.marked.to_string());
        }
        if has_outages {
            row.push(queue.down.to_string());
        }
        if has_copies {
            row.push(queue.duplicated.to_string());
        }
        table.row(row);
    }
    let all = queues.len();
    table.render() + &more(all.min(ROWS), all, "queues") + &disciplines(&queues)
}

/// The times in queues with a discipline, and its bands.
fn disciplines(queues: &[&QueueReport]) -> String {
    let with = queues
        .iter()
        .filter_map(|it| Some((*it, it.discipline.as_ref()?)));
    let with: Vec<_> = with.collect();
    if with.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        "discipline of",
        "band",
        "sent",
        "dropped",
        "marked",
        "waiting",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "longest ms",
    ]);
    let times = |it: &SojournReport| {
        let ms = |time: Option<f64>| time.map_or("-".to_owned(), |s| format!("{:.3}", s * 1e3));
        [it.p50, it.p95, it.p99, it.max].map(ms)
    };
    for (queue, discipline) in with.iter().take(ROWS) {
        let dropped = queue.dropped_full + queue.dropped_red;
        let mut row = vec![
            format!("{}: {}", queue.name, discipline.name),
            "all".to_owned(),
            queue.sent.to_string(),
            dropped.to_string(),
            queue.marked.to_string(),
            discipline.waiting.to_string(),
        ];
        row.extend(times(&discipline.sojourn));
        table.row(row);
        for band in &discipline.bands {
            let mut row = vec![
                String::new(),
                band.name.clone(),
                band.sent.to_string(),
                band.dropped.to_string(),
                band.marked.to_string(),
                "-".to_owned(),
            ];
            row.extend(times(&band.sojourn));
            table.row(row);
        }
    }
    let all = with.len();
    format!(
        "\nqueues with a discipline:\n{}{}",
        table.render(),
        more(all.min(ROWS), all, "queues with a discipline")
    )
}

/// What waited beside the ports of METS nodes.
fn classes(classes: &[ClassReport]) -> String {
    if classes.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["class queue", "offered", "full", "mean wait ms", "longest"]);
    for class in classes.iter().take(ROWS) {
        table.row([
            class.name.clone(),
            class.offered.to_string(),
            class.dropped_full.to_string(),
            format!("{:.3}", class.mean_wait * 1e3),
            class.max_waiting.to_string(),
        ]);
    }
    let all = classes.len();
    format!(
        "\nother protocols at these ports:\n{}{}",
        table.render(),
        more(all.min(ROWS), all, "class queues")
    )
}

fn backbone(atm: &AtmReport) -> String {
    let mut queues: Vec<_> = atm.queues.iter().filter(|q| q.received > 0).collect();
    queues.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    let mut cells = Table::new(&[
        "cells, busiest first",
        "used %",
        "sent",
        "dropped",
        "dropped %",
        "longest",
    ]);
    for queue in queues.iter().take(ROWS) {
        cells.row([
            queue.name.clone(),
            format!("{:.2}", queue.utilisation * 100.0),
            queue.sent.to_string(),
            queue.dropped.to_string(),
            format!(
                "{:.4}",
                queue.dropped as f64 / queue.received as f64 * 100.0
            ),
            queue.max_len.to_string(),
        ]);
    }
    let mut routers = Table::new(&[
        "circuits of",
        "asked",
        "given",
        "reused",
        "fell back",
        "refused",
        "most",
        "frames",
        "damaged",
    ]);
    for adapter in atm.adapters.iter().take(ROWS) {
        routers.row([
            adapter.router.clone(),
            adapter.requests.to_string(),
            adapter.ready.to_string(),
            adapter.hits.to_string(),
            adapter.fallbacks.to_string(),
            adapter.failures.to_string(),
            adapter.max_circuits.to_string(),
            adapter.frames.to_string(),
            adapter.damaged.to_string(),
        ]);
    }
    let rest = (queues.len(), atm.adapters.len());
    format!(
        "\nbackbone:\n{}{}\n{}{}{}",
        cells.render(),
        more(rest.0.min(ROWS), rest.0, "queues"),
        routers.render(),
        more(rest.1.min(ROWS), rest.1, "routers"),
        contracts(&atm.contracts),
    )
}

/// What became of the cells of flows with a contract; of those that are not policed nothing is known.
fn contracts(all: &[ContractReport]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        "contract of",
        "passed",
        "tagged",
        "above peak",
        "above sustained",
        "whole",
        "in part",
        "gone",
        "wait ms",
        "most waited",
        "full",
    ]);
    for contract in all.iter().take(ROWS) {
        let upc = contract.upc.unwrap_or_default();
        let cells = [
            upc.passed_high + upc.passed_low,
            upc.tagged,
            upc.discarded_peak,
            upc.discarded_sustained,
            upc.frames_intact,
            upc.frames_partial,
            upc.frames_none,
        ];
        let judged = cells.map(|count| match contract.upc {
            Some(_) => count.to_string(),
            None => "-".to_owned(),
        });
        let waited = [
            format!("{:.3}", contract.mean_wait * 1e3),
            contract.max_waiting.to_string(),
            contract.dropped_full.to_string(),
        ];
        let name = [contract.flow.clone()].into_iter();
        table.row(name.chain(judged).chain(waited));
    }
    let rest = more(all.len().min(ROWS), all.len(), "contracts");
    format!("\n{}{rest}", table.render())
}
