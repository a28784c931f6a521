//! `layercast workload offered`: a composite workload without a network.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use layercast_core::Time;
use layercast_workload::analyze::Connection;
use layercast_workload::app::Media;
use layercast_workload::{
    Closed, Composite, Offered, OfferedConfig, Population, Seen, Workload, offered,
};

use super::{args, read, read_text};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Table, count, print, print_json};
use crate::progress;

/// A file of lines, if one is requested. Errors are reported at the end.
struct Lines(Option<(PathBuf, io::Result<BufWriter<File>>)>);

impl Lines {
    fn create(path: Option<&Path>, head: &str) -> Result<Lines, Failure> {
        let Some(path) = path else {
            return Ok(Lines(None));
        };
        let file = output::create(path)?;
        let mut lines = Lines(Some((path.to_owned(), Ok(BufWriter::new(file)))));
        lines.line(head);
        Ok(lines)
    }

    fn line(&mut self, line: impl fmt::Display) {
        if let Some((_, file)) = &mut self.0
            && let Ok(out) = file
            && let Err(error) = writeln!(out, "{line}")
        {
            *file = Err(error);
        }
    }

    fn finish(self) -> Outcome {
        let Some((path, file)) = self.0 else {
            return Ok(());
        };
        file.and_then(|mut out| out.flush())
            .map_err(|error| Failure::file(&path, "write", &error))
    }
}

/// Every TCP connection, as `layercast workload analyze http` reads it.
struct Connections(Lines);

impl Connections {
    fn create(path: Option<&Path>) -> Result<Connections, Failure> {
        Lines::create(path, Connection::HEAD).map(Connections)
    }

    fn write(&mut self, closed: &Closed) {
        if self.0.0.is_none() {
            return;
        }
        let [client, server] = [closed.from, closed.to].map(|host| format!("h{}", host.0));
        let [start, end] = [closed.start, closed.end].map(Time::as_secs_f64);
        self.0.line(Connection {
            client: &client,
            server: &server,
            port: closed.port,
            start,
            end,
            sent: closed.sent,
            received: closed.received,
        });
    }
}

/// The packets of the first stream of video, as the model `trace` and `layercast workload analyze video` read
/// them.
struct Packets {
    file: Lines,
    stream: Option<u64>,
}

impl Packets {
    fn create(path: Option<&Path>) -> Result<Packets, Failure> {
        let file = Lines::create(path, "seconds,bytes")?;
        Ok(Packets { file, stream: None })
    }

    fn write(&mut self, conversation: u64, media: Media, at: Time, bytes: u32) {
        if media == Media::Video && *self.stream.get_or_insert(conversation) == conversation {
            let at = at.as_secs_f64();
            self.file.line(format_args!("{at:.6},{bytes}"));
        }
    }
}

/// Runs the command.
pub fn run(args: &args::Offered) -> Outcome {
    let named = |error: &dyn std::fmt::Display| match &args.workload {
        Some(path) => Failure::new(format!("{}: {error}", path.display())),
        None => Failure::new(error),
    };
    let workload = match &args.workload {
        Some(path) => Workload::parse(&read_text(path)?, &read),
        None => Workload::parse(Workload::MAH96, &read),
    };
    let workload = workload.map_err(|error| named(&error))?;
    let population = Population::uniform(args.sites, args.workstations, args.servers);
    let composite =
        Composite::new(&workload, population, args.seed).map_err(|error| named(&error))?;
    let config = OfferedConfig {
        duration: args.duration,
        file_time: args.file_time,
        max_events: args.max_events,
        ..OfferedConfig::default()
    };
    let seconds = args.duration.as_ms().div_ceil(1000);
    let bar = progress::bar(seconds, "{bar:40} {pos}/{len} s of workload, {eta} left");
    let mut connections = Connections::create(args.connections.as_deref())?;
    let mut packets = Packets::create(args.packets.as_deref())?;
    let all = offered(&workload, composite, config, |seen| match seen {
        Seen::Reached(now) => bar.set_position(now.as_us() / 1_000_000),
        Seen::Connection(closed) => connections.write(&closed),
        Seen::Datagram {
            conversation,
            media,
            at,
            bytes,
        } => packets.write(conversation, media, at, bytes),
    });
    bar.finish_and_clear();
    connections.0.finish()?;
    if packets.stream.is_none()
        && let Some(path) = &args.packets
    {
        let what = format!("no video was sent: {} is empty", path.display());
        return Err(Failure::new(what).hint("a longer --duration, or a workload with video"));
    }
    packets.file.finish()?;
    match args.json {
        true => print_json(&all)?,
        false => print(&summary(&all))?,
    }
    match all.cut_short {
        true => Err(Failure::new(format!(
            "stopped after {}: the result is partial",
            count(args.max_events, "event")
        ))
        .hint("raise --max-events, or shorten --duration")),
        false => Ok(()),
    }
}

fn summary(all: &Offered) -> String {
    let mut table = Table::new(&[
        "application",
        "conversations",
        "connections",
        "requests",
        "Mbit/s",
    ]);
    for (name, app) in &all.apps {
        let counts = [app.conversations, app.connections, app.requests].map(|n| n.to_string());
        let rate = app.bytes as f64 * 8.0 / all.seconds / 1e6;
        let cells = counts.into_iter().chain([format!("{rate:.3}")]);
        table.row([name.clone()].into_iter().chain(cells));
    }
    let mut circuits = Table::new(&["circuits", "set up", "most at one site", "most in 1 s"]);
    for (name, totals) in [
        ("one pair per connection", &all.per_connection),
        ("per application and hosts", &all.per_application),
    ] {
        let counts = [totals.setups, totals.max_open, totals.peak_per_second];
        let counts = counts.map(|n| n.to_string()).into_iter();
        table_row(&mut circuits, name, counts);
    }
    format!(
        "Offered to a network without delay or limit in {} s:\n{}\n{}",
        all.seconds,
        table.render(),
        circuits.render()
    )
}

fn table_row(table: &mut Table, name: &str, cells: impl Iterator<Item = String>) {
    table.row([name.to_owned()].into_iter().chain(cells));
}
