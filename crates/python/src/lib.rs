//! Python bindings of Layercast: scenarios in, summaries out; live flows on asyncio. `python/layercast` puts
//! arrays and classes on top.

mod live;

use std::fmt::Display;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use layercast_core::Off;
use layercast_media::Clip;
use layercast_sim::Simulation;
use layercast_sim::scenario::Scenario;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

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

/// Runs a scenario (`form` is "toml" or "json") and returns its summary as JSON.
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
    let mut scenario = match form {
        "toml" => Scenario::from_toml(text, base_dir),
        _ => Scenario::from_json(text, base_dir),
    }
    .map_err(failed)?;
    scenario.seed = seed.unwrap_or(scenario.seed);
    py.detach(|| {
        let network = scenario.validate().map_err(failed)?;
        let summary = Simulation::new(network).run(&mut Off, None, |_| ControlFlow::Continue(()));
        json(&summary?)
    })
}

/// What a video file consists of, as JSON: container, codec, size, pictures, GOPs, layers.
#[pyfunction]
fn probe_json(path: PathBuf) -> PyResult<String> {
    let clip = Clip::parse(fs::read(path)?.into()).map_err(failed)?;
    json(&clip.summary())
}

#[pymodule]
fn _layercast(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LayercastError", module.py().get_type::<LayercastError>())?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(probe_json, module)?)?;
    live::add_to(module)
}
