//! The synchronicity index of a path: an estimator to feed, and the studies; questions and options travel as JSON.

use layercast_core::{Span, Time};
use layercast_sync_index::selfsim::{rs_pox, rs_prefix, variance_time};
use layercast_sync_index::study::{Analysed, AnalysisSetting, Setting, Trace};
use layercast_sync_index::{
    Arrival, Estimator, EstimatorConfig, Event, Filter, Mode, Numbers, Run, calibrate,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{all, failed, json};

/// Departures and arrivals are counted from here, so that they may have any origin.
const ORIGIN_S: f64 = 1_000.0;
/// Longest time from the first packet, seconds: 115 days.
const LONGEST_S: f64 = 1e7;

/// What can be asked.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
enum Question {
    /// Trains beside other traffic, each analysed in some ways.
    Run {
        settings: Vec<Setting>,
        analyses: Vec<AnalysisSetting>,
    },
    /// Rescaled range and variance-time of a series.
    Selfsim { series: Vec<f64> },
    /// Thresholds of the levels of a service, from pairs of index and quality.
    Calibrate {
        name: String,
        levels: Vec<String>,
        runs: Vec<(f64, String)>,
    },
}

#[derive(Serialize)]
struct Ran {
    #[serde(flatten)]
    trace: Trace,
    analyses: Vec<Analysed>,
}

/// Answers a question about synchronous trains.
#[pyfunction]
fn sync_index_json(py: Python<'_>, question: &str) -> PyResult<String> {
    let question: Question = serde_json::from_str(question).map_err(failed)?;
    py.detach(|| match question {
        Question::Run { settings, analyses } => json(&all(settings.iter().map(|setting| {
            let trace = setting.run()?;
            let analyses = analyses.iter().map(|it| trace.analyse(*it));
            let analyses = analyses.collect::<Result<_, _>>()?;
            Ok::<_, layercast_sync_index::study::StudyError>(Ran { trace, analyses })
        }))?),
        Question::Selfsim { series } => json(&serde_json::json!({
            "rs_prefix": rs_prefix(&series),
            "rs_pox": rs_pox(&series),
            "variance_time": variance_time(&series),
        })),
        Question::Calibrate { name, levels, runs } => {
            let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
            let runs = runs
                .into_iter()
                .map(|(xi_ms, quality)| Run { xi_ms, quality });
            let runs: Vec<Run> = runs.collect();
            json(&calibrate(&name, &levels, &runs).map_err(failed)?)
        }
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    period_ms: f64,
    m: u16,
    n: u16,
    eps: f64,
    mode: Mode,
    filter: Filter,
    resolution_ms: f64,
    baseline_ms: f64,
}

/// Computes the index of a train from its arrivals.
#[pyclass(module = "layercast._layercast")]
struct SyncEstimator {
    estimator: Estimator,
    /// The first arrival and the first departure.
    first: (Option<f64>, Option<f64>),
}

fn ms(value: f64) -> Span {
    Span::from_secs_f64(value / 1e3)
}

/// The instant `at` seconds, counted from the first one.
fn since(first: &mut Option<f64>, at: f64, what: &str) -> PyResult<Span> {
    // A value that is refused is no origin.
    let off = at - first.unwrap_or(at);
    match (-ORIGIN_S..=LONGEST_S).contains(&off) {
        true => {
            first.get_or_insert(at);
            Ok(Span::from_secs_f64(ORIGIN_S + off))
        }
        false => Err(PyValueError::new_err(format!(
            "{what} is {at}: give seconds, at most 115 days after the first packet"
        ))),
    }
}

#[pymethods]
impl SyncEstimator {
    #[new]
    fn new(options: &str) -> PyResult<SyncEstimator> {
        let options: Options = serde_json::from_str(options).map_err(failed)?;
        let config = EstimatorConfig {
            lags: options.m,
            windows: options.n,
            percentile: options.eps,
            mode: options.mode,
            filter: options.filter,
            resolution: ms(options.resolution_ms),
            baseline: ms(options.baseline_ms),
        };
        let estimator = Estimator::new(config, ms(options.period_ms), Numbers::Long);
        Ok(SyncEstimator {
            estimator: estimator.map_err(failed)?,
            first: (None, None),
        })
    }

    /// Takes a packet, and gives what it leads to as a list in JSON.
    fn feed(&mut self, arrival_s: f64, seq: u32, tx_s: Option<f64>) -> PyResult<String> {
        let at = Time::ZERO + since(&mut self.first.0, arrival_s, "the arrival")?;
        let sent = tx_s.map(|tx| since(&mut self.first.1, tx, "the departure"));
        let sent_ns = sent.transpose()?.map(Span::as_ns);
        self.estimator.on_timeout(at);
        self.estimator.arrive(Arrival {
            sent_ns,
            ..Arrival::new(at, seq)
        });
        json(&self.events())
    }

    /// What the present instant leads to, if no packet came.
    fn advance(&mut self, now_s: f64) -> PyResult<String> {
        let now = Time::ZERO + since(&mut self.first.0, now_s, "the present instant")?;
        self.estimator.on_timeout(now);
        json(&self.events())
    }

    /// What arrived so far.
    fn counters(&self) -> PyResult<String> {
        json(&self.estimator.counters())
    }
}

impl SyncEstimator {
    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.estimator.poll_event()).collect()
    }
}

/// Adds what this file defines to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SyncEstimator>()?;
    module.add_function(wrap_pyfunction!(sync_index_json, module)?)
}
