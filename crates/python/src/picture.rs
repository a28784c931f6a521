//! Studies of picture quality on ATM: questions and answers travel as JSON.

use std::path::{Path, PathBuf};

use layercast_media::{ClassCensus, ClassifierConfig};
use layercast_picture::study::{LossSetting, MatrixSetting, Setting};
use layercast_sim::file;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::{MAX_CLIP, all, failed, json};

/// What can be asked.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
enum Question {
    /// Videos that share the buffer of a link.
    Run { settings: Vec<Setting> },
    /// A transport stream in cells of which some are lost.
    Losses {
        file: PathBuf,
        settings: Vec<LossSetting>,
    },
    /// Cells behind a parity matrix.
    Matrix { settings: Vec<MatrixSetting> },
    /// How much of a file is of each class.
    Classes { file: PathBuf },
}

/// Answers a question about picture quality.
#[pyfunction]
pub fn picture_json(py: Python<'_>, question: &str) -> PyResult<String> {
    let question: Question = serde_json::from_str(question).map_err(failed)?;
    py.detach(|| match question {
        Question::Run { settings } => json(&all(settings.iter().map(Setting::run))?),
        Question::Losses { file, settings } => {
            let data = read(&file)?;
            let packets = data.as_chunks().0;
            json(&all(settings.iter().map(|it| it.run(packets)))?)
        }
        Question::Matrix { settings } => json(&all(settings.iter().map(MatrixSetting::run))?),
        Question::Classes { file } => {
            let report = ClassCensus::of(&read(&file)?, ClassifierConfig::default());
            json(&report.map_err(failed)?)
        }
    })
}

fn read(path: &Path) -> PyResult<Vec<u8>> {
    Ok(file::read(path, MAX_CLIP)?)
}
