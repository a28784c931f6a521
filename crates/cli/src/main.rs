//! The `layercast` command.

mod address;
mod args;
mod below;
mod cells;
mod check;
mod child;
mod classes;
mod demo;
mod drive;
mod edge;
mod emulate;
mod emulation;
mod encoder;
mod explain;
mod failure;
mod fec;
mod ffmpeg;
mod filter;
mod group;
mod host_port;
mod ilp;
mod input;
mod internet;
mod join;
mod line;
mod line_out;
mod live;
mod metrics;
mod multicast;
mod name;
mod negative;
mod nif;
mod node;
mod offered;
mod output;
mod overload;
mod path;
mod playout;
mod policer;
mod probe;
mod progress;
mod reasons;
#[cfg(test)]
mod reference;
mod renditions;
mod repair;
mod repeats;
mod report;
mod reporter;
mod scenario;
mod scheme;
mod secret;
mod serve;
mod signals;
mod sim;
mod sim_files;
mod source_clock;
mod stats;
mod switch;
mod table;
mod token;
mod trace;
mod units;
mod unsent;
mod web;
mod workload;
mod xtpd;
mod zones;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use args::{Cli, Command};
use output::Lines;

fn main() -> ExitCode {
    child::become_child(std::env::args_os());
    let args = negative::joined(&Cli::command(), std::env::args_os());
    let mut matches = Cli::command()
        .try_get_matches_from(args)
        .unwrap_or_else(|error| refuse(&error));
    let called = called(&matches);
    let cli = Cli::from_arg_matches_mut(&mut matches)
        .unwrap_or_else(|error| refuse(&error.format(&mut Cli::command())));
    let outcome = match &cli.command {
        Command::Probe(args) => probe::run(args),
        Command::Filter(args) => filter::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Overload(args) => overload::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Prepacketize(args) => cells::prepare::run(args),
        Command::PlayCells(args) => cells::play::run(args),
        Command::ReceiveCells(args) => cells::receive::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Switch(args) => switch::run(args),
        Command::Join(args) => join::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Token(args) => token::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Send(args) => multicast::send::run(args),
        Command::Receive(args) => multicast::receive::run(args),
        Command::EmulateReceivers(args) => multicast::emulate::run(args),
        Command::Emulate(args) => emulate::run(args),
        Command::PolicerProbe(args) => policer::run(args),
        Command::Path(args) => path::run(args),
        Command::Fec(args) => fec::run(args),
        Command::Ilp(args) => ilp::run(args),
        Command::Nif(args) => nif::run(args),
        Command::Workload(args) => workload::run(args),
        Command::Web(args) => web::run(args),
        Command::Xtpd(args) => xtpd::run(args),
    };
    let Err(failure) = outcome else {
        return ExitCode::SUCCESS;
    };
    let text = failure.told_by(&called);
    if !text.is_empty() {
        output::complain(&text);
    }
    ExitCode::from(failure.code())
}

/// The command with its subcommands, such as `layercast fec edge`.
fn called(matches: &ArgMatches) -> String {
    let mut called = "layercast".to_owned();
    let mut at = matches.subcommand();
    while let Some((name, matches)) = at {
        called += &format!(" {name}");
        at = matches.subcommand();
    }
    called
}

/// Says what is wrong with the arguments, or prints the help that they ask for, and exits.
fn refuse(error: &clap::Error) -> ! {
    let is_plain = |arg: std::ffi::OsString| !arg.to_string_lossy().contains(char::is_control);
    let text = error.to_string();
    let has_secret = secret::hidden(&text) != text;
    if error.use_stderr() && (has_secret || !std::env::args_os().all(is_plain)) {
        output::complain(text.trim_end());
        std::process::exit(error.exit_code());
    }
    let printed = error.print();
    let Err(lost) = printed.and_then(|()| io::stdout().flush()) else {
        std::process::exit(error.exit_code());
    };
    let output = match error.use_stderr() {
        true => Lines::Stderr,
        false => Lines::Stdout,
    };
    let failure = output.failure(&lost);
    let text = failure.to_string();
    if !text.is_empty() {
        output::complain(&text);
    }
    std::process::exit(i32::from(failure.code()));
}
