//! Studies of admission control: a question in JSON, its answer in JSON.

use layercast_admission::OnOff;
use layercast_admission::study::{Policing, Setting};
use layercast_core::{Rate, Span};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::{all, each, failed, json};

/// What can be asked.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
enum Question {
    /// Runs of a link, one after the other.
    Run { settings: Vec<Setting> },
    /// Token rates in bit/s of equation 3: peak in bit/s, times ON and OFF in seconds, depth in bits, loss.
    TokenRate {
        points: Vec<(f64, f64, f64, f64, f64)>,
    },
    /// Losses: peak, times ON and OFF, token rate in bit/s, depth in bits.
    Loss {
        points: Vec<(f64, f64, f64, f64, f64)>,
    },
    /// Sources at a leaky bucket.
    Policing { settings: Vec<Policing> },
}

/// Answers a question about admission control.
#[pyfunction]
pub fn admission_json(py: Python<'_>, question: &str) -> PyResult<String> {
    let question: Question = serde_json::from_str(question).map_err(failed)?;
    py.detach(|| answer(question))
}

fn source(peak: f64, on: f64, off: f64) -> OnOff {
    OnOff {
        peak: Rate::from_bps(peak.round() as u64),
        on: Span::from_secs_f64(on),
        off: Span::from_secs_f64(off),
    }
}

fn answer(question: Question) -> PyResult<String> {
    match question {
        Question::Run { settings } => json(&all(settings.iter().map(Setting::run))?),
        Question::TokenRate { points } => each(points, |(peak, on, off, depth, loss)| {
            source(peak, on, off).token_rate(depth, loss)
        }),
        Question::Loss { points } => each(points, |(peak, on, off, rate, depth)| {
            source(peak, on, off).loss(rate, depth)
        }),
        Question::Policing { settings } => json(&all(settings.iter().map(Policing::run))?),
    }
}
