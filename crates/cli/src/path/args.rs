//! The command line of `layercast path`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use layercast_core::{Rate, Span};

use crate::units;

/// `layercast path`.
#[derive(Debug, Args)]
#[command(after_help = "\
One host sends small packets exactly every 10 ms (41.6 kbit/s), the other measures how unevenly they
arrive. The result is an index in milliseconds, not a rate: near 0 on a path with free capacity,
above 10 on a path of 1.5 Mbit/s that a file transfer fills (docs/src/how-to/unknown-path.md).

Examples:
  b$ layercast path recv --listen 0.0.0.0:9500
  a$ layercast path send b:9500 --for 10s
  a$ layercast path send b:9500 --admit nv:best && echo start the video")]
pub struct Path {
    /// The command.
    #[command(subcommand)]
    pub command: PathCommand,
}

/// The subcommands of `layercast path`.
#[derive(Debug, Subcommand)]
pub enum PathCommand {
    /// Send a train of probes to a host that runs `path recv`, and print its results
    Send(Send),
    /// Measure the trains that come to this host
    Recv(Recv),
    /// Analyse recorded arrivals: windows, index, self-similarity
    Report(Report),
    /// Find the thresholds of a service, or the index of an idle path
    Calibrate(Calibrate),
}

/// How an index is computed.
#[derive(Debug, Args)]
pub struct Estimation {
    /// Lags of a window (m)
    #[arg(long, short = 'm', value_name = "N", default_value = "10", value_parser = units::whole(2..=1_000_u16))]
    pub lags: u16,
    /// Windows of a percentile (n)
    #[arg(long, short = 'n', value_name = "N", default_value = "30", value_parser = units::whole(1..=256_u16))]
    pub windows: u16,
    /// The percentile of their standard deviations (epsilon)
    #[arg(long, value_name = "P", default_value = "30%", value_parser = units::probability)]
    pub percentile: f64,
    /// A result for each window over the last N, not for each block of N
    #[arg(long)]
    pub rolling: bool,
    /// Lags as in the paper: differences of arrivals, whatever was lost between them
    #[arg(long)]
    pub paper: bool,
    /// Index of the idle path, subtracted in quadrature (path calibrate --idle)
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::span)]
    pub baseline: Span,
}

/// `layercast path send`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing but three calls is sent to a host that does not answer. The train stops when it ends, when
the receiver stops it, or ten seconds after the receiver was heard last. Exit code 1: no answer,
refused, or with --admit not admitted.

Examples:
  layercast path send 192.0.2.7:9500 --for 10s
  layercast path send 192.0.2.7:9500 --admit nv:best
  layercast path send b:9500 --admit nv:best --for 1h --steer 2Mbit/s --json | jq .target_bps")]
pub struct Send {
    /// Host and port of `path recv`
    #[arg(value_name = "HOST:PORT", value_parser = units::path_end)]
    pub to: String,
    /// Time between two probes
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = units::duration)]
    pub period: Span,
    /// Probes of 4 bytes without time stamps, for very slow paths; lateness of this host counts as asynchronicity
    #[arg(long)]
    pub compact: bool,
    /// Stop after this time [default: Ctrl-C; with --admit the first result]
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Span>,
    /// Rate of the path, if known: refuse a train of more than 5 % of it
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub capacity: Option<Rate>,
    /// Ask whether the path carries a service at a level
    #[arg(long, value_name = "SERVICE:LEVEL")]
    pub admit: Option<String>,
    /// Table of services [default: nv over 1.5 Mbit/s: best, medium, sufficient]
    #[arg(long, value_name = "FILE")]
    pub services: Option<PathBuf>,
    /// Print the rate at which a source of this nominal rate should send; takes the threshold of --admit
    #[arg(long, value_name = "RATE", requires = "admit", value_parser = units::rate)]
    pub steer: Option<Rate>,
    /// Print JSON lines (docs/src/reference/json-path.md)
    #[arg(long)]
    pub json: bool,
}

/// `layercast path recv`.
#[derive(Debug, Args)]
#[command(after_help = "\
Answers calls of `path send` and measures up to 16 trains. A sender has to return a token before
anything longer than its call is sent to it. With --rtp it listens to a media flow of constant
spacing in place of probes, and sends nothing.

Examples:
  layercast path recv --listen 0.0.0.0:9500
  layercast path recv --rolling --json | jq 'select(.report == \"index\") | .estimate.xi_ms'
  layercast path recv --record arrivals.csv
  layercast path recv --listen 0.0.0.0:5004 --rtp 8000 --period 20ms")]
pub struct Recv {
    /// Address at which trains arrive
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:9500", value_parser = units::listen)]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub estimation: Estimation,
    /// Rate of the path, if known: refuse trains of more than 5 % of it
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub capacity: Option<Rate>,
    /// Write the arrivals of the first train to this file, for `path report`
    #[arg(long, value_name = "FILE.csv")]
    pub record: Option<PathBuf>,
    /// Print the last result again each TIME, with its age
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    pub publish: Span,
    /// Table of services [default: nv over 1.5 Mbit/s: best, medium, sufficient]
    #[arg(long, value_name = "FILE")]
    pub services: Option<PathBuf>,
    /// Measure an RTP flow with this media clock in place of probes
    #[arg(long, value_name = "HZ", requires = "period", conflicts_with = "record", value_parser = units::whole(1..=u32::MAX))]
    pub rtp: Option<u32>,
    /// Time between two packets of the RTP flow
    #[arg(long, value_name = "TIME", requires = "rtp", conflicts_with = "record", value_parser = units::duration)]
    pub period: Option<Span>,
    /// Stop after this time [default: Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Span>,
    /// Print JSON lines (docs/src/reference/json-path.md)
    #[arg(long)]
    pub json: bool,
}

/// `layercast path report`.
#[derive(Debug, Args)]
#[command(after_help = "\
The file has a line `arrival_s,seq,tx_s,late,skipped` for each packet, as path recv --record
writes it; the last three may be missing. Prints the index of each block, and the Hurst parameter
of the lags by rescaled range and by variance-time (of inter-arrival times, not of the traffic on
the path). --json has all lags and windows.

Examples:
  layercast path report arrivals.csv
  layercast path report arrivals.csv --paper -m 20 --json | jq .variance_time.slope")]
pub struct Report {
    /// The file
    pub file: PathBuf,
    /// Time between two probes
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = units::duration)]
    pub period: Span,
    #[command(flatten)]
    pub estimation: Estimation,
    /// Print one JSON object (docs/src/reference/json-path.md)
    #[arg(long)]
    pub json: bool,
}

/// `layercast path calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Run the service under increasing load beside `path send`, and write a line `xi_ms,quality` for
each run: the index, and the name of the level that the service had. The result is a table for
--services: the largest index of each level up to which it holds in 95 % of the runs. With --idle,
the index of a path without traffic, for path recv --baseline.

Examples:
  layercast path calibrate runs.csv --service video --levels best,medium,poor > services.toml
  layercast path calibrate --idle 192.0.2.7:9500 --for 30s")]
pub struct Calibrate {
    /// Runs of the service
    #[arg(
        value_name = "RUNS.csv",
        required_unless_present = "idle",
        conflicts_with = "idle"
    )]
    pub runs: Option<PathBuf>,
    /// Name of the service
    #[arg(long, value_name = "NAME", default_value = "service")]
    pub service: String,
    /// Names of its levels, the best one first
    #[arg(
        long,
        value_name = "NAME,..",
        value_delimiter = ',',
        required_unless_present = "idle"
    )]
    pub levels: Vec<String>,
    /// Host and port of `path recv`
    #[arg(long, value_name = "HOST:PORT")]
    pub idle: Option<String>,
    /// Time between two probes of --idle
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = units::duration)]
    pub period: Span,
    /// Time of --idle
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = units::duration)]
    pub duration: Span,
    /// Print one JSON object (docs/src/reference/json-path.md)
    #[arg(long)]
    pub json: bool,
}
