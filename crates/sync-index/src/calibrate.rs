//! Thresholds of a service from runs under increasing load (specs/available-bandwidth.md 2.9).

use serde::Serialize;
use thiserror::Error;

use crate::service::{Service, ServiceLevel};

/// Part of the runs up to a threshold whose quality must hold.
const HOLDS: f64 = 0.95;

/// A run: the index of the path, and the quality that the service had.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Index, milliseconds.
    pub xi_ms: f64,
    /// Name of the quality; a name of no level means that none was reached.
    pub quality: String,
}

/// Why there are no thresholds.
#[derive(Clone, PartialEq, Debug, Error, Serialize)]
pub enum CalibrationError {
    /// No run.
    #[error(
        "there is no run: record one line for each run, with its index and the quality that the service had"
    )]
    NoRun,
    /// The index of a run is no number.
    #[error("the index of run {0} is {1}: it is a number of milliseconds, not below 0")]
    Index(usize, f64),
    /// A level is never reached.
    #[error(
        "level {0} does not hold in 95 % of the runs up to any index: add runs with a lighter load, or remove the level"
    )]
    Never(String),
}

/// The largest index of each level, best first, up to which the quality is at least that of the level in 95 % of the
/// runs.
///
/// Indices are compared by `<`: the threshold is above the last run that holds by a thousandth. Levels that hold up to the
/// same run have the same threshold, and only the better one is in the table.
///
/// # Errors
/// There are no runs, or a level never holds.
pub fn calibrate(name: &str, levels: &[&str], runs: &[Run]) -> Result<Service, CalibrationError> {
    if runs.is_empty() {
        return Err(CalibrationError::NoRun);
    }
    if let Some((at, run)) =
        (runs.iter().enumerate()).find(|(_, it)| !(it.xi_ms >= 0.0 && it.xi_ms.is_finite()))
    {
        return Err(CalibrationError::Index(at + 1, run.xi_ms));
    }
    let mut sorted: Vec<&Run> = runs.iter().collect();
    sorted.sort_by(|a, b| a.xi_ms.total_cmp(&b.xi_ms));
    let mut level: Vec<ServiceLevel> = Vec::new();
    for (place, wanted) in levels.iter().enumerate() {
        let mut good = 0_usize;
        let mut holds = None;
        for (count, run) in sorted.iter().enumerate() {
            good += usize::from(levels[..=place].contains(&run.quality.as_str()));
            // Runs of one index are on one side of a threshold.
            let is_last = sorted
                .get(count + 1)
                .is_none_or(|next| next.xi_ms > run.xi_ms);
            if is_last && good as f64 >= HOLDS * (count + 1) as f64 {
                holds = Some(run.xi_ms);
            }
        }
        let xi = holds.ok_or_else(|| CalibrationError::Never((*wanted).to_owned()))?;
        let xi_max_ms = (1e4 * (xi * 1.001 + 0.001)).ceil() / 1e4;
        if level.last().is_none_or(|it| it.xi_max_ms < xi_max_ms) {
            level.push(ServiceLevel {
                name: (*wanted).to_owned(),
                xi_max_ms,
                queue_max_ms: None,
            });
        }
    }
    Ok(Service {
        name: name.to_owned(),
        level,
    })
}
