//! `layercast ilp calibrate`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use layercast_ilp::calibrate::{Fit, Point, fit, measure};
use layercast_ilp::harness::{Harness, HarnessError, pair};
use layercast_ilp::measure::Bench;
use layercast_ilp::profile::Temperature;
use serde::Serialize;

use super::cache;
use crate::failure::{Failure, Outcome};
use crate::output::{create, print, print_json, unwritten};

/// `layercast ilp calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Runs loops of one to eight synthetic functions, with one to twelve words of state and four to a
hundred instructions each, and fits the constants of the model to their times. The stages of the
library are measured one by one. Both are for layercast ilp explain --machine. --out writes them
to a file when all is measured: if there is no result, the file stays as it is. It takes some
seconds of a quiet machine: if other programs disturb the runs, there is no result (exit code
1), unless --force is given.

Examples:
  layercast ilp calibrate --force --out this.toml
  layercast ilp explain 9/10,9/10 --machine this.toml")]
pub struct Calibrate {
    /// Give a result, however busy the machine is
    #[arg(long)]
    pub force: bool,
    /// Name of the machine
    #[arg(long, value_name = "NAME", default_value = "this")]
    pub name: String,
    /// Write the machine file here, not to standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub out: Option<PathBuf>,
    /// Print one JSON object with all points (docs/src/reference/json-ilp.md)
    #[arg(long)]
    pub json: bool,
}

/// Runs of each stage of the library, of which the shortest counts.
const RUNS: u32 = 101;

/// Constants of a machine with the measurements behind them.
#[derive(Debug, Serialize)]
struct Report {
    /// The constants, and how well they predict.
    #[serde(flatten)]
    fit: Fit,
    /// The loops that were measured.
    points: Vec<Point>,
    /// Byte swap, trivial cipher and checksum: real loops, and synthetic ones of the same parameters.
    pair: Vec<Pair>,
    /// Octets of the largest cache.
    cache: usize,
}

/// Three stages as loops of their own and as one, in ns an octet.
#[derive(Debug, Serialize)]
struct Pair {
    /// Whether they are the generator's.
    synthetic: bool,
    /// Whether the buffers were in the cache.
    temperature: Temperature,
    /// One loop each.
    sequential_ns: f64,
    /// One loop for all.
    fused_ns: f64,
}

/// Runs the command.
pub fn run(args: &Calibrate) -> Outcome {
    let start = Instant::now();
    let mut clock = || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let cache = cache();
    let mut harness = Harness::new(&mut clock, cache);
    harness.forced = args.force;
    let points = measure(&mut harness).map_err(failed)?;
    let mut pairs = Vec::new();
    for (synthetic, (apart, fused)) in [(false, pair::REAL), (true, pair::SYNTHETIC)] {
        for temperature in [Temperature::Warm, Temperature::Cold] {
            let sequential_ns = harness.time(apart, temperature).map_err(failed)?.median;
            let fused_ns = harness.time(&[fused], temperature).map_err(failed)?.median;
            pairs.push(Pair {
                synthetic,
                temperature,
                sequential_ns,
                fused_ns,
            });
        }
    }
    let mut fit = fit(&args.name, &points);
    fit.profile.stages = Bench::new(&mut clock, RUNS, cache).stages();
    if args.json {
        return print_json(&Report {
            fit,
            points,
            pair: pairs,
            cache,
        });
    }
    let text = toml::to_string(&fit.profile).map_err(Failure::new)?;
    let text = format!(
        "# Half of the predictions are within {:.0} %, nine tenths within {:.0} %; the better of one loop\n\
         # and one for each stage is predicted at {:.0} % of the points.\n{text}",
        100.0 * fit.median_error,
        100.0 * fit.p90_error,
        100.0 * fit.right,
    );
    match &args.out {
        Some(path) => write(path, &text),
        None => print(&text),
    }
}

/// Writes a file as a whole: a reader has the former content or the new one.
fn write(path: &Path, text: &str) -> Outcome {
    let is_other = fs::metadata(path).is_ok_and(|meta| !meta.is_file());
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    // A pipe or a device has no content to keep.
    let part = if is_other {
        path.to_owned()
    } else {
        PathBuf::from(part)
    };
    let written = create(&part)?.write_all(text.as_bytes());
    written.map_err(|error| unwritten(&part, &error))?;
    match is_other {
        true => Ok(()),
        false => fs::rename(&part, path).map_err(|error| Failure::file(path, "write", &error)),
    }
}

fn failed(error: HarnessError) -> Failure {
    let noisy = matches!(error, HarnessError::Noisy(_));
    let failure = Failure::new(error);
    match noisy {
        true => failure.hint("try again when it is quiet, or give --force"),
        false => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_file_is_written_as_a_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("this.toml");
        for text in ["first", "second, longer"] {
            write(&path, text).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
