//! Models of reliable multicast: a question in JSON, its answer in JSON.

use layercast_multicast::model::{
    Buffer, CpuCost, FrmModel, ModelError, Overflow, RmtpModel, Session, estimate, mean_rounds,
    recursion, round, rule_of_thumb,
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{all, each, failed, json};

/// What can be asked; points are lists of numbers in the order of the arguments in Rust.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
enum Question {
    /// M, N, e: mean rounds of retransmission.
    MeanRounds { points: Vec<(f64, f64, f64)> },
    /// M, N, e: the paper's rule of thumb.
    RuleOfThumb { points: Vec<(f64, f64, f64)> },
    /// M, N, e, k: what is left before pass k.
    Round { points: Vec<(f64, f64, f64, u32)> },
    /// M, N, e, passes: the recursion that the paper prints.
    Recursion { points: Vec<(f64, f64, f64, u8)> },
    /// Sessions of RMTP.
    Session { models: Vec<RmtpModel> },
    /// V(x) of a number of responses, for each buffer, with this mean time between responses (seconds).
    Overflow {
        delta: f64,
        buffers: Vec<Buffer>,
        responses: Vec<u32>,
    },
    /// N, M, e, v, TAT, delta: what to expect.
    Estimate {
        points: Vec<(u64, u64, f64, f64, f64, f64)>,
    },
    /// The group size that FRM's sender keeps up with, and what is behind it.
    Frm {
        models: Vec<FrmModel>,
        receivers: Vec<f64>,
    },
}

/// A session and what it costs the server's processor, with the costs of 1996.
#[derive(Serialize)]
struct Costed {
    cpu: f64,
    #[serde(flatten)]
    session: Session,
}

#[derive(Serialize)]
struct Frm {
    knee: f64,
    /// Round trip, seconds, for each number of receivers.
    round_trip: Vec<f64>,
    /// Longest wait for the release, seconds.
    release: Vec<f64>,
    /// The processor for a round, seconds.
    management: Vec<f64>,
}

/// The largest state that overflow is asked for.
const MOST_STATES: u64 = 100_000_000;

/// Answers a question about models of reliable multicast.
#[pyfunction]
pub fn multicast_json(py: Python<'_>, question: &str) -> PyResult<String> {
    let question: Question = serde_json::from_str(question).map_err(failed)?;
    py.detach(|| answer(question))
}

fn answer(question: Question) -> PyResult<String> {
    match question {
        Question::MeanRounds { points } => each(points, |(m, n, e)| mean_rounds(m, n, e)),
        Question::RuleOfThumb { points } => each(points, |(m, n, e)| rule_of_thumb(m, n, e)),
        Question::Round { points } => each(points, |(m, n, e, k)| round(m, n, e, k)),
        Question::Recursion { points } => {
            each(points, |(m, n, e, passes)| recursion(m, n, e, passes))
        }
        Question::Session { models } => {
            let sessions = models.iter().map(|model| {
                let session = model.session()?;
                let cpu = CpuCost::SUN_1996.of(&session);
                Ok::<_, ModelError>(Costed { cpu, session })
            });
            json(&all(sessions)?)
        }
        Question::Overflow {
            delta,
            buffers,
            responses,
        } => {
            let most = responses.iter().copied().max().unwrap_or(0);
            let table = buffers.iter().map(|buffer| {
                if u64::from(most) * u64::from(buffer.packets) > MOST_STATES {
                    return Err("buffer times responses is more than 1e8");
                }
                let overflow = Overflow::new(most, buffer.packets, 1.0 / (delta * buffer.service));
                let of = responses.iter().map(|&x| overflow.of(x.into()));
                Ok(of.collect::<Vec<f64>>())
            });
            json(&all(table)?)
        }
        Question::Estimate { points } => {
            let estimates = points
                .into_iter()
                .map(|(n, m, e, v, tat, delta)| estimate(n, m, e, v, tat, delta));
            json(&all(estimates)?)
        }
        Question::Frm { models, receivers } => {
            let answers = models.iter().map(|model| {
                Ok::<_, ModelError>(Frm {
                    knee: model.knee()?,
                    round_trip: points(&receivers, |n| model.round_trip(n))?,
                    release: points(&receivers, |n| model.release(n))?,
                    management: receivers.iter().map(|&n| model.management(n)).collect(),
                })
            });
            json(&all(answers)?)
        }
    }
}

fn points(at: &[f64], of: impl Fn(f64) -> Result<f64, ModelError>) -> Result<Vec<f64>, ModelError> {
    at.iter().map(|&n| of(n)).collect()
}
