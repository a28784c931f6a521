//! Python bindings of Layercast: scenarios in, summaries out; live flows on asyncio. `python/layercast` puts
//! arrays and classes on top.

mod admission;
mod fec;
mod files;
mod live;
mod monitor;
mod multicast;
mod partial_order;
mod picture;
mod sync_index;
mod xtp;

use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use layercast_core::Off;
use layercast_media::Clip;
use layercast_sim::group::scenario::{GroupScenario, is_group};
use layercast_sim::internet::scenario::{self as internetwork, is_internet};
use layercast_sim::internet::{Internet, Measurements, Summary};
use layercast_sim::scenario::Scenario;
use layercast_sim::{Outputs, Simulation, file};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

/// Largest clip that is probed, in bytes: it is read into memory as a whole.
const MAX_CLIP: u64 = 16 << 30;

create_exception!(
    _layercast,
    LayercastError,
    PyValueError,
    "A scenario or clip that cannot be used; the text says where, and what is accepted."
);

fn failed(error: impl Display) -> PyErr {
    LayercastError::new_err(error.to_string())
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(failed)
}

/// What a model says of each point.
fn each<P, A: Serialize>(points: Vec<P>, model: impl Fn(P) -> A) -> PyResult<String> {
    json(&points.into_iter().map(model).collect::<Vec<A>>())
}

/// All answers, or the first error.
fn all<A, E: Display>(answers: impl Iterator<Item = Result<A, E>>) -> PyResult<Vec<A>> {
    answers.collect::<Result<_, E>>().map_err(failed)
}

/// Runs a scenario (`form` is "toml" or "json") of METS, of an internetwork or of a group and returns its summary as JSON.
#[pyfunction]
#[pyo3(signature = (text, form, base_dir, seed=None))]
fn run(
    py: Python<'_>,
    text: &str,
    form: &str,
    base_dir: &str,
    seed: Option<u64>,
) -> PyResult<String> {
    let base_dir = Path::new(base_dir);
    let schema = schema_of(text);
    let group = match form {
        "toml" => is_group(text).then(|| GroupScenario::from_toml(text)),
        _ => schema
            .starts_with("group/")
            .then(|| GroupScenario::from_json(text)),
    };
    if let Some(scenario) = group {
        let scenario = scenario.map_err(failed)?;
        return py.detach(|| run_group(scenario, seed));
    }
    let internet = match form {
        "toml" => is_internet(text).then(|| internetwork::Scenario::from_toml(text, base_dir)),
        _ => (!schema.is_empty()).then(|| internetwork::Scenario::from_json(text, base_dir)),
    };
    if let Some(scenario) = internet {
        let scenario = scenario.map_err(failed)?;
        return py.detach(|| run_internet(scenario, seed));
    }
    let mut scenario = match form {
        "toml" => Scenario::from_toml(text, base_dir),
        _ => Scenario::from_json(text, base_dir),
    }
    .map_err(failed)?;
    scenario.seed = seed.unwrap_or(scenario.seed);
    py.detach(|| {
        let network = scenario.validate().map_err(failed)?;
        let summary = Simulation::new(network)
            .run(&mut Off, Outputs::default(), |_| ControlFlow::Continue(()));
        json(&summary?)
    })
}

/// The schema that the JSON object names, as all but scenarios of METS do; empty: none.
fn schema_of(text: &str) -> String {
    let object = serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    let name = object.get("schema").map(|name| name.as_str());
    name.map_or(String::new(), |name| name.unwrap_or("?").to_owned())
}

fn run_group(mut scenario: GroupScenario, seed: Option<u64>) -> PyResult<String> {
    scenario.run.seed = seed.unwrap_or(scenario.run.seed);
    let started = Instant::now();
    let group = scenario.resolve().map_err(failed)?;
    let mut simulation = layercast_sim::group::Simulation::new(group).map_err(failed)?;
    simulation.run(|_| true);
    let mut summary = simulation.summary();
    summary.wall_seconds = started.elapsed().as_secs_f64();
    json(&summary)
}

fn run_internet(mut scenario: internetwork::Scenario, seed: Option<u64>) -> PyResult<String> {
    scenario.run.seed = seed.unwrap_or(scenario.run.seed);
    let network = scenario.resolve().map_err(failed)?;
    let started = Instant::now();
    let mut measurements = Measurements::new(&network);
    let report = Internet::new(&network)
        .map_err(failed)?
        .run(&mut measurements);
    json(&Summary {
        scenario: scenario.name,
        seed: network.seed,
        wall_seconds: started.elapsed().as_secs_f64(),
        report,
        measurements: measurements.finish(),
    })
}

/// What a video file consists of, as JSON: container, codec, size, pictures, GOPs, layers.
#[pyfunction]
fn probe_json(path: &[u8]) -> PyResult<String> {
    let clip = file::read(Path::new(OsStr::from_bytes(path)), MAX_CLIP)?;
    let clip = Clip::parse(clip.into()).map_err(failed)?;
    json(&clip.summary())
}

#[pymodule]
fn _layercast(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LayercastError", module.py().get_type::<LayercastError>())?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(probe_json, module)?)?;
    module.add_function(wrap_pyfunction!(multicast::multicast_json, module)?)?;
    module.add_function(wrap_pyfunction!(fec::fec_json, module)?)?;
    module.add_function(wrap_pyfunction!(admission::admission_json, module)?)?;
    module.add_function(wrap_pyfunction!(picture::picture_json, module)?)?;
    files::add_to(module)?;
    live::add_to(module)?;
    partial_order::add_to(module)?;
    sync_index::add_to(module)?;
    monitor::add_to(module)?;
    xtp::add_to(module)
}
