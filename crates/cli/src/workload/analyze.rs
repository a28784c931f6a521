//! `layercast workload analyze`: the models behind traces.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use layercast_core::Span;
use layercast_workload::analyze::{
    self, Connection, Http, HttpOptions, Packet, Sample, State, Summary, Video, VideoOptions,
};
use layercast_workload::app::Trace;

use super::{args, number, read_text};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Table, count, print, print_json};

/// Servers that people are shown; JSON has all.
const SERVERS: usize = 10;

/// Runs the command.
pub fn run(args: &args::Analyze) -> Outcome {
    match args {
        args::Analyze::Http(args) => http(args),
        args::Analyze::Video(args) => video(args),
    }
}

fn http(args: &args::AnalyzeHttp) -> Outcome {
    let text = read_text(&args.trace)?;
    let place = args.trace.display();
    let trace =
        Connection::parse(&text).map_err(|error| Failure::new(format!("{place}: {error}")))?;
    let options = HttpOptions {
        threshold: args.threshold.as_secs_f64(),
        port: args.port,
        without: args.without.clone(),
    };
    let found = analyze::http(&trace, &options);
    if found.connections.kept == 0 {
        let port = args.port;
        let what = format!("{place}: none of {} connections is left", trace.len());
        return Err(Failure::new(what).hint(format!("servers are looked for on port {port}")));
    }
    if let Some(folder) = &args.out {
        fs::create_dir_all(folder).map_err(|error| Failure::file(folder, "write", &error))?;
        for sample in &found.samples {
            let name = sample.name.trim_start_matches("http.");
            let path = folder.join(format!("{name}.csv"));
            let lines = sample.values.iter().map(f64::to_string);
            write(&path, &heading(sample), lines)?;
        }
    }
    match args.json {
        true => print_json(&found),
        false => print(&describe_http(&found)),
    }
}

/// A comment, so that `import` and `compare` read the file as it is.
fn heading(sample: &Sample) -> String {
    format!("# {}, {}", sample.name, sample.unit)
}

fn write(path: &Path, head: &str, lines: impl Iterator<Item = String>) -> Outcome {
    let mut out = BufWriter::new(output::create(path)?);
    let all = || {
        writeln!(out, "{head}")?;
        for line in lines {
            writeln!(out, "{line}")?;
        }
        out.flush()
    };
    all().map_err(|error| Failure::file(path, "write", &error))
}

fn describe_http(found: &Http) -> String {
    let Http {
        connections,
        clients,
        servers,
        pages,
        ..
    } = found;
    let mut text = format!(
        "{} of {} ({} to other ports, {} left out), {} without a reply\n\
         {}, {}, {} s\n\
         {} ({} with files of several servers), at most {} s between their files\n\n",
        connections.kept,
        count(connections.read, "connection"),
        connections.other_port,
        connections.left_out,
        connections.without_reply,
        count(*clients, "client"),
        count(*servers, "server"),
        number(found.seconds),
        count(*pages, "page"),
        found.mixed_pages,
        found.threshold,
    );
    let mut table = Table::new(&["", "unit", "number", "min", "max", "mean", "median"]);
    for sample in &found.samples {
        let cells = cells(found.quantities.get(sample.name).copied());
        table.row(
            [sample.name.to_owned(), sample.unit.to_owned()]
                .into_iter()
                .chain(cells),
        );
    }
    text += &table.render();
    if let Some(tail) = found.reply_tail {
        text += &format!(
            "\nReplies from {} to {} B: Pareto, alpha = {:.3}, R2 = {:.3}\n",
            number(tail.from),
            number(tail.to),
            tail.alpha,
            tail.r2
        );
    }
    if let Some(line) = found.zipf {
        let exponent = -line.slope;
        text += &format!(
            "Visits fall with the rank to the power of {exponent:.2}, R2 = {:.3}\n",
            line.r2
        );
    }
    let mut table = Table::new(&["server", "visits", "pages"]);
    for it in found.popularity.iter().take(SERVERS) {
        table.row([
            it.server.clone(),
            it.visits.to_string(),
            it.pages.to_string(),
        ]);
    }
    text + "\n" + &table.render()
}

fn cells(summary: Option<Summary>) -> [String; 5] {
    summary.map_or(["0", "", "", "", ""].map(str::to_owned), |it| {
        [it.number as f64, it.min, it.max, it.mean, it.median].map(number)
    })
}

fn video(args: &args::AnalyzeVideo) -> Outcome {
    let text = read_text(&args.trace)?;
    let place = args.trace.display();
    let trace = Trace::parse(&text).map_err(|error| Failure::new(format!("{place}: {error}")))?;
    let options = VideoOptions {
        rate: args.rate,
        frame: Span::from_secs_f64(1.0 / args.fps),
    };
    let found = analyze::video(&trace, options);
    if found.packets == 0 {
        let what = format!("{place}: one packet says nothing: its gap to the next is needed");
        return Err(Failure::new(what));
    }
    if let Some(path) = &args.out {
        let lines = found.samples.iter().map(line);
        write(path, "seconds,bytes,gap,state", lines)?;
    }
    match args.json {
        true => print_json(&found),
        false => print(&describe_video(&found)),
    }
}

fn line(packet: &Packet) -> String {
    let state = match packet.state {
        State::Cr => "cr",
        State::Bg => "bg",
    };
    let at = packet.at.as_secs_f64();
    format!("{at:.6},{},{:.6},{state}", packet.bytes, packet.gap)
}

fn describe_video(found: &Video) -> String {
    let mut table = Table::new(&["", "unit", "number", "min", "max", "mean", "median"]);
    for (name, state) in [("changed blocks", &found.cr), ("background", &found.bg)] {
        for (what, unit, summary) in [("size", "B", state.size), ("run", "packets", state.run)] {
            let head = [format!("{name}: {what}"), unit.to_owned()];
            table.row(head.into_iter().chain(cells(summary)));
        }
    }
    let share = 100.0 * found.cr.bytes as f64 / found.bytes as f64;
    let rate = 8.0 * found.bytes as f64 / found.seconds / 1e3;
    let slope = found.slope.map_or(String::new(), |line| {
        format!(", gaps of {:.2} us a byte", 1e6 * line.slope)
    });
    format!(
        "{} packets, {} B in {} s, {rate:.1} kbit/s\n\
         {share:.1} % of the bytes are changed blocks{slope}\n\
         {:.2} % of the packets are more than a tenth off the lines\n\n{}",
        found.packets,
        found.bytes,
        number(found.seconds),
        100.0 * found.off_lines,
        table.render()
    )
}
