//! `layercast workload`: the distributions and models of application traffic.

use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use layercast_core::Stream;
use layercast_sim::file;
use layercast_workload::dist::{self, Columns, Distribution, Fit, Law, Problem, Unit};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::{Lines, Table, print, print_json};

mod analyze;
pub mod args;
mod offer;

use args::WorkloadCommand;

/// Runs the command.
pub fn run(args: &args::Workload) -> Outcome {
    match &args.command {
        WorkloadCommand::List(args) => list(args),
        WorkloadCommand::Sample(args) => sample(args),
        WorkloadCommand::Compare(args) => compare(args),
        WorkloadCommand::Import(args) => import(args),
        WorkloadCommand::Offered(args) => offer::run(args),
        WorkloadCommand::Analyze(args) => analyze::run(args),
    }
}

fn read(path: &str) -> Result<String, String> {
    file::read_text(Path::new(path), file::MAX_DATA_FILE)
        .map_err(|error| format!("cannot read {path}: {error}"))
}

fn find(text: &str) -> Result<Distribution, Failure> {
    Distribution::find(text, &read).map_err(|error| {
        let failure = Failure::new(&error);
        match error.problem {
            Problem::Unknown => failure.hint("layercast workload list shows the names"),
            _ => failure,
        }
    })
}

/// A distribution in a list.
#[derive(Serialize)]
struct Entry {
    /// Name of the distribution.
    name: String,
    /// Unit of its values.
    unit: Unit,
    /// Number of knots; a formula has none.
    knots: Option<usize>,
    /// Mean.
    mean: f64,
    /// Median.
    p50: f64,
    /// 90th percentile.
    p90: f64,
    /// 99th percentile.
    p99: f64,
    /// Largest value; null if there is none.
    max: f64,
    /// The source of the distribution.
    source: String,
}

impl Entry {
    fn of(dist: Distribution) -> Entry {
        Entry {
            unit: dist.unit,
            knots: match &dist.law {
                Law::Knots(law) => Some(law.knots().len()),
                Law::Formula(_) => None,
            },
            mean: dist.mean(),
            p50: dist.quantile(0.5),
            p90: dist.quantile(0.9),
            p99: dist.quantile(0.99),
            max: dist.quantile(1.0),
            name: dist.name,
            source: dist.source,
        }
    }
}

fn list(args: &args::List) -> Outcome {
    let chosen: Result<Vec<Distribution>, Failure> = match args.names.is_empty() {
        true => dist::names().map(find).collect(),
        false => args.names.iter().map(|name| find(name)).collect(),
    };
    let entries: Vec<Entry> = chosen?.into_iter().map(Entry::of).collect();
    if args.json {
        return print_json(&entries);
    }
    let mut table = Table::new(&["name", "unit", "knots", "mean", "p50", "p90", "p99", "max"]);
    for entry in &entries {
        let knots = entry.knots.map_or("formula".to_owned(), |n| n.to_string());
        let numbers = [entry.mean, entry.p50, entry.p90, entry.p99, entry.max].map(number);
        let head = [entry.name.clone(), entry.unit.to_string(), knots];
        table.row(head.into_iter().chain(numbers));
    }
    print(&table.render())
}

/// A number as short as it stays readable.
fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "inf".to_owned(),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        ..10.0 => format!("{value:.3}"),
        ..1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The random stream of the samples: `sample` and `compare` draw the same.
fn stream(dist: &Distribution, seed: u64) -> Stream {
    Stream::new(seed, &format!("workload/sample/{}", dist.name))
}

fn draws(dist: &Distribution, n: usize, seed: u64) -> Vec<f64> {
    let mut stream = stream(dist, seed);
    (0..n).map(|_| dist.sample(&mut stream)).collect()
}

fn sample(args: &args::Sample) -> Outcome {
    let dist = find(&args.name)?;
    let mut stream = stream(&dist, args.seed);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut all = || {
        writeln!(out, "{}_{}", dist.name.replace([',', ' '], "_"), dist.unit)?;
        for _ in 0..args.count {
            writeln!(out, "{}", dist.sample(&mut stream))?;
        }
        out.flush()
    };
    all().map_err(|error| Lines::Stdout.failure(&error))
}

/// Samples compared with a distribution.
#[derive(Serialize)]
struct Comparison {
    /// Name of the distribution.
    name: String,
    /// Unit of its values.
    unit: Unit,
    /// The Kolmogorov-Smirnov test.
    fit: Fit,
    /// Means of both.
    mean: Pair,
    /// Quantiles of both, each with its probability.
    quantiles: Vec<(f64, Pair)>,
    /// Whether `fit.p_value` is at least `level`.
    agrees: bool,
    /// Level of significance.
    level: f64,
}

/// A value of a distribution and of samples.
#[derive(Serialize)]
struct Pair {
    /// The value of the distribution.
    data: f64,
    /// The value of the samples.
    samples: f64,
}

fn compare(args: &args::Compare) -> Outcome {
    let dist = find(&args.name)?;
    let mut samples = match &args.samples {
        Some(path) => read_samples(path)?,
        None => draws(&dist, args.count, args.seed),
    };
    let fit = dist::fit(&mut samples, &dist);
    let fit = fit.ok_or_else(|| Failure::new("there is nothing to compare: no samples"))?;
    // The samples are sorted now.
    let quantile = |p: f64| {
        let rank = (p * samples.len() as f64).ceil().max(1.0) as usize;
        samples[rank.min(samples.len()) - 1]
    };
    let points = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999];
    let quantiles = points.map(|p| {
        let (data, samples) = (dist.quantile(p), quantile(p));
        (p, Pair { data, samples })
    });
    let comparison = Comparison {
        name: dist.name.clone(),
        unit: dist.unit,
        fit,
        mean: Pair {
            data: dist.mean(),
            samples: samples.iter().sum::<f64>() / samples.len() as f64,
        },
        quantiles: quantiles.into(),
        agrees: fit.p_value >= args.level,
        level: args.level,
    };
    match args.json {
        true => print_json(&comparison)?,
        false => print(&describe(&comparison))?,
    }
    match comparison.agrees {
        true => Ok(()),
        false => Err(Failure::Unsatisfied),
    }
}

fn describe(comparison: &Comparison) -> String {
    let Comparison {
        name, unit, fit, ..
    } = comparison;
    let mut table = Table::new(&["", "data", "samples"]);
    let pair = |pair: &Pair| [number(pair.data), number(pair.samples)];
    let mean = ["mean".to_owned()].into_iter();
    table.row(mean.chain(pair(&comparison.mean)));
    for (p, values) in &comparison.quantiles {
        let label = [format!("p{}", number(100.0 * p))].into_iter();
        table.row(label.chain(pair(values)));
    }
    let verdict = match comparison.agrees {
        true => "agrees",
        false => "DIFFERS",
    };
    format!(
        "{name}, {unit}, {} samples\n{}Kolmogorov-Smirnov: D = {:.4}, p = {:.3}: {verdict} (level {})\n",
        fit.samples,
        table.render(),
        fit.distance,
        fit.p_value,
        comparison.level
    )
}

fn read_samples(path: &Path) -> Result<Vec<f64>, Failure> {
    let text = read_text(path)?;
    let mut samples = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.parse::<f64>() {
            Ok(value) if value.is_finite() => samples.push(value),
            // A heading, as `workload sample` writes one.
            Err(_) if line.is_empty() || index == 0 => {}
            _ => {
                let what = format!("{}:{}: not a number: {line}", path.display(), index + 1);
                return Err(Failure::new(what).hint("one sample a line"));
            }
        }
    }
    Ok(samples)
}

fn read_text(path: &Path) -> Result<String, Failure> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        let most = file::MAX_DATA_FILE;
        let result = io::stdin().lock().take(most + 1).read_to_end(&mut bytes);
        result.map_err(|error| Failure::file(path, "read", &error))?;
        if bytes.len() as u64 > most {
            let what = format!("standard input has more than {} MiB", most >> 20);
            return Err(Failure::new(what).hint("give a part of it, by way of: head -c 100M"));
        }
        return file::text(bytes).map_err(|error| not_text(path, error.as_bytes()));
    }
    let bytes = file::read(path, file::MAX_DATA_FILE)
        .map_err(|error| Failure::file(path, "read", &error))?;
    file::text(bytes).map_err(|error| not_text(path, error.as_bytes()))
}

/// A file that should be text and is not.
fn not_text(path: &Path, bytes: &[u8]) -> Failure {
    // Text in another encoding is known as text, which would contradict.
    match layercast_media::identify(bytes).filter(|known| known.what != "text") {
        Some(known) => Failure::of(
            path,
            format!("expected a text file, but this is {}", known.what),
        )
        .hint(known.remedy.to_string()),
        None => Failure::of(path, "expected a text file, but this is not text (UTF-8)"),
    }
}

fn import(args: &args::Import) -> Outcome {
    let text = read_text(&args.file)?;
    let place = args.file.display().to_string();
    let columns = match args.columns {
        args::Columns::Samples => Columns::Samples,
        args::Columns::ValueCdf => Columns::ValueCdf,
        args::Columns::ValueCountCdf => Columns::ValueCountCdf,
    };
    let kind = match args.whole {
        true => dist::Kind::Int,
        false => dist::Kind::Cont,
    };
    let unit = args.unit.parse();
    let unit = unit.map_err(|()| Failure::Usage(Problem::Unit(args.unit.clone()).to_string()))?;
    let mut dist =
        dist::import(&place, &text, columns, &args.name, unit, kind).map_err(Failure::new)?;
    if let Some(distance) = args.condense {
        dist = dist::condense(&dist, distance);
    }
    print(&dist.to_file().unwrap_or_default())
}
