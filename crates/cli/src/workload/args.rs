//! The command line of `layercast workload`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use layercast_core::{Rate, Span};

use crate::units;

/// `layercast workload`.
#[derive(Debug, Args)]
#[command(after_help = "\
A distribution is a built-in name (layercast workload list), a .dist file, or a formula with its
unit, such as 'exp(300) s' (docs/src/reference/workloads.md).

Examples:
  layercast workload list
  layercast workload sample http.reply -n 100000 > reply.csv
  layercast workload compare http.reply --samples reply.csv
  layercast workload import sizes.txt --unit B --whole --condense 0.005 > sizes.dist
  layercast workload offered --json | jq '.apps.http.records'
  layercast workload offered --connections all.csv
  layercast workload analyze http all.csv --out samples")]
pub struct Workload {
    /// The command.
    #[command(subcommand)]
    pub command: WorkloadCommand,
}

/// The subcommands of `layercast workload`.
#[derive(Debug, Subcommand)]
pub enum WorkloadCommand {
    /// Show the built-in distributions, or the named ones
    List(List),
    /// Draw samples of a distribution, as CSV
    Sample(Sample),
    /// Compare samples with a distribution: quantiles and Kolmogorov-Smirnov test
    Compare(Compare),
    /// Convert samples or a distribution of another program to a .dist file
    Import(Import),
    /// Run a composite workload without a network and report the traffic that it offers
    Offered(Offered),
    /// Fit models to a trace of traffic
    #[command(subcommand)]
    Analyze(Analyze),
}

/// `layercast workload list`.
#[derive(Debug, Args)]
pub struct List {
    /// Names, files or formulas [default: all built-in ones]
    pub names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `layercast workload sample`.
#[derive(Debug, Args)]
pub struct Sample {
    /// Name, file or formula
    pub name: String,
    /// Number of samples
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = units::whole(0..=u64::MAX))]
    pub count: u64,
    /// Seed; the same seed gives the same samples
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole(0..=u64::MAX))]
    pub seed: u64,
}

/// `layercast workload compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --samples it draws them from the distribution itself. The exit code is 1 if they differ. For
distributions with steps the test is conservative.")]
pub struct Compare {
    /// Name, file or formula
    pub name: String,
    /// Samples, one a line (a CSV of `layercast workload sample`); `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,
    /// Number of samples to draw without --samples
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000, value_parser = units::whole(1..=100_000_000_usize))]
    pub count: usize,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole(0..=u64::MAX))]
    pub seed: u64,
    /// Significance level: they differ if the p-value is below it
    #[arg(long, value_name = "P", default_value_t = 0.01, value_parser = probability)]
    pub level: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The columns of a foreign file.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Columns {
    /// One sample a line
    Samples,
    /// value, cumulative probability (tcplib)
    ValueCdf,
    /// value, count, cumulative probability (ns-2)
    ValueCountCdf,
}

/// `layercast workload import`.
#[derive(Debug, Args)]
pub struct Import {
    /// The file; `-` is standard input
    pub file: PathBuf,
    /// Columns of the file
    #[arg(long, value_enum, default_value = "samples")]
    pub columns: Columns,
    /// Unit of the values: ms, s, B, files, pages, articles or packets
    #[arg(long)]
    pub unit: String,
    /// Values are whole numbers
    #[arg(long)]
    pub whole: bool,
    /// Name of the distribution
    #[arg(long, default_value = "imported")]
    pub name: String,
    /// Reduce the number of knots; the cumulative probability changes at most by this
    #[arg(long, value_name = "DISTANCE", value_parser = probability)]
    pub condense: Option<f64>,
}

/// `layercast workload offered`.
#[derive(Debug, Args)]
pub struct Offered {
    /// Workload file [default: the composite workload of Mah's thesis]
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Duration
    #[arg(long, value_name = "TIME", default_value = "4000s", value_parser = units::duration)]
    pub duration: Span,
    /// Number of sites
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = units::whole(1..=1_000_u32))]
    pub sites: u32,
    /// Workstations per site
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = units::whole(0..=10_000_u32))]
    pub workstations: u32,
    /// Servers per site
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = units::whole(0..=1_000_u32))]
    pub servers: u32,
    /// Transfer time of a file of FTP or HTTP; other transfers take no time
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = units::span)]
    pub file_time: Span,
    /// Seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole(0..=u64::MAX))]
    pub seed: u64,
    /// Maximum number of events; then the result is partial
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000, value_parser = units::whole(0..=u64::MAX))]
    pub max_events: u64,
    /// Write all TCP connections to this file, for `analyze http`
    #[arg(long, value_name = "FILE")]
    pub connections: Option<PathBuf>,
    /// Write the packets of the first video stream to this file, for `analyze video` and the model `trace`
    #[arg(long, value_name = "FILE")]
    pub packets: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `layercast workload analyze`.
#[derive(Debug, Subcommand)]
pub enum Analyze {
    /// Group HTTP connections into pages: sizes, pauses, visits, popular servers
    Http(AnalyzeHttp),
    /// Classify video packets as changed blocks or background refresh
    Video(AnalyzeVideo),
}

/// `layercast workload analyze http`.
#[derive(Debug, Args)]
#[command(after_help = "\
A trace has a line for each TCP connection, in any order:
client,server,port,start,end,sent,received. Times are in seconds (relative or since 1970), sizes in
bytes of payload from and to the client; # starts a comment. --out writes a file of samples per
quantity, for `layercast workload import` and `compare`.")]
pub struct AnalyzeHttp {
    /// The trace; `-` is standard input
    pub trace: PathBuf,
    /// Longest pause between the connections of one page
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::span)]
    pub threshold: Span,
    /// Port of the servers; other connections are ignored
    #[arg(long, value_name = "PORT", default_value_t = 80, value_parser = units::whole(0..=u16::MAX))]
    pub port: u16,
    /// Ignore this host, e.g. a server whose pages reload themselves; repeatable
    #[arg(long, value_name = "HOST")]
    pub without: Vec<String>,
    /// Folder for the samples
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `layercast workload analyze video`.
#[derive(Debug, Args)]
#[command(after_help = "\
A trace has a line for each packet of one stream: seconds,bytes. Times are relative or since 1970. A
packet carries changed blocks if the time to the next is closer to 8 size / rate than to the frame
interval.")]
pub struct AnalyzeVideo {
    /// The trace; `-` is standard input
    pub trace: PathBuf,
    /// Rate at which the coder paces changed blocks
    #[arg(long, value_name = "RATE", default_value = "128kbit/s", value_parser = units::rate)]
    pub rate: Rate,
    /// Frames per second
    #[arg(long, value_name = "N", default_value_t = 8.0, value_parser = frames)]
    pub fps: f64,
    /// Write every packet with the time to the next and its class to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn frames(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(n) if (0.001..=1e6).contains(&n) => Ok(n),
        _ => Err("a number from 0.001 to 1000000 is needed".into()),
    }
}

fn probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(p) if (0.0..1.0).contains(&p) => Ok(p),
        _ => Err("a number from 0 to below 1 is needed".into()),
    }
}
